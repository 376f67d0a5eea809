"""Theory against closed forms, dense linear algebra, mpmath, and literal CGD loops."""

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from steepen import theory
from steepen.theory import Nature, Stationarity

RNG_SEEDS = range(5)
EIGHTHS = st.integers(-800, 800).map(lambda k: k / 8)  # exact in floating point


def random_spd(rng, n, low, high):
    """A random Q with eigenvalues spread over [low, high], both ends reached."""
    basis, _ = np.linalg.qr(rng.standard_normal((n, n)))
    t = np.concatenate([[low, high], rng.uniform(low, high, n - 2)])
    Q = (basis * t) @ basis.T
    return 0.5 * (Q + Q.T)


def random_symmetric(rng, n):
    A = rng.standard_normal((n, n))
    return A + A.T


def product(H):
    return lambda x, v: H @ v


# --- Theorem 1 -----------------------------------------------------------------------------------


def test_theorem_formulas_match_exact_rationals():
    # L(1+2λL)² = 4·(1 + 2·(3/8)·4)² = 64
    assert theory.safe_step(4.0, 0.375) == 1 / 64
    assert theory.safe_interval(4.0, 0.375) == (0.0, 2 / 64)
    assert theory.linear_rate(4.0, 2.0, 0.375) == 1 - 2 / 64
    assert theory.bound(3, 4.0, 2.0, 0.375, 8.0) == 8 * (31 / 32) ** 3


@pytest.mark.parametrize(("L", "mu", "lam"), [(10.8, 9.0, 0.4), (1e-3, 1e-5, 70.0), (123.4, 0.7, 0.0)])
def test_theorem_formulas_match_mpmath(L, mu, lam):
    with mpmath.workdps(40):
        smooth = mpmath.mpf(L) * (1 + 2 * mpmath.mpf(lam) * L) ** 2
        rate = 1 - mu / smooth
        assert theory.safe_step(L, lam) == pytest.approx(float(1 / smooth), rel=1e-14)
        assert theory.linear_rate(L, mu, lam) == pytest.approx(float(rate), rel=1e-14)
        assert theory.bound(40, L, mu, lam, 3.0) == pytest.approx(float(3 * rate**40), rel=1e-12)


def test_theorem_broadcasts():
    L, lam = np.array([1.0, 2.0, 5.0]), np.array([[0.0], [0.3]])
    lower, upper = theory.safe_interval(L, lam)
    assert lower.shape == upper.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        assert upper[i, j] == 2 * theory.safe_step(L[j], lam[i, 0])
    assert theory.bound(np.arange(4), 2.0, 1.0, 0.0, 8.0).tolist() == [8.0, 4.0, 2.0, 1.0]


def test_scalars_give_python_floats():
    for value in (
        theory.safe_step(2, 0),
        theory.linear_rate(2, 1, 0),
        theory.quadratic_step(1, 2, 0),
        theory.contraction(0.1, 1, 2, 0),
        theory.condition_number(1, 2, 0),
        theory.optimal_rate(1, 2, 0),
    ):
        assert type(value) is float


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: theory.safe_step(0.0, 0.1), ValueError, "L must be > 0"),
        (lambda: theory.safe_step([1.0, -1.0], 0.1), ValueError, "L must be > 0"),
        (lambda: theory.safe_interval(1.0, -0.1), ValueError, "lam must be >= 0"),
        (lambda: theory.safe_step(np.nan, 0.1), ValueError, "L must be finite"),
        (lambda: theory.safe_step("two", 0.1), TypeError, "L must be a real"),
        (lambda: theory.safe_step(1j, 0.1), TypeError, "L must be real"),
        (lambda: theory.linear_rate(1.0, 0.0, 0.1), ValueError, "mu must be > 0"),
        (lambda: theory.linear_rate(1.0, 1.5, 0.1), ValueError, "mu must be <= L"),
        (lambda: theory.bound(-1, 1.0, 0.5, 0.1, 1.0), ValueError, "k must be >= 0"),
        (lambda: theory.bound(1, 1.0, 0.5, 0.1, -1.0), ValueError, "gap0 must be >= 0"),
        (lambda: theory.quadratic_step(0.0, 1.0, 0.1), ValueError, "l must be > 0"),
        (lambda: theory.quadratic_step(2.0, 1.0, 0.1), ValueError, "l must be <= L"),
        (lambda: theory.quadratic_step(1.0, 2.0, -0.25), ValueError, "1 \\+ 2\\*lam\\*L > 0"),
        (lambda: theory.condition_number(1.0, 2.0, [0.1, -1.0]), ValueError, "1 \\+ 2\\*lam"),
        (lambda: theory.contraction(np.inf, 1.0, 2.0, 0.1), ValueError, "step must be finite"),
    ],
)
def test_rates_reject_wrong_arguments(call, error, says):
    with pytest.raises(error, match=says):
        call()


