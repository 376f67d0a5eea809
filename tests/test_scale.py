"""x_scale, gtol_rel, and runs whose units would make gtol meaningless."""

import itertools

import numpy as np
import pytest
import scipy.optimize as so
import scipy.sparse as sparse
from scipy.sparse.linalg import aslinearoperator

import steepen as st
import steepen.integrations.scipy
from steepen.scale import scale_of

from .objectives import METHODS
from .pairs import pairs

SIZES = np.array([2.0**20, 2.0**-30])
START = np.array([-1.2, 1.0])
STARTS = np.array([START, [0.5, 2.0]])


def plain(z):
    return 10 * (z[..., 1] - z[..., 0] ** 2) ** 2 + (1 - z[..., 0]) ** 2


def slope(z):
    rest = z[..., 1] - z[..., 0] ** 2
    return np.stack([-40 * z[..., 0] * rest - 2 * (1 - z[..., 0]), 20 * rest], axis=-1)


def bend(z):
    return np.array([[120 * z[0] ** 2 - 40 * z[1] + 2, -40 * z[0]], [-40 * z[0], 20.0]])


def fun(x):
    return plain(x / SIZES)


def grad(x):
    return slope(x / SIZES) / SIZES


def same(ours, theirs, sizes=SIZES):
    """Hold a run with x_scale to the run in scaled variables, to the bit: powers of two lose nothing."""
    np.testing.assert_array_equal(ours.x, theirs.x * sizes)
    np.testing.assert_array_equal(ours.jac, theirs.jac / sizes)
    np.testing.assert_array_equal(ours.best.x, theirs.best.x * sizes)
    for name in ("fun", "nit", "nfev", "njev", "nhvp", "nhev", "status"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)


@pairs(method=METHODS, x0=[START, STARTS], box=[None, [(-1.5, 0.5), (-np.inf, 0.75)]])
def test_a_run_is_that_of_the_scaled_variables(method, x0, box):
    given = {"method": method, "budget": st.Budget(iters=40), "trace": "x"}
    bounds = box and (np.array(box) * SIZES[:, None]).tolist()
    ours = st.minimize(fun, x0 * SIZES, jac=grad, bounds=bounds, x_scale=1.3 * SIZES, **given)
    theirs = st.minimize(plain, x0, jac=slope, bounds=box, **given)
    same(ours, theirs)
    np.testing.assert_array_equal(ours.trace.x, theirs.trace.x * SIZES)
    np.testing.assert_array_equal(ours.trace.gnorm, theirs.trace.gnorm)


def test_every_kind_of_derivative():
    stretch = 1 / SIZES

    def hess(x):
        return bend(x / SIZES) * stretch * stretch[:, None]

    theirs = st.minimize(plain, START, jac=slope, hess=bend, method="newton")
    for form in (hess, lambda x: sparse.csr_array(hess(x)), lambda x: aslinearoperator(hess(x))):
        ours = st.minimize(fun, START * SIZES, jac=grad, hess=form, method="newton", x_scale=SIZES)
        np.testing.assert_allclose(ours.x, theirs.x * SIZES, rtol=1e-12)
    ours = {"jac": grad, "hvp": lambda x, v: hess(x) @ v, "method": "cgd", "x_scale": SIZES}
    theirs = {"jac": slope, "hvp": lambda z, v: bend(z) @ v, "method": "cgd"}
    same(st.minimize(fun, START * SIZES, **ours), st.minimize(plain, START, **theirs))
    both = st.minimize(lambda x: (fun(x), grad(x)), START * SIZES, jac=True, x_scale=SIZES)
    same(both, st.minimize(lambda z: (plain(z), slope(z)), START, jac=True))
    for jac in ("2-point", "3-point", "cs"):
        same(st.minimize(fun, START * SIZES, jac=jac, x_scale=SIZES), st.minimize(plain, START, jac=jac))
    ours = st.minimize(fun, START * SIZES, x_scale=SIZES, options={"eps": 1e-6 * SIZES})
    same(ours, st.minimize(plain, START, options={"eps": 1e-6}))


