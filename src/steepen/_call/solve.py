"""Run what `minimize` was asked for: chooses a driver, and returns the result in the user's variables."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..covariance import covariance_of
from ..drivers.ahead import AheadCaller
from ..drivers.caller import Caller, Meter
from ..drivers.checkpoint import Checkpoint, saving
from ..drivers.fixed_steps import fits, solve_fixed_steps
from ..drivers.interrupt import defer_sigint
from ..drivers.lockstep import solve_batch
from ..drivers.log import Log, journal_of
from ..drivers.recorder import Recorder
from ..drivers.single import attach, drive, failing
from ..drivers.watch import State, Watch, state_of
from ..gradient_check import checked
from ..objective import Objective, Settings
from ..outcome import result_of
from ..result import Result
from ..run import Run
from ..scale import result_in_x, times
from ..status import Status
from ..tensors import tensor

Callback = Callable[[State], object]


def solve(
    objective: Objective,
    settings: Settings,
    *,
    trace: Any,
    callback: Callback | None,
    checkpoint: str | os.PathLike[str] | None,
    check_gradient: bool,
    log: Any = None,
) -> Result:
    """Return the result of the run, or of the runs of a batch."""
    if not (isinstance(trace, bool) or (isinstance(trace, str) and trace == "x")):
        raise ValueError(f'trace: expected True, False or "x", got {trace!r}')
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: expected a callable, got {callback!r}")
    placed = objective.placed()
    saver = None if checkpoint is None else Checkpoint(checkpoint, _named(placed, settings, trace))
    logged = None
    try:
        logged = None if log is None else Log(log, placed)
        serial = logged is None and placed.workers is None
        if serial and fits(placed, settings, callback, saver, check_gradient):
            return solve_fixed_steps(placed, settings, trace)
        solver = solve_batch if placed.x.ndim == 2 else _solve_one
        return solver(placed, settings, trace, callback, saver, check_gradient, logged)
    finally:
        if logged is not None:
            logged.close()
        if saver is not None:
            saver.close()


def _solve_one(
    placed: Objective,
    settings: Settings,
    trace: Any,
    callback: Callback | None,
    saver: Checkpoint | None,
    check: bool,
    log: Log | None = None,
) -> Result:
    run, meter = placed.run(settings), Meter(settings.budget)
    given: Any = (placed.functions(), placed.x, meter, placed.workers, placed.jac is True)
    speculates = placed.ahead and placed.workers is not None
    caller = AheadCaller(run, placed.ahead, *given) if speculates else Caller(*given)
    recorder = Recorder(keep_x=trace == "x") if trace else None

    def result() -> Result:
        found = result_of(run, meter, recorder and recorder.finish(), placed.like)
        found = result_in_x(found, placed.scale)
        vars(found)["_measure"] = partial(covariance_of, placed, run)  # of `Result.covariance`
        return found

    with defer_sigint() as interrupt:
        told = None if callback is None else _told(callback, placed, meter)
        watch = Watch(meter, interrupt, recorder, told)
        answers, run.watched = caller.answers | watch.answers, recorder is not None
        journal = journal_of(saver, log, None, caller.functions.both is not None)
        if journal is not None:
            journal.resume(run, meter, recorder)
            if isinstance(caller, AheadCaller):
                caller.note = journal.note
            watch.told = run.here.k
            answers = saving(answers, journal, run, caller, recorder)
        asks = checked(run, meter.evals, meter.grads, caller.combined) if check else run.iterate()
        try:
            drive(asks, answers, failing(run))
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            run.status = Status.INTERRUPTED if interrupted else Status.FAILED
            if not (interrupt.is_set() and interrupted):  # Ctrl-C, a second time
                watch.finish(run)
                attach(error, result)
                raise
        watch.finish(run)
    return result()


def _named(placed: Objective, settings: Settings, trace: Any) -> dict[str, Any]:
    """Return what must be the same where a run is resumed."""
    named: dict[str, Any] = {
        "x0": to_numpy(placed.x), "method": settings.method, "step": settings.step, "switch": settings.switch,
        "trace": trace, "bounds": placed.space.limits, "x_scale": placed.scale,
    }  # fmt: skip
    if placed.rows:
        named["rows"] = placed.rows
    return named


def _told(callback: Callback, placed: Objective, meter: Meter) -> Callable[[Run], bool]:
    """Return the callback as a run calls it: in the user's variables; it returns whether to end."""

    def call(run: Run) -> bool:
        state = state_of(run, meter)
        x = state.x if placed.like is None else tensor(placed.like, state.x)
        state = replace(state, x=x if placed.scale is None else times(x, placed.scale))
        try:
            stop: Any = callback(state)
        except StopIteration:
            return True
        return bool(np.asarray(stop)) if stop is True or getattr(stop, "shape", None) == () else False

    return call
