"""Calls of the user's functions: copies in, answers checked, the last remembered. The evaluator's base."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np

from .._core.arrays import Array, Mask, MaybeArray, Rows, Scalar, device, is_numpy, namespace, to_numpy
from .._core.backends import Backend, Batch
from .._core.space import Space
from .._tools.workers import Map
from .counter import EvaluationCounter

Function = Callable[..., Any]

Only: TypeAlias = Any  # the rows of a batch that an evaluation is for, as a mask; None for all

BATCH = (
    "a batch needs a function vectorised over leading axes "
    '(or wrapped: np.vectorize(fun, signature="(n)->()"))'
)


class GradientDifference:
    """Products H·v made of the gradient at another point."""

    cached_gradient: Any = None  # ∇f where f was last evaluated, if it came with f; it is counted when used
    grad: Any
    source: Any  # of gradients

    def __init__(self, backend: Backend, space: Space, eps: float):
        self.backend, self.space = backend, space
        self.eps = eps  # of the run's numbers

    def difference_length(self, x: Array, v: Array) -> Scalar:
        """Return r for which r·v is about √ε of the size of x, ε the relative error of the gradient."""
        backend = self.backend
        size = backend.norm(v)
        most = backend.num.maximum(backend.norm(x), 1.0)
        part = backend.num.sqrt(self.source.gradient_eps)
        return backend.scalar(part * most / backend.select(size > 0, size, 1.0))

    def change(self, x: Array, v: Array, g: Array, r: Scalar, only: Any = None) -> Array:
        """Evaluate r·H·v by the paper's difference ∇f(x + r·v) − ∇f(x)."""
        backend, space = self.backend, self.space
        point = backend.times(r, v)
        point += x
        if not space.bounded:
            change = self.grad(point, only, spare=True) - g
        else:  # the other way where this one leaves the box, and no further than it goes
            sign = backend.select(backend.same(space.project(point), point), 1.0, -1.0)
            change = backend.times(sign, self.grad(space.project(x + backend.times(sign * r, v)), only) - g)
        return change if only is None or only is True else backend.where(only, change, change * 0)


class UserCalls(GradientDifference):
    """Calls for some rows of a batch; their answers checked, copied, and spread over all rows."""

    differentiates = False  # whether the gradient comes from autodiff
    grad_and_error: Any
    cost_grad: Any  # of ∇f where f is known
    cost_difference: Any  # and elsewhere

    def __init__(self, fun: Function, x0: Array, backend: Backend, space: Space, counter: EvaluationCounter):
        super().__init__(backend, space, float(backend.xp.finfo(x0.dtype).eps))
        self.like, self.counter, self.n = x0, counter, int(x0.shape[-1])
        self.outside = contextvars.copy_context().run  # the run is silent about overflow; fun need not be
        self._sent = fun  # to workers: as it was given, so that a process can be sent it
        self._fun: Any = fun
        self._asked: set[str] = set()  # the functions that have taken a batch

    def ask(self, name: str, function: Any, read: Function, only: Only, *vectors: Array) -> Any:
        """Call a user function for these rows, and read what it returns.

        A function for one point would accept a square batch and return the right shape; so the first such
        batch is sent in two parts, all rows but the last and the last.
        """
        if self.backend.size is None or name in self._asked or self.differentiates:
            return read(self.call(function, only, *vectors), only)
        self._asked.add(name)
        rows: Any = np.ones(len(vectors[0]), dtype=bool) if only is None else only
        last = rows & (np.cumsum(rows) == self.n)
        parts = [rows & ~last, last] if rows.sum() == self.n > 1 else [rows]
        try:
            found = [read(self.call(function, part, *vectors), part) for part in parts]
        except IndexError as error:
            raise TypeError(f"{name}: expected a function that accepts the rows of x; {BATCH}") from error
        return found[0] if len(found) == 1 else self.backend.where(last, found[1], found[0])

    def call(self, function: Any, only: Only, *vectors: Array) -> Any:
        """Call a user function with copies of these rows."""
        backend = self.backend
        if only is not None and backend.size is not None and not only.all():
            rows = np.flatnonzero(only)
            return function(*(backend.take(v, rows) for v in vectors))  # pyright: ignore
        return function(*(backend.copy(v) for v in vectors))

    def scalar(self, f: Any, only: Only) -> Scalar:
        """Read a value, or one for each of these rows."""
        if isinstance(f, float) and self.backend.size is None:
            return float(f)
        array, rows = _array(f, "fun"), self._row_count(only)
        fits = array.size == 1 if rows is None else array.shape == (rows,)
        if not fits or array.dtype.kind not in "fiu":
            expected, advice = f"one value for each of the {rows} rows of x", BATCH
            if rows is None:
                expected, advice = "a real scalar", f"its type is {type(f).__name__}"
            elif self.differentiates:
                advice = "under autodiff, write fun for one point: it is mapped over the rows for you"
            raise TypeError(f"fun: expected {expected}, got {describe(array)}; {advice}")
        return float(array.reshape(())) if rows is None else self._spread(array.astype(np.float64), only)

    def imaginary(self, f: Any, only: Only) -> Any:
        """Read the imaginary part of a value at a complex point."""
        values: Any = np.asarray(f)
        if values.dtype.kind != "c":
            raise TypeError('jac="cs": fun must return complex values for complex x; it returned real ones')
        return self.scalar(values.imag, only)

    def value_at(self, x: Array, only: Only = None, read: Any = None) -> Scalar:
        """Evaluate f for these rows."""
        self.counter.count(only, "nfev")
        return self.ask("fun", self._fun, read or self.scalar, only, x)

    def values(self, points: Iterable[Array], count: int, read: Any, workers: Map | None) -> list[Any]:
        """Evaluate f at the points of a difference; those that go to workers are all charged before."""
        if workers is None:
            return [self.value_at(point, None, read) for point in points]
        self.counter.count(None, "nfev", times=count)
        given = list(points)
        found = self.outside(lambda: list(workers(self._sent, given)))
        if len(found) != count:
            raise ValueError(f"workers: expected {count} values for {count} points, got {len(found)}")
        return [read(f, None) for f in found]

    def vector(self, g: Any, only: Only, name: str, tail: tuple[int, ...] = ()) -> Array:
        """Read a vector, or a matrix with `tail`, or one for each of these rows."""
        rows = self._row_count(only)
        shape = (self.n, *tail) if rows is None else (rows, self.n, *tail)
        found = _array(g, name) if is_numpy(self.like) or not hasattr(g, "dtype") else g
        if rows is None and self.n == 1 and found.ndim < len(shape):  # a number is accepted, as in SciPy
            found = found.reshape(shape)
        if tuple(found.shape) != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {describe(found)}")
        if getattr(found.dtype, "kind", "f") not in "fiu":
            raise TypeError(f"{name}: expected real numbers, got {describe(found)}")
        return self._spread(self.backend.own(found), only)

    def _row_count(self, only: Only) -> int | None:
        if self.backend.size is None:
            return None
        return self.counter.rows if only is None else int(only.sum())

    def _spread(self, part: Array, only: Only) -> Array:
        if only is None or self.backend.size is None or only.all():
            return part
        assert isinstance(self.backend, Batch)
        shape = int((~only).sum()), *part.shape[1:]
        rest = namespace(part).zeros(shape, dtype=part.dtype, device=device(part))
        pieces = [(np.flatnonzero(only), part), (np.flatnonzero(~only), rest)]
        return self.backend.merge(pieces)


