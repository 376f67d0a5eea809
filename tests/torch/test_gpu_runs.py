"""Runs on a GPU's arrays are those on a CPU's.

The tests are plain functions without fixtures, so that a machine without pytest can run them in a loop.
"""

import torch

import steepen as st

try:
    import pytest
except ImportError:
    pytestmark = []
else:
    pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

DEVICE = "cuda"
METHODS = ("gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto")


def bowl(x):
    """A valley that is bent a little: every method gets down, and none is chaotic."""
    return (x**2 * torch.arange(1, x.shape[-1] + 1, device=x.device)).sum(-1) + 0.1 * (x[..., 0] ** 4)


def check(x0, **given):
    """Run on both; hold that they end at the same place, to gtol."""
    there, here = (
        st.minimize(bowl, x0.to(device), jac="torch", budget=st.Budget(grads=60), **given)
        for device in (DEVICE, "cpu")
    )
    assert there.x.device.type == DEVICE
    torch.testing.assert_close(there.x.cpu(), here.x, rtol=0.0, atol=1e-5)
    assert x0.ndim > 1 or there.status == here.status
    return there


def test_every_method_ends_where_it_does_on_a_cpu():
    batch = torch.rand(200, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    for method in METHODS:
        check(batch[0], method=method)
        check(batch, method=method)


def test_bounds_hold_on_a_gpu():
    x0 = torch.linspace(0.5, 1.5, 6, dtype=torch.float64)
    assert bool((check(x0, bounds=[(0.25, 2.0)] * 6).x >= 0.25).all())
