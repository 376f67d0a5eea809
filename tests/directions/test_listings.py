"""The paper's listings, transcribed line by line, against the library, step for step."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as hs

import steepen as st
from steepen._core import matrix as _matrix
from steepen._core.kits import kit_for

from ..objectives import BY_NAME, Array, Problem, drop_wave, levy, quadratic, spd
from ..pairs import pairs

Coefficients = Callable[[int], float]


@dataclass
class Steps:
    """What a listing did: its iterates, and of each step whether p was used or the else branch taken."""

    x: list[Array]
    used: list[bool] = field(default_factory=list)
    refused: list[bool] = field(default_factory=list)
    c: list[int] = field(default_factory=list)
    skipped: list[bool] = field(default_factory=list)


def listing_of_cgd(f, x0, T, alpha, lam):
    out = Steps([x0])
    x = x0
    for k in range(T):
        g, H = f.grad(x), f.hess(x)
        p = -(np.eye(len(x)) + 2 * lam(k) * H) @ g
        descent = bool(g @ p < 0)
        x = x + alpha * p if descent else x - alpha * g
        out.x.append(x)
        out.used.append(descent)
        out.refused.append(not descent)
    return out


def inverse_dfp(G, s, y):
    return G + np.outer(s, s) / (y @ s) - (G @ np.outer(y, y) @ G) / (y @ G @ y)


def inverse_bfgs(G, s, y):
    eye = np.eye(len(s))
    left, right = eye - np.outer(s, y) / (y @ s), eye - np.outer(y, s) / (y @ s)
    return left @ G @ right + np.outer(s, s) / (y @ s)


def hessian_dfp(G, s, y):
    eye = np.eye(len(s))
    left, right = eye - np.outer(y, s) / (y @ s), eye - np.outer(s, y) / (y @ s)
    return left @ G @ right + np.outer(y, y) / (y @ s)


def hessian_bfgs(G, s, y):
    return G + np.outer(y, y) / (y @ s) - (G @ np.outer(s, s) @ G) / (s @ G @ s)


UPDATES = {"bfgs": inverse_bfgs, "dfp": inverse_dfp, "cgd-bfgs": hessian_bfgs, "cgd-dfp": hessian_dfp}


def listing_of_qn(f, x0, T, alpha, lam, method):
    """CGD-QN, and x₊ = x − α·G·∇f of the preliminaries; a pair without positive curvature is skipped."""
    out = Steps([x0])
    x, G, eye = x0, np.eye(len(x0)), np.eye(len(x0))
    for k in range(T):
        g = f.grad(x)
        p = -(eye + 2 * lam(k) * G) @ g if method.startswith("cgd") else -G @ g
        descent = bool(g @ p < 0)
        new = x + alpha * p if descent else x - alpha * g
        s, y = new - x, f.grad(new) - g
        skip = bool(y @ s <= 1e-10 * np.linalg.norm(y) * np.linalg.norm(s))
        G = G if skip else UPDATES[method](G, s, y)
        x = new
        out.x.append(x)
        out.used.append(descent and method.startswith("cgd"))
        out.refused.append(not descent)
        out.skipped.append(skip)
    return out


def listing_of_cgd_fd(f, x0, T, alpha, lam, r, b):
    out = Steps([x0], c=[0])
    x = x0
    use_cgd = True
    c = 0
    for k in range(T):
        if c == T:
            return out
        nu = 2 * lam(k) / r
        g = f.grad(x)
        if use_cgd:
            p = -(1 - nu) * g - nu * f.grad(x + r * g)
            c = c + 2
            descent = bool(g @ p < 0)
            if descent:
                x = x + alpha * p
            else:
                x = x - alpha * g
                use_cgd = False
            out.used.append(descent)
            out.refused.append(not descent)
        else:
            x = x - alpha * g
            c = c + 1
            out.used, out.refused = [*out.used, False], [*out.refused, False]
        if k >= b:
            use_cgd = False
        out.x.append(x)
        out.c.append(c)
    return out


def coefficients(lam, T):
    """A number, or the paper's L(a, b) as a pair."""
    values = np.linspace(*lam, T) if isinstance(lam, tuple) else np.full(T, lam)
    return lambda k: float(values[k])


