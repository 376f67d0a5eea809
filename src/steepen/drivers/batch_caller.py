"""The user's functions behind a batch: one vectorised call for all points, or one for each by workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._tools.workers import Map
from ..callables import BATCH, Functions, pair, read_imaginary, read_value, read_values, read_vector
from ..questions import Vector

Rows: TypeAlias = Sequence[int]
"""Which rows of the batch the points belong to."""


class OfOnePoint:
    """The functions as workers are sent them: each is called with one point, and the data of its row."""

    def __init__(self, functions: Functions):
        self._functions = functions

    def __call__(self, task: tuple[str, tuple[Vector, ...], dict[str, Any]]) -> Any:
        """Call a function."""
        name, vectors, own = task
        return getattr(self._functions, name)(*vectors, **own)


class BatchCaller:
    """Calls functions with copies of batches of points (B, n); the answers are copies, too.

    Where rows have data of their own, a function is given those of the rows that the points belong to.
    Workers call functions for one point.
    """

    def __init__(
        self, functions: Functions, like: Vector, library: str, data: tuple[Any, ...] = (),
        workers: Map | None = None,
    ):  # fmt: skip
        self._functions, self._like, self._library, self._data = functions, like, library, data
        self._lengths = {len(like), *(length for one in data for length in one.shape[1:])}
        """Of a point, and of a row's data: as many rows may be taken for one point, or its data."""
        self._workers, self._of_one = workers, OfOnePoint(functions)
        self._taken: set[str] = set()
        """The functions that have taken a batch."""

    def values(self, points: NDArray[Any], *, rows: Rows = ()) -> NDArray[np.float64]:
        """Return f at each point."""
        if self._workers is not None:
            return np.array([read_value(f) for f in self._of_each("value", rows, points)])
        return _joined(self._answers("fun", self._functions.value, self._values, rows, points))

    def imaginary(self, points: NDArray[Any], *, rows: Rows = ()) -> NDArray[np.float64]:
        """Return the imaginary part of f at each complex point."""
        if self._workers is not None:
            return np.array([read_imaginary(f) for f in self._of_each("value", rows, points)])
        found = self._functions.value(points, **self._of(rows))
        return np.array([read_imaginary(f) for f in np.asarray(found)])

    def both(self, points: NDArray[Any], *, rows: Rows = ()) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return f and ∇f at each point, of a function that gives both."""

        def read(answer: Any, count: int) -> tuple[NDArray[np.float64], NDArray[Any]]:
            f, g = pair(answer)
            return self._values(f, count), read_vector(g, self._like, "fun's gradient", (), count)

        if self._workers is not None:
            pairs = [pair(found) for found in self._of_each("both", rows, points)]
            vectors = [read_vector(g, self._like, "fun's gradient") for _, g in pairs]
            return np.array([read_value(f) for f, _ in pairs]), np.stack(vectors)
        values, gradients = zip(*self._answers("fun", self._functions.both, read, rows, points), strict=True)
        return _joined(values), _joined(gradients)

    def gradients(self, points: NDArray[Any], *, rows: Rows = ()) -> NDArray[Any]:
        """Return ∇f at each point."""
        return self._vectors("jac", "grad", rows, points)

    def products(self, points: NDArray[Any], vectors: NDArray[Any], *, rows: Rows = ()) -> NDArray[Any]:
        """Return H·v at each point."""
        return self._vectors("hvp", "hvp", rows, points, vectors)

    def hessians(self, points: NDArray[Any], *, rows: Rows = ()) -> NDArray[Any]:
        """Return H at each point."""
        return self._vectors("hess", "hess", rows, points, tail=(len(self._like),))

    def _of(self, rows: Rows) -> dict[str, Any]:
        """Return the data of these rows, as a function takes them."""
        places = list(rows)
        return {"rows": tuple(data[places] for data in self._data)} if self._data else {}

    def _values(self, f: Any, count: int) -> NDArray[np.float64]:
        if type(f) is np.ndarray and f.shape == (count,) and f.dtype == np.float64:
            return f.copy()
        return np.array(read_values(f, count, bool(self._library)))

    def _vectors(
        self, name: str, kind: str, rows: Rows, *batches: NDArray[Any], tail: tuple[int, ...] = ()
    ) -> NDArray[Any]:
        if self._workers is not None:
            found = self._of_each(kind, rows, *batches)
            return np.stack([read_vector(one, self._like, name, tail) for one in found])

        def read(answer: Any, count: int) -> NDArray[Any]:
            return read_vector(answer, self._like, name, tail, count)

        return _joined(self._answers(name, getattr(self._functions, kind), read, rows, *batches))

    def _of_each(self, kind: str, rows: Rows, *batches: NDArray[Any]) -> list[Any]:
        """Return the answers of a function for one point, which workers call."""
        # a copy of each row, since a worker may be this process
        data = [{"rows": tuple(one[[row]][0] for one in self._data)} if self._data else {} for row in rows]
        points = zip(*([point.copy() for point in batch] for batch in batches), strict=True)
        tasks = [(kind, vectors, own) for vectors, own in zip(points, data, strict=True)]
        workers: Any = self._workers
        found = list(workers(self._of_one, tasks))
        if len(found) != len(tasks):
            count = len(tasks)
            raise ValueError(f"workers: expected {count} values for {count} points, got {len(found)}")
        return found

    def _answers(
        self, name: str, function: Any, read: Callable[[Any, int], Any], rows: Rows, *batches: NDArray[Any]
    ) -> list[Any]:
        """Return what is read of the answers; `read` copies them, since the next may be in the same array.

        A function for one point may accept a batch of as many rows as a point, or a row's data, has numbers,
        and return the right shape; so the first such batch is sent in two parts, all points but the last and
        the last.
        """
        count = len(batches[0])
        first, differentiates = name not in self._taken, bool(self._library)
        self._taken.add(name)
        cut = count - 1 if first and 1 < count in self._lengths and not differentiates else count
        answers: list[Any] = []
        for part in (slice(0, cut), slice(cut, count)):
            if part.start == part.stop:
                continue
            size = part.stop - part.start
            batch = [points[part].copy() for points in batches]
            if self._library == "jax":
                batch = [_padded(points) for points in batch]
            own = self._of(rows[part])
            try:
                answer = function(*batch, **own)
            except IndexError as error:
                if not first or _is_vectorised(function, batch, own):
                    raise
                raise TypeError(f"{name}: expected a function that accepts the rows of x; {BATCH}") from error
            answers.append(read(answer if len(batch[0]) == size else answer[:size], size))
        return answers


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the answers to the parts of a batch as one array."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _is_vectorised(function: Any, batch: list[Any], own: dict[str, Any]) -> bool:
    """Return whether an IndexError is the function's own: it raises one for a single row, too."""
    try:
        function(*(points[0] for points in batch), **{name: [one[0] for one in own[name]] for name in own})
    except Exception:  # whatever it is, the function does not take one point either
        return True
    return False


def _padded(points: Any) -> Any:
    """Return a batch filled up with its first row to a power of two: JAX compiles for every new shape."""
    most = 1 << (len(points) - 1).bit_length()
    return np.concatenate([points, np.repeat(points[:1], most - len(points), axis=0)])
