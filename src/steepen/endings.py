"""What an iterate says about the end of a run: f there, the step that led there, and a small gradient.

‖∇f‖ ≤ gtol may only reflect the units of f and x. It is doubted where, by the slope, x of twice the size
would change f by much (x is large), or where f is small. Nothing here evaluates anything.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING

from .arrays import namespace
from .status import Status
from .vectors import norm, ratio

if TYPE_CHECKING:
    from .run import Run

DOUBT, ALARMING = 10.0, 1e-2
"""‖∇f‖ ≤ gtol is doubted where, by the slope, x of twice the size would change more than DOUBT·gtol of f."""

NEAR = 1e-6
"""A step by this part of x or less does not move it."""

SMALL = 1e-3
"""f is small where neither it nor its decrease so far is more; the default gtol then says little."""

ENOUGH, MOST_DOUBTS = 1e-9, 3
"""A doubt ends where a step lowers f by no more than this part; after an ALARMING one, so often at most."""

CRAWLS = 1e-2
"""A search that fails again is the last if f has fallen by less than this part of all so far."""


class Doubt(enum.Enum):
    """Whether a gradient within gtol is doubted."""

    NONE = enum.auto()
    FALLS = enum.auto()
    """It is: steps still lower f."""
    STALLED = enum.auto()
    """It is, and steps lower f no more: the method may have something else to propose."""


def by_value(run: Run) -> Status | None:
    """Return the status that follows from f at the iterate, and from the step that led there."""
    here, before, tolerances = run.here, run.before, run.tolerances
    f = here.f
    if not tolerances.bottom <= f < math.inf:
        return Status.UNBOUNDED if f < tolerances.bottom else Status.NONFINITE_VALUE
    if not (tolerances.f or tolerances.x) or before is None or not run.moved:
        return None
    if tolerances.f:
        fall = run.f_before - f
        if 0 <= fall <= tolerances.f * max(abs(run.f_before), abs(f), 1.0):
            return Status.FTOL
    if tolerances.x and norm(here.x - before.x) <= tolerances.x * max(norm(here.x), 1.0):
        return Status.XTOL
    return None


def by_gradient(run: Run) -> Status | None:
    """Return the status that follows from the norm of ∇f."""
    tolerances = run.tolerances
    if not run.gradient_norm < math.inf:
        return Status.NONFINITE_GRADIENT
    if run.gnorm <= tolerances.g:
        return Status.CONVERGED
    return Status.RELATIVE if run.gnorm <= tolerances.rel * run.largest_gnorm else None


def doubted(run: Run) -> Doubt:
    """Return whether a gradient within gtol is doubted, and whether the steps still lower f."""
    here, unit = run.here, _unit(run)
    # a small f is doubted from the first step on, until steps no longer lower it: gtol has no unit there
    small = unit != 1.0 and here.k > 0
    if not (small or _change(run) > DOUBT * run.tolerances.g):
        return Doubt.NONE
    if here.k == 0:
        return Doubt.FALLS
    f = here.f
    falls = run.f_before - f > ENOUGH * max(abs(f), unit)
    if falls and run.step.constant is None and unit != 1.0:
        # where f is small there is one more way to tell: x does not move
        falls = run.before is not None and norm(here.x - run.before.x) > NEAR * norm(here.x)
    if falls or run.alpha == 0:
        return Doubt.FALLS
    if not run.searches:
        return Doubt.NONE
    steep = alarming(run) or of_small_gradient(run) is Status.LINE_SEARCH_FAILED
    return Doubt.STALLED if steep else Doubt.NONE


def alarming(run: Run) -> bool:
    """Return whether the doubt is so large that another step is worth a try, for the first few times."""
    return _change(run) > max(ALARMING, DOUBT * run.tolerances.g) and run.times_doubted < MOST_DOUBTS


def of_small_gradient(run: Run) -> Status:
    """Return how a run within gtol ends: a slope that would change f by more than all so far is not 0."""
    f, change = run.here.f, _slope_over_x(run)
    steep = change > ALARMING * max(abs(f), _unit(run))
    if steep and change > max(run.f_start - f, run.problem.gradients.rise(run.here.x)):
        return Status.LINE_SEARCH_FAILED
    return Status.CONVERGED


def _change(run: Run) -> float:
    """Return how much of f a change of x by its own size would change, by the slope."""
    return ratio(_slope_over_x(run), max(abs(run.here.f), _unit(run)))


def _slope_over_x(run: Run) -> float:
    """Return how much a change of x by its own size would change f, by the slope."""
    x = run.here.x
    wide = namespace(x).maximum(abs(x), namespace(x).ones_like(x))
    return norm(run.problem.space.measure(x, run.here.g) * wide)


def _unit(run: Run) -> float:
    """Return the unit of f: 1, or with the default gtol, |f| or its decrease so far if both are small."""
    if not run.tolerances.assumed:
        return 1.0
    f = run.here.f
    size = max(abs(f), run.f_start - f)
    return size if size < SMALL else 1.0
