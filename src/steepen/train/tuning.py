"""Choosing on held-out data: the same number of trials for every method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .data import Data

__all__ = ["Choice", "best", "held_out", "square"]


class Choice(NamedTuple):
    """What is chosen on held-out data: the learning rate, the weight decay, and λ, ρ or the like.

    Examples
    --------
    >>> Choice(0.1, 5e-4, 0.2).lr
    0.1
    """

    lr: float
    decay: float
    strength: float = 0.0


def square(lr: Sequence[float], decay: Sequence[float], strengths: Sequence[float]) -> list[Choice]:
    """Return k² trials of k values each: every pair of values of any two of the three comes once.

    A Latin square. A method without a strength has all pairs of lr and weight decay.

    Examples
    --------
    >>> [tuple(trial) for trial in square((1, 2), (10, 20), (0.1, 0.2))]
    [(1, 10, 0.1), (1, 20, 0.2), (2, 10, 0.2), (2, 20, 0.1)]
    """
    levels = range(len(lr))
    return [Choice(lr[i], decay[j], strengths[(i + j) % len(lr)]) for i in levels for j in levels]


def best(scores: Sequence[float]) -> int | None:
    """Return the index of the highest score; the first of equals, None where none is a finite number.

    Examples
    --------
    >>> best([0.5, 0.7, float("nan")]), best([float("nan")])
    (1, None)
    """
    fine = [i for i, score in enumerate(scores) if math.isfinite(score)]
    return max(fine, key=lambda i: scores[i]) if fine else None


def held_out(data: Data, part: float) -> Data:
    """Return the training part without its last examples, to be judged by these.

    Examples
    --------
    >>> from steepen.train.data import load_data
    >>> data = held_out(load_data("digits"), 0.1)
    >>> len(data.x), len(data.x_test)
    (808, 90)
    """
    cut = len(data.x) - round(part * len(data.x))
    return Data(data.x[:cut], data.y[:cut], data.x[cut:], data.y[cut:])
