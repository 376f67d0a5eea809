"""Vectors of a run, of NumPy or torch: norms and ratios that do not overflow, and copies of its own type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import adopt, is_numpy, namespace
from .arrays import norm as scaled_norm
from .questions import Vector

TINY, HUGE = 1e-30, 1e30
"""Squares outside are summed again, scaled: float32 holds both."""


def dot(a: Vector, b: Vector) -> float:
    """Return the inner product."""
    return float(a.dot(b))


def norm(v: Vector) -> float:
    """Return the Euclidean norm."""
    square = float(v.dot(v))
    return math.sqrt(square) if TINY < square < HUGE else float(scaled_norm(v)[0])


def root(square: float, v: Vector) -> float:
    """Return ‖v‖ from its square."""
    return math.sqrt(square) if TINY < square < HUGE else float(scaled_norm(v)[0])


def ratio(a: float, b: float) -> float:
    """Return a/b as IEEE arithmetic has it: infinite or NaN, and no error, where b is 0."""
    if b:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def finite(v: Vector) -> bool:
    """Return whether all entries are finite."""
    if float(v.dot(v)) < math.inf:  # quick, and nearly always enough
        return True
    return bool(namespace(v).isfinite(v).all())


def same(a: Vector, b: Vector) -> bool:
    """Return whether two vectors are equal."""
    return bool((a == b).all())


def own(like: Vector, v: Any) -> Vector:
    """Return a copy of a vector, in the type of another one."""
    return np.array(v, dtype=like.dtype, order="C") if is_numpy(like) else adopt(like, v)


def copied(v: Vector) -> Vector:
    """Return a copy of a vector."""
    return v.copy() if is_numpy(v) else v.clone()


def normals(like: Vector, *seed: int) -> Vector:
    """Return normally distributed numbers, the same in every run."""
    drawn: NDArray[np.float64] = np.random.default_rng(list(seed) or 0).standard_normal(int(like.shape[-1]))
    return own(like, drawn)
