"""`fit` in `fit_gpytorch_mll`: the likelihood of BoTorch's own fit or better."""

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim.closures import get_loss_closure, get_loss_closure_with_grads
from botorch.optim.core import OptimizationStatus
from botorch.optim.utils import get_parameters
from gpytorch.mlls import ExactMarginalLogLikelihood, SumMarginalLogLikelihood

from steepen._call.multistart import descend
from steepen.integrations.botorch import fit


def data(outputs=1):
    X = torch.rand(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    Y = torch.stack([(3 * X[:, 0] + i).sin() + X[:, 1] ** 2 for i in range(outputs)], dim=-1)
    return X, Y


def mll_of(outputs=1, listed=False):
    X, Y = data(outputs)
    if not listed:
        model = SingleTaskGP(X, Y)
        return ExactMarginalLogLikelihood(model.likelihood, model)
    model = ModelListGP(*(SingleTaskGP(X, y) for y in Y.split(1, dim=-1)))
    return SumMarginalLogLikelihood(model.likelihood, model)


def likelihood(mll):
    mll.train()
    value = -get_loss_closure(mll)().sum().item()
    mll.eval()
    return value


@pytest.mark.parametrize(("outputs", "listed"), [(1, False), (2, False), (2, True)])
def test_the_likelihood_is_that_of_botorchs_fit(outputs, listed):
    torch.manual_seed(0)
    reference = fit_gpytorch_mll(mll_of(outputs, listed))
    mll = fit_gpytorch_mll(mll_of(outputs, listed), optimizer=fit)
    assert not mll.training
    assert likelihood(mll) >= likelihood(reference) - 1e-5
    for ours, theirs in zip(mll.parameters(), reference.parameters(), strict=True):
        assert ours.shape == theirs.shape


def test_of_all_attempts_botorch_keeps_the_best():
    torch.manual_seed(0)

    def far():
        mll = mll_of()
        mll.model.likelihood.noise = 5.0
        mll.model.covar_module.lengthscale = 50.0
        return mll

    alone = likelihood(fit_gpytorch_mll(far(), optimizer=fit))
    found = fit_gpytorch_mll(far(), optimizer=fit, max_attempts=3, pick_best_of_all_attempts=True)
    assert likelihood(found) >= alone - 1e-6


@pytest.mark.parametrize("race", [True, False])
def test_a_start_that_takes_longer_is_not_given_up_where_there_are_no_bounds(race):
    def wells(x):
        return (((x**2 - 1) ** 2 + 0.3 * x)[:, 0], 4 * x * (x**2 - 1) + 0.3)

    x0, free = np.array([[0.95], [-50.0]]), np.array([np.inf])
    found = descend(wells, x0, -free, free, race=race)
    np.testing.assert_allclose(found.x, [[0.96], [-1.04]], atol=0.01)


def test_what_is_returned_and_which_parameters_move():
    mll = mll_of()
    name = "model.covar_module.raw_lengthscale"
    before = {n: p.detach().clone() for n, p in mll.named_parameters()}
    result = fit(mll, parameters={name: dict(mll.named_parameters())[name]})
    assert result.status == OptimizationStatus.SUCCESS
    assert result.fval == pytest.approx(-likelihood(mll))
    for n, p in mll.named_parameters():
        assert torch.equal(p, before[n]) == (n != name)
    assert fit(mll_of(), options={"maxiter": 2}).status == OptimizationStatus.STOPPED
    assert fit(mll_of(), timeout_sec=1e-9).message == "MAX_SECONDS"


def test_a_closure_of_ones_own_and_bounds():
    mll = mll_of()
    calls = 0
    inner = get_loss_closure_with_grads(mll, get_parameters(mll, requires_grad=True))

    def closure():
        nonlocal calls
        calls += 1
        return inner()

    fit(mll, closure=closure, bounds={"model.covar_module.raw_lengthscale": (0.1, 0.2)})
    assert calls > 2
    raw = mll.model.covar_module.raw_lengthscale
    assert ((raw >= 0.1) & (raw <= 0.2)).all()


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r'options."maxiter".: expected a whole number'):
        fit(mll_of(), options={"maxiter": 0})
    with pytest.raises(ValueError, match="parameters: expected some"):
        fit(mll_of().requires_grad_(False))


def test_no_likelihood_at_all_is_said_and_tried_again():
    mll = mll_of()
    mll.compute_custom_loss = lambda: sum(p.sum() for p in mll.parameters()) * torch.nan
    with pytest.warns(match="no finite likelihood"), pytest.raises(ModelFittingError):
        fit_gpytorch_mll(mll, optimizer=fit, max_attempts=2)
