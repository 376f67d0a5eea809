"""Bounds on the variables, held against L-BFGS-B and the conditions of Karush, Kuhn and Tucker."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds

import steepen as st
from steepen import Status, schedules, steps
from steepen._core.space import limits_of

from ..objectives import BY_NAME, METHODS, Problem, derivatives, quadratic, rosenbrock, saddle, spd
from ..pairs import pairs, sample
from ..results import same
from ..rounding import seen

METHOD = pytest.mark.parametrize("method", METHODS)
ROSEN = rosenbrock(2, (-1.2, 1.0))
CUT = [(-1.5, 0.8), (-1.0, 2.0)]
"""The minimum of Rosenbrock's function in this box is (0.8, 0.64)."""
STARTS = np.array([[-1.2, 1.0], [0.5, 0.5], [2.0, 2.0], [-1.5, -1.5]])


@dataclass(frozen=True, eq=False)
class Case:
    name: str
    problem: Problem
    low: Any
    high: Any

    def __repr__(self) -> str:
        return self.name

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.low, self.high)


def random_quadratic(n: int, condition: float, seed: int) -> Case:
    """A convex quadratic whose box holds some variables and leaves others free."""
    rng = np.random.default_rng(seed)
    Q, centre = spd(np.geomspace(1.0, condition, n), seed), rng.standard_normal(n)
    problem = quadratic(f"quadratic{n}", Q, Q @ centre, tuple(rng.uniform(-2.0, 2.0, n)))
    side = rng.integers(0, 3, n)  # cut off from below, from above, or not at all
    low = np.where(side == 0, centre + rng.uniform(0.1, 0.5, n), centre - 3)
    high = np.where(side == 1, centre - rng.uniform(0.1, 0.5, n), centre + 3)
    return Case(problem.name, problem, low, high)


def around(name: str, down: float, up: float) -> Case:
    problem = BY_NAME[name]
    return Case(f"{name}±", problem, problem.x0 - down, problem.x0 + up)


