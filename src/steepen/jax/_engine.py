"""`steepen.minimize(engine="jax")`: the same arguments, one compiled program, the same Result."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any, cast

import numpy as np

from .._call.arguments import direction_of
from .._call.keywords import run_settings
from .._core.arrays import is_numpy
from .._core.result import Best, Result
from .._core.status import Status
from .._core.trace import Trace
from .._solver.problem import Problem
from .._solver.scale import result_in_x
from ._function import Function
from ._jax import jax
from ._minimize import minimize
from ._solution import Trace as Ring

REFUSED = {
    "callback": None, "checkpoint": None, "check_gradient": False, "workers": None,
    "hvp": None, "hessp": None, "hess": None,
}  # fmt: skip
"""Options of the eager engine alone, with their defaults."""


def compiled(problem: Problem, method: Any, given: dict[str, Any]) -> Result:
    """Run, and return a Result like the eager engine; raise an error for options that cannot be compiled."""
    for name, absent in REFUSED.items():
        if given[name] is not absent:
            raise ValueError(f'{name}: not supported by engine="jax"; use engine="eager"')
    if given["jac"] not in (None, "jax"):
        raise ValueError('jac: engine="jax" differentiates fun itself; leave it out, or use engine="eager"')
    trace = given["trace"]
    if trace == "x":
        raise ValueError('trace: engine="jax" keeps the last K iterates; pass trace=K')
    begun, x = time.perf_counter(), problem.x
    with jax.enable_x64(True) if str(x.dtype) == "float64" else nullcontext():
        found = minimize(
            problem.fun, x, problem.args, method, bounds=problem.bounds,
            trace=None if isinstance(trace, bool) else trace, **run_settings(given),
        )  # fmt: skip
        found = found if not is_numpy(x) else jax.tree.map(np.asarray, found)
        status, success = np.asarray(found.status), np.asarray(found.success)

    def scalars(a: Any) -> Any:
        return np.asarray(a) if x.ndim == 2 else np.asarray(a).item()

    direction, evaluator = direction_of(method), cast(Any, Function)
    one = None if x.ndim == 2 else Status(int(status))
    result = Result(
        x=found.x, fun=scalars(found.fun), jac=found.jac, success=success if one is None else one.success,
        status=status if one is None else one,
        message=[Status(int(s)).message for s in status] if one is None else one.message,
        nit=scalars(found.nit), nfev=scalars(found.nfev), njev=scalars(found.njev), nhev=scalars(found.nhev),
        nhvp=scalars(found.nhvp), best=Best(found.best_x, scalars(found.best_fun), scalars(found.best_nit)),
        hvp_source=direction.source(evaluator),
        trace=None if found.trace is None else _unrolled(found.trace, x.ndim == 2),
        method=direction.name, seconds=time.perf_counter() - begun,
    )  # fmt: skip
    return result_in_x(result, problem.scale)


def _unrolled(ring: Ring, batch: bool) -> Trace:
    """Return the stored iterates in the eager engine's layout: one row per k, one column per run."""
    columns = {name: np.asarray(column) for name, column in ring._asdict().items()}
    k: Any = columns.pop("k")
    first, last = int(k[k >= 0].min()), int(k.max())
    rows = (k - first)[k >= 0]
    places = (rows, np.nonzero(k >= 0)[0]) if batch else (rows,)

    def spread(column: Any) -> Any:
        shape = (last + 1 - first, *((len(k),) if batch else ()), *column.shape[k.ndim :])
        whole = np.full(shape, np.nan if column.dtype.kind == "f" else 0, column.dtype)
        whole[places] = column[k >= 0]
        return whole

    columns = {name: spread(column) for name, column in columns.items()}
    length = k.max(axis=1) + 1 - first if batch else None
    return Trace(k=np.arange(first, last + 1), length=length, **columns)
