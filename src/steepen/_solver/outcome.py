"""Build a Result from the stopped rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .._core.backends import Batch
from .._core.result import Best, Result
from .._core.state import Ended
from .._core.status import Status
from .._evaluation.tensors import tensor
from .eager import Loop


def result_of(loop: Loop, like: Any = None) -> Result:
    """Combine the rows in their original order; points become tensors if `like` is one."""
    result = _on_the_host(loop)
    if like is None:
        return result
    best = result.best
    return replace(
        result, x=tensor(like, result.x), jac=tensor(like, result.jac),
        best=Best(None if best.x is None else tensor(like, best.x), best.fun, best.k),
        learnt=vars(result)["_learnt"],
    )  # fmt: skip


def _on_the_host(loop: Loop) -> Result:
    backend, direction = loop.backend, loop.settings.direction
    common: dict[str, Any] = {
        "hvp_source": direction.source(loop.evaluator) or loop.settings.step.source(loop.evaluator),
        "method": direction.name,
        "seconds": loop.counter.seconds,
    }
    # x is copied: the trace keeps the iterates themselves
    if not isinstance(backend, Batch):
        (end,) = loop.ended
        status, lowest = Status(end.status), end.best
        nfev, njev, nhvp, nhev = end.counts
        best = Best(backend.copy(lowest.x) if math.isfinite(lowest.f) else None, lowest.f, lowest.k)
        learnt = (
            (direction, loop.solver_state.memory, end.x, end.g) if direction.inverts and end.nit else None
        )
        return Result(
            x=backend.copy(end.x), fun=end.f, jac=end.g, success=status.success, status=status,
            message=_message(loop, status, end.error, lowest.f), nit=end.nit, nfev=nfev, njev=njev, nhev=nhev,
            nhvp=nhvp, best=best, trace=loop.recorder and loop.recorder.finish(end.nit, loop.undone),
            learnt=learnt, **common,
        )  # fmt: skip

    def merged(field: Callable[[Ended], Any]) -> Any:
        return backend.merge((_rows(end), field(end)) for end in loop.ended)

    def per_row(value: Callable[[Ended], int]) -> Any:
        return merged(lambda end: np.full(len(_rows(end)), value(end)))

    nit, status = per_row(lambda end: end.nit), merged(lambda end: end.status)
    nfev, njev, nhvp, nhev = (merged(lambda end, i=i: end.counts[i]) for i in range(4))
    dtype = np.float64 if loop.evaluator.source.wide else backend.host(loop.solver_state.point.x).dtype
    errors = merged(lambda end: np.broadcast_to(end.error, len(_rows(end))))
    lowest = merged(lambda end: end.best.f)
    messages = [
        _message(loop, Status(s), error, f)
        for s, error, f in zip(status.tolist(), errors, lowest.tolist(), strict=True)
    ]
    best = Best(
        backend.copy(merged(lambda end: end.best.x)),
        lowest.astype(dtype),
        merged(lambda end: np.broadcast_to(end.best.k, len(_rows(end)))),
    )
    return Result(
        x=backend.copy(merged(lambda end: end.x)), fun=merged(lambda end: end.f).astype(dtype),
        jac=merged(lambda end: end.g), success=status < Status.MAX_ITERATIONS, status=status,
        message=messages, nit=nit, nfev=nfev, njev=njev, nhev=nhev, nhvp=nhvp, best=best,
        trace=loop.recorder and loop.recorder.finish(nit, loop.undone), **common,
    )  # fmt: skip


def _message(loop: Loop, status: Status, error: Any, lowest: Any) -> str:
    """Return the message of a run, with its error estimate, and whether a finite point was seen."""
    if math.isfinite(lowest):
        figure = f" Their error is about {error:.2g}." if status is Status.INACCURATE_GRADIENT else ""
        return status.explained(loop.evaluator.source.sentence(status) + figure)
    return status.message.replace("x is the best finite point seen", "no finite point was seen")


def _rows(end: Ended) -> Any:
    assert end.rows is not None
    return end.rows
