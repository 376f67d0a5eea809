"""Numbers that overflow, underflow or vanish: an honest status each time, no error or warning of ours."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hst

import steepen as st
from steepen import Budget, Status

from ..objectives import METHODS
from ..pairs import pairs, sample
from ..rounding import seen as moved


def silent(function: Any) -> Any:
    """Make a function that does not warn: every warning left, an error under pytest, is ours."""

    def call(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(x)

    return call


def cliff(a: float) -> tuple[Any, Any, float]:
    """Return exp(ax) − x, its gradient and its least value, in closed form."""
    return (
        silent(lambda x: float(np.exp(a * x[0]) - x[0])),
        silent(lambda x: a * np.exp(a * x) - 1),
        float((1 + mpmath.log(a)) / a),
    )


# --- no false success --------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [10.0, 100.0])
def test_an_exponential_cliff_is_descended_or_its_end_is_no_success(a: float) -> None:
    f, g, least = cliff(a)
    for x0 in sample(np.linspace(0.5, 14, 60).tolist(), 12):
        res = st.minimize(f, [x0], jac=g)
        if math.isinf(f(np.array([x0]))):
            assert res.status is Status.NONFINITE_VALUE
        else:
            assert res.success
            assert res.fun - least <= 1e-6


@pytest.mark.parametrize("seed", sample(range(20), 5))
def test_poisson_regressions_end_at_their_minimum(seed: int) -> None:
    """Convex, and steep as an exponential; the referee is Newton's method with exact derivatives."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(40), rng.standard_normal((40, 2)) * 10.0 ** rng.integers(-1, 3)])
    y = rng.poisson(3.0, 40)

    @silent
    def f(w: Any) -> float:
        return float(np.exp(X @ w).sum() - y @ (X @ w))

    @silent
    def g(w: Any) -> Any:
        return X.T @ (np.exp(X @ w) - y)

    res = st.minimize(f, np.zeros(3), jac=g, gtol=1e-6)
    w = np.zeros(3)
    for _ in range(200):
        mu = np.exp(X @ w)
        step = np.linalg.solve((X.T * mu) @ X, X.T @ (mu - y))
        while not f(w - step) <= f(w):
            step /= 2
            if np.abs(step).max() < 1e-15:
                break
        w = w - step
    assert not res.success or res.fun - f(w) <= 1e-8 * max(1.0, abs(f(w)))
    assert res.success


@pairs(method=METHODS, step=(1e12, None), batch=(False, True))
def test_a_minimum_at_infinity_is_not_reached_in_one_step(
    method: str, step: float | None, batch: bool
) -> None:
    """f = exp(−x) is 0 at infinity, with no slope left: no success may have an x that is not finite."""
    x0 = np.array([-700.0])
    res = st.minimize(
        silent(lambda x: np.exp(-x[..., 0])), np.stack([x0, x0 + 1]) if batch else x0,
        jac=silent(lambda x: -np.exp(-x)), method=method, step=step, xtol=10.0,
    )  # fmt: skip
    assert np.isfinite(res.x).all()
    assert np.isfinite(res.fun).all()
    if step is not None and method == "gd":
        assert np.all(res.status == Status.DIVERGED)
        assert np.all(res.x == x0 + (np.arange(2.0)[:, None] if batch else 0))


# --- no error of ours --------------------------------------------------------------------------------


def test_a_row_that_diverges_leaves_the_others_to_their_xtol() -> None:
    starts = np.array([[1e308, 1e308], [1.0, 2.0], [3.0, 2.0]])

    def run(x0: Any) -> st.Result:
        return st.minimize(
            lambda x: (np.clip(x, -1e100, 1e100) ** 2).sum(-1) / 1e200, x0, method="bfgs", step=1.0,
            xtol=1e-9, jac=lambda x: np.where(abs(x) > 1e300, -x, x * 1e-3), budget=Budget(iters=5),
        )  # fmt: skip

    together = run(starts)
    assert together.status[0] == Status.DIVERGED
    for row, x0 in enumerate(starts):
        alone = run(x0)
        assert together.status[row] == alone.status
        np.testing.assert_array_equal(together.x[row], alone.x)


@pairs(dtype=(np.float32, np.float64), rows=(None, 2))
def test_x_overflows_in_the_range_of_its_own_precision(dtype: Any, rows: int | None) -> None:
    """A step of 10³⁹ is nothing to float64, and out of range for float32: nobody is asked about such an x."""
    asked: list[bool] = []

    def fun(x: Any) -> Any:
        asked.append(bool(np.isfinite(x).all()))
        return np.asarray(x.sum(axis=-1), dtype=float)

    x0 = np.ones((3,) if rows is None else (rows, 3), dtype=dtype)
    res = st.minimize(fun, x0, jac=np.ones_like, method="gd", step=1e39, budget=Budget(iters=3))
    expected = Status.DIVERGED if dtype == np.float32 else Status.MAX_ITERATIONS
    assert np.all(res.status == expected)
    assert all(asked)


