"""For `steepen.minimize(engine="jax")`: calls `steepen.jax.minimize`, and makes a Result of its solution."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

import numpy as np

from .._call.arguments import method_of
from .._call.keywords import DEFAULTS, run_settings
from ..arrays import is_numpy
from ..result import Best, Result
from ..status import Status
from ..trace import Trace
from ._jax import jax
from ._loop import Function
from ._minimize import minimize
from ._solution import Trace as Ring
from .masked.translate import traced_method

REFUSED = ("callback", "checkpoint", "check_gradient", "workers", "rows", "log", "hvp", "hessp", "hess")
"""Options of the eager engine alone."""


def compiled(problem: Any, method: Any, given: dict[str, Any]) -> Result:
    """Run a `Problem` as it is scaled; raise an error for options that cannot be compiled."""
    for name in REFUSED:
        if given[name] is not DEFAULTS[name]:
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
        found = jax.tree.map(np.asarray, found) if is_numpy(x) else found

    def told(name: str) -> Any:
        value = np.asarray(getattr(found, name))
        return value if x.ndim == 2 else value.item()

    direction = traced_method(method_of(method))
    ends = [Status(int(s)) for s in np.atleast_1d(found.status)]
    said = [end.message for end in ends]
    return Result(
        x=found.x, jac=found.jac, best=Best(found.best_x, told("best_fun"), told("best_nit")),
        status=told("status") if x.ndim == 2 else ends[0], message=said if x.ndim == 2 else said[0],
        **{name: told(name) for name in ("fun", "success", "nit", "nfev", "njev", "nhev", "nhvp")},
        hvp_source=direction.source(Function),
        trace=None if found.trace is None else _unrolled(found.trace),
        method=direction.name, seconds=time.perf_counter() - begun,
    )  # fmt: skip


def _unrolled(ring: Ring) -> Trace:
    """Return the stored iterates in the eager engine's layout: one row per k, one column per run."""
    columns = {name: np.asarray(column) for name, column in ring._asdict().items()}
    k: Any = columns.pop("k")
    stored, first, last = k >= 0, int(k[k >= 0].min()), int(k.max())
    places = (k[stored] - first, *np.nonzero(stored)[:-1])
    for name, column in columns.items():
        shape = (last + 1 - first, *k.shape[:-1], *column.shape[k.ndim :])
        columns[name] = np.full(shape, np.nan if column.dtype.kind == "f" else 0, column.dtype)
        columns[name][places] = column[stored]
    length = k.max(axis=1) + 1 - first if k.ndim == 2 else None
    return Trace(k=np.arange(first, last + 1), length=length, **columns)