def cgd_gaps(f, grad, hvp, fstar, x, step, lam, iters):
    """f_k − f* along the paper's iteration (equation of CGD), written out."""
    gaps = [f(x) - fstar]
    for _ in range(iters):
        g = grad(x)
        x = x - step * (g + 2 * lam * hvp(x, g))
        gaps.append(f(x) - fstar)
    return np.array(gaps)


def quadratic_problem(rng):
    Q, b = random_spd(rng, 6, 0.5, 4.0), rng.standard_normal(6)
    xstar = np.linalg.solve(Q, b)

    def f(x):  # the gap itself, free of cancellation
        return 0.5 * (x - xstar) @ Q @ (x - xstar)

    return f, lambda x: Q @ x - b, lambda x, v: Q @ v, 0.0, 4.0, 0.5, rng.standard_normal(6)


def least_squares_problem(rng):
    """Rank 4 in 7 unknowns: convex, not strongly convex, PL with the smallest non-zero σ²."""
    A = rng.standard_normal((9, 4)) @ rng.standard_normal((4, 7))
    b = rng.standard_normal(9)
    best = np.linalg.lstsq(A, b, rcond=None)[0]
    sigma = np.linalg.svd(A, compute_uv=False)

    def f(x):
        return 0.5 * np.sum((A @ (x - best)) ** 2)

    L, mu = sigma[0] ** 2, sigma[3] ** 2
    return f, lambda x: A.T @ (A @ x - b), lambda x, v: A.T @ (A @ v), 0.0, L, mu, np.ones(7)


def logistic_problem(rng):
    """Ridge logistic regression: L = σ²/4 + ridge from the largest slope of the sigmoid."""
    A, ridge = rng.standard_normal((30, 5)), 0.3
    y = np.where(rng.random(30) < 0.5, -1.0, 1.0)
    A = A * y[:, None]

    def f(x):
        return np.logaddexp(0, -A @ x).sum() + 0.5 * ridge * x @ x

    def slope(x):
        return 1 / (1 + np.exp(A @ x))

    def grad(x):
        return -A.T @ slope(x) + ridge * x

    def hess(x):
        s = slope(x)
        return (A.T * (s * (1 - s))) @ A + ridge * np.eye(5)

    best = np.zeros(5)
    for _ in range(50):
        best = best - np.linalg.solve(hess(best), grad(best))
    assert np.linalg.norm(grad(best)) < 1e-12
    L = np.linalg.norm(A, 2) ** 2 / 4 + ridge
    return f, grad, lambda x, v: hess(x) @ v, f(best), L, ridge, 3 * rng.standard_normal(5)


PROBLEMS = [quadratic_problem, least_squares_problem, logistic_problem]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("scaled_lam", [0.0, 0.05, 0.5])
def test_measured_gap_stays_under_theorem_bound(problem, scaled_lam):
    for seed in RNG_SEEDS:
        f, grad, hvp, fstar, L, mu, x0 = problem(np.random.default_rng(seed))
        lam = scaled_lam / L
        gaps = cgd_gaps(f, grad, hvp, fstar, x0, theory.safe_step(L, lam), lam, 300)
        allowed = theory.bound(np.arange(301), L, mu, lam, gaps[0])
        assert np.all(gaps <= allowed + 1e-13 * (gaps[0] + abs(fstar)))
        assert gaps[-1] < 0.99 * gaps[0]


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.99])
def test_f_never_rises_inside_the_safe_interval(problem, fraction):
    for seed in RNG_SEEDS:
        f, grad, hvp, fstar, L, _, x0 = problem(np.random.default_rng(seed))
        lam = 0.3 / L
        step = fraction * theory.safe_interval(L, lam)[1]
        gaps = cgd_gaps(f, grad, hvp, fstar, x0, step, lam, 200)
        assert np.all(np.diff(gaps) <= 1e-14 * (gaps[0] + abs(fstar)))


