"""Arrays of NumPy, torch and JAX; gradients and H·v from every source."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some
from scipy.optimize._numdiff import approx_derivative  # the peer whose schemes have the same names

import steepen as st
from steepen import Status

from ..rounding import seen

METHODS = ["gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto"]
ONE = np.array([-1.2, 1.0, 0.3])
MANY = np.array([[-1.2, 1.0, 0.3], [0.5, 0.4, -0.2], [1.5, 0.2, 1.0]])
W = (1.0, 3.0, 2.0)


# A smooth function in plain operators, so that one text serves every library: ¼Σx⁴ + ½Σw x² + x₀x₁x₂.
def f(x: Any) -> Any:
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    quartic = (a * a * a * a + b * b * b * b + c * c * c * c) / 4
    return quartic + (W[0] * a * a + W[1] * b * b + W[2] * c * c) / 2 + a * b * c


def parts(x: Any) -> tuple[Any, ...]:
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    return a * a * a + W[0] * a + b * c, b * b * b + W[1] * b + a * c, c * c * c + W[2] * c + a * b


def g(x: Any) -> Any:
    return np.stack(parts(x), axis=-1)


def hess(x: Any) -> Any:
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    rows = [[3 * a * a + W[0], c, b], [c, 3 * b * b + W[1], a], [b, a, 3 * c * c + W[2]]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def hvp(x: Any, v: Any) -> Any:
    return (hess(x) @ v[..., None])[..., 0]


def run(x0: Any = ONE, fun: Any = f, **given_: Any) -> st.Result:
    base: dict[str, Any] = {
        "jac": g,
        "method": "cgd",
        "step": 0.05,
        "budget": st.Budget(iters=8),
        "gtol": 0.0,
    }
    options = base | given_
    if options["method"] == "cgd-fd":
        options.setdefault("r", 1e-3)  # so that the precision of the library does not choose it
    return st.minimize(fun, x0, **options)


# --- torch and JAX arrays --------------------------------------------------------------------------


@pytest.mark.bits  # the functions of torch are not moved
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("start", [ONE, MANY], ids=["one", "many"])
@pytest.mark.parametrize("step", [0.05, None], ids=["fixed", "armijo"])
def test_torch_tensors_stay_tensors(method: str, start: Any, step: Any) -> None:
    torch = pytest.importorskip("torch")
    expected = run(start, method=method, step=step, hess=hess, trace="x")
    x0 = torch.tensor(start)
    result = run(
        x0, method=method, step=step, jac=lambda x: torch.stack(parts(x), -1), trace="x",
        hess=lambda x: torch.from_numpy(hess(x.numpy())),
    )  # fmt: skip
    check(result, expected, torch.Tensor, torch.float64, 1e-12)
    assert x0.numpy().tolist() == start.tolist()
    single = run(
        x0.to(torch.float32), method=method, step=step, jac=lambda x: torch.stack(parts(x), -1), trace="x",
        hess=lambda x: torch.from_numpy(hess(x.numpy())),
    )  # fmt: skip
    assert single.x.dtype == single.jac.dtype == torch.float32
    if step is not None:
        if method == "cgd-auto":  # what rounding hides from it is more in float32
            expected = run(start.astype(np.float32), method=method, step=step, hess=hess, trace="x")
        check(single, expected, torch.Tensor, torch.float32, 2e-3)


def check(result: st.Result, expected: st.Result, kind: type, dtype: Any, rtol: float) -> None:
    """Hold types, counts and values against the NumPy run."""
    for vector in (result.x, result.jac, result.best.x):
        assert isinstance(vector, kind)
        assert vector.dtype == dtype
    np.testing.assert_allclose(np.asarray(result.x), expected.x, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(np.asarray(result.jac), expected.jac, rtol=rtol, atol=10 * rtol)
    np.testing.assert_allclose(result.fun, expected.fun, rtol=rtol, atol=rtol)
    for name in ("nit", "nfev", "njev", "nhvp", "nhev", "status"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name), err_msg=name)
    assert result.trace is not None
    assert expected.trace is not None
    for (name, a), (_, b) in zip(result.trace.columns(), expected.trace.columns(), strict=True):
        assert isinstance(a, np.ndarray)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=10 * rtol, err_msg=name)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("start", [ONE, MANY], ids=["one", "many"])
def test_jax_arrays_stay_jax_arrays(method: str, start: Any) -> None:
    jax = pytest.importorskip("jax")
    expected = run(start.astype(np.float32), method=method, hess=hess, trace="x")
    result = run(
        jax.numpy.asarray(start, dtype="float32"), method=method, jac=lambda x: jax.numpy.stack(parts(x), -1),
        hess=lambda x: jax.numpy.asarray(hess(np.asarray(x))), trace="x",
    )  # fmt: skip
    check(result, expected, jax.Array, np.float32, 2e-3)


def test_jax_arrays_of_64_bits_stay_so() -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        x0 = jax.numpy.asarray(ONE)
        result = run(x0, jac="jax", method="bfgs", trace="x")
    check(result, run(method="bfgs", trace="x"), jax.Array, np.float64, 1e-12)


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_autodiff_is_the_default_for_tensors(library: str) -> None:
    xp = pytest.importorskip(library)
    result = run(xp.asarray(MANY.astype(np.float32)), jac=None, lam=0.01)
    assert result.hvp_source == library.partition(".")[0]
    np.testing.assert_allclose(np.asarray(result.x), run(MANY, lam=0.01).x, rtol=1e-4, atol=1e-5)


def test_a_tensor_that_wants_a_gradient_is_taken_as_a_point() -> None:
    torch = pytest.importorskip("torch")
    x0 = torch.tensor(ONE, requires_grad=True)
    result = run(x0, jac=None, method="gd")
    assert not result.x.requires_grad
    assert x0.grad is None
    np.testing.assert_allclose(result.x.numpy(), run(method="gd").x, rtol=1e-13)


@pytest.mark.bits  # what another library returns is not moved
def test_a_gradient_may_come_from_another_library() -> None:
    torch = pytest.importorskip("torch")
    mixed = run(jac=lambda x: torch.stack(parts(torch.from_numpy(x)), -1), method="gd")
    assert isinstance(mixed.x, np.ndarray)
    np.testing.assert_array_equal(mixed.x, run(method="gd").x)


# --- autodiff from NumPy ---------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["torch", "jax"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("start", [ONE, MANY], ids=["one", "many"])
@pytest.mark.parametrize("method", ["bfgs", "cgd", "newton"])
def test_autodiff_from_numpy_keeps_the_precision(library: str, dtype: Any, start: Any, method: str) -> None:
    pytest.importorskip(library)
    x0 = start.astype(dtype)
    seen: set[str] = set()

    def fun(x: Any) -> Any:
        seen.add(str(x.dtype).removeprefix("torch."))
        return f(x)

    result = run(x0, fun, jac=library, method=method)
    expected = run(x0, method=method, hvp=hvp)
    assert isinstance(result.x, np.ndarray)
    assert result.x.dtype == result.jac.dtype == dtype
    assert seen == {np.dtype(dtype).name}
    tolerance = 1e-12 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(result.x, expected.x, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(result.jac, g(result.x), rtol=tolerance, atol=tolerance)
    if method != "bfgs":
        assert result.hvp_source == library
    counts = np.atleast_1d(result.nfev)[0], np.atleast_1d(result.njev)[0]
    assert counts == (9, 9)
    assert np.atleast_1d(result.nhvp)[0] == (8 if method == "cgd" else 0)
    assert np.atleast_1d(result.nhev)[0] == (8 if method == "newton" else 0)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_function_of_one_point_serves_a_batch(library: str) -> None:
    pytest.importorskip(library)
    result = run(MANY, lambda x: (x * x).sum(), jac=library, method="gd", step=0.25)
    np.testing.assert_allclose(result.x, MANY * 0.5**8, rtol=1e-14)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_what_the_user_gives_goes_before_autodiff(library: str) -> None:
    pytest.importorskip(library)
    result = run(jac=library, hvp=hvp, lam=0.01)
    assert result.hvp_source == "hvp"
    assert result.nhvp == 8


# --- differences of values -------------------------------------------------------------------------

SCHEMES = ["2-point", "3-point", "cs"]
ERROR = {"2-point": 1e-6, "3-point": 1e-8, "cs": 1e-14}
"""Relative errors that double precision allows each scheme, with room."""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("start", [ONE, MANY, 1e3 * ONE, 1e-3 * ONE, 0 * ONE], ids=repr)
def test_differences_against_the_exact_gradient_and_scipy(scheme: str, start: Any) -> None:
    ours = run(start, jac=scheme, method="gd", budget=st.Budget(iters=0)).jac
    exact = g(start)
    scale = np.maximum(np.abs(exact).max(), 1.0)
    assert np.abs(ours - exact).max() <= ERROR[scheme] * scale
    for row, x in zip(np.atleast_2d(ours), np.atleast_2d(start), strict=True):
        theirs = approx_derivative(f, x, method=scheme)
        assert np.abs(row - theirs).max() <= 2 * ERROR[scheme] * scale


@hypothesis_settings(max_examples=40, deadline=None)
@given(some.integers(0, 10**6), some.integers(-3, 3), some.sampled_from(SCHEMES))
def test_differences_of_any_quadratic(seed: int, power: int, scheme: str) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    q, c = rng.standard_normal((n, n)), rng.standard_normal(n)
    x = 10.0**power * rng.standard_normal(n)
    result = run(x, lambda z: c @ z + z @ q @ z, jac=scheme, method="gd", budget=st.Budget(iters=0))
    exact = c + (q + q.T) @ x
    scale = max(1.0, np.abs(exact).max(), np.abs(x).max(), abs(result.fun) / max(1.0, np.abs(x).max()))
    assert np.abs(result.jac - exact).max() <= 10 * ERROR[scheme] * scale


@pytest.mark.parametrize("scheme", SCHEMES)
def test_differences_reach_the_minimum(scheme: str) -> None:
    result = st.minimize(f, ONE, jac=scheme, method="bfgs")
    assert result.status is Status.CONVERGED
    assert np.abs(g(result.x)).max() < 2e-5


def test_two_points_are_the_default() -> None:
    default, named = run(jac=None, method="gd"), run(jac="2-point", method="gd")
    assert default.x.tolist() == named.x.tolist()
    assert default.nfev == named.nfev == 9 + 9 * 3
    assert default.njev == 9


# --- differences of a float32 run -------------------------------------------------------------------


def banana(x: Any) -> Any:
    return 100 * (x[..., 1] - x[..., 0] ** 2) ** 2 + (1 - x[..., 0]) ** 2


def banana_gradient(x: Any) -> Any:
    x = np.asarray(x, dtype=np.float64)
    t = x[..., 1] - x[..., 0] ** 2
    return np.stack([-400 * x[..., 0] * t - 2 * (1 - x[..., 0]), 200 * t], axis=-1)


def refuses_float64(x: Any) -> Any:
    if x.dtype != np.float32:
        raise TypeError("expected float32")
    return banana(x)


FLOAT32_ALONE = {
    "refuses float64": refuses_float64,
    "returns float32": lambda x: banana(x).astype(np.float32),
    "returns float32 as float64": lambda x: banana(x).astype(np.float32).astype(np.float64),
    "casts x": lambda x: banana(x.astype(np.float32).astype(np.float64)),
    "computes in float32": lambda x: banana(x.astype(np.float32)).astype(np.float64),
}
SINGLE = np.random.default_rng(0).uniform(-2, 2, (30, 2)).astype(np.float32)


@pytest.mark.parametrize("scheme", ["2-point", "3-point"])
@pytest.mark.parametrize("rows", [False, True], ids=["one", "many"])
def test_differences_of_a_float32_run_are_those_of_float64(scheme: str, rows: bool) -> None:
    """Rosenbrock's minimum is reached to the precision of x, and what is said of the gradient is true."""
    for x0 in [SINGLE] if rows else SINGLE:
        res = st.minimize(banana, x0, jac=scheme)
        assert res.x.dtype == np.float32
        assert np.all(res.success)
        assert np.abs(res.x - 1).max() < 3e-3
        assert np.linalg.norm(banana_gradient(res.x), axis=-1).max() < 1.1e-3
        assert np.asarray(res.fun).dtype == np.float64