def cut(n: int, high: float) -> Case:
    problem = rosenbrock(n, (-1.2, 1.0) * (n // 2))
    return Case(
        f"{problem.name}<{high}", problem, np.full(n, -1.5), np.where(np.arange(n) % 3 == 0, high, 2.0)
    )


ONE_MINIMUM = [
    random_quadratic(3, 1e1, 0), random_quadratic(6, 1e2, 1), random_quadratic(10, 1e2, 2),
    random_quadratic(20, 1e2, 3), random_quadratic(40, 1e2, 4),
    cut(2, 0.5), cut(2, 0.8), around("booth", 2.0, 3.0), around("matyas", 2.0, 3.0),
    around("zakharov4", 2.0, 3.0), around("zakharov4", 0.5, 0.4), around("logistic", 2.0, 3.0),
    around("chain40", 0.5, 0.4), around("chain40", 2.0, 3.0), around("quadratic", 2.0, 3.0),
]  # fmt: skip
OTHERS = [
    random_quadratic(12, 1e3, 5), cut(10, 0.5), cut(10, 0.8), around("beale", 2.0, 3.0),
    around("branin", 2.0, 3.0), around("levy2", 2.0, 3.0), around("rosenbrock10", 0.5, 0.4),
]  # fmt: skip


def kkt(g: Any, x: Any, low: Any, high: Any) -> float:
    """The largest violation of: ∇f is zero inside, not negative at low, not positive at high."""
    wrong = np.abs(g)
    wrong = np.where(x == low, np.maximum(-g, 0.0), wrong)
    wrong = np.where(x == high, np.maximum(g, 0.0), wrong)
    return float(np.where(low == high, 0.0, wrong).max())


def inside(x: Any, low: Any, high: Any) -> bool:
    return bool(((x >= low) & (x <= high)).all())


def lbfgsb(case: Case, x: Any, gtol: float) -> Any:
    p, options = case.problem, {"gtol": gtol, "ftol": 0.0, "maxiter": 20_000, "maxfun": 100_000}
    return scipy.optimize.minimize(
        p.fun, x, jac=p.grad, method="L-BFGS-B", bounds=case.bounds, options=options
    )  # fmt: skip


@cache
def reference(case: Case) -> tuple[Any, float, int]:
    """Give L-BFGS-B's polished minimum, and how many evaluations it took to ‖P∇f‖ ≤ 1e-6."""
    first = lbfgsb(case, case.problem.x0, 1e-6)
    x = lbfgsb(case, first.x, 1e-13).x
    return x, float(case.problem.fun(x)), first.nfev


def honest(res: st.Result, case: Case) -> None:
    """Hold a success against what it promises: ∇f within gtol, or an f that nothing lowers visibly."""
    if res.status is Status.CONVERGED:
        assert kkt(res.jac, res.x, case.low, case.high) <= 1e-6
    elif res.success:
        assert res.status is Status.PRECISION
        lowest = min(lbfgsb(case, res.x, 1e-13).fun, res.fun)
        assert res.fun - lowest <= 100 * np.finfo(float).eps * abs(res.fun)


def run(case: Case, method: str, **options: Any) -> st.Result:
    given_ = {"bounds": case.bounds, "gtol": 1e-6} | derivatives(case.problem, method) | options
    return st.minimize(case.problem.fun, case.problem.x0, method=method, **given_)


# --- against L-BFGS-B --------------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "method"), sample(itertools.product(ONE_MINIMUM, METHODS), 38), ids=str)
def test_the_minimum_is_that_of_lbfgsb(case: Case, method: str):
    x, f, _ = reference(case)
    res = run(case, method, budget=st.Budget(iters=3000))
    assert res.success, res.status
    honest(res, case)
    assert res.fun == pytest.approx(f, rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(res.x, x, atol=2e-6 if res.status is Status.CONVERGED else 2e-5)
    assert inside(res.x, case.low, case.high)
    np.testing.assert_allclose(res.jac, seen(case.problem.grad, "jac")(res.x), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("case", "method"), sample(itertools.product(OTHERS, METHODS), 17), ids=str)
def test_what_converged_is_a_kkt_point(case: Case, method: str):
    res = run(case, method, budget=st.Budget(iters=1500))
    assert inside(res.x, case.low, case.high)
    honest(res, case)
    assert res.success or method not in {"bfgs", "newton", "cgd-auto"}
    assert res.fun < case.problem.fun(np.clip(case.problem.x0, case.low, case.high))


def test_cgd_auto_needs_about_what_lbfgsb_needs():
    cases = ONE_MINIMUM + OTHERS
    theirs = {case.name: reference(case)[2] for case in cases}
    ours = {case.name: run(case, "cgd-auto").nfev for case in cases}
    assert sum(ours.values()) <= 1.5 * sum(theirs.values())
    assert {name for name, count in ours.items() if count > 2 * theirs[name] + 15} == set()


FUNCTIONS = [
    "ackley", "griewank", "levy", "rastrigin", "mccormick", "trid", "six-hump-camel", "dixon-price",
    "michalewicz", "colville", "goldstein-price", "hartmann-6", "styblinski-tang", "branin",
]  # fmt: skip


@pytest.mark.parametrize(("name", "method"), sample(itertools.product(FUNCTIONS, METHODS), 25))
def test_the_functions_within_their_bounds(name: str, method: str):
    f = st.functions[name]
    low, high = np.asarray(f.bounds, dtype=float).T
    for share in (0.13, 1.0):
        start = low + share * (high - low)
        res = st.minimize(f, start, method=method, bounds=f.bounds, budget=st.Budget(iters=200))
        assert inside(res.x, low, high)
        assert res.fun <= seen(f)(start)
        if res.status == Status.CONVERGED:
            assert kkt(f.grad(res.x), res.x, low, high) <= 1e-5
        elif method == "cgd-auto":
            assert res.status == Status.PRECISION


# --- every point lies in the box ---------------------------------------------------------------------

STEPS = {"schedule": schedules.L(1e-4, 3e-4, T=40), "armijo": None, "quadratic": steps.Quadratic()}
ROWS = {"one": STARTS[0], "many": STARTS}


class Recorded:
    """A function that keeps the points it was asked for."""

    def __init__(self, function: Any):
        self.function, self.points = function, list[Any]()

    def __call__(self, x: Any, *more: Any) -> Any:
        self.points.extend(np.array(x).reshape(-1, np.shape(x)[-1]))
        return self.function(x, *more)


@pairs(method=METHODS, step=STEPS, rows=ROWS)
def test_no_point_leaves_the_box(method: str, step: str, rows: str):
    low, high = limits_of(CUT, 2)
    fun, second = Recorded(ROSEN.fun), Recorded(ROSEN.hess)
    jac, hvp = Recorded(ROSEN.grad), Recorded(ROSEN.hvp)
    given_: dict[str, Any] = {"newton": {"hess": second}, "cgd-fd": {}}.get(method, {"hvp": hvp})
    res = st.minimize(
        fun, ROWS[rows], method=method, bounds=CUT, step=STEPS[step], budget=st.Budget(iters=25), jac=jac,
        trace="x", **given_,
    )  # fmt: skip
    assert inside(res.trace.x[np.isfinite(res.trace.x).all(axis=-1)], low, high)
    assert all(inside(x, low, high) for x in fun.points + hvp.points + second.points)
    probes = method == "cgd-fd" or (method == "newton" and step == "quadratic")
    reach = 1e-6 if probes else 0.0  # a difference of gradients probes √ε away
    assert all(inside(x, low - reach, high + reach) for x in jac.points)
    # the counts are exact
    assert np.sum(res.nfev) == len(fun.points)
    assert np.sum(res.njev) == len(jac.points)
    assert np.sum(res.nhvp) == len(hvp.points)
    assert np.sum(res.nhev) == len(second.points)


@pairs(
    bounds=(CUT, [(-1.2, 0.8), (1.0, 1.0)], [(-1.2, -1.2 + 1e-9), (-1.0, 2.0)]),
    dtype=(np.float64, np.float32), method=("gd", "bfgs", "cgd-auto"),
)  # fmt: skip
def test_differences_of_values_stay_in_the_box(method: str, dtype: Any, bounds: Any):
    low, high = (side.astype(dtype) for side in limits_of(bounds, 2))
    fun = Recorded(ROSEN.fun)
    budget = st.Budget(iters=30)
    res = st.minimize(fun, ROSEN.x0.astype(dtype), method=method, bounds=bounds, jac="2-point", budget=budget)
    assert all(inside(x, low, high) for x in fun.points)
    assert res.nfev == len(fun.points)


@METHOD
def test_fixed_steps_are_those_of_the_projected_method(method: str):
    """Projected steepest descent is three lines; every method takes its first steps so where it is alone."""
    low, high = limits_of(CUT, 2)
    res = st.minimize(
        ROSEN.fun, STARTS[2], method=method, bounds=CUT, step=2e-4, lam=None, trace="x",
        budget=st.Budget(iters=30), **derivatives(ROSEN, method),
    )  # fmt: skip
    x = np.clip(STARTS[2], low, high)
    np.testing.assert_array_equal(res.trace.x[0], x)
    if method == "gd":
        for found in res.trace.x:
            np.testing.assert_allclose(found, x, rtol=1e-14)
            x = np.clip(x - 2e-4 * ROSEN.grad(x), low, high)
    for point, norm in zip(res.trace.x, res.trace.gnorm, strict=True):
        expected = np.linalg.norm(np.clip(point - ROSEN.grad(point), low, high) - point)
        assert norm == pytest.approx(expected, rel=1e-12)


# --- batches, libraries, precision --------------------------------------------------------------------


@pairs(method=METHODS, step=STEPS)
def test_rows_are_single_runs(method: str, step: str):
    given_: dict[str, Any] = {"bounds": CUT, "step": STEPS[step], "method": method, "hvp": ROSEN.hvp}
    # cgd-auto keeps the bits of a row as long as all pairs fit into the first places of its memory
    given_ |= {"budget": st.Budget(iters=8 if method == "cgd-auto" else 40)} | derivatives(ROSEN, method)
    many = st.minimize(ROSEN.fun, STARTS, **given_)
    for i, start in enumerate(STARTS):
        one = st.minimize(ROSEN.fun, start, **given_)
        same(many.row(i), one)


@METHOD
def test_float32_stays_in_the_box_of_float32(method: str):
    bounds = [(-1.5, 0.7), (-0.3, 0.1)]  # 0.7 and 0.1 are no float32
    low, high = limits_of(bounds, 2)  # to the user's own numbers, which float32 must not pass
    p, fun = BY_NAME["booth"], Recorded(BY_NAME["booth"].fun)
    res = st.minimize(fun, p.x0.astype(np.float32), method=method, bounds=bounds, **derivatives(p, method))
    assert res.success
    assert res.x.dtype == np.float32
    assert all(x.dtype == np.float32 and inside(x, low, high) for x in fun.points)
    nearest = high.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-1))
    np.testing.assert_array_equal(res.x, np.where(nearest.astype(float) > high, below, nearest))


# --- checkpoints ----------------------------------------------------------------------------


@pairs(method=METHODS, step=(None, 2e-4), rows=ROWS)
def test_a_resumed_run_is_the_unbroken_one(tmp_path: Path, method: str, step: Any, rows: str):
    x0 = ROWS[rows]
    given_: dict[str, Any] = {"method": method, "step": step, "bounds": CUT, "trace": "x"}
    given_ |= derivatives(ROSEN, method) | ({"b": 6} if method == "cgd-fd" else {})
    whole = st.minimize(ROSEN.fun, x0, budget=st.Budget(iters=20), **given_)
    for cut_at in (1, 13):
        path = tmp_path / f"{cut_at}.npz"
        st.minimize(ROSEN.fun, x0, budget=st.Budget(iters=cut_at), checkpoint=path, **given_)
        same(st.minimize(ROSEN.fun, x0, budget=st.Budget(iters=20), checkpoint=path, **given_), whole)


# --- forms -------------------------------------------------------------------------------------------

INF = np.inf
SAME = [
    ([(None, 0.8), (-1, None)], [(-INF, 0.8), (-1, INF)]),
    (Bounds([-INF, -1], [0.8, INF]), [(-INF, 0.8), (-1, INF)]),
    (np.array([[-INF, 0.8], [-1, INF]]), [(-INF, 0.8), (-1, INF)]),
    (Bounds(-1.5, [0.8, 2.0]), [(-1.5, 0.8), (-1.5, 2.0)]),
    (Bounds(-1.5, 0.5), [(-1.5, 0.5)] * 2),
    (Bounds(), [(-INF, INF)] * 2),
    (((-1, 0.8), (-1, 2)), [(-1.0, 0.8), (-1.0, 2.0)]),
    (iter([(-1, 0.8), [-1, 2]]), [(-1.0, 0.8), (-1.0, 2.0)]),
]


@pytest.mark.parametrize(("form", "plain"), SAME)
def test_forms(form: Any, plain: Any):
    a = st.minimize(ROSEN.fun, ROSEN.x0, jac=ROSEN.grad, bounds=form)
    same(a, st.minimize(ROSEN.fun, ROSEN.x0, jac=ROSEN.grad, bounds=plain))


@pairs(method=("newton", "cgd-fd", "cgd-auto"), rows=ROWS)
def test_infinite_bounds_are_no_bounds(method: str, rows: str):
    x0 = ROWS[rows]
    given_: dict[str, Any] = {"method": method, "budget": st.Budget(iters=25)} | derivatives(ROSEN, method)
    free = st.minimize(ROSEN.fun, x0, **given_)
    same(st.minimize(ROSEN.fun, x0, bounds=[(None, None)] * 2, **given_), free)


@METHOD
def test_a_fixed_variable_is_as_good_as_none(method: str):
    """With the first variable at a, the second has its minimum at a²."""
    res = run(Case("fixed", ROSEN, np.array([-0.7, -1.0]), np.array([-0.7, 2.0])), method)
    assert res.success
    assert res.x[0] == -0.7
    assert res.x[1] == pytest.approx(0.49, abs=1e-6)


@pairs(method=METHODS, sign=(1.0, -1.0))
def test_all_fixed_ends_at_once(method: str, sign: float):
    p = ROSEN
    res = st.minimize(
        lambda x: sign * p.fun(x), [5.0, 5.0], method=method, bounds=[(0.5, 0.5), (2.0, 2.0)],
        jac=lambda x: sign * p.grad(x), hess=lambda x: sign * p.hess(x),
    )  # fmt: skip
    assert (res.status, res.nit, res.nfev, res.njev) == (Status.CONVERGED, 0, 1, 1)
    np.testing.assert_array_equal(res.x, [0.5, 2.0])


FIVE = rosenbrock(5, (0.3, -0.4, 0.5, 0.2, -0.1))
PARTLY = [(-1, 1), (-0.4, -0.4), (-2, 2), (0.2, 0.2), (-0.1, -0.1)]
"""Two free variables, three fixed at the start's own values."""


def freed(x: Any) -> Any:
    """Give the five variables of which the first and the third are x."""
    whole = np.array(np.broadcast_to(FIVE.x0, (*np.shape(x)[:-1], 5)), dtype=np.asarray(x).dtype)
    whole[..., [0, 2]] = x
    return whole


@pytest.mark.bits  # the functions of five and of two variables would be moved differently
@pairs(method=("gd", "newton", "bfgs", "cgd", "cgd-fd"), rows=(None, 3), jac=("2-point", "3-point", "cs"))
def test_a_fixed_variable_costs_no_difference(method: str, rows: int | None, jac: str):
    """Every gradient costs what it costs with two variables."""
    asked: list[Any] = []

    def fun(x: Any) -> Any:
        asked.extend(np.atleast_2d(x))
        return FIVE.fun(x)

    x0 = FIVE.x0 if rows is None else FIVE.x0 + np.outer(np.arange(rows), [0.1, 0, 0.1, 0, 0])
    given_: dict[str, Any] = {"method": method, "jac": jac, "step": 1e-3, "budget": st.Budget(iters=6)}
    res = st.minimize(fun, x0, bounds=PARTLY, trace="x", **given_)
    two = [PARTLY[0], PARTLY[2]]
    small = st.minimize(lambda x: FIVE.fun(freed(x)), x0[..., [0, 2]], bounds=two, **given_)
    np.testing.assert_array_equal(res.nfev, small.nfev)
    np.testing.assert_array_equal(res.njev, small.njev)
    np.testing.assert_allclose(res.x[..., [0, 2]], small.x, rtol=1e-6)
    assert np.sum(res.nfev) == len(asked)
    assert (np.array(asked)[:, [1, 3, 4]] == FIVE.x0[[1, 3, 4]]).all()
    assert res.trace.x.shape[-1] == 5


@pytest.mark.parametrize("jac", ["2-point", FIVE.grad, True], ids=str)
def test_the_gradient_of_a_fixed_variable_is_reported_as_scipy_does(jac: Any):
    """NaN where differences were not taken; a gradient that was given is given back whole."""
    fun = (lambda x: (FIVE.fun(x), FIVE.grad(x))) if jac is True else FIVE.fun
    res = st.minimize(fun, FIVE.x0, jac=jac, bounds=PARTLY)
    theirs = scipy.optimize.minimize(
        fun, FIVE.x0, method="L-BFGS-B", bounds=PARTLY, jac=jac, options={"gtol": 1e-9, "ftol": 1e-15}
    )
    assert res.success
    np.testing.assert_array_equal(np.isnan(res.jac), np.isnan(theirs.jac))
    np.testing.assert_allclose(res.jac, theirs.jac, atol=2e-4, rtol=1e-4)
    np.testing.assert_allclose(res.x, theirs.x, atol=1e-5)


def test_fixed_variables_take_no_part_in_a_hessian_made_of_products():
    calls = []

    def grad(x: Any) -> Any:
        calls.append(x)
        return np.array(FIVE.grad(x.real), dtype=float)  # no complex step: differences

    res = st.minimize(FIVE.fun, FIVE.x0, jac=grad, method="newton", bounds=PARTLY, budget=st.Budget(iters=1))
    assert res.hvp_source == "difference"
    assert len(calls) == res.njev == 1 + 1 + 2 + 1  # ∇f, the complex step refused, two columns, ∇f


@pairs(method=("gd", "cgd", "cgd-auto"), jac=("2-point", "3-point", "cs"))
def test_with_all_variables_fixed_one_value_is_enough(method: str, jac: str):
    """As in SciPy, where this is success as well."""
    bounds = [(0.5, 0.5), (2.0, 2.0)]
    res = st.minimize(ROSEN.fun, [5.0, 5.0], method=method, jac=jac, bounds=bounds)
    theirs = scipy.optimize.minimize(seen(ROSEN.fun), [5.0, 5.0], method="L-BFGS-B", bounds=bounds)
    assert (res.success, res.nfev, res.fun) == (theirs.success, theirs.nfev, theirs.fun)
    np.testing.assert_array_equal(res.x, theirs.x)


def test_equal_bounds_that_float32_cannot_hold_fix_the_variable():
    """Rounded inwards they cross; the variable must seem to be at rest all the same."""
    at = 1e6 + 0.1
    x0 = np.array([at, 2.0], dtype=np.float32)
    res = st.minimize(
        lambda x: ((x - 1) ** 2).sum(), x0, jac=lambda x: 2 * (x - 1), bounds=[(at, at), (-5, 5)], gtol=1e-4
    )
    assert res.status is Status.CONVERGED
    assert res.x[1] == pytest.approx(1.0, abs=1e-4)


@METHOD
def test_a_start_outside_is_projected(method: str):
    given_: dict[str, Any] = {"method": method, "bounds": CUT, "budget": st.Budget(iters=9)}
    given_ |= derivatives(ROSEN, method)
    same(
        st.minimize(ROSEN.fun, [7.0, -9.0], **given_),
        st.minimize(ROSEN.fun, [0.8, -1.0], **given_),
    )


@METHOD
def test_a_start_at_a_vertex_leaves_it(method: str):
    case = Case("vertex", BY_NAME["booth"], np.array([-3.0, -3.0]), np.array([5.0, 2.0]))
    for start in ([-3.0, -3.0], [5.0, 2.0], [-3.0, 2.0]):
        res = st.minimize(
            case.problem.fun, start, method=method, bounds=case.bounds, **derivatives(case.problem, method)
        )
        # on the edge v = 2 the function is (u − 3)² + (2u − 3)²
        np.testing.assert_allclose(res.x, [1.8, 2.0], atol=1e-5)


# --- errors ------------------------------------------------------------------------------------------

NAN = float("nan")
WRONG = [
    [(0, 1)], [(0, 1)] * 3, [], (), 0.0, True, "ab", ["ab", "cd"], [(0, 1), None], [(0, 1), (0, 1, 2)],
    [(0, 1), 2], [(1, 0), (0, 1)], [(0, 1), (NAN, 1)], [(0, NAN), (0, 1)], [(INF, INF), (0, 1)],
    [(-INF, -INF), (0, 1)], np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(2), np.zeros((4, 2, 2)),
    [(0, 1j), (0, 1)], [("a", "b"), (0, 1)], Bounds([0, 0, 0], [1, 1, 1]), {"low": 0}, 1j,
]  # fmt: skip


def test_wrong_bounds():
    fun = Recorded(ROSEN.fun)
    for bounds, x0 in itertools.product(WRONG, ROWS.values()):
        with pytest.raises((ValueError, TypeError), match=r"^bounds: expected"):
            st.minimize(fun, x0, jac=ROSEN.grad, bounds=bounds)
    assert not fun.points
    with pytest.raises(ValueError, match=r"got \(2, 1\) for variable 1"):
        st.minimize(ROSEN.fun, ROSEN.x0, jac=ROSEN.grad, bounds=[(0, 1), (2, 1)])


# --- trouble -----------------------------------------------------------------------------------------


@METHOD
def test_f_that_is_undefined_or_unbounded_outside(method: str):
    """3·Σx − Σlog x in [0.5, 2] × [0.1, 5] is least at (0.5, 1/3); −u³ + v² below u = 2 at (2, 0)."""

    def fun(x: Any) -> float:
        assert (x > 0).all()
        return float((3 * x - np.log(x)).sum())

    res = st.minimize(
        fun, [0.5, 0.1], method=method, jac=lambda x: 3 - 1 / x, hess=lambda x: np.diag(1 / (x * x)),
        bounds=[(0.5, 2), (0.1, 5)],
    )  # fmt: skip
    assert res.success
    np.testing.assert_allclose(res.x, [0.5, 1 / 3], atol=1e-5)
    res = st.minimize(
        lambda x: float(-x[0] * x[0] * x[0] + x[1] * x[1]), [0.1, 0.5], method=method,
        jac=lambda x: np.array([-3 * x[0] * x[0], 2 * x[1]]), hess=lambda x: np.diag([-6 * x[0], 2.0]),
        bounds=[(-1, 2), (-1, 1)],
    )  # fmt: skip
    assert res.success
    np.testing.assert_allclose(res.x, [2.0, 0.0], atol=1e-5)


SADDLES = [
    ([(-1, 1), (-1, 1.2)], {1.2, -1.0}),  # the minima at ±√2 are cut off on both sides
    ([(-1, 1), (0, 2)], {2**0.5}),  # the start is on the bound: one way only
    ([(-1, 1), (-2, 0)], {-(2**0.5)}),
    ([(-1, 1), (0, 0)], {0.0}),  # there is no way down
]


@pytest.mark.parametrize(("bounds", "ends"), SADDLES)
def test_a_start_at_a_saddle(bounds: Any, ends: set[float]):
    p = saddle("saddle", (0.0, 0.0))
    res = st.minimize(p.fun, p.x0, jac=p.grad, bounds=bounds)
    assert res.status == Status.CONVERGED
    assert min(abs(res.x[1] - end) for end in ends) <= 1e-5
    assert abs(res.x[0]) <= 1e-5


@METHOD
def test_a_vertex_that_f_leaves_upwards_is_a_minimum(method: str):
    """10u − u² + v² bends down in u, but u is held at 0 by a slope of 10."""
    res = st.minimize(
        lambda x: float(10 * x[0] - x[0] * x[0] + x[1] * x[1]), [0.0, 0.0], method=method,
        jac=lambda x: np.array([10 - 2 * x[0], 2 * x[1]]), hess=lambda x: np.diag([-2.0, 2.0]),
        bounds=[(0, 1), (-1, 1)],
    )  # fmt: skip
    assert (res.status, res.nit) == (Status.CONVERGED, 0)
    np.testing.assert_array_equal(res.x, [0.0, 0.0])


@pairs(method=METHODS, slope=(NAN, INF, -INF))
def test_a_gradient_that_is_not_finite_at_a_bound(method: str, slope: float):
    """A status, never a warning or an error; +inf at the lower bound may count as held there."""
    res = st.minimize(
        lambda x: float(x[0] + (x[1] - 1) * (x[1] - 1)), [0.0, 0.0], method=method,
        jac=lambda x: np.array([slope if x[0] <= 0 else 1.0, 2 * (x[1] - 1)]), bounds=[(0, 1), (0, 3)],
    )  # fmt: skip
    held = slope == INF and res.status == Status.CONVERGED and abs(res.x[1] - 1) <= 1e-5
    assert held or res.status == Status.NONFINITE_GRADIENT
    assert np.isfinite(res.fun)


def test_the_norm_does_not_cancel():
    """At x = 1e12 a slope of 1e-6 is far below the rounding of x, and far above gtol."""
    p: dict[str, Any] = {"jac": lambda x: np.array([1e-6]), "gtol": 1e-9, "budget": st.Budget(iters=0)}
    res = st.minimize(lambda x: 1e-6 * float(x[0]), [1e12], bounds=[(0, None)], **p)
    assert res.status == Status.MAX_ITERATIONS
    assert res.trace.gnorm[0] == pytest.approx(1e-6)


def test_a_quadratic_step_at_a_bound_trusts_its_complex_step():
    H = np.array([[2.0, 0.5], [0.5, 3.0]])
    res = st.minimize(
        lambda x: float(x @ H @ x / 2 + 5 * x[0]), [0.0, 2.0], method="gd", step=steps.Quadratic(),
        jac=lambda x: H @ x + np.array([5.0, 0.0]), bounds=[(0, 1), (-3, 3)],
    )  # fmt: skip
    assert res.hvp_source == "complex step"
    np.testing.assert_allclose(res.x, [0.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("jac", ["2-point", "3-point"])
def test_differences_at_a_bound_find_what_lies_just_inside(jac: str):
    res = st.minimize(lambda x: 1000 * (x[0] - 1e-6) ** 2, [0.0], jac=jac, bounds=[(0, None)])
    assert res.x[0] == pytest.approx(1e-6, rel=1e-3)


def test_a_complex_step_with_a_fixed_variable():
    res = st.minimize(lambda x: ((x - 0.3) ** 2).sum(), [0.5, 0.5], jac="cs", bounds=[(5, 5), (0, 1)])
    np.testing.assert_allclose(res.x, [5.0, 0.3])


def test_a_way_down_beside_bounds_that_the_gradient_does_not_survive():
    def fun(x):
        return x[0] ** 2.5 + x[1] ** 2.5 - x[2] ** 2 + x[2] ** 4

    def jac(x):
        return np.array([2.5 * x[0] * np.sqrt(x[0]), 2.5 * x[1] * np.sqrt(x[1]), -2 * x[2] + 4 * x[2] ** 3])

    res = st.minimize(fun, np.zeros(3), jac=jac, bounds=[(0, None), (0, None), (-1, 1)])
    assert res.fun == pytest.approx(-0.25, abs=1e-6)


def test_xtol_goes_by_how_far_x_has_really_moved():
    """From 0.5 the first step would be 5 long; the bound lets it be 1e-9."""
    res = st.minimize(
        lambda x: 10 * float(x[0]), [0.5], jac=lambda x: np.array([10.0]), method="gd", step=0.5, gtol=0.0,
        bounds=[(0.5 - 1e-9, None)], xtol=1e-6,
    )  # fmt: skip
    assert (res.status, res.nit) == (Status.SMALL_MOVE, 1)


def test_a_slope_that_a_bound_holds_leaves_no_doubt():
    """f falls along u, which its bound holds at 1e6; in v it has converged."""
    res = st.minimize(
        lambda x: float(-x[0] + (x[1] - 1) ** 2), [1e6, 1.0], jac=lambda x: np.array([-1.0, 2 * (x[1] - 1)]),
        bounds=[(None, 1e6), (None, None)],
    )  # fmt: skip
    assert (res.status, res.nit) == (Status.CONVERGED, 0)


@pytest.mark.parametrize("rows", [None, 2])
def test_newton_solves_for_the_variables_that_are_free(rows: int | None):
    """A quadratic whose first variable is held is solved in one step, without the guard."""
    H = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]])
    x0 = np.array([1.0, 5.0, -3.0])
    res = st.minimize(
        lambda x: 0.5 * ((x @ H) * x).sum(axis=-1) + 9 * x[..., 0],
        x0 if rows is None else np.stack([x0] * rows),
        jac=lambda x: x @ H + [9.0, 0.0, 0.0], hess=lambda x: np.zeros((*x.shape, 1)) + H, method="newton",
        bounds=[(1, None), (None, None), (None, None)],
    )  # fmt: skip
    assert np.all(res.nit == 1)
    assert not res.trace.guarded.any()
    np.testing.assert_allclose(res.x[..., 1:] + np.linalg.solve(H[1:, 1:], H[1:, 0]), 0.0, atol=1e-12)
