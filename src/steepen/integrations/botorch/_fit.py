"""`fit`, called by BoTorch's `fit_gpytorch_mll`: minimises, and sets the model's hyperparameters in place."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import numpy as np
from botorch.exceptions.warnings import OptimizationWarning
from botorch.optim.closures import get_loss_closure_with_grads
from botorch.optim.closures.core import NdarrayOptimizationClosure
from botorch.optim.core import OptimizationResult, OptimizationStatus
from botorch.optim.utils import get_parameters_and_bounds
from botorch.optim.utils.numpy_utils import get_bounds_as_ndarray
from numpy.typing import NDArray
from torch import Tensor

from ..._call.minimize import minimize
from ..._call.multistart import GROW
from ...budget import Budget
from ...methods import CGDAuto
from ...status import Status
from ...steps import Armijo
from ._options import read_options

LIMITS = (Status.MAX_ITERATIONS, Status.MAX_EVALUATIONS, Status.MAX_GRADIENTS, Status.MAX_SECONDS)


def fit(
    mll: Any, parameters: Mapping[str, Tensor] | None = None, bounds: Mapping[str, Any] | None = None,
    closure: Callable[[], tuple[Tensor, Any]] | None = None, options: Mapping[str, Any] | None = None,
    timeout_sec: float | None = None,
) -> OptimizationResult:  # fmt: skip
    """Fit a GPyTorch model by its marginal log likelihood, for `fit_gpytorch_mll(mll, optimizer=…)`.

    A likelihood may have several maxima. With BoTorch's `max_attempts=8, pick_best_of_all_attempts=True`,
    `fit_gpytorch_mll` fits from the current parameters and seven draws of their priors, and keeps the best.

    Parameters
    ----------
    mll : MarginalLogLikelihood
        Its negative is minimised, and its model's parameters are set to the best found.
    parameters : dict, optional
        The parameters to fit; by default all that require a gradient.
    bounds : dict, optional
        Limits by parameter name, in addition to those of their constraints.
    closure : callable, optional
        Replaces BoTorch's own evaluation of the loss and its gradients.
    options : dict, optional
        As for `gen_candidates`; there are no rows and no race.
    timeout_sec : float, optional
        Time limit in seconds.

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
    >>> mll = fit_gpytorch_mll(mll, optimizer=fit)
    >>> bool(0.1 < model.covar_module.lengthscale.item() < 1.0)
    True
    """
    begun, settings = monotonic(), read_options(options, memory=30, trials=20, ftol=2.2e-9)
    known, limits = get_parameters_and_bounds(mll)
    fitted = {n: p for n, p in known.items() if p.requires_grad} if parameters is None else dict(parameters)
    if not fitted:
        raise ValueError("parameters: expected some that require a gradient, got none")
    box: Any = get_bounds_as_ndarray(fitted, {**limits, **(bounds or {})})
    both = get_loss_closure_with_grads(mll, fitted) if closure is None else closure
    evaluate: Any = NdarrayOptimizationClosure(both, fitted)

    def loss(x: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        f, g = evaluate(x)  # NaN if the matrix is not positive definite
        return float(f), g

    found = minimize(
        loss, evaluate.state, method=CGDAuto(settings["memory"]), jac=True,
        bounds=None if box is None else box.tolist(), trace=False,
        step=Armijo(grow=GROW, longest=1.0, trials=settings["trials"]),
        budget=Budget(iters=settings["iters"], evals=settings.get("evals"), seconds=timeout_sec),
        gtol=settings.get("gtol"), ftol=settings["ftol"],
    )  # fmt: skip
    evaluate.state = np.asarray(found.x)
    f, status = float(found.fun), Status(int(found.status))
    how = OptimizationStatus.STOPPED if status in LIMITS else OptimizationStatus.SUCCESS
    if not np.isfinite(f) and status not in LIMITS:
        said = f"The fit found no finite likelihood: {status.name}."
        warnings.warn(said, OptimizationWarning, stacklevel=2)
        how = OptimizationStatus.FAILURE
    return OptimizationResult(int(found.nit), f, how, monotonic() - begun, status.name)