@pytest.mark.parametrize("scheme", ["2-point", "3-point"])
@pytest.mark.parametrize("rows", [False, True], ids=["one", "many"])
@pytest.mark.parametrize("name", FLOAT32_ALONE)
@pytest.mark.bits  # float32 moved by a bit of float64 looks like float64
def test_no_success_on_a_gradient_rougher_than_gtol(name: str, rows: bool, scheme: str) -> None:
    """Where the function has float32 alone, however it hides that."""
    fun, rough = FLOAT32_ALONE[name], 0
    for x0 in [SINGLE] if rows else SINGLE[:10]:
        res = st.minimize(fun, x0, jac=scheme)
        true = np.atleast_1d(np.linalg.norm(banana_gradient(res.x), axis=-1))
        assert (true[np.atleast_1d(res.success)] < 2e-3).all()
        for status, message in zip(np.atleast_1d(res.status), np.atleast_1d(res.message), strict=True):
            if status == Status.ROUGH_GRADIENT:
                rough += 1
                error = float(message.rpartition("about ")[2].rstrip("."))
                assert 1e-3 < error < 1
    assert rough or scheme == "3-point"


def test_the_error_of_a_rough_gradient_is_that_against_the_exact_one() -> None:
    """½·h·H for a one-sided difference, h = √ε: known here, since f is quadratic and 0 at its minimum."""
    curvature = np.array([1e3, 2e3], dtype=np.float32)
    res = st.minimize(
        lambda x: (curvature * (x - 1) ** 2).sum().astype(np.float32) / 2, np.full(2, 1.5, np.float32),
        method="gd", step=4e-4,
    )  # fmt: skip
    assert res.status is Status.ROUGH_GRADIENT
    h = float(np.finfo(np.float32).eps) ** 0.5
    error = float(res.message.rpartition("about ")[2].rstrip("."))
    assert error == pytest.approx(h / 2 * np.linalg.norm(curvature), rel=0.1)


