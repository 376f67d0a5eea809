"""The trace of an eager run while it grows, in memory; the JAX driver takes its columns from here, too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Rows, Whole
from .._core.backends import Backend
from .._core.saved import Saved
from .._core.state import SolverState
from .._core.trace import Trace

COLUMNS = {
    "f": "d", "gnorm": "d", "lam": "d", "step": "d",
    "nfev": "q", "njev": "q", "nhvp": "q", "penalised": "?", "guarded": "?",
}  # fmt: skip

STEP = {"lam": np.nan, "step": np.nan, "penalised": False, "guarded": False}
"""The columns of the step taken from an iterate, and their values where none was."""

BLOCK = 1024
"""Entries are stacked when there are this many: a Python number is several times the size of its entry."""


def entry(c: SolverState) -> tuple[Any, ...]:
    """Return the columns of an iterate, and of the step taken from it."""
    point, step = c.point, c.step_info
    return point.f, point.gnorm, step.lam, step.shown, *c.spent, step.penalised, step.guarded


class Recorder:
    """The trace of a run, or of a batch, in which rows may end one after another in an iteration."""

    def __init__(self, x: Array, backend: Backend, keep_x: bool):
        self._host, self._shape = backend.host, tuple(x.shape)
        self._dtype = self._host(x).dtype
        self._blocks: dict[str, list[NDArray[Any]]] = {name: [] for name in COLUMNS}
        self._entries: list[tuple[Any, ...]] = []
        self._points = bytearray() if keep_x else None  # grows in place, and becomes an array without a copy
        self.length = 0

    def add(self, rows: Rows | None, c: SolverState) -> None:
        """Record an iterate of these rows (None: of all), and the step taken from it."""
        if rows is None:
            if self.length == c.k:  # else an interrupt came after the iterate was recorded
                self._append(entry(c), c.point.x)
            return
        if self.length == c.k:  # rows that have ended before stay empty
            empty = (np.full(self._shape[:-1], np.nan if kind == "d" else 0) for kind in COLUMNS.values())
            self._append(tuple(empty), np.full(self._shape, np.nan, self._dtype))
        for column, value in zip(self._entries[-1], entry(c), strict=True):
            column[rows] = value
        if self._points is not None:
            self._iterates(self._points)[-1][rows] = self._host(c.point.x)

    def _append(self, values: tuple[Any, ...], x: Array) -> None:
        if len(self._entries) == BLOCK:
            self._stack()
        self.length += 1
        self._entries.append(values)
        if self._points is not None:
            self._points += self._host(x).tobytes()

    def _stack(self) -> None:
        entries, self._entries = self._entries, []
        if entries:
            for (name, blocks), values in zip(self._blocks.items(), zip(*entries, strict=True), strict=True):
                blocks.append(_stacked(values, self._shape[:-1], COLUMNS[name]))

    def _columns(self) -> dict[str, NDArray[Any]]:
        self._stack()
        for name, blocks in self._blocks.items():
            if len(blocks) != 1:
                empty = np.empty((0, *self._shape[:-1]), COLUMNS[name])
                self._blocks[name] = [np.concatenate([empty, *blocks])]
        return {name: blocks[0] for name, blocks in self._blocks.items()}

    def _iterates(self, points: bytes | bytearray) -> NDArray[Any]:
        return np.frombuffer(points, self._dtype).reshape(-1, *self._shape)

    def state(self, length: int) -> dict[str, NDArray[Any]]:
        """Return the first entries as plain arrays, for a checkpoint."""
        arrays = {name: column[:length] for name, column in self._columns().items()}
        if self._points is not None:  # a view would keep the bytes from growing
            arrays["x"] = self._iterates(bytes(self._points))[:length]
        return arrays

    def load(self, saved: Saved, name: str) -> None:
        """Resume from a checkpoint."""
        for column, blocks in self._blocks.items():
            blocks.append(saved.pop(f"{name}.{column}"))
        if self._points is not None:
            self._points += saved.pop(f"{name}.x").tobytes()
        self.length = len(self._blocks["f"][0])

    def finish(self, nit: Whole, undone: Iterable[Rows | None]) -> Trace:
        """Return the trace; the last step of the rows `undone` came to no end, and is left out."""
        columns = self._columns()
        for rows in undone:
            for name, empty in STEP.items():
                columns[name] = column = np.array(columns[name])
                column[-1 if rows is None else (-1, rows)] = empty
        x = None if self._points is None else self._iterates(self._points)
        length = None if len(self._shape) == 1 else np.asarray(nit) + 1
        return Trace(k=np.arange(self.length), x=x, length=length, **columns)


def _stacked(values: tuple[Any, ...], shape: tuple[int, ...], kind: str) -> NDArray[Any]:
    """Return a block of a column; plain numbers of a batch become a view that repeats them."""
    if not shape:
        return np.fromiter(values, kind, len(values))
    if not any(isinstance(value, np.ndarray) for value in values):
        return np.broadcast_to(np.array(values, kind)[:, None], (len(values), *shape))
    return np.stack([np.broadcast_to(value, shape) for value in values]).astype(kind, copy=False)
