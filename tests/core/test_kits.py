"""What NumPy does in place or by BLAS is what the general form of a kit does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepen._core.kits import Many, NumPyOne, One, kit_for, numbers

NS = [2, 7, 8, 31, 32]
ROUGH = {np.float64: 1e-13, np.float32: 2e-5}


def near(a: Any, b: Any, dtype: Any) -> None:
    b = np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=ROUGH[dtype], atol=ROUGH[dtype] * max(1.0, np.abs(b).max()))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", NS)
def test_vectors_and_matrices_of_a_single_run(n: int, dtype: Any) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((2, n)).astype(dtype)
    M = rng.standard_normal((n, n)).astype(dtype)
    M = M + M.T
    A = rng.standard_normal((5, n)).astype(dtype)
    fast, plain = NumPyOne(a), One(a)
    for kit in (fast, plain):
        near(kit.dot(a, b), np.dot(a.astype(float), b.astype(float)), dtype)
        near(kit.norm(a), np.linalg.norm(a.astype(float)), dtype)
        near(kit.times(0.3, a), 0.3 * a, dtype)
        assert kit.times(np.float64(0.3), a).dtype == dtype
        near(kit.dots(A, a), A @ a, dtype)
        near(kit.mix(A @ a, A), A.T @ (A @ a), dtype)
        near(kit.product(M, a), M @ a, dtype)
        one = kit.rank_one(np.asfortranarray(M), 0.5, a)
        near(kit.product(one, b), (M + 0.5 * np.outer(a, a)) @ b, dtype)
        two = kit.rank_two(np.asfortranarray(M), -2.0, a, b)
        near(kit.product(two, b), (M - 2 * (np.outer(a, b) + np.outer(b, a))) @ b, dtype)
        assert kit.finite(a)
        assert not kit.finite(np.where(np.arange(n) == 1, np.inf, a))


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize("rows", [None, 3])
def test_inner_products_come_together(n: int, rows: int | None) -> None:
    rng = np.random.default_rng(n)
    a, b, c = rng.standard_normal((3, n) if rows is None else (3, rows, n))
    for kit in (kit_for(a), (One if rows is None else Many)(a)):
        found = kit.inner((a, b), (b, c), (a, a))
        for value, pair in zip(found, ((a, b), (b, c), (a, a)), strict=True):
            near(value, (pair[0] * pair[1]).sum(axis=-1), np.float64)
        near(kit.root(found[2], a), np.linalg.norm(a, axis=-1), np.float64)
        for size in (1e-200, 1e200):  # whose squares are out of range
            long = size * a
            with np.errstate(all="ignore"):
                square = kit.dot(long, long)
            near(kit.root(square, long) / size, np.linalg.norm(a, axis=-1), np.float64)


FLOATS = st.floats() | st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308])


@given(FLOATS, FLOATS, FLOATS)
def test_functions_of_numbers_are_those_of_numpy(a: float, b: float, c: float) -> None:
    with np.errstate(all="ignore"):
        for name, args in {
            "maximum": (a, b), "minimum": (a, b), "clip": (a, b, c), "where": (a < b, a, b), "sqrt": (a,),
            "power": (a, b), "log2": (a,), "round": (a,), "isfinite": (a,),
        }.items():  # fmt: skip
            found, expected = getattr(numbers, name)(*args), getattr(np, name)(*args)
            assert found == expected or (np.isnan(found) and np.isnan(expected)), name
