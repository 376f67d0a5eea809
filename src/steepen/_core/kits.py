"""One run, many, or a traced program, in one set of formulas.

Directions, steps and the loop are written once. A *kit* has what differs between the three kinds of run:

    One      vectors `(n,)`;   a scalar is a Python number
    Many     batches `(B, n)`; a scalar is a NumPy array with one value a row; masks in place of branches
    Traced   vectors `(n,)` of JAX under `jit`, with `vmap` for batches; a scalar is an array of no dimension

`any(mask)` means "may hold" and `all(mask)` "surely holds". The first two kits answer truly, the traced one
True and False: `if kit.any(mask)` is a shortcut around work that changes nothing where the mask is False.

Sums of a row are taken in the same order alone and in a batch: one by one for short rows, by the same BLAS
call for long ones. So for NumPy arrays a row of a batch equals the run made alone to the last bit, where the
user's functions give the same bits for it and BLAS sums alike wherever a vector lies; but bfgs, dfp, cgd-bfgs
and cgd-dfp below n = 32 only, since from there on a single run has its matrix on BLAS. There, and for torch
and JAX, the two are equal up to rounding.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from . import numbers
from .arrays import Array, Mask, Rows, Scalar, Whole, adopt, device, is_numpy, namespace, norm, to_numpy

SHORT = 8
"""Rows below this length are kept column by column, each column contiguous, and summed one by one."""

LARGE = 32
"""From this length on sums of products with a matrix are BLAS's own; below it they are taken in order."""

_TINY, _HUGE = 1e-30, 1e30  # squares outside are summed again, scaled: float32 holds both


class Searching(Protocol):
    """A state of `repeat`: it says which rows are not done yet."""

    @property
    def open(self) -> Mask: ...


S = TypeVar("S", bound=Searching)


