"""Gradients and H·v from every source, on NumPy's arrays; args, the forms of x0, float32."""

import numpy as np
import pytest
from scipy.optimize._numdiff import approx_derivative  # the peer whose schemes have the same names

import steepen as st
from steepen import Status

from .objectives import METHODS
from .pairs import pairs
from .rounding import seen
from .smooth import MANY, ONE, STARTS, f, g, hess, hvp, run

NOWHERE = st.Budget(iters=0)

SCHEMES = ["2-point", "3-point", "cs"]
ERROR = {"2-point": 1e-6, "3-point": 1e-8, "cs": 1e-14}
"""Relative errors that double precision allows each scheme, with room."""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_differences_against_the_exact_gradient_and_scipy(scheme):
    for start in (ONE, MANY, 1e3 * ONE, 1e-3 * ONE, 0 * ONE):
        ours, exact = run(start, jac=scheme, method="gd", budget=NOWHERE).jac, g(start)
        scale = np.maximum(np.abs(exact).max(), 1.0)
        assert np.abs(ours - exact).max() <= ERROR[scheme] * scale
        for row, x in zip(np.atleast_2d(ours), np.atleast_2d(start), strict=True):
            assert np.abs(row - approx_derivative(f, x, method=scheme)).max() <= 2 * ERROR[scheme] * scale
    end = st.minimize(f, ONE, jac=scheme, method="bfgs")
    assert end.status is Status.CONVERGED
    assert np.abs(g(end.x)).max() < 2e-5


def test_two_points_are_the_default_and_the_complex_step_needs_complex_values():
    with pytest.raises(TypeError, match='jac="cs": fun must return complex values'):
        run(fun=lambda x: f(x).real, jac="cs")
    default, named = run(jac=None, method="gd"), run(jac="2-point", method="gd")
    assert default.x.tolist() == named.x.tolist()
    assert (default.nfev, default.njev) == (named.nfev, named.njev) == (9 + 9 * 3, 9)


def banana(x):
    return 100 * (x[..., 1] - x[..., 0] ** 2) ** 2 + (1 - x[..., 0]) ** 2


def steepness(x):
    """Return ‖∇f‖ of `banana`, in float64."""
    x = np.atleast_2d(x).astype(np.float64)
    t = x[:, 1] - x[:, 0] ** 2
    return np.hypot(-400 * x[:, 0] * t - 2 * (1 - x[:, 0]), 200 * t)


FLOAT32_ALONE = {
    "returns float32": lambda x: banana(x).astype(np.float32),
    "returns float32 as float64": lambda x: banana(x).astype(np.float32).astype(np.float64),
    "computes in float32": lambda x: banana(x.astype(np.float32)).astype(np.float64),
}
SINGLE = np.random.default_rng(0).uniform(-2, 2, (30, 2)).astype(np.float32)
SCHEME = pytest.mark.parametrize("scheme", ["2-point", "3-point"])


@pairs(scheme=("2-point", "3-point"), rows=STARTS)
def test_a_float32_start_without_a_gradient_runs_in_float64(scheme, rows):
    for x0 in [SINGLE] if rows == "many" else SINGLE[:8]:
        res = st.minimize(banana, x0, jac=scheme)
        again = st.minimize(banana, x0.astype(np.float64), jac=scheme)
        assert res.x.dtype == np.float64
        assert np.all(res.success)
        assert np.array_equal(res.x, again.x)


@pairs(name=FLOAT32_ALONE, rows=STARTS, scheme=("2-point", "3-point"))
@pytest.mark.bits  # float32 moved by a bit of float64 looks like float64
def test_no_success_on_a_gradient_rougher_than_gtol(name, rows, scheme):
    rough = 0
    for x0 in [SINGLE] if rows == "many" else SINGLE[:6]:
        res = st.minimize(FLOAT32_ALONE[name], x0, method="bfgs", jac=scheme)
        assert (steepness(res.x)[np.atleast_1d(res.success)] < 2e-3).all()
        for status, message in zip(np.atleast_1d(res.status), np.atleast_1d(res.message), strict=True):
            if status == Status.INACCURATE_GRADIENT:
                rough += 1
                assert 1e-5 < float(message.rpartition("about ")[2].split()[0].rstrip(".")) < 10
    assert rough or scheme == "3-point"


