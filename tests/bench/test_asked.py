"""The counting of evaluations, against hand counts and the peers' own."""

import numpy as np
import pytest
from benchmarks.problems import Case, cases, problems
from benchmarks.race.asked import Asked, Spent

import steepen as st

ROSENBROCK = cases("mgh")["rosenbrock"]
A, B = np.array([-1.2, 1.0]), np.array([0.5, 0.5])


def test_value_and_gradient_at_one_point_count_once():
    asked = Asked(ROSENBROCK, 100)
    assert asked.value(A) == problems["rosenbrock"](A)
    assert np.array_equal(asked.grad(A), problems["rosenbrock"].grad(A))
    assert asked.value(A.copy()) == problems["rosenbrock"](A)
    assert asked.used == 1


def test_without_a_gradient_every_value_counts():
    asked = Asked(ROSENBROCK, 100, values=True)
    assert asked.value(A) == asked.value(A) == problems["rosenbrock"](A)
    assert (asked.used, asked.has_gradient) == (2, False)


def test_points_and_gradients_are_the_callers_own():
    asked = Asked(ROSENBROCK, 100)
    x = A.copy()
    asked.grad(x)[:] = 0
    assert asked.grad(A).any()
    x[:] = B  # a solver that moves its own array has moved
    assert asked.value(x) == problems["rosenbrock"](B)
    assert asked.used == 2


def test_the_limit_is_hard_and_stays_reached():
    asked = Asked(ROSENBROCK, 2)
    asked.value(A)
    asked.value(B)
    assert not asked.spent
    assert asked.grad(B).shape == (2,)  # known, and so free
    for _ in range(3):
        with pytest.raises(Spent):
            asked.grad(A)
    assert (asked.spent, asked.used) == ("limit", 2)


def test_what_is_not_finite_is_passed_on_and_improves_nothing():
    asked = Asked(cases("mgh")["jennrich-sampson"], 9)
    assert asked.value(np.array([1000.0, 0.0])) == np.inf
    assert asked.improvements == []
    x0 = problems["jennrich-sampson"].x0
    asked.value(x0)
    assert asked.improvements == [(2, float(problems["jennrich-sampson"](x0)))]
    bennett = Asked(cases("nist")["bennett5-1"], 9)
    assert np.isnan(bennett.value(np.array([-2000.0, -50.0, 0.8])))
    assert bennett.improvements == []


def test_the_lowest_value_is_judged_without_its_errors():
    values = iter([5.0, 3.0, 4.0, 1.0])
    asked = Asked(Case("noisy", lambda x: next(values), A, exact=lambda x: float(x[0])), 9)
    for k in range(4):
        asked.value(np.array([float(k), 0.0]))
    assert asked.improvements == [(1, 0.0), (2, 1.0), (4, 3.0)]


@pytest.mark.parametrize(("method", "grads_per_step"), [("gd", 1), ("cgd-fd", 2)])
def test_agrees_with_a_count_by_hand_where_steps_are_fixed(method, grads_per_step):
    """A fixed step evaluates f and ∇f at each iterate, and CGD-FD also ∇f at its probe."""
    asked = Asked(cases("mgh")["wood"], 10**6)
    result = st.minimize(
        asked.value, problems["wood"].x0, method=method, jac=asked.grad, step=1e-5,
        budget=st.Budget(iters=7), **({"b": 100} if method == "cgd-fd" else {}),
    )  # fmt: skip
    assert (result.nit, asked.used) == (7, 1 + 7 * grads_per_step)
