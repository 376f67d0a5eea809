"""The hyperparameters of a Gaussian process, from one start or from many in one batch."""

# much of what torch and BoTorch return has no types
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportConstantRedefinition=false, reportUnknownLambdaType=false

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import numpy as np
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import OptimizationWarning
from botorch.optim.closures import get_loss_closure, get_loss_closure_with_grads
from botorch.optim.closures.core import NdarrayOptimizationClosure
from botorch.optim.core import OptimizationResult, OptimizationStatus
from botorch.optim.utils import get_parameters_and_bounds, sample_all_priors
from botorch.optim.utils.numpy_utils import get_bounds_as_ndarray
from linear_operator.utils.errors import NanError, NotPSDError
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call
from torch.nn import Module

from ..._call.minimize import minimize
from ..._call.multistart import GROW, descend
from ..._core.result import Result
from ..._core.status import Status
from ..._tools.check import whole
from ...budget import Budget
from ...directions import CGDAuto
from ...steps import Armijo
from ._rows import Evaluation, read_options

LIMITS = (Status.MAX_ITERATIONS, Status.MAX_EVALUATIONS, Status.MAX_GRADIENTS, Status.MAX_SECONDS)


def fit(
    mll: Any,
    parameters: Mapping[str, Tensor] | None = None,
    bounds: Mapping[str, Any] | None = None,
    closure: Callable[[], tuple[Tensor, Any]] | None = None,
    options: Mapping[str, Any] | None = None,
    timeout_sec: float | None = None,
    restarts: int = 1,
) -> OptimizationResult:
    """Fit a GPyTorch model by its marginal log likelihood, for `fit_gpytorch_mll(mll, optimizer=…)`.

    Parameters
    ----------
    mll : MarginalLogLikelihood
        Its negative is minimised, and its model's parameters are set to the best found.
    parameters : dict, optional
        The parameters to fit; by default all that require a gradient.
    bounds : dict, optional
        Limits by parameter name, in addition to those of their constraints.
    closure : callable, optional
        Replaces BoTorch's own evaluation of the loss and its gradients, for one start.
    options : dict, optional
        As for `gen_candidates`, but `race` is False: at first many starts drawn from priors are far behind.
    timeout_sec : float, optional
        Time limit in seconds.
    restarts : int
        The number of starts: the current parameters, and others drawn from their priors, in one batch. The
        model must be an exact GP of GPyTorch, whose modules take parameters with a leading axis. Pass it as
        `optimizer_kwargs={"restarts": 8}`.

    Returns
    -------
    botorch.optim.core.OptimizationResult

    Examples
    --------
    >>> import torch
    >>> from botorch.fit import fit_gpytorch_mll
    >>> from botorch.models import SingleTaskGP
    >>> from gpytorch.mlls import ExactMarginalLogLikelihood
    >>> from steepen.integrations.botorch import fit
    >>> X = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    >>> model = SingleTaskGP(X, (6 * X).sin())
    >>> mll = ExactMarginalLogLikelihood(model.likelihood, model)
    >>> mll = fit_gpytorch_mll(mll, optimizer=fit, optimizer_kwargs={"restarts": 4})
    >>> bool(0.1 < model.covar_module.lengthscale.item() < 1.0)
    True
    """
    whole("restarts", restarts, 1)
    begun, settings = monotonic(), read_options(options, memory=30) | {"seconds": timeout_sec}
    known, limits = get_parameters_and_bounds(mll)
    fitted = {n: p for n, p in known.items() if p.requires_grad} if parameters is None else dict(parameters)
    if not fitted:
        raise ValueError("parameters: expected some that require a gradient, got none")
    box: Any = get_bounds_as_ndarray(fitted, {**limits, **(bounds or {})})
    if box is None:
        box = np.tile([-np.inf, np.inf], (sum(p.numel() for p in fitted.values()), 1))
    if restarts > 1 and closure is not None:
        raise UnsupportedError("closure: it evaluates one start only; omit it, or set restarts=1")
    both = get_loss_closure_with_grads(mll, fitted) if closure is None else closure
    evaluate: Any = NdarrayOptimizationClosure(both, fitted)
    found = _many(mll, fitted, box, restarts, settings) if restarts > 1 else _one(evaluate, box, settings)
    evaluate.state = np.asarray(found.x)
    f, status = float(found.fun), Status(int(found.status))
    how = OptimizationStatus.STOPPED if status in LIMITS else OptimizationStatus.SUCCESS
    if not np.isfinite(f) and status not in LIMITS:
        said = f"The fit found no finite likelihood: {status.name}."
        warnings.warn(said, OptimizationWarning, stacklevel=2)
        how = OptimizationStatus.FAILURE
    return OptimizationResult(int(found.nit), f, how, monotonic() - begun, status.name)


def _one(evaluate: Any, box: NDArray[Any], settings: dict[str, Any]) -> Result:
    def loss(x: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        f, g = evaluate(x)  # NaN if the matrix is not positive definite
        return float(f), g

    limits = {name: settings[name] for name in ("iters", "evals", "seconds")}
    return minimize(
        loss, evaluate.state, method=CGDAuto(settings["memory"]), jac=True, bounds=box.tolist(),
        step=Armijo(grow=GROW, longest=1.0, trials=settings["trials"]), budget=Budget(**limits), trace=False,
        gtol=settings["gtol"], ftol=2.2e-9 if settings["ftol"] is None else settings["ftol"],
    )  # fmt: skip


def _many(
    mll: Any, fitted: dict[str, Tensor], box: NDArray[Any], restarts: int, settings: dict[str, Any]
) -> Result:
    """Return the best run."""
    loss, like = Module(), next(iter(fitted.values())).detach()
    loss.mll, loss.forward = mll, get_loss_closure(mll)  # on the training data, for each row of parameters
    sizes = [p.numel() for p in fitted.values()]

    def values(rows: Tensor) -> Tensor:
        parts = zip(fitted.items(), rows.split(sizes, dim=1), strict=True)
        state = {f"mll.{name}": part.reshape(len(rows), *p.shape) for (name, p), part in parts}
        try:
            # the likelihood is one module in two places, and must not be replaced twice
            value: Tensor = functional_call(loss, state, (), tie_weights=False)
        except (NotPSDError, NanError):
            return rows.sum(dim=-1) * torch.nan
        return value.reshape(len(rows), -1).sum(dim=-1)

    starts = _draws(mll, fitted, restarts).clip(*box.T)
    with torch.no_grad():
        if values(torch.from_numpy(starts).to(like)).shape != (restarts,):
            raise UnsupportedError("restarts: this model's parameters take no leading axis; use restarts=1")
    rows = settings.pop("rows")
    result = descend(Evaluation("mll", values, like, rows), starts, *box.T, **settings)
    f = np.where(np.isfinite(result.fun), result.fun, np.inf)
    best = int(np.argmin(f))
    return result.row(best)


def _draws(mll: Any, fitted: Mapping[str, Tensor], restarts: int) -> NDArray[np.float64]:
    """Return the current parameters, and others drawn from their priors, one vector per row."""
    present = {name: p.detach().clone() for name, p in mll.named_parameters()}

    def vector() -> NDArray[np.float64]:
        return torch.cat([p.detach().reshape(-1) for p in fitted.values()]).cpu().double().numpy()

    rows = [vector()]
    for _ in range(restarts - 1):
        sample_all_priors(mll.model)
        rows.append(vector())
    for name, p in mll.named_parameters():
        p.data = present[name]  # a draw may have changed its shape
    return np.stack(rows)
