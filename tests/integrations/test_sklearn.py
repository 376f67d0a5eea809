"""Gaussian processes of scikit-learn's, fitted by ours."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from steepen.integrations.sklearn import Optimizer, optimizer


def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(30, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] + 0.05 * rng.standard_normal(30)


def kernel():
    return ConstantKernel(1.0) * RBF([0.5, 0.5], (1e-2, 1e2)) + WhiteKernel(1e-2)


@pytest.mark.parametrize("ours", [optimizer, Optimizer(restarts=6)])
def test_the_likelihood_is_that_of_scikit_learns_own_or_better(ours):
    reference = GaussianProcessRegressor(kernel()).fit(*data())
    found = GaussianProcessRegressor(kernel(), optimizer=ours).fit(*data())
    assert found.log_marginal_likelihood_value_ >= reference.log_marginal_likelihood_value_ - 1e-5


def test_restarts_find_what_one_poor_start_does_not():
    def two(theta, eval_gradient=True):
        assert theta.shape == (1,)
        f = theta**4 - 8 * theta**2 + 2 * theta
        return f[0], 4 * theta**3 - 16 * theta + 2

    box = [(-3.0, 3.0)]
    assert optimizer(two, [2.5], box)[0] > 0
    theta, value = Optimizer(restarts=8)(two, [2.5], box)
    assert theta[0] == pytest.approx(-2.06, abs=0.01)
    assert value == pytest.approx(two(theta)[0])


def test_restarts_that_fall_behind_stop_early():
    seen = []

    def counted(objective, theta, bounds):
        def once(theta, eval_gradient):
            seen.append(theta)
            return objective(theta, eval_gradient=eval_gradient)

        for start in (theta, *np.random.default_rng(0).uniform(*bounds.T, size=(7, len(theta)))):
            optimizer(once, start, bounds)
        alone = len(seen)
        found = Optimizer(restarts=8)(once, theta, bounds)
        assert len(seen) - alone < 0.8 * alone
        return found

    GaussianProcessRegressor(kernel(), optimizer=counted).fit(*data())


def test_wrong_arguments():
    with pytest.raises(ValueError, match="restarts: expected a whole number"):
        Optimizer(restarts=0)
    with pytest.raises(ValueError, match="restarts: to draw starts"):
        Optimizer(restarts=2)(lambda *_: None, [0.0], [(-np.inf, 1.0)])
