"""The errata that are mathematics, each by its counterexample."""

import numpy as np
import pytest

import steepen as st
from steepen.paper.errata import ERRATA
from steepen.paper.experiments import EXPERIMENTS, T


def test_a_strictly_convex_function_on_a_compact_set_without_pl():
    x = np.geomspace(1e-6, 1, 50)
    ratio = (4 * x**3) ** 2 / 2 / x**4
    assert ratio == pytest.approx(8 * x**2)  # as the erratum says
    assert ratio.min() < 1e-10
    assert any("½f′²/(f − f*) = 8x²" in should for _, _, should in ERRATA)


def test_a_matrix_of_norm_l_that_is_not_between_zero_and_l():
    H = -3.0 * np.eye(2)
    assert np.linalg.norm(H, 2) == 3.0
    assert np.linalg.eigvalsh(H).min() < 0


def test_a_norm_within_bounds_says_nothing_of_the_smallest_eigenvalue():
    A = np.diag([0.0, 1.0])
    assert 0.5 <= np.linalg.norm(A, 2) <= 1.0
    assert np.linalg.eigvalsh(A - 0.5 * np.eye(2)).min() < 0


def test_one_product_is_enough_for_the_step_of_egr():
    """It is the gradient of g, with no Hessian formed: one more gradient's work."""
    f = st.functions["rosenbrock"]
    x, lam, h = np.array([-1.2, 0.7]), 0.01, 1e-6
    g = f.grad(x)
    whole = g + 2 * lam * f.hess(x) @ g
    assert g + 2 * lam * f.hvp(x, g) == pytest.approx(whole, rel=1e-12)
    assert g + 2 * lam * (f.grad(x + h * g / np.linalg.norm(g)) - g) * np.linalg.norm(g) / h == pytest.approx(
        whole, rel=1e-4
    )


def test_the_share_left_on_matyas_by_its_two_eigenvalues():
    """CGD-FD's improvement fixes the share of f₀ in the steep direction; the rest takes longer."""
    row, eigenvalues = EXPERIMENTS["matyas"], np.array([0.04, 1.0])
    plain, penalised = ((1 - row.step * eigenvalues * (1 + 2 * lam * eigenvalues)) ** 2 for lam in (0, 10))
    for printed in (row.cgd_fd - 0.005, row.cgd_fd + 0.005):
        steep = (penalised[0] - (1 - printed / 100)) / (penalised[0] - penalised[1])
        shares = np.array([1 - steep, steep])
        assert 100 * (1 - shares @ plain) == pytest.approx(row.gd, abs=0.006)
        assert shares @ (penalised**11 * plain ** (T - 22)) == pytest.approx(0.0862, abs=2e-4)
