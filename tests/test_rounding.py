"""What `make test-rounding` does to functions is what other CPUs do: a last bit, and nothing else."""

import numpy as np
import pytest

from .rounding import off


def grad(x):
    return np.cos(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_values_move_by_a_last_bit_up_or_down_or_not_at_all(dtype):
    x = np.linspace(0.1, 1.4, 300).astype(dtype)
    real = np.float32 if dtype is np.float32 else np.float64
    exact, moved = (f(x).view(real) for f in (grad, off(grad, "1")))
    assert moved.dtype == exact.dtype
    bits = moved.view(f"i{real().itemsize}") - exact.view(f"i{real().itemsize}")
    assert set(bits.tolist()) == {-1, 0, 1}


def test_a_point_has_its_value_alone_and_in_a_batch():
    points = np.random.default_rng(0).standard_normal((40, 3))
    for f in (off(grad, "1"), off(lambda x: np.sin(x).sum(axis=-1), "2")):
        together = f(np.asfortranarray(points))
        np.testing.assert_array_equal(together, [f(point) for point in points])
        np.testing.assert_array_equal(together, f(points))