def argument(lam):
    return st.L(*lam) if isinstance(lam, tuple) else lam


def same(found, expected, rtol=1e-10):
    expected = np.array(expected)
    assert found.shape == expected.shape
    scale = np.maximum(np.linalg.norm(expected, axis=-1, keepdims=True), 1e-3)
    assert (np.abs(found - expected) <= rtol * scale).all()


NEAR_GUARD = levy(1, (-7.7,))
WAVE = drop_wave((0.35, 0.6))


# --- CGD ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "alpha", "lam"),
    [
        (BY_NAME["matyas"], 0.01, 10.0),
        (BY_NAME["logistic"], 0.3, 0.5),
        (BY_NAME["booth"], 0.01, -0.02),
        (BY_NAME["near_saddle"], 0.05, 0.4),
        (NEAR_GUARD, 0.02, 0.2),
        (WAVE, 0.001, 0.05),
        (levy(2, (-9.4186315, -5.2738909)), 0.02, (0.01, 0.1)),
    ],
    ids=str,
)
def test_cgd(problem, alpha, lam):
    T = 20
    value = coefficients(lam, T)
    paper = listing_of_cgd(problem, problem.x0, T, alpha, value)
    for second in ({"hess": problem.hess}, {"hvp": problem.hvp}):
        res = st.minimize(
            problem.fun, problem.x0, method="cgd", jac=problem.grad, **second, step=alpha, lam=argument(lam),
            gtol=0, trace="x", budget=st.Budget(iters=T),
        )  # fmt: skip
        assert res.trace is not None
        same(res.trace.x, paper.x)
        assert res.trace.penalised[:-1].tolist() == paper.used
        assert res.trace.guarded[:-1].tolist() == paper.refused
        expected = [value(k) if used else 0.0 for k, used in enumerate(paper.used)]
        assert np.allclose(res.trace.lam[:-1], expected, rtol=1e-14)


def test_cgd_guard_fires_and_lets_go_again():
    """Near −7.7 the penalised direction climbs; further down it is used again: there is no switch."""
    flags = listing_of_cgd(NEAR_GUARD, NEAR_GUARD.x0, 20, 0.02, coefficients(0.2, 20)).refused
    assert flags[0]
    assert not flags[-1]


# --- CGD-QN and the preliminaries ----------------------------------------------------------


def agrees_with_qn(problem, x0, T, alpha, lam, method):
    paper = listing_of_qn(problem, x0, T, alpha, coefficients(lam, T), method)
    penalty = {"lam": argument(lam)} if method.startswith("cgd") else {}
    res = st.minimize(
        problem.fun, x0, method=method, jac=problem.grad, step=alpha, gtol=0, trace="x", **penalty,
        budget=st.Budget(iters=T),
    )  # fmt: skip
    assert res.trace is not None
    same(res.trace.x, paper.x)
    assert res.trace.penalised[:-1].tolist() == paper.used
    assert res.trace.guarded[:-1].tolist() == paper.refused
    assert (res.trace.njev == np.arange(T + 1)).all()
    return paper


@pytest.mark.parametrize("method", sorted(UPDATES))
@pytest.mark.parametrize(
    ("problem", "alpha", "lam"),
    [
        (BY_NAME["logistic"], 0.3, 0.5),
        (BY_NAME["chain40"], 0.005, 0.3),
        (BY_NAME["quadratic"], 0.02, -0.45),  # 1 + 2λ > 0, but the matrix grows: the guard fires
        (BY_NAME["chain40"], 0.005, -0.6),  # at once, as 1 + 2λ < 0
        (BY_NAME["zakharov4"], 1e-4, (0.0, 0.05)),
    ],
    ids=str,
)
def test_quasi_newton(problem, alpha, lam, method):
    paper = agrees_with_qn(problem, problem.x0, 15, alpha, lam, method)
    assert not any(paper.skipped), "not a case for the listing alone"
    assert any(paper.refused) == (np.min(lam) < 0 and method.startswith("cgd"))


# --- the policy for pairs without positive curvature ------------------------------------------------