class One:
    """A single run, on arrays of any library."""

    size: int | None = None
    """How many rows the batch has; None for a single run."""
    num: Any = numbers
    """The namespace of functions of scalars."""

    def __init__(self, x: Array):
        self.xp = namespace(x)
        self._like = x
        self._ordered = int(x.shape[-1]) < LARGE

    # --- masks ---------------------------------------------------------------------------------------

    any: Callable[[Mask], bool] = staticmethod(bool)
    """Return whether the mask may hold for some row."""
    all: Callable[[Mask], bool] = staticmethod(bool)
    """Return whether the mask surely holds for every row."""
    negate: Callable[[Mask], Mask] = staticmethod(operator.not_)
    """Return the mask turned around."""

    @staticmethod
    def without(mask: Mask, off: Mask) -> Mask:
        """Return the mask where `off` does not hold."""
        return mask and not off

    def some(self, entries: Array) -> Mask:
        """Return for which rows any entry of an array of bools holds."""
        return bool(entries.any())

    # --- scalars -------------------------------------------------------------------------------------

    scalar: Callable[[Any], Scalar] = staticmethod(float)
    """Return a scalar as the run keeps it."""
    all_finite: Callable[[Scalar], bool] = staticmethod(math.isfinite)
    """Return whether the scalar is surely finite for every row."""

    @staticmethod
    def pick(mask: Mask, a: Any, b: Any) -> Any:
        """Return the scalar `a` where the mask holds, else `b`."""
        return a if mask else b

    @staticmethod
    def ratio(a: Any, b: Any) -> Any:
        """Return a/b as IEEE arithmetic has it: infinite or NaN, and no error, where b is 0."""
        if b:
            return a / b
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)

    @staticmethod
    def used(count: Any, capacity: int) -> int:
        """Return how many places of a memory can be in use where `count` were filled."""
        return min(int(count), capacity)

    # --- vectors -------------------------------------------------------------------------------------

    def dot(self, a: Array, b: Array) -> Any:
        """Return the inner product."""
        return float((a * b).sum())

    def inner(self, *pairs: tuple[Array, Array]) -> Any:
        """Return the inner products of several pairs; a device is waited for once."""
        return self.xp.stack([(a * b).sum() for a, b in pairs]).tolist()

    def norm(self, v: Array) -> Any:
        """Return the Euclidean norm."""
        return self.root(self.dot(v, v), v)

    def root(self, square: Any, v: Array) -> Any:
        """Return the Euclidean norm of a vector whose inner product with itself is known."""
        return _root(square, v)

    def times(self, s: Scalar, v: Array) -> Array:
        """Return a vector times the scalar of its row."""
        return float(cast(float, s)) * v  # a NumPy scalar would turn float32 into float64

    def scaled(self, s: Scalar, v: Array) -> Array:
        """Return the same of a vector that nobody else holds, in place where the library can."""
        v *= float(cast(float, s))
        return v

    def where(self, mask: Mask, a: Array, b: Array) -> Array:
        """Return the vector (or matrix) `a` where the mask holds, else `b`."""
        return a if mask else b

    def finite(self, v: Array) -> Mask:
        """Return whether all entries of a vector are finite."""
        return bool(self.xp.all(self.xp.isfinite(v)))

    def same(self, a: Array, b: Array) -> Mask:
        """Return whether two vectors are equal."""
        return bool((a == b).all())

    # --- matrices ------------------------------------------------------------------------------------

    def solve(self, matrix: Array, v: Array) -> Array:
        """Return the solution of a linear system; NaN where the matrix is singular."""
        try:
            return self.xp.linalg.solve(matrix, v)
        except (np.linalg.LinAlgError, RuntimeError):  # torch's own error is a RuntimeError
            return v * math.nan

    def identity(self, x: Array) -> Array:
        """Return the identity matrix for vectors such as x."""
        return self.xp.eye(int(x.shape[-1]), dtype=x.dtype)

    def product(self, matrix: Array, v: Array) -> Array:
        """Return M·v for a symmetric matrix."""
        return (matrix * v[..., None, :]).sum(axis=-1)

    def rank_one(self, matrix: Array, c: Scalar, a: Array) -> Array:
        """Return M + c·a aᵀ; M is nobody else's, and may be used up."""
        return matrix + _outer(self.times(c, a), a)

    def rank_two(self, matrix: Array, c: Scalar, a: Array, b: Array) -> Array:
        """Return M + c·(a bᵀ + b aᵀ); M is nobody else's, and may be used up."""
        a = self.times(c, a)
        return matrix + _outer(a, b) + _outer(b, a)

    def dots(self, A: Array, v: Array) -> Array:
        """Return A·v; zeros, and the other rows of a batch, change nothing."""
        return _in_order(A * v[..., None, :], -1) if self._ordered else A @ v

    def mix(self, c: Array, A: Array) -> Array:
        """Return Aᵀ·c; zeros, and the other rows of a batch, change nothing."""
        return _in_order(c[..., :, None] * A, -2) if self._ordered else c @ A

    def gram(self, A: Array, B: Array) -> Array:
        """Return A·Bᵀ; zeros, and the other rows of a batch, change nothing."""
        if self._ordered:
            return _in_order(A[..., :, None, :] * B[..., None, :, :], -1)
        return A @ B.swapaxes(-1, -2)

    def put(self, a: Array, place: Whole, value: Any, rows: Mask) -> Array:
        """Return `a` with a value in one place of these rows; `a` is nobody else's, and may be used up."""
        here = (self.xp.arange(a.shape[0], device=device(a)) == place) & rows
        return self.xp.where(here if a.ndim == 1 else here[:, None], value, a)

    def fill(self, a: Array, value: Array) -> Array:
        """Return `a` with the first of its entries replaced; `a` is nobody else's, and may be used up."""
        whole = a.shape == value.shape
        return value if whole else _set(a, tuple(slice(0, length) for length in value.shape), value)

    # --- repetition ----------------------------------------------------------------------------------

    def repeat(self, body: Callable[[S], S], state: S, most: int) -> S:
        """Apply `body` until no row is open any more, at most so many times."""
        for _ in range(most):
            if not self.any(state.open):
                break
            state = body(state)
        return state

    # --- between the run and the user ----------------------------------------------------------------

    host: Callable[[Any], NDArray[Any]] = staticmethod(to_numpy)
    """Return an array as NumPy's."""

    def copy(self, v: Array) -> Array:
        """Return a copy of a vector that is handed to the user."""
        return self.xp.asarray(v, copy=True)

    def own(self, v: Any) -> Array:
        """Return a copy of a vector that came from the user, in the run's own dtype and layout."""
        return adopt(self._like, v)

    def take(self, v: Array, rows: Rows) -> Array:
        """Return these rows of a batch."""
        raise TypeError("a single run has no rows")


def _set(a: Any, place: Any, value: Any) -> Array:
    if hasattr(a, "at"):  # JAX
        return a.at[place].set(value)
    a[place] = value
    return a


def _outer(a: Array, b: Array) -> Array:
    return a[..., :, None] * b[..., None, :]


def _in_order(a: Any, axis: int) -> Array:
    """Sum one by one, so that zeros change nothing."""
    return a.cumsum(axis)[..., -1] if axis == -1 else a.cumsum(axis)[..., -1, :]