def products(jac, start=ONE, **given_):
    """Give λ·2·H·g as the run's first step shows it, the exact one, and the result."""
    options = {"jac": jac, "lam": 1e-3, "step": 1.0, "trace": "x", "budget": st.Budget(iters=1)}
    result = run(start, **(options | given_))
    shown = -(result.trace.x[1] - result.trace.x[0]) - g(start)
    return shown, 2e-3 * hvp(start, g(start)), result


@pytest.mark.parametrize("start", [ONE, MANY, 30 * ONE], ids=["one", "many", "far"])
def test_products_of_a_given_gradient_are_differences(start):
    shown, exact, result = products(g, start)
    assert result.hvp_source == "difference"
    assert 0 < np.abs(shown - exact).max() <= 1e-5 * np.abs(exact).max() + 1e-14
    assert np.all(result.njev == 1 + 1 + 1)  # ∇f, the product, ∇f at the end
    assert np.all(result.nhvp == 0)


CASES = (("2-point", 2e-2), ("3-point", 1e-3), ("cs", 1e-5))


@pairs(case=CASES, curvature=("exact", "difference"), rows=STARTS)
def test_products_of_differenced_gradients_are_not_noise(case, curvature, rows):
    scheme, error = case
    shown, exact, result = products(scheme, STARTS[rows], method=st.CGD(1e-3, curvature=curvature), lam=None)
    assert result.hvp_source == "difference"
    assert np.abs(shown - exact).max() <= error * np.abs(exact).max()


@pytest.mark.parametrize("given_", [{"hvp": hvp}, {"hess": hess}, {}])
def test_newton_takes_any_source(given_):
    result = run(method="newton", step=1.0, gtol=1e-8, **given_)
    assert result.status is Status.CONVERGED
    x = ONE
    while np.linalg.norm(g(x)) > 1e-8:
        x = x - np.linalg.solve(hess(x), g(x))
    np.testing.assert_allclose(result.x, x, atol=1e-7)


@pairs(rows=STARTS, source=("hvp", "hess", "jac", "2-point", "3-point", "cs", True))
def test_args_go_everywhere(rows, source):
    parts = {"fun": f, "jac": g} | {"hvp": {"hvp": hvp}, "hess": {"hess": hess}}.get(source, {})
    open_ = {name: lambda *given, part=part: given[-1] * part(*given[:-1]) for name, part in parts.items()}
    if source is True:
        open_["fun"] = lambda x, a: (a * f(x), a * g(x))
    if source not in ("jac", "hvp", "hess"):
        open_["jac"] = source
    closed = {n: (lambda *x, p=p: p(*x, 2.0)) if callable(p) else p for n, p in open_.items()}
    result, expected = run(STARTS[rows], args=(2.0,), **open_), run(STARTS[rows], **closed)
    np.testing.assert_array_equal(result.x, expected.x)
    assert result.hvp_source == expected.hvp_source


FORMS = [[1, -2, 3], (1.0, -2.0, 3.0), np.array([1, -2, 3], np.int8), range(1, 4), 3, np.array(3.0), [3.0]]


@pytest.mark.parametrize("x0", FORMS, ids=str)
def test_whole_numbers_and_lists_become_float64_and_a_number_a_point(x0):
    fun = {"fun": lambda x: (x * x).sum(axis=-1), "jac": lambda x: 2 * x, "step": 0.25, "method": "gd"}
    result = run(x0, **fun)
    assert result.x.dtype == np.float64
    np.testing.assert_allclose(result.x, np.atleast_1d(np.array(x0, dtype=float)) * 0.5**8, rtol=1e-13)


@pairs(method=METHODS, step=(0.05, None, lambda k: np.float64(0.05)), rows=STARTS)
def test_float32_stays_float32(method, step, rows):
    x0, dtypes = STARTS[rows].astype(np.float32), set()

    def noted(function):
        return lambda x, *v: dtypes.add(x.dtype.name) or function(x, *v)

    result = run(x0, noted(f), jac=noted(g), method=method, step=step, hvp=noted(hvp), trace="x", lam=None)
    assert result.x.dtype == result.jac.dtype == result.best.x.dtype == result.trace.x.dtype == np.float32
    assert dtypes == {"float32"}
    assert np.atleast_1d(result.trace.f[0])[0] == np.atleast_1d(seen(f)(x0))[0]
