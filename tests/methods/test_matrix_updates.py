"""Quasi-Newton updates: the textbook's formulas, in place or not, and the secant equation."""

import numpy as np
import pytest

from steepen.methods.matrix import LARGE, updated


def textbook(M, a, b, product):
    """The two updates as they are printed, with M·b = a afterwards."""
    rho, w = a @ b, M @ b
    if product:
        outer = np.outer(a, w)
        return M + (1 + b @ w / rho) * np.outer(a, a) / rho - (outer + outer.T) / rho
    return M + np.outer(a, a) / rho - np.outer(w, w) / (b @ w)


@pytest.mark.parametrize("rule", ["bfgs", "dfp"])
@pytest.mark.parametrize("inverse", [True, False])
@pytest.mark.parametrize("n", [5, LARGE, LARGE + 9])
def test_updates_are_the_textbooks(rule, inverse, n):
    rng = np.random.default_rng(n)
    M = np.eye(n)
    for _ in range(4):
        s = rng.standard_normal(n)
        y = s * rng.uniform(0.5, 2.0, n)
        a, b = (s, y) if inverse else (y, s)
        expected = textbook(M, a, b, (rule == "bfgs") == inverse)
        M = updated(M.copy(), s, y, rule, inverse=inverse)
        np.testing.assert_allclose(M, expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(M @ b, a, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(M, M.T, rtol=0, atol=1e-13)


def test_a_pair_without_curvature_changes_nothing():
    for n in (5, LARGE):
        s = np.ones(n)
        assert (updated(np.eye(n), s, -s, "bfgs", inverse=True) == np.eye(n)).all()
