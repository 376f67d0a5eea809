"""`gen_candidates`, called by BoTorch's `optimize_acqf`: all restarts in one batched run; model unchanged."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import OptimizationWarning
from botorch.optim.utils import columnwise_clamp, fix_features
from numpy.typing import NDArray
from torch import Tensor

from ..._call.multistart import descend
from ._options import read_options


def gen_candidates(
    initial_conditions: Tensor, acquisition_function: Callable[[Tensor], Tensor],
    lower_bounds: float | Tensor | None = None, upper_bounds: float | Tensor | None = None, *,
    inequality_constraints: Any = None, equality_constraints: Any = None,
    nonlinear_inequality_constraints: Any = None, options: Mapping[str, Any] | None = None,
    fixed_features: Mapping[int, float | Tensor] | None = None, timeout_sec: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Maximise an acquisition function from all starts at once, for `optimize_acqf(gen_candidates=…)`.

    Every start is a row of one batched, bounded cgd-auto run: a call of the acquisition function evaluates
    one trial of every active row, or fewer if they do not fit into a GPU's memory.

    Parameters
    ----------
    initial_conditions : Tensor
        The starts, of shape (b, q, d) or (q, d).
    acquisition_function : AcquisitionFunction
        Maps (b, q, d) to b values, each a function of its own q points alone.
    lower_bounds, upper_bounds : number or Tensor, optional
        The box: one value, or one for each of the d features.
    inequality_constraints, equality_constraints, nonlinear_inequality_constraints : optional
        Not supported; BoTorch's `gen_candidates_scipy` takes them.
    options : dict, optional
        By BoTorch's names: `maxiter` (2000), the most calls; `ftol`, `gtol` (or `pgtol`, `tol`), `maxcor`,
        `maxls`, `maxfun`; `max_optimization_problem_aggregation_size`, the most rows in a call. And
        `race` (True): a row stops early if it is too far behind the best for its rate of progress, or reaches
        the end point of a better one. Set it to False if more than the best candidate matters, as with
        `return_best_only=False`.
    fixed_features : dict, optional
        Values of fixed features: a number, or a tensor of shape (b,) or (b, q).
    timeout_sec : float, optional
        Time limit in seconds; the best points so far are returned.

    Returns
    -------
    tuple of Tensor
        The candidates, in the shape of the starts, and b acquisition values; -inf for rows without a value.

    Examples
    --------
    >>> import torch
    >>> from steepen.integrations.botorch import gen_candidates
    >>> starts = torch.tensor([[[0.1]], [[0.9]]], dtype=torch.float64)
    >>> def bump(X):
    ...     return -((X - 0.4) ** 2).sum(dim=(-1, -2))
    >>> candidates, values = gen_candidates(starts, bump, 0.0, 1.0)
    >>> round(candidates.max().item(), 6), values.shape
    (0.4, torch.Size([2]))
    """
    for name, constraints in (
        ("inequality_constraints", inequality_constraints),
        ("equality_constraints", equality_constraints),
        ("nonlinear_inequality_constraints", nonlinear_inequality_constraints),
    ):
        if constraints:
            raise UnsupportedError(
                f"{name}: steepen's gen_candidates supports bounds and fixed features only; "
                "BoTorch's gen_candidates_scipy takes constraints"
            )
    settings = read_options(options, race=True)
    given: Any = initial_conditions
    if not isinstance(given, Tensor) or given.ndim not in (2, 3) or not given.numel():
        expected, shape = "a tensor of shape (b, q, d) or (q, d)", tuple(getattr(given, "shape", ()))
        raise ValueError(f"initial_conditions: expected {expected}, got {type(given).__name__} {shape}")
    starts = given.detach().reshape(-1, *given.shape[-2:])
    b, q, d = starts.shape
    fixed = dict(fixed_features or {})
    for i in fixed:
        if not 0 <= i < d:
            raise ValueError(f"fixed_features: expected features between 0 and {d - 1}, got {i!r}")
    x = columnwise_clamp(fix_features(starts, fixed), lower_bounds, upper_bounds, raise_on_violation=True)
    low, high = _side(lower_bounds, -np.inf, d), _side(upper_bounds, np.inf, d)
    low[list(fixed)], high[list(fixed)] = -np.inf, np.inf  # a fixed feature has no gradient, so it stays
    held = torch.tensor([i in fixed for i in range(d)], device=x.device)

    def loss(rows: Tensor) -> Tensor:
        X = rows.view(-1, q, d)
        return -acquisition_function(torch.where(held, X.detach(), X) if fixed else X)

    evaluation = Evaluation(loss, starts, settings.pop("rows", None))
    begun, sides = x.reshape(b, -1).cpu().numpy(), (np.tile(low, q), np.tile(high, q))
    result = descend(evaluation, begun, *sides, seconds=timeout_sec, **settings)
    x = torch.from_numpy(np.ascontiguousarray(result.x)).to(starts).view(b, q, d)
    values = -torch.from_numpy(np.asarray(result.fun)).to(starts)
    if not np.any(result.nfev):  # out of time
        with torch.no_grad():
            values = acquisition_function(x)
    if not bool(values.isfinite().any()):
        said = "No start has a finite acquisition value and gradient."
        warnings.warn(said, OptimizationWarning, stacklevel=2)
    values = values.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    return x.reshape(initial_conditions.shape).detach(), values.detach()


def _side(side: float | Tensor | None, infinite: float, d: int) -> NDArray[Any]:
    """Return one side of the box, a value for each feature."""
    bound = torch.as_tensor(infinite if side is None else side, dtype=torch.float64).detach().cpu().numpy()
    return np.array(np.broadcast_to(bound, d))


class Evaluation:
    """Evaluates f and ∇f of NumPy rows with a function of tensors, in parts if memory is short.

    `values` maps a tensor (rows, n) to one value per row; a call waits for the device once.
    """

    def __init__(self, values: Callable[[Tensor], Tensor], like: Tensor, rows: int | None):
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
            expected = f"one value for each of {len(X)} rows"
            raise ValueError(f"acquisition_function: expected {expected}, got shape {tuple(f.shape)}")
        if not f.requires_grad:
            raise ValueError("acquisition_function: its value has no gradient in torch's graph")
        (g,) = torch.autograd.grad(f.sum(), X)
        return torch.cat([f.detach()[:, None], g], dim=1)
