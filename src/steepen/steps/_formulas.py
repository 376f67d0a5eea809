"""The paper's step sizes, for a λ that may follow a schedule."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import theory
from ..schedules import ByCurvature, Mapped, Schedule, ScheduleLike, as_schedule


def safe(L: float, lam: ScheduleLike) -> Any:
    """Return Theorem 1's step 1/(L(1 + 2λL)²) for an L-smooth convex f.

    Examples
    --------
    >>> safe(L=1.0, lam=0.5)
    0.25
    """
    return _of_lam(partial(theory.safe_step, L), lam)


def quadratic_optimal(l: float, L: float, lam: ScheduleLike) -> Any:  # noqa: E741
    """Return the best constant step 2/((1+2λL)L + (1+2λl)l) on a quadratic with spectrum in [l, L].

    Examples
    --------
    >>> quadratic_optimal(l=1.0, L=1.0, lam=0.0)
    1.0
    """
    return _of_lam(partial(theory.quadratic_step, l, L), lam)


def _of_lam(formula: Any, lam: ScheduleLike) -> Any:
    if isinstance(lam, ByCurvature):
        raise ValueError(f"lam: expected values known in advance, got {lam!r}")
    if isinstance(lam, Schedule) or callable(lam):
        return Mapped(formula, as_schedule(lam, "lam"))
    return formula(lam)
