"""Many starts, of which only the best result matters: for BoTorch and scikit-learn. Calls `minimize`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..budget import Budget
from ..drivers.watch import State
from ..methods import CGDAuto
from ..result import Result
from ..steps import Armijo
from .minimize import minimize

SEEN = 5  # calls over which the decrease of a row is measured
HOPE = 10.0  # a row is stopped if its gap to the best row exceeds this multiple of its recent decrease

NEAR = 0.02
"""A row this close to a better row that has stopped is assumed to converge to the same point; relative to
the width of the box, or to the extent of the starts where there is no bound."""

GROW = 3.0
"""A line search starts from the unit step, but at most from this multiple of the last step: at the edge of
a box a likelihood may diverge logarithmically, and then every unit step has to be cut."""


class Race:
    """Selects rows to stop early: far behind for their recent decrease, or close to a better stopped row."""

    def __init__(self, x0: NDArray[Any], low: NDArray[Any], high: NDArray[Any]):
        rows, width = len(x0), high - low
        self._gained = np.full((rows, SEEN), np.nan)
        self._x, self._f = np.zeros_like(x0), np.full(rows, np.inf)
        self._width = np.where(np.isfinite(width), width, np.ptp(x0, axis=0))
        self._ended = np.zeros(rows, dtype=bool)

    def __call__(self, state: State) -> NDArray[np.bool_]:
        """Return a mask of the active rows to stop."""
        rows, k = np.asarray(state.rows), np.asarray(state.k)
        f, x = np.asarray(state.fun), np.asarray(state.x)
        self._f[rows], self._x[rows], self._ended[rows] = f, x, ~np.asarray(state.running)
        gain = self._gained[rows, k % SEEN] - f
        self._gained[rows, k % SEEN] = f
        best = self._f.min()
        out = (k > SEEN) & (f - best > HOPE * gain)
        if self._ended.any():
            first = np.flatnonzero(self._ended)
            first = first[self._f[first] <= np.sort(f)[-1]]
            apart = np.abs(x[:, None, :] - self._x[first]) <= NEAR * self._width
            out |= (apart.all(axis=-1) & (self._f[first] <= f[:, None])).any(axis=1)
        return out


def descend(
    fun: Any, x0: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, iters: int | None = None,
    evals: int | None = None, seconds: float | None = None, ftol: float | None = None,
    gtol: float | None = None, memory: int = 10, trials: int = 20, race: bool = False,
) -> Result:  # fmt: skip
    """Minimise, within bounds, a function that returns f and ∇f for a batch."""
    usual = 1e-6 if x0.dtype == np.float32 else 2.2e-9
    return minimize(
        fun, x0, method=Restarts(memory), jac=True, bounds=list(zip(low, high, strict=True)),
        step=Armijo(grow=GROW, longest=1.0, trials=trials),
        budget=Budget(iters=iters, evals=evals, seconds=seconds), gtol=gtol,
        ftol=usual if ftol is None else ftol,
        callback=Race(x0, low, high) if race and len(x0) > 1 else None, trace=False,
    )  # fmt: skip


class Restarts(CGDAuto):
    """cgd-auto for many starts of which only the best matters: saddles are not escaped."""

    escapes_saddles = False  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]