def test_upper_end_is_sharp_without_penalty():
    L = 3.0
    for factor, rises in ((0.999, False), (1.001, True)):
        step = factor * theory.safe_interval(L, 0.0)[1]
        gaps = cgd_gaps(
            lambda x: 0.5 * L * x @ x,
            lambda x: L * x,
            lambda x, v: L * v,
            0,
            np.ones(1),
            step,
            0,
            5,
        )
        assert bool(gaps[-1] > gaps[0]) is rises


# --- quadratics ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.0, 0.1, 0.4, 10.0])
def test_quadratic_formulas_are_the_papers(lam):
    l, L = 0.7, 5.3  # noqa: E741
    B, Q = (1 + 2 * lam * L) / (1 + 2 * lam * l), L / l
    alpha = 2 / ((1 + 2 * lam * L) * L + (1 + 2 * lam * l) * l)
    assert theory.quadratic_step(l, L, lam) == pytest.approx(alpha, rel=1e-14)
    assert theory.condition_number(l, L, lam) == pytest.approx(B * Q, rel=1e-14)
    assert theory.optimal_rate(l, L, lam) == pytest.approx((B * Q - 1) / (B * Q + 1), rel=1e-13)
    expected = max(abs(1 - 0.02 * (1 + 2 * lam * t) * t) for t in (l, L))
    assert theory.contraction(0.02, l, L, lam) == pytest.approx(expected, rel=1e-14)


@given(st.floats(0.01, 100), st.floats(1, 1e4), st.floats(-0.499, 10))
def test_optimal_rate_is_contraction_at_quadratic_step(low, kappa, scaled_lam):
    L = low * kappa
    lam = scaled_lam / L
    at_step = theory.contraction(theory.quadratic_step(low, L, lam), low, L, lam)
    assert theory.optimal_rate(low, L, lam) == pytest.approx(at_step, rel=1e-9, abs=1e-12)


@given(st.floats(0.01, 100), st.floats(1.001, 1e4), st.floats(1e-3, 10))
def test_positive_lam_worsens_the_condition(low, kappa, scaled_lam):
    """The remark after the quadratic analysis, with κ(B) > 1 in place of its κ(B) > 0."""
    L = low * kappa
    assert theory.condition_number(low, L, scaled_lam / L) > kappa


