"""Many runs on a function of tensors: their state on the host, the function on the device of its model.

A call evaluates every row that still runs, takes values and gradients in one backward pass, and waits for the
device once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core.arrays import Array
from .._core.records import State
from .._core.result import Result
from .._core.space import Box
from .._minimize import minimize
from .._oracle.budget import Budget
from .._oracle.context import Context
from .._tools.check import number, one_of, whole
from ..directions import CGDAuto
from ..directions._pairs import Pairs
from ..steps import Armijo

Values = Callable[[Tensor], Tensor]
"""From a tensor (rows, n) to one value a row."""

NAMES = {
    "maxiter": "iters", "maxfun": "evals", "ftol": "ftol", "factr": "factr", "gtol": "gtol", "pgtol": "gtol",
    "tol": "gtol", "maxcor": "memory", "max_cor": "memory", "maxls": "trials", "race": "race",
    "max_optimization_problem_aggregation_size": "rows",
}  # fmt: skip
"""The options, by the names that BoTorch and SciPy's L-BFGS-B have for them, and `race`."""

SEEN = 5
"""A row is judged by what it has gained in so many calls."""

HOPE = 10.0
"""A row is given up if it is behind the best by more than so many times its gain."""

NEAR = 0.02
"""A row that is this near to a better one that has ended, in parts of the box, will end there too."""


FEW = 32
"""Up to so many variables, a metric is used as a matrix."""


class Options(NamedTuple):
    """How to go about it."""

    iters: int = 2000
    evals: int | None = None
    ftol: float | None = None
    gtol: float | None = None
    memory: int = 10
    trials: int = 20
    race: bool = False
    rows: int | None = None

    @staticmethod
    def of(given: Mapping[str, Any] | None, **defaults: Any) -> Options:
        """Read options by BoTorch's names."""
        read = dict(defaults)
        for name, value in (given or {}).items():
            ours = NAMES[one_of("options", name, NAMES)]
            if value is None:
                continue
            if ours in ("iters", "evals", "memory", "trials", "rows"):
                whole(f'options["{name}"]', value, 1)
            elif ours == "race":
                if not isinstance(value, bool):
                    raise TypeError(f'options["race"]: expected True or False, got {value!r}')
            else:
                number(f'options["{name}"]', value, "a number, 0 or more", least=0)
            if ours == "factr":
                ours, value = "ftol", value * float(np.finfo(np.float64).eps)
            read[ours] = value
        return Options(**read)


class Evaluation:
    """f and ∇f of rows, as NumPy arrays, from a function of tensors; fewer rows at a time if memory is short."""

    def __init__(self, values: Values, like: Tensor, rows: int | None = None):
        self._values, self._like, self._most = values, like, rows

    def __call__(self, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        X = torch.from_numpy(np.ascontiguousarray(x)).to(self._like)
        both = self._in_parts(X).cpu().numpy()
        return both[:, 0], both[:, 1:]

    def _in_parts(self, X: Tensor) -> Tensor:
        """Return f and ∇f side by side."""
        while True:
            try:
                return torch.cat([self._both(part) for part in X.split(self._most or len(X))])
            except torch.OutOfMemoryError:
                most = min(self._most or len(X), len(X))
                if most == 1:
                    raise
                self._most = most // 2
            if X.is_cuda:
                torch.cuda.empty_cache()

    def _both(self, X: Tensor) -> Tensor:
        X = X.detach().requires_grad_()
        with torch.enable_grad():
            f = self._values(X)
        if f.shape != X.shape[:1]:
            raise ValueError(f"expected one value for each of {len(X)} rows, got shape {tuple(f.shape)}")
        if not f.requires_grad:
            raise ValueError(
                "no derivative leads from the value back to the point, and so there is no gradient"
            )
        (g,) = torch.autograd.grad(f.sum(), X)
        return torch.cat([f.detach()[:, None], g], dim=1)


class Race:
    """Which rows have no prospect: those far behind, beside what they gain, and those that end where others did."""

    def __init__(self, rows: int, low: NDArray[Any], high: NDArray[Any]):
        self._gained = np.full((rows, SEEN), np.nan)
        self._x, self._f = np.zeros((rows, len(low))), np.full(rows, np.inf)
        self._width, self._ended = high - low, np.ones(rows, dtype=bool)

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
    fun: Any, x0: NDArray[Any], low: NDArray[Any], high: NDArray[Any], options: Options, seconds: float | None
) -> Result:
    """Minimise a batch in a box: one trial of every row in a call."""
    single = x0.dtype == np.float32
    race = Race(len(x0), low, high) if options.race and len(x0) > 1 else None
    return minimize(
        fun, x0, method=Restarts(options.memory), jac=True, bounds=list(zip(low, high, strict=True)),
        step=Armijo(grow=np.inf, longest=1.0, trials=options.trials, wait=False),
        budget=Budget(iters=options.iters, evals=options.evals, seconds=seconds),
        gtol=options.gtol, ftol=(1e-6 if single else 2.2e-9) if options.ftol is None else options.ftol,
        callback=race, trace=False,
    )  # fmt: skip


class Restarts(CGDAuto):
    """cgd-auto for one run among many, of few variables: its metric is used as a matrix.

    To look for a way down from a flat start is left to the other runs.
    """

    leaves = False  # pyright: ignore[reportAssignmentType]

    def _downhill(self, context: Context, pairs: Pairs, x: Array, g: Array) -> Array:
        space, kit = context.space, context.kit
        if kit.size is None or not isinstance(space, Box) or x.shape[-1] > FEW:
            return super()._downhill(context, pairs, x, g)
        return space.downhill_by(pairs.matrix(kit), x, g)
