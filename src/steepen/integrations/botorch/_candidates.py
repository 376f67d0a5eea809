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
    inequality_constraints: Any = None,
    equality_constraints: Any = None,
    nonlinear_inequality_constraints: Any = None,
    options: Mapping[str, Any] | None = None,
    fixed_features: Mapping[int, float | Tensor | None] | None = None,
    timeout_sec: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Maximise an acquisition function from all starts at once, for `optimize_acqf(gen_candidates=…)`.

    Every restart is a row of one batched, bounded cgd-auto run. A call of the acquisition function evaluates
    one trial of every active row, with gradients from one backward pass. If the batch does not fit into a
    GPU's memory, it is evaluated in parts.

    Parameters
    ----------
    initial_conditions : Tensor
        The starts, of shape (b, q, d) or (q, d).
    acquisition_function : AcquisitionFunction
        Maps (b, q, d) to b values, each a function of its own q points alone.
    lower_bounds, upper_bounds : number or Tensor, optional
        The box: one value, or one for each of the d features.
    inequality_constraints, equality_constraints, nonlinear_inequality_constraints : optional
        Not supported: this minimiser handles bounds only. BoTorch's `gen_candidates_scipy` takes them.
    options : dict, optional
        By BoTorch's names: `maxiter` (2000), the most calls; `ftol` or `factr`, `gtol`, `pgtol` or `tol`,
        `maxcor`, `maxls`, `maxfun`; `max_optimization_problem_aggregation_size`, the most rows in a call. And
        `race` (True): a row stops early if it is too far behind the best for its rate of progress, or reaches
        the end point of a better one. The best candidate is the same, the others are less refined; set False
        if they matter, as with `return_best_only=False`.
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
    _eval_mode(acquisition_function)
    b, q, d = starts.shape
    fixed = _fixed_features(fixed_features, starts)
    low = _side("lower_bounds", lower_bounds, -np.inf, starts)
    high = _side("upper_bounds", upper_bounds, np.inf, starts)
    _check_box(low, high, starts, fixed)
    features = _Features(fixed, d)
    x = starts.clone()
    for i, value in fixed.items():
        x[..., i] = value

    def loss(points: Tensor) -> Tensor:
        return -acquisition_function(features.whole(points.view(-1, q, len(features.order))))

    values = None
    if features.free:
        evaluation = Evaluation(loss, starts, settings.pop("rows"))
        sides = [np.tile(features.side(low, -np.inf), q), np.tile(features.side(high, np.inf), q)]
        begun = x[..., features.order].reshape(b, -1).cpu().numpy()
        result = descend(evaluation, begun, *sides, seconds=timeout_sec, **settings)
        x = features.whole(torch.from_numpy(np.ascontiguousarray(result.x)).to(starts).view(b, q, -1))
        if np.any(result.nfev):
            values = -torch.from_numpy(np.asarray(result.fun)).to(starts)
    if values is None:  # nothing moves, or there was no time for it
        with torch.no_grad():
            values = acquisition_function(x)
    lost = ~values.isfinite()
    if bool(lost.all()):
        warnings.warn(
            "No start has a finite acquisition value and gradient.", OptimizationWarning, stacklevel=2
        )
    values = torch.where(lost & ~(values == torch.inf), -torch.inf, values)
    return x.reshape(initial_conditions.shape).detach(), values.detach()


class _Features:
    """Which of d features move; those that are fixed row by row stay in x behind them."""

    def __init__(self, fixed: Mapping[int, Tensor], d: int) -> None:
        self.d, self.free = d, [i for i in range(d) if i not in fixed]
        self.rows = [i for i, value in fixed.items() if value.numel() > 1]
        self.order = self.free + self.rows
        self.constants = {i: value for i, value in fixed.items() if i not in self.rows}

    def whole(self, part: Tensor) -> Tensor:
        """Return all features of points that have only those that move, and those that differ by row."""
        if len(self.free) == self.d:
            return part
        columns: list[Any] = [None] * self.d
        for place, i in enumerate(self.order):
            columns[i] = part[..., place] if i in self.free else part[..., place].detach()
        for i, value in self.constants.items():
            columns[i] = value.expand(part.shape[:-1])
        return torch.stack(columns, dim=-1)

    def side(self, bound: NDArray[Any], infinite: float) -> NDArray[Any]:
        """Return a side of the box of those in x."""
        return np.r_[bound[self.free], np.full(len(self.rows), infinite)]


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


def _eval_mode(acquisition_function: Any) -> None:
    model = getattr(acquisition_function, "model", None)
    if getattr(model, "training", False):
        warnings.warn(
            "acquisition_function: its model was in training mode and is set to evaluation mode",
            InputDataWarning,
            stacklevel=3,
        )
        model.eval()  # pyright: ignore


def _fixed_features(given: Mapping[int, float | Tensor | None] | None, starts: Tensor) -> dict[int, Tensor]:
    """Return the values of fixed features, which broadcast to (b, q)."""
    b, q, d = starts.shape
    fixed: dict[int, Tensor] = {}
    for i, value in (given or {}).items():
        if not isinstance(i, int) or not -d <= i < d:
            raise ValueError(f"fixed_features: expected features between 0 and {d - 1}, got {i!r}")
        if value is None:
            raise UnsupportedError(f"fixed_features: expected a value for feature {i}, got None")
        tensor = torch.as_tensor(value, dtype=starts.dtype, device=starts.device).detach()
        if tensor.numel() > 1:
            shape = tuple(tensor.shape)
            if shape not in ((b,), (b, 1), (b, q)):
                raise ValueError(
                    f"fixed_features: expected a number or shape {(b,)} or {(b, q)}, got {shape}"
                )
            tensor = tensor.reshape(b, -1).expand(b, q)
        else:
            tensor = tensor.reshape(())
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"fixed_features: expected finite values for feature {i}, got {value!r}")
        fixed[i % d] = tensor
    return fixed


def _side(name: str, side: Any, infinite: float, starts: Tensor) -> NDArray[Any]:
    """Return one side of the box, a value for each feature."""
    d = int(starts.shape[-1])
    if side is None:
        return np.full(d, infinite)
    bound = torch.as_tensor(side, dtype=torch.float64).detach().cpu().numpy()
    if bound.shape not in ((), (1,), (d,)) or np.isnan(bound).any():
        raise ValueError(f"{name}: expected a number or {d} of them, got {side!r}")
    return np.array(np.broadcast_to(bound, d))


def _check_box(low: NDArray[Any], high: NDArray[Any], starts: Tensor, fixed: Mapping[int, Tensor]) -> None:
    """Raise an error for an empty box, and for starts or fixed features outside it."""
    for i in range(len(low)):
        if low[i] > high[i]:
            sides = f"({low[i]:g}, {high[i]:g})"
            raise ValueError(f"lower_bounds: expected low <= high, got {sides} for feature {i}")
        values = fixed.get(i, starts[..., i])
        least, most = values.min().item(), values.max().item()
        slack = 1e-6 if starts.dtype == torch.float32 else 1e-9
        under, over = slack * max(1, abs(low[i])), slack * max(1, abs(high[i]))
        if not (low[i] - under <= least and most <= high[i] + over):
            name = "fixed_features" if i in fixed else "initial_conditions"
            raise ValueError(
                f"{name}: expected values between {low[i]:g} and {high[i]:g} for feature {i}, "
                f"got {least:g} to {most:g}"
            )
