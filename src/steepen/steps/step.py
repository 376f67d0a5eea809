"""The base of all step rules, and the fixed step."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np

from ..questions import Point, Vector
from ..schedules import ByCurvature, Constant, L, Schedule, ScheduleLike, as_schedule, of_row

if TYPE_CHECKING:
    from ..problem import Problem


class Found(NamedTuple):
    """A step: α, the next point, and f and ∇f there as far as the search has evaluated them.

    Examples
    --------
    >>> Found(0.5, [1.0, 2.0]).f is None
    True
    """

    alpha: float
    x: Vector
    f: float | None = None
    g: Vector = None


class Step:
    """Base of all step rules. One of your own is a class with `along`.

    A run works on a copy, made by `prepare`; what a step keeps in its fields is saved in checkpoints.

    Examples
    --------
    >>> import steepen as st
    >>> class Halving(st.steps.Step):
    ...     def along(self, problem, here, p, slope):
    ...         t = 1.0
    ...         while (f := (yield from problem.value(here.x + t * p))) >= here.f:
    ...             t = 0.5 * t
    ...         return st.steps.Found(t, here.x + t * p, f)
    >>> st.minimize(lambda x: x @ x, [3.0, 4.0], method="gd", step=Halving()).success
    True
    """

    noise: float = 0.0
    """The noise of f, as far as the search has met it."""

    @property
    def constant(self) -> float | None:
        """The α of every iteration, where it is always the same."""
        return None

    def prepare(self, total: int | None = None, row: int | None = None, rows: int | None = None) -> Self:
        """Return this rule for a run of `total` iterations, or for one row of a batch: a copy of its own."""
        return copy.deepcopy(self)

    def along(self, problem: Problem, here: Point, p: Vector, slope: float) -> Any:
        """Return the next point along p, a `Found`; None if there is no lower one. `slope` is ∇fᵀp.

        With bounds, it lies in the box: `problem.space.project(x)`. A rule that needs evaluations asks for
        them: `f = yield from problem.value(x)`, `g = yield from problem.gradient(x)`.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Fixed(Step):
    """α_k from a number or a schedule, independent of f.

    Examples
    --------
    >>> Fixed(0.01)
    Fixed(schedule=0.01)
    """

    schedule: ScheduleLike

    @property
    def constant(self) -> float | None:
        return cast(float, self.schedule.value) if isinstance(self.schedule, Constant) else None

    def prepare(self, total: int | None = None, row: int | None = None, rows: int | None = None) -> Self:
        schedule = as_schedule(self.schedule, "step", rows).fit(total)
        if isinstance(schedule, ByCurvature):
            raise ValueError(f"step: {schedule!r} is a schedule for lam only")
        known: Any = getattr(schedule, "value", ())
        if isinstance(schedule, L):
            known = (schedule.start, schedule.end)
        if not np.all(np.asarray(known) > 0):
            raise ValueError(f"step: expected positive values, got {known!r}")
        return type(self)(of_row(schedule, row))

    def along(self, problem: Problem, here: Point, p: Vector, slope: float) -> Found:
        alpha = float(cast(Schedule, self.schedule)(here.k))  # since `prepare`
        if not alpha > 0:
            raise ValueError(f"step: expected positive values, got {alpha!r} at k = {here.k}")
        x = alpha * p
        x += here.x
        return Found(alpha, problem.space.project(x))
