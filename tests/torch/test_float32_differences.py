"""Float32 tensors with finite differences: the error of the gradient is known, and told."""

import numpy as np
import pytest
import torch

import steepen as st
from steepen import Status

from ..pairs import pairs
from ..smooth import STARTS

SCHEME = pytest.mark.parametrize("scheme", ["2-point", "3-point"])


def test_the_error_of_a_rough_gradient_is_that_against_the_exact_one():
    """½·h·H for a one-sided difference, h = √ε: known here, since f is quadratic and 0 at its minimum."""
    curvature, x0 = torch.tensor([1e3, 2e3]), torch.full((2,), 1.5)
    fun = lambda x: (curvature * (x - 1) ** 2).sum() / 2  # noqa: E731
    res = st.minimize(fun, x0, jac="2-point", method="gd", step=4e-4)
    assert res.status is Status.INACCURATE_GRADIENT
    h = float(np.finfo(np.float32).eps) ** 0.5
    error = float(res.message.rpartition("about ")[2].split()[0].rstrip("."))
    assert error == pytest.approx(h / 2 * np.linalg.norm(curvature), rel=0.1)


@pairs(scheme=("2-point", "3-point"), rows=STARTS)
def test_a_rough_gradient_beside_bounds(scheme, rows):
    """Fixed variables have no error, and neither have held ones; at a bound the differences are shorter."""
    curvature = np.array([1e3, 2e3, 2e3, 500.0])
    bounds = np.array([(1, 1), (1.01, 3), (-np.inf, np.inf), (1 - 1e-6, np.inf)])
    asked = []

    def fun(x):
        asked.extend(np.atleast_2d(x.numpy(force=True)))
        return (torch.tensor(curvature, dtype=x.dtype) * (x - 1) ** 2).sum(axis=-1) / 2

    x0 = torch.full((3, 4) if rows == "many" else (4,), 1.5)
    res = st.minimize(fun, x0, jac=scheme, bounds=bounds, method="gd", step=4e-4, gtol=1e-2)
    assert np.sum(res.nfev) == len(asked)
    assert (np.array(asked)[:, 3] >= np.float32(1 - 1e-6)).all()
    x = np.atleast_2d(res.x.double().numpy())
    true = np.linalg.norm(np.clip(x - curvature * (x - 1), *bounds.T) - x, axis=-1)
    assert (true[np.atleast_1d(res.success)] < 1.1e-2).all()
    assert scheme == "3-point" or np.all(res.status == Status.INACCURATE_GRADIENT)


@SCHEME
def test_a_rough_gradient_that_is_good_enough_is_success(scheme):
    res = st.minimize(lambda x: ((x - 1) ** 2).sum(), torch.tensor([3.0, -2.0]), jac=scheme, gtol=1e-2)
    assert res.status is Status.CONVERGED
    assert 2 * (res.x.double() - 1).norm() < 1e-2
