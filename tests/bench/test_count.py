"""The counting of evaluations, against hand counts and the peers' own."""

import numpy as np
import pytest
from benchmarks.bench._count import Counter, Spent
from benchmarks.problems import problems

import steepen as st

ROSENBROCK = problems["rosenbrock"]
A, B = np.array([-1.2, 1.0]), np.array([0.5, 0.5])


def test_value_and_gradient_at_one_point_count_once():
    counter = Counter(ROSENBROCK, budget=100)
    assert counter.value(A) == ROSENBROCK(A)
    assert np.array_equal(counter.grad(A), ROSENBROCK.grad(A))
    assert counter.value(A.copy()) == ROSENBROCK(A)
    assert counter.used == 1


def test_points_and_gradients_are_the_callers_own():
    counter = Counter(ROSENBROCK, budget=100)
    x = A.copy()
    counter.grad(x)[:] = 0
    assert counter.grad(A).any()
    x[:] = B  # a solver that moves its own array has moved
    assert counter.value(x) == ROSENBROCK(B)
    assert counter.used == 2


def test_the_budget_is_hard_and_stays_spent():
    counter = Counter(ROSENBROCK, budget=2)
    counter.value(A)
    counter.value(B)
    assert not counter.spent
    assert counter.grad(B).shape == (2,)  # known, and so free
    for _ in range(3):
        with pytest.raises(Spent):
            counter.grad(A)
    assert counter.spent
    assert counter.used == 2


def test_what_is_not_finite_is_passed_on_and_improves_nothing():
    problem = problems["jennrich-sampson"]
    counter = Counter(problem, budget=9)
    assert counter.value(np.array([1000.0, 0.0])) == np.inf
    assert counter.improvements == []
    counter.value(problem.x0)
    assert counter.improvements == [(2, float(problem(problem.x0)))]
    bennett = Counter(problems["bennett5-1"], budget=9)
    assert np.isnan(bennett.value(np.array([-2000.0, -50.0, 0.8])))
    assert bennett.improvements == []


@pytest.mark.parametrize(("method", "grads_per_step"), [("gd", 1), ("cgd-fd", 2)])
def test_agrees_with_a_count_by_hand_where_steps_are_fixed(method, grads_per_step):
    """A fixed step evaluates f and ∇f at each iterate, and CGD-FD also ∇f at its probe."""
    counter = Counter(problems["wood"], budget=10**6)
    result = st.minimize(
        counter.value, problems["wood"].x0, method=method, jac=counter.grad, step=1e-5,
        budget=st.Budget(iters=7), **({"b": 100} if method == "cgd-fd" else {}),
    )  # fmt: skip
    assert (result.nit, counter.used) == (7, 1 + 7 * grads_per_step)
