"""Base class of step rules, and the fixed step; the iteration calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from ...arrays import Array, Mask, MaybeArray, MaybeScalar, Scalar, Whole
from ...schedules import ByCurvature, Constant, L, Schedule, ScheduleLike, as_schedule
from .context import Context


class Along(NamedTuple):
    """The input of a step rule: k, x, f, ∇f, p, ∇fᵀp, the last α, the noise of f.

    `live` are the rows that need a step. An unfinished search has made `tried` trials, and its next one is at
    `trial`.
    """

    k: int
    x: Array
    f: Scalar
    g: Array
    p: Array
    slope: Scalar
    last: Scalar
    noise: Scalar = 0.0
    live: Mask = True
    trial: Scalar = 0.0
    tried: Whole = 0


class Chosen(NamedTuple):
    """A step: α, f and ∇f at the new point as far as evaluated (∇f for the rows `known`), the noise of f.

    Where `trial` is positive, α is 0 and the search continues from there in the next iteration.
    """

    alpha: Scalar
    f: MaybeScalar = None
    g: MaybeArray = None
    known: Mask = False
    noise: Scalar = 0.0
    trial: Scalar = 0.0
    tried: Whole = 0


class Step:
    """Base of all step rules."""

    searches = True  # the rule evaluates f at the new point, and may find no step
    wait = True  # a line search finishes within one iteration
    returns_gradient = False  # the g of a step is ∇f at the new point, where the evaluator's values bring it

    @property
    def constant(self) -> Scalar | None:
        """The α of every iteration, where it is always the same."""
        return None

    def prepare(self, total: int | None, rows: int | None) -> Step:
        """Fit schedules to a run of `total` iterations and `rows` rows, and check them."""
        return self

    def choose(self, context: Context, along: Along) -> Chosen:
        """Return α_k, 0 where no step was found, and the values known at the new point."""
        raise NotImplementedError


@dataclass(frozen=True)
class Fixed(Step):
    """α_k from a number or a schedule, independent of f."""

    schedule: ScheduleLike

    searches, returns_gradient = False, True

    @property
    def constant(self) -> Scalar | None:
        return self.schedule.value if isinstance(self.schedule, Constant) else None

    def prepare(self, total: int | None, rows: int | None) -> Step:
        schedule = as_schedule(self.schedule, "step", rows).fit(total)
        if isinstance(schedule, ByCurvature):
            raise ValueError(f"step: {schedule!r} is a schedule for lam only")
        known: Any = getattr(schedule, "value", ())
        if isinstance(schedule, L):
            known = (schedule.start, schedule.end)
        if not np.all(np.asarray(known) > 0):
            raise ValueError(f"step: expected positive values, got {known!r}")
        return Fixed(schedule)

    def choose(self, context: Context, along: Along) -> Chosen:
        alpha = cast(Schedule, self.schedule)(along.k)  # since `prepare`
        if isinstance(along.k, int) and not np.all(alpha > 0):  # what is traced has no value yet
            raise ValueError(f"step: expected positive values, got {alpha!r} at k = {along.k}")
        return Chosen(alpha)
