"""Theory against closed forms, dense linear algebra, mpmath, and literal CGD loops."""

import mpmath
import numpy as np
import pytest
from benchmarks.tuned import best_lam
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize, minimize_scalar
from tests.objectives import spd
from tests.pairs import WHOLE

from steepen import theory
from steepen.functions import functions

RNG_SEEDS = range(5 if WHOLE else 2)


def random_symmetric(rng, n):
    A = rng.standard_normal((n, n))
    return A + A.T


def product(H):
    return lambda x, v: H @ v


def test_theorem_formulas_match_exact_rationals_and_broadcast():
    # L(1+2λL)² = 4·(1 + 2·(3/8)·4)² = 64
    assert theory.safe_step(4.0, 0.375) == 1 / 64
    assert theory.linear_rate(4.0, 2.0, 0.375) == 1 - 2 / 64
    L, lam = np.array([1.0, 2.0, 5.0]), np.array([[0.0], [0.3]])
    steps = theory.safe_step(L, lam)
    assert steps.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        assert steps[i, j] == theory.safe_step(L[j], lam[i, 0])
    assert {type(theory.safe_step(2, 0)), type(theory.contraction(0.1, 1, 2, 0))} == {float}


@pytest.mark.parametrize("scaled_lam", [-0.49, -0.25, -0.05, 0.0, 0.3, 40.0])
def test_penalised_spectrum_against_dense_eigenvalues(scaled_lam):
    """A spectrum dense in [l, L] reaches the inner extreme that a negative λ makes."""
    l, L = 0.5, 4.0  # noqa: E741
    lam = scaled_lam / L
    t = np.linspace(l, L, 20001)
    fine = t * (1 + 2 * lam * t)
    kappa, step = theory.condition_number(l, L, lam), theory.quadratic_step(l, L, lam)
    assert kappa == pytest.approx(fine.max() / fine.min(), rel=1e-6)
    if lam >= 0:  # the paper's formulas: the ends of the spectrum alone
        assert kappa == pytest.approx((1 + 2 * lam * L) / (1 + 2 * lam * l) * L / l, rel=1e-14)
        assert step == pytest.approx(2 / ((1 + 2 * lam * L) * L + (1 + 2 * lam * l) * l), rel=1e-14)
    worst = np.abs(1 - step * fine).max()
    assert theory.contraction(step, l, L, lam) == pytest.approx(worst, rel=1e-6)
    assert theory.optimal_rate(l, L, lam) == pytest.approx((kappa - 1) / (kappa + 1), rel=1e-13)
    for other in (0.97 * step, 1.03 * step):
        assert theory.contraction(other, l, L, lam) > theory.contraction(step, l, L, lam)


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_extreme_curvatures_match_eigvalsh(n):
    for seed in RNG_SEEDS:
        H = random_symmetric(np.random.default_rng(seed), n)
        t = np.linalg.eigvalsh(H)
        scale = np.abs(t).max()
        top = theory.largest_curvature(product(H), np.zeros(n))
        bottom = theory.smallest_curvature(product(H), np.zeros(n))
        norm = theory.smoothness(product(H), np.zeros((1, n)))
        for found, exact in ((top, t[-1]), (bottom, t[0]), (norm, scale)):
            assert found.converged
            assert found.value == pytest.approx(exact, abs=1e-9 * scale)
            assert found.n_hvp <= n


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_degenerate_hessians(n):
    x = np.zeros(n)
    for H in (0.0, -2.5):
        for find in (theory.largest_curvature, theory.smallest_curvature):
            found = find(lambda x, v, H=H: H * v, x)
            assert found == theory.Curvature(pytest.approx(H, abs=1e-14), 1, pytest.approx(0), True)
    one = np.arange(1.0, n + 1)
    found = theory.largest_curvature(lambda x, v: one * (one @ v), x)
    assert found.converged
    assert found.n_hvp <= 3
    assert found.value == pytest.approx(one @ one, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_singular_hessian_has_smallest_curvature_zero(scale):
    for seed in RNG_SEEDS:  # seed 0 included: the start must not be the first row of A
        A = np.random.default_rng(seed).standard_normal((5, 20))
        found = theory.smallest_curvature(product(scale * A.T @ A), np.zeros(20))
        assert found.converged
        assert found.n_hvp == 6  # five non-zero eigenvalues and the null space
        assert found.value == pytest.approx(0, abs=1e-12 * scale)


def test_curvature_counts_its_products_and_begins_with_its_seed():
    H, calls = random_symmetric(np.random.default_rng(1), 40), []
    hvp = lambda x, v: calls.append(v) or H @ v  # noqa: E731
    first, again, other = (theory.largest_curvature(hvp, np.zeros(40), tol=1e-2, seed=s) for s in (0, 0, 1))
    assert first == again != other
    assert first.n_hvp + again.n_hvp + other.n_hvp == len(calls) < 3 * 40
    calls.clear()
    assert theory.smoothness(hvp, np.zeros((3, 40))).n_hvp == len(calls)


def test_unconverged_curvature_says_so_and_bounds_its_error():
    t = np.linspace(0.0, 1.0, 2000)
    found = theory.largest_curvature(lambda x, v: t * v, np.zeros(2000), max_hvp=10)
    assert not found.converged
    assert found.n_hvp == 10
    assert found.value <= 1.0 <= found.value + found.error
    assert np.abs(t - found.value).min() <= found.error


@pytest.mark.parametrize("scale", [1e-200, 1e-165, 1e154, 1e200])
def test_a_curvature_whose_square_is_no_number(scale):
    H = random_symmetric(np.random.default_rng(0), 12)
    found = theory.largest_curvature(lambda x, v: scale * (H @ v), np.zeros(12))
    assert found.converged
    assert found.value / scale == pytest.approx(np.linalg.eigvalsh(H)[-1], rel=1e-9)


def test_an_infinite_error_is_not_converged():
    turned = lambda x, v: 1.5e308 * (2 * np.stack([-v[1::2], v[::2]], axis=1).ravel())  # noqa: E731
    found = theory.largest_curvature(turned, np.zeros(12))
    assert found.error == np.inf
    assert not found.converged


def test_smoothness_takes_the_magnitude_over_all_rows():
    points = np.array([[1.0, 2.0], [-4.0, 0.5], [3.0, 3.0]])
    found = theory.smoothness(lambda x, v: x * v, points)  # f = Σ x³/6: H = diag(x)
    assert found.value == pytest.approx(4.0)
    assert found.converged
    many = np.repeat([[0.0], [1.0]], 50, axis=1)  # of which the first row's H is 0, and soon known
    assert not theory.smoothness(lambda x, v: np.arange(50) * x * v, many, max_hvp=3).converged


def test_penalised_curvature_against_mpmath():
    """At a root of f', f = sin x + x²/3, the curvature is that of g = f + λf'² itself."""

    def f(x):
        return mpmath.sin(x) + x * x / 3

    def g(x):
        return f(x) + mpmath.mpf("0.3") * mpmath.diff(f, x) ** 2

    root = mpmath.findroot(lambda x: mpmath.diff(f, x), -1)
    bend = theory.penalised_curvature(float(mpmath.diff(f, root, 2)), 0.3)
    assert bend == pytest.approx(float(mpmath.diff(g, root, 2)), rel=1e-8)


def classify(g, Hg, lam, **tolerances):
    return theory.classify(g, lambda x: g, lambda x, v: Hg, lam, **tolerances)


def test_classify_where_squares_overflow():
    """Along g the penalised gradient is 3g, or 0."""
    for size in (1e200, 1e-200):
        g = np.array([size, -2 * size])
        assert classify(g, g, 1.0, gtol=0.0) == "neither"
        assert classify(g, -g / 2, 1.0, gtol=0.0) == "artificial"


def test_classify_by_construction():
    rng = np.random.default_rng(0)
    for lam in (0.2, -0.7, 3.0):
        g = rng.standard_normal(5)
        assert classify(g, -g / (2 * lam), lam) == "artificial"
        assert classify(g, g / (2 * lam), lam) == "neither"
        assert classify(0 * g, 0 * g, lam) == "stationary"
    assert classify(g, -g, 0.0) == "neither"


@pytest.mark.parametrize("size", [1e-5, 1.0, 1e6])
def test_classify_tolerance_is_relative(size):
    g = size * np.array([3.0, 4.0])
    off = size * np.array([4.0, -3.0])
    near, far = -g / 0.4 + 1e-7 * off, -g / 0.4 + 1e-5 * off
    assert classify(g, near, 0.2) == "artificial"
    assert classify(g, far, 0.2) == "neither"
    assert classify(g, far, 0.2, tol=1e-4) == "artificial"
    assert classify(g, near, 0.2, gtol=10 * size) == "stationary"


def test_classify_evaluates_one_gradient_and_one_product():
    H, calls, lam = np.diag([2.0, -2.5]), [], 0.2  # −1/(2λ) = −2.5, the second eigenvalue
    grad, hvp = lambda x: calls.append("grad") or H @ x, lambda x, v: calls.append("hvp") or H @ v
    assert theory.classify([0.0, 1.0], grad, hvp, lam) == "artificial"
    assert calls == ["grad", "hvp"]
    assert theory.classify([1.0, 1.0], grad, hvp, lam) == "neither"
    assert theory.classify([0.0, 0.0], grad, hvp, lam) == "stationary"


def test_artificial_points_drop_roots_that_are_stationary_for_f():
    # f = cos x at λ = 1: cos x = ½, where f' is not zero
    found = theory.artificial_points(lambda x: x**2, lambda x: 2 * x, 0.25, (-2, 0), samples=3)
    assert found.tolist() == [-1.0]  # a root that is a sample is found once
    roots = theory.artificial_points(lambda x: -np.sin(x), lambda x: -np.cos(x), 1.0, (-7, 7))
    assert roots == pytest.approx(np.pi / 3 * np.array([-5, -1, 1, 5]), abs=1e-13)
    # f = x³/3 − x at λ = ¼: 1 + x = 0 at x = −1, where f' = x² − 1 = 0 too
    cubic = lambda x: x**2 - 1, lambda x: 2 * x
    assert theory.artificial_points(*cubic, 0.25, (-3, 2)).size == 0
    assert theory.artificial_points(*cubic, 0.5, (-3, 2)) == pytest.approx([-0.5])
    assert theory.artificial_points(*cubic, 0.0, (-3, 2)).size == 0


@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1.0, 1e12])
def test_artificial_points_are_as_exact_in_any_unit_of_x(unit):
    df, d2f = lambda x: np.cos(x / unit) / unit, lambda x: -np.sin(x / unit) / unit**2
    found = theory.artificial_points(df, d2f, unit**2, (0, 3 * unit)) / unit
    assert found == pytest.approx(np.pi / 6 * np.array([1, 5]), rel=1e-13)


