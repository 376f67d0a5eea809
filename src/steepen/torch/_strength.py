"""A λ or ρ as a function of the step."""

from __future__ import annotations

import math
from collections.abc import Callable

from .._tools.check import number
from ..schedules import ByCurvature, ScheduleLike, as_schedule

__all__ = ["strength_of"]


def strength_of(
    name: str, value: ScheduleLike, *, least: float = -math.inf, above: float = -math.inf
) -> Callable[[int], float]:
    """Return the strength by the step; a schedule that has ended keeps its last value."""
    what = "a number, 0 or more" if least == 0 else "a positive number" if above == 0 else "a finite number"
    if isinstance(value, int | float):
        number(name, value, f"{what}, a schedule, or a callable of the step", least=least, above=above)
    schedule = as_schedule(value, name)
    if isinstance(schedule, ByCurvature):
        raise ValueError(f"{name}: a schedule by the curvature needs the Hessian, which is not known here")
    last = schedule.length

    def at(k: int) -> float:
        strength = float(schedule(k if last is None else min(k, last - 1)))
        number(name, strength, f"a finite number at step {k}", least=least, above=above)
        return strength

    return at
