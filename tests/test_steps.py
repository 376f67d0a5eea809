"""Step sizes: line searches, exact steps on quadratics, and the paper's formulas."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import steepen as st
from steepen import steps, theory

from .calls import traced
from .objectives import METHODS, quadratic, spd
from .pairs import pairs
from .test_scale import plain, slope

SEEDS = some.integers(0, 10_000)


def random_quadratic(n, seed, low=1.0, high=20.0):
    """Return ½xᵀQx − bᵀx with n distinct eigenvalues from low to high, and Q."""
    rng = np.random.default_rng(seed)
    inside = low + (high - low) * (np.arange(1, n - 1) + rng.uniform(-0.3, 0.3, max(n - 2, 0))) / (n - 1)
    Q = spd(np.array([low, *inside, high])[:n], seed)
    start = tuple(float(s) for s in rng.standard_normal(n))
    return quadratic("random", Q, rng.standard_normal(n), start), Q


def run(problem, method, **given_):
    given_ |= {"jac": problem.grad, "hvp": problem.hvp, "trace": "x"}
    return st.minimize(problem.fun, problem.x0, method=method, **given_)


STARTS = [(-1.2, 1.0), (1.9, -1.7), (0.1, 1.5)]


@pairs(method=METHODS, start=STARTS, c=[1e-4, 0.1, 0.4], grow=[1.0, 5.0], initial=[1e-3, 1.0, 50.0])
def test_armijo_holds_at_every_step(method, start, c, grow, initial):
    rule = steps.Armijo(initial=initial, c=c, grow=grow, longest=100.0)
    trace = traced(start, plain, jac=slope, method=method, step=rule, trace="x")
    moves = np.diff(trace.x, axis=0)
    promised = (slope(trace.x[:-1]) * moves).sum(axis=-1)
    assert (promised <= 0).all()  # 0 where the step is lost in rounding
    slack = 1e-13 * (1 + np.abs(trace.f[:-1]))
    assert (trace.f[1:] <= trace.f[:-1] + c * promised + slack).all()
    alpha = trace.step[:-1]
    assert alpha[0] <= initial
    if method != "cgd-auto":  # there the trace shows the α of a CGD step from the point before
        assert (alpha[1:] <= np.minimum(100.0, grow * alpha[:-1]) * (1 + 1e-15)).all()


def test_armijo_takes_the_first_trial_that_will_do():
    assert traced(method="gd", step=steps.Armijo(initial=0.1, grow=1.0)).step[:-1].tolist() == [0.1] * 12
    parabola = {"fun": lambda x: float(x @ x), "jac": lambda x: 2 * x, "method": "gd"}
    trace = traced([1.0], step=steps.Armijo(initial=8.0), **parabola)
    assert trace.step[0] == pytest.approx(0.8)  # the parabola's 0.5 is below a tenth of the trial
    assert trace.nfev[1] == 1 + 2
    plane = {"fun": lambda x: float(x[0]), "jac": lambda x: np.ones(1), "method": "gd"}
    rule = steps.Armijo(initial=1.0, grow=3.0, longest=5.0)
    assert traced([1.0], step=rule, **plane).step[:4].tolist() == [1.0, 3.0, 5.0, 5.0]


def test_a_trial_that_fails_is_cut_by_half_at_least():
    """To 0.4 of it where the parabola says so; to a half where f rises by a trifle; to a tenth by NaN."""
    tried = []

    def fun(x):
        t = 1 - float(x[0])
        if t > 0 and len(tried) < 3:
            tried.append(t)
            return [-0.01, 0.25, math.nan][len(tried) - 1] * t
        return -t

    given_ = {"method": "gd", "step": steps.Armijo(c=0.5), "budget": st.Budget(iters=1)}
    st.minimize(fun, [1.0], jac=lambda x: np.ones(1), **given_)
    # ½·t/(f/t + 1) within [t/10, t/2], for the values above
    assert tried == pytest.approx([1.0, 0.5, 0.2])


def test_a_search_ends_after_its_trials_and_with_the_budget():
    calls = []

    def up(x):
        calls.append(x)
        return float(x @ x) if len(calls) == 1 else 10.0 + len(calls)

    given_ = {"jac": lambda x: 2 * x, "method": "gd", "step": steps.Armijo(trials=4)}
    res = st.minimize(up, [1.0, 2.0], **given_)
    assert res.status is st.Status.LINE_SEARCH_FAILED
    assert res.nfev == len(calls) == 1 + 4
    calls.clear()
    res = st.minimize(up, [1.0, 2.0], budget=st.Budget(evals=3), **given_)
    assert res.status is st.Status.MAX_EVALUATIONS
    assert res.nfev == len(calls) == 3


def noisy_quadratic(seed, part):
    """Return f with values wrong by up to `part` of f(x0), at random, its exact gradient, x0 and x*."""
    problem, Q = random_quadratic(4, seed, 1.0, 100.0)
    x0, rng = 10 * problem.x0, np.random.default_rng(seed)
    best = x0 - np.linalg.solve(Q, problem.grad(x0))
    size = part * (problem.fun(x0) - problem.fun(best))
    noisy = lambda x: problem.fun(x) - problem.fun(best) + size * rng.uniform(-1, 1)  # noqa: E731
    return noisy, problem.grad, x0, best


@pytest.mark.parametrize("part", [1e-1, 1e-2, 1e-3, 1e-5])
def test_where_noise_drowns_the_values_a_given_gradient_leads_to_the_minimum(part):
    """Of 20 runs one may be unlucky: noise is found by chance."""
    ended = []
    for seed in range(20):
        noisy, grad, x0, best = noisy_quadratic(seed, part)
        res = st.minimize(noisy, x0, jac=grad, gtol=1e-5)
        ended.append((res.success, np.linalg.norm(res.x - best) <= 1e-4, res.nfev <= 100))
    assert np.mean(ended, axis=0).min() >= 0.9


@pytest.mark.parametrize("wrong", [-1.0, 0.3])
def test_a_wrong_gradient_is_not_taken_for_noise(wrong):
    """f is exact, and ∇f is not its gradient: what slopes leave unexplained shrinks with the step."""
    problem, _ = random_quadratic(4, 3)
    e = np.array([0.0, 5.0, 0.0, -5.0])
    res = st.minimize(problem.fun, problem.x0, jac=lambda x: wrong * problem.grad(x) + e)
    assert not res.success
    assert res.status is st.Status.LINE_SEARCH_FAILED


class Exact(steps.Step):
    """The exact line search on a quadratic."""

    def along(self, problem, here, p, slope):
        bend = p @ (yield from problem.product(here.x, p, here.g))
        return steps.Found(-slope / bend, here.x - slope / bend * p)


@given(n=some.integers(2, 12), seed=SEEDS, method=some.sampled_from(["bfgs", "dfp"]))
def test_with_exact_line_searches_quasi_newton_methods_end_within_n_steps(n, seed, method):
    problem, Q = random_quadratic(n, seed)
    first = problem.grad(problem.x0)
    gtol = 1e-8 * float(np.linalg.norm(first))
    res = run(problem, method, step=Exact(), gtol=gtol, budget=st.Budget(iters=n + 1))
    assert res.success
    assert np.allclose(res.x, problem.x0 - np.linalg.solve(Q, first), rtol=1e-6, atol=1e-6)


@given(n=some.integers(2, 8), seed=SEEDS, lam=some.floats(0, 2), flat=some.booleans())
def test_the_safe_step_never_raises_f_on_convex_quadratics(n, seed, lam, flat):
    low, high = (0.0, 5.0) if flat else (1.0, 5.0)
    problem, Q = random_quadratic(n, seed, low, high)
    if flat:
        problem = quadratic("flat", Q, Q @ np.ones(n), problem.start)  # singular, but bounded below
    given_ = {"lam": lam, "step": theory.safe_step(high, lam), "gtol": 1e-6, "budget": st.Budget(iters=60)}
    trace = run(problem, "cgd", **given_).trace
    assert not trace.guarded.any(), "convex: the penalised direction always descends"
    # with α = 1/(L(1 + 2λL)²) the fall is at least α‖∇f‖²/2
    promised = trace.step[:-1] * trace.gnorm[:-1] ** 2 / 2
    noise = 1e-14 * np.abs(trace.f).max()
    assert (trace.f[:-1] - trace.f[1:] >= promised * (1 - 1e-9) - noise).all()
    if not flat:
        best = problem.fun(np.linalg.solve(Q, Q @ problem.x0 - problem.grad(problem.x0)))
        rate = 1 - low / (high * (1 + 2 * lam * high) ** 2)
        gaps = rate ** np.arange(len(trace)) * (trace.f[0] - best)
        assert (trace.f - best <= gaps * (1 + 1e-9) + noise).all()


@given(n=some.integers(2, 8), seed=SEEDS, lam=some.floats(0, 3))
def test_the_optimal_step_contracts_as_the_paper_says(n, seed, lam):
    """By (κ − 1)/(κ + 1) in every step, exactly so along the two extreme eigenvectors."""
    low, high = 1.0, 6.0
    kappa = (1 + 2 * lam * high) * high / ((1 + 2 * lam * low) * low)
    rate = (kappa - 1) / (kappa + 1)
    problem, Q = random_quadratic(n, seed, low, high)
    solution = problem.x0 - np.linalg.solve(Q, problem.grad(problem.x0))
    extremes = quadratic("extremes", np.diag([low, 3.0, high]), np.zeros(3), (1.0, 0.0, -2.0))
    given_ = {"lam": lam, "step": theory.quadratic_step(low, high, lam), "budget": st.Budget(iters=12)}
    errors, attained = (
        np.linalg.norm(run(p, "cgd", gtol=0, **given_).trace.x - at, axis=-1)
        for p, at in ((problem, solution), (extremes, 0.0))
    )
    assert (errors[1:] <= rate * errors[:-1] + 1e-13 * (1 + np.linalg.norm(solution))).all()
    np.testing.assert_allclose(attained[1:] / attained[:-1], rate, rtol=1e-9)