@pytest.mark.parametrize("scheme", ["2-point", "3-point"])
@pytest.mark.parametrize("rows", [False, True], ids=["one", "many"])
def test_a_rough_gradient_beside_bounds(scheme: str, rows: bool) -> None:
    """Fixed variables have no error, and neither have held ones; at a bound the differences are shorter."""
    curvature = np.array([1e3, 2e3, 2e3, 500.0], dtype=np.float32)
    bounds = [(1, 1), (1.01, 3), (None, None), (1 - 1e-6, None)]
    x0 = np.full((3, 4) if rows else 4, 1.5, np.float32)
    seen: list[Any] = []

    def fun(x: Any) -> Any:
        seen.extend(np.atleast_2d(x))
        return (curvature * (x - 1) ** 2).sum(axis=-1).astype(np.float32) / 2

    res = st.minimize(fun, x0, jac=scheme, bounds=bounds, method="gd", step=4e-4, gtol=1e-2)
    assert np.sum(res.nfev) == len(seen)
    assert (np.array(seen)[:, 3] >= np.float32(1 - 1e-6)).all()
    x = np.atleast_2d(res.x).astype(float)
    low, high = np.array([1, 1.01, -np.inf, 1 - 1e-6]), np.array([1, 3, np.inf, np.inf])
    true = np.linalg.norm(np.clip(x - curvature * (x - 1), low, high) - x, axis=-1)
    assert (true[np.atleast_1d(res.success)] < 1.1e-2).all()
    assert scheme == "3-point" or np.all(res.status == Status.ROUGH_GRADIENT)