def test_callback_checkpoint_and_inverse_hessian(tmp_path):
    seen, path = [], tmp_path / "run.npz"

    def run(**more):
        return st.minimize(fun, START * SIZES, jac=grad, x_scale=SIZES, **more)

    whole = run(callback=lambda s: seen.append(s.x), gtol=1e-9)
    np.testing.assert_array_equal(seen[-1], whole.x)
    run(budget=st.Budget(iters=5), checkpoint=path, gtol=1e-9)
    np.testing.assert_array_equal(run(checkpoint=path, gtol=1e-9).x, whole.x)
    with pytest.raises(st.CheckpointError):
        st.minimize(fun, START * SIZES, jac=grad, x_scale=4 * SIZES, checkpoint=path, gtol=1e-9)
    other = st.minimize(plain, START, jac=slope, gtol=1e-9)
    np.testing.assert_array_equal(whole.hess_inv.todense(), other.hess_inv.todense() * SIZES * SIZES[:, None])


@pytest.mark.bits  # it is about values that are equal to the last bit
def test_what_raises_has_the_run_in_x():
    calls = itertools.count()

    def breaks(x):
        if next(calls) == 5:
            raise RuntimeError
        return fun(x)

    with pytest.raises(RuntimeError) as error:
        st.minimize(breaks, START * SIZES, jac=grad, x_scale=SIZES)
    found = error.value.partial_result
    assert found.fun == fun(found.x)
    np.testing.assert_array_equal(found.jac, grad(found.x))


@pairs(method=METHODS, x0=[START, STARTS])
def test_a_tolerance_relative_to_the_largest_gradient(method, x0):
    given = {"method": method, "gtol_rel": 1e-3, "gtol": 0.0, "step": 1e-14 if method == "gd" else None}
    res = st.minimize(lambda z: 1e12 * plain(z), x0, jac=lambda z: 1e12 * slope(z), **given)
    assert np.all(res.status == st.Status.RELATIVE)
    assert np.all(res.success)
    last = np.linalg.norm(res.jac, axis=-1)
    assert np.all(last <= 1e-3 * np.nanmax(res.trace.gnorm, axis=0))
    assert "gtol_rel" in np.ravel(res.message)[0]


def test_scipy_users_name_them_as_options():
    options = {"x_scale": "auto", "gtol_rel": 1e-9}
    res = so.minimize(fun, START * SIZES, jac=grad, method=steepen.integrations.scipy.bfgs, options=options)
    np.testing.assert_allclose(res.x, SIZES, rtol=1e-4)


@pytest.mark.parametrize("jac", [lambda x: 2e-6 * (x / 1e6 - 1), None])
def test_a_parabola_in_millions(jac):
    res = st.minimize(lambda x: float((x[0] / 1e6 - 1) ** 2), [5e6], jac=jac)
    assert res.success
    assert res.fun < 1e-9
    assert res.nfev < 40


def test_auto_is_the_width_of_the_box_else_the_size_of_the_start_else_one():
    bounds = [(None, None), (0, 1e-9), (None, None)]
    assert scale_of("auto", np.array([5e6, 0.0, 0.0]), bounds).tolist() == [2.0**22, 2.0**-30, 1.0]


UNITS = np.array([[1e9, 1e9], [1.0, 1e9], [1e6, 1e6], [1.0, 1e6], [1e9, 1.0]])


@pytest.mark.parametrize("sizes", UNITS)
def test_a_valley_in_any_units(sizes):
    res = st.minimize(lambda x: plain(x / sizes), START * sizes, jac=lambda x: slope(x / sizes) / sizes)
    assert res.success
    assert res.fun < 1e-8
    good = st.minimize(plain, [1 + 1e-9, 1 + 1e-9], jac=slope, gtol=1e-5)
    assert good.nfev == 1  # a gtol that was given is meant as it stands, also where f is tiny


def test_a_hessian_may_be_a_number_of_one_variable():
    def ends(hess):
        return st.minimize(
            lambda x: (x[0] - 3) ** 4 + (x[0] - 3) ** 2, [1.0], jac=lambda x: 4 * (x - 3) ** 3 + 2 * (x - 3),
            hess=hess, method="newton", x_scale=2.0**-6,
        )  # fmt: skip

    number, matrix = (ends(lambda x, e=e: np.reshape(2 + 12 * (x[0] - 3) ** 2, e)) for e in ((), (1, 1)))
    assert number.success
    assert (number.x, number.nfev) == (matrix.x, matrix.nfev)


def test_bounds_may_be_an_iterator_and_a_matrix_is_no_hessian_to_call():
    class Bowl:
        hess = np.diag([1.0, 4.0])

        def __call__(self, x):
            return x @ self.hess @ x / 2

        def grad(self, x):
            return self.hess @ x

    for scale in (None, "auto"):
        res = st.minimize(Bowl(), [1.0, 1.0], bounds=zip([0, 0], [2, 2], strict=True), x_scale=scale)
        np.testing.assert_allclose(res.x, 0, atol=1e-5)