def turned(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@pytest.mark.parametrize("angle", [0.0, 0.4])
def test_artificial_points_in_the_plane_are_those_of_a_sum_turned(angle):
    """f = sin u + sin v at λ = 1: in u and v, multiples of π/6 and of π/2 that are not all stationary."""
    R, box = turned(angle), np.array([(-4.0, 3.0), (-2.0, 5.0)])
    grad, hess = (lambda x: R.T @ np.cos(R @ x)), (lambda x: R.T @ np.diag(-np.sin(R @ x)) @ R)
    k = np.arange(-4, 5)
    own, new = (
        np.pi / 2 + np.pi * k,
        np.concatenate([np.pi / 6 + 2 * np.pi * k, 5 * np.pi / 6 + 2 * np.pi * k]),
    )
    pairs = np.array([(u, v) for u in [*own, *new] for v in [*own, *new] if u in new or v in new]) @ R
    expected = pairs[((box[:, 0] <= pairs) & (pairs <= box[:, 1])).all(axis=1)]
    found = theory.artificial_points(grad, hess, 1.0, box)
    assert len(found) == len(expected) > 10
    for x in expected:
        assert np.abs(found - x).max(axis=1).min() < 1e-9
    assert (np.diff(found[:, 0]) >= 0).all()


def test_artificial_points_of_a_sum_are_counted_in_three_variables():
    """f'' = 6x² − 16 in each variable: artificial where x² = 1 for λ = 1/20, beside 3 stationary points."""
    f = functions["styblinski-tang"].at(3)
    found = theory.artificial_points(f.grad, f.hess, 0.05, f.bounds)
    assert len(found) == 5**3 - 3**3
    flat = np.abs(f.grad(found)) < 1e-7
    assert np.abs(found[~flat] ** 2 - 1).max() < 1e-9
    assert (~flat).any(axis=1).all()


def test_artificial_points_on_a_circle_are_points_of_it_and_a_convex_function_has_none():
    # f = −exp(−r²/2): along r, f'' = (1 − r²)exp(−r²/2)
    grad = lambda x: x * np.exp(-x @ x / 2)  # noqa: E731
    hess = lambda x: np.exp(-x @ x / 2) * (np.eye(2) - np.outer(x, x))  # noqa: E731
    radii = [
        float(mpmath.findroot(lambda r: (r * r - 1) * mpmath.exp(-r * r / 2) - 0.25, r)) for r in (1.2, 2.4)
    ]
    found = np.linalg.norm(theory.artificial_points(grad, hess, 2.0, [(-3, 3), (-3, 3)], samples=60), axis=1)
    assert min(np.abs(found - radius).min() for radius in radii) < 1e-9
    assert np.abs(found[:, None] - radii).min(axis=1).max() < 1e-8
    assert theory.artificial_points(grad, hess, 0.0, [(-3, 3), (-3, 3)], samples=10).shape == (0, 2)
    bowl = functions["sphere"].at(4)
    assert theory.artificial_points(bowl.grad, bowl.hess, 2.0, bowl.bounds, samples=40).shape == (0, 4)


def test_artificial_points_of_a_function_that_is_not_defined_beyond_the_box():
    """f = u² + v·log v − v², at λ = 1 where u = 0 and 1 + 2(1/v − 2) = 0."""

    def grad(x):
        with np.errstate(invalid="ignore"):
            return np.array([2 * x[0], np.log(x[1]) + 1 - 2 * x[1]])

    found = theory.artificial_points(grad, lambda x: np.diag([2, 1 / x[1] - 2]), 1.0, [(-1, 1), (0.01, 3)])
    assert found == pytest.approx(np.array([[0, 2 / 3]]), abs=1e-9)
    nowhere = lambda x: np.full(2, np.nan)  # noqa: E731
    with pytest.raises(ValueError, match=r"df\(x\): expected finite gradients in the box, found none"):
        theory.artificial_points(nowhere, lambda x: np.eye(2), 1.0, [(-1, 1), (0.01, 3)], samples=5)


def test_an_artificial_point_is_where_the_constrained_form_has_the_multiplier_lam():
    """Near the maximum of sin x₁ − x₂², SLSQP is stopped by the constraint, at an artificial point."""
    f = lambda x: np.sin(x[0]) + x[1] ** 2  # noqa: E731
    grad, hess = (lambda x: np.array([np.cos(x[0]), 2 * x[1]])), (lambda x: np.diag([-np.sin(x[0]), 2.0]))
    (point,) = theory.artificial_points(grad, hess, 1.0, [(2, 3), (-1, 1)])
    eps = grad(point) @ grad(point)
    assert (point, eps) == (pytest.approx([5 * np.pi / 6, 0], abs=1e-9), pytest.approx(0.75))
    constraint = {"type": "ineq", "fun": lambda x: eps - grad(x) @ grad(x)}
    found = minimize(f, [1.8, 0.3], jac=grad, constraints=[constraint], method="SLSQP", tol=1e-12)
    assert found.x == pytest.approx(point, abs=1e-6)


def test_the_pl_constant_against_closed_forms():
    rng = np.random.default_rng(0)
    Q = spd(np.array([0.3, 1.0, 7.0]), rng)
    points = np.concatenate([rng.normal(size=(200, 3)), np.linalg.eigh(Q)[1].T])
    mu = theory.pl_constant(lambda x: x @ Q @ x / 2 - 5, lambda x: Q @ x, points, -5.0)
    assert mu == pytest.approx(0.3, rel=1e-9)
    A, b = rng.normal(size=(2, 4)), rng.normal(size=2)  # least squares, with a null space
    smallest = np.linalg.eigvalsh(A @ A.T)[0]
    points = rng.normal(size=(4000, 4))
    mu = theory.pl_constant(lambda x: (A @ x - b) @ (A @ x - b) / 2, lambda x: A.T @ (A @ x - b), points, 0.0)
    assert smallest <= mu < 1.01 * smallest
    quartic = (lambda x: x[0] ** 4), (lambda x: 4 * x**3)  # ½f'²/f = 8x²
    assert theory.pl_constant(*quartic, [[1.0], [-0.1], [0.0]], 0.0) == pytest.approx(0.08)
    # of x² + 3 sin²x Karimi, Nutini and Schmidt (2016) say that it has μ = 1/32
    wavy = (lambda x: x[0] ** 2 + 3 * np.sin(x[0]) ** 2), (lambda x: 2 * x + 3 * np.sin(2 * x))
    mu = theory.pl_constant(*wavy, np.linspace(-5, 5, 2001)[:, None], 0.0)
    least = minimize_scalar(lambda x: wavy[1](x) ** 2 / 2 / wavy[0]([x]), bounds=(1, 3), method="bounded").fun
    assert mu == pytest.approx(least, rel=1e-4)
    assert mu > 1 / 32
    assert theory.pl_constant(lambda x: -np.cos(x[0]), np.sin, [[np.pi * 0], [2.0]], -1.0) > 0
    saddle = (lambda x: x[0] ** 2 * (x[0] - 1) ** 2), (lambda x: 2 * x * (x - 1) * (2 * x - 1))
    assert theory.pl_constant(*saddle, [[0.3], [0.5]], 0.0) == 0.0


def test_a_run_at_the_safe_step_keeps_the_rate_of_the_estimates():
    rng = np.random.default_rng(1)
    Q, lam = spd(np.array([0.5, 2.0, 4.0]), rng), 0.2
    L = theory.largest_curvature(product(Q), np.zeros(3)).value
    mu = theory.pl_constant(lambda x: x @ Q @ x / 2, lambda x: Q @ x, np.linalg.eigh(Q)[1].T, 0.0)
    step, rate, x = theory.safe_step(L, lam), theory.linear_rate(L, mu, lam), rng.normal(size=3)
    for _ in range(50):
        before, x = x @ Q @ x, x - step * (np.eye(3) + 2 * lam * Q) @ Q @ x
        assert x @ Q @ x <= rate * before
    assert rate < 0.99


@pytest.mark.parametrize(
    ("expected", "spectra"),
    [
        ("minimum", ([1, 2, 3], [1e-8, 1, 1], [1e-14, 2e-14, 3e-14])),
        ("maximum", ([-1, -2, -3],)),
        ("saddle", ([-1, 2, 3], [0, -2, 3])),
        ("degenerate", ([0, 2, 3], [0, -2, -3], [0, 0, 0], [1e-13, 1, 1])),
    ],
)
def test_nature_from_a_rotated_spectrum(spectra, expected):
    basis, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))
    for t in spectra:
        assert theory.nature((basis * np.array(t)) @ basis.T) == expected, t


