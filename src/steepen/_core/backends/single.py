"""Backend of a single run, for all eager code, and base of the others; overwrites arrays where it says so."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Mask, Rows, Scalar, Whole, adopt, device, identity, namespace, norm, to_numpy
from . import numbers

SHORT = 8  # rows below this length are kept column by column, each column contiguous, and summed one by one
LARGE = 32  # from this length on sums of products with a matrix are BLAS's own, below it taken in order
TINY, HUGE = 1e-30, 1e30  # squares outside are summed again, scaled: float32 holds both


class Searching(Protocol):
    """A state of `repeat`: `open` says which rows are not done yet."""

    @property
    def open(self) -> Mask: ...


S = TypeVar("S", bound=Searching)
T = TypeVar("T")


class Single:
    """A single run, on arrays of any library."""

    size: int | None = None
    """How many rows the batch has; None for a single run."""
    quick = False
    """Whether rare work is deferred to another run."""
    num: Any = numbers
    """The namespace of functions of scalars."""
    table: Any = np
    """The namespace of small arrays of scalars."""

    def __init__(self, x: Array):
        self.xp = namespace(x)
        self._like = x
        self._compiles = hasattr(x, "at")  # JAX, for every new shape
        self._ordered = int(x.shape[-1]) < LARGE and not self._compiles

    any: Callable[[Mask], bool] = staticmethod(bool)
    """Return whether the mask may hold for some row."""
    all: Callable[[Mask], bool] = staticmethod(bool)
    """Return whether the mask surely holds for every row."""
    negate: Callable[[Mask], Mask] = staticmethod(operator.not_)
    """Return the negated mask."""

    @staticmethod
    def and_not(mask: Mask, off: Mask) -> Mask:
        """Return the mask where `off` does not hold."""
        return mask and not off

    def defers(self, mask: Mask, alone: bool = False) -> bool:
        """Return whether rare work is left to another run; what is rare in a run `alone` is not in many."""
        return False

    def some(self, entries: Array) -> Mask:
        """Return the rows in which any entry of an array of bools holds."""
        return bool(entries.any())

    scalar: Callable[[Any], Scalar] = staticmethod(float)
    """Return a scalar as the run keeps it."""

    @staticmethod
    def select(mask: Mask, a: Any, b: Any) -> Any:
        """Return the scalar `a` where the mask holds, else `b`."""
        return a if mask else b

    @staticmethod
    def ratio(a: Any, b: Any) -> Any:
        """Return a/b as IEEE arithmetic has it: infinite or NaN, and no error, where b is 0."""
        if b:
            return a / b
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)

    def at_most(self, limit: float) -> float:
        """Return a limit as scalars of the run can hold it."""
        return limit

    def used(self, count: Any, capacity: int) -> int:
        """Return how many slots of a memory to use after `count` writes; empty ones have no effect."""
        filled = int(np.max(count))
        return capacity if filled and self._compiles else min(filled, capacity)

    def dot(self, a: Array, b: Array) -> Any:
        """Return the inner product."""
        return float((a * b).sum())

    def inner(self, *pairs: tuple[Array, Array]) -> Any:
        """Return the inner products of several pairs; a device is waited for once."""
        return self.xp.stack([(a * b).sum() for a, b in pairs]).tolist()

    def norm(self, v: Array, near: Scalar | None = None) -> Any:
        """Return the Euclidean norm; `near` is a norm of similar size, if one is known."""
        return self.root(self.dot(v, v), v)

    def root(self, square: Any, v: Array, wild: bool = False) -> Any:
        """Return ‖v‖ from its square; traced programs handle over- and underflow of `wild` vectors only."""
        return _root(square, v)

    def times(self, s: Any, v: Array) -> Array:
        """Return a vector times the scalar of its row."""
        return float(s) * v  # a NumPy scalar would turn float32 into float64

    def scaled(self, s: Any, v: Array) -> Array:
        """Return the same, in place where the library can; v may be overwritten."""
        v *= float(s)
        return v

    def where(self, mask: Mask, a: Array, b: Array) -> Array:
        """Return the vector (or matrix) `a` where the mask holds, else `b`."""
        return a if mask else b

    def finite(self, v: Array) -> Mask:
        """Return whether all entries of a vector are finite."""
        return bool(self.xp.all(self.xp.isfinite(v)))

    def reach(self, p: Array) -> Any:
        """Return an upper bound on ‖p‖ that costs nothing."""
        return math.inf

    def arrived(self, v: Array, length: Scalar) -> Mask:
        """Return whether the end of a step, of at most this length, is finite."""
        return self.finite(v)

    def same(self, a: Array, b: Array) -> Mask:
        """Return whether two vectors are equal."""
        return bool((a == b).all())

    def solve(self, matrix: Array, v: Array) -> Array:
        """Return the solution of a linear system; NaN where the matrix is singular."""
        try:
            return self.xp.linalg.solve(matrix, v)
        except (np.linalg.LinAlgError, RuntimeError):  # torch's own error is a RuntimeError
            return v * math.nan

    def identity(self, x: Array) -> Array:
        """Return the identity matrix for vectors like x."""
        return identity(x)

    def product(self, matrix: Array, v: Array) -> Array:
        """Return M·v for a symmetric matrix."""
        return (matrix * v[..., None, :]).sum(axis=-1)

    def diagonal(self, matrix: Array) -> Array:
        """Return the diagonal of a matrix."""
        return self.xp.linalg.diagonal(matrix)

    def dense(self, x: Array) -> bool:
        """Return whether to form a matrix that is applied to several vectors like x."""
        return False

    def rank_one(self, matrix: Array, c: Scalar, a: Array) -> Array:
        """Return M + c·a aᵀ; M may be overwritten."""
        return matrix + _outer(self.times(c, a), a)

    def rank_two(self, matrix: Array, c: Scalar, a: Array, b: Array) -> Array:
        """Return M + c·(a bᵀ + b aᵀ); M may be overwritten."""
        a = self.times(c, a)
        return matrix + _outer(a, b) + _outer(b, a)

    def minus_outer(self, A: Array, c: Array, v: Array) -> Array:
        """Return A with c vᵀ subtracted from as many first rows as c has entries; A may be overwritten."""
        return self.fill(A, A[..., : c.shape[-1], :] - _outer(c, v))

    def dots(self, A: Array, v: Array) -> Array:
        """Return A·v."""
        return A @ v

    def mix(self, c: Array, A: Array) -> Array:
        """Return Aᵀ·c."""
        return c @ A

    def put(self, a: Array, place: Whole, value: Any, rows: Mask) -> Array:
        """Return `a` with a value in one place of these rows; `a` may be overwritten."""
        here = (self.xp.arange(a.shape[0], device=device(a)) == place) & rows
        return self.xp.where(here if a.ndim == 1 else here[:, None], value, a)

    def fill(self, a: Array, value: Array) -> Array:
        """Return `a` with its first entries replaced; `a` may be overwritten."""
        whole = a.shape == value.shape
        return value if whole else _set(a, tuple(slice(0, length) for length in value.shape), value)

    def repeat(self, body: Callable[[S], S], state: S, most: int) -> S:
        """Apply `body` while some row is open, at most `most` times."""
        for _ in range(most):
            if not self.any(state.open):
                break
            state = body(state)
        return state

    def when(self, mask: Mask, work: Callable[[T], T], state: T) -> T:
        """Apply `work` if the mask may hold for some row; it changes only those rows."""
        return work(state) if self.any(mask) else state

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


class NumPySingle(Single):
    """A single run on NumPy arrays: faster, and in place where possible."""

    used: Callable[[Any, int], int] = staticmethod(min)  # pyright: ignore[reportIncompatibleMethodOverride]

    def __init__(self, x: Array):
        super().__init__(x)
        double = x.dtype == np.float64
        # functions without a self are quicker to call
        if double or len(x) >= SHORT:
            self.dot = _short_dot if len(x) < SHORT else _long_dot
            self.norm = partial(_norm, self.dot)
        if double:  # no scalar is wider
            self.times = operator.mul  # pyright: ignore[reportAttributeAccessIssue]  its names of arguments
        self.finite = self.arrived = _finite
        self.dots = self.mix = np.ndarray.dot  # pyright: ignore[reportAttributeAccessIssue]  names of arguments
        self.root = _root

    def inner(self, *pairs: tuple[Array, Array]) -> Any:
        dot = self.dot
        return [dot(a, b) for a, b in pairs]

    def some(self, entries: Array) -> Mask:
        return bool(np.count_nonzero(entries))  # four times as fast as `any`

    def identity(self, x: Array) -> Array:
        return super().identity(x) if self._ordered else super().identity(x).copy(order="F")

    def product(self, matrix: Array, v: Array) -> Array:
        return super().product(matrix, v) if self._ordered else _blas(v, "symv")(1.0, matrix, v, lower=1)

    def rank_one(self, matrix: Array, c: Scalar, a: Array) -> Array:
        """Update the lower triangle in place; `product` reads no other."""
        if self._ordered:
            return super().rank_one(matrix, c, a)
        return _blas(a, "syr")(c, a, lower=1, a=matrix, overwrite_a=1)

    def rank_two(self, matrix: Array, c: Scalar, a: Array, b: Array) -> Array:
        if self._ordered:
            return super().rank_two(matrix, c, a, b)
        return _blas(a, "syr2")(c, a, b, lower=1, a=matrix, overwrite_a=1)

    def minus_outer(self, A: Array, c: Array, v: Array) -> Array:
        """Update A in place: it is kept row by row, which BLAS reads as its transpose."""
        part = A[: len(c)]
        if self._ordered:
            part -= _outer(c, v)
        else:
            _blas(v, "ger")(-1.0, v, c, a=part.T, overwrite_a=1)
        return A

    def put(self, a: Array, place: Whole, value: Any, rows: Mask) -> Array:
        if rows:
            a[place] = value
        return a

    def copy(self, v: Array) -> Array:
        return v.copy()

    def own(self, v: Any) -> Array:
        return np.array(v, dtype=self._like.dtype)


def _set(a: Any, place: Any, value: Any) -> Array:
    if hasattr(a, "at"):  # JAX
        return a.at[place].set(value)
    a[place] = value
    return a


def _outer(a: Array, b: Array) -> Array:
    return a[..., :, None] * b[..., None, :]


def _short_dot(a: Any, b: Any) -> float:
    """Return the inner product of short vectors, one by one (and faster so than by any NumPy call)."""
    total = 0.0
    for product in map(operator.mul, a.tolist(), b.tolist()):
        total += product
    return total


def _root(square: float, v: Any, wild: bool = False) -> float:
    return math.sqrt(square) if TINY < square < HUGE else float(norm(v)[0])


def _norm(dot: Callable[[Any, Any], float], v: Any, near: Any = None) -> float:
    square = dot(v, v)
    return math.sqrt(square) if TINY < square < HUGE else _root(square, v)


def _finite(v: Any, length: Any = None) -> bool:
    return v.dot(v) < math.inf or bool(np.isfinite(v).all())  # the first is quick, and nearly always enough


def _long_dot(a: Any, b: Any) -> float:
    return float(a.dot(b))


def _blas(v: Any, name: str) -> Any:
    import scipy.linalg.blas as blas  # here, so that `import steepen` stays light

    return getattr(blas, ("s" if v.dtype == np.float32 else "d") + name)
