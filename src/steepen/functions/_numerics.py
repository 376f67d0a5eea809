"""Helpers of formulas: x is real or complex, (n, ...), and keeps its precision."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]

total = np.add.reduce
"""Sum over the first axis, with less overhead than `np.sum`."""


def sign(t: Any) -> Any:
    """Return the sign of the real part: −1, 0 or 1."""
    return np.sign(t.real)


def absolute(t: Any) -> Any:
    """Return |t|, continued analytically on either side of the kink; flat on the kink itself."""
    return t * sign(t)


def nonzero(t: Any) -> Any:
    """Return t with ones in place of zeros, as a divisor of terms that vanish there."""
    return t + (t == 0)


def spread(values: Array, coordinate: Any) -> Array:
    """Return constants in a coordinate's precision, with a trailing axis for each of its axes."""
    constants = values.astype(coordinate.real.dtype, copy=False)
    return constants.reshape(values.shape + (1,) * coordinate.ndim)


def indices(x: Array) -> Array:
    """Return 1, ..., n, shaped to multiply the coordinates of x."""
    return spread(np.arange(1.0, len(x) + 1), x[0])


def perm(x: Array, inner: Any, weights: Iterable[Any], targets: Iterable[Any], slope: bool) -> Any:
    """Return Σᵢ(Σⱼ wᵢⱼ((xⱼ/cⱼ)ⁱ − tᵢⱼ))², the form of both Perm functions, or its gradient; c is `inner`."""
    power, value, g = np.ones_like(indices(x)), 0.0, 0.0
    for i, (weight, target) in enumerate(zip(weights, targets, strict=True), 1):
        rise, power = i * power / inner, power * (x / inner)
        residual = total(weight * (power - target))
        value, g = value + residual * residual, g + 2 * residual * weight * rise
    return g if slope else value


def points(argument: str, X: ArrayLike, name: str, n: int) -> Array:
    """Return points (..., n), coordinates last, as floats or complex; `name` is the function, for errors."""
    x: Array = np.asarray(X)
    if x.dtype.kind not in "fcbiu":
        raise TypeError(f"{argument}: expected numbers, got an array of {x.dtype}")
    if x.shape[-1:] != (n,):
        expected = f"points with n = {n} coordinates, shape (..., {n})"
        raise ValueError(f"{argument}: {name} expects {expected}, got shape {x.shape}")
    return x if x.dtype.kind in "fc" else x.astype(float)
