"""Argument checks of this folder's modules: arguments become float64, or an error that names them; pure."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.check import floats

Array = NDArray[np.float64]


def finite(name: str, value: ArrayLike) -> Array:
    """Return finite real numbers of any shape."""
    return floats(name, value, "real numbers")


def vector(name: str, value: ArrayLike, n: int | None = None) -> Array:
    """Return a finite vector of length `n`, or of any length >= 1 if `n` is None."""
    array = finite(name, value)
    if array.ndim != 1 or array.size == 0 or n not in (None, array.size):
        length = "n >= 1" if n is None else n
        raise ValueError(f"{name}: expected a vector of shape ({length},), got shape {array.shape}")
    return array


def plain(value: ArrayLike) -> float | Array:
    """Return a Python float for a scalar and an array for anything else."""
    array = np.asarray(value, dtype=np.float64)
    return float(array) if array.ndim == 0 else array