class NumPyOne(One):
    """A single run on NumPy arrays: the same, with what is fastest there, in place where it can be."""

    def __init__(self, x: Array):
        super().__init__(x)
        double = x.dtype == np.float64
        # functions without a self are quicker to call
        if len(x) >= SHORT:
            self.dot, self.norm = _long_dot, _long_norm
        elif double:
            self.dot, self.norm = _short_dot, _short_norm
        if double:  # no scalar is wider
            self.times = operator.mul  # pyright: ignore[reportAttributeAccessIssue]  its names of arguments
            self.scaled = _scaled
        self.finite, self.root = _finite, _root

    def inner(self, *pairs: tuple[Array, Array]) -> Any:
        dot = self.dot
        return [dot(a, b) for a, b in pairs]

    def identity(self, x: Array) -> Array:
        return super().identity(x) if self._ordered else super().identity(x).copy(order="F")

    def product(self, matrix: Array, v: Array) -> Array:
        return super().product(matrix, v) if self._ordered else _blas(v, "symv")(1.0, matrix, v, lower=1)

    def rank_one(self, matrix: Array, c: Scalar, a: Array) -> Array:
        """Update the lower triangle where it stands, which is all that `product` reads."""
        if self._ordered:
            return super().rank_one(matrix, c, a)
        return _blas(a, "syr")(c, a, lower=1, a=matrix, overwrite_a=1)

    def rank_two(self, matrix: Array, c: Scalar, a: Array, b: Array) -> Array:
        if self._ordered:
            return super().rank_two(matrix, c, a, b)
        return _blas(a, "syr2")(c, a, b, lower=1, a=matrix, overwrite_a=1)

    def dots(self, A: Array, v: Array) -> Array:
        return super().dots(A, v) if self._ordered else A.dot(v)

    def mix(self, c: Array, A: Array) -> Array:
        return super().mix(c, A) if self._ordered else c.dot(A)

    def put(self, a: Array, place: Whole, value: Any, rows: Mask) -> Array:
        if rows:
            a[place] = value
        return a

    def copy(self, v: Array) -> Array:
        return v.copy()

    def own(self, v: Any) -> Array:
        return np.array(v, dtype=self._like.dtype)


class Many(One):
    """A batch: rows in lockstep, with masks in place of branches."""

    num = np

    def __init__(self, x: Array):
        super().__init__(x)
        self.size = int(x.shape[0])

    pick: Callable[..., Any] = staticmethod(np.where)
    ratio: Callable[..., Any] = staticmethod(np.divide)
    scalar: Callable[[Any], Any] = staticmethod(np.asarray)
    negate: Callable[[Any], Any] = staticmethod(np.logical_not)

    @staticmethod
    def any(mask: Any) -> bool:
        return bool(np.any(mask))

    @staticmethod
    def all(mask: Any) -> bool:
        return bool(np.all(mask))

    @staticmethod
    def all_finite(s: Any) -> bool:
        return bool(np.isfinite(s).all())

    @staticmethod
    def without(mask: Mask, off: Mask) -> Mask:
        return mask & np.logical_not(off)

    @staticmethod
    def used(count: Any, capacity: int) -> int:
        return min(int(count.max()), capacity)

    def dot(self, a: Array, b: Array) -> Any:
        return to_numpy((a * b).sum(axis=-1)).astype(np.float64, copy=False)

    def inner(self, *pairs: tuple[Array, Array]) -> Any:
        return [
            *to_numpy(self.xp.stack([(a * b).sum(axis=-1) for a, b in pairs])).astype(np.float64, copy=False)
        ]

    def root(self, square: Any, v: Array) -> Any:
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

    def where(self, mask: Any, a: Array, b: Array) -> Array:
        if np.all(mask):
            return a
        mask = np.reshape(mask, (-1,) + (1,) * (a.ndim - 1))
        if is_numpy(a):
            return np.where(mask, a, b)
        return self.xp.where(self.xp.asarray(mask, device=device(a)), a, b)

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
            return self.xp.stack([super(Many, self).solve(m, row) for m, row in rows])

    def identity(self, x: Array) -> Array:
        return x[..., None] * 0 + super().identity(x)

    def dots(self, A: Array, v: Array) -> Array:
        return super().dots(A, v) if self._ordered else (A @ v[..., None])[..., 0]

    def mix(self, c: Array, A: Array) -> Array:
        return super().mix(c, A) if self._ordered else (c[..., None, :] @ A)[..., 0, :]

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
        if not is_numpy(s):
            return s
        return self.xp.asarray(s[:, None], dtype=self._like.dtype, device=device(self._like))


