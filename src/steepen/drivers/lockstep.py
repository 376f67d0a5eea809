"""Many runs from a batch of starts, each the same to the bit as alone.

In a round every run that has not ended gets one answer, and all questions of one kind become one vectorised
call: fun gets a batch of the points that were asked for. Rows do not wait for one another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import fields
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .._tools.workers import WorkersLost
from ..arrays import to_numpy
from ..callables import Functions
from ..gradient_check import checked
from ..objective import Objective, Settings
from ..outcome import joined, of_library, result_of
from ..questions import Denied, Gradient, Hessian, Iterate, Moved, Product, Question, Value, Values, Vector
from ..result import Result
from ..run import Run
from ..scale import result_in_x, times
from ..status import Status
from ..tensors import tensor
from .batch_caller import BatchCaller
from .caller import Caller, Meter
from .checkpoint import Checkpoint, Journal
from .interrupt import defer_sigint
from .log import Log, journal_of
from .recorder import Recorder
from .single import attach, quietly, stop_iteration
from .watch import State, Watch, state_of


class Row:
    """One run of a batch, and the question that it waits with."""

    def __init__(
        self, index: int, run: Run, caller: Caller, watch: Watch, journal: Journal | None, check: bool
    ):  # fmt: skip
        self.index, self.run, self.caller, self.watch, self._journal = index, run, caller, watch, journal
        meter = caller.meter
        run.watched = watch.recorder is not None
        self.asks = checked(run, meter.evals, meter.grads, caller.combined) if check else run.iterate()
        self.ask: Question | None = None
        """None: it has ended."""
        self.told = run.here.k
        """The last iterate that the callback has seen."""
        self.values: list[float] = []
        """Those values of a difference that are known."""
        self._before = meter.counts
        """The counts before the question."""

    @property
    def points(self) -> Sequence[Vector]:
        """Where f has to be evaluated for a difference."""
        return cast(Values, self.ask).points[len(self.values) :]

    def resume(self, within: Callable[..., Any], answer: Any, *, error: BaseException | None = None) -> None:
        """Go on until the run ends, or asks for an evaluation that has to be made; it is counted.

        `within` calls a function in the context of the runs, without NumPy's warnings.
        """
        while True:
            try:
                ask = within(self.asks.send, answer) if error is None else within(self.asks.throw, error)
            except StopIteration:
                self.ask = None
                return self.watch.finish(self.run)
            except Exception as refused:
                refused.add_note(f"steepen: row {self.index} of the batch")
                if (stop := stop_iteration(refused)) is None:
                    raise
                raise stop from None
            error, self.ask = None, ask
            if type(ask) is Iterate:
                return None
            try:
                known, answer = self._settled(ask)
            except Denied as denied:
                error = denied
                continue
            if not known:
                return None

    def _settled(self, ask: Any) -> tuple[bool, Any]:
        """Return whether a question is answered without a call, and the answer; it is counted."""
        if type(ask) is Moved:
            return True, self.watch.answers[Moved](ask)
        caller, journal, self.values = self.caller, self._journal, []
        self._before = caller.meter.counts
        here = caller.at_hand(ask)
        caller.charge(ask)
        if here is not None:
            return True, here
        if journal is None:
            return False, None
        if type(ask) is not Values:
            found, kept = journal.replayed(ask)
            return found, caller.recall(ask, kept) if found else None
        for point in ask.points:
            found, value = journal.replayed(Value(point))
            if not found:
                return False, None
            self.values.append(value)
        return True, self.values

    def late(self, within: Callable[..., Any]) -> bool:
        """Return whether the time has come since the question was counted; then it is denied."""
        meter = self.caller.meter
        if not (meter.timed and meter.seconds >= meter.deadline):
            return False
        self.deny(within, Status.MAX_SECONDS)
        return True

    def deny(self, within: Callable[..., Any], status: Status, begun: int = 0) -> int:
        """Deny the answer, of which so many evaluations have begun, and stay counted; return how many."""
        points = len(self.points) if type(self.ask) is Values else 1
        if begun < points:
            meter = self.caller.meter
            meter.nfev, meter.njev, meter.nhvp, meter.nhev = self._before
            meter.nfev += begun
        self.resume(within, None, error=Denied(status))
        return min(begun, points)

    def note(self, answer: Any) -> None:
        """Write an answer that was evaluated to the checkpoint, if there is one."""
        if self._journal is None:
            return
        seconds = self.caller.meter.seconds
        if type(self.ask) is Values:
            for point, value in zip(self.points, answer, strict=True):
                self._journal.note(Value(point), value, seconds)
        else:
            ask = cast(Any, self.ask)
            self._journal.note(ask, self.caller.to_keep(ask, answer), seconds)

    def save(self) -> None:
        """Write the state to the checkpoint, if there is one."""
        if self._journal is not None:
            self._journal.iterate(self.run, self.caller.meter, self.watch.recorder)

    def result(self) -> Result:
        """Return the result of this row."""
        recorder = self.watch.recorder
        return result_of(self.run, self.caller.meter, recorder and recorder.finish())


class Lockstep:
    """Answers the questions of many runs, round by round."""

    def __init__(
        self, placed: Objective, functions: Functions, rows: Sequence[Row],
        callback: Callable[[list[Row]], list[bool]] | None, checkpoint: Checkpoint | None,
    ):  # fmt: skip
        self.rows, self._callback, self._functions = rows, callback, functions
        self._together: Any = nullcontext if checkpoint is None else checkpoint.together
        """Within, what is written to the checkpoint is written at once."""
        self._calls = BatchCaller(functions, placed.x[0], placed.library, placed.rows, placed.workers)
        self._within = quietly()

    def run(self) -> None:
        """Run every row to its end."""
        for row in self.rows:
            row.resume(self._within, None)
        while waiting := [row for row in self.rows if row.ask is not None]:
            self._begin_iterations([row for row in waiting if type(row.ask) is Iterate])
            # a row whose next question is of a kind further down is answered again in the same round
            for kind, answer in (
                (Value, self._values), (Values, self._differences), (Gradient, self._gradients),
                (Product, self._products), (Hessian, self._hessians),
            ):  # fmt: skip
                asked = [row for row in waiting if type(row.ask) is kind and not row.late(self._within)]
                if asked:
                    self._evaluate(answer, asked)
        if self._callback is not None:
            self._call_back(self._callback)

    def _evaluate(self, answer: Callable[[list[Row]], None], asked: list[Row]) -> None:
        """Answer these rows; where the workers are lost, those that have had no answer are denied it."""
        asks = [row.ask for row in asked]
        try:
            answer(asked)
        except WorkersLost as lost:
            left = lost.begun
            for row, ask in zip(asked, asks, strict=True):
                if row.ask is ask:
                    left -= row.deny(self._within, Status.WORKERS, left)

    def _begin_iterations(self, rows: list[Row]) -> None:
        """Let rows begin their next iteration, unless a limit or the callback ends them."""
        stopped: set[int] = set() if self._callback is None else self._call_back(self._callback)
        with self._together():
            for row in rows:
                status = row.watch.answers[Iterate](row.ask)
                if row.index in stopped and status is not Status.INTERRUPTED:
                    status = Status.CALLBACK
                if status is None:
                    row.save()
                row.resume(self._within, status)

    def _call_back(self, callback: Callable[[list[Row]], list[bool]]) -> set[int]:
        """Call back for the rows that have made a step, or their last one; return which of them to end."""
        fresh = [
            row
            for row in self.rows
            if row.run.here.k > row.told and (row.ask is None or type(row.ask) is Iterate)
        ]
        for row in fresh:
            row.told = row.run.here.k
        stops = callback(fresh) if fresh else []
        return {row.index for row, stop in zip(fresh, stops, strict=True) if stop}

    # --- evaluations -----------------------------------------------------------------------------------

    def _hand_out(self, rows: list[Row], answers: Sequence[Any]) -> None:
        """Give each row its answer."""
        with self._together():
            for row, answer in zip(rows, answers, strict=True):
                row.note(answer)
        for row, answer in zip(rows, answers, strict=True):
            row.resume(self._within, answer)

    def _values(self, rows: list[Row]) -> None:
        points = [cast(Value, row.ask).x for row in rows]
        if self._functions.both is None:
            self._hand_out(rows, self._call(self._calls.values, _indices(rows), points))
            return
        values, gradients = self._call_both(points, rows)
        for row, x, g in zip(rows, points, gradients, strict=True):
            row.caller.last = x, g
        self._hand_out(rows, values)

    def _gradients(self, rows: list[Row]) -> None:
        points = [cast(Gradient, row.ask).x for row in rows]
        if self._functions.both is None:
            self._hand_out(rows, self._call(self._calls.gradients, _indices(rows), points))
            return
        _, gradients = self._call_both(points, rows)
        self._hand_out(rows, gradients)

    def _differences(self, rows: list[Row]) -> None:
        """Answer with the values of differences, those of all rows in one call."""
        for imaginary in (False, True):
            asked = [row for row in rows if type(row.ask) is Values and row.ask.imaginary is imaginary]
            points = [point for row in asked for point in row.points]
            indices = [row.index for row in asked for _ in row.points]
            if not asked:
                continue
            found = self._call(self._calls.imaginary if imaginary else self._calls.values, indices, points)
            ends = np.cumsum([len(row.points) for row in asked]).tolist()
            new = [found[end - len(row.points) : end] for row, end in zip(asked, ends, strict=True)]
            with self._together():
                for row, values in zip(asked, new, strict=True):
                    row.note(values)
            for row, values in zip(asked, new, strict=True):
                row.resume(self._within, row.values + values)
            rows = [row for row in rows if row not in asked]  # those answered may have asked again

    def _products(self, rows: list[Row]) -> None:
        asks = [cast(Product, row.ask) for row in rows]
        points, vectors = [ask.x for ask in asks], [ask.v for ask in asks]
        self._hand_out(rows, self._call(self._calls.products, _indices(rows), points, vectors))

    def _hessians(self, rows: list[Row]) -> None:
        points = [cast(Hessian, row.ask).x for row in rows]
        matrices = self._call(self._calls.hessians, _indices(rows), points)
        for row, x, matrix in zip(rows, points, matrices, strict=True):
            row.caller.matrix = x, matrix
        self._hand_out(rows, matrices)

    # --- calls -----------------------------------------------------------------------------------------

    def _call_both(self, points: list[Vector], rows: list[Row]) -> tuple[list[float], list[Vector]]:
        """Call a function that returns f and ∇f; return one of each for each point."""
        values, gradients = self._calls.both(np.stack(points), rows=_indices(rows))
        return values.tolist(), list(gradients)

    def _call(
        self, function: Callable[..., NDArray[Any]], rows: list[int], *columns: list[Vector]
    ) -> list[Any]:
        """Call a function of the user's with a batch of these points, of these rows; one answer for each."""
        if not columns[0]:
            return []
        found = function(*(np.stack(column) for column in columns), rows=rows)
        return found.tolist() if found.ndim == 1 else list(found)


