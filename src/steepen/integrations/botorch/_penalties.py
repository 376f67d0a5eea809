"""A gradient penalty, the paper's future work, for users of PenalizedAcquisitionFunction; changes nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

TINY = 1e-30  # under the root, so that its derivative is finite where the gradient vanishes


class GradientPenalty(Module):
    """√(∇μᵀΣ∇μ): to first order, the standard deviation of the posterior mean if x has covariance Σ.

    A penalty for BoTorch's `PenalizedAcquisitionFunction`, for inputs that cannot be set exactly; for q
    points, the largest of theirs. It costs one gradient of μ, but vanishes at the top of every peak, even
    a sharp one. With `curvature` it is √(∇μᵀΣ∇μ + ½·tr(HΣHΣ)), the deviation to second order, for d more
    gradients, and prefers flat optima.

    Parameters
    ----------
    model : botorch.models.model.Model
        A model with one output, whose posterior mean has a gradient.
    covariance : number or Tensor
        Σ: a variance for all features, one for each (d,), or a matrix (d, d); in the model's units of x.
    curvature : bool
        Whether to include the Hessian H of μ.

    Examples
    --------
    >>> import torch
    >>> from botorch.models import SingleTaskGP
    >>> from steepen.integrations.botorch import GradientPenalty
    >>> X = torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    >>> penalty = GradientPenalty(SingleTaskGP(X, (6 * X).sin()), 0.01)
    >>> top, side = penalty(torch.tensor([[[0.262]], [[0.5]]], dtype=torch.float64))
    >>> bool(top < 0.1 * side)
    True
    """

    def __init__(self, model: Any, covariance: float | Tensor, curvature: bool = False):
        super().__init__()
        sigma = torch.as_tensor(covariance, dtype=torch.float64).detach()
        if sigma.ndim > 2 or (sigma.ndim == 2 and sigma.shape[0] != sigma.shape[1]):
            raise ValueError(f"covariance: expected a number, shape (d,) or (d, d); got {tuple(sigma.shape)}")
        matrix = sigma if sigma.ndim == 2 else sigma.reshape(-1).diag()
        near = 1e-6 * matrix.abs().max() * (sigma.ndim == 2)
        even = bool((matrix - matrix.mT).abs().max() <= near)  # not if one is not finite
        if not even or bool(torch.linalg.eigvalsh(matrix).min() < -near):
            raise ValueError(f"covariance: expected variances or a covariance matrix, got {covariance!r}")
        if getattr(model, "num_outputs", 1) != 1:
            raise ValueError(f"model: expected one output, got {model.num_outputs}")
        self.model, self.covariance, self.curvature = model, sigma, curvature

    def forward(self, X: Tensor) -> Tensor:
        """Return the penalty of each batch of q points."""
        with torch.enable_grad():
            x = X if X.requires_grad else X.detach().requires_grad_()
            mean = self.model.posterior(x).mean
            (g,) = torch.autograd.grad(mean.sum(), x, create_graph=True)
            d, sigma = g.shape[-1], self.covariance.to(g)
            if sigma.numel() not in (1, d, d * d):
                raise ValueError(f"covariance: {tuple(sigma.shape)} does not fit points with {d} features")
            sigma = sigma if sigma.ndim == 2 else sigma.expand(d).diag()
            variance = (g * (g @ sigma)).sum(dim=-1)
            if self.curvature:
                sums = [part.sum() for part in g.unbind(dim=-1)]
                rows = [torch.autograd.grad(total, x, create_graph=True)[0] for total in sums]
                spread = torch.stack(rows, dim=-2) @ sigma
                variance = variance + (spread * spread.mT).sum(dim=(-1, -2)) / 2
            penalty = (variance.clamp(min=0) + TINY).sqrt().max(dim=-1).values
        return penalty if X.requires_grad else penalty.detach()
