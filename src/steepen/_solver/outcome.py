"""Build the Result of an eager run from the rows that have ended, for `solve`; evaluates nothing."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

import numpy as np

from .._core.backends import Batch
from .._core.result import Best, Result
from .._core.state import Ended
from .._core.status import Status
from .._evaluation.tensors import tensor
from .eager import Loop


def result_of(loop: Loop, like: Any = None) -> Result:
    """Join the rows in their original order; points become tensors if `like` is one."""
    backend, direction, ended = loop.backend, loop.settings.direction, loop.ended
    batch = backend if isinstance(backend, Batch) else None

    def joined(name: str) -> Any:
        field = attrgetter(name)
        return field(ended[0]) if batch is None else batch.merge(_piece(end, field(end)) for end in ended)

    # x is copied: the trace keeps the iterates themselves
    x, best_x = backend.copy(joined("x")), backend.copy(joined("best.x"))
    f, g, lowest, nit, learnt = joined("f"), joined("g"), joined("best.f"), joined("nit"), None
    status, error = joined("status"), joined("error")
    if batch is not None:
        dtype = backend.host(x).dtype
        f, lowest = f.astype(dtype), lowest.astype(dtype)
        rows = zip(status.tolist(), error, lowest.tolist(), strict=True)
        message, success = [_message(loop, *row) for row in rows], status < Status.MAX_ITERATIONS
    else:
        message, status = _message(loop, status, error, lowest), Status(status)
        success, best_x = status.success, best_x if math.isfinite(lowest) else None
        if direction.inverts and nit:
            learnt = (direction, loop.solver_state.memory, joined("x"), g)
    if like is not None:
        x, g, best_x = tensor(like, x), tensor(like, g), None if best_x is None else tensor(like, best_x)
    return Result(
        x=x, fun=f, jac=g, success=success, status=status, message=message, nit=nit,
        **{name: joined(f"counts.{name}") for name in ("nfev", "njev", "nhev", "nhvp")},
        best=Best(best_x, lowest, joined("best.k")),
        hvp_source=direction.source(loop.evaluator),
        trace=loop.recorder and loop.recorder.finish(nit, loop.undone),
        method=direction.name, seconds=loop.counter.seconds, learnt=learnt,
    )  # fmt: skip


def _piece(end: Ended, value: Any) -> tuple[Any, Any]:
    """Return rows of a batch with a value for each."""
    rows: Any = end.rows
    return rows, value if np.ndim(value) else np.full(len(rows), value)


def _message(loop: Loop, code: int, error: Any, lowest: float) -> str:
    """Return the message of a run, with its error estimate, and whether a finite point was seen."""
    status = Status(code)
    if math.isfinite(lowest):
        figure = f" Their error is about {error:.2g}." if status is Status.INACCURATE_GRADIENT else ""
        return status.explained(loop.evaluator.source.sentence(status) + figure)
    return status.message.replace("x is the best finite point seen", "no finite point was seen")
