"""One run or many, in one set of formulas.

The loop and the directions are written once, for vectors `(n,)` and for batches `(B, n)`. What differs
between the two is here: a scalar of a single run is a Python number, a scalar of a batch is a NumPy
array with one value a row. Vectors may belong to NumPy, torch or JAX; scalars always live on the host,
where the decisions are taken.

Sums are taken in the same order in both, so that a row of a batch equals the run made alone to the last bit,
as far as the user's function does. That rules out BLAS for inner products: it fuses multiply and add.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = Any
"""A vector `(n,)` or a batch `(B, n)` of NumPy, torch or JAX."""

Scalar: TypeAlias = Any
"""A Python number, or a NumPy array with one value a row."""

Mask: TypeAlias = Any
"""A Python bool, or a NumPy array with one bool a row."""

Rows: TypeAlias = NDArray[np.intp]

_TINY, _HUGE = 1e-30, 1e30  # squares outside are summed again, scaled: float32 holds both


def namespace(a: Array) -> Any:
    """Give the array namespace of `a` (NumPy's own at once: it is asked for on every step)."""
    return np if type(a) is np.ndarray else array_api_compat.array_namespace(a)


def norm(v: Array) -> Array:
    """Euclidean norm over the last axis, kept as an axis, and safe from overflow."""
    xp = namespace(v)
    size = xp.max(xp.abs(v), axis=-1, keepdims=True)
    unit = v / xp.where(size > 0, size, xp.ones_like(size))
    return size * xp.sqrt(xp.sum(unit * unit, axis=-1, keepdims=True))


SHORT = 8
"""From this length on NumPy sums a row pairwise; below it, one by one."""


def _short_dot(a: Array, b: Array) -> float:
    """Inner product of short vectors, one by one (and faster so than any NumPy call)."""
    return functools.reduce(operator.add, map(operator.mul, a.tolist(), b.tolist()))


def _short_norm(v: Array) -> float:
    """Euclidean norm of a short vector."""
    values = v.tolist()
    square = functools.reduce(operator.add, map(operator.mul, values, values))
    return math.sqrt(square) if _TINY < square < _HUGE else float(norm(v)[0])


class One:
    """The operations of a single run: plain operators, so any array library will do."""

    size = None

    def __init__(self, x: Array):
        self.xp = namespace(x)
        self._numpy = isinstance(x, np.ndarray)
        self._like = x
        if self._numpy and len(x) < SHORT and x.dtype == np.float64:
            self.dot, self.norm = _short_dot, _short_norm

    any = staticmethod(bool)
    all = staticmethod(bool)
    all_finite = staticmethod(math.isfinite)

    negate = staticmethod(operator.not_)

    @staticmethod
    def descends(slope: float) -> bool:
        """Whether ∇fᵀp is negative, and finite."""
        return -math.inf < slope < 0

    @staticmethod
    def without(mask: bool, off: bool) -> bool:
        """Whether the mask still holds."""
        return mask and not off

    def copy(self, v: Array) -> Array:
        """Copy a vector before it is handed to the user."""
        return v.copy() if self._numpy else self.xp.asarray(v, copy=True)

    def own(self, v: Array) -> Array:
        """Copy a vector that came from the user, in the run's own dtype."""
        if self._numpy:
            return np.array(v, dtype=self._like.dtype)
        return adopt(self._like, v)

    def dot(self, a: Array, b: Array) -> float:
        """Inner product."""
        return float((a * b).sum())

    def norm(self, v: Array) -> float:
        """Euclidean norm."""
        square = self.dot(v, v)
        return math.sqrt(square) if _TINY < square < _HUGE else float(norm(v)[0])

    @staticmethod
    def times(s: Scalar, v: Array) -> Array:
        """Scale a vector."""
        return s * v

    @staticmethod
    def where(mask: bool, a: Array, b: Array) -> Array:
        """`a` where the mask holds, else `b`; for vectors."""
        return a if mask else b

    pick = where
    """The same for scalars."""

    @staticmethod
    def solve(matrix: Array, v: Array) -> Array:
        """Solve a linear system; NaN where the matrix is singular."""
        xp = namespace(v)
        try:
            return xp.linalg.solve(matrix, v)
        except np.linalg.LinAlgError:
            return v * float("nan")

    @staticmethod
    def host(v: Array) -> NDArray[Any]:
        """Bring a vector to NumPy."""
        return to_numpy(v)


class Many:
    """The operations of a batch: rows in lockstep, with masks in place of branches."""

    def __init__(self, x: Array):
        self.xp = namespace(x)
        self.size = int(x.shape[0])
        self._like = x
        self._numpy = isinstance(x, np.ndarray)
        # A batch of short rows is kept column by column: x[..., i] is then contiguous (1.4 x faster).
        self._order = "F" if x.shape[1] < SHORT else "C"

    @staticmethod
    def any(mask: NDArray[np.bool_]) -> bool:
        """Whether any row's mask holds."""
        return bool(mask.any())

    @staticmethod
    def all(mask: NDArray[np.bool_]) -> bool:
        """Whether every row's mask holds."""
        return bool(mask.all())

    @staticmethod
    def all_finite(s: NDArray[Any]) -> bool:
        """Whether every row's scalar is finite."""
        return bool(np.isfinite(s).all())

    negate = staticmethod(np.logical_not)

    @staticmethod
    def descends(slope: NDArray[Any]) -> NDArray[np.bool_]:
        """Where ∇fᵀp is negative, and finite."""
        return (slope < 0) & (slope > -np.inf)

    @staticmethod
    def without(mask: NDArray[np.bool_], off: Mask) -> NDArray[np.bool_]:
        """Where the mask still holds."""
        return mask & np.logical_not(off)

    def copy(self, v: Array) -> Array:
        """Copy a batch before it is handed to the user."""
        return v.copy(order="K") if self._numpy else self.xp.asarray(v, copy=True)

    def own(self, v: Array) -> Array:
        """Copy a batch that came from the user, in the run's own dtype and layout."""
        if self._numpy:
            return np.array(v, dtype=self._like.dtype, order=self._order)
        return adopt(self._like, v)

    def dot(self, a: Array, b: Array) -> NDArray[Any]:
        """Inner product of each row."""
        return self.host((a * b).sum(axis=-1))

    def norm(self, v: Array) -> NDArray[Any]:
        """Euclidean norm of each row."""
        square = self.dot(v, v)
        if ((square > _TINY) & (square < _HUGE)).all():
            return np.sqrt(square)
        return self.host(norm(v)[..., 0])

    def times(self, s: Scalar, v: Array) -> Array:
        """Scale each row by its own scalar."""
        return self._column(s) * v

    def where(self, mask: NDArray[np.bool_], a: Array, b: Array) -> Array:
        """Rows of `a` where the mask holds, else of `b`; for vectors."""
        if mask.all():
            return a
        return self.xp.where(self._column(mask), a, b)

    pick = staticmethod(np.where)
    """The same for scalars."""

    def solve(self, matrix: Array, v: Array) -> Array:
        """Solve each row's linear system; NaN for a row whose matrix is singular."""
        try:
            return self.xp.linalg.solve(matrix, v[..., None])[..., 0]
        except np.linalg.LinAlgError:  # one singular matrix spoils the batched call
            return self.xp.stack([One.solve(m, row) for m, row in zip(matrix, v, strict=True)])

    @staticmethod
    def host(v: Array) -> NDArray[Any]:
        """Bring scalars or a batch to NumPy."""
        return to_numpy(v)

    def take(self, v: Array, rows: Rows) -> Array:
        """Keep these rows of a batch."""
        if isinstance(v, np.ndarray):
            # indexing a column-wise batch would turn it row-wise
            return v.T[..., rows].T if v.flags.f_contiguous else v[rows]
        return self.xp.take(v, self.xp.asarray(rows, device=v.device), axis=0)

    def merge(self, pieces: Iterable[tuple[Rows, Array]]) -> Array:
        """Put pieces of a batch together, each row in its place."""
        rows, parts = zip(*pieces, strict=True)
        if len(parts) == 1 and np.array_equal(rows[0], np.arange(len(rows[0]))):
            return parts[0]
        xp = namespace(parts[0])
        order = np.argsort(np.concatenate(rows))
        return self.take(xp.concat(parts, axis=0), order)

    def _column(self, s: Scalar) -> Array:
        if not isinstance(s, np.ndarray):
            return s
        column = s[:, None]
        if self._numpy:
            return column if s.dtype == bool else column.astype(self._like.dtype, copy=False)
        dtype = None if s.dtype == bool else self._like.dtype
        return self.xp.asarray(column, dtype=dtype, device=self._like.device)


Kit: TypeAlias = One | Many


def kit_for(x: Array) -> Kit:
    """Choose the operations by the shape of the start point."""
    return One(x) if x.ndim == 1 else Many(x)


def adopt(like: Array, v: Array) -> Array:
    """Copy `v` into the library, dtype and device of `like`."""
    if array_api_compat.is_torch_array(v):
        v = v.detach()
    xp = namespace(like)
    return xp.asarray(v, dtype=like.dtype, device=like.device, copy=True)


def to_numpy(v: Array) -> NDArray[Any]:
    """Bring an array of any library to NumPy on the host."""
    if isinstance(v, np.ndarray):
        return v  # pyright: ignore[reportUnknownVariableType]
    if array_api_compat.is_torch_array(v):
        v = v.detach().cpu()
    return np.asarray(v)