@pytest.mark.parametrize("scheme", ["2-point", "3-point"])
def test_a_rough_gradient_that_is_good_enough_is_success(scheme: str) -> None:
    x0 = np.array([3.0, -2.0], dtype=np.float32)
    res = st.minimize(lambda x: ((x - 1) ** 2).sum().astype(np.float32), x0, jac=scheme, gtol=1e-2)
    assert res.status is Status.CONVERGED
    assert np.linalg.norm(2 * (res.x.astype(float) - 1)) < 1e-2


@pytest.mark.parametrize("scheme", ["2-point", "3-point"])
@pytest.mark.parametrize("fun", [banana, *FLOAT32_ALONE.values()], ids=["float64", *FLOAT32_ALONE])
@pytest.mark.bits  # float32 moved by a bit of float64 looks like float64
def test_trying_float64_keeps_to_the_budget_and_to_the_count(fun: Any, scheme: str) -> None:
    calls: list[Any] = []

    def counted(x: Any) -> Any:
        calls.append(x)
        return fun(x)

    for size in (*range(1, 20), 30, 50, 51, 52, 53):
        calls.clear()
        res = st.minimize(counted, SINGLE[0], jac=scheme, budget=st.Budget(evals=size))
        assert res.nfev == len(calls) <= size
        assert not res.success
    calls.clear()
    res = st.minimize(counted, SINGLE[0], jac=scheme)
    assert res.nfev == len(calls)


@pytest.mark.parametrize("x0", [np.zeros(2), np.array([2.0, 4.0]), np.array([1.0, 0.0])], ids=str)
@pytest.mark.parametrize("fun", [lambda x: x.sum(), lambda x: (x * x).sum(), lambda x: abs(x).sum()])
def test_round_numbers_are_not_taken_for_float32(fun: Any, x0: Any) -> None:
    seen: list[Any] = []
    st.minimize(
        lambda x: seen.append(x.dtype) or fun(x), x0.astype(np.float32), jac="2-point",
        method="gd", step=0.01, budget=st.Budget(iters=3), gtol=0,
    )  # fmt: skip
    assert set(seen[1:]) == {np.dtype(np.float64)}  # after f(x0)


def test_float32_differences_use_float32_steps() -> None:
    """The gradient of a function that has float32 alone is still as good as float32 lets it be."""
    result = run(
        ONE.astype(np.float32), lambda x: np.float32(f(x)), jac="2-point", method="gd",
        budget=st.Budget(iters=0),
    )  # fmt: skip
    assert result.jac.dtype == np.float32
    np.testing.assert_allclose(result.jac, g(ONE), atol=5e-3)


