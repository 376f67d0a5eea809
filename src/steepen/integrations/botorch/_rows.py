"""Options by BoTorch's names, and the evaluation of a batch: state on the host, function on its device."""

# much of what torch and BoTorch return has no types
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportConstantRedefinition=false, reportUnknownLambdaType=false

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import OptimizeWarning
from torch import Tensor

from ..._tools.check import meant, number, whole

NAMES = {
    "maxiter": "iters", "maxfun": "evals", "ftol": "ftol", "factr": "factr", "gtol": "gtol", "pgtol": "gtol",
    "tol": "gtol", "maxcor": "memory", "max_cor": "memory", "maxls": "trials", "race": "race",
    "max_optimization_problem_aggregation_size": "rows",
}  # fmt: skip
"""The options, by the names that BoTorch and SciPy's L-BFGS-B have for them, and `race`."""

DEFAULTS = {
    "iters": 2000, "evals": None, "ftol": None, "gtol": None, "memory": 10, "trials": 20, "race": False,
    "rows": None,
}  # fmt: skip


def read_options(given: Mapping[str, Any] | None, **defaults: Any) -> dict[str, Any]:
    """Read options by BoTorch's names; warn of unknown ones, as SciPy does."""
    read = DEFAULTS | defaults
    for name, value in (given or {}).items():
        if name not in NAMES:
            said = f"options: {name!r} is unknown and is ignored; {meant(name, list(NAMES))}"
            warnings.warn(said, OptimizeWarning, stacklevel=3)
            continue
        ours, argument = NAMES[name], f'options["{name}"]'
        if value is None:
            continue
        if ours in ("iters", "evals", "memory", "trials", "rows"):
            whole(argument, value, 1)
        elif ours != "race":
            number(argument, value, "a number, 0 or more", least=0)
        elif not isinstance(value, bool):
            raise TypeError(f"{argument}: expected True or False, got {value!r}")
        if ours == "factr":
            ours, value = "ftol", value * float(np.finfo(np.float64).eps)
        read[ours] = value
    return read


class Evaluation:
    """Evaluates f and ∇f of NumPy rows with a function of tensors, in parts if memory is short.

    `values` maps a tensor (rows, n) to one value per row, for the argument `name`; a call waits for the
    device once.
    """

    def __init__(self, name: str, values: Callable[[Tensor], Tensor], like: Tensor, rows: int | None):
        self._name, self._values, self._like, self._most = name, values, like, rows

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
            expected = f"expected one value for each of {len(X)} rows"
            raise ValueError(f"{self._name}: {expected}, got shape {tuple(f.shape)}")
        if not f.requires_grad:
            raise ValueError(f"{self._name}: its value has no gradient in torch's graph")
        (g,) = torch.autograd.grad(f.sum(), X)
        return torch.cat([f.detach()[:, None], g], dim=1)
