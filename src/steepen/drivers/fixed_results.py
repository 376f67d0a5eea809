"""What a batch with fixed steps leaves: the fields of its result, and its trace."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..outcome import LOST
from ..trace import Trace
from .fixed_rows import Rows
from .recorder import ENTRY

ARRIVED = ("f", "gnorm", "nfev", "njev", "nhvp", "x")
"""What the trace says of an iterate; the rest of it is about the step from there."""

FIRST_BLOCK = 2**22
"""The trace begins with room for so many entries a column, and is doubled; memory is taken when filled."""


class Ends:
    """The fields of the result, filled in as rows end."""

    def __init__(self, start: NDArray[Any]):
        count, dtype = len(start), start.dtype
        self.x, self.g, self.best_x = (np.full(start.shape, math.nan, dtype) for _ in range(3))
        self.f, self.best_f = np.full(count, math.nan), np.full(count, math.inf)
        self.status, self.nit, self.nfev, self.njev, self.nhvp, self.nhev, self.best_k = (
            np.zeros(count, np.int64) for _ in range(7)
        )

    def note(self, rows: Rows, statuses: NDArray[np.int64]) -> None:
        """Note rows that end."""
        index, here, best = rows.index, rows.here, rows.best
        self.status[index], self.nit[index] = statuses, here.k
        self.nfev[index], self.njev[index] = rows.nfev, rows.njev
        self.nhvp[index], self.nhev[index] = rows.nhvp, rows.nhev
        f: Any = math.nan if here.f is None else here.f
        self.x[index], self.f[index] = here.x, f
        self.g[index] = math.nan if here.g is None else here.g
        finite, k = best.f < math.inf, cast(Any, best.k)
        seen = index[finite]
        self.best_x[seen], self.best_k[seen] = best.x[finite], k[finite]
        self.best_f[index] = best.f
        lost = np.isin(statuses, LOST)
        self.g[index[lost]] = math.nan
        back = index[lost & finite]
        self.x[back], self.f[back] = self.best_x[back], self.best_f[back]


class Columns:
    """The trace while it grows: columns (K, B), with the entries of a row of the batch until it ends.

    As long as all rows have the same entries, a column is one of numbers, and takes no memory for the rows.
    """

    def __init__(self, start: NDArray[Any], keep_x: bool, total: int | None):
        self._count, self._start = len(start), start
        room = max(16, FIRST_BLOCK // self._count)
        self._room: int = room if total is None else min(room, total + 1)
        self._length = 0
        self._lengths = np.zeros(self._count, np.int64)
        kinds: Any = ENTRY.fields
        self._kinds: dict[str, np.dtype[Any]] = {name: kinds[name][0] for name in ENTRY.names or ()}
        self._shared: dict[str, list[Any]] = {name: [] for name in self._kinds}
        self._columns: dict[str, NDArray[Any]] = {}
        if keep_x:
            self._columns["x"] = np.empty((self._room, *start.shape), start.dtype)

    def arrived(self, rows: Rows) -> None:
        """Note an iterate."""
        here = rows.here
        if here.k >= self._length:
            self._add(whole=len(rows) == self._count)
        gnorm = math.nan if here.g is None else rows.gnorm
        entries = (here.f, gnorm, *rows.arrived, here.x)
        self._write(rows, here.k, **dict(zip(ARRIVED, entries, strict=True)))
        if len(rows) == self._count:
            self._lengths[:] = here.k + 1
        else:
            self._lengths[rows.index] = here.k + 1

    def stepped(self, rows: Rows) -> None:
        """Note the step that led here."""
        self._write(
            rows, rows.here.k - 1,
            lam=rows.lam, step=rows.alpha, penalised=rows.penalised, guarded=rows.guarded,
        )  # fmt: skip

    def _add(self, *, whole: bool) -> None:
        """Make room for one more iterate."""
        if self._length == self._room:
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate([column, np.empty_like(column)])
            self._room *= 2
        for name, column in self._columns.items():
            if not (whole and name in ARRIVED):  # they are written next
                column[self._length] = self._empty(name)
        for name, shared in self._shared.items():
            shared.append(self._empty(name))
        self._length += 1

    def _empty(self, name: str) -> Any:
        """Return the entry of a row that has ended, and that of a step not taken."""
        return math.nan if name == "x" or self._kinds[name].kind == "f" else 0

    def _write(self, rows: Rows, k: int, **entries: Any) -> None:
        """Write the entries of these rows."""
        whole = len(rows) == self._count
        for name, value in entries.items():
            if name == "x" and name not in self._columns:
                continue
            if name in self._shared:
                if whole and np.ndim(value) == 0:
                    self._shared[name][k] = value
                    continue
                self._part(name)
            if whole:
                self._columns[name][k] = value
            else:
                self._columns[name][k, rows.index] = value

    def _part(self, name: str) -> None:
        """Give the rows entries of their own."""
        shared = np.array(self._shared.pop(name), self._kinds[name])
        self._columns[name] = column = np.empty((self._room, self._count), self._kinds[name])
        column[: self._length] = shared[:, None]

    def finish(self) -> Trace:
        """Return the trace."""
        columns: dict[str, Any] = {name: column[: self._length] for name, column in self._columns.items()}
        for name, entries in self._shared.items():
            shared = np.array(entries, self._kinds[name])
            columns[name] = np.broadcast_to(shared[:, None], (self._length, self._count))
        return Trace(k=np.arange(self._length), length=self._lengths, **columns)
