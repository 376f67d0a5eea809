"""Choosing on held-out data: the same number of trials for every method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class Choice(NamedTuple):
    """What is chosen on held-out data: the learning rate, the weight decay, and λ, ρ or the like."""

    lr: float
    decay: float
    strength: float = 0.0


def square(lr: Sequence[float], decay: Sequence[float], strengths: Sequence[float]) -> list[Choice]:
    """Return k² trials of k values each: every pair of values of any two of the three comes once.

    A Latin square. A method without a strength has all pairs of lr and weight decay.
    """
    levels = range(len(lr))
    return [Choice(lr[i], decay[j], strengths[(i + j) % len(lr)]) for i in levels for j in levels]


def best(scores: Sequence[float]) -> int | None:
    """Return the index of the highest score; the first of equals, None where none is a finite number."""
    fine = [i for i, score in enumerate(scores) if math.isfinite(score)]
    return max(fine, key=lambda i: scores[i]) if fine else None
