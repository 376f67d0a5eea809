"""The Function object: shapes, precision, layout, dimensions, kinks and errors."""

import pickle
import re
import sys
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from benchmarks.references.functions import REFERENCES
from tests.pairs import sample

from steepen.functions import functions, quadratic

every = pytest.mark.parametrize("f", functions.values(), ids=lambda f: f.name)


def uniform(f, shape=(), seed=0):
    low, high = f.bounds.T
    return np.random.default_rng(seed).uniform(low, high, size=(*shape, f.n))


def close(a, b, scale, units):
    info = np.finfo(np.asarray(a).dtype)
    error = np.abs(np.asarray(a, float) - b)
    return bool((error <= units * float(info.eps) * scale + float(info.tiny)).all())


def scales(f, X):
    """Return how far value and gradient move with one relative unit of X."""
    X = X.astype(float)
    g = f.grad(X)
    bend = np.abs(f.hess(X)) @ np.abs(X)[..., None]
    value = np.abs(f(X)) + (np.abs(g * X)).sum(-1)
    if f.name == "schwefel":
        value = value + 419 * f.n
    return value, np.abs(g).max(-1, keepdims=True) + bend.max(-2)


@every
@pytest.mark.parametrize("shape", [(0,), (2, 3)])
def test_leading_axes_and_memory_layout(f, shape):
    X, V = uniform(f, shape), uniform(f, shape, seed=1)
    assert np.shape(f(X)) == shape
    assert f.grad(X).shape == f.hvp(X, V).shape == X.shape
    assert f.hess(X).shape == (*X.shape, f.n)
    for place in np.ndindex(shape):
        value_scale, grad_scale = scales(f, X[place])
        assert close(f(X)[place], f(X[place]), value_scale, 30)
        assert close(f.grad(X)[place], f.grad(X[place]), grad_scale, 30)
    other = X.T.copy().T
    if f.n > 1:
        assert f.grad(other).strides == f.hvp(other, other).strides == other.strides
    assert np.array_equal(other, X)  # and it is left as it was


@pytest.mark.parametrize("f", sample(list(functions.values()), 12), ids=lambda f: f.name)
def test_directions_broadcast_and_the_hessian_is_made_of_them(f):
    X, V = uniform(f, (3, 1)), uniform(f, (4,), seed=1)
    product = f.hvp(X, V)
    assert product.shape == (3, 4, f.n)
    expected = (f.hess(X) @ V[..., None])[..., 0]
    assert np.allclose(product, expected, rtol=1e-11, atol=1e-11 * np.abs(expected).max())


@every
def test_single_precision_stays_single(f):
    X = uniform(f, (5,)).astype(np.float32)
    wide = X.astype(float)
    for result in (f(X), f(X[0]), f.grad(X), f.grad(X[0]), f.hvp(X, X), f.hess(X)):
        assert result.dtype == np.float32
    whole = np.ones(f.n, int)
    assert (f(whole), f.grad(whole).dtype) == (f(np.ones(f.n)), float)  # integers are taken as double
    value_scale, grad_scale = scales(f, X)
    assert close(f(X), f(wide), value_scale, 30)
    assert close(f.grad(X), f.grad(wide), grad_scale, 30)
    hvp = f.hvp(wide, wide)
    assert np.allclose(f.hvp(X, X), hvp, rtol=1e-6, atol=1e-6 * np.abs(hvp).max())


def test_directions_of_very_different_length_keep_their_digits():
    f = functions["rosenbrock"]
    V = np.array([[1e-200, 0.0], [1e200, 0.0], [0.0, 0.0]])
    expected = [[8.02e-198, -4e-198], [8.02e202, -4e202], [0, 0]]
    assert np.allclose(f.hvp(np.ones(2), V), expected, rtol=1e-15, atol=0)


# At x1 = x2 + 47 only the first term of Eggholder has a slope, at x1 = −2(x2 + 47) the second.
U, W = np.sqrt(70.5), np.sqrt(141)
FIRST, SECOND = -47 * np.cos(U) / (2 * U), 94 * np.cos(W) / (2 * W)
KINKS = [
    ("ackley", [0, 0], [0, 0]), ("bukin-6", [-10, 1], [0, 0]), ("bukin-6", [-10, 2], [10, 50]),
    ("cross-in-tray", [0, 0], [0, 0]), ("cross-in-tray", [0, 1], [0, 0]), ("holder-table", [0, 0], [0, 0]),
    ("holder-table", [0, 1], [0, 0]), ("drop-wave", [0, 0], [0, 0]), ("schwefel", [0, 0], [0, 0]),
    ("eggholder", [47, 0], [FIRST / 2, FIRST - np.sin(U)]), ("sum-of-different-powers", [0, 0], [0, 0]),
    ("eggholder", [-94, 0], [-np.sin(W) - SECOND, SECOND]),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "point", "grad"), KINKS)