@given(arrays(float, 3, elements=st.floats(-3, 3).map(lambda t: round(t, 3))), st.floats(-1, 1))
def test_penalised_nature_matches_the_penalised_hessian(t, lam):
    lam = round(lam, 3)
    margin = np.abs(np.concatenate([t, 1 + 2 * lam * t])).min()
    assume(margin >= 1e-3)
    basis, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))
    H = (basis * t) @ basis.T
    assert theory.nature(H, lam) == theory.nature(H + 2 * lam * H @ H)


def test_penalised_nature_keeps_small_curvatures_apart():
    t = np.diag([1e-4, 1e5])  # t(1+2λt): 1e-4 against 2e10
    assert theory.nature(t, 1.0) == "minimum"
    assert theory.nature(np.diag([-4.0, 1.0]), 0.2) == "minimum"
    for lam, expected in ((0.3, "maximum"), (0.5, "degenerate"), (0.6, "minimum")):
        assert theory.nature(-1.0, lam) == expected


@pytest.mark.parametrize("seed", range(5))
def test_best_lam_points_at_the_minimum_on_the_plane(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    H, g = spd(rng.uniform(0.5, 20.0, n), rng), rng.standard_normal(n)
    # independent: an orthonormal basis of the plane and the projected Newton system
    plane, _ = np.linalg.qr(np.column_stack([g, H @ g]))
    small = plane.T @ H @ plane
    best = -plane @ np.linalg.solve(small, plane.T @ g)
    theta = np.linalg.eigvalsh(small)
    lam = best_lam(g, H @ g, H @ (H @ g))
    assert lam == pytest.approx(-1 / (2 * theta.sum()), rel=1e-12)
    step = -theta.sum() / theta.prod() * (g + 2 * lam * H @ g)
    assert np.linalg.norm(step - best) < 1e-11 * np.linalg.norm(best)


def test_best_lam_where_the_plane_is_a_line_or_the_model_has_no_minimum():
    g = np.array([2.0, 0.0])
    assert best_lam(g, 3 * g, 9 * g) == 0.0
    assert np.isnan(best_lam(g, -3 * g, 9 * g))
    H = np.diag([1.0, -0.5])
    g = np.array([1.0, 1.0])
    assert np.isnan(best_lam(g, H @ g, H @ H @ g))


EYE, X = product(np.eye(2)), np.zeros(2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: theory.safe_step(0.0, 0.1), "L: expected numbers above 0"),
        (lambda: theory.safe_step(1.0, -0.1), "lam: expected 0 or more"),
        (lambda: theory.safe_step("two", 0.1), "L: expected real"),
        (lambda: theory.linear_rate(1.0, 1.5, 0.1), "mu: expected mu <= L"),
        (lambda: theory.quadratic_step(1.0, 2.0, -0.25), "1 \\+ 2\\*lam\\*L > 0"),
        (lambda: theory.largest_curvature(EYE, np.zeros((2, 2))), "x: expected a vector"),
        (lambda: theory.largest_curvature(lambda x, v: v[:1], X), "hvp"),
        (lambda: theory.largest_curvature(lambda x, v: v * np.nan, X), "hvp.*finite"),
        (lambda: theory.smoothness(EYE, X), "points: expected shape"),
        (lambda: theory.largest_curvature(EYE, X, seed=-1), "seed: expected a whole number, 0 or more"),
        (lambda: classify([1.0], [1.0], [0.1, 0.2]), "lam: expected a finite number"),
        (lambda: theory.classify([1.0], lambda x: [1.0, 2.0], lambda x, v: v, 0.1), "grad"),
        (lambda: theory.artificial_points(np.cos, np.sin, 0.1, (1.0, 1.0)), "interval: expected"),
        (lambda: theory.artificial_points(np.cos, lambda x: 1.0, 0.1, (0, 1)), "d2f"),
        (lambda: theory.artificial_points(np.sin, lambda x: 0 * x - 5, 0.1, (0, 1)), "whole interval"),
        (lambda: theory.artificial_points(EYE, EYE, 0.1, [(0, 1), (2, 1)]), "interval: expected"),
        (
            lambda: theory.artificial_points(lambda x: x, lambda x: x, 0.1, [(0, 1)] * 2),
            r"d2f\(x\): .* Hessian",
        ),
        (lambda: theory.artificial_points(lambda x: x[:1], EYE, 0.1, [(0, 1)] * 2), r"df\(x\): expected"),
        (lambda: theory.pl_constant(np.sum, np.ones_like, X, 0.0), "points: expected shape"),
        (
            lambda: theory.pl_constant(np.sum, np.ones_like, [X], 1.0),
            "fmin: expected the minimum, 1.0 is above",
        ),
        (
            lambda: theory.pl_constant(np.sum, np.ones_like, [X], 0.0),
            "points: expected some where f is above",
        ),
        (lambda: theory.pl_constant(np.sin, np.cos, [X], 0.0), r"fun\(x\): expected a number"),
        (lambda: theory.nature(np.ones((2, 3))), "square"),
        (lambda: theory.nature([[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
    ],
)
def test_wrong_arguments_are_named(call, says):
    with pytest.raises((TypeError, ValueError), match=says):
        call()