class NumPyMany(Many):
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

    def _column(self, s: Any) -> Any:
        return s[:, None].astype(self._like.dtype, copy=False) if is_numpy(s) else s


class Traced(One):
    """A run that JAX traces: nothing is known, so no shortcut is taken and no branch depends on a value."""

    def __init__(self, x: Array):
        super().__init__(x)
        self.num = self.xp = _jax().numpy
        self._ordered = False

    @staticmethod
    def any(mask: Any) -> bool:
        return True

    @staticmethod
    def all(mask: Any) -> bool:
        return False

    all_finite = all

    @staticmethod
    def negate(mask: Any) -> Any:
        return _jax().numpy.logical_not(mask)

    @staticmethod
    def without(mask: Any, off: Any) -> Any:
        return mask & _jax().numpy.logical_not(off)

    @staticmethod
    def scalar(s: Any) -> Any:
        return _jax().numpy.asarray(s, dtype=float)

    @staticmethod
    def pick(mask: Any, a: Any, b: Any) -> Any:
        return _jax().numpy.where(mask, a, b)

    @staticmethod
    def ratio(a: Any, b: Any) -> Any:
        return _jax().numpy.divide(a, b)

    def where(self, mask: Mask, a: Array, b: Array) -> Array:
        return self.xp.where(mask, a, b)

    @staticmethod
    def used(count: Whole, capacity: int) -> int:
        return capacity

    def dot(self, a: Array, b: Array) -> Any:
        return self.scalar((a * b).sum())

    def inner(self, *pairs: tuple[Array, Array]) -> Any:
        return [self.dot(a, b) for a, b in pairs]

    def root(self, square: Any, v: Array) -> Any:
        plain = (square > _TINY) & (square < _HUGE)
        return self.pick(plain, self.num.sqrt(self.pick(plain, square, 1.0)), self.scalar(norm(v)[0]))

    def times(self, s: Scalar, v: Array) -> Array:
        return self.num.asarray(s, dtype=v.dtype) * v

    scaled = times

    def some(self, entries: Array) -> Mask:
        return entries.any()

    def finite(self, v: Array) -> Mask:
        return self.num.isfinite(v).all()

    def same(self, a: Array, b: Array) -> Mask:
        return (a == b).all()

    def put(self, a: Array, place: Whole, value: Any, rows: Mask) -> Array:
        return super().put(a, place, self.num.asarray(value, dtype=a.dtype), rows)

    def repeat(self, body: Callable[[S], S], state: S, most: int) -> S:
        def more(turn: tuple[Any, S]) -> Any:
            return (turn[0] < most) & turn[1].open

        def again(turn: tuple[Any, S]) -> tuple[Any, S]:
            return turn[0] + 1, body(turn[1])

        return _jax().lax.while_loop(more, again, (0, state))[1]


def _jax() -> Any:
    import jax  # here, so that `import steepen` stays light

    return jax


def _short_dot(a: Any, b: Any) -> float:
    """Return the inner product of short vectors, one by one (and faster so than by any NumPy call)."""
    total = 0.0
    for product in map(operator.mul, a.tolist(), b.tolist()):
        total += product
    return total


def _root(square: float, v: Any) -> float:
    return math.sqrt(square) if _TINY < square < _HUGE else float(norm(v)[0])


def _short_norm(v: Any) -> float:
    square = 0.0
    for value in v.tolist():
        square += value * value
    return _root(square, v)


def _scaled(s: Any, v: Any) -> Any:
    v *= s
    return v


def _finite(v: Any) -> bool:
    return v.dot(v) < math.inf or bool(np.isfinite(v).all())  # the first is quick, and nearly always enough


def _long_dot(a: Any, b: Any) -> float:
    return float(a.dot(b))


def _long_norm(v: Any) -> float:
    square = float(v.dot(v))
    return math.sqrt(square) if _TINY < square < _HUGE else float(norm(v)[0])


def _rows_dot(a: Any, b: Any) -> Any:
    return np.vecdot(a, b).astype(np.float64, copy=False)


def _blas(v: Any, name: str) -> Any:
    import scipy.linalg.blas as blas  # here, so that `import steepen` stays light

    return getattr(blas, ("s" if v.dtype == np.float32 else "d") + name)


Kit = One
"""What every kit can do."""


def kit_for(x: Array) -> One:
    """Return the kit of a run from this start."""
    if x.ndim == 1:
        return NumPyOne(x) if is_numpy(x) else One(x)
    return NumPyMany(x) if is_numpy(x) else Many(x)
