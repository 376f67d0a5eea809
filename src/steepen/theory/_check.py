"""Checks of arguments shared by the theory modules."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Array", "finite", "number", "plain", "vector"]

Array = NDArray[np.float64]


def finite(name: str, value: ArrayLike) -> Array:
    """Return `value` as float64, or say which argument is not made of finite reals.

    Examples
    --------
    >>> finite("L", [1, 2])
    array([1., 2.])
    """
    if np.iscomplexobj(value):
        raise TypeError(f"{name} must be real, got complex values")
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a real number or array, got {value!r}") from error
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {value!r}")
    return array


def number(name: str, value: ArrayLike) -> float:
    """Return `value` as one finite float.

    Examples
    --------
    >>> number("lam", 1)
    1.0
    """
    array = finite(name, value)
    if array.ndim != 0:
        raise ValueError(f"{name} must be one number, got shape {array.shape}")
    return float(array)


def vector(name: str, value: ArrayLike, n: int | None = None) -> Array:
    """Return `value` as a finite vector of length `n` (any length >= 1 where None).

    Examples
    --------
    >>> vector("g", (3, 4))
    array([3., 4.])
    """
    array = finite(name, value)
    if array.ndim != 1 or array.size == 0 or n not in (None, array.size):
        length = "n >= 1" if n is None else n
        raise ValueError(f"{name} must be a vector of shape ({length},), got shape {array.shape}")
    return array


def plain(value: ArrayLike) -> float | Array:
    """Return a Python float for a scalar and an array for anything else.

    Examples
    --------
    >>> plain(np.float64(0.5))
    0.5
    """
    array = np.asarray(value, dtype=np.float64)
    return float(array) if array.ndim == 0 else array