@pytest.mark.parametrize("scaled_lam", [-0.49, -0.3, -0.25, -0.2, -0.05, 0.0, 0.3, 4.0])
def test_penalised_spectrum_against_dense_eigenvalues(scaled_lam):
    """A spectrum dense in [l, L] reaches the inner extreme that a negative λ makes."""
    l, L = 0.5, 4.0  # noqa: E741
    lam = scaled_lam / L
    t = np.linspace(l, L, 20001)
    Q = t[:: len(t) // 40]
    exact = np.linalg.eigvalsh(np.diag(Q) + 2 * lam * np.diag(Q) @ np.diag(Q))
    fine = t * (1 + 2 * lam * t)
    assert theory.condition_number(l, L, lam) == pytest.approx(fine.max() / fine.min(), rel=1e-6)
    assert exact.max() / exact.min() <= theory.condition_number(l, L, lam) * (1 + 1e-12)
    step = theory.quadratic_step(l, L, lam)
    worst = np.abs(1 - step * fine).max()
    assert theory.contraction(step, l, L, lam) == pytest.approx(worst, rel=1e-6)
    for other in (0.97 * step, 1.03 * step):
        assert theory.contraction(other, l, L, lam) > theory.contraction(step, l, L, lam)


def test_endpoints_alone_would_be_wrong_for_negative_lam():
    l, L, lam = 1.0, 9.0, -0.05  # noqa: E741  turning point 5, value 2.5; ends 0.9 and 0.9
    assert theory.contraction(1.0, l, L, lam) == pytest.approx(1.5)
    assert theory.quadratic_step(l, L, lam) == pytest.approx(2 / 3.4)
    # λ = −1/(2(l+L)): half of a two-step Chebyshev method, whose κ is (κ+1)²/(4κ)
    assert theory.condition_number(l, L, lam) == pytest.approx(100 / 36)
    lams = np.linspace(-0.055, 0.1, 1001)
    assert lams[np.argmin(theory.condition_number(l, L, lams))] == pytest.approx(lam, abs=2e-4)


def test_contraction_reports_divergence_for_any_lam():
    assert theory.contraction(0.1, 1.0, 2.0, -3.0) > 1


@pytest.mark.parametrize("lam", [-0.06, 0.0, 0.4])
def test_measured_contraction_on_quadratics(lam):
    """The literal loop never beats the bound's promise, and the worst start attains it."""
    for seed in RNG_SEEDS:
        rng = np.random.default_rng(seed)
        l, L = 1.0, 5.0  # noqa: E741
        Q = random_spd(rng, 8, l, L)
        step = theory.quadratic_step(l, L, lam)
        rate = theory.contraction(step, l, L, lam)
        e = rng.standard_normal(8)
        for _ in range(30):
            new = e - step * (Q @ e + 2 * lam * Q @ (Q @ e))
            assert np.linalg.norm(new) <= rate * np.linalg.norm(e) * (1 + 1e-12)
            e = new
        worst = np.linalg.eigh(Q)[1][:, 0]
        new = worst - step * (Q @ worst + 2 * lam * Q @ (Q @ worst))
        assert np.linalg.norm(new) == pytest.approx(rate, rel=1e-11)


def test_quadratic_step_reproduces_the_optimal_rate_of_gd():
    assert theory.optimal_rate(1.0, 9.0, 0.0) == pytest.approx(0.8, rel=1e-15)
    assert theory.quadratic_step(1.0, 9.0, 0.0) == pytest.approx(0.2, rel=1e-15)


# --- curvature from H·v --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 10, 60])
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


def test_curvature_counts_every_product():
    H, calls = random_symmetric(np.random.default_rng(1), 40), []

    def hvp(x, v):
        calls.append(v)
        return H @ v

    found = theory.largest_curvature(hvp, np.zeros(40))
    assert found.n_hvp == len(calls) < 40
    calls.clear()
    assert theory.smoothness(hvp, np.zeros((3, 40))).n_hvp == len(calls)


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
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


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_singular_hessian_has_smallest_curvature_zero(scale):
    for seed in RNG_SEEDS:  # seed 0 included: the start must not be the first row of A
        A = np.random.default_rng(seed).standard_normal((5, 20))
        found = theory.smallest_curvature(product(scale * A.T @ A), np.zeros(20))
        assert found.converged
        assert found.n_hvp == 6  # five non-zero eigenvalues and the null space
        assert found.value == pytest.approx(0, abs=1e-12 * scale)


def test_ill_conditioned_smallest_curvature():
    t = np.geomspace(1e-6, 1.0, 200)
    found = theory.smallest_curvature(lambda x, v: t * v, np.zeros(200))
    assert found.converged
    assert found.value == pytest.approx(1e-6, rel=1e-5)


def test_unconverged_curvature_says_so_and_bounds_its_error():
    t = np.linspace(0.0, 1.0, 2000)
    found = theory.largest_curvature(lambda x, v: t * v, np.zeros(2000), max_hvp=10)
    assert not found.converged
    assert found.n_hvp == 10
    assert found.value <= 1.0 <= found.value + found.error
    assert np.abs(t - found.value).min() <= found.error


def test_curvature_is_deterministic_and_seeded():
    H = random_symmetric(np.random.default_rng(3), 50)
    first, again, other = (
        theory.largest_curvature(product(H), np.zeros(50), tol=1e-2, seed=s) for s in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_curvature_uses_the_point():
    # f = Σ x⁴/12, H = diag(x²)
    x = np.array([1.0, -3.0, 2.0])
    assert theory.largest_curvature(lambda x, v: x**2 * v, x).value == pytest.approx(9.0)
    assert theory.smallest_curvature(lambda x, v: x**2 * v, x).value == pytest.approx(1.0)


def test_smoothness_takes_the_magnitude_over_all_rows():
    points = np.array([[1.0, 2.0], [-4.0, 0.5], [3.0, 3.0]])
    found = theory.smoothness(lambda x, v: x * v, points)  # f = Σ x³/6: H = diag(x)
    assert found.value == pytest.approx(4.0)
    assert found.converged


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: theory.largest_curvature(product(np.eye(2)), np.zeros((2, 2))), "x must be"),
        (lambda: theory.largest_curvature(product(np.eye(2)), np.zeros(2), tol=0), "tol must"),
        (lambda: theory.largest_curvature(product(np.eye(2)), np.zeros(2), max_hvp=0), "max_hvp"),
        (lambda: theory.largest_curvature(lambda x, v: v[:1], np.zeros(2)), "hvp"),
        (lambda: theory.largest_curvature(lambda x, v: v * np.nan, np.zeros(2)), "hvp.*finite"),
        (lambda: theory.smoothness(product(np.eye(2)), np.zeros(2)), "points must have"),
        (lambda: theory.ritz_values([0.0], [0.0], [0.0]), "g must not be zero"),
        (lambda: theory.ritz_values([1.0, 2.0], [0.0], [0.0]), "Hg must be"),
    ],
)
def test_curvature_rejects_wrong_arguments(call, says):
    with pytest.raises(ValueError, match=says):
        call()


