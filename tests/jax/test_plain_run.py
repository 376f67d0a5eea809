"""A compiled run against the plain run: the same iterates, counts and ends, of every method."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steepen as st
import steepen.jax as sj
from steepen.jax import _minimize

START = np.array([-1.2, 1.0])
BOX = [(-2.0, 0.5), (-1.0, 2.0)]
SHORT = st.Budget(iters=20)  # rounding grows in longer runs
METHODS = {
    "gd": {"budget": SHORT}, "newton": {}, "bfgs": {}, "dfp": {"budget": SHORT}, "cgd": {"budget": SHORT},
    "cgd-fd": {"budget": SHORT}, "cgd-bfgs": {"budget": SHORT}, "cgd-dfp": {"budget": SHORT}, "cgd-auto": {},
}  # fmt: skip


def valley(x):
    return (5 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.fixture
def whole(monkeypatch):
    """Fail where a run would be left open, and made by the plain run."""

    def continued(program, x, inputs, found):
        assert (np.asarray(found.status) >= 0).all()
        return found

    monkeypatch.setattr(_minimize, "continued", continued)


def agree(fun, x0, tolerance=1e-6, **given):
    found, one = sj.minimize(fun, x0, trace=400, **given), st.minimize(fun, x0, jac="jax", trace="x", **given)
    assert (st.Status(int(found.status)), int(found.nit)) == (one.status, one.nit)
    counts = ("nfev", "njev", "nhvp", "nhev")
    assert [int(getattr(found, name)) for name in counts] == [getattr(one, name) for name in counts]
    kept = np.asarray(found.trace.k) >= 0
    for name in ("x", "f", "gnorm", "nfev", "njev", "nhvp", "penalised", "guarded"):
        rows = np.asarray(getattr(found.trace, name))[kept]
        np.testing.assert_allclose(rows, getattr(one.trace, name), rtol=1e-3, atol=tolerance, err_msg=name)
    np.testing.assert_allclose(found.x, one.x, rtol=tolerance, atol=tolerance)
    return found


@pytest.mark.parametrize("bounds", [None, BOX], ids=("free", "box"))
@pytest.mark.parametrize("method", METHODS)
def test_it_makes_the_plain_run(method, bounds, whole):
    agree(valley, START, method=method, bounds=bounds, **METHODS[method])


@pytest.mark.parametrize(
    "given",
    [
        {"method": "gd", "step": 1e-3, "ftol": 1e-3},
        {"method": "gd", "step": st.schedules.L(1e-3, 1e-4), "xtol": 1e-3, "budget": SHORT},
        {"method": "cgd", "lam": 1e-4, "step": 1e-3, "switch": st.switches.GoodDrop(0.5), "budget": SHORT},
        {"method": "cgd-fd", "lam": 1e-4, "r": 1e-3, "step": 1e-3, "budget": st.Budget(grads=33)},
        {"method": "cgd-auto", "budget": st.Budget(evals=20)},
        {"method": "cgd-auto", "budget": st.Budget(grads=20)},
        {"method": "bfgs", "gtol_rel": 1e-2},
    ],
)
def test_steps_switches_tolerances_and_budgets(given, whole):
    agree(valley, START, **given)


def test_ends_that_are_no_use(whole):
    for fun, status in (
        (lambda x: -(x**2).sum(), st.Status.UNBOUNDED),
        (lambda x: jnp.sqrt(x - 2).sum(), st.Status.NONFINITE_VALUE),
        (lambda x: jnp.sqrt(abs(x - START)).sum(), st.Status.NONFINITE_GRADIENT),
    ):
        found = sj.minimize(fun, START, method="gd", step=10.0)
        assert (
            int(found.status) == status == st.minimize(fun, START, jac="jax", method="gd", step=10.0).status
        )


def offset(x):
    return jnp.cos(x[0]) + 1e8 + x[1] ** 2 * (1 + x[1] ** 2)


def test_inside_jit_nothing_is_left_open():
    run = jax.jit(lambda x: sj.minimize(offset, x, gtol=0.0))
    low = run(jnp.array([1.0, 1.0]))  # as low as the digits of f show
    assert st.Status(int(low.status)) is st.Status.ROUNDOFF
    np.testing.assert_allclose(low.x, [np.pi, 0.0], atol=1e-3)
    kink = jax.jit(lambda x: sj.minimize(lambda x: jnp.abs(x).sum(), x, method="bfgs"))(jnp.array([1.0, 0.3]))
    assert st.Status(int(kink.status)) is st.Status.LINE_SEARCH_FAILED
    saddle = run(jnp.zeros(2))  # ∇f vanishes there, which is all that is known
    assert (st.Status(int(saddle.status)), int(saddle.nit)) == (st.Status.CONVERGED, 0)


def test_rows_are_single_runs(whole):
    x0 = np.random.default_rng(0).uniform(-2, 2, (9, 2))
    many = sj.minimize(valley, x0, slots=4)
    for row, start in enumerate(x0):
        one = st.minimize(valley, start, jac="jax")
        assert int(many.status[row]) == one.status
        assert abs(int(many.nit[row]) - one.nit) <= 2
        np.testing.assert_allclose(many.x[row], one.x, atol=1e-5)