def _indices(rows: list[Row]) -> list[int]:
    """Return which rows of the batch these are."""
    return [row.index for row in rows]


def solve_batch(
    placed: Objective, settings: Settings, trace: Any, callback: Callable[[State], object] | None,
    checkpoint: Checkpoint | None, check: bool, log: Log | None = None,
) -> Result:  # fmt: skip
    """Return the result of the runs of a batch."""
    began, functions = time.perf_counter(), placed.functions()
    with defer_sigint() as interrupt:
        rows: list[Row] = []
        for index in range(len(placed.x)):
            run, meter = placed.run(settings, index), Meter(settings.budget, began=began)
            recorder = Recorder(keep_x=trace == "x") if trace else None
            journal = journal_of(checkpoint, log, index, functions.both is not None)
            if journal is not None:
                journal.resume(run, meter, recorder)
            caller = Caller(functions, placed.x[0], meter, combined=placed.jac is True)
            rows.append(Row(index, run, caller, Watch(meter, interrupt, recorder), journal, check))
        told = None if callback is None else _batch_callback(callback, placed)
        lockstep = Lockstep(placed, functions, rows, told, checkpoint)
        try:
            lockstep.run()
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            status = Status.INTERRUPTED if interrupted else Status.FAILED
            if not (interrupted and interrupt.is_set()):  # else Ctrl-C was pressed a second time
                attach(error, lambda: _so_far(placed, rows, status, began))
                raise
            return _so_far(placed, rows, status, began)
    return _result(placed, rows, began)


