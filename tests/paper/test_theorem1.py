"""Theorem 1: the constants against eigenvalues and SciPy, the runs against loops written here."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from steepen.paper import theorem1

ITEM = "theorem1"


@pytest.fixture(scope="module")
def problems():
    return theorem1.problems()


def hessian(problem, x):
    return np.stack([problem.hvp(x, e) for e in np.eye(x.size)])


def test_derivatives(problems):
    for problem in problems:
        x = problem.start
        assert problem.grad(x) == pytest.approx(approx_fprime(x, problem.fun, 1e-7), abs=2e-5)
        assert hessian(problem, x) == pytest.approx(approx_fprime(x, problem.grad, 1e-7), abs=1e-5)


def test_constants_against_eigenvalues(problems):
    quadratic, squares, logistic, free = problems
    t = np.linalg.eigvalsh(hessian(quadratic, quadratic.start))
    assert (quadratic.mu, quadratic.L) == pytest.approx((t[0], t[-1]), rel=1e-9)
    t = np.linalg.eigvalsh(hessian(squares, squares.start))
    assert np.abs(t[:4]).max() < 1e-12  # rank 6 of 10: not strongly convex
    assert (squares.mu, squares.L) == pytest.approx((t[4], t[-1]), rel=1e-9)
    rng = np.random.default_rng(0)
    for x in rng.standard_normal((50, 5)) * rng.uniform(0, 5, (50, 1)):
        t = np.linalg.eigvalsh(hessian(logistic, x))
        assert t[-1] <= logistic.L
        assert t[0] >= logistic.mu
    assert np.linalg.eigvalsh(hessian(logistic, np.zeros(5)))[-1] == pytest.approx(logistic.L, rel=1e-9)
    assert np.linalg.eigvalsh(hessian(free, np.zeros(5)))[-1] == pytest.approx(free.L, rel=1e-9)
    assert free.mu < np.linalg.eigvalsh(hessian(free, np.zeros(5)))[0]


def test_the_pl_inequality_without_a_ridge(problems):
    """On points where f ≤ f₀, drawn around SciPy's minimum."""
    free = problems[-1]
    best = minimize(free.fun, free.start, jac=free.grad, method="BFGS", options={"gtol": 1e-9})
    assert free.fmin == pytest.approx(best.fun, abs=1e-12)
    rng = np.random.default_rng(1)
    x = best.x + rng.standard_normal((4000, 5)) * rng.uniform(0, 1.5, (4000, 1))
    inside = [(free.fun(point), free.grad(point)) for point in x if free.fun(point) <= free.fun(free.start)]
    assert len(inside) > 100
    ratios = [g @ g / 2 / (f - best.fun) for f, g in inside]
    assert free.mu <= min(ratios) < 10 * free.mu  # and no idle one


def test_bound_by_hand(problems):
    for problem in problems:
        for product in theorem1.TWICE_LAM_L:
            lam = product / (2 * problem.L)
            step = 1 / (problem.L * (1 + product) ** 2)
            x, gaps = problem.start, []
            for _ in range(60):
                gaps.append(problem.fun(x) - problem.fmin)
                g = problem.grad(x)
                x = x - step * (g + 2 * lam * problem.hvp(x, g))
            trace = problem.run(lam, step, iterations=59)
            assert trace.f - problem.fmin == pytest.approx(np.array(gaps), rel=1e-8, abs=1e-12)
            assert (np.array(gaps) <= gaps[0] * (1 - problem.mu * step) ** np.arange(60) + 1e-12).all()


def test_table_and_figure_by_hand(outcome, problems):
    rows = outcome.tables["theorem1"].rows
    assert len(rows) == 12
    for _, L, mu, lam, step, rate, measured in rows:
        assert step == pytest.approx(1 / (L * (1 + 2 * lam * L) ** 2))
        assert rate == pytest.approx(1 - mu * step)
        assert measured <= rate
    # GD at 1/L on the quadratic: f − f* shrinks by (1 − μ/L)² in the end
    assert rows[0][-1] == pytest.approx(0.81, abs=1e-5)
    assert {row[0] for row in rows} == {problem.title for problem in problems}
    outside = problems[0].run(0.0, 2.05 / problems[0].L, iterations=300)
    assert np.diff(outside.f).max() > 0  # the check of the interval can fail
    for ax, problem in zip(outcome.pictures["theorem1"].figure.axes, problems, strict=True):
        gd, bound, _, steep = ax.lines
        first = problem.fun(problem.start) - problem.fmin
        assert (gd.get_ydata() <= bound.get_ydata()[: len(gd.get_xdata())] * (1 + 1e-12)).all()
        assert bound.get_ydata()[5] == pytest.approx(first * (1 - problem.mu / problem.L) ** 5)
        assert steep.get_ydata()[5] == pytest.approx(first * (1 - problem.mu / problem.L / 9) ** 5)
