"""The trace while it grows.

A single run packs each row into bytes. A bytearray grows in place with one part in eight to spare, a row
costs a fraction of a microsecond, and the finished bytes become arrays without a copy.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Rows, Whole, is_numpy
from .._core.backends import Backend
from .._core.saved import Saved
from .._core.state import SolverState
from .._core.trace import Iterates, Trace

COLUMNS = {
    "f": "d",
    "gnorm": "d",
    "lam": "d",
    "step": "d",
    "nfev": "q",
    "njev": "q",
    "nhvp": "q",
    "penalised": "?",
    "guarded": "?",
}

STEP = {"lam": np.nan, "step": np.nan, "penalised": False, "guarded": False}
"""What describes the step taken from an iterate, and how it reads where none was."""


def entry(c: SolverState) -> tuple[Any, ...]:
    """Return the columns of an iterate, and of the step taken from it."""
    point, step = c.point, c.step_info
    return point.f, point.gnorm, step.lam, step.shown, *c.spent, step.penalised, step.guarded


class Recorder:
    """The trace of a single run."""

    def __init__(self, x: Array, backend: Backend, keep_x: bool):
        self._host = backend.host
        self._pack = struct.Struct("=" + "".join(COLUMNS.values())).pack
        self._dtype = np.dtype(list(COLUMNS.items()))
        self._rows = bytearray()
        self._numpy = is_numpy(x)
        self._shape, self._number = tuple(x.shape), self._host(x).dtype
        self._x = Iterates(self._shape, self._number) if keep_x else None
        self._short = self._host(x).nbytes < Iterates.BLOCK
        self._points = bytearray()  # short ones; long ones are kept as they are

    @property
    def length(self) -> int:
        """How many iterates are recorded."""
        return len(self._rows) // self._dtype.itemsize

    def add(self, rows: Rows | None, c: SolverState) -> None:
        """Record an iterate, and the step taken from it."""
        if self._x is not None:
            x: Any = c.point.x if self._numpy else self._host(c.point.x)
            if self._short:
                self._points += x.tobytes()
            else:
                self._x.append(x)
        self._rows += self._pack(*entry(c))

    def blank(self, rows: Rows | None) -> None:
        """Take back the step of the last iterate: it was made, but not brought to an end."""
        if self._rows:
            last = np.frombuffer(self._rows, self._dtype)[-1:]
            for name, empty in STEP.items():
                last[name] = empty

    def state(self, length: int) -> dict[str, NDArray[Any]]:
        """Return the first rows as plain arrays, for a checkpoint."""
        # a view would forbid the bytes to grow
        width = self._dtype.itemsize
        rows = np.frombuffer(bytes(self._rows[: length * width]), np.uint8).reshape(-1, width)
        iterates = self._iterates()
        return {"rows": rows} if iterates is None else {"rows": rows, "x": iterates.array()[:length]}

    def load(self, saved: Saved, name: str) -> None:
        """Go on from a checkpoint."""
        arrays = _loaded(saved, name, self.state(0))
        self._rows += arrays["rows"].tobytes()
        if self._x is not None:
            self._x.extend(arrays["x"])

    def finish(self, nit: Whole) -> Trace:
        """Return the trace, without a copy."""
        table = np.frombuffer(self._rows, self._dtype)
        columns = {name: table[name] for name in COLUMNS}
        return Trace(k=np.arange(len(table)), iterates=self._iterates(), **columns)

    def _iterates(self) -> Iterates | None:
        if self._x is not None and self._points:
            points, self._points = self._points, bytearray()
            self._x.extend(np.frombuffer(points, self._number).reshape(-1, *self._shape))
        return self._x


class BatchRecorder:
    """The trace of a batch: rows that end during an iteration are put together with those that go on.

    Entries are kept as they come, a number for all rows or an array: a run never changes an array it made.
    """

    def __init__(self, x: Array, backend: Backend, keep_x: bool):
        self._host = backend.host
        self._shape, self._number = tuple(x.shape), self._host(x).dtype
        self._columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._x = Iterates(self._shape, self._number) if keep_x else None
        self._open: list[tuple[Rows | None, tuple[Any, ...], Array]] = []

    @property
    def length(self) -> int:
        """How many iterates are recorded."""
        return len(self._columns["f"])

    def add(self, rows: Rows | None, c: SolverState) -> None:
        """Record an iterate of these rows (None: of all), and the step taken from it."""
        self._open.append((rows, entry(c), c.point.x))

    def close(self) -> None:
        """End the iteration: put its rows together."""
        pieces, self._open = self._open, []
        if not pieces:
            return
        for i, (name, column) in enumerate(self._columns.items()):
            fill = np.nan if COLUMNS[name] == "d" else 0
            column.append(_whole([(rows, entry[i]) for rows, entry, _ in pieces], self._shape[:1], fill))
        if self._x is not None:
            x = _whole([(rows, self._host(x)) for rows, _, x in pieces], self._shape, np.nan)
            self._x.append(x.astype(self._number, copy=False))

    def blank(self, rows: Rows | None) -> None:
        """Take back the step of the last iterate of these rows."""
        for name, empty in STEP.items():
            column = self._columns[name]
            if column:
                column[-1] = np.array(np.broadcast_to(column[-1], self._shape[:1]))
                column[-1][... if rows is None else rows] = empty

    def state(self, length: int) -> dict[str, NDArray[Any]]:
        """Return the first rows as plain arrays, for a checkpoint."""
        size = self._shape[:1]
        arrays = {
            name: _stack(column[:length], size, COLUMNS[name]) for name, column in self._columns.items()
        }
        if self._x is not None:
            arrays["x"] = self._x.array()[:length]
        return arrays

    def load(self, saved: Saved, name: str) -> None:
        """Go on from a checkpoint."""
        arrays = _loaded(saved, name, self.state(0))
        for name, column in self._columns.items():
            column.extend(arrays[name])
        if self._x is not None:
            self._x.extend(arrays["x"])

    def finish(self, nit: Whole) -> Trace:
        """Return the trace."""
        length = self.length
        columns = {
            name: _stack(column, self._shape[:1], COLUMNS[name]) for name, column in self._columns.items()
        }
        return Trace(k=np.arange(length), iterates=self._x, length=np.asarray(nit) + 1, **columns)


def _loaded(saved: Saved, name: str, empty: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the columns of a trace."""
    return {part: saved.pop(f"{name}.{part}") for part in empty}


def _whole(pieces: list[tuple[Rows | None, Any]], shape: tuple[int, ...], fill: float) -> Any:
    """Put the pieces of one iteration together."""
    if pieces[0][0] is None:
        return pieces[0][1]
    whole = np.full(shape, fill)
    for rows, value in pieces:
        whole[rows] = value
    return whole


def _stack(rows: list[Any], shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Stack the iterations; a column of plain numbers becomes a view that repeats them."""
    if not any(isinstance(row, np.ndarray) for row in rows):
        return np.broadcast_to(np.array(rows, dtype=dtype)[:, None], (len(rows), *shape))
    stacked = np.empty((len(rows), *shape), dtype=dtype)
    for i, row in enumerate(rows):
        stacked[i] = row
    return stacked