@pytest.mark.parametrize("name", ["float64", "returns float32"])
@pytest.mark.parametrize("rows", [False, True], ids=["one", "many"])
def test_a_resumed_float32_run_differs_in_nothing(tmp_path: Any, name: str, rows: bool) -> None:
    fun: Any = ({"float64": banana} | FLOAT32_ALONE)[name]
    x0 = SINGLE[:5] if rows else SINGLE[0]
    whole = st.minimize(fun, x0)
    for cut in (0, 1, 7):
        path = tmp_path / f"{cut}.npz"
        st.minimize(fun, x0, budget=st.Budget(iters=cut), checkpoint=path)
        again = st.minimize(fun, x0, checkpoint=path)
        np.testing.assert_array_equal(again.x, whole.x)
        np.testing.assert_array_equal(again.nfev, whole.nfev)
        np.testing.assert_array_equal(again.status, whole.status)
        assert again.message == whole.message


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
@pytest.mark.parametrize("rows", [False, True], ids=["one", "many"])
def test_differences_of_float32_tensors_end_honestly(library: str, rows: bool) -> None:
    """In torch they are taken in float64; JAX has none unless told so."""
    xp = pytest.importorskip(library)
    x0 = xp.asarray(SINGLE[:4] if rows else SINGLE[0])
    settings: dict[str, Any] = {} if library == "torch" else {"method": "gd", "step": 1e-3, "gtol": 5.0}
    res = st.minimize(banana, x0, jac="2-point", **settings)
    assert "float32" in str(res.x.dtype)
    true = np.atleast_1d(np.linalg.norm(banana_gradient(np.asarray(res.x)), axis=-1))
    assert np.all(res.success)
    assert (true < (1.1e-3 if library == "torch" else 5.1)).all()


def test_a_torch_function_with_float32_weights_may_refuse_float64() -> None:
    torch = pytest.importorskip("torch")
    weights = torch.tensor([[2.0, 0.5], [0.5, 1.0]])
    res = st.minimize(lambda x: x @ (weights @ x), torch.tensor([1.0, -2.0]), jac="2-point")
    assert res.status is Status.CONVERGED
    assert res.x.abs().max() < 1e-3


def test_the_complex_step_needs_complex_values() -> None:
    with pytest.raises(TypeError, match='jac="cs": fun must return complex values'):
        run(fun=lambda x: f(x).real, jac="cs")
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="jac: 'cs' does not take torch arrays"):
        run(torch.ones(3), jac="cs")


# --- what autodiff cannot follow ---------------------------------------------------------------------


def torch_starts(shape: tuple[int, ...]) -> list[Any]:
    torch = pytest.importorskip("torch")
    return [(torch.ones(shape) * 1.5, {}), (np.full(shape, 1.5), {"jac": "torch"})]


@pytest.mark.parametrize("shape", [(2,), (3, 2)], ids=["one", "many"])
@pytest.mark.parametrize("bounds", [None, [(0, 1.5), (1.5, 4)]])
def test_a_torch_function_whose_graph_is_cut_is_refused(shape: tuple[int, ...], bounds: Any) -> None:
    torch = pytest.importorskip("torch")
    cut: list[Any] = [lambda x: (x.detach() ** 2).sum(), torch.no_grad()(lambda x: x[0] - x[1])]
    if len(shape) == 1:
        cut.append(lambda x: torch.tensor(x[0].item() ** 2))
    for fun in cut:
        for x0, given_ in torch_starts(shape):
            with pytest.raises(ValueError, match=r"^fun: its value changes with x.* the graph is cut"):
                st.minimize(fun, x0, bounds=bounds, **given_)


@pytest.mark.parametrize("shape", [(2,), (3, 2)], ids=["one", "many"])
def test_a_jax_function_that_stops_the_gradient_is_refused(shape: tuple[int, ...]) -> None:
    jax = pytest.importorskip("jax")
    stop = jax.lax.stop_gradient
    plain, compiled = lambda x: (stop(x) ** 2).sum(), jax.jit(lambda x: (stop(x) ** 2).sum())
    for fun, x0 in ((plain, jax.numpy.ones(shape)), (compiled, np.ones(shape))):
        with pytest.raises(ValueError, match=r"^fun: its value changes with x.* the graph is cut"):
            st.minimize(fun, x0, method="gd", jac="jax")


