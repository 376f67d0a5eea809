"""`guard=False`: EGR's rule, on a function."""

import numpy as np
import pytest

import steepen as st


def double_well(x):
    return float((0.25 * x**4 - 0.5 * x**2).sum())


def slope(x):
    return x**3 - x


def test_without_the_guard_a_run_is_gradient_descent_on_the_penalised_function():
    lam, alpha = 2.0, 0.02
    given = {"jac": slope, "hvp": lambda x, v: (3 * x**2 - 1) * v, "method": "cgd", "lam": lam, "step": alpha}
    given |= {"gtol": 0.0, "budget": st.Budget(iters=12), "trace": "x"}
    x = np.array([0.3, -0.2])  # f bends down here: the penalty points uphill
    free = st.minimize(double_well, x, guard=False, **given)
    for there in free.trace.x:
        np.testing.assert_allclose(there, x, rtol=1e-13)
        g = slope(x)
        x = x - alpha * (g + 2 * lam * (3 * x**2 - 1) * g)
    assert not free.trace.guarded.any()
    held = st.minimize(double_well, [0.3, -0.2], **given)
    assert held.trace.guarded.any()
    assert held.fun < free.fun


def test_the_rows_of_a_batch_have_no_guard_either():
    starts = np.array([[0.3, -0.2], [0.9, 0.1]])
    given = {"method": "cgd-fd", "lam": 0.3, "r": 1e-3, "step": 0.05, "guard": False, "gtol": 0.0}
    many = st.minimize(
        lambda x: (0.25 * x**4 - 0.5 * x**2).sum(-1), starts, jac=slope, budget=st.Budget(iters=9), **given
    )
    for row, start in enumerate(starts):
        one = st.minimize(double_well, start, jac=slope, budget=st.Budget(iters=9), **given)
        assert (many.x[row] == one.x).all()


@pytest.mark.parametrize("wrong", [0, "no"])
def test_anything_but_a_bool_is_refused(wrong):
    with pytest.raises(TypeError, match="guard: expected True or False"):
        st.CGD(guard=wrong)