class Memo:
    """The last point of each row, and what was evaluated there."""

    def __init__(self, backend: Backend):
        self._backend = backend
        self.x: MaybeArray = None
        self.value: Any = None

    def put(self, x: Array, value: Any, only: Only) -> None:
        """Note what was evaluated at x, for the rows in `only`."""
        if self._backend.size is not None and only is not None and not only.all():
            unknown = x * float("nan")
            x = self._backend.where(only, x, unknown if self.x is None else self.x)
            value = value if self.value is None else self._backend.where(only, value, self.value)
        self.x, self.value = x, value

    @property
    def kept(self) -> dict[str, Any]:
        """What a checkpoint holds of it: nothing of a sparse matrix or an operator."""
        plain = np.isscalar(self.value) or hasattr(self.value, "__array__")
        return {"x": self.x, "value": self.value} if plain else {"x": None, "value": None}

    def missing(self, x: Array, only: Only) -> Mask:
        """Return where, of the rows in `only`, the noted point is not x."""
        wanted = True if only is None else only
        if self.x is None:
            return wanted & (True if self._backend.size is None else np.ones(len(x), dtype=bool))
        return self._backend.and_not(wanted, self._backend.same(self.x, x))

    def keep(self, rows: Rows) -> None:
        """Continue with these rows of the batch."""
        if self.x is not None:
            self.x, self.value = self._backend.take(self.x, rows), self._backend.take(self.value, rows)


def pair(returned: Any) -> tuple[Any, Any]:
    """Return f and g of a function that gives both."""
    both = cast("tuple[Any, ...]", returned) if isinstance(returned, tuple | list) else ()
    if len(both) != 2:
        raise TypeError(f"fun: expected a pair (f, g), because of jac=True; got {returned!r}")
    return both[0], both[1]


def with_args(function: Function, args: tuple[Any, ...], *vectors: Array) -> Any:
    """Call a function with its further arguments."""
    return function(*vectors, *args)


def bound(function: Function, args: tuple[Any, ...]) -> Function:
    """Return a function with its further arguments; unlike a lambda, worker processes can be sent it."""
    return partial(with_args, function, args) if args else function


def _array(returned: Any, name: str) -> Any:
    try:
        return to_numpy(returned)
    except ValueError as error:  # ragged
        hint = "; if it returns f and its gradient, pass jac=True" if isinstance(returned, tuple) else ""
        raise TypeError(f"{name}: expected an array of numbers, got {returned!r}{hint}") from error


def describe(a: Any) -> str:
    """Return the shape and the dtype of an array in words."""
    return f"shape {tuple(a.shape)} and dtype {a.dtype}"