FLAT: dict[str, Any] = {
    "a minimum": lambda xp, x: ((x - 1.5) ** 2).sum(),
    "a constant": lambda xp, x: xp.ones(()) * 3,
    "a kink that is a minimum": lambda xp, x: xp.where(x > 1.5, x - 1.5, 0 * x).sum(),
    "a plateau": lambda xp, x: xp.maximum(x - 9, 0 * x).sum(),
    "flat to the third order": lambda xp, x: ((x - 1.5) ** 4).sum(),
}


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("shape", [(2,), (3, 2)], ids=["one", "many"])
def test_a_start_that_is_flat_is_not_refused(name: str, library: str, shape: tuple[int, ...]) -> None:
    xp = pytest.importorskip(library)
    res = st.minimize(lambda x: FLAT[name](xp, x), xp.ones(shape) * 1.5, method="gd")
    assert np.all(res.status == Status.CONVERGED)
    assert np.all(res.nfev == 2)  # one more than f(x0), for this
    assert np.all(np.asarray(res.x) == 1.5)


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_only_a_flat_row_is_looked_at_and_only_within_the_budget(library: str) -> None:
    xp = pytest.importorskip(library)
    x0 = xp.asarray(np.array([[0.0, 0.0], [1.0, 2.0]], dtype=np.float32))
    settings: dict[str, Any] = {"method": "gd", "step": 0.1}
    res = st.minimize(lambda x: (x * x).sum(), x0, budget=st.Budget(iters=0), **settings)
    assert res.nfev.tolist() == [2, 1]
    assert res.status.tolist() == [Status.CONVERGED, Status.MAX_ITERATIONS]
    res = st.minimize(lambda x: (x * x).sum(), x0, budget=st.Budget(evals=1), **settings)
    assert res.nfev.tolist() == [1, 1]
    assert not res.success.any()


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_a_function_mapped_by_hand_is_told_that_steepen_maps(library: str) -> None:
    mapped: Any = pytest.importorskip(library).vmap(lambda x: (x * x).sum())
    for x0 in (np.ones((3, 2)), np.ones((3, 1))):
        with pytest.raises(
            TypeError, match=r"^fun: expected one value.* write fun for one point: it is mapped"
        ):
            st.minimize(mapped, x0, jac=library)


# --- H·v -------------------------------------------------------------------------------------------


def products(jac: Any, start: Any = ONE, **given_: Any) -> tuple[Any, Any, st.Result]:
    """Give λ·2·H·g as the run's first step shows it, the exact one, and the result."""
    options: dict[str, Any] = {
        "jac": jac,
        "lam": 1e-3,
        "step": 1.0,
        "trace": "x",
        "budget": st.Budget(iters=1),
    }
    result = run(start, **(options | given_))
    assert result.trace is not None
    assert result.trace.x is not None
    shown = -(result.trace.x[1] - result.trace.x[0]) - g(start)
    return shown, 2e-3 * hvp(start, g(start)), result


@pytest.mark.parametrize("start", [ONE, MANY, 30 * ONE], ids=["one", "many", "far"])
def test_the_complex_step_is_exact_to_rounding(start: Any) -> None:
    shown, exact, result = products(g, start)
    assert result.hvp_source == "complex step"
    scale = np.abs(exact).max() + np.abs(g(start)).max()
    assert np.abs(shown - exact).max() <= 8 * np.finfo(float).eps * scale
    assert np.all(result.njev == 1 + 2 + 1)  # ∇f, the product and its check, ∇f at the end
    assert np.all(result.nhvp == 0)


@pytest.mark.parametrize(("scheme", "error"), [("2-point", 2e-2), ("3-point", 1e-3), ("cs", 1e-5)])
@pytest.mark.parametrize("method", ["cgd", "cgd-fd"])
@pytest.mark.parametrize("start", [ONE, MANY], ids=["one", "many"])
def test_products_of_differenced_gradients_are_not_noise(
    scheme: str, error: float, method: str, start: Any
) -> None:
    """The probe must be long enough for the error of the gradients that it compares."""
    shown, exact, result = products(scheme, start, method=st.CGD(1e-3, curvature=CURVATURE[method]), lam=None)
    assert result.hvp_source == "difference"
    assert np.abs(shown - exact).max() <= error * np.abs(exact).max()


CURVATURE: dict[str, Any] = {"cgd": "exact", "cgd-fd": "difference"}


def drops(x: Any) -> Any:
    return g(np.real(x))


def casts(x: Any) -> Any:
    return g(np.asarray(x, dtype=float))


def with_math(x: Any) -> Any:
    return g(np.array([math.asinh(math.sinh(t)) for t in x])) + 0 * np.array([math.cos(t) for t in x])