# --- Lemma 1 -------------------------------------------------------------------------------------


def test_penalised_gradient_and_curvature_against_mpmath():
    """Derivatives of f + λf'² itself, f = sin x + x²/3; at a root of f' the curvature is that of g."""

    def f(x):
        return mpmath.sin(x) + x * x / 3

    def g(x):
        return f(x) + mpmath.mpf("0.3") * mpmath.diff(f, x) ** 2

    for x in (-1.3, 0.2, 2.5):
        first, second = (float(mpmath.diff(f, x, k)) for k in (1, 2))
        ours = theory.penalised_gradient([first], [second * first], 0.3)
        assert ours[0] == pytest.approx(float(mpmath.diff(g, x)), rel=1e-9)
    root = mpmath.findroot(lambda x: mpmath.diff(f, x), -1)
    bend = theory.penalised_curvature(float(mpmath.diff(f, root, 2)), 0.3)
    assert bend == pytest.approx(float(mpmath.diff(g, root, 2)), rel=1e-8)
    batch = np.ones((2, 3))
    assert (theory.penalised_gradient(batch, 2 * batch, -0.5) == -1).all()


def test_classify_gradient_by_construction():
    rng = np.random.default_rng(0)
    for lam in (0.2, -0.7, 3.0):
        g = rng.standard_normal(5)
        assert theory.classify_gradient(g, -g / (2 * lam), lam) is Stationarity.ARTIFICIAL
        assert theory.classify_gradient(g, g / (2 * lam), lam) is Stationarity.NOT_STATIONARY
        assert theory.classify_gradient(0 * g, 0 * g, lam) is Stationarity.STATIONARY
    assert theory.classify_gradient(g, -g, 0.0) is Stationarity.NOT_STATIONARY


@pytest.mark.parametrize("size", [1e-5, 1.0, 1e6])
def test_classify_tolerance_is_relative(size):
    g = size * np.array([3.0, 4.0])
    off = size * np.array([4.0, -3.0])
    near, far = -g / 0.4 + 1e-7 * off, -g / 0.4 + 1e-5 * off
    assert theory.classify_gradient(g, near, 0.2) is Stationarity.ARTIFICIAL
    assert theory.classify_gradient(g, far, 0.2) is Stationarity.NOT_STATIONARY
    assert theory.classify_gradient(g, far, 0.2, tol=1e-4) is Stationarity.ARTIFICIAL
    assert theory.classify_gradient(g, near, 0.2, gtol=10 * size) is Stationarity.STATIONARY