def _so_far(placed: Objective, rows: list[Row], status: Status, began: float) -> Result:
    """Return the result of a batch that was cut off: rows that had not ended get this status."""
    for row in rows:
        if row.run.status is None or row.ask is not None:
            row.run.status = status
            row.watch.finish(row.run)
    return _result(placed, rows, began)


def _result(placed: Objective, rows: list[Row], began: float) -> Result:
    """Return the result of a batch, in the user's variables and array type."""
    earlier = max(row.caller.meter.earlier for row in rows)
    result = joined([row.result() for row in rows], earlier + time.perf_counter() - began)
    return result_in_x(of_library(result, placed.like), placed.scale)


def _batch_callback(
    callback: Callable[[State], object], placed: Objective
) -> Callable[[list[Row]], list[bool]]:
    """Return the callback as a batch calls it; it returns which of these rows to end."""

    def call(rows: list[Row]) -> list[bool]:
        states = [state_of(row.run, row.caller.meter) for row in rows]
        columns: dict[str, Any] = {
            field.name: np.array([getattr(state, field.name) for state in states]) for field in fields(State)
        }
        x = columns["x"] if placed.scale is None else times(columns["x"], placed.scale)
        x = x if placed.like is None else tensor(placed.like, x)
        columns |= {"x": x, "seconds": states[0].seconds, "rows": np.array([row.index for row in rows])}
        try:
            stop: Any = callback(State(**columns))
        except StopIteration:
            stop = True
        return _ends(stop, len(rows))

    return call


def _ends(stop: Any, rows: int) -> list[bool]:
    """Read what a callback has returned: one bool for each row, or one for all."""
    told = stop is True or isinstance(stop, list | tuple) or hasattr(stop, "shape")
    ends: Any = np.asarray(to_numpy(stop)) if told else np.False_
    if ends.shape == () and ends.dtype == bool:
        return [bool(ends)] * rows
    if ends.ndim and (ends.dtype != bool or ends.shape != (rows,)):
        raise TypeError(f"callback: expected one bool per row, got {stop!r}")
    return ends.tolist() if ends.ndim else [False] * rows
