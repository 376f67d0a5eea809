"""How accurate a difference gradient has to be, and what decrease of f its values show.

Twice the decrease of f that a gradient predicts is gᵀH⁻¹g; with the diagonal of H alone, Σ gᵢ²/|f″ᵢ|. The
same sum over the errors of its components is what the gradient hides. Differences are central where they
hide too much, and forward again where that would have done. A run ends where neither sum, nor what the
direction predicts, is a decrease that the values of f could show; what hides it names the status.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from ..arrays import namespace, to_numpy
from ..questions import Asking, Point, Value, Values, Vector
from ..status import Status
from ..vectors import norm, own
from . import tuning
from .adaptive import AdaptiveDifferences
from .model import MOST, lower_point
from .noise import Floats

if TYPE_CHECKING:
    from ..run import Run


class AdaptiveGradient(AdaptiveDifferences):
    """Differences that follow the noise and the curvature of f."""

    stall_limit = 3  # a gradient costs as many values as f has variables
    cheap = False

    @property
    def coarse(self) -> bool:
        return False  # every gradient comes with its error

    def eps_f(self, f: float) -> float:
        return self.known.eps_f(f)

    # --- gradients -------------------------------------------------------------------------------------

    def arrive(self, run: Run) -> Asking[tuple[Vector, Vector, bool]]:
        x, f, known = run.here.x, cast(float, run.here.f), self.known
        at_start = run.here.k == 0
        if at_start:
            yield from known.estimate(self.space, x, f, self.gtol)
        elif known.changed(f):  # where there was noise before, on a line that is a part of the differences
            yield from known.estimate(self.space, x, f, self.gtol, self._noise_step(x, f, central=False))
        # a better gradient is worth a search
        fresh = not at_start and not known.central and known.noisy(f) and self._is_inaccurate_soon(run)
        if fresh:
            known.central = True
        if at_start and self._is_uneven(x):
            g, error = yield from self._surveyed(x, f)
        else:
            g, error = yield from self.gradient(x, f)
        if self._is_inaccurate(x, f, g, error):
            known.central = True
            g, error = yield from self.gradient(x, f)
        return g, error, fresh

    def _noise_step(self, x: Vector, f: float, central: bool) -> Floats:
        """Return the step of a line that is a part of the differences."""
        return np.abs(self.intervals(x, f, central)[0]) / 30

    def _surveyed(self, x: Vector, f: float) -> Asking[tuple[Vector, Vector]]:
        """Ask for |f″|, and for ∇f where that has not shown it."""
        g, error, fine = yield from self.survey(x, f)
        if not (fine and norm(g) > self.gtol):  # else f may have waves that are shorter
            return (yield from self.gradient(x, f))
        yield Values([], gradients=1)
        return g, error

    def _is_uneven(self, x: Vector) -> bool:
        """Return whether the sizes of the variables differ: f may then bend very differently along them."""
        size = np.abs(to_numpy(x))[self._movable]
        least, most = (np.where(size > 0, size, fill) for fill in (np.inf, 0.0))
        return bool(most.max(initial=0.0) > tuning.UNEVEN * least.min(initial=np.inf))

    # --- predicted decreases ---------------------------------------------------------------------------

    def decreases(self, x: Vector, f: float, g: Vector, error: Vector) -> tuple[float, float]:
        """Return Σ gᵢ²/|f″ᵢ| over the free variables, and the same of the error of g."""
        curvature, slope, error = self.curvature_at(x, f), to_numpy(g), to_numpy(error)
        if self.space.bounded:
            free = to_numpy(self.space.free(x, g, namespace(g).ones_like(g)))
            slope, error = free * slope, free * error
        return float((slope * slope / curvature).sum()), float((error * error / curvature).sum())

    def _steep(self, x: Vector, f: float, g: Vector) -> Vector:
        """Return g without the slopes along the flattest variables, which together are within gtol.

        f may bend so little along a variable that a tiny slope promises a decrease, over a long way: such a
        slope is as small as was asked for.
        """
        slope = to_numpy(g)
        order = np.argsort(self.curvature_at(x, f), kind="stable")
        flat = np.cumsum(slope[order] ** 2) <= self.gtol**2
        steep = np.empty_like(flat)
        steep[order] = ~flat
        return own(x, np.where(steep, slope, 0.0))

    def _decreases_here(self, run: Run) -> tuple[float, float]:
        """Return these sums at the iterate; a gradient that a step has made comes without its error."""
        here, f = run.here, cast(float, run.here.f)
        return self.decreases(here.x, f, self._steep(here.x, f, here.g), self._error_here(run))

    def _error_here(self, run: Run) -> Vector:
        """Return the error of the gradient at the iterate."""
        here = run.here
        if here.error is not None:
            return here.error
        return own(here.x, self.error_of(here.x, cast(float, here.f), self.known.central))

    def visible(self, f: float) -> float:
        """Return the least decrease of f that its values would show."""
        return (tuning.VISIBLE if self.known.noisy(f) else tuning.RESOLVED) * self.known.eps_at_minimum(f)

    def _is_inaccurate(self, x: Vector, f: float, g: Vector, error: Vector) -> bool:
        """Return whether forward differences hide too much of what is left of the gradient."""
        if self.known.central:
            return False
        decrease, hidden = self.decreases(x, f, g, error)
        # noise hides more along directions of low curvature than these sums show
        shows = hidden > 2 * self.visible(f) or self.known.noisy(f)
        return shows and hidden > tuning.INACCURATE * decrease

    def _is_inaccurate_soon(self, run: Run) -> bool:
        """Return whether they soon will, by the last gain: near the end gains fall quadratically."""
        x, f = run.here.x, cast(float, run.here.f)
        _, hidden = self.decreases(x, f, 0.0 * x, self.error_of(x, f, False))
        return run.f_before - f < tuning.SOON * math.sqrt(hidden * abs(f))

    def relax(self, run: Run) -> None:
        """Take forward differences again where those would have done."""
        if not self.known.central:
            return
        here, f = run.here, cast(float, run.here.f)
        error = self.error_of(here.x, f, False)
        decrease, hidden = self.decreases(here.x, f, here.g, error)
        if hidden <= tuning.ACCURATE * decrease and norm(error) <= self.gtol:
            self.known.central = False

    # --- ends ------------------------------------------------------------------------------------------

    def trusts(self, run: Run) -> bool:
        """Return whether the error of ∇f is not far above gtol, nor above it at all if f may be quantised."""
        here, residual = run.here, self.space.residual  # no more than the box lets it move x
        e = self._error_here(run)
        size = norm(e)
        error = max(residual(here.x, e, size), residual(here.x, -e, size))
        strict = (
            self.known.resolution > 0 or self.known.grid.any() or self._vanishes_somewhere(here.x, here.g)
        )
        return error <= (1.0 if strict else tuning.CLEAR) * self.gtol

    def rise(self, x: Vector) -> float:
        wide = np.maximum(np.abs(to_numpy(x)), 1.0)
        return float(0.5 * np.nansum(self.known.curvature * wide**2))

    def ends(self, run: Run) -> Asking[Status | Point | None]:
        f, known = cast(float, run.here.f), self.known
        low = 2 * self.visible(f)
        if not -run.slope <= low:
            return None
        modelled = self._is_modelled(f)
        if modelled and not known.grid.any():
            return (yield from self._judged(run))
        decrease, hidden = self._decreases_here(run)
        if not (decrease <= low and hidden <= low and self._is_sound(run)):
            return None
        # a slope that noise does not hide may lead far along a valley, which these sums do not show; the
        # error of a quantised f is not random, and a search may still find a slope
        if known.resolution > 0 or (known.noisy(f) and decrease > tuning.RESOLVED * hidden):
            return None
        if modelled:
            return (yield from self._judged(run, measured=True))
        shown, hidden = self.decreases(run.here.x, f, run.here.g, self._error_here(run))
        return (yield from self._confirmed(run, Status.FD_LIMIT if hidden > shown else Status.ROUNDOFF))

    def _is_modelled(self, f: float) -> bool:
        """Return whether noise hides slopes, and a model of all variables is at hand."""
        known, few = self.known, len(self._movable) <= MOST
        told = known.close or known.resolution > 0 or bool(known.grid.any())
        return told and few and known.noisy(f) and known.central and self._is_surveyed()

    def _judged(self, run: Run, measured: bool = False) -> Asking[Status | Point | None]:
        """Return a lower point of the model, else the end, if f is smooth here and noise hides what is left.

        Values that differ at the same x are noisy by chance. Others have been rounded, or x has: where that
        was measured, steep slopes may have added to it.
        """
        x, f, known = run.here.x, cast(float, run.here.f), self.known
        again = yield Value(x)
        if not abs(again - f) <= 2 * self.visible(f):  # values drift, or are noisier than was measured
            return None
        if again == f and not measured and known.is_elsewhere(f):
            yield from known.estimate(self.space, x, f, self.gtol, self._noise_step(x, f, central=True))
            if not -run.slope <= 2 * self.visible(f):
                return None
        lower = yield from lower_point(self, run.here)
        if lower is not None and lower.f < known.modelled:  # else the run goes round in a circle
            known.modelled = lower.f
            return lower
        for turned in (False, True):
            if (status := (yield from self._confirmed(run, Status.NOISE, turned))) is not None:
                return status
        return None

    def improves(self, run: Run, stalled: bool) -> Asking[tuple[bool, Status | Point | None]]:
        """Make differences central; where they are, end the run, unless f is noisier than was known."""
        x, f, known = run.here.x, cast(float, run.here.f), self.known
        if not known.central:
            known.central = True
            yield from known.estimate(self.space, x, f, self.gtol, anew=False)  # it may grow along a run
            return True, None
        modelled = self._is_modelled(f)
        if not modelled and self._is_spent(run, stalled):
            return False, (yield from self._confirmed(run, Status.FD_LIMIT))
        step = self._noise_step(x, f, central=True)
        louder = yield from known.estimate(self.space, x, f, self.gtol, step, anew=False)
        if known.jumps and f < known.sought_at:  # x may be rounded more coarsely here than there
            known.sought, known.sought_at = np.zeros_like(known.sought), f
            return True, None
        if louder or not modelled:
            return louder, None
        return False, (yield from self._judged(run, measured=True))

    def _is_spent(self, run: Run, stalled: bool) -> bool:
        """Return whether nothing of a central gradient is left that values could show."""
        f, known = cast(float, run.here.f), self.known
        decrease, hidden = self._decreases_here(run)
        low, noisy, quantised = 2 * self.visible(f), known.noisy(f), known.resolution > 0
        if not self._is_sound(run) or (quantised and hidden > low):  # the error of a quantised f repeats
            return False
        # an error that hides much of the total decrease proves nothing
        part = hidden <= tuning.SLIGHT * max(abs(f), run.f_start - f)
        if decrease <= hidden and (part or decrease <= low):
            return True
        # the predicted decrease did not appear; rounding may exceed that of one operation
        clear = tuning.CLEAR if not noisy else tuning.SLIGHT if quantised else 1.0
        # steps along a valley that noise hides are accepted, and lead on
        leads = noisy and stalled and decrease > tuning.RESOLVED * hidden
        lost = max(decrease, hidden) <= low * clear and not leads
        return lost and not (quantised and known.noise > 0)

    def _is_sound(self, run: Run) -> bool:
        """Return whether f″ is known and no slope is so steep that the rounding of x shows in f."""
        f = cast(float, run.here.f)
        steep = self.eps * self.known.conditioning > 1e-3 * max(abs(f), run.f_start - f)
        return self._is_surveyed() and not steep

    def _confirmed(self, run: Run, status: Status, turned: bool = False) -> Asking[Status | None]:
        """Return this status, or what hides a decrease, if f has no kink here."""
        x, f, known = run.here.x, cast(float, run.here.f), self.known
        if known.noisy(f):
            quantised = max(known.resolution * known.scale(f), float(known.blur.sum())) > known.noise
            status = Status.RESOLUTION if quantised else Status.NOISE
        return status if (yield from self.is_smooth(x, f, turned)) else None
