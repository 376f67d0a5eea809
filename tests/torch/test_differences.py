"""Differences of functions of tensors."""

import numpy as np
import pytest
import torch

from ..differences.answers import adaptive_of, arrived, gradient_of

START = np.array([0.4, -2.0, 8.0])


def smooth(x):
    return (np.arange(1, len(x) + 1) * (x - 1.3) ** 2).sum() + np.exp(0.3 * x).sum()


@pytest.mark.parametrize("make", [adaptive_of, gradient_of])
def test_tensors_stay_tensors(make):
    kinds = []

    def fun(x):
        kinds.append(type(x))
        return smooth(x.numpy())

    run, _ = arrived(make(torch.tensor(START)), fun, torch.tensor(START))
    assert set(kinds) == {torch.Tensor}
    assert isinstance(run.here.g, torch.Tensor)
    alone, _ = arrived(make(START), smooth, START)
    np.testing.assert_allclose(run.here.g.numpy(), alone.here.g, rtol=1e-9)
