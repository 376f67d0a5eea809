"""What comes back: a result that reads like SciPy's, a status with a name, the inverse Hessian."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.optimize as so
from scipy.sparse.linalg import LinearOperator

import steepen as st
import steepen.integrations.scipy

from .objectives import METHODS
from .pairs import pairs

LEARNERS = ["cgd-auto", "bfgs", "dfp"]


def bowl(x):
    return ((x - 1) ** 2).sum(axis=-1)


def bowl_der(x):
    return 2 * (x - 1)


def test_a_result_reads_as_an_optimize_result_does():
    res = st.minimize(bowl, [3.0, 4.0], jac=bowl_der)
    theirs = so.minimize(bowl, [3.0, 4.0], jac=bowl_der, method="L-BFGS-B")
    assert set(theirs) <= set(res.keys())
    for name in res:
        assert name in res
        assert res[name] is getattr(res, name)
    assert not [name for name in res if name.startswith("_")]
    assert "_learnt" not in repr(res)
    assert "grad" not in res
    assert res.get("grad", 3) == 3
    assert (dict(res)["nit"], len(res)) == (res.nit, len(list(res.items())))
    for name in ("grad", "_learnt", "learnt", "row"):
        with pytest.raises(KeyError, match=name):
            res[name]


def test_a_status_prints_as_its_name_and_is_its_number_to_numpy_and_scipy():
    for status in st.Status:
        assert str(status) == f"{status}" == "%s" % status == status.name  # noqa: UP031
        assert f"{status:>20}" == f"{status.name:>20}"
        assert f"{status:d}" == "%d" % status == str(int(status))  # noqa: UP031
        assert status == int(status)
        assert np.asarray(status).dtype.kind == "i"
        assert pickle.loads(pickle.dumps(status)) is status
    door = so.minimize(
        bowl, [3.0, 4.0], jac=bowl_der, method=steepen.integrations.scipy.gd, options={"maxiter": 0}
    ).status
    assert type(door) is int
    assert door == st.Status.MAX_ITERATIONS


def linear(rng, n):
    """Least squares: the covariance of the estimate is (XᵀX)⁻¹, for noise of variance 1."""
    X = rng.standard_normal((200, n)) * np.exp(rng.uniform(-1, 1, n))
    y = X @ rng.standard_normal(n) + rng.standard_normal(200)

    def fun(b):
        return 0.5 * ((X @ b - y) ** 2).sum()

    return fun, lambda b: X.T @ (X @ b - y), lambda b: X.T @ X


def logistic(rng, n):
    """Logistic regression: the covariance is the inverse of the Hessian at the estimate."""
    X = rng.standard_normal((200, n))
    Z = X * np.where(X @ rng.standard_normal(n) + 2 * rng.logistic(size=200) > 0, 1.0, -1.0)[:, None]

    def against(b):
        return 0.5 * (1 - np.tanh(Z @ b / 2))

    def hess(b):
        p = against(b)
        return Z.T @ (Z * (p * (1 - p))[:, None])

    return lambda b: np.logaddexp(0, -Z @ b).sum(), lambda b: -Z.T @ against(b), hess


@pairs(
    method=LEARNERS,
    # by BLAS from 32 on; a run that takes fewer steps than n has not seen them all
    model=((linear, 1, 0.01), (linear, 5, 0.01), (linear, 40, 0.4), (logistic, 2, 0.1), (logistic, 10, 0.2)),
)
def test_standard_errors_of_a_regression(method, model):
    kind, n, within = model
    fun, grad, hess = kind(np.random.default_rng(n), n)
    res = st.minimize(fun, np.zeros(n), jac=grad, method=method, gtol=1e-7)
    assert res.success
    exact = np.sqrt(np.diag(np.linalg.inv(hess(res.x))))
    np.testing.assert_allclose(np.sqrt(np.diag(res.hess_inv.todense())), exact, rtol=within)
    door = getattr(steepen.integrations.scipy, method.replace("-", "_"))
    theirs = so.minimize(fun, np.zeros(n), jac=grad, method=door, tol=1e-7)
    np.testing.assert_array_equal(theirs.hess_inv.todense(), res.hess_inv.todense())


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_it_is_that_of_f_and_not_of_f_scaled(scale):
    fun, grad, hess = linear(np.random.default_rng(3), 3)
    res = st.minimize(lambda b: scale * fun(b), np.zeros(3), jac=lambda b: scale * grad(b), gtol=1e-7 * scale)
    np.testing.assert_allclose(
        res.hess_inv.todense(), np.linalg.inv(hess(0)) / scale, rtol=1e-3, atol=1e-6 / scale
    )


@pairs(method=LEARNERS, n=(3, 40))
def test_it_is_a_symmetric_positive_definite_operator(method, n):
    fun, grad, _ = logistic(np.random.default_rng(n), n)
    G = st.minimize(fun, np.zeros(n), jac=grad, method=method).hess_inv
    assert isinstance(G, LinearOperator)
    dense, v = G.todense(), np.arange(1.0, n + 1)
    np.testing.assert_array_equal(dense, dense.T)
    assert np.linalg.eigvalsh(dense).min() > 0
    for product in (G @ v, G.matvec(v), G.T @ v, G.H @ v, G.rmatvec(v), (G @ v[:, None])[:, 0], G(v)):
        np.testing.assert_allclose(product, dense @ v, rtol=1e-9, atol=1e-9 * np.abs(dense).max())
    np.testing.assert_array_equal(np.asarray(G), dense)
    assert G.shape == (n, n)


@pytest.mark.parametrize("method", LEARNERS)
def test_reading_it_changes_nothing(method):
    fun, grad, _ = logistic(np.random.default_rng(4), 4)
    res = st.minimize(fun, np.zeros(4), jac=grad, method=method)
    unread = pickle.dumps(res)
    first = res.hess_inv.todense()
    for other in (res, copy.deepcopy(res), pickle.loads(unread), pickle.loads(pickle.dumps(res))):
        np.testing.assert_array_equal(other.hess_inv.todense(), first)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(res.hess_inv)).todense(), first)


def test_a_run_without_steps_has_learnt_none_and_one_that_was_lost_what_it_learnt():
    for method in LEARNERS:
        res = st.minimize(bowl, [1.0, 1.0], jac=bowl_der, method=method)
        assert res.nit == 0
        assert res.hess_inv is None
    fun = lambda x: np.nan if x[0] < 1.5 else bowl(x)  # noqa: E731
    lost = st.minimize(fun, [3.0, 4.0], jac=bowl_der, method="bfgs", step=0.2)
    assert lost.status == st.Status.NONFINITE_VALUE
    assert np.isfinite(lost.hess_inv.todense()).all()


def test_other_methods_and_batches_have_none():
    for method in set(METHODS) - set(LEARNERS):
        assert st.minimize(bowl, [3.0, 4.0], jac=bowl_der, method=method).hess_inv is None
        door = getattr(steepen.integrations.scipy, method.replace("-", "_"))
        assert "hess_inv" not in so.minimize(bowl, [3.0, 4.0], jac=bowl_der, method=door)
    batch = st.minimize(bowl, np.full((3, 2), 4.0), jac=bowl_der)
    assert batch.hess_inv is batch.row(1).hess_inv is None


def test_bounds_are_not_in_it():
    H = np.array([[2.0, 1.0], [1.0, 3.0]])
    bounds = [(1, None), (None, None)]
    res = st.minimize(lambda x: 0.5 * x @ H @ x, [3.0, 4.0], jac=lambda x: H @ x, bounds=bounds, gtol=1e-9)
    assert res.x[0] == 1
    v = np.array([0.0, 1.0])
    # along the bound the run knows the curvature: G maps the change of the gradient to the step
    np.testing.assert_allclose(res.hess_inv @ (H @ v), v, rtol=1e-6, atol=1e-6)


@pairs(method=("gd", "newton", "cgd-auto"), as_given=(float, np.float64, np.array, lambda g: np.array([g])))
def test_a_gradient_of_one_variable_may_be_a_number(method, as_given):
    door = getattr(steepen.integrations.scipy, method.replace("-", "_"))
    fun = lambda x: (x[0] - 1) ** 2  # noqa: E731
    grad = lambda x: 2 * (x - 1) if np.iscomplexobj(x) else as_given(2 * (x[0] - 1))  # noqa: E731
    given = {"jac": grad, "hess": lambda x: as_given(2.0)}
    for res in (
        st.minimize(fun, [3.0], method=method, **given),
        so.minimize(fun, [3.0], method=door, **given),
        st.minimize(lambda x: (fun(x), grad(x)), [3.0], method=method, jac=True),
    ):
        assert res.success
        np.testing.assert_allclose(res.x, [1.0], atol=1e-5)
        assert res.jac.shape == (1,)


@pytest.mark.parametrize("dtype", [">f8", "<f8", ">f4", ">i4"])
@pytest.mark.bits  # arrays of another byte order are not moved
def test_x0_may_have_any_byte_order(dtype):
    x0 = np.array([3, 4], dtype=dtype)
    own = x0.astype(x0.dtype.newbyteorder("="))
    for call in (
        lambda x: st.minimize(bowl, x, jac=lambda x: bowl_der(x).astype(dtype)),
        lambda x: so.minimize(bowl, x, jac=bowl_der, method=steepen.integrations.scipy.cgd_auto),
        lambda x: st.minimize(bowl, np.stack([x, x]), jac=bowl_der),
    ):
        res = call(x0)
        assert np.all(res.success)
        assert res.x.dtype == (np.float32 if dtype.endswith("f4") else np.float64)
        assert res.x.dtype.isnative
        if dtype.endswith("f8"):
            np.testing.assert_array_equal(res.x, call(own).x)


# --- messages that say what to do ------------------------------------------------------------------------


def valley(sizes):
    """Rosenbrock's function of variables of other sizes."""
    f = st.functions["rosenbrock"].at(n=2)
    return lambda x: f(x / sizes), lambda x: f.grad(x / sizes) / sizes


