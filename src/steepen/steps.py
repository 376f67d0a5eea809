"""Step sizes α_k along a direction.

A number, a schedule or a callable of k is a step by itself. `safe` and `quadratic_optimal` are the paper's
formulas and give a number (or a schedule, for a λ that changes); `Quadratic` and `Armijo` look at f along p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from . import theory
from ._core.arrays import Array, Mask, MaybeArray, MaybeScalar, Scalar, Whole
from ._core.backends import Backend
from ._evaluation import tuning
from ._evaluation.counter import Cost
from ._evaluation.evaluator import Context, Evaluator
from ._evaluation.roundoff import noise_of
from ._tools.check import number, whole
from .schedules import ByCurvature, Constant, Cosine, L, Mapped, Schedule, ScheduleLike, as_schedule

__all__ = ["Along", "Armijo", "Chosen", "Fixed", "Quadratic", "Step", "quadratic_optimal", "safe"]


LEVEL = 10.0
"""Values of f that differ by no more than this many roundings, or this many times its noise, are level."""

FLATTER = 0.9
"""Among level points, a step is taken if it brings the slope down to this part."""

SUSPECT, WARY = 1e-6, 4e-6
"""Values that rise by less than this part of f, where the slope promises a fall of no more, may be noise.
Noise of a millionth in both values hides the fall of a unit step whose slope promises WARY."""

FURTHEST, APART, LOOKS = 30.0, 0.25, 4
"""Where a gradient costs many values, a step is tried again at most so many times as long or as short, if a
parabola has its minimum there, and not within this part of the step; at most so often."""

FORGIVEN = 2.0
"""f may rise by this many times the error of a value, as far as that is known."""

DOUBTS = 4
"""After this many trials that may have been spoilt by noise, the noise is measured."""

PROBED = 1e-6
"""A probe of the curvature cuts a step to this part at least; noise may show it far too strong."""


class Along(NamedTuple):
    """A direction at a point, as a step rule sees it: k, x, f, ∇f, p, ∇fᵀp, the last α, the noise of f.

    `live` are the rows that a step is asked for. A search that was not brought to its end has made `tried`
    trials, and its next one is at `trial`.

    Examples
    --------
    >>> Along._fields
    ('k', 'x', 'f', 'g', 'p', 'slope', 'last', 'noise', 'live', 'trial', 'tried')
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

    Where `trial` is positive α is 0, and the search goes on from there in the next iteration.

    Examples
    --------
    >>> Chosen(0.5)
    Chosen(alpha=0.5, f=None, g=None, known=False, noise=0.0, trial=0.0, tried=0)
    """

    alpha: Scalar
    f: MaybeScalar = None
    g: MaybeArray = None
    known: Mask = False
    noise: Scalar = 0.0
    trial: Scalar = 0.0
    tried: Whole = 0


class _Search(NamedTuple):
    """A line search as it stands: how many trials there were, the next α, what is known at the last one."""

    trial: Whole
    t: Scalar
    f: Scalar
    g: Array
    noise: Scalar
    doubts: Whole
    known: Mask
    accepted: Mask
    open: Mask


class _Heard(NamedTuple):
    """The noise estimated so far, and the part of the step on which to estimate it next."""

    part: Scalar
    noise: Scalar
    open: Mask


class Step:
    """Base of all step rules.

    Examples
    --------
    >>> isinstance(Armijo(), Step)
    True
    """

    searches = True
    """Whether the rule evaluates f at the new point, and may find no step."""
    wait = True
    """Whether a search ends in the iteration that it began in."""

    returns_gradient = False
    """Whether the g of a step is ∇f at the new point, known or not, where the evaluator's values bring it."""

    @property
    def constant(self) -> Scalar | None:
        """The α of every iteration, where it is always the same."""
        return None

    def prepare(self, total: int | None, rows: int | None) -> Step:
        """Fit schedules to a run of `total` iterations and `rows` rows, and check them."""
        return self

    def cost(self, evaluator: Evaluator) -> Cost:
        """Return what the choice costs beyond f at the new point."""
        return Cost()

    def source(self, evaluator: Evaluator) -> str | None:
        """Return where H·v comes from; None where the rule needs none."""
        return None

    def choose(self, context: Context, along: Along) -> Chosen:
        """Return α_k, 0 where there is none, and what is known at the new point."""
        raise NotImplementedError