def test_derivatives_are_finite_on_kinks(name, point, grad, dtype):
    f, x = functions[name], np.array(point, dtype)
    assert np.isfinite(f(x))
    assert np.isfinite(f.hess(x)).all()
    assert np.isfinite(f.hvp(x, np.ones(2, dtype))).all()
    eps = np.finfo(dtype).eps
    assert np.allclose(f.grad(x), grad, rtol=100 * eps, atol=eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quadratic_with_a_linear_part(dtype):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 4))
    Q, b = A @ A.T + np.eye(4), rng.normal(size=4)
    given = Q.copy()
    f = quadratic(given, b)
    given[0, 0] = 5  # it has a copy
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


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda f: functions["sphere"].at(0), "n: expected a whole number, 1 or more, got 0"),
        (lambda f: functions["sphere"].at(2.0), "n: expected a whole number, 1 or more, got 2.0"),
        (lambda f: functions["sphere"].at(True), "n: expected a whole number, 1 or more, got True"),
        (lambda f: functions["powell"].at(6), "multiple of 4, got 6"),
        (lambda f: functions["rosenbrock"].at(1), "n >= 2, got 1"),
        (lambda f: f.at(3), "only for n = 2, got n = 3"),
        (lambda f: f(np.zeros(3)), r"X: branin expects .* n = 2 .*\(3,\)"),
        (lambda f: f.hvp(np.zeros(2), np.zeros(3)), "V: "),
        (lambda f: f(["a", "b"]), "expected numbers"),
        (lambda f: f.hvp(np.zeros(2, complex), np.zeros(2)), r"X: .* real points"),
        (lambda f: quadratic("Q"), "Q: expected a matrix of numbers, got 'Q'"),
        (lambda f: quadratic(np.eye(2), [None, 1.0]), "b: expected a vector of numbers, got"),
        (lambda f: quadratic([1.0, 2.0]), r"Q: expected a square matrix, got shape \(2,\)"),
        (lambda f: quadratic([[1.0, 2.0], [0.0, 1.0]]), "Q: expected a symmetric"),
        (lambda f: quadratic([[1.0, 2.0], [2.0, 1.0]]), "Q: expected a positive definite matrix, .* -1"),
        (lambda f: quadratic([[1.0, 0.0], [0.0, np.inf]]), "finite"),
        (lambda f: quadratic(np.eye(2), [1.0, 2.0, 3.0]), r"b: expected shape \(2,\)"),
    ],
)
def test_wrong_arguments_are_named(call, says):
    with pytest.raises((TypeError, ValueError), match=says):
        call(functions["branin"])


@every
def test_a_function_goes_to_another_process_and_cannot_be_changed(f):
    x = uniform(f)
    assert pickle.loads(pickle.dumps(f))(x) == f(x)
    assert not any(array.flags.writeable for array in (f.bounds, f.minima))
    assert repr(f).startswith(f"Function({f.name!r}, n={f.n}")
    assert len(repr(f)) < 80


GROUPS = {"many local minima": 16, "bowl-shaped": 9, "plate-shaped": 5, "valley-shaped": 4}
GROUPS |= {"steep ridges/drops": 3, "other": 12}


def test_the_functions_are_those_of_the_sfu_library_and_the_quadratic():
    """Their formulas are in `benchmarks/references`; the three Bohachevsky functions share a page."""
    assert set(functions) == {*REFERENCES}
    assert Counter(f.group for f in functions.values()) == Counter(GROUPS) + Counter({"bowl-shaped": 1})
    assert sum(GROUPS.values()) - 2 == 47
    assert len({f.title for f in functions.values()}) == len(functions)
    assert all(f.name == name for name, f in functions.items())


def test_the_catalogue_is_its_module_and_a_mapping():
    catalogue, name = functions, next(iter(functions))
    assert isinstance(catalogue, Mapping)
    assert sys.modules["steepen.functions"] is catalogue
    assert {catalogue: 1}[catalogue] == 1
    assert list(catalogue.keys()) == list(catalogue) != []
    assert (catalogue.get("nothing"), name in catalogue) == (None, True)
    with pytest.raises(KeyError, match=r"list\(st.functions\) has all names"):
        catalogue["0123456789"]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ("bukin", "'bukin-6'"), ("Bukin N. 6", "'bukin-6'"), ("BRANIN", "'branin'"), ("brannin", "'branin'"),
        ("hartmann6", "'hartmann-6'"), ("camel", "'three-hump-camel' or 'six-hump-camel'"),
        ("rosen", "'rosenbrock'"), ("De Jong", "'dejong-5'"),
    ],
)  # fmt: skip
def test_a_part_of_a_name_or_a_title_is_answered_with_the_name(asked, names):
    with pytest.raises(KeyError, match=re.escape(f"did you mean {names}?")):
        functions[asked]