def test_a_run_that_is_cut_on_variables_of_very_different_sizes_names_x_scale():
    sizes = np.array([1e-6, 1e6])
    fun, grad = valley(sizes)
    start = sizes * [-1.2, 1.0]
    cut = st.minimize(fun, start, jac=grad)
    assert cut.status == st.Status.MAX_ITERATIONS
    assert 'x_scale="auto"' in cut.message
    scaled = st.minimize(fun, start, jac=grad, x_scale="auto")
    assert scaled.success
    for budget in (st.Budget(iters=3), st.Budget(evals=5)):
        assert "x_scale" in st.minimize(fun, start, jac=grad, budget=budget).message
        assert "x_scale" not in st.minimize(fun, start, jac=grad, budget=budget, x_scale="auto").message
        assert "x_scale" not in st.minimize(valley(np.ones(2))[0], [-1.2, 1.0], budget=budget).message


def test_where_no_gradient_was_left_for_x_the_message_has_the_norm_of_the_last_one():
    fun, grad = valley(np.ones(2))
    norms = []

    def noted(x):
        g = grad(x)
        norms.append(f"{np.linalg.norm(g):.2g}")
        return g

    res = st.minimize(fun, [-1.2, 1.0], jac=noted, budget=st.Budget(grads=9))
    assert res.status == st.Status.MAX_GRADIENTS
    assert np.isnan(res.jac).all()
    assert f"its norm was {norms[-1]}." in res.message
    assert f"{res.trace.gnorm[-2]:.2g}" == norms[-1]  # as the advice says
    fixed = st.minimize(fun, [-1.2, 1.0], jac=noted, method="gd", step=1e-4, budget=st.Budget(grads=9))
    assert np.isnan(fixed.jac).all()
    assert f"{fixed.trace.gnorm[-2]:.2g}" == norms[-1]