@dataclass(frozen=True)
class Fixed(Step):
    """α_k from a number or a schedule, whatever f does.

    Examples
    --------
    >>> Fixed(0.01)
    Fixed(schedule=0.01)
    """

    schedule: ScheduleLike

    searches, returns_gradient = False, True

    @property
    def constant(self) -> Scalar | None:
        """The α of every iteration, where it is always the same."""
        return self.schedule.value if isinstance(self.schedule, Constant) else None

    def prepare(self, total: int | None, rows: int | None) -> Step:
        """Fit the schedule to the run."""
        schedule = as_schedule(self.schedule, "step", rows).fit(total)
        if isinstance(schedule, ByCurvature):
            raise ValueError(f"step: {schedule!r} is a schedule for lam")
        known: Any = getattr(schedule, "value", getattr(schedule, "values", ()))
        if isinstance(schedule, L | Cosine):
            known = (schedule.start, schedule.end)
        if not np.all(np.asarray(known) > 0):
            raise ValueError(f"step: expected positive values, got {known!r}")
        return Fixed(schedule)

    def choose(self, context: Context, along: Along) -> Chosen:
        """Return the schedule's α_k."""
        alpha = cast(Schedule, self.schedule)(along.k)  # since `prepare`
        if isinstance(along.k, int) and not np.all(alpha > 0):  # what is traced has no value yet
            raise ValueError(f"step: expected positive values, got {alpha!r} at k = {along.k}")
        return Chosen(context.live(alpha))


@dataclass(frozen=True)
class Quadratic(Step):
    """The minimiser of the quadratic model along p, α = −∇fᵀp/pᵀHp, for one H·v.

    On a quadratic this is the exact line search. Where the model has no minimiser, α is `fallback`.

    Examples
    --------
    >>> import numpy as np, steepen as st
    >>> q = st.functions.quadratic(np.diag([1.0, 10.0]))
    >>> st.minimize(q, [1.0, 1.0], method="bfgs", step=st.steps.Quadratic()).nit
    2
    """

    fallback: float = 1.0

    searches, returns_gradient = False, True

    def __post_init__(self) -> None:
        number("fallback", self.fallback, "a positive number", above=0)

    def cost(self, evaluator: Evaluator) -> Cost:
        """Return what one H·v costs."""
        return evaluator.hessian.cost_product

    def source(self, evaluator: Evaluator) -> str | None:
        """Return where H·v comes from."""
        return evaluator.hessian.source

    def choose(self, context: Context, along: Along) -> Chosen:
        """Return −∇fᵀp/pᵀHp."""
        backend = context.backend
        bend = backend.dot(along.p, context.evaluator.hessian.product(along.x, along.p, along.g))
        convex = bend > 0
        return Chosen(backend.select(convex, -along.slope / backend.select(convex, bend, 1.0), self.fallback))