def into_a_buffer(x: Any) -> Any:
    out = np.empty(3)
    for i, part in enumerate(parts(x)):
        out[i] = part
    return out


def real_result(x: Any) -> Any:
    return g(x).real


@pytest.mark.parametrize("jac", [drops, casts, with_math, into_a_buffer, real_result])
def test_a_gradient_that_cannot_be_complex_is_found_out(jac: Any) -> None:
    shown, exact, result = products(jac)
    assert result.hvp_source == "difference"
    scale = np.abs(exact).max()
    assert 0 < np.abs(shown - exact).max() <= 1e-5 * scale + 1e-14
    assert result.njev == 1 + 2 + 1


def test_a_gradient_with_a_wrong_imaginary_part_is_found_out() -> None:
    def half(x: Any) -> Any:
        return g(x.real + 0.5j * x.imag) if np.iscomplexobj(x) else g(x)

    _, _, result = products(half)
    assert result.hvp_source == "difference"


@pytest.mark.parametrize("error", [ZeroDivisionError, AssertionError, TypeError])
def test_a_gradient_may_refuse_complex_points_in_any_way(error: type[Exception]) -> None:
    def jac(x: Any) -> Any:
        if np.iscomplexobj(x):
            raise error("mine")
        return g(x)

    assert run(jac=jac).hvp_source == "difference"


def test_a_gradient_that_took_complex_points_may_not_fail_there_later() -> None:
    calls: list[Any] = []

    def jac(x: Any) -> Any:
        if np.iscomplexobj(x):
            calls.append(x)
            if len(calls) == 3:
                raise ZeroDivisionError("mine")
        return g(x)

    with pytest.raises(ZeroDivisionError, match=r"mine"):
        run(jac=jac)


def test_no_warning_reaches_the_user() -> None:
    run(jac=into_a_buffer)
    run(MANY, jac=lambda x: g(x).astype(float) if np.isrealobj(x) else np.zeros(x.shape))


@pytest.mark.parametrize("start", [ONE, MANY], ids=["one", "many"])
def test_given_products_and_hessians_are_used_and_counted(start: Any) -> None:
    plain = run(start)
    for given_, source in (
        ({"hvp": hvp}, "hvp"),
        ({"hessp": hvp}, "hvp"),
        ({"hess": hess}, "hess"),
        ({"hvp": hvp, "hess": hess}, "hvp"),
    ):
        result = run(start, **given_)
        assert result.hvp_source == source
        assert np.all(result.nhvp == (8 if source == "hvp" else 0))
        assert np.all(result.nhev == (8 if source == "hess" else 0))
        assert np.all(result.njev == 9)
        np.testing.assert_allclose(result.x, plain.x, rtol=1e-13)


@pytest.mark.parametrize("given_", [{"hvp": hvp}, {"hess": hess}, {}, {"jac": drops}])
def test_newton_takes_any_source(given_: dict[str, Any]) -> None:
    result = run(method="newton", step=1.0, gtol=1e-8, **given_)
    assert result.status is Status.CONVERGED
    x = ONE
    while np.linalg.norm(g(x)) > 1e-8:
        x = x - np.linalg.solve(hess(x), g(x))
    np.testing.assert_allclose(result.x, x, atol=1e-7)


def test_methods_without_products_name_no_source() -> None:
    for method in ("gd", "bfgs", "dfp"):
        assert run(method=method).hvp_source is None