def test_a_step_from_far_out_divides_by_nothing() -> None:
    problem = st.problems["nelson-1"]
    res = st.minimize(silent(problem), 80 * problem.x0, jac=silent(problem.grad))
    assert isinstance(res.status, Status)


SCALES, STEEP = (1e-320, 1e-162, 1e-80, 1e80, 1e162, 1e300), (1e-300, 1e-150, 1.0, 1e150, 1e300)


@pytest.mark.parametrize(
    ("method", "scale", "steep", "step"),
    sample(itertools.product(METHODS, SCALES, STEEP, (None, 1e-12, 0.1, 1e12)), 151),
)
def test_a_bowl_of_any_size_ends_with_an_honest_status(
    method: str, scale: float, steep: float, step: float | None
) -> None:
    """f = ½·steep·Σ aᵢxᵢ² from points of any size: its minimum is 0, at 0."""
    a = steep * np.array([1.0, 3.0])
    f, g = silent(lambda x: float((a * x * x).sum() / 2)), silent(lambda x: a * x)
    x0 = scale * np.array([1.0, -2.0])
    res = st.minimize(f, x0, jac=g, method=method, step=step, gtol=0, budget=Budget(iters=60))
    if res.success:
        assert res.status is not Status.CONVERGED or not moved(g, "jac")(res.x).any()
        # by another way of counting: no shorter vector along any axis has a lower value
        assert all(res.fun - f(res.x * np.array(k)) <= 1e-12 * res.fun for k in ((0.9, 1.0), (1.0, 0.9)))


@given(
    method=hst.sampled_from(METHODS),
    name=hst.sampled_from(sorted(st.functions)),
    power=hst.integers(-300, 300),
    step=hst.none() | hst.floats(-12, 12).map(lambda p: 10.0**p),
    lam=hst.none() | hst.floats(-10, 10).map(lambda p: math.copysign(10.0 ** abs(p), p)),
    batch=hst.booleans(),
)
def test_functions_from_anywhere_with_any_setting_raise_and_warn_nothing(
    method: str, name: str, power: int, step: float | None, lam: float | None, batch: bool
) -> None:
    fun = st.functions[name]
    fun = fun if fun.n is not None else fun.at(n=2)
    x0 = 10.0**power * np.linspace(-1.0, 1.5, fun.n)
    more: dict[str, Any] = {} if lam is None or not method.startswith("cgd-f") else {"lam": lam}
    res = st.minimize(
        silent(fun), np.stack([x0, -x0]) if batch else x0, jac=silent(fun.grad), method=method, step=step,
        budget=Budget(iters=20, grads=40, evals=60), **more,
    )  # fmt: skip
    assert np.all(res.njev <= 40)
    assert np.all(res.nfev <= 60)
    assert np.all(np.isfinite(res.fun) | ~np.asarray(res.success))


@pytest.mark.bits  # the sum itself is looked at
def test_a_linear_function_falls_without_a_warning() -> None:
    res = st.minimize(lambda x: float(x.sum()), np.ones(8), jac=lambda x: np.ones(8))
    assert res.status is Status.UNBOUNDED
    assert res.best.fun == res.fun == res.x.sum()


# --- whose warnings they are -------------------------------------------------------------------------


def test_functions_and_callbacks_keep_the_error_state_of_the_caller() -> None:
    seen: list[dict[str, str]] = []

    def noted(value: Any) -> Any:
        seen.append(dict(np.geterr()))
        return value

    with np.errstate(over="raise", invalid="print", divide="ignore"):
        mine = dict(np.geterr())
        st.minimize(
            lambda x: noted(float(x @ x)), np.array([3.0, 4.0]), jac=lambda x: noted(2 * x), method="cgd",
            hvp=lambda x, v: noted(2 * v), callback=lambda s: noted(None), check_gradient=True,
            budget=Budget(iters=3),
        )  # fmt: skip
        assert dict(np.geterr()) == mine
    assert len(seen) > 10
    assert all(state == mine for state in seen)


def test_a_warning_of_the_function_is_still_heard() -> None:
    with pytest.warns(RuntimeWarning, match="overflow encountered in exp"):
        st.minimize(lambda x: float(np.exp(x[0] * 1e3)), [1.0], jac=lambda x: x, budget=Budget(iters=1))


def test_a_caller_who_raises_on_overflow_meets_none_of_ours() -> None:
    with np.errstate(all="raise"):
        res = st.minimize(silent(lambda x: float(x.sum())), np.ones(8), jac=lambda x: np.ones(8))
    assert res.status is Status.UNBOUNDED
