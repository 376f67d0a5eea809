"""What a driver does at every iterate of a run: limits, Ctrl-C, callback and trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any

from ..questions import Iterate, Moved
from ..run import Run
from ..status import Status
from ..vectors import copied
from .caller import Meter
from .recorder import Recorder


@dataclass(frozen=True)
class State:
    """The argument of a callback after a step: the new iterate, the step that led there, and the counts.

    In a batch the fields have one entry for each row that has made a step since the last call, and `rows`
    holds the indices of those rows: rows do not wait for one another. `running` says whether the run, or the
    row, goes on from here. A callback that returns True ends the run; in a batch, an array of bools ends
    those rows.

    Examples
    --------
    >>> import steepen as st
    >>> seen = []
    >>> res = st.minimize(
    ...     st.functions["booth"], [0.0, 0.0], method="gd", step=0.05, callback=lambda s: seen.append(s.fun)
    ... )
    >>> len(seen) == res.nit
    True
    """

    k: Any
    x: Any
    fun: Any
    lam: Any
    step: Any
    penalised: Any
    guarded: Any
    nfev: Any
    njev: Any
    nhvp: Any
    seconds: float
    rows: Any
    running: Any


def state_of(run: Run, meter: Meter) -> State:
    """Return what a callback is told of a run."""
    here, (alpha, lam) = run.here, run.amounts
    return State(
        here.k, copied(here.x), here.f, lam, alpha, run.penalised, run.guarded,
        meter.nfev, meter.njev, meter.nhvp, meter.seconds, None, run.status is None,
    )  # fmt: skip


class Watch:
    """Answers whether another iteration may begin."""

    def __init__(
        self,
        meter: Meter,
        interrupt: Event,
        recorder: Recorder | None = None,
        callback: Callable[[Run], bool] | None = None,
    ):
        self._meter, self._interrupt = meter, interrupt
        self.recorder, self._callback = recorder, callback
        self.told = 0
        """The last iterate that the callback has seen; it is not called at the start."""
        self.answers: dict[type, Callable[[Any], Any]] = {
            Iterate: self._iterate,
            Moved: self._nothing if recorder is None else self._moved,
        }

    def _iterate(self, ask: Iterate) -> Status | None:
        run, meter = ask.run, self._meter
        if self.recorder is not None:
            self.recorder.arrived(run)
        if self._interrupt.is_set():
            return Status.INTERRUPTED
        if self._callback is not None and self._ends(run):
            return Status.CALLBACK
        if meter.timed and meter.seconds >= meter.deadline:
            return Status.MAX_SECONDS
        # a stalled run takes no step: it may still learn why
        if run.here.k >= meter.iters and not run.stalled:
            return Status.MAX_ITERATIONS
        return None

    def _moved(self, ask: Moved) -> None:
        assert self.recorder is not None
        self.recorder.moved(ask.run, self._meter)

    @staticmethod
    def _nothing(ask: Moved) -> None:
        return None

    def _ends(self, run: Run) -> bool:
        """Call back after a step; return whether to end."""
        if run.here.k <= self.told or run.here.f is None:
            return False
        assert self._callback is not None
        self.told = run.here.k
        return self._callback(run)

    def finish(self, run: Run) -> None:
        """Take note of the last iterate."""
        if self.recorder is not None:
            self.recorder.arrived(run)
        if self._callback is not None and run.status not in (Status.FAILED, Status.INTERRUPTED):
            self._ends(run)
