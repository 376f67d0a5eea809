"""For `steepen.minimize(engine="jax")`: calls `steepen.jax.minimize`, and makes a Result of its solution."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

import numpy as np

from .._call.arguments import method_of, rows_of
from .._call.keywords import DEFAULTS, run_settings
from ..arrays import is_numpy
from ..methods import CGD, Method
from ..result import Best, Result
from ..status import Status
from ..trace import Trace
from ._jax import jax
from ._minimize import minimize
from ._solution import Trace as Ring

REFUSED = ("callback", "checkpoint", "check_gradient", "workers", "speculate", "log", "hvp", "hessp", "hess")
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
    rows = rows_of(given["rows"], tuple(x.shape), None)

    def run(start: Any, *own: Any) -> Any:
        return minimize(
            problem.fun, start, (*problem.args, *own), method, bounds=problem.bounds,
            trace=None if isinstance(trace, bool) else trace, **run_settings(given),
        )  # fmt: skip

    with jax.enable_x64(True) if str(x.dtype) == "float64" else nullcontext():
        found = jax.vmap(run)(x, *rows) if rows else run(x)
        found = jax.tree.map(np.asarray, found) if is_numpy(x) else found

    def told(name: str) -> Any:
        value = np.asarray(getattr(found, name))
        return value if x.ndim == 2 else value.item()

    plain = method_of(method)
    ends = [Status(int(s)) for s in np.atleast_1d(found.status)]
    said = [end.message for end in ends]
    return Result(
        x=found.x, jac=found.jac, best=Best(found.best_x, told("best_fun"), told("best_nit")),
        status=told("status") if x.ndim == 2 else ends[0], message=said if x.ndim == 2 else said[0],
        **{name: told(name) for name in ("fun", "success", "nit", "nfev", "njev", "nhev", "nhvp")},
        hvp_source=_source(plain),
        trace=None if found.trace is None else _unrolled(found.trace),
        method=plain.name, seconds=time.perf_counter() - begun,
    )  # fmt: skip


def _source(method: Method) -> str | None:
    """Return where H·v comes from."""
    if isinstance(method, CGD):
        return "jax" if method.curvature == "exact" else method.curvature
    return "jax" if method.name == "newton" else None


def _unrolled(ring: Ring) -> Trace:
    """Return the stored iterates in the eager engine's layout: one row per k, one column per run."""
    columns = {name: np.asarray(column) for name, column in ring._asdict().items()}
    k: Any = columns.pop("k")
    del columns["g"]
    stored, first, last = k >= 0, int(k[k >= 0].min()), int(k.max())
    places = (k[stored] - first, *np.nonzero(stored)[:-1])
    for name, column in columns.items():
        shape = (last + 1 - first, *k.shape[:-1], *column.shape[k.ndim :])
        columns[name] = np.full(shape, np.nan if column.dtype.kind == "f" else 0, column.dtype)
        columns[name][places] = column[stored]
    length = k.max(axis=1) + 1 - first if k.ndim == 2 else None
    return Trace(k=np.arange(first, last + 1), length=length, **columns)
