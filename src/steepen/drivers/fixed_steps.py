"""Many runs with fixed steps, in arrays with one row a run: the paper's methods from a batch of starts.

The order of an iteration is that of `run.py`, function by function: read that first. Here are only the parts
that a fixed step meets, each for all rows at once, and every row is the same to the bit as the run made
alone. A row that ends is cut out. The loop asks as a run does, with batches in place of vectors.

    fixed_steps.py         the loop: functions have the names that they have in `Run`; `_by_value` is of
                           `endings.py`, and `_charge` of `caller.py`: what is over budget ends rows
    fixed_directions.py    the methods, as in `methods/`
    fixed_rows.py          the state: the fields of `Run`, with an entry for each row
    fixed_results.py       the result and the trace
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from threading import Event
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..arrays import is_numpy
from ..methods import BFGS, CGD, DFP, GD, Method
from ..methods.matrix import LARGE, row_dots, row_norms, row_times
from ..objective import Objective, Settings
from ..outcome import of_library, result_of
from ..penalties import L1, L2, Huber, PNorm, SquaredL2
from ..questions import Asking, Gradient, Hessian, Point, Product, Value
from ..result import Best, Result
from ..run import HIDDEN
from ..scale import result_in_x
from ..schedules import VANISHED, Auto, Constant, Custom, L, Perturbed, Schedule, Signed
from ..space import Space
from ..status import Status
from ..steps import Fixed
from ..switches import After, AnyOf, FirstGuard, GoodDrop, Never, SmallImprovement, Switch
from .batch_caller import BatchCaller
from .caller import Meter
from .fixed_directions import Directions
from .fixed_results import Columns, Ends
from .fixed_rows import Rows, all_or, chosen, merged, one_or, spread
from .interrupt import defer_sigint
from .single import attach, drive

PENALTIES = (SquaredL2, L2, Huber, L1, PNorm)
SWITCHES = (Never, After, FirstGuard, SmallImprovement, GoodDrop)

GOES_ON = -1
"""In place of the status of a row that has not ended."""


def fits(placed: Objective, settings: Settings, callback: object, checkpoint: object, check: bool) -> bool:
    """Return whether this driver can make the runs: all parts are the library's, and ∇f is given.

    It does not keep in mind which rows it asks about, and so cannot give them data of their own.
    """
    batch = is_numpy(placed.x) and placed.x.ndim == 2 and not placed.rows
    given = not (placed.scheme or placed.library)
    watched = callback is not None or checkpoint is not None or check
    if not (batch and given and not watched and type(settings.step) is Fixed):
        return False
    step = settings.step.prepare(settings.budget.total, None, len(placed.x))
    known = _known_schedule(step.schedule) and _known_switch(settings.switch)
    return known and _known_method(settings, *placed.x.shape)


def _known_method(settings: Settings, rows: int, n: int) -> bool:
    method = settings.method
    has_matrix = type(method) in (BFGS, DFP) or getattr(method, "curvature", "") in ("bfgs", "dfp")
    if has_matrix and n >= LARGE:  # a large matrix is updated in place, each by itself
        return False
    if type(method) is not CGD:
        return type(method) in (GD, BFGS, DFP)
    lam = method.prepare(settings.budget.total, None, rows).lam
    return type(method.penalty) in PENALTIES and _known_schedule(lam)


def _known_schedule(schedule: Any) -> bool:
    if type(schedule) in (Signed, Perturbed):
        return _known_schedule(schedule.lam)
    return type(schedule) in (Constant, L, Custom, Auto)


def _known_switch(switch: Switch) -> bool:
    if type(switch) is AnyOf:
        return all(map(_known_switch, switch.parts))
    return type(switch) in SWITCHES


def solve_fixed_steps(placed: Objective, settings: Settings, trace: Any) -> Result:
    """Return the result of the runs of a batch."""
    began, functions = time.perf_counter(), placed.functions()
    calls = BatchCaller(functions, placed.x[0], placed.library)
    with defer_sigint() as interrupt:
        runs = FixedSteps(placed, settings, trace, Meter(settings.budget, began=began), interrupt)
        try:
            drive(runs.iterate(), _answers(calls, combined=placed.jac is True), lambda: None)
        except BaseException as error:
            if not (interrupt.is_set() and isinstance(error, KeyboardInterrupt)):
                status = Status.INTERRUPTED if isinstance(error, KeyboardInterrupt) else Status.FAILED
                attach(error, lambda: runs.cut_off(status))
                raise
            return runs.cut_off(Status.INTERRUPTED)
    return runs.result()


def _answers(calls: BatchCaller, combined: bool) -> dict[type, Callable[[Any], Any]]:
    """Return what answers the questions; with `combined`, f and ∇f come together."""
    return {
        Value: lambda ask: calls.both(ask.x) if combined else calls.values(ask.x),
        Gradient: lambda ask: calls.both(ask.x)[1] if combined else calls.gradients(ask.x),
        Product: lambda ask: calls.products(ask.x, ask.v),
        Hessian: lambda ask: calls.hessians(ask.x),
    }


class FixedSteps:
    """The runs of a batch. What may end rows replaces `self._rows`, so it is read again after that."""

    def __init__(self, placed: Objective, settings: Settings, trace: Any, meter: Meter, interrupt: Event):
        count, total = len(placed.x), settings.budget.total
        self._placed, self._settings, self._meter, self._interrupt = placed, settings, meter, interrupt
        self._method: Method = settings.method.prepare(total, None, count)
        self._alpha = cast(Schedule, cast(Fixed, settings.step).prepare(total, None, count).schedule)
        self._problem, self._combined = placed.problem(settings), placed.jac is True
        self._space: Space = self._problem.space
        self._directions = Directions(self._method, self._problem, self._combined)
        x = placed.x
        self._rows = Rows(
            np.arange(count), Point(x), Point(x, np.full(count, math.inf), k=cast(Any, np.zeros(count, int))),
            np.full(count, not self._method.steepest),
        )  # fmt: skip
        self._ends = Ends(x)
        self._trace = Columns(x, trace == "x", total) if trace else None

    def iterate(self) -> Asking[None]:
        """Run every row to its end."""
        yield from self._begin()
        while len(self._rows):
            self._begin_iteration()
            if len(self._rows):
                yield from self._advance()

    # --- an iteration ----------------------------------------------------------------------------------

    def _begin(self) -> Asking[None]:
        self._charge(1, int(self._combined))
        if len(self._rows):
            self._rows.f_start = f = yield from self._values(self._rows.here.x)
            yield from self._arrive(Point(self._rows.here.x, f))

    def _begin_iteration(self) -> None:
        """Note the iterate; end rows where a limit is reached."""
        rows, meter = self._rows, self._meter
        self._note_iterate(rows)
        if self._interrupt.is_set():
            self._end_all(Status.INTERRUPTED)
        elif meter.timed and meter.seconds >= meter.deadline:
            self._end_all(Status.MAX_SECONDS)
        elif rows.here.k >= meter.iters:
            self._end_all(Status.MAX_ITERATIONS)

    def _advance(self) -> Asking[None]:
        """Take one step from here."""
        yield from self._direction()
        rows = self._rows
        if not len(rows):
            return
        rows.alpha = self._step_sizes(rows)
        x = row_times(rows.alpha, rows.p)
        x += rows.here.x
        rows.there = self._space.project(x)
        self._end_where(_not_finite(rows.there), Status.DIVERGED)
        rows = self._rows
        rows.arrived = rows.nfev, rows.njev, rows.nhvp
        self._charge(1, int(self._combined))
        rows = self._rows
        if len(rows):
            f = yield from self._values(rows.there)
            yield from self._arrive(Point(rows.there, f, None, rows.here.k + 1))

    def _step_sizes(self, rows: Rows) -> Any:
        """Return α."""
        alpha = rows.own(self._alpha(rows.here.k))
        if np.all(alpha > 0):
            return alpha
        row = int(np.argmin(np.broadcast_to(alpha > 0, len(rows))))
        here = Point(rows.here.x[row], k=rows.here.k)
        alone = self._placed.run(self._settings, int(rows.index[row]))  # it says what is wrong
        return alone.step.along(alone.problem, here, rows.p[row], 0.0)

    def _arrive(self, here: Point) -> Asking[None]:
        """Move to points where f is known; end rows that have arrived; evaluate ∇f at the others."""
        rows = self._rows
        if here.k:
            rows.before = rows.here
        rows.here = here
        if here.k:
            self._note_step(rows)
        self._note_best(rows)
        statuses = self._by_value(rows)
        if here.k and self._method.penalised:
            off: Any = self._settings.switch.off(
                here.k - 1, rows.guarded, cast(Point, rows.before).f, here.f, rows.f_start
            )
            rows.follows = rows.follows & np.logical_not(off)
        if statuses is not None:
            self._end(statuses)
        self._charge(0, 0 if self._combined else 1)
        if len(self._rows):
            yield from self._judge()

    def _values(self, x: Any) -> Asking[Any]:
        """Evaluate f; ∇f is then at hand if it comes with f."""
        answer: Any = yield Value(x)
        if self._combined:
            answer, self._rows.at_hand = answer
        return answer

    def _note_best(self, rows: Rows) -> None:
        here, best = rows.here, rows.best
        lower = here.f < best.f
        if not here.f.min() > -math.inf:
            lower &= here.f > -math.inf
        if lower.all():
            rows.best = here._replace(k=np.full(len(rows), here.k))
        elif lower.any():
            f, k = merged(lower, here.f, best.f), merged(lower, here.k, best.k)
            rows.best = Point(chosen(lower, here.x, best.x), f, k=k)

    def _judge(self) -> Asking[None]:
        """Evaluate ∇f, and end rows by its norm."""
        here = self._rows.here
        g = self._rows.at_hand if self._combined else (yield Gradient(here.x))
        rows, tolerances = self._rows, self._settings.tolerances
        rows.here = here._replace(g=g)
        rows.gradient_norm = row_norms(g)
        rows.gnorm = row_norms(self._space.measure(here.x, g)) if self._space.bounded else rows.gradient_norm
        if tolerances.rel:
            largest = rows.largest_gnorm
            rows.largest_gnorm = merged(rows.gnorm > largest, rows.gnorm, largest)
        elif rows.gradient_norm.max() < math.inf and rows.gnorm.min() > tolerances.g:
            return
        statuses = np.full(len(rows), GOES_ON)
        statuses[rows.gnorm <= tolerances.rel * rows.largest_gnorm] = Status.RELATIVE
        statuses[rows.gnorm <= tolerances.g] = Status.CONVERGED
        statuses[~(rows.gradient_norm < math.inf)] = Status.NONFINITE_GRADIENT
        self._end(statuses)

    def _by_value(self, rows: Rows) -> NDArray[np.int64] | None:
        """Return the statuses that follow from f, and from the steps that led there: `endings.by_value`."""
        tolerances, here, before = self._settings.tolerances, rows.here, rows.before
        f: Any = here.f
        moves = before is not None and bool(tolerances.f or tolerances.x)
        if not moves and f.min() >= tolerances.bottom and f.max() < math.inf:
            return None
        statuses = np.full(len(rows), GOES_ON)
        if moves:
            assert before is not None
            if tolerances.x:
                least = tolerances.x * np.maximum(row_norms(here.x), 1.0)
                statuses[row_norms(here.x - before.x) <= least] = Status.XTOL
            if tolerances.f:
                f_before: Any = before.f
                least = tolerances.f * np.maximum(np.maximum(abs(f_before), abs(f)), 1.0)
                statuses[(f_before - f >= 0) & (f_before - f <= least)] = Status.FTOL
        statuses[~(f < math.inf)] = Status.NONFINITE_VALUE
        statuses[f < tolerances.bottom] = Status.UNBOUNDED
        return statuses

    # --- directions ------------------------------------------------------------------------------------

    def _direction(self) -> Asking[None]:
        """Set the direction: the method's where it descends f, else −∇f."""
        rows, space = self._rows, self._space
        rows.lam, rows.guarded, rows.penalised, rows.vanished = 0.0, False, False, False
        if rows.follows.any():
            self._directions.learn(rows)
            self._charge_product()
            rows = self._rows
        x, g = rows.here.x, rows.here.g
        free = space.free(x, g, g)
        if not rows.follows.any():
            rows.p = -free
            return
        size: Any = row_norms(free) if space.bounded else rows.gradient_norm
        which = all_or(rows.follows)
        p, lam = yield from self._directions.propose(rows, which, free[which])
        p = space.inward(x[which], g[which], p)
        self._guard(rows, which, free, size[which], p, lam)

    def _guard(self, rows: Rows, which: Any, free: Any, size: Any, p: Any, lam: Any) -> None:
        """Take the directions p of these rows where ∇fᵀp < 0, else −∇f."""
        mine = free[which]
        slope, penalised = row_dots(mine, p), self._method.penalised
        clear = (slope < -VANISHED * size * size) & (slope > -math.inf)
        guarded: Any = False
        vanished: Any = False
        if not clear.all():
            falls = (slope < 0) & (slope > -math.inf)
            guarded = ~falls if self._method.guard else np.zeros_like(falls)
            p, lam = chosen(guarded, -mine, p), merged(guarded, 0.0, lam)
            if penalised:
                vanished = ~clear & ~guarded & (row_norms(p) <= VANISHED * size)
        used: Any = np.logical_not(guarded) & penalised
        if isinstance(which, slice):
            rows.p, rows.lam, rows.guarded, rows.vanished, rows.penalised = p, lam, guarded, vanished, used
            return
        rows.p = -free
        rows.p[which] = p
        rows.lam, rows.guarded, rows.vanished, rows.penalised = (
            spread(value, which, len(rows)) for value in (lam, guarded, vanished, used)
        )

    # --- limits ----------------------------------------------------------------------------------------

    def _charge_product(self) -> None:
        """Count what the products H·v will take; end rows whose limits do not cover it."""
        directions, source = self._directions, self._directions.source
        if source in ("hvp", "hess"):
            self._charge(0, 0, self._rows.follows)
            rows = self._rows
            if source == "hvp":
                rows.nhvp = rows.nhvp + one_or(rows.follows)
            else:
                rows.nhev = rows.nhev + directions.needs_hessian(rows)
        elif source == "difference":
            self._charge(int(self._combined), 1, directions.asks(self._rows))

    def _charge(self, evals: int, grads: int, where: Any = 1) -> None:
        """Count evaluations of these rows that are about to begin; end rows whose limits do not cover it."""
        rows, meter = self._rows, self._meter
        late = meter.timed and meter.seconds >= meter.deadline
        no_gradients = grads and meter.grads < math.inf and rows.njev + grads > meter.grads
        no_values = evals and meter.evals < math.inf and rows.nfev + evals > meter.evals
        if late or np.any(no_gradients) or np.any(no_values):
            statuses = np.full(len(rows), GOES_ON)
            for over, status in (  # of several limits the last one names the end, as in `Meter.charge`
                (no_values, Status.MAX_EVALUATIONS),
                (no_gradients, Status.MAX_GRADIENTS),
                (late, Status.MAX_SECONDS),
            ):
                statuses[np.broadcast_to(np.logical_and(over, where), len(rows))] = status
            where = where if np.ndim(where) == 0 else where[statuses == GOES_ON]
            self._end(statuses)
            rows = self._rows
        if evals:
            rows.nfev = rows.nfev + where
        if grads:
            rows.njev = rows.njev + where

    # --- ends ------------------------------------------------------------------------------------------

    def _end_all(self, status: Status) -> None:
        self._end(np.full(len(self._rows), status))

    def _end_where(self, ends: Any, status: Status) -> None:
        if ends is not None:
            self._end(np.where(ends, status, GOES_ON))

    def _end(self, statuses: NDArray[np.int64]) -> None:
        """End the rows that have a status, and cut them out."""
        rows, gone = self._rows, np.flatnonzero(statuses != GOES_ON)
        if not len(gone):
            return
        few, rest, statuses = rows.cut(gone), np.flatnonzero(statuses == GOES_ON), statuses[gone]
        statuses[np.isin(statuses, list(HIDDEN)) & few.vanished] = Status.ARTIFICIAL
        self._note_iterate(few)
        self._ends.note(few, statuses)
        self._rows = rows.cut(rest)

    def cut_off(self, status: Status) -> Result:
        """Return the result of a batch that was cut off: rows that had not ended get this status."""
        if len(self._rows):
            self._note_iterate(self._rows)
            self._ends.note(self._rows, np.full(len(self._rows), status))
        return self.result()

    def result(self) -> Result:
        """Return the result of the batch, in the user's variables and array type."""
        method, ends = self._method, self._ends
        with np.errstate(all="ignore"):
            result = Result(
                x=ends.x, fun=ends.f.astype(ends.x.dtype), jac=ends.g, status=ends.status,
                success=np.isin(ends.status, [status for status in Status if status.success]),
                message=self._messages(), nit=ends.nit,
                nfev=ends.nfev, njev=ends.njev, nhev=ends.nhev, nhvp=ends.nhvp,
                best=Best(ends.best_x, ends.best_f.astype(ends.x.dtype), ends.best_k),
                hvp_source=method.source(self._problem), trace=self._trace and self._trace.finish(),
                method=method.name, seconds=self._meter.seconds,
            )  # fmt: skip
        return result_in_x(of_library(result, self._placed.like), self._placed.scale)

    def _messages(self) -> list[str]:
        """Return the message of each row: that of a run that has ended like it."""
        kinds = 2 * self._ends.status + (self._ends.best_f < math.inf)
        messages: dict[int, str] = {}
        for kind in set(kinds.tolist()):
            alone = self._placed.run(self._settings, 0)
            alone.status, alone.best = Status(kind // 2), Point(alone.start, 0.0) if kind % 2 else None
            messages[kind] = result_of(alone, self._meter, None).message
        return [messages[kind] for kind in kinds.tolist()]

    # --- the trace -------------------------------------------------------------------------------------

    def _note_iterate(self, rows: Rows) -> None:
        if self._trace is not None and rows.here.f is not None and rows.here.k > rows.noted:
            self._trace.arrived(rows)
            rows.noted = rows.here.k

    def _note_step(self, rows: Rows) -> None:
        if self._trace is not None:
            self._trace.stepped(rows)


def _not_finite(x: Any) -> Any:
    """Return where a row is not finite; None if all are."""
    flat = x.reshape(-1)
    if float(flat.dot(flat)) < math.inf:  # quick, and nearly always enough
        return None
    return ~np.isfinite(x).all(axis=-1)
