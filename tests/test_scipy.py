"""The SciPy door, against scipy.optimize.minimize itself and against the direct call."""

import numpy as np
import pytest
import scipy.optimize as so

import steepen as st
import steepen.scipy

METHODS = ["gd", "newton", "bfgs", "dfp", "cgd", "cgd_fd", "cgd_bfgs", "cgd_dfp", "cgd_auto"]
START = [-1.2, 1.0]


def door(name):
    return getattr(steepen.scipy, name)


def rosen(x, scale=100.0):
    return scale * (x[1] - x[0] * x[0]) ** 2 + (1 - x[0]) ** 2


def rosen_der(x, scale=100.0):
    curve = x[1] - x[0] * x[0]
    return np.array([-4 * scale * x[0] * curve - 2 * (1 - x[0]), 2 * scale * curve])


def rosen_hess(x, scale=100.0):
    return np.array(
        [[12 * scale * x[0] ** 2 - 4 * scale * x[1] + 2, -4 * scale * x[0]], [-4 * scale * x[0], 2 * scale]]
    )


@pytest.mark.parametrize("name", METHODS)
def test_equals_the_direct_call(name):
    theirs = so.minimize(
        rosen, START, args=(10.0,), jac=rosen_der, method=door(name), tol=1e-3, options={"maxiter": 200}
    )
    ours = st.minimize(
        rosen, START, args=(10.0,), jac=rosen_der, method=name.replace("_", "-"), gtol=1e-3,
        budget=st.Budget(iters=200),
    )  # fmt: skip
    assert isinstance(theirs, so.OptimizeResult)
    np.testing.assert_array_equal(theirs.x, ours.x)
    assert (theirs.nit, theirs.nfev, theirs.njev) == (ours.nit, ours.nfev, ours.njev)
    assert theirs.success == ours.success
    assert theirs.status == int(ours.status)
    assert theirs.message == ours.message


@pytest.mark.parametrize("name", METHODS)
def test_options_reach_the_method(name):
    options = {"step": 1e-3, "maxgrad": 9, "trace": "x"}
    if name.startswith("cgd") and name != "cgd_auto":
        options["lam"] = 1e-4
    res = so.minimize(rosen, START, jac=rosen_der, hess=rosen_hess, method=door(name), options=options)
    assert res.njev <= 9
    # the later steps of cgd-auto are shown as CGD steps from the point before
    assert np.all(res.trace.step[: 1 if name == "cgd_auto" else -1] == 1e-3)
    assert res.trace.x.shape[1] == 2


def test_tol_is_the_gradient_norm():
    loose = so.minimize(rosen, START, jac=rosen_der, method=steepen.scipy.bfgs, tol=1e-1)
    tight = so.minimize(rosen, START, jac=rosen_der, method=steepen.scipy.bfgs, tol=1e-9)
    assert np.linalg.norm(loose.jac) <= 1e-1 < 10 * np.linalg.norm(loose.jac) * 100
    assert np.linalg.norm(tight.jac) <= 1e-9
    assert loose.nit < tight.nit


def test_combined_function_and_gradient():
    calls = []

    def both(x):
        calls.append(1)
        return rosen(x), rosen_der(x)

    res = so.minimize(both, START, jac=True, method=steepen.scipy.bfgs)
    assert res.success
    assert res.njev <= len(calls) <= res.nfev + res.njev


def test_gradient_by_difference():
    assert so.minimize(rosen, START, method=steepen.scipy.bfgs, jac="3-point", tol=1e-4).success


def test_hessian_product():
    res = so.minimize(
        rosen, START, jac=rosen_der, hessp=lambda x, v: rosen_hess(x) @ v, method=steepen.scipy.cgd,
        options={"lam": 1e-4, "step": 1e-3, "maxiter": 5},
    )  # fmt: skip
    assert res.nhvp == 5
    assert res.hvp_source == "hvp"


def test_callback_with_x():
    seen = []
    res = so.minimize(
        rosen, START, jac=rosen_der, method=steepen.scipy.bfgs, callback=lambda xk: seen.append(xk)
    )
    assert len(seen) == res.nit
    np.testing.assert_array_equal(seen[-1], res.x)


def test_callback_with_intermediate_result_can_stop():
    def stop_early(intermediate_result):
        if intermediate_result.fun < 1.0:
            raise StopIteration

    res = so.minimize(rosen, START, jac=rosen_der, method=steepen.scipy.bfgs, callback=stop_early)
    assert res.status == st.Status.CALLBACK
    assert not res.success
    assert res.fun < 1.0


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"constraints": {"type": "eq", "fun": lambda x: x[0]}}, "constraints"),
        ({"options": {"maxiter": 3, "budget": st.Budget(iters=3)}}, "budget"),
    ],
)
def test_what_the_door_does_not_take(extra, named):
    with pytest.raises(ValueError, match=named):
        so.minimize(rosen, START, jac=rosen_der, method=steepen.scipy.bfgs, **extra)


def test_a_callback_ends_a_run_by_stop_iteration_only():
    res = so.minimize(rosen, START, jac=rosen_der, method=steepen.scipy.bfgs, callback=lambda xk: True)
    assert res.success


def test_scipys_names_of_differences_for_the_hessian():
    res = so.minimize(rosen, START, jac=rosen_der, hess="2-point", method=steepen.scipy.newton)
    assert res.success
    with pytest.raises(TypeError, match="hess: expected a callable"):
        so.minimize(rosen, START, jac=rosen_der, hess=so.BFGS(), method=steepen.scipy.gd)


def test_unknown_option_is_named():
    with pytest.raises(TypeError, match="has no 'stepp'; did you mean 'step'"):
        so.minimize(rosen, START, jac=rosen_der, method=steepen.scipy.gd, options={"stepp": 0.1})