@pairs(method=sorted(UPDATES), n=[2, 40])
def test_a_pair_of_negative_curvature_leaves_the_matrix_as_it_was(method, n):
    curvatures = np.where(np.arange(n) == 0, 1.0, -1.0)
    problem = quadratic("indefinite", np.diag(curvatures), np.zeros(n), (0.1,) + (1.0,) * (n - 1))
    penalty = {"lam": 0.3} if method.startswith("cgd") else {}
    res = st.minimize(
        problem.fun, problem.x0, method=method, jac=problem.grad, step=0.1, gtol=0, trace="x", **penalty,
        budget=st.Budget(iters=5),
    )  # fmt: skip
    assert res.trace is not None
    x = res.trace.x
    assert x is not None
    moves, changes = np.diff(x, axis=0), np.diff(problem.grad(x), axis=0)
    assert ((moves * changes).sum(axis=-1) < 0).all()
    # the matrix is still the identity, so every direction is a multiple of −∇f
    factor = 1 + 2 * 0.3 if penalty else 1.0
    assert np.allclose(moves, -0.1 * factor * problem.grad(x[:-1]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("method", sorted(UPDATES))
def test_the_policy_in_the_middle_of_a_run(method):
    """Good pairs, then bad ones: the listing with the stated policy, and the directions that follow."""
    paper = agrees_with_qn(BY_NAME["near_saddle"], np.array([0.3, 0.1]), 20, 0.1, -0.1, method)
    assert not paper.skipped[0]
    assert any(paper.skipped)


# --- CGD-FD ------------------------------------------------------------------------------------


def agrees_with_cgd_fd(problem, T, alpha, lam, r, b=None, rtol=1e-10):
    value = coefficients(lam, T)
    paper = listing_of_cgd_fd(problem, problem.x0, T, alpha, value, r, T // 4 if b is None else b)
    # the listing's test `c = T` can be jumped over by a step of 2: a budget cannot
    fits = int(np.sum(np.array(paper.c) <= T))
    res = st.minimize(
        problem.fun, problem.x0, method="cgd-fd", jac=problem.grad, step=alpha, r=r, gtol=0, trace="x",
        lam=argument(lam), b=b, budget=st.Budget(grads=T),
    )  # fmt: skip
    assert res.trace is not None
    same(res.trace.x, paper.x[:fits], rtol)
    assert res.trace.penalised[:-1].tolist() == paper.used[: fits - 1]
    assert res.trace.guarded[:-1].tolist() == paper.refused[: fits - 1]
    assert res.trace.njev.tolist() == paper.c[:fits]
    assert res.njev <= T
    assert res.status is st.Status.MAX_GRADIENTS
    expected = [value(k) if used else 0.0 for k, used in enumerate(paper.used[: fits - 1])]
    assert np.allclose(res.trace.lam[:-1], expected, rtol=1e-14)
    return Steps(paper.x[:fits], paper.used[: fits - 1], paper.refused[: fits - 1], paper.c[:fits])


@pairs(
    T=[1, 2, 3, 4, 7, 8, 39, 40, 41],
    given=[
        (levy(2, (-9.4186315, -5.2738909)), 0.05, (0.01, 0.1), 0.01),
        (BY_NAME["branin"], 0.01, 0.07, 0.2),
        (BY_NAME["matyas"], 0.01, 10.0, 0.1),
    ],
)
def test_cgd_fd(given, T):
    problem, *rest = given
    agrees_with_cgd_fd(problem, T, *rest)


@pairs(b=[0, 1, 5, 39, 100], T=[5, 40, 41])
def test_cgd_fd_threshold(b, T):
    paper = agrees_with_cgd_fd(BY_NAME["logistic"], T, 0.2, 0.3, 0.05, b=b)
    assert sum(paper.used) == min(b + 1, T // 2), "the listing makes b + 1 penalised iterations"


def test_cgd_fd_with_a_small_probe():
    """ν = 2λ/r is then near 1e5, and as much of the precision is lost in either way of writing p."""
    agrees_with_cgd_fd(BY_NAME["quadratic"], 40, 0.01, 0.4, 1e-5, rtol=1e-7)


@pytest.mark.parametrize(
    ("problem", "alpha", "lam", "r"),
    [
        (NEAR_GUARD, 0.02, 0.2, 1e-3),
        (WAVE, 0.001, 0.05, 1e-2),
        (levy(2, (-7.4, -7.0)), 0.01, (0.0, 1.0), 1e-2),
    ],
    ids=str,
)
def test_cgd_fd_guard(problem, alpha, lam, r):
    paper = agrees_with_cgd_fd(problem, 40, alpha, lam, r)
    assert sum(paper.refused) == 1, "the guard fires, and ends the penalty"
    assert not any(paper.used[paper.refused.index(True) :])


@given(
    x=hs.tuples(hs.floats(-2, 2), hs.floats(-2, 2)),
    T=hs.integers(1, 50),
    b=hs.integers(0, 30),
    lam=hs.floats(-0.5, 2.0),
    r=hs.floats(0.01, 0.3),
)
def test_cgd_fd_anywhere(x, T, b, lam, r):
    saddle = BY_NAME["near_saddle"]
    start = Problem("start", saddle.f, saddle.g, saddle.h, x, saddle.step)
    assume(np.any(start.grad(start.x0)))  # a stationary start is converged, whatever the budget
    paper = listing_of_cgd_fd(start, start.x0, T, 0.01, coefficients(lam, T), r, b)
    assume(np.isfinite(paper.x).all() and np.abs(paper.x).max() < 10)
    agrees_with_cgd_fd(start, T, 0.01, lam, r, b=b, rtol=1e-8)


# --- the two ways of computing an update --------------------------------------------------------------


@pairs(n=[2, 31, 32, 33], dtype=[np.float32, np.float64], method=sorted(UPDATES))
def test_updates_agree_with_the_product_forms(method, dtype, n):
    rng = np.random.default_rng(n)
    Q = spd(np.geomspace(0.5, 5.0, n), n)
    inverse = method in {"bfgs", "dfp"}
    product_form = method in {"bfgs", "cgd-dfp"}
    naive = np.eye(n)
    x = rng.standard_normal(n).astype(dtype)
    one, many = kit_for(x), kit_for(np.stack([x, x]))
    fast, rows = one.identity(x), many.identity(np.stack([x, x]))
    for _ in range(8):
        s = rng.standard_normal(n).astype(dtype)
        y = (Q @ s).astype(dtype)
        naive = UPDATES[method](naive, s.astype(np.float64), y.astype(np.float64))
        a, b = (s, y) if inverse else (y, s)
        fast = _matrix.update(fast, a, b, one, product_form=product_form)
        rows = _matrix.update(rows, np.stack([a, a]), np.stack([b, b]), many, product_form=product_form)
        v = rng.standard_normal(n).astype(dtype)
        products = [naive @ v, one.product(fast, v), *many.product(rows, np.stack([v, v]))]
        tolerance = (2e-4 if dtype == np.float32 else 1e-12) * np.abs(products[0]).max()
        for product in products[1:]:
            assert product.dtype == dtype
            assert np.abs(product - products[0]).max() <= tolerance
        # the secant equation: the new matrix maps b to a
        assert np.abs(one.product(fast, b) - a).max() <= tolerance * max(1.0, float(np.abs(a).max()))


@pairs(method=sorted(UPDATES), dtype=[np.float32, np.float64])
def test_runs_on_blas_agree_with_runs_without(method, dtype):
    problem = BY_NAME["chain40"]
    x0 = problem.x0.astype(dtype)
    penalty = {"lam": 0.1} if method.startswith("cgd") else {}
    common = {"method": method, "jac": problem.grad, "step": 0.02, "trace": "x", **penalty}
    budget = st.Budget(iters=20)
    alone = st.minimize(problem.fun, x0, budget=budget, **common)
    batch = st.minimize(problem.fun, np.stack([x0, x0 / 2]), budget=budget, **common).row(0)
    assert alone.x.dtype == batch.x.dtype == dtype
    assert alone.trace is not None
    assert batch.trace is not None
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    assert np.allclose(alone.trace.x, batch.trace.x, rtol=tolerance, atol=tolerance)
