"""All restarts of an acquisition function in one batched, bounded run."""

# much of what torch and BoTorch return has no types
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportConstantRedefinition=false, reportUnknownLambdaType=false

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import InputDataWarning, OptimizationWarning
from numpy.typing import NDArray
from torch import Tensor

from ..._call.multistart import descend
from ._rows import Evaluation, read_options


def gen_candidates(
    initial_conditions: Tensor,
    acquisition_function: Callable[[Tensor], Tensor],
    lower_bounds: float | Tensor | None = None,
    upper_bounds: float | Tensor | None = None,
    *,
    inequality_constraints: Any = None,
    equality_constraints: Any = None,
    nonlinear_inequality_constraints: Any = None,
    options: Mapping[str, Any] | None = None,
    fixed_features: Mapping[int, float | Tensor | None] | None = None,
    timeout_sec: float | None = None,
) -> tuple[Tensor, Tensor]:
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
        By BoTorch's names: `maxiter` (2000), the most calls; `ftol` or `factr`, `gtol`, `pgtol` or `tol`,
        `maxcor`, `maxls`, `maxfun`; `max_optimization_problem_aggregation_size`, the most rows in a call. And
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
    _refuse(
        inequality_constraints=inequality_constraints, equality_constraints=equality_constraints,
        nonlinear_inequality_constraints=nonlinear_inequality_constraints,
    )  # fmt: skip
    settings = read_options(options, race=True)
    starts = _starts(initial_conditions)
    _set_eval_mode(acquisition_function)
    b, q, d = starts.shape
    x = starts.clone()
    fixed = _fix(x, fixed_features)
    low = _side("lower_bounds", lower_bounds, -np.inf, d)
    high = _side("upper_bounds", upper_bounds, np.inf, d)
    _check_box(low, high, x, fixed)
    low[fixed], high[fixed] = -np.inf, np.inf  # a fixed feature has no gradient, so it stays as it is
    held = torch.tensor([i in fixed for i in range(d)], device=x.device)

    def loss(rows: Tensor) -> Tensor:
        X = rows.view(-1, q, d)
        return -acquisition_function(torch.where(held, X.detach(), X) if fixed else X)

    evaluation = Evaluation("acquisition_function", loss, starts, settings.pop("rows"))
    begun, sides = x.reshape(b, -1).cpu().numpy(), (np.tile(low, q), np.tile(high, q))
    result = descend(evaluation, begun, *sides, seconds=timeout_sec, **settings)
    x = torch.from_numpy(np.ascontiguousarray(result.x)).to(starts).view(b, q, d)
    values = -torch.from_numpy(np.asarray(result.fun)).to(starts)
    if not np.any(result.nfev):  # out of time
        with torch.no_grad():
            values = acquisition_function(x)
    lost = ~values.isfinite()
    if bool(lost.all()):
        warnings.warn(
            "No start has a finite acquisition value and gradient.", OptimizationWarning, stacklevel=2
        )
    values = torch.where(lost & ~(values == torch.inf), -torch.inf, values)
    return x.reshape(initial_conditions.shape).detach(), values.detach()


def _refuse(**given: Any) -> None:
    for name, constraints in given.items():
        if constraints:
            raise UnsupportedError(
                f"{name}: steepen's gen_candidates supports bounds and fixed features only; "
                "BoTorch's gen_candidates_scipy takes constraints"
            )


def _starts(given: Any) -> Tensor:
    """Return the starts as (b, q, d)."""
    if not isinstance(given, Tensor) or given.dtype not in (torch.float32, torch.float64):
        kind = getattr(given, "dtype", type(given).__name__)
        raise TypeError(f"initial_conditions: expected a tensor of float64 or float32, got {kind}")
    if given.ndim not in (2, 3) or 0 in given.shape:
        raise ValueError(f"initial_conditions: expected shape (b, q, d) or (q, d), got {tuple(given.shape)}")
    if given.dtype == torch.float32:
        warnings.warn(
            "initial_conditions: in float32 an acquisition function has about seven digits, of which the "
            "search can use half; float64 finds better candidates",
            InputDataWarning,
            stacklevel=3,
        )
    return given.detach() if given.ndim == 3 else given.detach()[None]


def _set_eval_mode(acquisition_function: Any) -> None:
    model = getattr(acquisition_function, "model", None)
    if getattr(model, "training", False):
        warnings.warn(
            "acquisition_function: its model was in training mode and is set to evaluation mode",
            InputDataWarning,
            stacklevel=3,
        )
        model.eval()  # pyright: ignore


def _fix(x: Tensor, given: Mapping[int, float | Tensor | None] | None) -> list[int]:
    """Set the fixed features of the starts, and return their indices."""
    b, q, d = x.shape
    for i, value in (given or {}).items():
        if not isinstance(i, int) or not -d <= i < d:
            raise ValueError(f"fixed_features: expected features between 0 and {d - 1}, got {i!r}")
        if value is None:
            raise UnsupportedError(f"fixed_features: expected a value for feature {i}, got None")
        tensor = torch.as_tensor(value, dtype=x.dtype, device=x.device).detach()
        if tensor.numel() > 1 and tensor.shape not in ((b,), (b, 1), (b, q)):
            shape = tuple(tensor.shape)
            raise ValueError(f"fixed_features: expected a number or shape {(b,)} or {(b, q)}, got {shape}")
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"fixed_features: expected finite values for feature {i}, got {value!r}")
        x[..., i] = tensor.reshape(b if tensor.numel() > 1 else 1, -1)
    return sorted(i % d for i in given or {})


def _side(name: str, side: Any, infinite: float, d: int) -> NDArray[Any]:
    """Return one side of the box, a value for each feature."""
    bound = torch.as_tensor(infinite if side is None else side, dtype=torch.float64).detach().cpu().numpy()
    if bound.shape not in ((), (1,), (d,)) or np.isnan(bound).any():
        raise ValueError(f"{name}: expected a number or {d} of them, got {side!r}")
    return np.array(np.broadcast_to(bound, d))


def _check_box(low: NDArray[Any], high: NDArray[Any], x: Tensor, fixed: list[int]) -> None:
    """Raise ValueError for an empty box, and for starts or fixed features outside it."""
    slack = 1e-6 if x.dtype == torch.float32 else 1e-9
    for i in range(len(low)):
        if low[i] > high[i]:
            sides = f"({low[i]:g}, {high[i]:g})"
            raise ValueError(f"lower_bounds: expected low <= high, got {sides} for feature {i}")
        least, most = x[..., i].min().item(), x[..., i].max().item()
        under, over = slack * max(1, abs(low[i])), slack * max(1, abs(high[i]))
        if not (low[i] - under <= least and most <= high[i] + over):
            name = "fixed_features" if i in fixed else "initial_conditions"
            raise ValueError(
                f"{name}: expected values between {low[i]:g} and {high[i]:g} for feature {i}, "
                f"got {least:g} to {most:g}"
            )
