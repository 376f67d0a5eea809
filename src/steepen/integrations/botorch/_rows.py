"""Many runs on a function of tensors: their state on the host, the function on the device of its model.

A call evaluates every row that still runs, takes values and gradients in one backward pass, and waits for the
device once.
"""

# much of what torch and BoTorch return has no types
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportConstantRedefinition=false, reportUnknownLambdaType=false

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import OptimizeWarning
from torch import Tensor

from ..._call.multistart import descend
from ..._core.result import Result
from ..._tools.check import meant, number, whole

Values = Callable[[Tensor], Tensor]
"""From a tensor (rows, n) to one value a row."""

NAMES = {
    "maxiter": "iters", "maxfun": "evals", "ftol": "ftol", "factr": "factr", "gtol": "gtol", "pgtol": "gtol",
    "tol": "gtol", "maxcor": "memory", "max_cor": "memory", "maxls": "trials", "race": "race",
    "max_optimization_problem_aggregation_size": "rows",
}  # fmt: skip
"""The options, by the names that BoTorch and SciPy's L-BFGS-B have for them, and `race`."""


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
        """Read options by BoTorch's names; warn of those that are not known."""
        read = dict(defaults)
        for name, value in (given or {}).items():
            if name not in NAMES:  # SciPy says so, too, and goes on: BoTorch hands all options to it
                said = f"options: {name!r} is not known, and is ignored; {meant(name, list(NAMES))}"
                warnings.warn(said, OptimizeWarning, stacklevel=3)
                continue
            ours = NAMES[name]
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
    """f and ∇f of rows in NumPy, from a function of tensors; fewer rows at a time if memory is short."""

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


def run(
    fun: Any, x0: NDArray[Any], box: Sequence[NDArray[Any]], options: Options, seconds: float | None
) -> Result:
    """Minimise a batch in a box."""
    return descend(
        fun, x0, box[0], box[1], iters=options.iters, evals=options.evals, seconds=seconds, ftol=options.ftol,
        gtol=options.gtol, memory=options.memory, trials=options.trials, race=options.race,
    )  # fmt: skip
