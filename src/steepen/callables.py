"""The user's functions, as drivers call them: with their further arguments, or by autodiff."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from .arrays import is_numpy, to_numpy
from .questions import Vector
from .vectors import own

Function: TypeAlias = Callable[..., Any]

BATCH = (
    "a batch needs a function vectorised over leading axes "
    '(or wrapped: np.vectorize(fun, signature="(n)->()"))'
)


class Functions(NamedTuple):
    """f and its derivatives, as far as they are given or made by autodiff."""

    value: Function
    grad: Function | None = None
    hvp: Function | None = None
    hess: Function | None = None
    both: Function | None = None
    """Returns f and ∇f, where they come together."""
    sent: Function | None = None
    """f as it was given, which a worker process can be sent."""


def with_args(
    function: Function, args: tuple[Any, ...], *vectors: Vector, rows: tuple[Any, ...] = ()
) -> Any:  # fmt: skip
    """Call a function with its further arguments, and with the data of the rows that it is asked about."""
    return function(*vectors, *args, *rows)


def bound(function: Function, args: tuple[Any, ...], of_rows: bool = False) -> Function:
    """Return a function with its further arguments; unlike a lambda, worker processes can be sent it.

    It takes the data of rows as `rows` if there are such data.
    """
    return partial(with_args, function, args) if args or of_rows else function


def read_value(f: Any, name: str = "fun") -> float:
    """Return a value of f as a float; raise if it is none."""
    if isinstance(f, float):
        return float(f)
    array = _array(f, name)
    if array.size != 1 or array.dtype.kind not in "fiu":
        kind = type(f).__name__
        raise TypeError(f"{name}: expected a real scalar, got {describe(array)}; its type is {kind}")
    return float(array.reshape(()))


def read_values(f: Any, rows: int, autodiff: bool) -> list[float]:
    """Return the values of the rows of a batch."""
    array = _array(f, "fun")
    if array.shape != (rows,) or array.dtype.kind not in "fiu":
        advice = "under autodiff, write fun for one point: it is mapped over the rows for you"
        raise TypeError(
            f"fun: expected one value for each of the {rows} rows of x, got {describe(array)}; "
            f"{advice if autodiff else BATCH}"
        )
    return array.astype(np.float64).tolist()


def read_imaginary(f: Any) -> float:
    """Return the imaginary part of a value at a complex point."""
    values: Any = np.asarray(f)
    if values.dtype.kind != "c":
        raise TypeError('jac="cs": fun must return complex values for complex x; it returned real ones')
    return read_value(values.imag)


def read_vector(
    g: Any, like: Vector, name: str, tail: tuple[int, ...] = (), rows: int | None = None
) -> Vector:
    """Return a copy of a vector of the user's, or a matrix with `tail`, or one for each of these rows."""
    n = int(like.shape[-1])
    shape = (n, *tail) if rows is None else (rows, n, *tail)
    found = _array(g, name) if is_numpy(like) or not hasattr(g, "dtype") else g
    if rows is None and n == 1 and found.ndim < len(shape):  # a number is accepted, as in SciPy
        found = found.reshape(shape)
    if tuple(found.shape) != shape:
        raise ValueError(f"{name}: expected shape {shape}, got {describe(found)}")
    if getattr(found.dtype, "kind", "f") not in "fiu":
        raise TypeError(f"{name}: expected real numbers, got {describe(found)}")
    return own(like, found)


def pair(returned: Any) -> tuple[Any, Any]:
    """Return f and g of a function that gives both."""
    both = cast("tuple[Any, ...]", returned) if isinstance(returned, tuple | list) else ()
    if len(both) != 2:
        raise TypeError(f"fun: expected a pair (f, g), because of jac=True; got {returned!r}")
    return both[0], both[1]


def _array(returned: Any, name: str) -> Any:
    try:
        return to_numpy(returned)
    except ValueError as error:  # ragged
        hint = "; if it returns f and its gradient, pass jac=True" if isinstance(returned, tuple) else ""
        raise TypeError(f"{name}: expected an array of numbers, got {returned!r}{hint}") from error


def describe(a: Any) -> str:
    """Return the shape and the dtype of an array in words."""
    return f"shape {tuple(a.shape)} and dtype {a.dtype}"