@pytest.mark.parametrize("x0", [[-1.2, 1.0], [[-1.2, 1.0], [0.0, 0.0]]])
def test_second_derivatives_that_a_method_does_not_use_are_named(x0):
    f = st.functions["rosenbrock"].at(n=2)
    for name in ("hvp", "hess"):
        told = st.minimize(f, x0, jac=f.grad, **{name: getattr(f, name)}).message
        for message in [told] if isinstance(told, str) else told:
            assert f"The method 'cgd-auto' does not use {name}. (See steepen" in message
        used = st.minimize(f, x0, jac=f.grad, method="newton", **{name: getattr(f, name)}).message
        assert "does not use" not in "".join(used)
    assert "does not use" not in "".join(st.minimize(f, x0).message)  # f has both: nobody asked for them


USE = """
import steepen as st

res = st.minimize(st.functions["branin"], [1.0, 2.0], method="cgd", lam=0.1, step=0.01)
print(res.trace.f[0], res.x @ res.x, res.fun < 1, res.status.advice)
row = st.minimize(**st.table1["branin"].arguments("cgd-fd"))
print(row.statuss)
"""


@pytest.mark.slow
def test_a_type_checker_takes_the_fields_of_a_result_and_no_others(tmp_path):
    pytest.importorskip("pyright", reason="pyright is not installed")
    (file := tmp_path / "use.py").write_text(USE, "utf-8")
    words = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, file]
    said = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert "1 error," in said, said
    assert 'Cannot access attribute "statuss"' in said
