"""Array types in signatures, and functions for NumPy, torch and JAX alike, for all numerical code; pure."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
"""A vector `(n,)`, a batch `(B, n)`, or a matrix for each row; of NumPy, torch or JAX, typed as NumPy's."""

Scalar: TypeAlias = float | NDArray[np.float64]
"""A number of a run: a Python number in a single run, an array `(B,)` of one value per row in a batch."""

Whole: TypeAlias = int | NDArray[np.int64]
"""The same for whole numbers: an int, or one per row."""

Mask: TypeAlias = bool | np.bool_ | NDArray[np.bool_]
"""The same for conditions: a bool, or an array of bools, one per row, True where it holds."""

MaybeArray: TypeAlias = Any
MaybeScalar: TypeAlias = Any
"""An Array, and a Scalar, or None where it is not known."""

Rows: TypeAlias = NDArray[np.intp]
"""The indices of some rows of a batch, in contrast to a Mask."""


def is_numpy(v: Any) -> bool:
    """Return whether this is a NumPy array."""
    return isinstance(v, np.ndarray)


def namespace(a: Any) -> Any:
    """Return the array namespace of `a`: that of its library, and NumPy for a Python number."""
    if isinstance(a, np.ndarray | float | int):  # the common case first: this runs in every step
        return np
    return array_api_compat.array_namespace(a)


def device(a: Any) -> Any:
    """Return the device of an array; None for a traced one."""
    return getattr(a, "device", None)


@cache
def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype, NumPy's or torch's."""
    return str(dtype).removeprefix("torch.")


def precision(dtype: Any) -> Any:
    """Return what NumPy knows of a dtype of floats, NumPy's or torch's: `eps`, `max`, ..."""
    return np.finfo(dtype_name(dtype))


def identity(x: Array) -> Array:
    """Return the identity matrix of the size, dtype and device of x."""
    return namespace(x).eye(int(x.shape[-1]), dtype=x.dtype, device=device(x))


def norm(v: Array) -> Array:
    """Return the Euclidean norm over the last axis, kept as an axis, and safe from overflow."""
    xp = namespace(v)
    size = xp.max(xp.abs(v), axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # inf/inf: the norm is then NaN, which is not finite either
        unit = v / xp.where(size > 0, size, xp.ones_like(size))
        return size * xp.sqrt(xp.sum(unit * unit, axis=-1, keepdims=True))


def adopt(like: Array, v: Any) -> Array:
    """Copy `v` into the library, dtype and device of `like`."""
    if array_api_compat.is_torch_array(v):
        v = v.detach()
    return namespace(like).asarray(v, dtype=like.dtype, device=device(like), copy=True)


def to_numpy(v: Any) -> NDArray[Any]:
    """Return an array of any library as NumPy's, on the host."""
    if is_numpy(v):
        return v
    if array_api_compat.is_torch_array(v):
        v = v.detach().cpu()
    return np.asarray(v)
