"""What theory promises on quadratics: finite termination, Theorem 1, the best constant step."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as hs

import steepen as st
from steepen._core.kits import kit_for
from steepen.directions.quasi_newton import Approximation

from .objectives import BY_NAME, Problem, quadratic, spd

SEEDS = hs.integers(0, 10_000)
SEVERAL = settings(deadline=None, max_examples=40, derandomize=True)


def random_quadratic(n: int, seed: int, low: float = 1.0, high: float = 20.0) -> tuple[Problem, Any]:
    """Give ½xᵀQx − bᵀx with n distinct eigenvalues from low to high, and Q."""
    rng = np.random.default_rng(seed)
    inside = low + (high - low) * (np.arange(1, n - 1) + rng.uniform(-0.3, 0.3, max(n - 2, 0))) / (n - 1)
    Q = spd(np.array([low, *inside, high])[:n], seed)
    start = tuple(float(s) for s in rng.standard_normal(n))
    return quadratic("random", Q, rng.standard_normal(n), start), Q


# --- finite termination -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["bfgs", "dfp"])
@given(n=hs.integers(2, 12), seed=SEEDS)
@SEVERAL
def test_exact_line_search_ends_within_n_steps(method: str, n: int, seed: int):
    problem, Q = random_quadratic(n, seed)
    res = st.minimize(
        problem.fun, problem.x0, method=method, jac=problem.grad, hvp=problem.hvp, step=st.steps.Quadratic(),
        gtol=1e-8 * float(np.linalg.norm(problem.grad(problem.x0))), budget=st.Budget(iters=n + 1),
    )  # fmt: skip
    assert res.success
    assert res.nit <= n + 1
    solution = problem.x0 - np.linalg.solve(Q, problem.grad(problem.x0))
    assert np.allclose(res.x, solution, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rule", ["bfgs", "dfp"])
@pytest.mark.parametrize("inverse", [True, False])
@pytest.mark.parametrize("n", [2, 3, 5, 8, 12])
def test_then_the_approximation_is_the_matrix(rule: Any, inverse: bool, n: int):
    """After n exact line searches, G = Q⁻¹; the Hessian form, fed with the same pairs, is Q."""
    problem, Q = random_quadratic(n, seed=n)
    res = st.minimize(
        problem.fun, problem.x0, method=rule, jac=problem.grad, hvp=problem.hvp, step=st.steps.Quadratic(),
        gtol=0, trace="x", budget=st.Budget(iters=n),
    )  # fmt: skip
    assert res.nit == n
    assert res.trace is not None
    assert res.trace.x is not None
    kit = kit_for(problem.x0)
    approximation = Approximation(rule, inverse=inverse)
    memory = approximation.start(kit, problem.x0)
    for x in res.trace.x:
        memory = approximation.learn(kit, x, problem.grad(x), memory)
    expected = np.linalg.inv(Q) if inverse else Q
    assert np.abs(memory.matrix - expected).max() <= 1e-5 * np.abs(expected).max()


@given(n=hs.integers(2, 12), seed=SEEDS)
@SEVERAL
def test_the_quadratic_step_is_the_exact_line_search(n: int, seed: int):
    """The new gradient is orthogonal to the step: nothing is left to gain along it."""
    problem, _ = random_quadratic(n, seed)
    for method in ("gd", "cgd"):
        res = st.minimize(
            problem.fun, problem.x0, method=method, jac=problem.grad, hvp=problem.hvp,
            step=st.steps.Quadratic(), trace="x", budget=st.Budget(iters=6),
            **({"lam": 0.1} if method == "cgd" else {}),
        )  # fmt: skip
        assert res.trace is not None
        assert res.trace.x is not None
        moves, after = np.diff(res.trace.x, axis=0), problem.grad(res.trace.x)[1:]
        slopes = (moves * after).sum(axis=-1)
        before = (moves * problem.grad(res.trace.x)[:-1]).sum(axis=-1)
        assert (np.abs(slopes) <= 1e-9 * np.abs(before)).all()


# --- Theorem 1 ----------------------------------------------------------------------------------------


@given(n=hs.integers(2, 8), seed=SEEDS, lam=hs.floats(0, 2), flat=hs.booleans())
@SEVERAL
def test_safe_step_never_raises_f_on_convex_quadratics(n: int, seed: int, lam: float, flat: bool):
    low, high = (0.0, 5.0) if flat else (1.0, 5.0)
    problem, Q = random_quadratic(n, seed, low, high)
    if flat:
        problem = quadratic("flat", Q, Q @ np.ones(n), problem.start)  # singular, but bounded below
    res = st.minimize(
        problem.fun, problem.x0, method="cgd", jac=problem.grad, hvp=problem.hvp, lam=lam,
        step=st.steps.safe(high, lam), gtol=1e-6, budget=st.Budget(iters=60),
    )  # fmt: skip
    trace = res.trace
    assert trace is not None
    assert not trace.guarded.any(), "convex: the penalised direction always descends"
    # with α = 1/(L(1 + 2λL)²) the fall is at least α‖∇f‖²/2
    promised = trace.step[:-1] * trace.gnorm[:-1] ** 2 / 2
    noise = 1e-14 * np.abs(trace.f).max()
    assert (trace.f[:-1] - trace.f[1:] >= promised * (1 - 1e-9) - noise).all()
    assert (np.diff(trace.f) <= noise).all()
    if not flat:
        best = problem.fun(np.linalg.solve(Q, Q @ problem.x0 - problem.grad(problem.x0)))
        rate = 1 - low / (high * (1 + 2 * lam * high) ** 2)
        assert (
            trace.f - best <= rate ** np.arange(len(trace)) * (trace.f[0] - best) * (1 + 1e-9) + noise
        ).all()


def test_safe_step_follows_a_schedule_of_lam():
    problem = BY_NAME["logistic"]
    L = float(np.linalg.norm(problem.hess(np.zeros(3)), 2))  # the logistic bends most at 0
    lam = st.L(0.0, 1.0, T=50)
    res = st.minimize(
        problem.fun, problem.x0, method="cgd", jac=problem.grad, hvp=problem.hvp, lam=lam,
        step=st.steps.safe(L, lam), budget=st.Budget(iters=50),
    )  # fmt: skip
    assert res.trace is not None
    ramp = np.linspace(0.0, 1.0, 50)[: res.nit]
    assert np.allclose(res.trace.step[:-1], 1 / (L * (1 + 2 * ramp * L) ** 2), rtol=1e-12)
    assert (np.diff(res.trace.f) < 0).all()


# --- the best constant step on a quadratic --------------------------------------------------------------


@given(n=hs.integers(2, 8), seed=SEEDS, lam=hs.floats(0, 3))
@SEVERAL
def test_quadratic_optimal_contracts_as_the_paper_says(n: int, seed: int, lam: float):
    low, high = 1.0, 6.0
    problem, Q = random_quadratic(n, seed, low, high)
    solution = problem.x0 - np.linalg.solve(Q, problem.grad(problem.x0))
    res = st.minimize(
        problem.fun, problem.x0, method="cgd", jac=problem.grad, hvp=problem.hvp, lam=lam,
        step=st.steps.quadratic_optimal(low, high, lam), gtol=0, trace="x", budget=st.Budget(iters=25),
    )  # fmt: skip
    assert res.trace is not None
    errors = np.linalg.norm(res.trace.x - solution, axis=-1)
    kappa = (1 + 2 * lam * high) * high / ((1 + 2 * lam * low) * low)
    rate = (kappa - 1) / (kappa + 1)
    assert (errors[1:] <= rate * errors[:-1] + 1e-13 * (1 + np.linalg.norm(solution))).all()


@pytest.mark.parametrize("lam", [0.0, 0.4, 3.0])
def test_quadratic_optimal_rate_is_attained(lam: float):
    """Along the two extreme eigenvectors the error shrinks by exactly (κ − 1)/(κ + 1) in every step."""
    low, high = 1.0, 6.0
    problem = quadratic("extremes", np.diag([low, 3.0, high]), np.zeros(3), (1.0, 0.0, -2.0))
    res = st.minimize(
        problem.fun, problem.x0, method="cgd", jac=problem.grad, hvp=problem.hvp, lam=lam,
        step=st.steps.quadratic_optimal(low, high, lam), gtol=0, trace="x", budget=st.Budget(iters=10),
    )  # fmt: skip
    assert res.trace is not None
    errors = np.linalg.norm(res.trace.x, axis=-1)
    kappa = (1 + 2 * lam * high) * high / ((1 + 2 * lam * low) * low)
    assert np.allclose(errors[1:] / errors[:-1], (kappa - 1) / (kappa + 1), rtol=1e-9)
