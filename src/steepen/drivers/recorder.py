"""The trace of one run while it grows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import to_numpy
from ..questions import Vector
from ..run import Run
from ..trace import Trace
from .caller import Meter

ENTRY = np.dtype([
    ("f", "d"), ("gnorm", "d"), ("nfev", "q"), ("njev", "q"), ("nhvp", "q"),
    ("lam", "d"), ("step", "d"), ("penalised", "?"), ("guarded", "?"),
])  # fmt: skip
"""A row of the trace: an iterate, and the step taken from it."""

NO_STEP = (math.nan, math.nan, False, False)

BLOCK = 1024
"""Rows are packed when there are this many: Python's numbers are several times the size of their entries."""


class Recorder:
    """Notes iterates, and the steps between them."""

    def __init__(self, keep_x: bool):
        self._keep_x = keep_x
        self._blocks: list[NDArray[Any]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._arrived: tuple[Any, ...] = (0, 0, 0)
        self._step: tuple[Any, ...] = NO_STEP
        self._x_blocks: list[NDArray[Any]] = []
        self._points: list[Vector] = []
        self.length = 0

    def moved(self, run: Run, meter: Meter) -> None:
        """Note the step that the run has chosen, and the counts when it gets there."""
        alpha, lam = run.amounts
        self._step = lam, alpha, run.penalised, run.guarded
        self._arrived = meter.nfev, meter.njev, meter.nhvp

    def arrived(self, run: Run) -> None:
        """Note an iterate, and that the step before it has led there."""
        here = run.here
        if here.k < self.length or here.f is None:
            return
        if self.length:
            self._rows[-1] = self._rows[-1][:5] + self._step
            if len(self._rows) > BLOCK:
                self._pack()
        gnorm = math.nan if here.g is None else run.gnorm
        self._rows.append((here.f, gnorm, *self._arrived, *NO_STEP))
        self.length += 1
        if self._keep_x:
            self._points.append(here.x)

    def _pack(self) -> None:
        """Pack all rows but the last, which has no step yet."""
        self._blocks.append(np.array(self._rows[:-1], ENTRY))
        del self._rows[:-1]
        if self._keep_x:
            self._x_blocks.append(np.array([to_numpy(x) for x in self._points[:-1]]))
            del self._points[:-1]

    def table(self) -> NDArray[Any]:
        """Return the rows as one structured array."""
        return np.concatenate([*self._blocks, np.array(self._rows, ENTRY)])

    def since(self, first: int) -> tuple[NDArray[Any], list[Vector]]:
        """Return the rows from one on, and their points."""
        packed = self.length - len(self._rows)
        if first >= packed:
            return np.array(self._rows[first - packed :], ENTRY), self._points[first - packed :]
        return self.table()[first:], list(self._x()[first:]) if self._keep_x else []

    def _x(self) -> NDArray[Any]:
        """Return the iterates."""
        latest = np.array([to_numpy(x) for x in self._points])
        return np.concatenate([*self._x_blocks, latest]) if self._x_blocks else latest

    def load(self, table: NDArray[Any], points: list[Vector]) -> None:
        """Go on from the rows of a checkpoint."""
        self._blocks, last = [table[:-1]], table[-1:].tolist()
        self._rows = [tuple(row) for row in last]
        self._x_blocks = [np.array([to_numpy(x) for x in points[:-1]])] if len(points) > 1 else []
        self._points, self.length = points[-1:], len(table)

    def finish(self) -> Trace:
        """Return the trace."""
        table = self.table()
        columns = {name: np.ascontiguousarray(table[name]) for name in ENTRY.names or ()}
        x = self._x() if self._keep_x else None
        return Trace(k=np.arange(len(table)), x=x, **columns)
