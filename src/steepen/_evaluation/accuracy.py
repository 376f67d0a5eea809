"""How accurate a difference gradient has to be, and what decrease values show; for the evaluator; calls f.

Twice the decrease of f that a gradient predicts is gᵀH⁻¹g; with the diagonal of H alone, Σ gᵢ²/|f″ᵢ|. The
same sum over the errors of its components is what the gradient hides. Differences are central where they
hide too much, and forward again where that would have done. A run ends where neither sum, nor what the
direction predicts, is a decrease that the values of f could show; what hides it names the status.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import Array, Mask, MaybeArray, Scalar, Whole, to_numpy
from .._core.state import RUNNING, SolverState
from .._core.status import Status
from . import tuning
from .counter import Cost
from .finite_differences import AdaptiveDifferences
from .noise import COST as NOISE_COST
from .noise import mask_of

ROUNDOFF, NOISE, RESOLUTION, FD_LIMIT = map(
    int, (Status.ROUNDOFF, Status.NOISE, Status.RESOLUTION, Status.FD_LIMIT)
)


class AdaptiveGradient(AdaptiveDifferences):
    """Differences that follow the noise and the curvature of f."""

    stall_limit = 3  # a gradient costs as many values as f has variables
    cheap = False
    coarse: Any = False  # every gradient comes with its error

    def eps_f(self, f: Scalar) -> Scalar:
        return self.noise.eps_f(f)

    # --- gradients -----------------------------------------------------------------------------------

    def gradient(self, c: SolverState, rows: Any, cached: MaybeArray) -> tuple[Array, MaybeArray]:
        backend, noise, evaluator = self.backend, self.noise, self.evaluator
        x, f, every = c.point.x, c.point.f, True if rows is None else rows
        if c.k == 0:
            asked = every & (evaluator.counter.budget.iters != 0)  # or no step is made
            uneven = asked & self._uneven(x)
        else:
            asked, uneven = every & noise.changed(f), False
        if backend.any(asked) and backend.any(asked := asked & self._affords(NOISE_COST)):
            # where there was noise before, on a line that is a part of the differences
            step = None if c.k == 0 else np.abs(self.intervals(x, f, False)[0]) / 30
            noise.estimate(x, f, asked, self.gtol, step)
        soon = backend.and_not(every, self.state.central) & noise.noisy(f)
        if c.k > 0 and backend.any(soon) and backend.any(soon := soon & self._inaccurate_soon(c)):
            # a better gradient is worth a search
            c.n_stalled = backend.select(self._use_central(soon), 0, c.n_stalled)
        if backend.any(uneven) and backend.any(uneven := uneven & self._affords(self.cost_survey)):
            g, error, fine = self.survey(x, f, uneven)
            fine = fine & uneven & (backend.norm(g) > self.gtol)  # else f may have waves that are shorter
            evaluator.counter.count(self._only(fine), "njev", times=1 if backend.any(fine) else 0)
            if backend.any(rest := backend.and_not(every, fine)):
                g, error = self._merged(fine, (g, error), evaluator.grad_and_error(x, self._only(rest)))
        else:
            g, error = evaluator.grad_and_error(x, rows)
        rough = every & self._inaccurate(x, f, g, error)
        rough = self._use_central(rough) if backend.any(rough) else rough
        if backend.any(rough):
            g, error = self._merged(rough, evaluator.grad_and_error(x, self._only(rough)), (g, error))
        return g, error

    def _merged(self, rows: Mask, a: Any, b: Any) -> tuple[Array, Array]:
        return self.backend.where(rows, a[0], b[0]), self.backend.where(rows, a[1], b[1])

    def _uneven(self, x: Array) -> Mask:
        """Return where the sizes of the variables differ: f may then bend very differently along them."""
        size = np.abs(to_numpy(x))[..., self.free]
        least, most = (np.where(size > 0, size, fill) for fill in (np.inf, 0.0))
        uneven = most.max(axis=-1, initial=0.0) > tuning.UNEVEN * least.min(axis=-1, initial=np.inf)
        return mask_of(self.backend, uneven)

    def _use_central(self, rows: Mask) -> Mask:
        """Take central differences in these rows from now on where that is affordable; return where."""
        state, before = self.state, self.state.central
        state.central = before | rows
        rows = rows & self._affords(NOISE_COST)
        state.central = before | rows
        return rows

    # --- predicted decreases -------------------------------------------------------------------------

    def decreases(self, x: Array, f: Scalar, g: Array, error: Any) -> tuple[Scalar, Scalar]:
        """Return Σ gᵢ²/|f″ᵢ| over the free variables, and the same of the error of g."""
        backend, space = self.backend, self.space
        curvature, slope, error = self.curvature_at(x, f), to_numpy(g), to_numpy(error)
        if space.bounded:
            free = to_numpy(space.free(x, g, backend.xp.ones_like(g)))
            slope, error = free * slope, free * error
        decrease, hidden = ((part * part / curvature).sum(axis=-1) for part in (slope, error))
        return backend.scalar(decrease), backend.scalar(hidden)

    def visible(self, f: Scalar) -> Scalar:
        """Return the least decrease of f that its values would show."""
        return self.backend.select(self.noise.noisy(f), tuning.VISIBLE, tuning.RESOLVED) * self.noise.eps_f(f)

    def _inaccurate(self, x: Array, f: Scalar, g: Array, error: Any) -> Mask:
        """Return where forward differences hide too much of what is left of the gradient."""
        backend, central = self.backend, self.state.central
        if backend.all(central):
            return central & False
        decrease, hidden = self.decreases(x, f, g, error)
        rough = hidden > tuning.INACCURATE * decrease
        if backend.any(rough):  # noise hides more along directions of low curvature than these sums show
            rough = rough & ((hidden > 2 * self.visible(f)) | self.noise.noisy(f))
        return backend.and_not(rough, central)

    def _inaccurate_soon(self, c: SolverState) -> Mask:
        """Return where they soon will, by the last gain: near the end gains fall quadratically."""
        backend, point = self.backend, c.point
        error = self.error_of(point.x, point.f, False)
        _, hidden = self.decreases(point.x, point.f, 0.0 * point.x, error)
        return c.step_info.before - point.f < tuning.SOON * backend.num.sqrt(hidden * abs(point.f))

    def relax(self, c: SolverState, calm: Mask) -> None:
        backend, point, state = self.backend, c.point, self.state
        rows = calm & state.central
        if backend.any(rows):
            error = self.error_of(point.x, point.f, False)
            decrease, hidden = self.decreases(point.x, point.f, point.g, error)
            fine = (hidden <= tuning.ACCURATE * decrease) & (backend.norm(backend.own(error)) <= self.gtol)
            state.central = backend.and_not(state.central, rows & fine)

    # --- ends ----------------------------------------------------------------------------------------

    def trusts(self, c: SolverState) -> Mask:
        """Return where the error of ∇f is not far above gtol, nor above it at all if f may be quantised."""
        backend, point = self.backend, c.point
        residual, e = self.space.residual, point.error  # no more than the box lets it move x
        size = backend.norm(e)
        error = backend.num.maximum(residual(point.x, e, size), residual(point.x, -e, size))
        strict = backend.some((point.g == 0) & ~self.space.fixed(point.x))
        strict = strict | (self.state.resolution > 0)
        return error <= backend.select(strict, 1.0, tuning.CLEAR) * self.gtol

    def rise(self, x: Array) -> Scalar:
        return 0.5 * np.nansum(self.state.curvature * np.maximum(np.abs(to_numpy(x)), 1.0) ** 2, axis=-1)

    def ends(self, c: SolverState) -> Whole:
        backend, point, noise = self.backend, c.point, self.noise
        low = 2 * self.visible(point.f)
        small = (-c.slope <= low) & (c.status == RUNNING)
        if not backend.any(small):
            return RUNNING
        noisy = noise.noisy(point.f)
        decrease, hidden = self.decreases(point.x, point.f, point.g, point.error)
        small = small & (decrease <= low) & (hidden <= low) & self._sound(c)
        # a slope that noise does not hide may lead far along a valley, which these sums do not show; the
        # error of a quantised f is not random, and a search may still find a slope
        doubt = (noisy & (decrease > tuning.RESOLVED * hidden)) | (self.state.resolution > 0)
        code = backend.select(hidden > decrease, FD_LIMIT, ROUNDOFF)
        return self._confirmed(c, backend.and_not(small, doubt), code)

    def improves(self, c: SolverState, stuck: Mask) -> tuple[Mask, Whole]:
        """Make differences central; end rows whose central gradient does not exceed its error.

        Where it does, the noise of f may be larger than estimated.
        """
        backend, point = self.backend, c.point
        better = backend.and_not(stuck, self.state.central)
        self.state.central = self.state.central | better
        stuck = backend.and_not(stuck, better)
        if not backend.any(stuck):
            return better, RUNNING
        decrease, hidden = self.decreases(point.x, point.f, point.g, point.error)
        low, quantised = 2 * self.visible(point.f), self.state.resolution > 0
        noisy = self.noise.noisy(point.f)
        # the predicted decrease did not appear; rounding may exceed that of one operation
        unseen = low * backend.select(noisy, backend.select(quantised, tuning.CRAWLS, 1.0), tuning.CLEAR)
        # steps along a valley that noise hides are accepted, and lead on
        clear = noisy & c.stalled & (decrease > tuning.RESOLVED * hidden)
        lost = backend.and_not(backend.num.maximum(decrease, hidden) <= unseen, clear)
        # an error that hides much of the total decrease proves nothing
        part = hidden <= tuning.CRAWLS * backend.num.maximum(abs(point.f), c.first - point.f)
        spent = (decrease <= hidden) & (part | (decrease <= low))
        spent = spent | backend.and_not(lost, quantised & (self.state.noise > 0))
        # the error of a quantised f is not random: it repeats
        spent = backend.and_not(stuck & spent & self._sound(c), quantised & (hidden > low))
        doubt = backend.and_not(stuck, spent) & self.evaluator.counter.affords(NOISE_COST)
        if backend.any(doubt):
            lengths = np.abs(self.intervals(point.x, point.f, True)[0]) / 30
            better = better | self.noise.estimate(point.x, point.f, doubt, self.gtol, lengths, anew=False)
        return better, self._confirmed(c, spent, FD_LIMIT)

    def _sound(self, c: SolverState) -> Mask:
        """Return where f″ is known and no slope is so steep that the rounding of x shows in f."""
        size = self.backend.num.maximum(abs(c.point.f), c.first - c.point.f)
        return self.known & (self.eps * self.state.conditioning <= 1e-3 * size)

    def _confirmed(self, c: SolverState, rows: Mask, code: Whole) -> Whole:
        """Return the status of these rows, if f has no kink there: what hides a decrease names it."""
        backend, point, state = self.backend, c.point, self.state
        if not backend.any(rows) or not backend.any(rows := rows & self.evaluator.counter.affords(Cost(5))):
            return RUNNING
        quantised = state.resolution * self.noise.scale(point.f) > state.noise
        code = backend.select(self.noise.noisy(point.f), backend.select(quantised, RESOLUTION, NOISE), code)
        return backend.select(self.is_smooth(point.x, point.f, rows), code, RUNNING)
