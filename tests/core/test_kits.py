"""What NumPy does in place or by BLAS is what the general form of a kit does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from steepen._core.kits import Many, One, kit_for, numbers


@pytest.mark.parametrize("n", [2, 7, 8, 31, 32])
@pytest.mark.parametrize("rows", [None, 3])
def test_inner_products_come_together_whatever_their_size(n, rows):
    a, b, c = np.random.default_rng(n).standard_normal((3, n) if rows is None else (3, rows, n))
    pairs, length = ((a, b), (b, c), (a, a)), np.linalg.norm(a, axis=-1)
    for kit in (kit_for(a), (One if rows is None else Many)(a)):
        for value, pair in zip(kit.inner(*pairs), pairs, strict=True):
            np.testing.assert_allclose(value, (pair[0] * pair[1]).sum(axis=-1), rtol=1e-13, atol=1e-13 * n)
        for size in (1e-200, 1.0, 1e200):  # whose squares are out of range
            with np.errstate(all="ignore"):
                square = kit.dot(size * a, size * a)
            np.testing.assert_allclose(kit.root(square, size * a) / size, length, rtol=1e-13)


FLOATS = some.floats() | some.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308])


@given(FLOATS, FLOATS, FLOATS)
def test_functions_of_numbers_are_those_of_numpy(a, b, c):
    with np.errstate(all="ignore"):
        for name, args in {
            "maximum": (a, b), "minimum": (a, b), "clip": (a, b, c), "where": (a < b, a, b), "sqrt": (a,),
            "power": (a, b), "log2": (a,), "round": (a,), "isfinite": (a,),
        }.items():  # fmt: skip
            found, expected = getattr(numbers, name)(*args), getattr(np, name)(*args)
            assert found == expected or (np.isnan(found) and np.isnan(expected)), name


def test_a_number_of_numpy_leaves_float32_as_it_is():
    single = np.ones(3, np.float32)
    for kit in (kit_for(single), One(single)):
        assert kit.times(np.float64(0.3), single).dtype == np.float32
