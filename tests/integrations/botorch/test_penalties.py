"""The gradient penalty against differences, in BoTorch's own PenalizedAcquisitionFunction."""

from types import SimpleNamespace

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.acquisition.penalized import PenalizedAcquisitionFunction
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf

from steepen.integrations.botorch import GradientPenalty, gen_candidates

D = torch.float64


@pytest.fixture(scope="module")
def model():
    X = torch.rand(15, 2, dtype=D, generator=torch.Generator().manual_seed(0))
    found = SingleTaskGP(X, (5 * X).sin().sum(-1, keepdim=True))
    found.covar_module.lengthscale = 0.3
    return found.eval()


def difference(function, x, h=1e-6):
    eye = torch.eye(x.shape[-1], dtype=D)
    return torch.stack([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in eye], dim=-1)


SIGMA = torch.tensor([[0.02, 0.01], [0.01, 0.03]], dtype=D)


@pytest.mark.parametrize("sigma", [0.01, SIGMA.diagonal(), SIGMA], ids=["number", "variances", "matrix"])
def test_the_penalty_is_the_deviation_to_first_order(model, sigma):
    matrix = sigma if sigma is SIGMA else torch.as_tensor(sigma, dtype=D).expand(2).diag()
    X = torch.rand(4, 3, 2, dtype=D, generator=torch.Generator().manual_seed(2))
    g = difference(lambda x: model.posterior(x).mean[..., 0].detach(), X)
    expected = torch.einsum("bqi,ij,bqj->bq", g, matrix, g).sqrt().max(dim=-1).values
    torch.testing.assert_close(GradientPenalty(model, sigma)(X), expected, rtol=1e-5, atol=1e-7)


def test_penalised_functions_have_right_gradients_and_are_optimised(model):
    raw, penalty = LogExpectedImprovement(model, best_f=0.5), GradientPenalty(model, 0.01)
    whole = PenalizedAcquisitionFunction(raw, penalty, 5.0)
    X = torch.rand(3, 1, 2, dtype=D, generator=torch.Generator().manual_seed(4)).requires_grad_()
    (g,) = torch.autograd.grad(whole(X).sum(), X)
    expected = difference(lambda x: whole(x).detach(), X.detach())
    torch.testing.assert_close(g[:, 0], expected, rtol=1e-4, atol=1e-4)
    box = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
    best, value = optimize_acqf(whole, box, 1, 4, 32, gen_candidates=gen_candidates)
    assert torch.isfinite(value)
    plain, _ = optimize_acqf(raw, box, 1, 4, 32, gen_candidates=gen_candidates)
    assert penalty(best[None]) <= penalty(plain[None]) + 1e-3


def test_bad_input(model):
    X = torch.zeros(2, 1, 2, dtype=D)
    two = SingleTaskGP(torch.rand(5, 2, dtype=D), torch.rand(5, 2, dtype=D))
    for message, wrong in (
        ("covariance: expected", lambda: GradientPenalty(model, torch.zeros(2, 3))),
        ("covariance: expected", lambda: GradientPenalty(model, -1.0)),
        ("covariance: expected", lambda: GradientPenalty(model, torch.tensor([[1.0, 2.0], [2.0, 1.0]]))),
        ("covariance: expected", lambda: GradientPenalty(model, torch.tensor([[1.0, 0.5], [0.0, 1.0]]))),
        ("does not fit points with 2 features", lambda: GradientPenalty(model, torch.ones(3))(X)),
        ("model: expected one output, got 2", lambda: GradientPenalty(two, 1.0)),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


class Bowl:
    """A model whose mean is a quadratic."""

    num_outputs = 1
    H = torch.tensor([[3.0, 1.0], [1.0, -2.0]], dtype=D)

    def posterior(self, X):
        mean = X[..., 0] + 0.5 * ((X @ self.H) * X).sum(dim=-1)
        return SimpleNamespace(mean=mean[..., None])


def test_with_curvature_the_penalty_is_the_deviation_of_a_quadratic():
    X = torch.tensor([[[0.3, -0.2]], [[-6 / 7 / 3, 1 / 7]]], dtype=D)
    generator = torch.Generator().manual_seed(0)
    unit = torch.randn(100_000, 2, dtype=D, generator=generator)
    for sigma in (torch.tensor([[0.5, 0.2], [0.2, 0.3]]), torch.tensor([0.5, 0.1]), 0.4):
        matrix = torch.as_tensor(sigma, dtype=D)
        matrix = matrix if matrix.ndim == 2 else matrix.expand(2).diag()
        draws = unit @ torch.linalg.cholesky(matrix).mT
        seen = Bowl().posterior(X + draws).mean[..., 0].std(dim=-1)
        found = GradientPenalty(Bowl(), sigma, curvature=True)(X)
        torch.testing.assert_close(found, seen, rtol=0.02, atol=0.0)
        assert not found.requires_grad


def test_without_it_the_top_of_a_peak_costs_nothing_and_has_a_gradient():
    top = -torch.linalg.solve(Bowl.H, torch.tensor([1.0, 0.0], dtype=D))[None, None]
    penalty = GradientPenalty(Bowl(), 0.1)(top.requires_grad_())
    assert penalty.item() < 1e-12
    assert torch.isfinite(torch.autograd.grad(penalty.sum(), top)[0]).all()
    assert GradientPenalty(Bowl(), 0.1, curvature=True)(top.detach()).item() > 0.2


def test_a_slope_across_the_only_deviation_costs_nothing():
    """The variance there is 0, or by rounding a little less."""
    X, along = (
        torch.zeros(1, 1, 2, dtype=D),
        torch.rand(50, 2, dtype=D, generator=torch.Generator().manual_seed(1)),
    )
    for v in along:
        plane = SimpleNamespace(num_outputs=1)
        plane.posterior = lambda X, v=v: SimpleNamespace(mean=(X @ torch.stack([v[1], -v[0]]))[..., None])
        assert GradientPenalty(plane, torch.outer(v, v))(X).item() < 1e-7
