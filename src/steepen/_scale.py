"""`x_scale`: a run in variables of size one, z = x/s, told in the variables that were given.

The scales are rounded to powers of two: x, bounds and gradients then lose no digit on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._arguments import derivatives_of
from ._core.arrays import Array, device, is_numpy, namespace, to_numpy
from ._core.kits import Kit
from ._core.records import State
from ._core.result import Best, Iterates, Result
from ._core.space import limits_of
from ._tools.check import floats


def scale_of(x_scale: ArrayLike | str, x: Array, bounds: Any) -> NDArray[np.float64]:
    """Return the size of each variable, a power of two.

    "auto" is the width of its box, else the size of its start (the largest, in a batch), else 1.

    Examples
    --------
    >>> import numpy as np
    >>> scale_of("auto", np.array([5e6, 0.0, 0.0]), [(None, None), (0, 1e-9), (None, None)]).tolist()
    [4194304.0, 9.313225746154785e-10, 1.0]
    """
    n = int(x.shape[-1])
    if isinstance(x_scale, str):
        if x_scale != "auto":
            raise ValueError(f'x_scale: expected "auto", a positive number, or {n} of them; got {x_scale!r}')
        low, high = limits_of([(None, None)] * n if bounds is None else bounds, n)
        with np.errstate(over="ignore", invalid="ignore"):
            width = high - low
        size = abs(to_numpy(x).astype(np.float64)).reshape(-1, n).max(axis=0)
        size = np.where((width > 0) & (width < np.inf), width, size)
        size = np.where(size > 0, size, 1.0)
    else:
        size = floats("x_scale", x_scale, f'"auto", a positive number, or {n} of them')
        if size.shape not in ((), (1,), (n,)) or not ((size > 0) & (size < np.inf)).all():
            raise ValueError(f'x_scale: expected "auto", a positive number, or {n} of them; got {x_scale!r}')
    range_ = np.finfo(to_numpy(x).dtype)
    size = np.clip(np.broadcast_to(size, n), float(range_.tiny) ** 0.5, float(range_.max) ** 0.5)
    return np.exp2(np.round(np.log2(size))).astype(np.float64)


def scaled(
    call: Callable[..., Result],
    scale: NDArray[np.float64],
    fun: Any,
    x: Array,
    args: Any,
    given: dict[str, Any],
) -> Result:
    """Minimise fun by `call` in the variables z = x/s, and return the result in x."""
    more = dict(given)
    if given["bounds"] is not None:
        low, high = limits_of(given["bounds"], len(scale))
        more["bounds"] = list(zip((low / scale).tolist(), (high / scale).tolist(), strict=True))
    if given["engine"] == "eager":
        jac, hvp, hess, how = derivatives_of(
            fun, x, *(given[name] for name in ("jac", "hvp", "hessp", "hess"))
        )
        eps = None if how.eps is None else how.eps / scale
        jac = Scaled(jac, scale, "grad") if callable(jac) else jac
        more |= {
            "jac": replace(how, jac=jac, eps=eps), "hessp": None,
            "hvp": hvp and Scaled(hvp, scale, "hvp"), "hess": hess and Scaled(hess, scale, "hess"),
        }  # fmt: skip
    callback = given["callback"]
    if callable(callback):

        def told(state: State) -> Any:
            return callback(replace(state, x=_times(state.x, scale)))

        more["callback"] = told
    function = Scaled(fun, scale, "both" if given["jac"] is True else "value")
    try:
        return _unscaled(call(function, _times(x, 1 / scale), args, **more), scale)
    except Exception as error:
        if isinstance(found := getattr(error, "partial_result", None), Result):
            error.partial_result = _unscaled(found, scale)  # pyright: ignore[reportAttributeAccessIssue]
        raise


def _times(v: Any, scale: NDArray[np.float64]) -> Any:
    """Return a vector of any library times the scales."""
    if is_numpy(v):
        return v * (scale if v.dtype == np.complex128 else scale.astype(v.dtype, copy=False))
    xp = namespace(v)
    return v * xp.asarray(scale, dtype=v.dtype, device=device(v))


class Scaled:
    """A function of x as one of z = x/s; two of the same function are equal, and compiled once."""

    def __init__(self, function: Any, scale: NDArray[np.float64], kind: str):
        self._function, self._scale, self._kind = function, scale, kind

    def __call__(self, z: Any, *more: Any) -> Any:
        x, scale, kind = _times(z, self._scale), self._scale, self._kind
        if kind == "hvp":
            more = (_times(more[0], scale), *more[1:])
        found = self._function(x, *more)
        if kind == "value":
            return found
        if kind == "hess":
            return _hessian(found, scale)
        if kind == "both":
            both = cast("tuple[Any, ...]", found) if isinstance(found, tuple | list) else ()
            return (both[0], _vector(both[1], scale)) if len(both) == 2 else cast(Any, found)
        return _vector(found, scale)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scaled) and self._known() == other._known()

    def __hash__(self) -> int:
        return hash(self._known())

    def _known(self) -> tuple[Any, ...]:
        return self._function, self._scale.tobytes(), self._kind


def _vector(found: Any, scale: NDArray[np.float64]) -> Any:
    """Return a gradient with respect to z; what has the wrong shape is left to be refused as it is."""
    found = found if hasattr(found, "dtype") else np.asarray(found)
    fits = found.shape[-1:] == scale.shape or (len(scale) == 1 and not found.shape)
    return _times(found / 1, scale) if fits and "object" not in str(found.dtype) else found


def _hessian(found: Any, scale: NDArray[np.float64]) -> Any:
    """Return a Hessian with respect to z."""
    if hasattr(found, "shape") and not hasattr(found, "__array__") and hasattr(found, "dot"):  # SciPy's
        import scipy.sparse as sparse  # here, so that `import steepen` stays light

        stretch: Any = cast(Any, sparse).diags_array(scale)
        if not cast(Any, sparse).issparse(found):
            stretch = cast(Any, sparse).linalg.aslinearoperator(stretch)
        return stretch @ found @ stretch
    found = found if hasattr(found, "dtype") else np.asarray(found)
    if found.shape[-2:] != 2 * scale.shape:
        return found
    return _times(_times(found, scale).swapaxes(-1, -2), scale)  # it is symmetric


def _unscaled(result: Result, scale: NDArray[np.float64]) -> Result:
    """Return a result in x."""
    best, trace, learnt = result.best, result.trace, vars(result)["_learnt"]
    if trace is not None and (z := trace.x) is not None:
        iterates = Iterates(z.shape[1:], z.dtype)
        iterates.extend(_times(z, scale))
        trace = replace(trace, iterates=iterates)
    return replace(
        result, x=_times(result.x, scale), jac=_times(result.jac, 1 / scale), trace=trace,
        best=Best(None if best.x is None else _times(best.x, scale), best.fun, best.k),
        learnt=learnt and (_Stretched(learnt[0], scale), *learnt[1:]),
    )  # fmt: skip


@dataclass(frozen=True)
class _Stretched:
    """A direction that has learnt the inverse Hessian with respect to z."""

    direction: Any
    scale: NDArray[np.float64]

    def inverse(self, kit: Kit, x: Array, g: Array, memory: Any) -> Callable[[Array], Array]:
        product = self.direction.inverse(kit, x, g, memory)
        return lambda v: _times(product(_times(v, self.scale)), self.scale)
