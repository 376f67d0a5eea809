"""Armijo backtracking: evaluates f, allows for its noise, uses slopes at ties."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Array, Mask, MaybeArray, Scalar, Whole
from .backend import Backend
from .context import Context
from .roundoff import noise_of
from .step import Along, Chosen, Step

LEVEL = 10.0  # values that differ by no more than this many roundings, or noise levels, are "level"
FLATTER = 0.9  # among level points, a step is accepted if it reduces the slope to this fraction
SUSPECT, WARY = 1e-6, 4e-6  # changes and predicted decreases of less than this fraction of f may be noise
DOUBTS = 4  # after this many trials that noise may have corrupted, the noise is estimated
PROBED = 1e-6  # a curvature estimate, which noise may make far too large, cuts a step to no less than this


class _Search(NamedTuple):
    trial: Whole  # the number of trials
    t: Scalar  # the next α; f, ∇f and the noise of f are those known at the last one
    f: Scalar
    g: Array
    noise: Scalar
    doubts: Whole
    known: Mask
    accepted: Mask
    open: Mask


class _Trial(NamedTuple):
    """A point along p, the displacement, the predicted decrease, f, and ∇f if it was computed with f."""

    point: Array
    way: Array
    fall: Scalar
    found: Scalar
    cached: MaybeArray


class _Estimate(NamedTuple):
    """The noise estimated so far, and the fraction of the step on which to estimate it next."""

    part: Scalar
    noise: Scalar
    open: Mask


@dataclass(frozen=True)
class Armijo(Step):
    """Backtracking until f decreases by `c` times the decrease the slope predicts; cuts by interpolation.

    The first trial is `initial`, and after that the last accepted α times `grow`, at most `longest`. With
    `grow=inf` every search starts at `longest`, which suits Newton-like directions.

    The rows of a batch wait until the last of them has found its step. With `wait=False` an iteration is one
    trial in every row: where it fails, the row stays and continues its search in the next iteration. That
    minimises the number of calls, for functions where a call costs the same for one row or many.

    With `probe=True`, if the first trial of a run fails, one more gradient close to x gives the curvature
    along p, and the minimiser of that parabola is tried next: at the start no other scale is known.

    With `noise_tolerant=True` values that differ by up to 4e-6 of f, instead of 1e-6, may be noise. Where two
    values show none although the slope implies some, two more are taken.
    """

    initial: float = 1.0
    c: float = 1e-4
    grow: float = 2.0
    longest: float = math.inf
    trials: int = 60
    wait: bool = True
    probe: bool = False
    noise_tolerant: bool = False

    returns_gradient = True

    def choose(self, context: Context, along: Along) -> Chosen:
        backend = context.backend
        known = (along.k > 0) & (along.last > 0)  # a search that found nothing begins anew
        longer = backend.num.minimum(self.longest, self.grow * backend.select(known, along.last, 1.0))
        t = backend.scalar(backend.select(known, longer, self.initial) + 0.0 * along.slope)  # one a row
        none: Any = False if backend.quick else backend.negate(t > 0)
        open = (t > 0) & along.live
        start = _Search(0, t, along.f, along.g, along.noise, 0 * none, known=none, accepted=none, open=open)
        if not self.wait:
            start = start._replace(trial=along.tried, t=backend.select(along.trial > 0, along.trial, t))
        end = backend.repeat(partial(self._trial, context, along), start, self.trials if self.wait else 1)
        alpha = backend.select(end.accepted, end.t, 0.0)
        if self.wait:
            return Chosen(alpha, end.f, end.g, end.known, end.noise)
        more = end.open & (end.trial < self.trials)
        trial, tried = backend.select(more, end.t, 0.0), backend.select(more, end.trial, 0)
        return Chosen(alpha, end.f, end.g, end.known | more, end.noise, trial, tried)

    def _trial(self, context: Context, along: Along, s: _Search) -> _Search:
        """Evaluate f at α = t, and accept it or cut t."""
        backend, evaluator, f = context.backend, context.evaluator, along.f
        point, way, fall = context.space.trial(along.x, along.g, along.p, s.t, along.slope)
        todo = s.open & context.affords(evaluator.cost_value)
        if backend.any(later := s.trial > 0):
            # a step that is lost in the rounding of x, or in the noise of f, needs no value
            lost = backend.same(point, along.x) | backend.negate(s.noise <= LEVEL * abs(fall))
            todo = backend.and_not(todo, later & lost)
        if not backend.any(todo):
            return s._replace(open=todo & False)
        found = evaluator.value(point, todo)
        cached = evaluator.cached_gradient
        ok = todo & (found <= f + self.c * fall) & (found < f)
        if not backend.all(ok):
            rise, size = abs(found - f), abs(f)
            close = backend.num.maximum(rise, abs(fall)) <= (WARY if self.noise_tolerant else SUSPECT) * size
            close = todo & (close | (rise <= LEVEL * context.eps * size))
            close = backend.and_not(close & context.affords(evaluator.cost_grad), ok)
            if not backend.defers(close, alone=True) and backend.any(close):
                trial = _Trial(point, way, fall, found, cached)
                judge = partial(self._by_slope, context, along, trial, close)
                s, flatter = backend.when(close, judge, (s, ok & False))
                ok = ok | flatter
        accepted = s.accepted | ok
        t = s.t
        if not backend.all(accepted):
            t = backend.select(accepted, t, self._shorter(backend, t, found, f, fall))
        value, g = backend.select(ok, found, s.f), s.g if cached is None else backend.select(ok, cached, s.g)
        open = backend.and_not(todo, ok)
        if self.probe:
            t = self._probed(context, along, s, open & (along.k == 0) & (s.trial == 0), t)
        return s._replace(trial=s.trial + 1, t=t, f=value, g=g, accepted=accepted, open=open)

    @staticmethod
    def _probed(context: Context, along: Along, s: _Search, rows: Mask, t: Scalar) -> Scalar:
        """Return t, or in these rows the minimiser of the parabola along p given by one more gradient."""
        backend, evaluator, x, p = context.backend, context.evaluator, along.x, along.p
        rows = rows & context.affords(evaluator.cost_difference)

        def probe(t: Scalar) -> Scalar:
            r = evaluator.difference_length(x, p)
            bend = backend.ratio(backend.dot(p, evaluator.change(x, p, along.g, r, rows)), r)
            best = backend.num.clip(backend.ratio(-along.slope, bend), PROBED * s.t, 0.5 * s.t)
            return backend.scalar(backend.select(rows & (bend > 0) & (bend < np.inf), best, t))

        return backend.when(rows, probe, t)

    def _by_slope(
        self, context: Context, along: Along, trial: _Trial, close: Mask, state: tuple[_Search, Mask]
    ) -> tuple[_Search, Mask]:
        """Judge trials by their slope where rounding or noise may hide a decrease of f (Hager and Zhang)."""
        backend, s, level, way, found = context.backend, state[0], self._level, trial.way, trial.found
        doubts = s.doubts + close
        ahead = context.evaluator.grad(trial.point, close, trial.cached)
        flatter = close & (abs(backend.dot(ahead, way)) < FLATTER * abs(trial.fall))
        noise, doubt = s.noise, flatter | (close & (doubts == DOUBTS))
        # it is measured where values contradict slopes by more than is known of it
        doubt = backend.and_not(doubt, level(context, along, found, noise))

        def measure(noise: Scalar) -> Scalar:
            def estimate(s: _Estimate) -> _Estimate:
                more = noise_of(context, along.x, along.f, along.g, s.part * way, s.open)
                most = backend.num.maximum(s.noise, more)
                unseen = backend.and_not(s.open, level(context, along, found, most))
                return _Estimate(0.5 * s.part, most, unseen)

            turns = 2 if self.noise_tolerant else 1  # chance may hide it once
            seen = backend.repeat(estimate, _Estimate(1.0, 0.0 * along.f, doubt), turns).noise
            return backend.select(doubt & level(context, along, found, seen), seen, noise)

        noise = backend.when(doubt, measure, noise)
        flatter = flatter & level(context, along, found, noise)
        g, known = backend.select(flatter, ahead, s.g), s.known | flatter
        return s._replace(g=g, known=known, noise=noise, doubts=doubts), flatter

    @staticmethod
    def _level(context: Context, along: Along, found: Scalar, noise: Scalar) -> Mask:
        """Return whether two values of f differ by no more than its rounding or its noise explains."""
        maximum = context.backend.num.maximum
        return abs(found - along.f) <= LEVEL * maximum(context.eps * abs(along.f), noise)

    @staticmethod
    def _shorter(backend: Backend, t: Scalar, found: Scalar, f: Scalar, fall: Scalar) -> Scalar:
        """Return the minimiser of the parabola through f, the slope and the trial, within [t/10, t/2]."""
        num = backend.num
        best = backend.ratio(-fall * t, 2 * (found - f - fall))
        return backend.scalar(num.clip(backend.select(num.isfinite(best), best, 0.0), 0.1 * t, 0.5 * t))
