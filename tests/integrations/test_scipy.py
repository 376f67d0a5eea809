"""The SciPy integration, against scipy.optimize.minimize itself and against the direct call."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize as so
import scipy.sparse as sparse
from hypothesis import given
from hypothesis import strategies as some
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import steepen as st
import steepen.integrations.scipy
from steepen._tools.workers import WorkersLost, mapping_of

from ..pairs import pairs

BFGS, AUTO = steepen.integrations.scipy.bfgs, steepen.integrations.scipy.cgd_auto
BOTH = ["BFGS", "L-BFGS-B", BFGS, AUTO]
METHODS = ["gd", "newton", "bfgs", "dfp", "cgd", "cgd_fd", "cgd_bfgs", "cgd_dfp", "cgd_auto"]
START = [-1.2, 1.0]


def rosen(x, scale=100.0):
    return scale * (x[1] - x[0] * x[0]) ** 2 + (1 - x[0]) ** 2


def rosen_der(x, scale=100.0):
    curve = x[1] - x[0] * x[0]
    return np.array([-4 * scale * x[0] * curve - 2 * (1 - x[0]), 2 * scale * curve])


def rosen_hess(x):
    return np.array([[1200 * x[0] ** 2 - 400 * x[1] + 2, -400 * x[0]], [-400 * x[0], 200.0]])


def by(method, **given):
    method = getattr(steepen.integrations.scipy, method) if method in METHODS else method
    return so.minimize(rosen, START, **{"jac": rosen_der} | given, method=method)


def counts(res):
    return res.nit, res.nfev, res.njev, int(res.status)


@pytest.mark.parametrize("name", METHODS)
def test_equals_the_direct_call(name):
    theirs = by(name, args=(10.0,), tol=1e-3, options={"maxiter": 200})
    given = {"method": name.replace("_", "-"), "gtol": 1e-3, "budget": st.Budget(iters=200)}
    ours = st.minimize(rosen, START, 10.0, jac=rosen_der, **given)  # a lone argument is wrapped
    assert isinstance(theirs, so.OptimizeResult)
    np.testing.assert_array_equal(theirs.x, ours.x)
    assert counts(theirs) == counts(ours)
    assert (theirs.success, theirs.message) == (ours.success, ours.message)


@pytest.mark.parametrize("name", METHODS)
def test_options_reach_the_method(name):
    options = {"step": 1e-3, "maxgrad": 9, "trace": "x"}
    if name.startswith("cgd") and name != "cgd_auto":
        options["lam"] = 1e-4
    res = by(name, hess=rosen_hess, options=options)
    assert res.njev <= 9
    # the later steps of cgd-auto are shown as CGD steps from the point before
    assert np.all(res.trace.step[: 1 if name == "cgd_auto" else -1] == 1e-3)
    assert res.trace.x.shape[1] == 2


@pytest.mark.parametrize("method", ["BFGS", BFGS, AUTO])
def test_tol_is_the_gradient_norm_and_an_explicit_gtol_wins(method):
    exact = by(method, tol=10.0, options={"gtol": 1e-6})
    assert exact.nit == by(method, options={"gtol": 1e-6}).nit > by(method, tol=10.0).nit
    assert 1e-9 < abs(by(method, tol=1e-1).jac).max() <= 1e-1
    assert abs(by(method, tol=1e-9).jac).max() <= 1e-9


def test_a_pair_a_product_and_an_inverse_hessian():
    both = so.minimize(lambda x: (rosen(x), rosen_der(x)), START, jac=True, method=BFGS, tol=1e-8)
    res = by(BFGS, tol=1e-8)
    assert both.nfev == res.nfev
    np.testing.assert_allclose(res.hess_inv @ rosen_hess(res.x), np.eye(2), atol=0.05)
    assert "hess_inv" not in by("gd")
    options = {"lam": 1e-4, "step": 1e-3, "maxiter": 5}
    res = by("cgd", hessp=lambda x, v: rosen_hess(x) @ v, options=options)
    assert (res.nhvp, res.hvp_source) == (5, "hvp")


@pairs(method=BOTH, returned=[None, 1, "stop", np.ones(2, dtype=bool), np.False_])
def test_what_a_callback_returns_is_ignored_as_in_scipy(method, returned):
    seen = []
    res = by(method, callback=lambda xk: (seen.append(xk), returned)[1])
    assert res.success
    assert len(seen) == res.nit
    np.testing.assert_array_equal(seen[-1], res.x)
    for yes in (True, np.True_):  # which alone ends a run of ours
        assert by(BFGS, callback=lambda xk, yes=yes: yes).status == st.Status.CALLBACK


@pairs(method=BOTH, form=["x", "intermediate_result"])
@pytest.mark.bits  # the value itself is looked at
def test_stop_iteration_ends_a_run_where_as_many_iterations_would(method, form):
    calls = []

    def of_x(xk):
        calls.append(xk)
        if len(calls) == 5:
            raise StopIteration

    def of_result(intermediate_result):
        assert intermediate_result.fun == rosen(intermediate_result.x)
        of_x(intermediate_result.x)

    res, same = by(method, callback=of_x if form == "x" else of_result), by(method, options={"maxiter": 5})
    assert not res.success
    assert res.nit == same.nit == len(calls) == 5
    np.testing.assert_array_equal(res.x, same.x)


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        ({"maxiter": 100.9}, st.Budget(iters=100)),
        ({"maxiter": 0}, st.Budget(iters=0)),
        ({"maxiter": np.inf, "maxfun": 1e2}, st.Budget(evals=100)),
        ({"maxfev": 30, "maxgrad": 20}, st.Budget(evals=30, grads=20)),
        ({"maxiter": None, "maxfun": None}, st.Budget(iters=400)),
        ({"maxfev": np.inf}, None),
    ],
)
def test_limits_are_budgets(options, budget):
    ours = st.minimize(rosen, START, jac=rosen_der, method="gd", budget=budget)
    assert counts(by("gd", options=options)) == counts(ours)


def test_disp_prints_a_summary_without_rich_and_off_a_terminal(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    res = st.minimize(rosen, START, options={"disp": True})
    assert capsys.readouterr().out == f"{res}\n"
    by(BFGS, options={"disp": False})
    assert capsys.readouterr() == ("", "")


def asked_points(method, x0, jac, options):
    points = []

    def fun(x):
        points.append(x.copy())
        return (x * x).sum()

    so.minimize(fun, x0, jac=jac, method=method, options={"maxiter": 0} | options)
    return np.array(points) - x0


SCHEMES = ["2-point", "3-point", "cs"]
SIZES = some.floats(1e-7, 1e-2)
SIZES = some.one_of(SIZES, some.lists(SIZES, min_size=2, max_size=2))
VARIABLE = some.floats(-1e3, 1e3).filter(lambda x: x == 0 or abs(x) > 1e-3)


@given(some.sampled_from(SCHEMES), some.lists(VARIABLE, min_size=2, max_size=2), SIZES)
def test_the_steps_of_differences_are_those_of_scipy(scheme, x0, step):
    """Absolute ones also where they are too short to move x, and are replaced."""
    for start, eps in ((x0, step), ([1e9, 1.0], 1e-9)):
        theirs = asked_points("BFGS", start, None, {"eps": eps})
        np.testing.assert_allclose(asked_points(BFGS, start, None, {"eps": eps}), theirs, rtol=1e-5)
    if scheme == "cs":
        x0 = [x or 1.0 for x in x0]  # SciPy's own step for zero is longer than a complex step need be
    theirs = asked_points("BFGS", x0, scheme, {"finite_diff_rel_step": step})
    ours = asked_points(BFGS, x0, None, {"finite_diff_rel_step": step, "gradient": scheme})
    ours = ours[: len(theirs)]  # where a difference is exactly 0, a few further values look for coarse ones
    np.testing.assert_allclose(sorted(ours.tolist(), key=str), sorted(theirs.tolist(), key=str), rtol=1e-5)


@pytest.mark.parametrize("scheme", ["2-point", "3-point"])
def test_steps_stay_within_the_bounds(scheme):
    def fun(x):
        assert ((x >= 0) & (x <= [1, 2])).all()
        return rosen(x)

    options = {"eps": 0.3, "gradient": scheme}
    so.minimize(fun, [0.9, 1.9], method=BFGS, bounds=[(0, 1), (0, 2)], options=options)


def test_steps_mean_nothing_where_the_gradient_is_given():
    plain, res = by(AUTO), by(AUTO, options={"eps": 0.1, "workers": 2})
    np.testing.assert_array_equal(res.x, plain.x)
    assert res.nfev == plain.nfev


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scipy_drops_the_name_of_a_difference_and_the_option_gradient_brings_it_back(scheme):
    assert by(AUTO, jac=scheme, options={"maxiter": 0}).nfev == 5  # f, ∇f, and a look at the noise of f
    theirs, ours = by(AUTO, jac=None, options={"gradient": scheme}), st.minimize(rosen, START, jac=scheme)
    np.testing.assert_array_equal(theirs.x, ours.x)
    assert counts(theirs) == counts(ours)


@pytest.mark.parametrize(
    ("workers", "scheme"), [(map, "2-point"), (map, "cs"), pytest.param(2, "3-point", marks=pytest.mark.slow)]
)
@pytest.mark.bits  # a function that is moved cannot be sent to another process
def test_workers_change_neither_the_run_nor_its_counts(workers, scheme):
    fun = rosen if workers is map else so.rosen  # processes have to find it by its name
    alone, shared = (
        so.minimize(fun, START, method=AUTO, options={"gradient": scheme, "maxiter": 5, **more})
        for more in ({}, {"workers": workers})
    )
    np.testing.assert_array_equal(shared.x, alone.x)
    assert counts(shared) == counts(alone)


def test_workers_get_all_points_of_a_gradient_at_once_and_never_more_than_maxfun():
    sent, single = [], []

    def workers(function, points):
        sent.append(list(points))
        return [function(x) for x in sent[-1]]

    def fun(x, scale):
        single.append(1)
        return rosen(x, scale)

    options = {"workers": workers, "gradient": "3-point", "maxfun": 30}
    res = so.minimize(fun, START, args=(10.0,), method=BFGS, options=options)
    assert {len(points) for points in sent} == {4}
    assert len(sent) == res.njev
    assert res.nfev == len(single) <= 30
    assert res.status == st.Status.MAX_EVALUATIONS


def test_workers_that_fail():
    def fun(x):
        if x[0] > START[0]:
            raise RuntimeError("no")
        return rosen(x)

    with pytest.raises(RuntimeError, match="no") as caught:
        so.minimize(fun, START, method=BFGS, options={"workers": map, "eps": 1e-3})
    assert caught.value.partial_result.nfev == 3  # those that raised are counted
    with pytest.raises(ValueError, match="workers: expected 2 values for 2 points, got 1"):
        st.minimize(rosen, START, options={"workers": lambda function, points: [1.0]})
    with mapping_of(2) as mapped:
        assert list(mapped(abs, [-1, 2, -3])) == [1, 2, 3]
    with mapping_of(2) as mapped, pytest.raises(WorkersLost):
        list(mapped(os._exit, [3, 3]))


@pytest.mark.parametrize("method", ["BFGS", BFGS, AUTO])
def test_return_all_has_every_iterate(method):
    seen = [np.array(START)]
    res = by(method, callback=lambda xk: seen.append(xk), options={"return_all": True})
    np.testing.assert_array_equal(res.allvecs, seen)
    assert "allvecs" not in by(method)


def test_maxls_is_the_most_trials_of_a_search_and_maxcor_the_memory():
    def trials(**options):
        return by("gd", options={"maxiter": 1} | options).nfev - 1

    assert trials(maxls=trials()) == trials() > trials(maxls=3) == 3

    def run(**options):
        return so.minimize(so.rosen, np.zeros(8), jac=so.rosen_der, method=AUTO, options=options)

    assert run(maxcor=1).success
    assert run(maxcor=3).nfev == run(memory=3).nfev != run().nfev
    with pytest.raises(ValueError, match="memory: method 'gd' stores no curvature pairs"):
        by("gd", options={"maxcor": 3})


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"stepp": 3}, TypeError, "options: unknown option 'stepp'; did you mean 'step'?"),
        ({"c1": 1e-4}, TypeError, "options: unknown option 'c1'; there are"),
        ({"maxiter": -1}, ValueError, "maxiter: expected a number, 0 or more"),
        ({"maxfun": 0}, ValueError, "maxfun: expected a number, 1 or more"),
        ({"maxfun": 9, "maxfev": 9}, ValueError, "maxfev: give either maxfun or maxfev"),
        ({"maxls": 3, "step": 0.1}, ValueError, "'step' is given twice"),
        ({"eps": "small"}, TypeError, "eps: expected a number, or one per variable"),
        ({"eps": [1e-6, 1e-6, 1e-6]}, ValueError, "eps: expected a number or an array of 2"),
        ({"eps": 1e-6, "finite_diff_rel_step": 1e-6}, ValueError, "eps: give either eps or"),
        ({"workers": 0}, ValueError, "workers: expected a number of processes"),
        (3, TypeError, "options: expected a dict"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_evaluated(options, error, says):
    def fun(x):
        raise AssertionError("evaluated")

    with pytest.raises(error) as caught:
        st.minimize(fun, START, options=options)
    assert says in str(caught.value)
    if options != 3:
        with pytest.raises(error) as caught:
            so.minimize(fun, START, method=AUTO, options=options)
        assert says in str(caught.value)


def test_what_does_not_go_together():
    for more, says in (
        ({"options": {"gradient": "cs"}}, "'jac' is given twice"),
        ({"constraints": {"type": "eq", "fun": lambda x: x[0]}}, "constraints: method 'gd' does not take"),
        ({"options": {"maxiter": 3, "budget": st.Budget(iters=3)}}, "'budget' is given twice"),
    ):
        with pytest.raises(ValueError, match=says):
            by("gd", **more)
    with pytest.raises(ValueError, match=r"x0: scipy\.optimize\.minimize takes one start point"):
        steepen.integrations.scipy.gd(rosen, np.ones((3, 2)))
    for name, argument, options in (
        ("gtol", 1e-3, {"gtol": 1e-3}), ("budget", st.Budget(iters=3), {"maxiter": 3}),
        ("memory", 3, {"maxcor": 3}), ("step", 0.1, {"maxls": 3}), ("trace", False, {"return_all": True}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"'{name}' is given twice"):
            st.minimize(rosen, START, options=options, **{name: argument})


def test_minimize_takes_options_as_scipy_does():
    options = {"maxiter": 20.0, "gtol": 1e-8, "maxcor": 5, "return_all": True}
    given = {"gtol": 1e-8, "memory": 5, "trace": "x", "budget": st.Budget(iters=20)}
    same = st.minimize(rosen, START, jac=rosen_der, method="cgd-auto", **given)
    for res in (st.minimize(rosen, START, jac=rosen_der, options=options), by(AUTO, options=options)):
        np.testing.assert_array_equal(res.trace.x, same.trace.x)
        assert res.nfev == same.nfev
    loose = st.minimize(rosen, START, tol=1.0)
    assert st.minimize(rosen, START, tol=1.0, options={"gtol": 1e-3}).nit > loose.nit


FORMS = [sparse.csr_array, sparse.coo_array, sparse.csr_matrix, sparse.dia_matrix, aslinearoperator]


@pairs(form=FORMS, name=["newton", "cgd"])
def test_a_hessian_may_be_sparse_or_an_operator(name, form):
    dense, other = (
        by(name, hess=hess, options={"maxiter": 30}) for hess in (rosen_hess, lambda x: form(rosen_hess(x)))
    )
    np.testing.assert_allclose(other.x, dense.x, rtol=1e-9)
    assert (other.nit, other.nhev, other.hvp_source) == (dense.nit, dense.nhev, "hess")
    with pytest.raises(ValueError, match=r"hess: expected shape \(2, 2\)"):
        by("newton", hess=lambda x: form(np.eye(3)))


def test_products_with_an_operator_never_make_a_matrix():
    n, products = 100_000, []  # as a matrix: 75 GB

    def hess(x):
        return LinearOperator((n, n), matvec=lambda v: (products.append(1), 2 * v)[1], dtype=float)

    given = {"method": "cgd", "lam": 0.01, "step": 0.1, "budget": st.Budget(iters=3)}
    res = st.minimize(lambda x: x @ x, np.ones(n), jac=lambda x: 2 * x, hess=hess, **given)
    assert len(products) == res.nhev == 3


def test_what_else_scipy_takes_for_a_hessian():
    assert by("newton", hess="2-point").success
    with pytest.raises(TypeError, match="hess: method 'gd' takes no HessianUpdateStrategy"):
        by("gd", hess=so.SR1())
    with pytest.raises(TypeError, match="hess: expected a callable, got '4-point'"):
        by("newton", hess="4-point")


def test_none_among_the_options_is_the_default():
    names = ("ftol", "xtol", "gtol", "gtol_rel", "maxls", "maxcor", "eps", "trace", "return_all", "workers")
    plain = by(AUTO, options={"maxiter": None})
    none = by(AUTO, options=dict.fromkeys(("maxiter", *names)))
    np.testing.assert_array_equal(none.x, plain.x)
    assert counts(none) == counts(plain)
    with pytest.raises(TypeError, match="unknown option 'maxit'"):
        by(AUTO, options={"maxit": None})


def test_who_compares_names_is_told_that_it_is_none():
    assert AUTO.lower() == "_custom"  # for shgo, which looks it up
    with pytest.raises(TypeError, match="method: expected a name, got a steepen method; pass it to"):
        AUTO.lower().startswith("leasts")


@pytest.mark.slow  # half a minute
def test_scipys_own_tests_pass_with_our_methods():
    if not Path(so.__file__).with_name("tests").is_dir():
        pytest.skip("SciPy was installed without its tests")
    script = Path(__file__).parents[2] / "benchmarks" / "scipy_suite.py"
    some_of_them = "TestNewtonCg or sparse_hessian or LBFGSBBounds or finite_differences_jac"
    words = [sys.executable, script, "-k", some_of_them]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "with a method of ours pass" in done.stdout