@dataclass(frozen=True)
class Armijo(Step):
    """Backtracking until f falls by `c` of what the slope promises; cuts by interpolation.

    The first trial is `initial`, and after that the last accepted α times `grow`, at most `longest`. With
    `grow=inf` every search starts at `longest`, which is right where α = 1 is natural.

    The rows of a batch wait until the last of them has found its step. With `wait=False` an iteration is one
    trial in every row: where it fails the row stays, and goes on with its search in the next iteration. That
    takes the fewest calls of a function whose calls cost the same for one row and for many.

    With `probe=True`, where the first trial of a run fails, one gradient close to x shows how f bends along
    p, and the minimiser of that parabola is tried next: at the start there is no other scale to go by.

    With `noise_tolerant=True` values that differ by up to 4e-6 of f, and not 1e-6, may be noise, and two
    values that show none are not believed where a slope says that there must be some: two more are taken.

    Examples
    --------
    >>> import steepen as st
    >>> st.minimize(st.functions["booth"], [8.0, -8.0], method="gd", step=st.steps.Armijo()).success
    True
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

    def __post_init__(self) -> None:
        number("initial", self.initial, "a positive number", above=0)
        number("c", self.c, "a number between 0 and 1", above=0, below=1)
        for name, value, least in (("grow", self.grow, 1.0), ("longest", self.longest, self.initial)):
            if value != math.inf:
                number(name, value, f"a number, {least:g} or more", least=least)
        if self.grow == self.longest == math.inf:
            raise ValueError("longest: expected a finite number where grow is infinite, got inf")
        whole("trials", self.trials, 1)

    def choose(self, context: Context, along: Along) -> Chosen:
        """Backtrack from the first trial."""
        backend = context.backend
        known = (along.k > 0) & (along.last > 0)  # a search that found nothing begins anew
        longer = backend.num.minimum(self.longest, self.grow * backend.select(known, along.last, 1.0))
        t = backend.scalar(backend.select(known, longer, self.initial) + 0.0 * along.slope)  # one a row
        none: Any = False if backend.quick else backend.negate(t > 0)
        start = _Search(0, t, along.f, along.g, along.noise, 0 * none, none, none, (t > 0) & along.live)
        if not self.wait:
            start = start._replace(trial=along.tried, t=backend.select(along.trial > 0, along.trial, t))
        end = backend.repeat(partial(self._trial, context, along), start, self.trials if self.wait else 1)
        if not context.evaluator.source.cheap:
            end = self._further(context, along, end, t)
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
            blur = backend.num.maximum(evaluator.source.eps_f(f), s.noise)
            lost = backend.same(point, along.x) | backend.negate(blur <= LEVEL * abs(fall))
            if not evaluator.source.cheap:
                lost = lost | ((s.t < tuning.SHORTEST) & (along.k > 0))
            todo = backend.and_not(todo, later & lost)
        if not backend.any(todo) or context.late():
            return s._replace(open=todo & False)
        found = evaluator.value(point, todo)
        cached = evaluator.cached_gradient
        # relaxed Armijo: the error of both values is forgiven (Berahas, Byrd and Nocedal 2019)
        allowed = FORGIVEN * evaluator.source.eps_f(f)
        ok = todo & (found <= f + self.c * fall + allowed) & (found < f + allowed)
        if evaluator.source.cheap and not backend.all(ok):
            rise, size = abs(found - f), abs(f)
            close = backend.num.maximum(rise, abs(fall)) <= (WARY if self.noise_tolerant else SUSPECT) * size
            close = (
                todo & (close | (rise <= LEVEL * context.eps * size)) & context.affords(evaluator.cost_grad)
            )
            close = backend.and_not(close, ok)
            if not backend.defers(close, alone=True) and backend.any(close):
                judge = partial(self._by_slope, context, along, point, way, fall, found, cached, close)
                s, flatter = backend.when(close, judge, (s, ok & False))
                ok = ok | flatter
        accepted = s.accepted | ok
        t = (
            s.t
            if backend.all(accepted)
            else backend.select(accepted, s.t, self._shorter(backend, s.t, found, f, fall))
        )
        value, g = backend.select(ok, found, s.f), s.g if cached is None else backend.where(ok, cached, s.g)
        open = backend.and_not(todo, ok)
        if self.probe and evaluator.source.cheap:
            t = self._probed(context, along, s, open & (along.k == 0) & (s.trial == 0), t)
        return _Search(s.trial + 1, t, value, g, s.noise, s.doubts, s.known, accepted, open)

    @staticmethod
    def _probed(context: Context, along: Along, s: _Search, rows: Mask, t: Scalar) -> Scalar:
        """Return t, or in these rows the minimiser of the parabola that a probe shows along p."""
        backend, evaluator, x, p = context.backend, context.evaluator, along.x, along.p
        rows = rows & context.affords(evaluator.cost_difference)

        def probe(t: Scalar) -> Scalar:
            r = evaluator.difference_length(x, p)
            bend = backend.ratio(backend.dot(p, evaluator.change(x, p, along.g, r, rows)), r)
            best = backend.num.clip(backend.ratio(-along.slope, bend), PROBED * s.t, 0.5 * s.t)
            return backend.scalar(backend.select(rows & (bend > 0) & (bend < np.inf), best, t))

        return backend.when(rows, probe, t)

    def _further(self, context: Context, along: Along, s: _Search, first: Scalar) -> _Search:
        """While a parabola has its minimum far from the step, try it: a value costs less than a gradient.

        A step that was cut is not made longer again.
        """
        backend, evaluator, f = context.backend, context.evaluator, along.f
        rows, uncut, tried = s.accepted, s.t == first, s.accepted & False
        for _ in range(LOOKS):
            _, _, fall = context.space.trial(along.x, along.g, along.p, s.t, along.slope)
            best = backend.ratio(-fall, 2 * (s.f - f - fall))
            part = backend.num.clip(backend.select(best > 0, best, FURTHEST), 1 / FURTHEST, FURTHEST)
            far = rows & (((part > 1 + APART) & uncut) | (part < 1 / (1 + APART)))
            far = (
                far & (abs(fall) > LEVEL * evaluator.source.eps_f(f)) & context.affords(evaluator.cost_value)
            )
            if not backend.any(far) or context.late():
                break
            t = backend.scalar(s.t * part)
            found = evaluator.value(context.space.trial(along.x, along.g, along.p, t, along.slope)[0], far)
            rows = far & (found < s.f)
            tried = tried | backend.and_not(far, rows)
            s = s._replace(t=backend.select(rows, t, s.t), f=backend.select(rows, found, s.f))
        if backend.any(tried):  # the last value is not that of the step
            point = context.space.trial(along.x, along.g, along.p, s.t, along.slope)[0]
            evaluator.memo.put(point, s.f, None if backend.size is None else tried)
        return s

    def _by_slope(
        self, context: Context, along: Along, point: Array, way: Array, fall: Scalar, found: Scalar,
        cached: MaybeArray, close: Mask, state: tuple[_Search, Mask],
    ) -> tuple[_Search, Mask]:  # fmt: skip
        """Judge trials by their slope where rounding or noise may hide whether f falls (Hager and Zhang)."""
        backend, s, level = context.backend, state[0], self._level
        doubts = s.doubts + close
        ahead = context.evaluator.grad(point, close, cached)
        flatter = close & (abs(backend.dot(ahead, way)) < FLATTER * abs(fall))
        noise, doubt = s.noise, flatter | (close & (doubts == DOUBTS))
        # it is measured where values contradict slopes by more than is known of it
        doubt = backend.and_not(doubt, level(context, along, found, noise))

        def measure(noise: Scalar) -> Scalar:
            def listen(s: _Heard) -> _Heard:
                more = noise_of(context, along.x, along.f, along.g, s.part * way, s.open)
                noise_seen = backend.num.maximum(s.noise, more)
                return _Heard(
                    0.5 * s.part,
                    noise_seen,
                    backend.and_not(s.open, level(context, along, found, noise_seen)),
                )

            # chance may hide it once
            noise_seen = backend.repeat(
                listen, _Heard(1.0, 0.0 * along.f, doubt), 2 if self.noise_tolerant else 1
            ).noise
            return backend.select(doubt & level(context, along, found, noise_seen), noise_seen, noise)

        noise = backend.when(doubt, measure, noise)
        flatter = flatter & level(context, along, found, noise)
        g, known = backend.where(flatter, ahead, s.g), s.known | flatter
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
        return backend.scalar(num.clip(num.where(num.isfinite(best), best, 0.0), 0.1 * t, 0.5 * t))


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
