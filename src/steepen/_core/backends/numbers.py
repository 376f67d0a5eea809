"""Scalar functions for a single run (`backend.num`), on Python numbers: a NumPy call costs a microsecond."""

from __future__ import annotations

import math

import numpy as np


def maximum(a: float, b: float) -> float:
    """Return the larger number; NaN where one is NaN."""
    return a if a >= b or a != a else b


def minimum(a: float, b: float) -> float:
    """Return the smaller number; NaN where one is NaN."""
    return a if a <= b or a != a else b


def clip(a: float, low: float, high: float) -> float:
    """Return the number between the two that is nearest to a."""
    return minimum(maximum(a, low), high)


def sqrt(a: float) -> float:
    """Return the square root; NaN of a negative number."""
    return math.sqrt(a) if a >= 0 else math.nan


def power(a: float, b: float) -> float:
    """Return a to the power of b, with the same bits as in an array; those of ** may differ."""
    return float(np.power(a, b))


def log2(a: float) -> float:
    """Return the logarithm to base 2, with the same bits as in an array."""
    return float(np.log2(a))


def round(a: float) -> float:
    """Return the nearest whole number."""
    return float(np.round(a))


isfinite = math.isfinite
