"""What the user tells a run, read as the run needs it; what cannot be read is refused, by its name."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..callables import describe, read_imaginary, read_value, read_vector
from ..problem import is_operator
from ..questions import Vector
from ..scale import Scaled


class NotGiven:
    """What an argument is that was not given."""

    def __repr__(self) -> str:
        return "not given"


NOT_GIVEN = NotGiven()

FLOATS = {float}
"""The types of values that need not be read."""


class Reader:
    """Reads answers for a run with vectors like this one, in variables of this scale."""

    def __init__(self, like: Vector, scale: NDArray[np.float64] | None):
        self._like, self._scale = like, scale

    def answers(self, wanted: str, imaginary: bool, count: int, told: Any, g: Any) -> list[Any]:
        """Return the answers for so many points."""
        if wanted == "both":
            return [self._both(told, g)]
        if g is not NOT_GIVEN:
            what = f"the run asked for the {wanted} alone, to be told as one answer"
            raise TypeError(f"g: {what}; got {g!r}")
        if wanted != "value":
            return [self._vector(told, wanted)]
        values = each(told, count)
        if set(map(type, values)) == FLOATS and not imaginary:  # nearly always
            return values
        return [value(f, imaginary) for f in values]

    def _both(self, f: Any, g: Any) -> tuple[float, Vector]:
        found = f if type(f) is float else value(_only(f, "f", 0))
        if g is NOT_GIVEN:
            if not math.isnan(found):
                raise TypeError("g: the run asked for f and ∇f, and got f alone; expected tell(ask, f, g)")
            g = None
        return found, self._vector(g, "g")

    def _vector(self, told: Any, name: str) -> Any:
        """Return a gradient, a product or a Hessian in the variables of the run."""
        like, n = self._like, len(self._like)
        plain = type(told) is np.ndarray and told.shape == like.shape and told.dtype is like.dtype
        if plain and name != "hessian" and self._scale is None:  # nearly always
            return told.copy()
        tail, kind = ((n,), "hess") if name == "hessian" else ((), "grad")
        told = told if failed(told) else _only(told, name, 1 + len(tail))
        if failed(told):
            return np.full((n, *tail), math.nan, like.dtype)
        if is_operator(told):
            if name != "hessian" or tuple(told.shape) != (n, n):
                raise ValueError(f"{name}: expected shape {(n, *tail)}, got {describe(told)}")
        else:
            told = read_vector(told, like, name, tail)
        if self._scale is None:
            return told

        def known(_: Vector) -> Any:
            return told

        return Scaled(known, tuple(self._scale.tolist()), kind)(like)


def failed(told: Any) -> bool:
    """Return whether an evaluation failed: None, NaN and an exception say so."""
    return told is None or isinstance(told, BaseException) or (isinstance(told, float) and told != told)


def value(f: Any, imaginary: bool = False) -> float:
    """Return a value that was told."""
    if failed(f):
        return math.nan
    return read_imaginary(f) if imaginary else read_value(f, "f")


def each(told: Any, count: int) -> list[Any]:
    """Return one value for each of so many points."""
    if failed(told):
        return [told] * count
    several = isinstance(told, list | tuple)  # it may hold failures
    shape = (len(cast("list[Any]", told)),) if several else np.shape(told)
    if shape[:1] != (count,) and not (count == 1 and shape == ()):
        expected = f"{count} values, one for each point of the ask" if count > 1 else "a value"
        raise ValueError(f"f: expected {expected}, got shape {shape}")
    return list(told) if shape else [told]


def _only(told: Any, name: str, ndim: int) -> Any:
    """Return the answer for the only point of an ask, which may be told in an array with one entry."""
    try:
        shape = np.shape(told)
    except ValueError as error:  # ragged
        hint = "; f and ∇f are two arguments, tell(ask, f, g)" if name == "f" else ""
        raise TypeError(f"{name}: expected an array of numbers, got {told!r}{hint}") from error
    return told[0] if len(shape) == ndim + 1 and shape[:1] == (1,) else told
