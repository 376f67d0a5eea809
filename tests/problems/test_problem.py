"""The Problem object and the mapping."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from steepen.problems import problems, suite

NEED_NO_DATA = [p for p in problems.values() if p.suite != "learning"]
every = pytest.mark.parametrize("p", [pytest.param(p, id=p.name) for p in NEED_NO_DATA])
some = pytest.mark.parametrize("name", ["beale", "broyden-banded-10", "bdqrtic", "fminsrf2", "nelson-1"])


@every
def test_start_and_best_value(p):
    assert p.x0.shape == (p.n,)
    assert p.x0.dtype == np.float64
    assert not p.x0.flags.writeable
    value, grad = p.value_and_grad(p.x0)
    assert np.ndim(value) == 0
    assert grad.shape == (p.n,)
    assert np.isfinite(value)
    assert np.isfinite(grad).all()
    assert np.isfinite(p.fbest)
    assert p.fbest < value
    assert all(p.fbest < end < value for end in p.other_ends)
    again = pickle.loads(pickle.dumps(p))
    assert (again.name, again.fbest, again(p.x0)) == (p.name, p.fbest, value)


def test_sizes():
    assert all(2 <= p.n <= 500 for p in suite("mgh"))
    assert all(50 <= p.n <= 1000 for p in suite("large"))
    numbers = {int(p.title.split("(")[1].split(")")[0]) for p in suite("mgh")}
    assert numbers == set(range(1, 36))
    assert len(suite("large")) >= 25
    assert len(suite("nist")) == 54


@some
def test_value_gradient_and_both_agree(name):
    p = problems[name]
    value, grad = p.value_and_grad(p.x0)
    assert p(p.x0) == value
    assert np.array_equal(p.grad(p.x0), grad)
    grad[:] = 0  # what comes back is the caller's
    assert p.grad(p.x0).any()


@some
def test_leading_axes(name):
    p = problems[name]
    X = p.x0 * (1 + 0.01 * np.random.default_rng(0).normal(size=(2, 3, p.n)))
    values, grads = p.value_and_grad(X)
    assert values.shape == (2, 3)
    assert grads.shape == X.shape
    for place in np.ndindex(2, 3):
        value, grad = p.value_and_grad(X[place])
        assert values[place] == pytest.approx(value, rel=1e-13)
        assert np.allclose(grads[place], grad, rtol=1e-11, atol=1e-13 * np.abs(grad).max())
    assert p(X[:0]).shape == (0, 3)


@some
def test_single_precision_is_answered_in_kind(name):
    p = problems[name]
    x = p.x0.astype(np.float32)
    value, grad = p.value_and_grad(x)
    assert value.dtype == grad.dtype == np.float32
    exact = p.value_and_grad(x.astype(float))
    assert value == np.float32(exact[0])
    assert np.array_equal(grad, exact[1].astype(np.float32))


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([1.0, 2.0, 3.0], ValueError, r"X: beale expects points with n = 2 .* got shape \(3,\)"),
        (1.0, ValueError, r"got shape \(\)"),
        (["a", "b"], TypeError, "X: expected numbers"),
        ([None, 1.0], TypeError, "X: expected numbers"),
    ],
)
def test_wrong_points(x, error, message):
    with pytest.raises(error, match=message):
        problems["beale"](x)


def test_whole_numbers_are_taken_as_double_and_outside_the_domain_there_is_no_warning():
    wood = problems["wood"]
    assert wood([-3, -1, -3, -1]) == 19192
    assert wood.grad(np.array([-3, -1, -3, -1])).dtype == np.float64
    assert problems["jennrich-sampson"]([1000.0, 0.0]) == np.inf
    assert np.isnan(problems["bennett5-1"]([-2000.0, -50.0, 0.8]))


def test_suites_are_the_whole():
    suites = ["mgh", "large", "nist", "learning"]
    assert [p for s in suites for p in suite(s)] == list(problems.values())
    assert all(p.suite == s for s in suites for p in suite(s))
    suite("mgh").clear()
    assert suite("mgh")
    assert len({p.title for p in problems.values()}) == len(problems)
    with pytest.raises(ValueError, match="name: expected one of mgh, large, nist, learning, got 'cutest'"):
        suite("cutest")


def test_missing_scikit_learn_is_named(monkeypatch):
    from steepen.problems.learning import _data

    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    _data.cache_clear()
    p = problems["softmax-digits"]
    with pytest.raises(ImportError, match=r"needs sklearn: pip install 'steepen\[bench\]'"):
        p(p.x0)


@pytest.mark.slow
def test_import_is_light():
    code = (
        "import sys, steepen.problems as p; p['mlp-digits'];"
        "print(sorted({'sklearn', 'scipy.optimize', 'scipy.sparse', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