def test_a_pair_of_value_and_gradient() -> None:
    calls = 0

    def both(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return f(x), g(x)

    result = run(fun=both, jac=True, method="gd")
    assert result.x.tolist() == run(method="gd").x.tolist()
    assert result.nfev == result.njev == calls == 9
    cgd = run(fun=both, jac=True)
    assert cgd.hvp_source == "difference"
    np.testing.assert_allclose(cgd.x, run().x, rtol=1e-5)


@pytest.mark.parametrize("method", ["bfgs", "cgd-fd"])
def test_a_pair_is_not_asked_again_after_a_line_search(method: str) -> None:
    """The gradient came with the value of the accepted trial."""
    points: list[list[float]] = []

    def both(x: Any) -> Any:
        points.append(x.tolist())
        return f(x), g(x)

    run(fun=both, jac=True, method=method, step=None)
    assert all(a != b for a, b in itertools.pairwise(points))


def test_two_points_do_not_ask_for_the_accepted_value_again() -> None:
    points: list[list[float]] = []

    def counted(x: Any) -> Any:
        points.append(x.tolist())
        return f(x)

    result = run(fun=counted, jac="2-point", method="bfgs", step=None)
    assert len(points) == result.nfev
    assert all(a != b for a, b in itertools.pairwise(points))


@pytest.mark.parametrize("jac", ["2-point", True])
def test_a_line_search_keeps_to_its_budget_of_values(jac: Any) -> None:
    for evals in range(1, 30):
        calls = 0

        def counted(x: Any) -> Any:
            nonlocal calls
            calls += 1
            return (f(x), g(x)) if jac is True else f(x)

        result = run(fun=counted, jac=jac, method="bfgs", step=None, budget=st.Budget(evals=evals))
        assert result.nfev == calls <= evals


# --- args, and the forms of x0 ---------------------------------------------------------------------


@pytest.mark.parametrize("start", [ONE, MANY], ids=["one", "many"])
@pytest.mark.parametrize("source", ["hvp", "hess", "jac", "2-point", "3-point", "cs", True])
def test_args_go_everywhere(start: Any, source: Any) -> None:
    def fun(x: Any, a: float, b: float) -> Any:
        value = a * f(x) + b * x.sum(axis=-1)
        return (value, jac(x, a, b)) if source is True else value

    def jac(x: Any, a: float, b: float) -> Any:
        return a * g(x) + b

    def product(x: Any, v: Any, a: float, b: float) -> Any:
        return a * hvp(x, v) + 0 * b

    def matrix(x: Any, a: float, b: float) -> Any:
        return a * hess(x) + 0 * b

    open_: dict[str, Any] = {"fun": fun, "jac": jac if source in ("jac", "hvp", "hess") else source}
    closed: dict[str, Any] = {"fun": lambda x: fun(x, 2.0, 0.5), "jac": open_["jac"]}
    if callable(open_["jac"]):
        closed["jac"] = lambda x: jac(x, 2.0, 0.5)
    if source == "hvp":
        open_["hvp"], closed["hvp"] = product, lambda x, v: product(x, v, 2.0, 0.5)
    if source == "hess":
        open_["hess"], closed["hess"] = matrix, lambda x: matrix(x, 2.0, 0.5)
    result, expected = run(start, args=(2.0, 0.5), **open_), run(start, **closed)
    np.testing.assert_array_equal(result.x, expected.x)
    assert result.hvp_source == expected.hvp_source


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_args_go_through_autodiff(library: str) -> None:
    pytest.importorskip(library)
    result = run(fun=lambda x, a: a * f(x), jac=library, args=(2.0,))
    np.testing.assert_allclose(result.x, run(fun=lambda x: 2 * f(x), jac=lambda x: 2 * g(x)).x, rtol=1e-12)


@pytest.mark.parametrize(
    "x0",
    [[1, -2, 3], (1.0, -2.0, 3.0), np.array([1, -2, 3]), np.array([1, -2, 3], dtype=np.int8), range(1, 4)],
)
def test_whole_numbers_and_lists_become_float64(x0: Any) -> None:
    result = run(x0, method="gd")
    assert result.x.dtype == np.float64
    np.testing.assert_array_equal(result.x, run(np.array(x0, dtype=float), method="gd").x)


@pytest.mark.parametrize("x0", [3.0, 3, np.float64(3.0), np.array(3.0), [3.0]])
def test_a_number_is_a_point_of_one_dimension(x0: Any) -> None:
    result = run(x0, lambda x: (x * x).sum(axis=-1), jac=lambda x: 2 * x, step=0.25, method="gd")
    assert result.x.shape == (1,)
    assert result.x[0] == pytest.approx(3.0 * 0.5**8, rel=1e-13)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step", [0.05, None])
def test_float32_stays_float32(method: str, step: Any) -> None:
    for start in (ONE, MANY):
        x0 = start.astype(np.float32)
        dtypes: set[Any] = set()

        def jac(x: Any, dtypes: set[Any] = dtypes) -> Any:
            dtypes.add(x.dtype)
            return g(x)

        result = run(x0, jac=jac, method=method, step=step, hvp=hvp, trace="x", lam=None)
        assert result.x.dtype == result.jac.dtype == result.best.x.dtype == np.float32
        assert dtypes == {np.dtype(np.float32)}
        assert result.trace is not None
        assert result.trace.x is not None
        assert result.trace.x.dtype == np.float32
        assert np.atleast_1d(result.trace.f[0])[0] == np.atleast_1d(seen(f)(x0))[0]


def test_views_and_orders_of_x0_do_not_matter() -> None:
    big = np.zeros((6, 6))
    big[::2, ::2] = MANY
    for x0 in (np.asfortranarray(MANY), big[::2, ::2], MANY[::-1][::-1]):
        assert run(x0, method="bfgs", hvp=hvp).x.tolist() == run(MANY, method="bfgs", hvp=hvp).x.tolist()