def test_classify_evaluates_one_gradient_and_one_product():
    H, calls = np.diag([2.0, -2.5]), []

    def grad(x):
        calls.append("grad")
        return H @ x

    def hvp(x, v):
        calls.append("hvp")
        return H @ v

    lam = 0.2  # −1/(2λ) = −2.5, the second eigenvalue
    assert theory.classify([0.0, 1.0], grad, hvp, lam) is Stationarity.ARTIFICIAL
    assert calls == ["grad", "hvp"]
    assert theory.classify([1.0, 1.0], grad, hvp, lam) is Stationarity.NOT_STATIONARY
    assert theory.classify([0.0, 0.0], grad, hvp, lam) is Stationarity.STATIONARY
    assert len({kind.value for kind in Stationarity}) == 3


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: theory.classify_gradient([1.0], [1.0, 2.0], 0.1), "Hg must be"),
        (lambda: theory.penalised_gradient([1.0], [1.0, 2.0], 0.1), "Hg must have the shape of g"),
        (lambda: theory.penalised_curvature([np.nan], 0.1), "t must be finite"),
        (lambda: theory.classify_gradient([np.nan], [1.0], 0.1), "g must be finite"),
        (lambda: theory.classify_gradient([1.0], [1.0], [0.1, 0.2]), "lam must be one number"),
        (lambda: theory.classify_gradient([1.0], [1.0], 0.1, tol=-1.0), "tol must be"),
        (lambda: theory.classify([1.0], lambda x: [1.0, 2.0], lambda x, v: v, 0.1), "grad"),
        (lambda: theory.artificial_points(np.cos, np.sin, 0.1, (1.0, 1.0)), "interval must be"),
        (lambda: theory.artificial_points(np.cos, np.sin, 0.1, (0, 1), samples=1), "samples"),
        (lambda: theory.artificial_points(np.cos, lambda x: 1.0, 0.1, (0, 1)), "d2f"),
        (lambda: theory.artificial_points(np.sin, lambda x: 0 * x - 5, 0.1, (0, 1)), "stretch"),
        (lambda: theory.nature(np.ones((2, 3))), "square"),
        (lambda: theory.nature([[1.0, 2.0], [0.0, 1.0]]), "symmetric"),
    ],
)
def test_stationary_rejects_wrong_arguments(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def levy(x, m=np):
    w = 1 + (x - 1) / 4
    return m.sin(m.pi * w) ** 2 + (w - 1) ** 2 * (1 + m.sin(2 * m.pi * w) ** 2)


def levy_d1(x):
    w = 1 + (x - 1) / 4
    dw = np.pi * np.sin(2 * np.pi * w)
    dw += 2 * (w - 1) * (1 + np.sin(2 * np.pi * w) ** 2)
    return (dw + (w - 1) ** 2 * 2 * np.pi * np.sin(4 * np.pi * w)) / 4


def levy_d2(x):
    w = 1 + (x - 1) / 4
    d2w = 2 * np.pi**2 * np.cos(2 * np.pi * w) + 2 * (1 + np.sin(2 * np.pi * w) ** 2)
    d2w += 8 * np.pi * (w - 1) * np.sin(4 * np.pi * w)
    return (d2w + 8 * np.pi**2 * (w - 1) ** 2 * np.cos(4 * np.pi * w)) / 16


def test_levy_derivatives_match_mpmath():
    with mpmath.workdps(30):
        for x in (-8.1, -7.7, -6.5, 0.3, 4.4):
            first, second = (mpmath.diff(lambda t: levy(t, mpmath), x, k) for k in (1, 2))
            assert levy_d1(x) == pytest.approx(float(first), rel=1e-11, abs=1e-11)
            assert levy_d2(x) == pytest.approx(float(second), rel=1e-11, abs=1e-11)


def test_levy_artificial_points_of_the_papers_figure():
    lam = 0.2
    found = theory.artificial_points(levy_d1, levy_d2, lam, (-8.0, -6.0))
    assert found == pytest.approx([-7.6, -6.5], abs=0.1)
    with mpmath.workdps(30):
        for x in found:
            exact = mpmath.findroot(lambda t: 1 + 2 * lam * mpmath.diff(lambda s: levy(s, mpmath), t, 2), x)
            assert x == pytest.approx(float(exact), abs=1e-12)
    for x in found:
        point = np.array([x])
        kind = theory.classify(point, levy_d1, lambda x, v: levy_d2(x) * v, lam)
        assert kind is Stationarity.ARTIFICIAL
    wide = theory.artificial_points(levy_d1, levy_d2, lam, (-10.0, 10.0))
    slope = levy_d1(np.linspace(-10, 10, 100_001))
    penalised = slope * (1 + 2 * lam * levy_d2(np.linspace(-10, 10, 100_001)))

    def crossings(y):
        return np.count_nonzero(np.diff(np.sign(y)))

    assert wide.size == crossings(penalised) - crossings(slope)


def test_levy_maximum_turns_into_a_minimum():
    with mpmath.workdps(30):
        top = float(mpmath.findroot(lambda t: mpmath.diff(lambda s: levy(s, mpmath), t), -8.12))
    assert top == pytest.approx(-8.12, abs=0.005)
    assert theory.nature(levy_d2(top)) is Nature.MAXIMUM
    assert theory.penalised_nature(levy_d2(top), 0.2) is Nature.MINIMUM
    x = top + np.linspace(-0.05, 0.05, 11)
    assert np.argmax(levy(x)) == 5
    assert np.argmin(levy(x) + 0.2 * levy_d1(x) ** 2) == 5
    # and at −7.7 the penalised direction climbs f
    assert levy_d1(-7.7) * levy_d1(-7.7) * (1 + 0.4 * levy_d2(-7.7)) < 0


def test_artificial_points_drop_roots_that_are_stationary_for_f():
    # f = cos x at λ = 1: cos x = ½, where f' is not zero
    roots = theory.artificial_points(lambda x: -np.sin(x), lambda x: -np.cos(x), 1.0, (-7, 7))
    assert roots == pytest.approx(np.pi / 3 * np.array([-5, -1, 1, 5]), abs=1e-13)
    # f = x³/3 − x at λ = ¼: 1 + x = 0 at x = −1, where f' = x² − 1 = 0 too
    cubic = lambda x: x**2 - 1, lambda x: 2 * x
    assert theory.artificial_points(*cubic, 0.25, (-3, 2)).size == 0
    assert theory.artificial_points(*cubic, 0.5, (-3, 2)) == pytest.approx([-0.5])
    assert theory.artificial_points(*cubic, 0.0, (-3, 2)).size == 0


def test_artificial_points_on_a_sample_are_found_once():
    found = theory.artificial_points(lambda x: x**2, lambda x: 2 * x, 0.25, (-2, 0), samples=3)
    assert found.tolist() == [-1.0]


@pytest.mark.parametrize(
    ("t", "expected"),
    [
        ([1, 2, 3], Nature.MINIMUM),
        ([-1, -2, -3], Nature.MAXIMUM),
        ([-1, 2, 3], Nature.SADDLE),
        ([0, 2, 3], Nature.DEGENERATE),
        ([0, -2, -3], Nature.DEGENERATE),
        ([0, -2, 3], Nature.SADDLE),
        ([0, 0, 0], Nature.DEGENERATE),
        ([1e-13, 1, 1], Nature.DEGENERATE),
        ([1e-8, 1, 1], Nature.MINIMUM),
        ([1e-14, 2e-14, 3e-14], Nature.MINIMUM),
    ],
)
def test_nature_from_a_rotated_spectrum(t, expected):
    basis, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))
    assert theory.nature((basis * np.array(t)) @ basis.T) is expected


