"""How many evaluations a target takes, and how solvers compare: pure NumPy.

A cost is the number of evaluations that a solver needed: `inf` where it did not get there within the budget,
NaN where it was not run at all. Arrays of costs have one row per problem and one column per solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def best_value(f0: float, known: float, reached: float, accuracy: float) -> float:
    """Return f* of a problem: the lowest value that any solver reached.

    If that is within `accuracy` of the lowest value known, f* is the lower of the two. A known value that no
    solver comes near, say one in another valley, does not count.
    """
    near = reached - known <= accuracy * (f0 - known)
    return min(reached, known) if near else reached


def evaluations_to(
    improvements: Sequence[tuple[int, float]], f0: float, best: float, accuracy: float
) -> float:
    """Return the number of the first evaluation with (f − f*)/(f0 − f*) ≤ accuracy, or `inf`."""
    # not as a quotient: f0 may be f*
    enough = (k for k, f in improvements if f - best <= accuracy * (f0 - best))
    return float(next(enough, np.inf))


def per_unknown(costs: ArrayLike, n: ArrayLike) -> Floats:
    """Return costs/(n + 1), with one n per problem: what a data profile counts."""
    return np.asarray(costs, dtype=float) / (np.asarray(n)[:, None] + 1)


def over_fewest(costs: ArrayLike) -> Floats:
    """Return costs over the least cost of the problem: what a performance profile counts."""
    array = np.asarray(costs, dtype=float)
    fewest = np.fmin.reduce(array, axis=1, initial=np.inf)
    return np.divide(array, fewest[:, None], out=np.full_like(array, np.inf), where=np.isfinite(array))


def profile(measures: ArrayLike, at: ArrayLike) -> Floats:
    """Return the share of problems whose measure is no more than `at`: a row for each solver.

    Applied to `per_unknown` this is the data profile, applied to `over_fewest` the performance profile.
    """
    return (np.asarray(measures)[:, :, None] <= np.asarray(at, dtype=float)).mean(axis=0)


def geometric_mean(costs: ArrayLike, others: ArrayLike) -> tuple[float, int]:
    """Return the geometric mean of costs/others over the problems that both solve, and their number."""
    a, b = np.asarray(costs, dtype=float), np.asarray(others, dtype=float)
    both = np.isfinite(a) & np.isfinite(b)
    if not both.any():
        return np.nan, 0
    return float(np.exp(np.log(a[both] / b[both]).mean())), int(both.sum())


class Score(NamedTuple):
    """Problems won, lost and tied. Where neither is solved, or one was not run, there is no match."""

    wins: int
    losses: int
    ties: int


def score(costs: ArrayLike, others: ArrayLike) -> Score:
    """Count wins: fewer evaluations, or solved where the other did not."""
    a, b = np.asarray(costs, dtype=float), np.asarray(others, dtype=float)
    return Score(int((a < b).sum()), int((b < a).sum()), int(((a == b) & np.isfinite(a)).sum()))
