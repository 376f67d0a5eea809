"""How the user's functions are called, and what they may return."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np

from .._core.arrays import Array, Scalar, device, is_numpy, namespace, to_numpy
from .._core.kits import Kit, Many
from .._core.space import Space
from .ledger import Ledger
from .probes import Probing

Function = Callable[..., Any]

Only: TypeAlias = Any
"""The rows of a batch that an evaluation is for, as a mask; None for all."""


class Calling(Probing):
    """Calls for some rows of a batch; their answers checked, copied, and spread over all rows."""

    differentiates = False
    """Whether the gradient comes from autodiff."""

    def __init__(self, x0: Array, kit: Kit, space: Space | None, ledger: Ledger | None):
        super().__init__(kit, space, float(kit.xp.finfo(x0.dtype).eps))
        self.ledger = Ledger(kit) if ledger is None else ledger
        self.outside = contextvars.copy_context().run  # the run is silent about overflow; fun need not be
        self._like, self._n, self._shape = x0, int(x0.shape[-1]), tuple(x0.shape)

    def _call(self, function: Any, only: Only, *vectors: Array) -> Any:
        kit = self._kit
        if only is not None and kit.size is not None and not only.all():
            rows = np.flatnonzero(only)
            return function(*(kit.take(v, rows) for v in vectors))  # pyright: ignore
        return function(*(kit.copy(v) for v in vectors))

    def _scalar(self, f: Any, only: Only) -> Scalar:
        if self._kit.size is None:
            if type(f) is float:
                return f
            array = _array(f, "fun")
            if array.size != 1 or array.dtype.kind not in "fiu":
                raise TypeError(f"fun: expected a real scalar, got {describe(array)} from {type(f).__name__}")
            return float(array.reshape(()))
        array = _array(f, "fun")
        rows = self._row_count(only)
        if array.shape != (rows,) or array.dtype.kind not in "fiu":
            raise TypeError(
                f"fun: expected one value for each of the {rows} rows of x, got {describe(array)}; "
                + (
                    "under autodiff, write fun for one point: it is mapped over the rows for you"
                    if self.differentiates
                    else "a batch needs a function vectorised over leading axes "
                    '(or wrapped: np.vectorize(fun, signature="(n)->()"))'
                )
            )
        return self._spread(np.array(array, dtype=np.float64), only)

    def _vector(self, g: Any, only: Only, name: str, tail: tuple[int, ...] = ()) -> Array:
        rows = self._row_count(only)
        shape = (self._n, *tail) if rows is None else (rows, self._n, *tail)
        found = _array(g, name) if is_numpy(self._like) or not hasattr(g, "dtype") else g
        if rows is None and self._n == 1 and found.ndim < len(shape):  # as SciPy, a number will do
            found = found.reshape(shape)
        if tuple(found.shape) != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {describe(found)}")
        if getattr(found.dtype, "kind", "f") not in "fiu":
            raise TypeError(f"{name}: expected real numbers, got {describe(found)}")
        return self._spread(self._kit.own(found), only)

    @staticmethod
    def _rows_of(column: Any, only: Only) -> Any:
        return column if only is None or column.ndim == 1 else column[only]

    def _row_count(self, only: Only) -> int | None:
        if self._kit.size is None:
            return None
        return self.ledger.rows if only is None else int(only.sum())

    def _spread(self, part: Array, only: Only) -> Array:
        if only is None or self._kit.size is None or only.all():
            return part
        assert isinstance(self._kit, Many)
        shape = int((~only).sum()), *part.shape[1:]
        rest = namespace(part).zeros(shape, dtype=part.dtype, device=device(part))
        pieces = [(np.flatnonzero(only), part), (np.flatnonzero(~only), rest)]
        return self._kit.merge(pieces)


def pair(returned: Any) -> tuple[Any, Any]:
    """Return f and g of a function that gives both."""
    both = cast("tuple[Any, ...]", returned) if isinstance(returned, tuple | list) else ()
    if len(both) != 2:
        raise TypeError(f"fun: expected the pair (f, g), as jac=True says; got {returned!r}")
    return both[0], both[1]


class _Bound:
    """A function with its further arguments; unlike a lambda, worker processes can be sent it."""

    def __init__(self, function: Function, args: tuple[Any, ...]):
        self._function, self._args = function, args

    def __call__(self, *vectors: Array) -> Any:
        return self._function(*vectors, *self._args)


def bound(function: Function, args: tuple[Any, ...]) -> Function:
    """Return a function with its further arguments, if there are any."""
    return _Bound(function, args) if args else function


def _array(returned: Any, name: str) -> Any:
    try:
        return to_numpy(returned)
    except ValueError as error:  # ragged
        raise TypeError(f"{name}: expected an array of numbers, got {returned!r}") from error


def describe(a: Any) -> str:
    """Return the shape and the dtype of an array in words."""
    return f"shape {tuple(a.shape)} and dtype {a.dtype}"