@given(arrays(float, 3, elements=st.floats(-3, 3).map(lambda t: round(t, 3))), st.floats(-1, 1))
def test_penalised_nature_matches_the_penalised_hessian(t, lam):
    lam = round(lam, 3)
    margin = np.abs(np.concatenate([t, 1 + 2 * lam * t])).min()
    assume(margin >= 1e-3)
    basis, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))
    H = (basis * t) @ basis.T
    assert theory.penalised_nature(H, lam) is theory.nature(H + 2 * lam * H @ H)


def test_penalised_hessian_at_a_stationary_point_by_mpmath():
    """The third-derivative term does vanish: g'' = t + 2λt² where f' = 0, not elsewhere."""
    lam = 0.3
    with mpmath.workdps(40):
        f = lambda x: mpmath.cos(x) + x**3 / 10 * mpmath.sin(x) ** 2  # noqa: E731
        g = lambda x: f(x) + lam * mpmath.diff(f, x) ** 2  # noqa: E731
        t = mpmath.diff(f, 0, 2)
        assert abs(mpmath.diff(f, 0)) < 1e-30
        assert abs(mpmath.diff(g, 0, 2) - t * (1 + 2 * lam * t)) < 1e-15
    assert theory.penalised_nature(float(t), lam) is Nature.MAXIMUM
    assert theory.penalised_nature(float(t), 0.6) is Nature.MINIMUM
    assert theory.penalised_nature(float(t), 0.5) is Nature.DEGENERATE


