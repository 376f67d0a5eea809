"""Run a problem on the eager driver, for `minimize`: calls user code, writes the checkpoint if asked to."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .._core.result import Result
from .._core.state import State
from .._evaluation.counter import OutOfTime
from .._evaluation.evaluator import Context
from .._evaluation.tensors import tensor
from .checkpoint import Checkpoint
from .eager import Loop
from .gradient_check import check_gradient as run_gradient_check
from .outcome import result_of
from .problem import Placed, Problem, Settings
from .recorder import Recorder
from .scale import result_in_x, times


def solve(
    problem: Problem,
    settings: Settings,
    *,
    trace: Any,
    callback: Callable[[State], object] | None,
    checkpoint: str | os.PathLike[str] | None,
    check_gradient: bool,
) -> Result:
    """Run the solver."""
    if not (isinstance(trace, bool) or (isinstance(trace, str) and trace == "x")):
        raise ValueError(f'trace: expected True, False or "x", got {trace!r}')
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: expected a callable, got {callback!r}")
    placed = Placed(problem)
    x, backend, space, evaluator = placed.problem.x, placed.backend, placed.space, placed.evaluator(settings)
    recorder = Recorder(x, backend, keep_x=trace == "x") if trace else None
    watched = callback and partial(evaluator.outside, partial(_call_back, callback, placed))
    saver = None
    if checkpoint is not None:
        named: dict[str, Any] = {
            "x0": backend.host(x), "method": settings.direction, "step": settings.step,
            "switch": settings.switch, "trace": trace, "bounds": space.limits, "x_scale": problem.scale,
        }  # fmt: skip
        if backend.size is not None:  # rows that have ended do not begin again
            named["limits"] = (settings.budget.grads, settings.budget.evals, settings.tolerances)
        saver = Checkpoint(checkpoint, named)
    # the loop handles overflow itself; the user's functions keep the user's error state
    with np.errstate(all="ignore"):
        context = Context(evaluator, backend, space)
        loop = Loop(context, settings, x, recorder, watched, saver and saver.watch)
        resumed = saver is not None and saver.resume(loop)
        if check_gradient and not resumed:
            with suppress(OutOfTime):  # then the run ends as soon as it begins
                run_gradient_check(context, loop.solver_state.point)
        try:
            loop.run()
            if saver is not None:
                saver.write()
        except Exception as error:
            with suppress(OSError):  # the user's error is the one to see
                if saver is not None:
                    saver.write()
            result_so_far = _told(loop, placed)
            with suppress(AttributeError, TypeError):  # some exceptions take no attributes
                error.partial_result = result_so_far  # pyright: ignore[reportAttributeAccessIssue]
                error.add_note("steepen: the partial result is in the attribute `partial_result`")
            raise
    return _told(loop, placed)


def _told(loop: Loop, placed: Placed) -> Result:
    """Return the result in the user's variables and array type."""
    return result_in_x(result_of(loop, placed.like), placed.problem.scale)


def _call_back(callback: Callable[[State], object], placed: Placed, state: State) -> object:
    like, scale = placed.like, placed.problem.scale
    x = state.x if like is None else tensor(like, state.x)
    return callback(replace(state, x=x if scale is None else times(x, scale)))
