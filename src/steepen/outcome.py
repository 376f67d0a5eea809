"""The result of a run, and of a batch of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, cast

import numpy as np

from .arrays import dtype_name, namespace
from .drivers.caller import Meter
from .questions import Vector
from .result import Best, Result
from .run import Run
from .scale import scale_of
from .status import Status
from .tensors import tensor
from .trace import Trace
from .vectors import copied

LOST = (Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT, Status.UNBOUNDED, Status.DIVERGED)
"""Ends whose last point is of no use: the best one is returned instead."""


UNEVEN = 1e3
"""Where the sizes of the variables differ by more, a message names `x_scale`."""


def result_of(run: Run, meter: Meter, trace: Trace | None, like: Any = None) -> Result:
    """Return the result of a run; points become tensors if `like` is one."""
    status, here, best = run.status, run.here, run.best
    assert status is not None
    x, f, g = here.x, here.f, here.g
    if f is None:  # cut before f was known anywhere
        f = math.nan
    if status in LOST:
        x, f, g = (x, f, None) if best is None else (best.x, best.f, None)
    x, gradients = copied(x), run.problem.gradients
    g = x * math.nan if g is None else copied(gradients.reported(g))
    lowest = Best(None, math.inf, 0) if best is None else Best(copied(best.x), best.f, best.k)
    learnt = (run.method, x, g) if run.method.inverts and here.k else None
    result = Result(
        x=x, fun=f, jac=g, success=status.success, status=status, message=_message(run, status), nit=here.k,
        nfev=meter.nfev, njev=meter.njev, nhev=meter.nhev, nhvp=meter.nhvp, best=lowest,
        hvp_source=run.method.source(run.problem), trace=trace, method=run.method.name, seconds=meter.seconds,
        nfev_unused=meter.unused, learnt=learnt,
    )  # fmt: skip
    return of_library(result, like)


def of_library(result: Result, like: Any) -> Result:
    """Return a result with points of the library and on the device of an array, if there is one."""
    if like is None:
        return result
    best = result.best
    if best.x is not None:
        best = Best(tensor(like, best.x), best.fun, best.k)
    learnt = vars(result)["_learnt"]
    return replace(result, x=tensor(like, result.x), jac=tensor(like, result.jac), best=best, learnt=learnt)


def _message(run: Run, status: Status) -> str:
    """Return the message of a run, with figures, and advice where it was cut or failed."""
    if run.best is None:
        return status.message.replace("x is the best finite point seen", "no finite point was seen")
    return status.explained(
        run.problem.gradients.sentence(status) + _figure(run, status) + _advice(run, status) + _unused(run)
    )


def _figure(run: Run, status: Status) -> str:
    """Return what a message says in numbers: the error of ∇f, or ∇f where it was last known."""
    if status is Status.INACCURATE_GRADIENT:
        return f" Their error is about {run.error:.2g}."
    if status is Status.MAX_GRADIENTS and run.searches and run.here.g is None and run.before is not None:
        return f" It did not cover the gradient at x; one iterate before, its norm was {run.gnorm:.2g}."
    return ""


def _advice(run: Run, status: Status) -> str:
    """Return what to try where the sizes of the variables are very different."""
    cut = Status.MAX_ITERATIONS <= status <= Status.MAX_SECONDS
    if not (run.searches and (cut or status is Status.LINE_SEARCH_FAILED)):
        return ""
    limits = run.problem.space.limits
    sizes = scale_of("auto", run.start, None if limits is None else limits.T.tolist())
    spread = float(sizes.max() / sizes.min())
    if not spread > UNEVEN:
        return ""
    return f' The sizes of the variables differ by a factor of {spread:.0e}: x_scale="auto" may help.'


def _unused(run: Run) -> str:
    """Return which second derivative was passed, and is not used by the method."""
    passed = run.problem.passed
    if not passed or run.method.source(run.problem) is not None:
        return ""
    return f" The method {run.method.name!r} does not use {passed}."


def joined(results: Sequence[Result], seconds: float) -> Result:
    """Return the result of a batch, one entry a row."""
    rows = list(results)
    nowhere = rows[0].x * math.nan
    dtype = np.dtype(dtype_name(rows[0].x.dtype))
    best_x = _stacked([nowhere if row.best.x is None else row.best.x for row in rows])
    best = Best(
        best_x,
        np.array([row.best.fun for row in rows], dtype),
        np.array([row.best.k for row in rows], np.int64),
    )
    kinds: dict[str, Any] = {"fun": dtype, "success": bool}
    counts = {
        name: np.array([getattr(row, name) for row in rows], kinds.get(name, np.int64))
        for name in ("fun", "success", "status", "nit", "nfev", "njev", "nhev", "nhvp")
    }
    traces = [cast(Trace, row.trace) for row in rows]
    return Result(
        x=_stacked([row.x for row in rows]), jac=_stacked([row.jac for row in rows]),
        message=[row.message for row in rows], best=best, hvp_source=rows[0].hvp_source,
        trace=None if rows[0].trace is None else _together(traces), method=rows[0].method, seconds=seconds,
        **counts,
    )  # fmt: skip


def _stacked(vectors: Sequence[Vector]) -> Vector:
    return namespace(vectors[0]).stack(vectors)


def _together(traces: Sequence[Trace]) -> Trace:
    """Return the traces of all rows as one, in which rows that have ended are empty."""
    length = np.array([len(trace) for trace in traces])
    most = int(length.max())
    columns: dict[str, Any] = {}
    for field in fields(Trace):
        first = getattr(traces[0], field.name)
        if field.name in ("k", "length") or first is None:
            continue
        empty: Any = np.nan if first.dtype.kind == "f" else 0
        column = np.full((most, len(traces), *first.shape[1:]), empty, first.dtype)
        for row, trace in enumerate(traces):
            column[: len(trace), row] = getattr(trace, field.name)
        columns[field.name] = column
    return Trace(k=np.arange(most), length=length, **columns)
