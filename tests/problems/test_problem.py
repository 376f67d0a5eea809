"""The Problem object and the mapping."""

import pickle

import numpy as np
import pytest
from benchmarks.problems import problems, suite

NEED_NO_DATA = [p for p in problems.values() if p.suite != "learning"]
every = pytest.mark.parametrize("p", [pytest.param(p, id=p.name) for p in NEED_NO_DATA])
some = pytest.mark.parametrize("name", ["beale", "broyden-banded-10", "bdqrtic", "fminsrf2", "nelson-1"])


@every
def test_start_and_best_value(p):
    assert (p.x0.shape, p.x0.dtype, p.x0.flags.writeable) == ((p.n,), np.float64, False)
    value, grad = p.value_and_grad(p.x0)
    assert (np.ndim(value), grad.shape) == (0, (p.n,))
    assert np.isfinite([value, p.fbest, *grad]).all()
    assert all(p.fbest < end < value for end in p.other_ends)
    assert p.fbest < value
    again = pickle.loads(pickle.dumps(p))
    assert (again.name, again.fbest, again(p.x0)) == (p.name, p.fbest, value)


@some
def test_value_gradient_and_both_agree_for_all_leading_axes(name):
    p = problems[name]
    X = p.x0 * (1 + 0.01 * np.random.default_rng(0).normal(size=(2, 3, p.n)))
    values, grads = p.value_and_grad(X)
    assert (values.shape, grads.shape, p(X[:0]).shape) == ((2, 3), X.shape, (0, 3))
    for place in np.ndindex(2, 3):
        value, grad = p.value_and_grad(X[place])
        assert values[place] == pytest.approx(value, rel=1e-13)
        assert np.allclose(grads[place], grad, rtol=1e-11, atol=1e-13 * np.abs(grad).max())
    assert p(X[place]) == value
    assert np.array_equal(p.grad(X[place]), grad)
    grad[:] = 0  # what comes back is the caller's
    assert p.grad(X[place]).any()


def test_whole_numbers_are_taken_as_double_and_outside_the_domain_there_is_no_warning():
    wood = problems["wood"]
    assert wood([-3, -1, -3, -1]) == 19192
    assert wood.grad(np.array([-3, -1, -3, -1])).dtype == np.float64
    assert problems["jennrich-sampson"]([1000.0, 0.0]) == np.inf
    assert np.isnan(problems["bennett5-1"]([-2000.0, -50.0, 0.8]))


def test_suites_are_the_whole():
    suites = {name: suite(name) for name in ("mgh", "large", "nist", "learning")}
    assert [p for name in suites for p in suites[name]] == list(problems.values())
    assert all(p.suite == name for name in suites for p in suites[name])
    assert {int(p.title.split("(")[1].split(")")[0]) for p in suites["mgh"]} == set(range(1, 36))
    assert all(50 <= p.n <= 1000 for p in suites["large"])
    suites["mgh"].clear()
    assert suite("mgh")
    assert len({p.title for p in problems.values()}) == len(problems)
    with pytest.raises(ValueError, match="name: expected one of mgh, large, nist, learning, got 'cutest'"):
        suite("cutest")
