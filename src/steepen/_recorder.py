"""The trace while it grows.

A single run packs each row into bytes. A bytearray grows in place with one part in eight to spare, a row
costs a fraction of a microsecond, and the finished bytes become arrays without a copy.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._arrays import SHORT, Array, Kit, Mask, Rows, Scalar
from ._result import Trace

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

BLOCK = 4096
"""Short iterates wait to be copied together, up to so many bytes."""


class Recorder:
    """The trace of a single run."""

    def __init__(self, x: Array, kit: Kit, keep_x: bool):
        self._host = kit.host
        self._pack = struct.Struct("=" + "".join(COLUMNS.values())).pack
        self._dtype = np.dtype(list(COLUMNS.items()))
        self._rows = bytearray()
        self._shape, self._number = tuple(x.shape), self._host(x).dtype
        self._x = bytearray() if keep_x else None
        self._recent: list[Array] = []  # iterates not yet in the bytes
        self._together = max(1, BLOCK // (self._number.itemsize * self._shape[0]))

    @property
    def length(self) -> int:
        """How many iterates are recorded."""
        return len(self._rows) // self._dtype.itemsize

    def add(
        self, rows: Rows | None, x: Array, f: Scalar, gnorm: Scalar, lam: Scalar, step: Scalar,
        penalised: Mask, guarded: Mask, spent: tuple[Scalar, Scalar, Scalar],
    ) -> None:  # fmt: skip
        """Record an iterate, and the step taken from it."""
        if self._x is not None:
            self._recent.append(x)
            if len(self._recent) >= self._together:
                self._flush()
        self._rows += self._pack(f, gnorm, lam, step, *spent, penalised, guarded)

    def blank(self, rows: Rows | None) -> None:
        """Take back the step of the last iterate: it was made, but not brought to an end."""
        if self._rows:
            last = np.frombuffer(self._rows, self._dtype)[-1:]
            for name, empty in STEP.items():
                last[name] = empty

    def _flush(self) -> None:
        if self._x is not None and self._recent:
            recent = [self._host(x) for x in self._recent]
            self._x += (recent[0] if len(recent) == 1 else np.concatenate(recent)).data
            self._recent.clear()

    def state(self, length: int) -> dict[str, NDArray[Any]]:
        """Give the first rows as plain arrays, for a checkpoint."""
        self._flush()
        arrays = {"rows": np.frombuffer(bytes(self._rows), self._dtype)[:length]}
        if self._x is not None:
            arrays["x"] = np.frombuffer(bytes(self._x), self._number).reshape(-1, *self._shape)[:length]
        return {name: np.ascontiguousarray(a).view(np.uint8) for name, a in arrays.items()}

    def load(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint's arrays."""
        self._rows += arrays["rows"].tobytes()
        if self._x is not None:
            self._x += arrays["x"].tobytes()

    def finish(self, nit: Scalar) -> Trace:
        """Give the trace, without a copy."""
        self._flush()
        table = np.frombuffer(self._rows, self._dtype)
        x = None
        if self._x is not None:
            x = np.frombuffer(self._x, self._number).reshape(-1, *self._shape)
        return Trace(k=np.arange(len(table)), x=x, **{name: table[name] for name in COLUMNS})


class BatchRecorder:
    """The trace of a batch: rows that end during an iteration are put together with those that go on.

    Entries are kept as they come, a number for all rows or an array: a run never changes an array it made.
    """

    def __init__(self, x: Array, kit: Kit, keep_x: bool):
        self._host = kit.host
        self._shape, self._number = tuple(x.shape), self._host(x).dtype
        self._columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._x = bytearray() if keep_x else None
        self._order: Any = "F" if self._shape[1] < SHORT else "C"  # as the batch is kept
        self._open: list[tuple[Rows | None, tuple[Any, ...], Array]] = []

    @property
    def length(self) -> int:
        """How many iterates are recorded."""
        return len(self._columns["f"])

    def add(
        self, rows: Rows | None, x: Array, f: Scalar, gnorm: Scalar, lam: Scalar, step: Scalar,
        penalised: Mask, guarded: Mask, spent: tuple[Scalar, Scalar, Scalar],
    ) -> None:  # fmt: skip
        """Record an iterate of these rows (None: of all), and the step taken from it."""
        self._open.append((rows, (f, gnorm, lam, step, *spent, penalised, guarded), x))

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
            x = np.asarray(x, dtype=self._number, order=self._order)
            self._x += (x.T if self._order == "F" else x).data

    def blank(self, rows: Rows | None) -> None:
        """Take back the step of the last iterate of these rows."""
        for name, empty in STEP.items():
            column = self._columns[name]
            if column:
                column[-1] = np.array(np.broadcast_to(column[-1], self._shape[:1]))
                column[-1][... if rows is None else rows] = empty

    def state(self, length: int) -> dict[str, NDArray[Any]]:
        """Give the first rows as plain arrays, for a checkpoint."""
        size = self._shape[:1]
        arrays = {
            name: _stack(column[:length], size, COLUMNS[name]) for name, column in self._columns.items()
        }
        if self._x is not None:
            arrays["x"] = self._iterates(bytes(self._x))[:length]
        return arrays

    def _iterates(self, data: bytes | bytearray) -> NDArray[Any]:
        size, n = self._shape
        flat = np.frombuffer(data, self._number)
        if self._order == "F":
            return flat.reshape(-1, n, size).transpose(0, 2, 1)
        return flat.reshape(-1, size, n)

    def load(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Go on from a checkpoint's arrays."""
        for name, column in self._columns.items():
            column.extend(arrays[name])
        if self._x is not None:
            x = arrays["x"]
            self._x += (x.transpose(0, 2, 1) if self._order == "F" else x).tobytes()

    def finish(self, nit: Scalar) -> Trace:
        """Give the trace."""
        length = self.length
        columns = {
            name: _stack(column, self._shape[:1], COLUMNS[name]) for name, column in self._columns.items()
        }
        x = None if self._x is None else self._iterates(self._x)
        return Trace(k=np.arange(length), x=x, length=np.asarray(nit) + 1, **columns)


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
