"""Does ‖∇f‖ ≤ gtol, which may only reflect units, mean a minimum? The iteration asks; evaluates nothing.

It is doubted where, by the slope, x of twice the size would change f by much (x is large), or f is small.
"""

from __future__ import annotations

from ...arrays import Mask, Scalar, Whole
from ...status import Status
from .context import Context
from .settings import Settings
from .state import SolverState

CONVERGED, LINE_SEARCH_FAILED = int(Status.CONVERGED), int(Status.LINE_SEARCH_FAILED)

DOUBT, ALARMING = 10.0, 1e-2
"""‖∇f‖ ≤ gtol is doubted where, by the slope, x of twice the size would change more than DOUBT·gtol of f."""

NEAR = 1e-6
"""A step by this part of x or less does not move it."""

SMALL = 1e-3
"""f is small where neither it nor its decrease so far is more; the default gtol then says little."""

ENOUGH, DOUBTS = 1e-9, 3
"""A doubt ends where a step lowers f by no more than this part; after an ALARMING one, so often at most."""


class SmallGradient:
    """Judges gradients within gtol."""

    def __init__(self, context: Context, settings: Settings):
        self._backend, self._space = context.backend, context.space
        self._step, self._gtol = settings.step, settings.tolerances.g
        self._assumed = settings.tolerances.assumed

    def doubted(self, c: SolverState, near: Mask) -> tuple[Mask, Mask]:
        """Return which rows within gtol go on, since their steps still lower f, and which of them stall.

        Those that stall have an ALARMING change left; the direction may have something else to propose.
        """
        backend, step_info, f = self._backend, c.step_info, c.point.f
        unit, doubt = self._unit(c), self.doubtful(c, near)
        if (c.k == 0) is True or not backend.any(doubt):
            return doubt, False
        falls = step_info.before - f > ENOUGH * backend.num.maximum(abs(f), unit)
        if self._step.constant is None:  # where f is small there is one more way to tell: x does not move
            moves = step_info.alpha * step_info.length > NEAR * backend.norm(c.point.x)
            falls = falls & ((unit == 1.0) | moves)
        falls = falls | (step_info.alpha == 0)
        if not self._step.searches:
            return doubt & falls, False
        steep = self.alarming(c) | (self.status(c) == LINE_SEARCH_FAILED)
        return doubt & falls, backend.and_not(doubt, falls) & steep

    def doubtful(self, c: SolverState, near: Mask) -> Mask:
        """Return for which rows, of those within gtol, x of twice the size would change f, or f is small.

        A small f is doubted from the first step on, until steps no longer lower it: gtol has no unit there.
        """
        small = (self._unit(c) != 1.0) & (c.k > 0)
        return near & ((self._change(c) > DOUBT * self._gtol) | small)

    def alarming(self, c: SolverState) -> Mask:
        """Return where the doubt is so large that another step is worth a try, for the first few times."""
        least = self._backend.num.maximum(ALARMING, DOUBT * self._gtol)
        return (self._change(c) > least) & (c.doubts < DOUBTS)

    def status(self, c: SolverState) -> Whole:
        """Return how rows within gtol end: a slope that would change f by more than all so far is not 0."""
        change, maximum = self._slope_over_x(c), self._backend.num.maximum
        size, known = abs(c.point.f), maximum(c.first - c.point.f, 0.0)
        steep = (change > ALARMING * maximum(size, self._unit(c))) & (change > known)
        return self._backend.select(steep, LINE_SEARCH_FAILED, CONVERGED)

    def _change(self, c: SolverState) -> Scalar:
        """Return how much of f a change of x by its own size would change, by the slope."""
        size = self._backend.num.maximum(abs(c.point.f), self._unit(c))
        return self._backend.ratio(self._slope_over_x(c), size)

    def _slope_over_x(self, c: SolverState) -> Scalar:
        """Return how much a change of x by its own size would change f, by the slope."""
        backend, x = self._backend, c.point.x
        wide = backend.xp.maximum(abs(x), backend.xp.ones_like(x))
        return backend.norm(self._space.measure(x, c.point.g) * wide)

    def _unit(self, c: SolverState) -> Scalar:
        """Return the unit of f: 1, or with the default gtol, |f| or its decrease so far if both are small."""
        if not self._assumed:
            return 1.0
        size = self._backend.num.maximum(abs(c.point.f), c.first - c.point.f)
        return self._backend.select(size < SMALL, size, 1.0)