def test_penalised_nature_keeps_small_curvatures_apart():
    t = np.diag([1e-4, 1e5])  # t(1+2λt): 1e-4 against 2e10
    assert theory.penalised_nature(t, 1.0) is Nature.MINIMUM
    assert theory.penalised_nature(np.diag([-4.0, 1.0]), 0.2) is Nature.MINIMUM


# --- what λ does: identities ---------------------------------------------------------------------


def relative(a, b):
    return np.linalg.norm(np.asarray(a) - b) / np.linalg.norm(b)


@pytest.mark.parametrize("seed", range(20))
def test_best_lam_points_at_the_minimum_on_the_plane(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    H, g = random_spd(rng, n, 0.5, 20.0), rng.standard_normal(n)
    # independent: an orthonormal basis of the plane and the projected Newton system
    plane, _ = np.linalg.qr(np.column_stack([g, H @ g]))
    small = plane.T @ H @ plane
    best = -plane @ np.linalg.solve(small, plane.T @ g)
    theta = np.linalg.eigvalsh(small)
    lam = theory.best_lam(g, H @ g, H @ (H @ g))
    assert relative(theory.ritz_values(g, H @ g, H @ (H @ g)), theta) < 1e-12
    assert lam == pytest.approx(-1 / (2 * theta.sum()), rel=1e-12)
    step = theta.sum() / theta.prod()
    assert relative(-step * (g + 2 * lam * H @ g), best) < 1e-11


def test_best_lam_where_the_plane_is_a_line_or_the_model_has_no_minimum():
    g = np.array([2.0, 0.0])
    assert theory.ritz_values(g, 3 * g, 9 * g).tolist() == [3.0]
    assert theory.best_lam(g, 3 * g, 9 * g) == 0.0
    assert np.isnan(theory.best_lam(g, -3 * g, 9 * g))
    H = np.diag([1.0, -0.5])
    g = np.array([1.0, 1.0])
    assert np.isnan(theory.best_lam(g, H @ g, H @ H @ g))
    assert theory.best_lam([5.0], [10.0], [20.0]) == 0.0


@given(
    arrays(float, (4, 4), elements=EIGHTHS),
    arrays(float, 4, elements=EIGHTHS),
    st.floats(1e-6, 1e3),
)
def test_negative_lam_on_negative_curvature_keeps_descent(A, g, size):
    H = A + A.T
    if g @ H @ g > 0:
        H = -H
    Hg = H @ g
    assume(g @ Hg < 0)
    p = -(g + 2 * -size * Hg)
    assert g @ p < 0
    # the paper's sign does not: λ large enough along the same curvature climbs
    lam = -(g @ g) / (g @ Hg)
    assert g @ -(g + 2 * lam * Hg) > 0


@pytest.mark.parametrize("seed", range(10))
def test_memoryless_bfgs_step_is_a_cgd_step(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 20))
    H, g = random_spd(rng, n, 0.2, 9.0), rng.standard_normal(n)
    s = 0.01 * g
    y = H @ s
    gamma = s @ y / (y @ y)
    left = np.eye(n) - np.outer(s, y) / (s @ y)
    G = gamma * left @ left.T + np.outer(s, s) / (s @ y)
    Hg = H @ g
    a, gam = g @ g / (g @ Hg), g @ Hg / (Hg @ Hg)
    assert gamma == pytest.approx(gam, rel=1e-12)
    assert relative(-2 * a * (g - 0.5 * gam * Hg), -G @ g) < 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_next_bfgs_trial_in_a_metric_is_a_cgd_step(seed):
    """After the unit step s = −Gg, BFGS's next unit trial is a CGD step from x in the metric G."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 20))
    H, G = random_spd(rng, n, 0.2, 9.0), random_spd(rng, n, 0.1, 2.0)
    x = rng.standard_normal(n)
    g = H @ x
    s = -G @ g
    y = H @ (x + s) - g
    sy, yGy = s @ y, y @ G @ y
    left = np.eye(n) - np.outer(s, y) / sy
    updated = left @ G @ left.T + np.outer(s, s) / sy
    trial = (x + s) - updated @ (H @ (x + s))
    lam = -0.5 * sy / (sy + yGy)
    alpha = (g @ G @ g / sy) * (1 + yGy / sy)
    assert relative(x - alpha * (G @ g + 2 * lam * G @ (H @ (G @ g))), trial) < 1e-11
