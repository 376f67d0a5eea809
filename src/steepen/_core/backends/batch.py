"""Backend of a batch of runs, for all eager code: one value per row in a scalar, masks for branches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np

from ..arrays import Array, Mask, Rows, Scalar, device, is_numpy, namespace, norm, to_numpy
from .single import HUGE, SHORT, TINY, Single


class Batch(Single):
    """A batch: rows in lockstep, with masks in place of branches."""

    num = np

    def __init__(self, x: Array):
        super().__init__(x)
        self.size = int(x.shape[0])

    select: Callable[..., Any] = staticmethod(np.where)
    ratio: Callable[..., Any] = staticmethod(np.divide)
    scalar: Callable[[Any], Any] = staticmethod(np.asarray)
    negate: Callable[[Any], Any] = staticmethod(np.logical_not)

    @staticmethod
    def any(mask: Any) -> bool:
        return bool(np.count_nonzero(mask))  # three times as fast as np.any

    @staticmethod
    def all(mask: Any) -> bool:
        return bool(np.logical_and.reduce(mask, axis=None))  # np.all, without its wrapper

    @staticmethod
    def and_not(mask: Mask, off: Mask) -> Mask:
        return mask & np.logical_not(off)

    def dot(self, a: Array, b: Array) -> Any:
        return to_numpy((a * b).sum(axis=-1)).astype(np.float64, copy=False)

    def inner(self, *pairs: tuple[Array, Array]) -> Any:
        sums = to_numpy(self.xp.stack([(a * b).sum(axis=-1) for a, b in pairs]))
        return [*sums.astype(np.float64, copy=False)]

    def root(self, square: Any, v: Array, wild: bool = False) -> Any:
        plain = (square > TINY) & (square < HUGE)
        if plain.all():
            return np.sqrt(square)
        scaled = to_numpy(norm(v)[..., 0]).astype(np.float64, copy=False)
        return np.where(plain, np.sqrt(np.where(plain, square, 1.0)), scaled)

    def times(self, s: Scalar, v: Array) -> Array:
        return self._column(s) * v

    def scaled(self, s: Scalar, v: Array) -> Array:
        v *= self._column(s)
        return v

    def where(self, mask: Any, a: Array, b: Array) -> Array:
        if self.all(mask):
            return a
        mask = np.reshape(mask, (-1,) + (1,) * (a.ndim - 1))
        xp = namespace(a)  # values are on the host, points may be on a device
        return xp.where(xp.asarray(mask, device=device(a)), a, b)

    def finite(self, v: Any) -> Mask:
        if math.isfinite(float(v.sum())):  # quick, and nearly always enough
            return True
        return to_numpy(self.xp.all(self.xp.isfinite(v), axis=-1))

    def some(self, entries: Array) -> Mask:
        return to_numpy(entries.any(axis=-1))

    def same(self, a: Array, b: Array) -> Mask:
        return to_numpy((a == b).all(axis=-1))

    def solve(self, matrix: Array, v: Array) -> Array:
        try:
            return self.xp.linalg.solve(matrix, v[..., None])[..., 0]
        except (np.linalg.LinAlgError, RuntimeError):  # one singular matrix spoils the batched call
            rows = zip(cast(Any, matrix), cast(Any, v), strict=True)
            return self.xp.stack([super(Batch, self).solve(m, row) for m, row in rows])

    def identity(self, x: Array) -> Array:
        return x[..., None] * 0 + super().identity(x)

    def dots(self, A: Array, v: Array) -> Array:
        return (A @ v[..., None])[..., 0]

    def mix(self, c: Array, A: Array) -> Array:
        return (c[..., None, :] @ A)[..., 0, :]

    def put(self, a: Array, place: Any, value: Any, rows: Any) -> Array:
        here = cast(Any, np.arange(a.shape[1]) == np.where(rows, place, -1)[:, None])
        here = self.xp.asarray(here if a.ndim == 2 else here[:, :, None], device=device(a))
        return self.xp.where(here, value[:, None, :] if np.ndim(value) == 2 else self._column(value), a)

    def take(self, v: Any, rows: Rows) -> Array:
        if is_numpy(v):
            # indexing a column-wise batch would turn it row-wise
            return v.T[..., rows].T if v.flags.f_contiguous else v[rows]
        return self.xp.take(v, self.xp.asarray(rows, device=device(v)), axis=0)

    def merge(self, pieces: Iterable[tuple[Rows, Array]]) -> Array:
        """Return the pieces of a batch put together, each row in its place."""
        rows, parts = zip(*pieces, strict=True)
        if len(parts) == 1 and np.array_equal(rows[0], np.arange(len(rows[0]))):
            return parts[0]
        return self.take(namespace(parts[0]).concat(parts, axis=0), np.argsort(np.concatenate(rows)))

    def _column(self, s: Any) -> Any:
        """Return a scalar as a column, in the dtype of the vectors."""
        like = self._like
        return self.xp.asarray(s[:, None], dtype=like.dtype, device=device(like)) if is_numpy(s) else s


class NumPyBatch(Batch):
    """A batch of NumPy arrays."""

    def __init__(self, x: Array):
        super().__init__(x)
        short = x.shape[1] < SHORT
        self._order: Any = "F" if short else "C"  # column by column is 1.4 x faster where rows are short
        if not short:
            self.dot = _rows_dot

    def inner(self, *pairs: tuple[Array, Array]) -> Any:
        return [self.dot(a, b) for a, b in pairs]

    def put(self, a: Any, place: Any, value: Any, rows: Any) -> Array:
        rows = np.flatnonzero(rows)
        a[rows, place[rows]] = value[rows] if np.ndim(value) else value
        return a

    def copy(self, v: Any) -> Array:
        return v.copy(order="K")

    def own(self, v: Any) -> Array:
        return np.array(v, dtype=self._like.dtype, order=self._order)


def _rows_dot(a: Any, b: Any) -> Any:
    return np.vecdot(a, b).astype(np.float64, copy=False)
