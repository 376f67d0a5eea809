"""`Result.covariance` against inverse Hessians in closed form, and where a variance is not known."""

import copy
import pickle

import numpy as np
import pytest

import steepen as st

rng = np.random.default_rng(0)
X = rng.standard_normal((200, 4)) * [0.1, 1.0, 5.0, 20.0]
Z = X * np.where(X @ [1.0, 0.1, 0.1, 0.01] + rng.logistic(size=200) > 0, 1.0, -1.0)[:, None]


def logistic(b):
    return np.logaddexp(0, -Z @ b).sum()


def logistic_grad(b):
    return -Z.T @ (0.5 * (1 - np.tanh(Z @ b / 2)))


def logistic_hess(b):
    against = 0.5 * (1 - np.tanh(Z @ b / 2))
    return Z.T @ (Z * (against * (1 - against))[:, None])


def close(found, hessian, within):
    """Whether a covariance is an inverse Hessian, in the units of its standard errors."""
    exact = np.linalg.inv(hessian)
    errors = np.sqrt(np.diag(exact))
    np.testing.assert_allclose(
        found / np.outer(errors, errors), exact / np.outer(errors, errors), atol=within
    )


@pytest.mark.parametrize(
    ("given", "within"),
    [
        ({"jac": logistic_grad, "hess": logistic_hess}, 1e-12),
        ({"jac": logistic_grad, "hvp": lambda b, v: logistic_hess(b) @ v}, 1e-12),
        ({"jac": logistic_grad}, 1e-8),
        ({"jac": logistic_grad, "method": "gd"}, 1e-8),
        ({"jac": logistic_grad, "x_scale": [10.0, 1.0, 1e-2, 1e-3]}, 1e-8),
        ({"jac": logistic_grad, "budget": st.Budget(grads=3)}, 1e-8),
        ({}, 1e-6),
        ({"jac": "3-point", "x_scale": [10.0, 1.0, 1e-2, 1e-3]}, 1e-6),
    ],
    ids=["hess", "hvp", "gradients", "gd", "x_scale", "budget", "values", "values-x_scale"],
)
def test_it_is_the_inverse_hessian_at_x(given, within):
    res = st.minimize(logistic, np.zeros(4), **given)
    close(res.covariance(), logistic_hess(res.x), within)


def test_of_a_function_that_returns_its_gradient_too():
    res = st.minimize(lambda b: (logistic(b), logistic_grad(b)), np.zeros(4), jac=True)
    close(res.covariance(), logistic_hess(res.x), 1e-8)


@pytest.mark.parametrize("jac", ["cs", "3-point"])
def test_one_variable_and_other_differences(jac):
    res = st.minimize(lambda x: ((3 * x - 1) ** 2).sum() / 2, np.zeros(1), jac=jac)
    np.testing.assert_allclose(res.covariance(), [[1 / 9]], rtol=1e-6)


@pytest.mark.parametrize("by_values", [True, False])
def test_a_variable_at_a_bound_has_none_and_the_others_theirs_without_it(by_values):
    res = st.minimize(
        logistic, np.zeros(4), jac=None if by_values else logistic_grad, bounds=[(0, 0.2), *3 * [(-9, 9)]]
    )
    assert res.x[0] == 0.0
    found = res.covariance()
    assert np.isnan(found[0]).all()
    assert np.isnan(found[:, 0]).all()
    close(found[1:, 1:], logistic_hess(res.x)[1:, 1:], 1e-6)


def test_near_a_bound_differences_stay_in_the_box():
    low = np.array([0.0, -1.0])

    def fun(x):
        assert (x >= low).all()
        return 0.5 * (x[0] - 1e-7) ** 2 + 2 * x[1] ** 2

    res = st.minimize(
        fun, [1.0, 1.0], jac=lambda x: np.array([x[0] - 1e-7, 4 * x[1]]), bounds=[(0, 2), (-1, 2)]
    )
    np.testing.assert_allclose(res.covariance(), np.diag([1.0, 0.25]), atol=1e-6)


@pytest.mark.parametrize("given", [{}, {"jac": True}, {"jac": True, "hess": True}], ids=["f", "g", "h"])
def test_variables_along_a_flat_direction_have_none(given):
    """f depends on the sum of two variables, and not on the last one."""
    matrix = np.array([[1.0, 1.0, 0, 0], [1.0, 1.0, 0, 0], [0, 0, 4.0, 0], [0, 0, 0, 0]])

    def fun(x):
        # not 0 at its minimum, or the digits of f would show a curvature of any size
        return 3 + 0.5 * x @ matrix @ x

    derivatives = {"jac": lambda x: matrix @ x, "hess": lambda x: matrix}
    res = st.minimize(fun, [1.0, 0.5, 2.0, 1.0], **{name: derivatives[name] for name in given})
    found = res.covariance()
    assert found[2, 2] == pytest.approx(0.25, rel=1e-6)
    assert np.isnan(np.delete(np.delete(found, 2, 0), 2, 1)).all()


def test_at_a_saddle_and_at_a_maximum_there_is_none():
    for signs, known in (([1.0, -1.0], [True, False]), ([-1.0, -1.0], [False, False])):
        scale = np.array(signs)
        res = st.minimize(
            lambda x, scale=scale: 0.5 * (scale * x) @ x, [0.0, 0.0], jac=lambda x, scale=scale: scale * x,
            method="gd", step=0.1, budget=st.Budget(iters=1),
        )  # fmt: skip
        assert np.isfinite(np.diag(res.covariance())).tolist() == known


@pytest.mark.parametrize("noise", [1e-8, 1e-6, 1e-4])
def test_noisy_values_tell_it_to_a_few_percent(noise):
    """In the median of five draws: one in ten is farther off, as it hangs on a few values."""
    matrix, found = np.array([[4.0, 1.0], [1.0, 0.5]]), []
    for seed in range(1, 6):
        draws = np.random.default_rng(seed)

        def fun(x, draws=draws):
            return 10 + 0.5 * x @ matrix @ x + noise * draws.standard_normal()

        found.append(st.minimize(fun, [1.0, 2.0]).covariance())
    close(np.median(found, axis=0), matrix, 0.03)


def test_a_result_without_its_function_says_so():
    f = st.functions["booth"]
    res = st.minimize(f, [0.0, 0.0])
    known = res.covariance()
    for one in (pickle.loads(pickle.dumps(res)), copy.deepcopy(res), st.minimize(f, np.zeros((3, 2))).row(1)):
        with pytest.raises(ValueError, match=r"^covariance: this result does not know its function"):
            one.covariance()
    np.testing.assert_array_equal(res.covariance(), known)
    assert res.nfev == st.minimize(f, [0.0, 0.0]).nfev


def test_an_error_of_the_function_leaves_as_it_is():
    calls = []

    def fun(x):
        if len(calls) > 100:
            raise OSError("gone")
        return float(x @ x)

    res = st.minimize(fun, [1.0, 2.0])
    calls.extend(range(101))
    with pytest.raises(OSError, match=r"^gone$"):
        res.covariance()
