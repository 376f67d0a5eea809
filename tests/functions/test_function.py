"""The Function object: shapes, precision, layout, dimensions, kinks and errors."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import array_shapes

from steepen.functions import Function, functions, quadratic

ALL = [pytest.param(f, id=f.name) for f in functions.values()]
every = pytest.mark.parametrize("f", ALL)


def uniform(f: Function, shape: tuple[int, ...] = (), seed: int = 0) -> np.ndarray:
    low, high = f.bounds.T
    return np.random.default_rng(seed).uniform(low, high, size=(*shape, f.n))


def close(a: Any, b: Any, scale: Any, units: float) -> bool:
    info = np.finfo(np.asarray(a).dtype)
    error = np.abs(np.asarray(a, float) - b)
    return bool((error <= units * float(info.eps) * scale + float(info.tiny)).all())


def scales(f: Function, X: np.ndarray) -> tuple[Any, Any]:
    """Return how far value and gradient move with one relative unit of X."""
    X = X.astype(float)
    g = f.grad(X)
    bend = np.abs(f.hess(X)) @ np.abs(X)[..., None]
    value = np.abs(f(X)) + (np.abs(g * X)).sum(-1)
    if f.name == "schwefel":
        value = value + 419 * f.n
    return value, np.abs(g).max(-1, keepdims=True) + bend.max(-2)


@every
def test_leading_axes(f: Function):
    @given(shape=array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    @settings(max_examples=8, deadline=None)
    def check(shape: tuple[int, ...]):
        X, V = uniform(f, shape), uniform(f, shape, seed=1)
        assert np.shape(f(X)) == shape
        assert f.grad(X).shape == f.hvp(X, V).shape == X.shape
        assert f.hess(X).shape == (*X.shape, f.n)
        for place in np.ndindex(shape):
            value_scale, grad_scale = scales(f, X[place])
            assert close(f(X)[place], f(X[place]), value_scale, 30)
            assert close(f.grad(X)[place], f.grad(X[place]), grad_scale, 30)

    check()


@every
def test_directions_broadcast_and_the_hessian_is_made_of_them(f: Function):
    X, V = uniform(f, (3, 1)), uniform(f, (4,), seed=1)
    product = f.hvp(X, V)
    assert product.shape == (3, 4, f.n)
    expected = (f.hess(X) @ V[..., None])[..., 0]
    assert np.allclose(product, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


@every
def test_single_precision_stays_single(f: Function):
    X = uniform(f, (5,)).astype(np.float32)
    wide = X.astype(float)
    for result in (f(X), f(X[0]), f.grad(X), f.grad(X[0]), f.hvp(X, X), f.hess(X)):
        assert result.dtype == np.float32
    value_scale, grad_scale = scales(f, X)
    assert close(f(X), f(wide), value_scale, 30)
    assert close(f.grad(X), f.grad(wide), grad_scale, 30)
    hvp = f.hvp(wide, wide)
    assert np.allclose(f.hvp(X, X), hvp, rtol=1e-6, atol=1e-6 * np.abs(hvp).max())


@every
def test_lists_and_integers_are_taken_as_double(f: Function):
    point = [1] * f.n
    assert f(point) == f(np.ones(f.n))
    assert f(point).dtype == f.grad(np.ones(f.n, int)).dtype == np.float64


@every
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (2, 0, 1)])
def test_memory_layout_is_kept(f: Function, order: tuple[int, ...]):
    X = uniform(f, (4, 3)).transpose(order).copy().transpose(np.argsort(order))
    if f.n > 1:
        assert f.grad(X).strides == f.hvp(X, X).strides == X.strides
    assert np.array_equal(X, uniform(f, (4, 3)))


@every
def test_gradient_is_the_complex_step_of_the_value(f: Function):
    @given(seed=some.integers(0, 10_000))
    @settings(max_examples=10, deadline=None)
    def check(seed: int):
        x = uniform(f, seed=seed)
        tilted = x + 1e-30j * np.eye(f.n)
        _, scale = scales(f, x)
        info = np.finfo(float)
        lost = (
            float(info.tiny) / 1e-30 / float(info.eps)
        )  # a step of 1e-30 takes smaller ones below all numbers
        assert close(f(tilted).imag / 1e-30, f.grad(x), scale + lost, 60)

    check()


@every
@pytest.mark.parametrize("length", [1e-200, 1e-3, 1e200])
def test_hvp_is_linear_in_the_direction_whatever_its_length(f: Function, length: float):
    x, v = uniform(f), uniform(f, seed=1)
    assert np.allclose(f.hvp(x, length * v) / length, f.hvp(x, v), rtol=1e-13, atol=0)
    assert not f.hvp(x, np.zeros(f.n)).any()


def test_rows_of_very_different_length_keep_their_digits():
    f = functions["rosenbrock"]
    V = np.array([[1e-200, 0.0], [1e200, 0.0], [0.0, 0.0]])
    expected = [[8.02e-198, -4e-198], [8.02e202, -4e202], [0, 0]]
    assert np.allclose(f.hvp(np.ones(2), V), expected, rtol=1e-15, atol=0)


# At x1 = x2 + 47 only the first term of Eggholder has a slope, at x1 = −2(x2 + 47) the second.
U, W = np.sqrt(70.5), np.sqrt(141)
FIRST, SECOND = -47 * np.cos(U) / (2 * U), 94 * np.cos(W) / (2 * W)
KINKS = [
    ("ackley", [0, 0], [0, 0]),
    ("bukin-6", [-10, 1], [0, 0]),
    ("bukin-6", [-10, 2], [10, 50]),
    ("cross-in-tray", [0, 0], [0, 0]),
    ("cross-in-tray", [0, 1], [0, 0]),
    ("holder-table", [0, 0], [0, 0]),
    ("holder-table", [0, 1], [0, 0]),
    ("drop-wave", [0, 0], [0, 0]),
    ("eggholder", [47, 0], [FIRST / 2, FIRST - np.sin(U)]),
    ("eggholder", [-94, 0], [-np.sin(W) - SECOND, SECOND]),
    ("schwefel", [0, 0], [0, 0]),
    ("sum-of-different-powers", [0, 0], [0, 0]),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "point", "grad"), KINKS)
def test_derivatives_are_finite_on_kinks(name: str, point: Any, grad: Any, dtype: Any):
    f, x = functions[name], np.array(point, dtype)
    assert np.isfinite(f(x))
    assert np.isfinite(f.hess(x)).all()
    assert np.isfinite(f.hvp(x, np.ones(2, dtype))).all()
    eps = np.finfo(dtype).eps
    assert np.allclose(f.grad(x), grad, rtol=100 * eps, atol=eps)


@every
def test_other_dimensions(f: Function):
    assert f.at(f.n) is f
    if f.any_n:
        bigger = f.at(n=4 * f.n)
        assert (bigger.n, bigger.name, bigger.any_n) == (4 * f.n, f.name, True)
        assert bigger.bounds.shape == (4 * f.n, 2)
        assert bigger.at(f.n).fmin == f.fmin
        for n in (0, -1):
            with pytest.raises(ValueError, match="positive dimension"):
                f.at(n)
    else:
        with pytest.raises(ValueError, match=f"n = {f.n} only, got n = {f.n + 1}"):
            f.at(f.n + 1)
    with pytest.raises(TypeError):
        f.at(2.5)  # pyright: ignore[reportArgumentType]


def test_dimensions_that_do_not_exist_say_why():
    with pytest.raises(ValueError, match="multiple of 4, got 6"):
        functions["powell"].at(6)
    with pytest.raises(ValueError, match="n >= 2, got 1"):
        functions["rosenbrock"].at(1)


@every
def test_wrong_points_are_refused(f: Function):
    wrong = np.zeros(f.n + 1)
    for call in (f, f.grad, f.hess):
        with pytest.raises(ValueError, match=rf"X: {f.name} expects .* n = {f.n} .*\({f.n + 1},\)"):
            call(wrong)
    with pytest.raises(ValueError, match="V: "):
        f.hvp(np.zeros(f.n), wrong)
    with pytest.raises(ValueError, match=r"got shape \(\)"):
        f(1.0)
    with pytest.raises(TypeError, match="expected numbers"):
        f(["a"] * f.n)
    with pytest.raises(TypeError, match=r"X: .* real points"):
        f.hvp(np.zeros(f.n, complex), np.zeros(f.n))


@every
def test_stored_arrays_are_read_only_and_repr_is_short(f: Function):
    for array in (f.bounds, f.minima):
        assert not array.flags.writeable
    assert f.bounds.shape == (f.n, 2)
    assert repr(f).startswith(f"Function({f.name!r}, n={f.n}")
    assert len(repr(f)) < 80


@every
def test_survives_a_trip_to_another_process(f: Function):
    x = uniform(f)
    assert pickle.loads(pickle.dumps(f))(x) == f(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quadratic_with_a_linear_part(dtype: Any):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 4))
    Q, b = A @ A.T + np.eye(4), rng.normal(size=4)
    f = quadratic(Q, b)
    X = rng.normal(size=(2, 3, 4)).astype(dtype)
    rtol = 100 * np.finfo(dtype).eps
    expected = 0.5 * np.einsum("...i,ij,...j", X, Q, X) - X @ b
    assert np.allclose(f(X), expected, rtol=rtol, atol=rtol)
    assert np.allclose(f.grad(X), X @ Q - b, rtol=rtol, atol=10 * rtol)
    assert np.allclose(f.hess(X), Q, rtol=1e-6 if dtype == np.float32 else 1e-14)
    assert f.grad(X).dtype == dtype
    assert np.allclose(Q @ f.minima[0], b, rtol=1e-13, atol=1e-13)
    assert f(f.minima[0]) == pytest.approx(f.fmin, rel=1e-13)
    assert np.allclose(f.bounds.mean(axis=1), f.minima[0], rtol=1e-15, atol=1e-15)


def test_quadratic_copies_what_it_is_given():
    Q = np.eye(2)
    f = quadratic(Q)
    Q[0, 0] = 5
    assert f([2.0, 0.0]) == 2


def test_the_quadratic_of_the_paper():
    f = functions["quadratic"]
    eigenvalues = np.linalg.eigvalsh(f.hess(np.ones(10)))
    assert eigenvalues[[0, -1]] == pytest.approx([9.00779169, 10.80711057], rel=1e-14)
    assert np.diff(eigenvalues) == pytest.approx(np.full(9, 2 * 0.89965944 / 9), rel=1e-12)
    x = np.ones(10)
    improvement = 100 * (f(x) - f(x - 0.01 * f.grad(x))) / f(x)
    assert round(float(improvement), 2) == 18.89


@pytest.mark.parametrize(
    ("Q", "b", "message"),
    [
        ([1.0, 2.0], None, r"Q: expected a square matrix, got shape \(2,\)"),
        (np.ones((2, 3)), None, r"Q: expected a square matrix, got shape \(2, 3\)"),
        ([[1.0, 2.0], [0.0, 1.0]], None, "Q: expected a symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], None, "Q: expected a positive definite matrix, .* -1"),
        ([[1.0, 0.0], [0.0, np.inf]], None, "finite"),
        (np.eye(2), [1.0, 2.0, 3.0], r"b: expected shape \(2,\)"),
    ],
)
def test_quadratic_refuses(Q: Any, b: Any, message: str):
    with pytest.raises(ValueError, match=message):
        quadratic(Q, b)
