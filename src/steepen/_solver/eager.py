"""The eager loop, started by `solve`: changes the state, ends rows, calls back, traces, defers Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from threading import Event
from typing import Any

import numpy as np

from .._core.arrays import Array, Rows, Scalar, Whole, to_numpy
from .._core.saved import Saved
from .._core.state import NAN, RUNNING, Counts, Ended, SolverState, State, each
from .._core.status import Status
from .._evaluation.counter import Cost, OutOfTime
from .._evaluation.evaluator import Context
from .gradient_check import refuse_cut_graph
from .interrupt import defer_sigint
from .iteration import Iteration
from .problem import Settings
from .recorder import COLUMNS, Recorder, entry


class Over(Exception):
    """The last row has ended."""


class Loop:
    """Iterations until every row has ended; rows with a status are retired after each part of one."""

    def __init__(
        self,
        context: Context,
        settings: Settings,
        x0: Array,
        recorder: Recorder | None = None,
        callback: Callable[[State], object] | None = None,
        save: Callable[[Loop], object] | None = None,
    ):
        self.context, self.backend = context, context.backend
        self.evaluator, self.counter, self.recorder = context.evaluator, context.counter, recorder
        self.settings, self.callback, self.save = settings, callback, save
        self.iteration = Iteration(context, settings)
        self.solver_state = self.iteration.begin(x0)
        self.ended: list[Ended] = []
        self.undone: list[Rows | None] = []  # rows whose last step came to no end

    def run(self) -> None:
        """Iterate until every row has ended."""
        try:
            with defer_sigint() as interrupt:
                self._iterate(self.solver_state, interrupt)
        except Over:
            pass
        except OutOfTime:
            self._cut(Status.MAX_SECONDS)
        except KeyboardInterrupt:
            self._cut(Status.INTERRUPTED)
        except Exception:
            self._cut(Status.FAILED)
            raise

    def _iterate(self, c: SolverState, interrupt: Event) -> None:
        counter, recorder, run, timed = self.counter, self.recorder, self.iteration, self.counter.timed
        while True:
            c.spent = (counter.nfev, counter.njev, counter.nhvp)
            if interrupt.is_set():
                raise KeyboardInterrupt
            if self.save is not None:
                self.save(self)
            run.evaluate(c)
            if c.status is not RUNNING:
                self._retire_ended(c)
            if c.k == 0:
                self._refuse_cut_graphs(c)
            elif self.callback is not None:
                self._call_back(c, self.callback)
            run.check_convergence(c)
            if c.status is not RUNNING:
                self._retire_ended(c)
            if timed and counter.late():
                self._end(c, self._everyone(Status.MAX_SECONDS))
            run.compute_direction(c)
            if c.status is not RUNNING:
                self._retire_ended(c)
            run.line_search(c)
            if timed and counter.late():
                self._end(c, self.backend.select(c.step_info.alpha == 0, Status.MAX_SECONDS, RUNNING))
            run.handle_failure(c)
            if c.status is not RUNNING:
                self._retire_ended(c)
            if recorder is not None:
                recorder.add(self.context.rows, c)
            c.advance()

    # --- what a host adds ------------------------------------------------------------------------------

    def _refuse_cut_graphs(self, c: SolverState) -> None:
        """Where autodiff returns ∇f = 0 at the start, refuse a function that it cannot follow."""
        if not self.evaluator.differentiates:
            return
        backend, size, evaluator = self.backend, self.backend.norm, self.evaluator
        self.iteration.evaluate_gradient(c)
        self._retire_ended(c)
        poor = self.counter.over(evaluator.cost_value.plus(evaluator.cost_grad), Cost(), False)
        self._end(c, backend.select(size(c.point.g) == 0, poor, RUNNING))
        if backend.any(flat := size(c.point.g) == 0):
            refuse_cut_graph(self.context, c.point, flat)

    def _call_back(self, c: SolverState, callback: Callable[[State], object]) -> None:
        rows, live, columns = self.context.rows, self.counter.rows, dict(zip(COLUMNS, entry(c), strict=True))
        if live is not None:
            columns = {name: np.full(live, value) for name, value in columns.items()}
            rows = np.arange(live) if rows is None else rows.copy()
        fun, _ = columns.pop("f"), columns.pop("gnorm")
        x, seconds = self.backend.copy(c.point.x), self.counter.seconds
        state = State(k=c.k, x=x, fun=fun, seconds=seconds, rows=rows, **columns)
        try:
            stop: Any = callback(state)
        except StopIteration:
            stop = True
        told = stop is True or isinstance(stop, list | tuple) or hasattr(stop, "shape")
        ends: Any = np.asarray(to_numpy(stop)) if told else np.False_
        if ends.shape == () and ends.dtype == bool and ends:  # of whatever library
            self._end(c, self._everyone(Status.CALLBACK))
        elif live is not None and ends.ndim:
            if ends.dtype != bool or ends.shape != (live,):
                raise TypeError(f"callback: expected one bool per row, got {stop!r}")
            self._end(c, self.backend.select(ends, Status.CALLBACK, RUNNING))

    # --- checkpoints -----------------------------------------------------------------------------------

    def parts(self) -> dict[str, Any]:
        """Return the parts that have state, by name."""
        return {"run": self, "counter": self.counter, "evaluator": self.evaluator}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: all that the next iteration needs, and the rows that have ended."""
        c, host = self.solver_state, self.backend.host
        known = self.backend.any(c.point.known)
        point = replace(c.point, g=c.point.g if known else None, error=c.point.error if known else None)
        memory = each(lambda a: np.array(host(a), order="K"), c.memory)  # these change in place
        state = replace(c, point=point, best=replace(c.best), step_info=replace(c.step_info), memory=memory)
        ended = {str(i): piece for i, piece in enumerate(self.ended)}
        return {"state": state, "rows": self.context.rows, "ended": ended}

    def load(self, saved: Saved, name: str) -> None:
        """Resume from a checkpoint."""
        c, rows = self.solver_state, saved.take(f"{name}.rows")
        self.context.rows, self.counter.rows = rows, self.backend.size if rows is None else len(rows)
        x = c.point.x
        one = Ended(rows, 0, 0, x, NAN, x, c.best, Counts())
        while f"{name}.ended.{len(self.ended)}.rows" in saved.arrays:
            self.ended.append(saved.record(f"{name}.ended.{len(self.ended)}", one))
        found = saved.record(f"{name}.state", c)
        for field in fields(found):
            setattr(c, field.name, getattr(found, field.name))
        c.next_point = replace(c.point)  # of as many rows, also where none is searched from here

    # --- ends ------------------------------------------------------------------------------------------

    def _everyone(self, value: Any) -> Any:
        """Return a value for each live row."""
        return value if self.counter.rows is None else np.full(self.counter.rows, value)

    def _cut(self, status: Status) -> None:
        """End all rows immediately, at any point of an iteration."""
        c = self.solver_state
        if self.backend.size is None and self.ended:
            return  # it had just ended by itself
        with suppress(Over):
            self._end(c, self.backend.select(c.status == RUNNING, self._everyone(status), c.status))

    def _end(self, c: SolverState, code: Whole) -> None:
        """Give rows a status, and retire them."""
        if self.backend.any(code != RUNNING):
            c.status = self.iteration.mark_artificial(c, code)
            self._retire_ended(c)

    def _retire_ended(self, c: SolverState) -> None:
        """Remove the rows that have a status from the state."""
        backend, context, code = self.backend, self.context, c.status
        if not backend.any(code != RUNNING):
            c.status = RUNNING
            return
        c.status = RUNNING  # as long as evaluations have to confirm it, which time or an error may end
        code, error = self.iteration.confirmed(c, code)
        counts = self.counter.counts
        if backend.size is None:
            self._retire(c, None, code, counts, error)
            raise Over
        codes: Any = np.broadcast_to(code, (self.counter.rows or 0,))
        rows, left = np.flatnonzero(codes != RUNNING), np.flatnonzero(codes == RUNNING)
        live = np.arange(backend.size) if context.rows is None else context.rows
        whole = [np.broadcast_to(part, len(codes))[rows] for part in (codes, error, *counts)]
        leaving = each(lambda a: backend.take(a, rows), replace(c, memory=())) if len(left) else c
        self._retire(leaving, live[rows], whole[0], Counts(*whole[2:]), whole[1])
        if not len(left):
            raise Over
        staying = each(lambda a: backend.take(a, left), c)
        for field in fields(c):
            setattr(c, field.name, getattr(staying, field.name))
        self.evaluator.keep(left)
        context.rows = live[left]

    def _retire(self, c: SolverState, rows: Rows | None, code: Any, counts: Counts, error: Scalar) -> None:
        nit, evaluated = c.k, c.point.f is not None
        if not evaluated and nit:
            # cut before f was known here: the last step does not count
            nit -= 1
            self.undone.append(rows)
        if self.recorder is not None and evaluated:
            together = rows is None or len(rows) == self.backend.size
            last = replace(c.step_info, lam=NAN, shown=NAN, penalised=False, guarded=False)
            self.recorder.add(None if together else rows, replace(c, step_info=last))
        x, f, g = self.iteration.outcome(c, code)
        self.ended.append(Ended(rows, code, nit, x, f, g, best=c.best, counts=counts, error=error))
