"""Many starts of one function, of which only the best end matters: one trial of every row in a call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array
from .._core.result import Result
from .._core.space import Box
from .._core.state import State
from .._evaluation.evaluator import Context
from ..budget import Budget
from ..directions import CGDAuto
from ..directions._pairs import Pairs
from ..steps import Armijo
from .minimize import minimize

SEEN = 5
"""A row is judged by what it has gained in so many calls."""

HOPE = 10.0
"""A row is given up if it is behind the best by more than so many times its gain."""

NEAR = 0.02
"""A row that is this near to a better one that has ended, in parts of the box (of the
starts' extent, where there is no side), will end there too."""

GROW = 3.0
"""A search begins with the whole step, but at most with so many times the last one: at the edge of a box a
likelihood may rise as a logarithm does, and then step after step has to be cut."""

FEW = 32
"""Up to so many variables, a metric is used as a matrix."""


class Race:
    """Which rows have no prospect: those far behind beside what they gain, and those near a better end."""

    def __init__(self, x0: NDArray[Any], low: NDArray[Any], high: NDArray[Any]):
        rows, width = len(x0), high - low
        self._gained = np.full((rows, SEEN), np.nan)
        self._x, self._f = np.zeros_like(x0), np.full(rows, np.inf)
        self._width = np.where(np.isfinite(width), width, np.ptp(x0, axis=0))
        self._ended = np.ones(rows, dtype=bool)

    def __call__(self, state: State) -> NDArray[np.bool_]:
        """Return which of the live rows to end."""
        rows: Any = state.rows
        f, x = np.asarray(state.fun), np.asarray(state.x)
        self._ended[:] = True
        self._ended[rows] = False
        self._f[rows], self._x[rows] = f, x
        gain = self._gained[rows, state.k % SEEN] - f
        self._gained[rows, state.k % SEEN] = f
        best = self._f.min()
        out = (state.k > SEEN) & (f - best > HOPE * gain)
        if self._ended.any():
            first = np.flatnonzero(self._ended)
            first = first[self._f[first] <= np.sort(f)[-1]]
            apart = np.abs(x[:, None, :] - self._x[first]) <= NEAR * self._width
            out |= (apart.all(axis=-1) & (self._f[first] <= f[:, None])).any(axis=1)
        return out


def descend(
    fun: Any,
    x0: NDArray[Any],
    low: NDArray[Any],
    high: NDArray[Any],
    *,
    iters: int | None = None,
    evals: int | None = None,
    seconds: float | None = None,
    ftol: float | None = None,
    gtol: float | None = None,
    memory: int = 10,
    trials: int = 20,
    race: bool = False,
) -> Result:
    """Minimise a function that returns f and ∇f of a batch, in a box."""
    single = x0.dtype == np.float32
    return minimize(
        fun, x0, method=Restarts(memory), jac=True, bounds=list(zip(low, high, strict=True)),
        step=Armijo(grow=GROW, longest=1.0, trials=trials, wait=False),
        budget=Budget(iters=iters, evals=evals, seconds=seconds), gtol=gtol,
        ftol=(1e-6 if single else 2.2e-9) if ftol is None else ftol,
        callback=Race(x0, low, high) if race and len(x0) > 1 else None, trace=False,
    )  # fmt: skip


class Restarts(CGDAuto):
    """cgd-auto for one run among many, of few variables: its metric is used as a matrix.

    To look for a way down from a flat start is left to the other runs.
    """

    escapes_saddles = False  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]

    def _downhill(self, context: Context, pairs: Pairs, x: Array, g: Array) -> Array:
        space, backend = context.space, context.backend
        if backend.size is None or not isinstance(space, Box) or x.shape[-1] > FEW:
            return super()._downhill(context, pairs, x, g)
        return space.downhill_by(pairs.matrix(backend), x, g)
