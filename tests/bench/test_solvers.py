"""The solvers: their budgets, their ends, and Barzilai–Borwein against its formula."""

from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from benchmarks.bench import SOLVERS
from benchmarks.bench._count import Counter, Spent
from benchmarks.bench.measure import measure
from benchmarks.problems import Problem, problems

from steepen.status import Status

every = pytest.mark.parametrize("solver", SOLVERS)


def parabola(x):
    scale = np.array([1.0, 3.0, 9.0])
    return (scale * x * x).sum(0) / 2, scale * x


@every
@pytest.mark.parametrize("budget", [1, 2, 20])
def test_no_solver_exceeds_its_budget(solver, budget):
    problem = problems["extended-rosenbrock-10"]
    evaluated = []

    def spy(x):
        evaluated.append(1)
        return problem.value_and_grad(x.T)

    run = measure(Problem("spy", "Spy", "mgh", spy, problem.x0, 0.0), solver, budget)
    assert len(evaluated) == run.evaluations <= budget
    assert not run.failed
    if run.evaluations < budget:  # ours stop where the next step would not fit any more
        assert run.message == Status.MAX_GRADIENTS.message


@every
def test_no_solver_stops_at_a_tolerance_of_its_own(solver):
    near = Problem("near", "Near", "mgh", lambda x: parabola(x), [1e-7, 1e-7, 1e-7], 0.0)
    run = measure(near, solver, 3000)
    assert run.improvements[0][0] == 1
    assert run.improvements[-1][1] <= 1e-8 * 6.5e-14


def test_barzilai_borwein_is_its_formula_on_a_quadratic():
    """α = sᵀs/sᵀy, and no test of f, which on this start none needs."""
    scale, x, seen, expected = np.array([1.0, 1.5, 2.0]), np.ones(3), [], []
    g = scale * x
    alpha = min(1.0, 1 / np.linalg.norm(g))
    for _ in range(16):
        expected.append(0.5 * x @ (scale * x))
        new = x - alpha * g
        s, y = new - x, scale * new - g
        alpha, x, g = (s @ s) / (s @ y), new, scale * new

    def evaluate(x):
        seen.append(0.5 * x @ (scale * x))
        return np.float64(seen[-1]), scale * x

    assert measure(Problem("q", "Q", "mgh", evaluate, np.ones(3), 0.0), "BB", 16).evaluations == 16
    assert np.allclose(seen, expected, rtol=1e-9, atol=0)


def test_barzilai_borwein_looks_back_ten_values():
    scale, accepted = np.array([1.0, 30.0, 1000.0]), []
    problem = Problem("q", "Q", "mgh", lambda x: (0.5 * (x * scale) @ x, scale * x), np.ones(3), 0.0)
    counter = Counter(problem, 60)
    gradient = counter.grad

    def note(x):
        accepted.append(counter.value(x))
        return gradient(x)

    counter.grad = note  # the gradient is asked for where a step is accepted
    with suppress(Spent):
        SOLVERS["BB"](counter, problem.x0.copy())
    assert len(accepted) > 20
    assert any(b > a for a, b in pairwise(accepted))
    for k in range(1, len(accepted)):
        assert accepted[k] < max(accepted[max(0, k - 10) : k])


@every
def test_where_f_is_not_finite_nothing_is_raised(solver):
    def barrier(x):
        with np.errstate(all="ignore"):
            value = (x - np.log(x)).sum()
        return np.float64(value), 1 - 1 / x

    run = measure(Problem("barrier", "Barrier", "mgh", barrier, [5.0, 0.01], 2.0), solver, 500)
    assert not run.failed
    assert np.isfinite([f for _, f in run.improvements]).all()
    if solver == "BB" or "Armijo" in solver or solver.startswith("cgd"):
        assert run.improvements[-1][1] < 2.1
