"""The eager driver: the iteration, and what needs a host: rows, time, callback, trace, checkpoint, Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, NoReturn

import numpy as np

from .._core.arrays import Array, Rows, Scalar, Whole, is_numpy
from .._core.records import NAN, RUNNING, Carry, Counts, Ended, State, each
from .._core.result import Status
from .._core.saved import Saved
from .._iteration import Iteration
from .._oracle.ledger import Cost, OutOfTime
from .._oracle.oracle import Context
from .._problem import Settings
from .gradient_check import refuse_cut_graph
from .interrupt import Wish, held_back
from .recorder import BatchRecorder, Recorder


class Over(Exception):
    """The last row has ended."""


class Loop:
    """Iterations, one after the other, until every row has ended.

    Rows that have a status are put away after each part of an iteration; `Over` is raised when none is left.
    """

    def __init__(
        self,
        context: Context,
        settings: Settings,
        x0: Array,
        recorder: Recorder | BatchRecorder | None = None,
        callback: Callable[[State], object] | None = None,
        watch: Callable[[Loop], object] | None = None,
    ):
        self.context, self.kit, self.space = context, context.kit, context.space
        self.oracle, self.ledger, self.recorder = context.oracle, context.ledger, recorder
        self.settings, self.tolerances = settings, settings.tolerances
        self.callback, self.watch = callback, watch
        self.iteration = Iteration(context, settings)
        self.carry = self.iteration.begin(x0)
        self.ended: list[Ended] = []
        self.undone: list[Rows | None] = []  # rows whose last step came to no end
        self._close: Callable[[], None] | None = getattr(recorder, "close", None)  # of a batch

    def run(self) -> None:
        """Iterate until every row has ended."""
        try:
            with held_back() as wish:
                self._iterate(self.carry, wish)
        except Over:
            pass
        except OutOfTime:
            self._cut(Status.MAX_SECONDS)
        except KeyboardInterrupt:
            self._cut(Status.INTERRUPTED)
        except Exception:
            self._cut(Status.FAILED)
            raise

    def _iterate(self, c: Carry, wish: Wish) -> None:
        ledger, watch, recorder, close = self.ledger, self.watch, self.recorder, self._close
        run, callback, context, timed = self.iteration, self.callback, self.context, self.ledger.timed
        arrive, stand, aim, search, settle = run.arrive, run.stand, run.aim, run.search, run.settle
        while True:
            c.spent = (ledger.nfev, ledger.njev, ledger.nhvp)
            if wish.pressed:
                raise KeyboardInterrupt
            if watch is not None:
                watch(self)
            if timed and c.point.f is None:
                self._in_time(c)
            arrive(c)
            if c.status is not RUNNING:
                self._put_away_ended(c)
            if c.k == 0:
                self._refuse_cut_graphs(c)
            elif callback is not None:
                self._call_back(c, callback)
            if timed:
                self._in_time(c)
            stand(c)
            if c.status is not RUNNING:
                self._put_away_ended(c)
            if timed:
                self._in_time(c)
            aim(c)
            if c.status is not RUNNING:
                self._put_away_ended(c)
            search(c)
            if timed and ledger.late():
                self._end(c, self.kit.pick(c.move.alpha == 0, Status.MAX_SECONDS, RUNNING))
            settle(c)
            if c.status is not RUNNING:
                self._put_away_ended(c)
            if recorder is not None:
                recorder.add(context.rows, c)
            if close is not None:
                close()
            c.advance()

    # --- what a host adds ------------------------------------------------------------------------------

    def _refuse_cut_graphs(self, c: Carry) -> None:
        """Find out whether a start where ∇f = 0 is one, or f a function that autodiff cannot follow."""
        if not self.oracle.differentiates:
            return
        kit, size, oracle = self.kit, self.kit.norm, self.oracle
        self.iteration.look(c)
        self._put_away_ended(c)
        poor = self.ledger.over(oracle.cost_value.plus(oracle.cost_grad), Cost(), False)
        self._end(c, kit.pick(size(c.point.g) == 0, poor, RUNNING))
        if kit.any(flat := size(c.point.g) == 0):
            refuse_cut_graph(self.context, c.point, flat)

    def _call_back(self, c: Carry, callback: Callable[[State], object]) -> None:
        move, rows, live = c.move, self.context.rows, self.ledger.rows
        scalars: Any = (c.point.f, move.lam, move.shown, move.penalised, move.guarded, *c.spent)
        if live is not None:
            scalars = [np.full(live, s) for s in scalars]
            rows = np.arange(live) if rows is None else rows.copy()
        state = State(c.k, self.kit.copy(c.point.x), *scalars, seconds=self.ledger.seconds, rows=rows)
        try:
            stop: Any = callback(state)
        except StopIteration:
            stop = True
        if stop is True or stop is np.True_:
            self._end(c, self._everyone(Status.CALLBACK))
        elif is_numpy(stop) and live is not None:
            if stop.dtype != bool or stop.shape != (live,):
                raise TypeError(f"callback: expected one bool for each row, got {stop!r}")
            self._end(c, self.kit.pick(stop, Status.CALLBACK, RUNNING))

    # --- checkpoints -----------------------------------------------------------------------------------

    def parts(self) -> dict[str, Any]:
        """Return what has state, by name."""
        return {"run": self, "ledger": self.ledger, "oracle": self.oracle}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: all that the next iteration needs, and the rows that have ended."""
        c, kit = self.carry, self.kit
        known = kit.any(c.point.known)
        point = replace(c.point, g=c.point.g if known else None, error=c.point.error if known else None)
        return {
            "k": c.k, "rows": self.context.rows, "on": c.on, "idle": c.idle, "first": c.first, "top": c.top,
            "failed": c.failed,
            "doubts": c.doubts,
            "point": point, "best": replace(c.best), "move": replace(c.move),
            "memory": each(lambda a: np.array(kit.host(a), order="K"), c.memory),  # these change in place
            "ended": {str(i): piece for i, piece in enumerate(self.ended)},
        }  # fmt: skip

    def load(self, saved: Saved, name: str) -> None:
        """Go on from a checkpoint."""
        c = self.carry
        c.k = saved.k = saved.take(f"{name}.k", np.int64, ())
        live = saved.pop(f"{name}.rows")
        self.context.rows = live if live.size else None
        saved.live = len(live) or self.kit.size
        while f"{name}.ended.{len(self.ended)}.rows" in saved.arrays:
            self.ended.append(self._load_ended(saved, f"{name}.ended.{len(self.ended)}"))
        c.on = saved.value(f"{name}.on", "Mask", saved.live)
        c.idle = saved.value(f"{name}.idle", "Whole", saved.live)
        c.first = saved.value(f"{name}.first", "Scalar", saved.live)
        c.top = saved.value(f"{name}.top", "Scalar", saved.live)
        c.failed = saved.value(f"{name}.failed", "Scalar", saved.live)
        c.doubts = saved.value(f"{name}.doubts", "Whole", saved.live)
        c.point = saved.record(f"{name}.point", c.point, saved.live)
        c.ahead = replace(c.point)  # of as many rows, also where none is searched from here
        c.move = saved.record(f"{name}.move", c.move, saved.live)
        c.best = saved.record(f"{name}.best", c.best, saved.live)
        c.memory = saved.record(f"{name}.memory", c.memory, saved.live)

    def _load_ended(self, saved: Saved, name: str) -> Ended:
        """Return rows that ended together."""
        rows = saved.pop(f"{name}.rows")
        one, n = self.carry.point.x, len(rows)
        status = saved.take(f"{name}.status", np.int64, (n,))
        nit = saved.take(f"{name}.nit", np.int64, ())
        x, f, g, error = (
            saved.value(f"{name}.{part}", kind, n, one if kind == "Array" else None)
            for part, kind in (("x", "Array"), ("f", "Scalar"), ("g", "Array"), ("error", "Scalar"))
        )
        best = saved.record(f"{name}.best", self.carry.best, n)
        counts = saved.record(f"{name}.counts", Counts(), n)
        return Ended(rows, status, nit, x, f, g, best, counts, error)

    # --- ends ------------------------------------------------------------------------------------------

    def _everyone(self, value: Any) -> Any:
        """Return a value for each live row."""
        return value if self.ledger.rows is None else np.full(self.ledger.rows, value)

    def _in_time(self, c: Carry) -> None:
        if self.ledger.late():
            self._end(c, self._everyone(Status.MAX_SECONDS))

    def _cut(self, status: Status) -> None:
        """End everything at once, wherever the iteration stands."""
        c = self.carry
        if self.kit.size is None and self.ended:
            return  # it had just ended by itself
        if self.recorder is not None and self.recorder.length > c.k:
            # the step was made and recorded
            c.advance()
        with suppress(Over):
            self._end(c, self.kit.pick(c.status == RUNNING, self._everyone(status), c.status))

    def _end(self, c: Carry, code: Whole) -> None:
        """End the rows that have a status here and now."""
        if self.kit.any(code != RUNNING):
            c.status = self.iteration.unhidden(c, code)
            self._put_away_ended(c)

    def _put_away_ended(self, c: Carry) -> None:
        """Take the rows that have a status out of the carry."""
        kit, context, code = self.kit, self.context, c.status
        if not kit.any(code != RUNNING):
            c.status = RUNNING
            return
        code, error = self.iteration.confirmed(c, code)
        c.status, counts = RUNNING, self.ledger.counts
        if kit.size is None:
            self._put_away(c, None, code, counts, error)
            self._leave()
        codes: Any = np.broadcast_to(code, (self.ledger.rows or 0,))
        rows, left = np.flatnonzero(codes != RUNNING), np.flatnonzero(codes == RUNNING)
        live = np.arange(kit.size) if context.rows is None else context.rows
        whole = [np.broadcast_to(part, len(codes))[rows] for part in (codes, error, *counts)]
        leaving = each(lambda a: kit.take(a, rows), replace(c, memory=())) if len(left) else c
        self._put_away(leaving, live[rows], whole[0], Counts(*whole[2:]), whole[1])
        if not len(left):
            self._leave()
        staying = each(lambda a: kit.take(a, left), c)
        for field in fields(c):
            setattr(c, field.name, getattr(staying, field.name))
        self.oracle.keep(left)
        context.rows = live[left]

    def _leave(self) -> NoReturn:
        if self._close is not None:
            self._close()
        raise Over

    def _put_away(self, c: Carry, rows: Rows | None, code: Any, counts: Counts, error: Scalar) -> None:
        nit, evaluated = c.k, c.point.f is not None
        if not evaluated and nit:
            # cut before f was known here: the last step does not count
            nit -= 1
            self.undone.append(rows)
        if self.recorder is not None and evaluated:
            together = rows is None or len(rows) == self.kit.size
            last = replace(c.move, lam=NAN, shown=NAN, penalised=False, guarded=False)
            self.recorder.add(None if together else rows, replace(c, move=last))
        x, f, g = self.iteration.outcome(c, code)
        self.ended.append(Ended(rows, code, nit, x, f, g, c.best, counts, error))
