"""BoTorch: acquisition functions and Gaussian processes by the batched, bounded cgd-auto.

`gen_candidates` goes into `botorch.optim.optimize_acqf(gen_candidates=…)`, `fit` into
`botorch.fit.fit_gpytorch_mll(optimizer=…)`, and the penalties into BoTorch's own
`PenalizedAcquisitionFunction`.

Examples
--------
>>> import torch
>>> from botorch.acquisition import LogExpectedImprovement
>>> from botorch.fit import fit_gpytorch_mll
>>> from botorch.models import SingleTaskGP
>>> from botorch.optim import optimize_acqf
>>> from gpytorch.mlls import ExactMarginalLogLikelihood
>>> from steepen.integrations.botorch import fit, gen_candidates
>>> X = torch.linspace(0, 1, 8, dtype=torch.float64)[:, None]
>>> Y = (6 * X).sin()
>>> model = SingleTaskGP(X, Y)
>>> mll = fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model), optimizer=fit)
>>> best, value = optimize_acqf(
...     LogExpectedImprovement(model, Y.max()), torch.tensor([[0.0], [1.0]], dtype=torch.float64), q=1,
...     num_restarts=4, raw_samples=16, gen_candidates=gen_candidates,
... )
>>> best.shape, bool(0.2 < best.item() < 0.3)
(torch.Size([1, 1]), True)
"""

from __future__ import annotations

from ..._tools.optional import load

load("botorch", "steepen.integrations.botorch", extra="botorch")

from ._candidates import gen_candidates  # noqa: E402
from ._fit import fit  # noqa: E402
from ._penalties import AcquisitionGradientPenalty, GradientPenalty, penalized  # noqa: E402

__all__ = ["AcquisitionGradientPenalty", "GradientPenalty", "fit", "gen_candidates", "penalized"]
