"""One run or many, in one set of formulas.

The loop and the directions are written once, for vectors `(n,)` and for batches `(B, n)`. What differs
between the two is here: a scalar of a single run is a Python number, a scalar of a batch is a NumPy
array with one value a row. Vectors may belong to NumPy, torch or JAX; scalars always live on the host,
where the decisions are taken.

Sums are taken in the same order in both: one by one for short rows, by the same BLAS call for long ones. So
for NumPy arrays a row of a batch equals the run made alone to the last bit, where the user's functions give
the same bits for it and BLAS sums alike wherever a vector lies; but bfgs, dfp, cgd-bfgs and cgd-dfp below
n = 32 only, since from there on a single run has its matrix on BLAS (`matrix.LARGE`). There, and for torch
and JAX, the two are equal up to rounding.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias, cast

import array_api_compat
import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = Any
"""A vector `(n,)` or a batch `(B, n)` of NumPy, torch or JAX."""

Scalar: TypeAlias = Any
"""A Python number, or a NumPy array with one value a row."""

Whole: TypeAlias = Any
"""A Python int, or a NumPy array of them with one value a row."""

Mask: TypeAlias = Any
"""A Python bool, or a NumPy array with one bool a row."""

Rows: TypeAlias = NDArray[np.intp]

_TINY, _HUGE = 1e-30, 1e30  # squares outside are summed again, scaled: float32 holds both


def is_numpy(v: Any) -> bool:
    """Say whether this is a NumPy array."""
    return isinstance(v, np.ndarray)


def namespace(a: Array) -> Any:
    """Give the array namespace of `a` (NumPy's own at once: it is asked for on every step)."""
    return np if type(a) is np.ndarray else array_api_compat.array_namespace(a)


def norm(v: Array) -> Array:
    """Euclidean norm over the last axis, kept as an axis, and safe from overflow."""
    xp = namespace(v)
    size = xp.max(xp.abs(v), axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # inf/inf: the norm is then NaN, and is found not to be finite
        unit = v / xp.where(size > 0, size, xp.ones_like(size))
        return size * xp.sqrt(xp.sum(unit * unit, axis=-1, keepdims=True))


def adopt(like: Array, v: Array) -> Array:
    """Copy `v` into the library, dtype and device of `like`."""
    if array_api_compat.is_torch_array(v):
        v = v.detach()
    xp = namespace(like)
    return xp.asarray(v, dtype=like.dtype, device=like.device, copy=True)


def to_numpy(v: Array) -> NDArray[Any]:
    """Bring an array of any library to NumPy on the host."""
    if is_numpy(v):
        return v
    if array_api_compat.is_torch_array(v):
        v = v.detach().cpu()
    return np.asarray(v)


class Kit(Protocol):
    """The operations that differ between one run and many."""

    xp: Any
    """The array namespace."""

    @property
    def size(self) -> int | None:
        """How many rows the batch has; None for a single run."""
        ...

    def any(self, mask: Mask, /) -> bool:
        """Say whether the mask holds for any row."""
        ...

    def all(self, mask: Mask, /) -> bool:
        """Say whether the mask holds for every row."""
        ...

    def negate(self, mask: Mask, /) -> Mask:
        """Turn a mask around."""
        ...

    def without(self, mask: Mask, off: Mask, /) -> Mask:
        """Give the mask where `off` does not hold."""
        ...

    def all_finite(self, s: Scalar, /) -> bool:
        """Say whether the scalar is finite for every row."""
        ...

    def finite(self, v: Array, /) -> Mask:
        """Say whether all entries of a vector are finite."""
        ...

    def dot(self, a: Array, b: Array, /) -> Scalar:
        """Give the inner product."""
        ...

    def norm(self, v: Array, /) -> Scalar:
        """Give the Euclidean norm."""
        ...

    def times(self, s: Scalar, v: Array, /) -> Array:
        """Scale a vector by its row's scalar."""
        ...

    def scalar(self, s: Scalar, /) -> Scalar:
        """Give a scalar as the run keeps it."""
        ...

    def ratio(self, a: Scalar, b: Scalar, /) -> Scalar:
        """Return a/b as IEEE arithmetic has it: infinite or NaN, and no error, where b is 0."""
        ...

    def scaled(self, s: Scalar, v: Array, /) -> Array:
        """Scale a vector that nobody else holds, in place where the library can."""
        ...

    def where(self, mask: Mask, a: Array, b: Array, /) -> Array:
        """Give the vector (or matrix) `a` where the mask holds, else `b`."""
        ...

    def same(self, a: Array, b: Array, /) -> Mask:
        """Say whether two vectors are equal."""
        ...

    def pick(self, mask: Mask, a: Scalar, b: Scalar, /) -> Scalar:
        """Give the scalar `a` where the mask holds, else `b`."""
        ...

    def solve(self, matrix: Array, v: Array, /) -> Array:
        """Solve a linear system; NaN where the matrix is singular."""
        ...

    def copy(self, v: Array, /) -> Array:
        """Copy a vector before it is handed to the user."""
        ...

    def own(self, v: Array, /) -> Array:
        """Copy a vector that came from the user, in the run's own dtype and layout."""
        ...

    def take(self, v: Array, rows: Rows, /) -> Array:
        """Keep these rows of a batch."""
        ...

    def host(self, v: Array, /) -> NDArray[Any]:
        """Bring an array to NumPy."""
        ...


SHORT = 8
"""Rows below this length are kept column by column, each column contiguous, and summed one by one."""


def _short_dot(a: Array, b: Array) -> float:
    """Inner product of short vectors, one by one (and faster so than any NumPy call)."""
    total = 0.0
    for product in map(operator.mul, a.tolist(), b.tolist()):
        total += product
    return total


def _long_dot(a: Array, b: Array) -> float:
    return float(a.dot(b))


def _rows_dot(a: Array, b: Array) -> Scalar:
    return np.vecdot(a, b).astype(np.float64, copy=False)


def _long_norm(v: Array) -> float:
    square = float(v.dot(v))
    return math.sqrt(square) if _TINY < square < _HUGE else float(norm(v)[0])


def _short_norm(v: Array) -> float:
    """Euclidean norm of a short vector."""
    square = 0.0
    for value in v.tolist():
        square += value * value
    return math.sqrt(square) if _TINY < square < _HUGE else float(norm(v)[0])


def _finite(v: Array) -> bool:
    return v.dot(v) < math.inf or bool(np.isfinite(v).all())  # the first is quick, and nearly always enough


class One:
    """A single run: plain operators, so any array library will do."""

    size = None

    def __init__(self, x: Array):
        self.xp: Any = namespace(x)
        self._numpy = is_numpy(x)
        self._like = x
        if self._numpy:
            self.finite = _finite
        if self._numpy and len(x) >= SHORT:
            self.dot, self.norm = _long_dot, _long_norm
        elif self._numpy and x.dtype == np.float64:
            self.dot, self.norm = _short_dot, _short_norm
        if self._numpy and x.dtype == np.float64:  # no scalar is wider
            self.times = operator.mul

    any = staticmethod(bool)
    all = staticmethod(bool)
    scalar = staticmethod(float)
    negate = staticmethod(operator.not_)
    all_finite = staticmethod(math.isfinite)
    host = staticmethod(to_numpy)

    @staticmethod
    def without(mask: Mask, off: Mask) -> Mask:
        return mask and not off

    def dot(self, a: Array, b: Array) -> Scalar:  # pyright: ignore[reportRedeclaration]
        return float((a * b).sum())

    def norm(self, v: Array) -> Scalar:  # pyright: ignore[reportRedeclaration]
        square = self.dot(v, v)
        return math.sqrt(square) if _TINY < square < _HUGE else float(norm(v)[0])

    def times(self, s: Scalar, v: Array, /) -> Array:  # pyright: ignore[reportRedeclaration]
        return float(s) * v  # a NumPy scalar would turn float32 into float64

    @staticmethod
    def ratio(a: Scalar, b: Scalar) -> Scalar:
        if b:
            return a / b
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)

    @staticmethod
    def scaled(s: Scalar, v: Array) -> Array:
        v *= float(s)
        return v

    @staticmethod
    def where(mask: Mask, a: Array, b: Array) -> Array:
        return a if mask else b

    pick = where

    def finite(self, v: Array) -> Mask:  # pyright: ignore[reportRedeclaration]
        return bool(self.xp.all(self.xp.isfinite(v)))

    @staticmethod
    def same(a: Array, b: Array) -> Mask:
        return bool((a == b).all())

    @staticmethod
    def solve(matrix: Array, v: Array) -> Array:
        try:
            return namespace(v).linalg.solve(matrix, v)
        except (np.linalg.LinAlgError, RuntimeError):  # torch's own error is a RuntimeError
            return v * math.nan

    def copy(self, v: Array) -> Array:
        return v.copy() if self._numpy else self.xp.asarray(v, copy=True)

    def own(self, v: Array) -> Array:
        return np.array(v, dtype=self._like.dtype) if self._numpy else adopt(self._like, v)

    def take(self, v: Array, rows: Rows) -> Array:
        raise TypeError("a single run has no rows")


class Many:
    """A batch: rows in lockstep, with masks in place of branches."""

    def __init__(self, x: Array):
        self.xp: Any = namespace(x)
        self.size = int(x.shape[0])
        self._like = x
        self._numpy = is_numpy(x)
        short = x.shape[1] < SHORT
        self._order: Any = "F" if short else "C"  # column by column is 1.4 x faster where rows are short
        if self._numpy and not short:
            self.dot = _rows_dot

    pick = staticmethod(np.where)
    ratio = staticmethod(np.divide)
    scalar = staticmethod(np.asarray)
    negate = staticmethod(np.logical_not)
    host = staticmethod(to_numpy)

    @staticmethod
    def any(mask: Mask) -> bool:
        return bool(np.any(mask))

    @staticmethod
    def all(mask: Mask) -> bool:
        return bool(np.all(mask))

    @staticmethod
    def without(mask: Mask, off: Mask) -> Mask:
        return mask & np.logical_not(off)

    @staticmethod
    def all_finite(s: Scalar) -> bool:
        return bool(np.isfinite(s).all())

    def dot(self, a: Array, b: Array) -> Scalar:  # pyright: ignore[reportRedeclaration]
        return to_numpy((a * b).sum(axis=-1)).astype(np.float64, copy=False)

    def norm(self, v: Array) -> Scalar:
        square = self.dot(v, v)
        plain = (square > _TINY) & (square < _HUGE)
        if plain.all():
            return np.sqrt(square)
        scaled = to_numpy(norm(v)[..., 0]).astype(np.float64, copy=False)
        return np.where(plain, np.sqrt(np.where(plain, square, 1.0)), scaled)

    def times(self, s: Scalar, v: Array) -> Array:
        return self._column(s) * v

    def scaled(self, s: Scalar, v: Array) -> Array:
        v *= self._column(s)
        return v

    def where(self, mask: Mask, a: Array, b: Array) -> Array:
        if mask.all():
            return a
        shape = (-1,) + (1,) * (a.ndim - 1)
        if is_numpy(a):
            return cast(Array, np.where(mask.reshape(shape), a, b))
        return self.xp.where(self.xp.asarray(mask.reshape(shape), device=a.device), a, b)

    def finite(self, v: Array) -> Mask:
        if math.isfinite(float(v.sum())):  # quick, and nearly always enough
            return True
        return to_numpy(self.xp.all(self.xp.isfinite(v), axis=-1))

    @staticmethod
    def same(a: Array, b: Array) -> Mask:
        return to_numpy((a == b).all(axis=-1))

    def solve(self, matrix: Array, v: Array) -> Array:
        try:
            return self.xp.linalg.solve(matrix, v[..., None])[..., 0]
        except (np.linalg.LinAlgError, RuntimeError):  # one singular matrix spoils the batched call
            return self.xp.stack([One.solve(m, row) for m, row in zip(matrix, v, strict=True)])

    def copy(self, v: Array) -> Array:
        return v.copy(order="K") if self._numpy else self.xp.asarray(v, copy=True)

    def own(self, v: Array) -> Array:
        if self._numpy:
            return np.array(v, dtype=self._like.dtype, order=self._order)
        return adopt(self._like, v)

    def take(self, v: Array, rows: Rows) -> Array:
        if is_numpy(v):
            # indexing a column-wise batch would turn it row-wise
            return v.T[..., rows].T if v.flags.f_contiguous else v[rows]
        return self.xp.take(v, self.xp.asarray(rows, device=v.device), axis=0)

    def merge(self, pieces: Iterable[tuple[Rows, Array]]) -> Array:
        """Put pieces of a batch together, each row in its place."""
        rows, parts = zip(*pieces, strict=True)
        if len(parts) == 1 and np.array_equal(rows[0], np.arange(len(rows[0]))):
            return parts[0]
        xp = namespace(parts[0])
        return self.take(xp.concat(parts, axis=0), np.argsort(np.concatenate(rows)))

    def _column(self, s: Scalar) -> Array:
        if not is_numpy(s):
            return s
        column, like = s[:, None], self._like
        if self._numpy:
            return column.astype(like.dtype, copy=False)
        return self.xp.asarray(column, dtype=like.dtype, device=like.device)


def kit_for(x: Array) -> Kit:
    """Choose the operations by the shape of the start point."""
    return One(x) if x.ndim == 1 else Many(x)
