"""`x_scale`: `minimize` states the problem in z = x/s, and both drivers report in x; wraps the user's code.

The scales are rounded to powers of two: x, bounds and gradients then lose no digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._tools.check import floats
from .arrays import Array, device, is_numpy, namespace, to_numpy
from .objective import Objective
from .questions import Vector
from .result import Best, Result
from .space import limits_of


def scale_of(x_scale: ArrayLike | str, x: Array, bounds: Any) -> NDArray[np.float64]:
    """Return the size of each variable, a power of two.

    "auto" is the width of its box, else the size of its start (the largest, in a batch), else 1.
    """
    n = int(x.shape[-1])
    if isinstance(x_scale, str) and x_scale == "auto":
        low, high = limits_of([(None, None)] * n if bounds is None else bounds, n)
        with np.errstate(over="ignore", invalid="ignore"):
            width = high - low
        size = abs(to_numpy(x).astype(np.float64)).reshape(-1, n).max(axis=0)
        size = np.where((width > 0) & (width < np.inf), width, size)
        size = np.where(size > 0, size, 1.0)
    else:
        expected = f'"auto", a positive number, or {n} of them'
        size = floats("x_scale", x_scale, expected)
        if size.shape not in ((), (1,), (n,)) or not (size > 0).all():
            raise ValueError(f"x_scale: expected {expected}; got {x_scale!r}")
    range_ = np.finfo(to_numpy(x).dtype)
    size = np.clip(np.broadcast_to(size, n), float(range_.tiny) ** 0.5, float(range_.max) ** 0.5)
    return np.exp2(np.round(np.log2(size))).astype(np.float64)


def scaled(objective: Objective, x_scale: ArrayLike | str | None) -> Objective:
    """Return the same problem in the variables z = x/s."""
    if x_scale is None:
        return objective
    bounds, jac, hvp, hess = objective.bounds, objective.jac, objective.hvp, objective.hess
    scale = scale_of(x_scale, objective.x, bounds)
    if bounds is not None:
        low, high = limits_of(bounds, len(scale))
        bounds = list(zip((low / scale).tolist(), (high / scale).tolist(), strict=True))
    eps = None if objective.differences.eps is None else objective.differences.eps / scale
    sizes = tuple(scale.tolist())
    return replace(
        objective, fun=Scaled(objective.fun, sizes, "both" if jac is True else "value"),
        x=times(objective.x, 1 / scale), bounds=bounds,
        jac=Scaled(jac, sizes, "grad") if callable(jac) else jac,
        hvp=hvp and Scaled(hvp, sizes, "hvp"), hess=hess and Scaled(hess, sizes, "hess"),
        differences=replace(objective.differences, eps=eps), scale=scale,
    )  # fmt: skip


def times(v: Any, scale: NDArray[np.float64]) -> Any:
    """Return a vector of any library times the scales."""
    if is_numpy(v):
        return v * (scale if v.dtype == np.complex128 else scale.astype(v.dtype, copy=False))
    xp = namespace(v)
    return v * xp.asarray(scale, dtype=v.dtype, device=device(v))


@dataclass(frozen=True)
class Scaled:
    """A function of x as one of z = x/s; two of the same function are equal, and compiled once."""

    function: Any
    sizes: tuple[float, ...]  # s: unlike an array, it can be hashed
    kind: str

    def __call__(self, z: Any, *more: Any) -> Any:
        scale, kind = np.array(self.sizes), self.kind
        if kind == "hvp":
            more = (times(more[0], scale), *more[1:])
        found = self.function(times(z, scale), *more)
        if kind == "value":
            return found
        if kind == "hess":
            return _hessian(found, scale)
        if kind == "both":
            both = cast("tuple[Any, ...]", found) if isinstance(found, tuple | list) else ()
            return (both[0], _vector(both[1], scale)) if len(both) == 2 else cast(Any, found)
        return _vector(found, scale)


def _vector(found: Any, scale: NDArray[np.float64]) -> Any:
    """Return a gradient with respect to z; a wrong shape is left for the evaluator to refuse."""
    found = found if hasattr(found, "dtype") else np.asarray(found)
    fits = found.shape[-1:] == scale.shape or (len(scale) == 1 and not found.shape)
    return times(found / 1, scale) if fits and "object" not in str(found.dtype) else found


def _hessian(found: Any, scale: NDArray[np.float64]) -> Any:
    """Return a Hessian with respect to z."""
    if hasattr(found, "shape") and not hasattr(found, "__array__") and hasattr(found, "dot"):  # SciPy's
        import scipy.sparse as sparse  # here, so that `import steepen` stays light

        operator: Any = cast(Any, sparse).linalg.aslinearoperator
        stretch = operator(cast(Any, sparse).diags_array(scale))
        return stretch @ operator(found) @ stretch
    found = found if hasattr(found, "dtype") else np.asarray(found)
    if len(scale) == 1 and found.shape in ((), (1,)):  # a number is accepted, as in SciPy
        found = found.reshape(1, 1)
    if found.shape[-2:] != 2 * scale.shape:
        return found
    return times(times(found, scale).swapaxes(-1, -2), scale)  # it is symmetric


def result_in_x(result: Result, scale: NDArray[np.float64] | None) -> Result:
    """Return a result in x."""
    if scale is None:
        return result
    best, trace, learnt = result.best, result.trace, vars(result)["_learnt"]
    if trace is not None and trace.x is not None:
        trace = replace(trace, x=times(trace.x, scale))
    return replace(
        result, x=times(result.x, scale), jac=times(result.jac, 1 / scale), trace=trace,
        best=Best(None if best.x is None else times(best.x, scale), best.fun, best.k),
        learnt=learnt and (_Stretched(learnt[0], scale), *learnt[1:]),
    )  # fmt: skip


@dataclass(frozen=True)
class _Stretched:
    """A method that has learnt the inverse Hessian with respect to z."""

    method: Any
    scale: NDArray[np.float64]

    def inverse(self, x: Vector, g: Vector) -> Callable[[Vector], Vector]:
        product = self.method.inverse(x, g)  # they are in z
        return lambda v: times(product(times(v, self.scale)), self.scale)
