"""One run: the order of an iteration, the search, the guard, and how it ends. Read `steepen.run` first.

An evaluation of f and ∇f serves whatever the run needs it for: a trial of the search, a step of a fixed
length, or the probe that gives a first search its scale. So the function is at one place in the loop. A
single run has a loop of its own for each search; rows of a batch do one evaluation in each turn, and wait for
no search of others.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ..differences.given import Gradients
from ..endings import ALARMING, DOUBT, ENOUGH, NEAR, SMALL
from ..outcome import LOST
from ..run import HIDDEN, SHOWS
from ..schedules import VANISHED
from ..status import Status
from ..steps.armijo import FLATTER, LEVEL, PROBED, SUSPECT, SUSPECT_TRIALS, WARY
from ._auto import CGDAuto
from ._box import Box, Everywhere, difference, difference_length
from ._jax import jax, jnp
from ._methods import CGD, GD, Method, Newton, QuasiNewton
from ._numbers import dot, finite, norm, put, safe_norm, same_types
from ._roundoff import MOST, at_roundoff
from ._settings import Search, is_asked
from ._solution import Solution, Trace
from .trees import alike, apart

RUNNING, SADDLE, FAILED = -1, -2, -3
"""No end yet: a run that goes on, a start where ∇f vanishes, a search that found no lower point."""

RESUMED = (
    Status.CONVERGED, Status.FTOL, Status.XTOL, Status.RELATIVE,
    Status.MAX_ITERATIONS, Status.MAX_GRADIENTS, Status.MAX_EVALUATIONS,
)  # fmt: skip
"""Ends by a tolerance or a limit, which may be others when a run goes on."""

KINDS: dict[str, type[Method]] = {
    "gd": GD, "newton": Newton, "bfgs": QuasiNewton, "dfp": QuasiNewton, "cgd-auto": CGDAuto,
    **dict.fromkeys(("cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp"), CGD),
}  # fmt: skip


class Counts(NamedTuple):
    """Numbers of evaluations of f, gradients, products H·v and Hessians."""

    nfev: Any
    njev: Any
    nhvp: Any
    nhev: Any


class Step(NamedTuple):
    """The direction from an iterate."""

    p: Any
    slope: Any
    lam: Any
    guarded: Any
    penalised: Any
    vanished: Any


class Searching(NamedTuple):
    """The line search: the trial α, the last α, trials so far, and what it has met."""

    t: Any
    last: Any
    trials: Any
    doubts: Any
    """Trials that rounding or noise may have corrupted."""
    cut: Any
    """The next α, which a probe may make shorter."""
    probing: Any
    """Whether the next point is a probe."""


class Landing(NamedTuple):
    """A point where f and ∇f were evaluated: whether it is accepted, and ∇f has been counted."""

    accepted: Any
    x: Any
    f: Any
    g: Any
    known: Any


class State(NamedTuple):
    """A run between two evaluations."""

    status: Any
    k: Any
    x: Any
    f: Any
    g: Any
    gnorm: Any
    memory: Any
    fresh: Any
    """Whether a direction is needed."""
    step: Step
    search: Searching
    follows: Any
    """Whether it follows the method, rather than −∇f."""
    f_start: Any
    largest: Any
    """The largest ‖∇f‖ so far."""
    stalls: Any
    """Steps since f last decreased."""
    best_x: Any
    best_f: Any
    best_k: Any
    counts: Counts
    spent: Any
    """The counts when the iterate was reached."""
    ring: Any

    @property
    def running(self) -> Any:
        """Whether the run goes on."""
        return self.status == RUNNING


def picked(rows: Any, new: Any, old: Any) -> Any:
    """Return the new values where `rows` holds; True is everywhere."""
    return new if rows is True else jax.tree.map(lambda a, b: jnp.where(rows, a, b), new, old)


class Functions:
    """f of a vector and its derivatives, as a program evaluates them with the arguments of a run."""

    def __init__(self, program: Any, args: Any):
        self.both = jax.jit(lambda x: program.both(x, args))  # traced once for all its places
        self.product = partial(program.product, args=args)
        self.hessian = partial(program.hessian, args=args)


class Run:
    """A run of a program, for one start; `alone` if nobody continues it where that would be needed."""

    def __init__(self, program: Any, inputs: Any, like: Any, alone: bool = False):
        settings = program.parts(inputs.numbers)
        self.alone = alone
        self.trace, self.rule, self.switch = program.trace, settings.step, settings.switch
        self.tolerances, self.budget = settings.tolerances, settings.budget
        self.eps = float(jnp.finfo(like.dtype).eps)
        self.bounds = inputs.bounds
        self.space: Any = Everywhere() if inputs.bounds is None else Box(*inputs.bounds)
        self.functions = Functions(program, inputs.args)
        kind = KINDS[settings.direction.name]
        self.method = kind(settings, self.functions, self.space, self.eps)
        self.searches = isinstance(settings.step, Search)
        self.probes = self.searches and settings.step.probe

    # --- at the start ----------------------------------------------------------------------------------

    def start(self, x: Any) -> State:
        """Return a run at its start, with f and ∇f evaluated."""
        x = self.space.project(x)
        f, g = self.functions.both(x)
        zero, none, no = jnp.zeros_like(f), jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        nothing = Step(jnp.zeros_like(x), zero, zero, no, no, no)
        search = Searching(zero, zero, none, none, zero, no)
        counts = Counts(none + 1, none, none, none)
        s = State(
            none + RUNNING, none, x, f, jnp.full_like(x, jnp.nan), zero, (), ~no, nothing, search,
            no | (not self.method.steepest), f, zero, none, x, jnp.full_like(f, jnp.inf), none, counts,
            (none, none, none), self._empty_ring(x),
        )  # fmt: skip
        s = self._judge(s, g, no)
        # a start where ∇f vanishes may be a saddle, which the plain run leaves
        still = self.method.verifies & (not self.alone) & (s.status == int(Status.CONVERGED))
        s = s._replace(status=jnp.where(still, SADDLE, s.status), memory=self.method.begin(x, s.f, s.g))
        if self.bounds is not None:  # traced bounds have not been checked
            empty = (self.bounds[0] > self.bounds[1]).any()
            s = s._replace(status=jnp.where(empty, int(Status.INFEASIBLE), s.status))
        return alike(s, apart(x))

    def _empty_ring(self, x: Any) -> Any:
        if self.trace is None:
            return None
        none = jnp.full(self.trace, -1, jnp.int32)
        points = jnp.full((self.trace, *x.shape), jnp.nan, x.dtype)
        kinds = {"d": points[:, 0], "q": none, "?": none > 0}
        return Trace(none, points, kinds["d"], points, *(kinds[kind] for kind in "dddqqq??"))

    # --- a turn of the loop ----------------------------------------------------------------------------

    def iteration(self, s: State) -> State:
        """Choose a direction, search along it, and judge the point where that ends."""
        s = self._aimed(s, True)
        if not self.searches:
            return same_types(self._stepped(s, s.running), s)
        landing = Landing(*(jnp.zeros_like(a) for a in (s.f != s.f, s.x, s.f, s.g, s.f != s.f)))

        def trial(now: Any) -> Any:
            return same_types(self._tried(s._replace(search=now[0], counts=now[1], status=now[2]), True), now)

        def going_on(now: Any) -> Any:
            return (now[2] == RUNNING) & ~now[3].accepted

        start = s.search, s.counts, s.status, landing
        search, counts, status, landing = jax.lax.while_loop(going_on, trial, start)
        s = s._replace(search=search, counts=counts, status=status)
        return same_types(self._arrived(s, landing, landing.accepted), s)

    def turn(self, s: State) -> State:
        """Do what an iteration does, as far as its next evaluation."""
        new = self._aimed(s, s.running & s.fresh)
        if not self.searches:
            return same_types(self._stepped(new, new.running), s)
        search, counts, status, landing = self._tried(new, new.running)
        new = new._replace(search=search, counts=counts, status=status)
        return same_types(self._arrived(new, landing, landing.accepted), s)

    def _aimed(self, s: State, rows: Any) -> State:
        """Choose the direction: the method's where it descends f, else −∇f; and the first trial."""
        x, g, space, method = s.x, s.g, self.space, self.method
        free = space.free(x, g, g)
        square, no = dot(free, free), jnp.zeros((), bool)
        size, memory = jnp.sqrt(square), s.memory
        down = Step(-free, -square, jnp.zeros_like(s.f), no, no, no)
        step = down
        if not method.steepest:
            memory = method.learn(s.memory, x, s.f, g, rows)
            s, on = self._charged(s, rows)
            p, lam, memory = method.direction(memory, s.k, x, g)
            step = self._guarded(free, size, space.inward(x, g, p), lam)
            step = picked(on, step, down) if method.penalised else step
        search = s.search
        if self.searches:
            rule = self.rule
            first = jnp.minimum(rule.longest, rule.grow * search.last)
            first = jnp.where(search.last > 0, first, rule.initial)
            new = search._replace(t=first, trials=0 * search.trials, doubts=0 * search.doubts)
        else:
            new = search._replace(t=jnp.asarray(self.rule.schedule(s.k), s.f.dtype))
        return s._replace(
            memory=memory, step=picked(rows, step, s.step), search=picked(rows, new, search),
            fresh=picked(rows, no, s.fresh),
        )  # fmt: skip

    def _charged(self, s: State, rows: Any) -> tuple[State, Any]:
        """Count what a direction evaluates, if the method is followed; end a run that cannot afford it."""
        grads, products, matrices = self.method.costs
        c, on = s.counts, s.follows
        if not any(self.method.costs):
            return s, on
        asks = on & rows
        if grads and self.budget.grads is not None:
            s = self._ended(s, asks & (c.njev + grads > self.budget.grads), int(Status.MAX_GRADIENTS))
        counts = c._replace(
            njev=c.njev + grads * (asks & s.running),
            nhvp=c.nhvp + products * asks,
            nhev=c.nhev + matrices * asks,
        )
        return s._replace(counts=counts), on

    def _guarded(self, free: Any, size: Any, p: Any, lam: Any) -> Step:
        """Return p where ∇fᵀp < 0, else −∇f."""
        slope = dot(free, p)
        good = (slope > -jnp.inf) & (slope < 0)
        short = good & ~(slope < -VANISHED * size * size) & (norm(p) <= VANISHED * size)
        lam = jnp.where(good, lam, jnp.zeros_like(slope))
        penalised = good & self.method.penalised
        return Step(
            jnp.where(good, p, -free), jnp.where(good, slope, -size * size), lam, ~good, penalised,
            penalised & short,
        )  # fmt: skip

    # --- a step of a given length ----------------------------------------------------------------------

    def _stepped(self, s: State, rows: Any) -> State:
        s = self._affords_value(s, rows)
        point = self.space.project(s.x + s.search.t * s.step.p)
        s = self._ended(s, rows & ~finite(point), int(Status.DIVERGED))
        rows &= s.running
        f, g = self.functions.both(point)
        landing = Landing(rows, point, f, g, jnp.zeros((), bool))
        return self._arrived(s, landing, rows, 1)

    def _affords_value(self, s: State, rows: Any) -> State:
        if self.budget.evals is None:
            return s
        return self._ended(s, rows & (s.counts.nfev >= self.budget.evals), int(Status.MAX_EVALUATIONS))

    # --- a line search ---------------------------------------------------------------------------------

    def _tried(self, s: State, rows: Any) -> tuple[Searching, Counts, Any, Landing]:
        """Evaluate a trial of the line search, and accept it, or shorten it."""
        x, f, g, step, search = s.x, s.f, s.g, s.step, s.search
        t, rule = search.t, self.rule
        to, fall = self.space.ahead(x, g, step.p, t, step.slope)
        probing, point, sign, r = jnp.zeros((), bool), to, 1.0, jnp.ones_like(f)
        if self.probes:
            probing, r = search.probing, difference_length(self.eps, x, step.p)
            probe, sign = difference(self.space, x, step.p, r)
            point = jnp.where(probing, probe, to)
        s = self._affords_value(s, rows & ~probing)
        rows &= s.running
        found, ahead = self.functions.both(point)
        trial, probing = rows & ~probing, rows & probing
        accepted = trial & (found <= f + rule.c * fall) & (found < f)
        rise = dot(ahead, to - x)
        close, flatter, level = self._close(s, found, fall, rise)
        close &= trial & ~accepted
        stuck = (search.trials > 0) & (search.trials % SUSPECT_TRIALS == 0) & jnp.isfinite(found)
        stuck &= trial & ~accepted & ~close
        if self.budget.grads is not None:  # of a trial judged by its slope, and of a probe
            poor = (close | stuck | probing) & (s.counts.njev >= self.budget.grads)
            s, close, stuck, probing = (
                self._ended(s, poor, int(Status.MAX_GRADIENTS)),
                close & ~poor,
                stuck & ~poor,
                probing & ~poor,
            )
        doubts = search.doubts + close
        noisy = close & ~level & (flatter | (doubts == SUSPECT_TRIALS))
        noisy |= stuck & (abs(found - f - 0.5 * (fall + rise)) > abs(rise - fall))
        by_slope = close & flatter & level
        slopes = close | stuck | probing
        counts = s.counts._replace(nfev=s.counts.nfev + trial, njev=s.counts.njev + slopes)
        s = s._replace(status=jnp.where(noisy, FAILED, s.status))
        accepted = (accepted | by_slope) & s.running
        s = s._replace(search=search._replace(doubts=doubts, last=jnp.where(accepted, t, search.last)))
        bend = dot(step.p, sign * (ahead - g)) / r
        search, status = self._shortened(s, rows & ~accepted & s.running, probing, found, fall, bend)
        return search, counts, status, Landing(accepted, to, found, ahead, by_slope)

    def _close(self, s: State, found: Any, fall: Any, slope: Any) -> tuple[Any, Any, Any]:
        """Return whether rounding or noise may hide a decrease, and if the trial is flatter, and level."""
        f, rise, size = s.f, abs(found - s.f), abs(s.f)
        part = WARY if self.rule.noise_tolerant else SUSPECT
        level = rise <= LEVEL * self.eps * size
        close = (jnp.maximum(rise, abs(fall)) <= part * size) | level
        return close & jnp.isfinite(f), abs(slope) < FLATTER * abs(fall), level

    def _shortened(
        self, s: State, rows: Any, probing: Any, found: Any, fall: Any, bend: Any
    ) -> tuple[Searching, Any]:
        """Return the search with the next trial, or the probe before it; and the status."""
        search, rule, step = s.search, self.rule, s.step
        t = search.t
        best = -fall * t / (2 * (found - s.f - fall))
        cut = jnp.clip(jnp.where(jnp.isfinite(best), best, 0.0), 0.1 * t, 0.5 * t)
        probe = jnp.zeros((), bool)
        if self.probes:
            first = (s.k == 0) & (search.trials == 0)
            probe = rows & first & ~probing
            known = (bend > 0) & (bend < jnp.inf)
            shorter = jnp.minimum(jnp.maximum(-step.slope / bend, PROBED * t), 0.5 * t)
            cut = jnp.where(probing, jnp.where(known, shorter, search.cut), cut)
        moves = rows & ~probe
        trials = search.trials + moves
        point, _ = self.space.ahead(s.x, s.g, step.p, cut, step.slope)
        failed = moves & ((trials >= rule.trials) | (point == s.x).all() | ~(abs(cut * step.slope) >= 0))
        search = search._replace(
            t=jnp.where(moves, cut, t), trials=trials, cut=jnp.where(probe, cut, search.cut), probing=probe
        )
        return search, jnp.where(failed, FAILED, s.status)

    # --- at an iterate ---------------------------------------------------------------------------------

    def _arrived(self, s: State, landing: Landing, rows: Any, values: int = 0) -> State:
        """Move to a point where f and ∇f were evaluated, and judge it; `values` are still to be counted."""
        s = s._replace(ring=self._recorded(s, rows))
        before, old = s.f, s.x
        x, f = jnp.where(rows, landing.x, s.x), jnp.where(rows, landing.f, s.f)
        spent = s.counts[:3] if self.trace is not None else s.spent
        s = s._replace(
            x=x, f=f, k=s.k + rows, fresh=s.fresh | rows, spent=picked(rows, tuple(spent), s.spent),
            counts=s.counts._replace(nfev=s.counts.nfev + values * rows),
        )  # fmt: skip
        if self.method.penalised:
            off = self.switch.off(s.k - 1, s.step.guarded, before, f, s.f_start)
            s = s._replace(follows=s.follows & ~(rows & jnp.asarray(off)))
        if self.searches:
            stalls = jnp.where(before - f > SHOWS * self.eps * abs(f), 0, s.stalls + 1)
            s = s._replace(stalls=jnp.where(rows, stalls, s.stalls))
        return self._judge(s, landing.g, landing.known, rows, before, x - old)

    def _judge(
        self, s: State, g: Any, known: Any, rows: Any = True, before: Any = None, moved: Any = None
    ) -> State:
        """See what f and ∇f at a new iterate say; ∇f is used, and counted, only where f does not end the run.

        A `known` ∇f has been counted.
        """
        tolerances, budget, f, x = self.tolerances, self.budget, s.f, s.x
        better = (f > -jnp.inf) & (f < s.best_f)
        s = s._replace(
            best_x=jnp.where(better, x, s.best_x), best_f=jnp.where(better, f, s.best_f),
            best_k=jnp.where(better, s.k, s.best_k),
        )  # fmt: skip
        s = self._ended(s, rows & (f < tolerances.bottom), int(Status.UNBOUNDED))
        s = self._ended(s, rows & ~(f < jnp.inf), int(Status.NONFINITE_VALUE))
        if before is not None:
            s = self._ended_by_step(s, rows, before, moved)
        if budget.grads is not None:
            poor = rows & ~known & (s.counts.njev >= budget.grads)
            s = self._ended(s, poor, int(Status.MAX_GRADIENTS))
        asked = s.running & rows & ~known
        g = jnp.where(asked | known, g, jnp.nan)
        g = g if rows is True else jnp.where(rows, g, s.g)
        size = safe_norm(g)
        gnorm = safe_norm(self.space.measure(x, g)) if self.space.bounded else size
        largest = jnp.where(gnorm > s.largest, gnorm, s.largest)
        counts = s.counts._replace(njev=s.counts.njev + asked)
        s = s._replace(g=g, counts=counts, gnorm=gnorm, largest=largest)
        s = self._ended(s, rows & ~(size < jnp.inf), int(Status.NONFINITE_GRADIENT))
        small = rows & (gnorm <= tolerances.g)
        if self.method.verifies:
            goes_on, stalled = self._doubted(s, before, moved)
            s = s._replace(status=jnp.where(s.running & small & stalled, FAILED, s.status))
            small &= ~goes_on
        s = self._ended(s, small, int(Status.CONVERGED))
        if is_asked(tolerances.rel):
            s = self._ended(s, rows & (gnorm <= tolerances.rel * largest), int(Status.RELATIVE))
        if budget.iters is not None:
            s = self._ended(s, rows & (s.k >= budget.iters), int(Status.MAX_ITERATIONS))
        if self.searches:
            s = s._replace(
                status=jnp.where(s.running & (s.stalls >= Gradients.stall_limit), FAILED, s.status)
            )
        return s

    def _ended_by_step(self, s: State, rows: Any, before: Any, moved: Any) -> State:
        """End a run whose last step was small."""
        tolerances, f = self.tolerances, s.f
        if is_asked(tolerances.f):
            fall, unit = before - f, jnp.maximum(jnp.maximum(abs(before), abs(f)), 1.0)
            s = self._ended(s, rows & (fall >= 0) & (fall <= tolerances.f * unit), int(Status.FTOL))
        if is_asked(tolerances.x):
            unit = jnp.maximum(norm(s.x), 1.0)
            s = self._ended(s, rows & (norm(moved) <= tolerances.x * unit), int(Status.XTOL))
        return s

    def _doubted(self, s: State, before: Any, moved: Any) -> tuple[Any, Any]:
        """Return whether a gradient within gtol is doubted while f falls, or where it no longer does."""
        unit, change = self._units(s)
        small = unit != 1.0
        doubt = (change / jnp.maximum(abs(s.f), unit) > DOUBT * self.tolerances.g) | (small & (s.k > 0))
        if before is None:
            return doubt, jnp.zeros((), bool)
        falls = before - s.f > ENOUGH * jnp.maximum(abs(s.f), unit)
        if self.rule.constant is None:
            falls &= ~small | (norm(moved) > NEAR * norm(s.x))
        if not self.searches:
            return doubt & falls, jnp.zeros((), bool)
        alarming = change / jnp.maximum(abs(s.f), unit) > jnp.maximum(ALARMING, DOUBT * self.tolerances.g)
        return doubt & falls, doubt & ~falls & (alarming | self._steep(s))

    def _units(self, s: State) -> tuple[Any, Any]:
        """Return the unit of f, and how much a change of x by its own size would change f, by the slope."""
        size = jnp.maximum(abs(s.f), s.f_start - s.f)
        unit = jnp.where(size < SMALL, size, 1.0) if self.tolerances.assumed else jnp.ones_like(size)
        return unit, norm(self.space.measure(s.x, s.g) * jnp.maximum(abs(s.x), 1.0))

    def _steep(self, s: State) -> Any:
        """Return whether the slope would change f by more than all so far."""
        unit, change = self._units(s)
        return (change > ALARMING * jnp.maximum(abs(s.f), unit)) & (change > s.f_start - s.f)

    def _ended(self, s: State, rows: Any, status: int) -> State:
        """End a run, unless it has ended. Small steps and budgets may hide an artificial stationary point."""
        code: Any = status
        if self.method.penalised and status in HIDDEN:
            code = jnp.where(s.step.vanished, int(Status.ARTIFICIAL), status)
        return s._replace(status=jnp.where(s.running & rows, code, s.status))

    def _recorded(self, s: State, rows: Any, last: bool = False) -> Any:
        """Return the trace with this iterate, and the step taken from it, in place of the oldest one."""
        if s.ring is None:
            return None
        nan, no = jnp.full_like(s.f, jnp.nan), jnp.zeros((), bool)
        alpha, lam, penalised, guarded = nan, nan, no, no
        if not last:
            _, _, lam, guarded, penalised, _ = s.step
            shown = self.method.amounts(s.memory, s.search.t, lam)
            alpha, lam = picked(guarded, (s.search.t, lam), shown)
        row = Trace(s.k, s.x, s.f, s.g, s.gnorm, lam, alpha, *s.spent, penalised=penalised, guarded=guarded)
        place = s.k % self.trace

        return jax.tree.map(lambda column, value: put(column, place, value, rows), s.ring, row)

    # --- whole runs ------------------------------------------------------------------------------------

    def run(self, x: Any) -> Solution:
        """Run from a start to the end."""
        return self.end(jax.lax.while_loop(lambda s: s.running, self.iteration, self.start(x)))

    def step(self, s: State) -> State:
        """Do one iteration of a run that nobody continues."""
        s = self.iteration(s)
        return jax.lax.cond(s.running, lambda s: s, self.settled, s)

    def resumed(self, s: State) -> State:
        """Return a run that goes on from where it ended, if the tolerances and limits here let it.

        f and ∇f are evaluated there once more, since the run may have changed; that is counted if ∇f was not
        known.
        """
        f, g = self.functions.both(s.x)
        known = finite(s.g)
        again = s._replace(status=jnp.full_like(s.status, RUNNING), f=f, stalls=jnp.zeros_like(s.stalls))
        again = self._judge(again, g, jnp.ones((), bool))
        again = again._replace(counts=s.counts._replace(njev=s.counts.njev + ~known))
        goes_on = s.running | (s.status[None] == jnp.asarray([int(end) for end in RESUMED])).any()
        return same_types(picked(goes_on, again, s), s)

    def settled(self, s: State) -> State:
        """Return an ended run with a status that says what is known: for runs that nobody continues."""
        if not self.searches:
            return s
        small, failed, grads = s.gnorm <= self.tolerances.g, s.status == FAILED, self.budget.grads
        affords = failed if grads is None else failed & (s.counts.njev + MOST <= grads)
        slope = jnp.where(affords, s.step.slope, -jnp.inf)  # without a slope nothing is asked
        asked = at_roundoff(
            self.functions.both, self.space, self.eps, s.x, s.f, s.g, slope, norm(s.step.p) / affords
        )
        end = jnp.where(asked[0], int(Status.ROUNDOFF), int(Status.LINE_SEARCH_FAILED))
        end = jnp.where(small & ~self._steep(s), int(Status.CONVERGED), end)
        counts = s.counts._replace(njev=s.counts.njev + asked[1])
        return same_types(s._replace(counts=counts, status=jnp.where(failed, end, s.status)), s)

    def end(self, s: State) -> Solution:
        """Return the solution of a run that has ended, settled if nobody continues it."""
        return self.solution(self.settled(s) if self.alone else s)

    def solution(self, s: State) -> Solution:
        """Return what is known of a run, with points as vectors."""
        trace = self._recorded(s, True, last=True)
        if trace is not None:
            order = jnp.argsort(jnp.where(trace.k < 0, jnp.iinfo(trace.k.dtype).max, trace.k))
            trace = jax.tree.map(lambda column: column[order], trace)
        lost = (s.status[None] == jnp.asarray([int(end) for end in LOST])).any()
        seen = lost & jnp.isfinite(s.best_f)
        return Solution(
            jnp.where(seen, s.best_x, s.x), jnp.where(seen, s.best_f, s.f), jnp.where(lost, jnp.nan, s.g),
            s.status, s.k, *s.counts, s.best_x, s.best_f, s.best_k, trace,
        )  # fmt: skip
