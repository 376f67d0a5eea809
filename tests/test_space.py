"""Bounds on the variables, held against L-BFGS-B."""

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds

import steepen as st
from steepen import Status, schedules
from steepen.space import limits_of, rounded, space_of

from .calls import same
from .objectives import BY_NAME, METHODS, Problem, derivatives, quadratic, rosenbrock, saddle, spd
from .pairs import pairs, sample
from .rounding import seen

METHOD = pytest.mark.parametrize("method", METHODS)
NAN, INF = np.nan, np.inf
ROSEN, BOOTH = BY_NAME["rosenbrock2"], BY_NAME["booth"]
CUT = [(-1.5, 0.8), (-1.0, 2.0)]
"""The minimum of Rosenbrock's function in this box is (0.8, 0.64)."""
STARTS = np.array([[-1.2, 1.0], [0.5, 0.5], [2.0, 2.0], [-1.5, -1.5]])
ROWS = {"one": STARTS[0], "many": STARTS}


def inside(x, low, high):
    return ((x >= low) & (x <= high)).all()


@dataclass(frozen=True, eq=False)
class Case:
    problem: Problem
    low: Any
    high: Any

    def __repr__(self):
        return f"{self.problem.name}<{self.high[0]:.1f}"

    def lbfgsb(self, x, gtol):
        options = {"gtol": gtol, "ftol": 0.0, "maxiter": 20_000, "maxfun": 100_000}
        p, bounds = self.problem, Bounds(self.low, self.high)
        return scipy.optimize.minimize(
            p.fun, x, jac=p.grad, method="L-BFGS-B", bounds=bounds, options=options
        )

    @cache  # noqa: B019
    def reference(self):
        """Give L-BFGS-B's polished minimum, and how many evaluations it took to ‖P∇f‖ ≤ 1e-6."""
        first = self.lbfgsb(self.problem.x0, 1e-6)
        return self.lbfgsb(first.x, 1e-13).x, first.nfev

    def run(self, method, **given):
        given |= {"bounds": Bounds(self.low, self.high), "gtol": 1e-6} | derivatives(self.problem, method)
        return st.minimize(self.problem.fun, self.problem.x0, method=method, **given)


def random_quadratic(n, condition, seed):
    rng = np.random.default_rng(seed)
    Q, centre = spd(np.geomspace(1.0, condition, n), seed), rng.standard_normal(n)
    problem = quadratic(f"quadratic{n}", Q, Q @ centre, tuple(rng.uniform(-2.0, 2.0, n)))
    side = rng.integers(0, 3, n)  # cut off from below, from above, or not at all
    low = np.where(side == 0, centre + rng.uniform(0.1, 0.5, n), centre - 3)
    return Case(problem, low, np.where(side == 1, centre - rng.uniform(0.1, 0.5, n), centre + 3))


def around(name, down, up):
    problem = BY_NAME[name]
    return Case(problem, problem.x0 - down, problem.x0 + up)


def cut(n, high):
    problem = rosenbrock(n, (-1.2, 1.0) * (n // 2))
    return Case(problem, np.full(n, -1.5), np.where(np.arange(n) % 3 == 0, high, 2.0))


ONE_MINIMUM = [
    random_quadratic(3, 1e1, 0), random_quadratic(6, 1e2, 1), random_quadratic(10, 1e2, 2),
    random_quadratic(40, 1e2, 4), cut(2, 0.5), cut(2, 0.8), around("booth", 2.0, 3.0),
    around("chain40", 0.5, 0.4), around("chain40", 2.0, 3.0), around("quadratic", 2.0, 3.0),
]  # fmt: skip
OTHERS = [random_quadratic(12, 1e3, 5), cut(10, 0.5), cut(10, 0.8), around("rosenbrock10", 0.5, 0.4)]
OTHERS += [around("beale", 2.0, 3.0), around("levy2", 2.0, 3.0)]


@pytest.mark.parametrize(("case", "method"), sample(itertools.product(ONE_MINIMUM, METHODS), 32), ids=str)
def test_the_minimum_is_that_of_lbfgsb(case, method):
    x, _ = case.reference()
    res = case.run(method, budget=st.Budget(iters=3000))
    assert res.success, res.status
    assert res.fun == pytest.approx(case.problem.fun(x), rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(res.x, x, atol=2e-6 if res.status is Status.CONVERGED else 2e-5)
    assert inside(res.x, case.low, case.high)
    np.testing.assert_allclose(res.jac, seen(case.problem.grad, "jac")(res.x), rtol=1e-9, atol=1e-10)


def test_cgd_auto_needs_about_what_lbfgsb_needs():
    counts = np.array([(c.run("cgd-auto").nfev, c.reference()[1]) for c in ONE_MINIMUM + OTHERS])
    ours, theirs = counts.T
    assert ours.sum() <= 1.5 * theirs.sum()
    assert (ours <= 2 * theirs + 15).all()


STEPS = {"schedule": schedules.L(1e-4, 3e-4, T=40), "armijo": None}


class Recorded:
    """A function that keeps the points it was asked for."""

    def __init__(self, function):
        self.function, self.points = function, []

    def __call__(self, x, *more):
        self.points.extend(np.array(x).reshape(-1, np.shape(x)[-1]))
        return self.function(x, *more)


@pairs(method=METHODS, step=STEPS, rows=ROWS)
def test_no_point_leaves_the_box(method, step, rows):
    low, high = limits_of(CUT, 2)
    fun, jac, hvp, hess = (Recorded(part) for part in (ROSEN.fun, ROSEN.grad, ROSEN.hvp, ROSEN.hess))
    second = {"newton": {"hess": hess}, "cgd-fd": {}}.get(method, {"hvp": hvp})
    given = {"method": method, "bounds": CUT, "step": STEPS[step], "trace": "x"} | second
    res = st.minimize(fun, ROWS[rows], jac=jac, budget=st.Budget(iters=25), **given)
    assert inside(res.trace.x[np.isfinite(res.trace.x).all(axis=-1)], low, high)
    assert all(inside(x, low, high) for x in fun.points + hvp.points + hess.points)
    probes = method == "cgd-fd" or (method == "newton" and step == "quadratic")
    reach = 1e-6 if probes else 0.0  # a difference of gradients probes √ε away
    assert all(inside(x, low - reach, high + reach) for x in jac.points)
    for count, asked in ((res.nfev, fun), (res.njev, jac), (res.nhvp, hvp), (res.nhev, hess)):
        assert np.sum(count) == len(asked.points)


@METHOD
def test_fixed_steps_are_projected_and_so_is_the_norm_of_the_gradient(method):
    low, high = limits_of(CUT, 2)
    given = {"step": 2e-4, "trace": "x", "budget": st.Budget(iters=30)} | derivatives(ROSEN, method)
    res = st.minimize(ROSEN.fun, STARTS[2], method=method, bounds=CUT, **given)
    x = np.clip(STARTS[2], low, high)
    np.testing.assert_array_equal(res.trace.x[0], x)
    if method == "gd":
        for found in res.trace.x:
            np.testing.assert_allclose(found, x, rtol=1e-14)
            x = np.clip(x - 2e-4 * ROSEN.grad(x), low, high)
    expected = np.linalg.norm(np.clip(res.trace.x - ROSEN.grad(res.trace.x), low, high) - res.trace.x, axis=1)
    np.testing.assert_allclose(res.trace.gnorm, expected, rtol=1e-12)


@pairs(method=METHODS, step=STEPS)
def test_rows_are_single_runs(method, step):
    given = {"budget": st.Budget(iters=40), "hvp": ROSEN.hvp}
    given |= {"bounds": CUT, "step": STEPS[step], "method": method} | derivatives(ROSEN, method)
    many = st.minimize(ROSEN.fun, STARTS, **given)
    for i, start in enumerate(STARTS):
        same(many.row(i), st.minimize(ROSEN.fun, start, **given))


@METHOD
def test_float32_stays_in_the_box_of_float32(method):
    bounds = [(-1.5, 0.7), (-0.3, 0.1)]  # 0.7 and 0.1 are no float32
    low, high = limits_of(bounds, 2)  # to the user's own numbers, which float32 must not pass
    x0, fun = BOOTH.x0.astype(np.float32), Recorded(BOOTH.fun)
    res = st.minimize(fun, x0, method=method, bounds=bounds, **derivatives(BOOTH, method))
    assert res.success
    assert all(x.dtype == res.x.dtype == np.float32 and inside(x, low, high) for x in fun.points)
    nearest = high.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-1))
    np.testing.assert_array_equal(res.x, np.where(nearest.astype(float) > high, below, nearest))
    assert (rounded(-high, -low, np.float32)[0] >= -high).all()  # from below, too


OPEN = [(-INF, 0.8), (-1, INF)]
FORMS = [
    ([(None, 0.8), (-1, None)], OPEN), (Bounds([-INF, -1], [0.8, INF]), OPEN), (np.array(OPEN), OPEN),
    (Bounds(-1.5, [0.8, 2.0]), [(-1.5, 0.8), (-1.5, 2.0)]), (iter(OPEN), OPEN),
    (Bounds(), None), ([(None, None)] * 2, None),
]  # fmt: skip


@pytest.mark.parametrize(("form", "plain"), FORMS)
def test_forms_and_infinite_bounds_are_none(form, plain):
    a = st.minimize(ROSEN.fun, ROSEN.x0, jac=ROSEN.grad, bounds=form)
    same(a, st.minimize(ROSEN.fun, ROSEN.x0, jac=ROSEN.grad, bounds=plain))


WRONG = [
    [(0, 1)], [(0, 1)] * 3, (), 0.0, ["ab", "cd"], [(0, 1), None], [(0, 1), (0, 1, 2)], [(1, 0), (0, 1)],
    [(0, 1), (NAN, 1)], [(INF, INF), (0, 1)], [(-INF, -INF), (0, 1)], np.zeros((2, 3)), np.zeros((4, 2, 2)),
    [(0, 1j), (0, 1)], [("a", "b"), (0, 1)], Bounds([0, 0, 0], [1, 1, 1]), {"low": 0},
]  # fmt: skip


def test_wrong_bounds():
    fun = Recorded(ROSEN.fun)
    for bounds, x0 in itertools.product(WRONG, ROWS.values()):
        with pytest.raises((ValueError, TypeError), match=r"^bounds: expected"):
            st.minimize(fun, x0, jac=ROSEN.grad, bounds=bounds)
    assert not fun.points
    with pytest.raises(ValueError, match=r"got \(2, 1\) for variable 1"):
        st.minimize(ROSEN.fun, ROSEN.x0, jac=ROSEN.grad, bounds=[(0, 1), (2, 1)])


@pairs(method=METHODS, jac=("2-point", "3-point", "cs", "up", "down"))
def test_with_all_variables_fixed_one_value_is_enough(method, jac):
    bounds, sign = [(0.5, 0.5), (2.0, 2.0)], -1.0 if jac == "down" else 1.0
    known = {"jac": lambda x: sign * ROSEN.grad(x), "hess": lambda x: sign * ROSEN.hess(x)}
    given = known if jac in ("up", "down") else {"jac": jac}
    fun = lambda x: sign * ROSEN.fun(x)  # noqa: E731
    res = st.minimize(fun, [5.0, 5.0], method=method, bounds=bounds, **given)
    theirs = scipy.optimize.minimize(seen(fun), [5.0, 5.0], method="L-BFGS-B", bounds=bounds)
    assert (res.status, res.nit, res.nfev, res.fun) == (Status.CONVERGED, 0, theirs.nfev, theirs.fun)
    np.testing.assert_array_equal(res.x, theirs.x)


FIVE = rosenbrock(5, (0.3, -0.4, 0.5, 0.2, -0.1))
PARTLY = [(-1, 1), (-0.4, -0.4), (-2, 2), (0.2, 0.2), (-0.1, -0.1)]
"""Two free variables, three fixed at the start's own values."""


def freed(x):
    whole = np.array(np.broadcast_to(FIVE.x0, (*np.shape(x)[:-1], 5)), dtype=np.asarray(x).dtype)
    whole[..., [0, 2]] = x
    return whole


@pytest.mark.bits  # the functions of five and of two variables would be moved differently
@pairs(method=("gd", "newton", "bfgs", "cgd", "cgd-fd"), rows=(None, 3), jac=("2-point", "3-point", "cs"))
def test_a_fixed_variable_costs_no_difference(method, rows, jac):
    x0, fun = FIVE.x0, Recorded(FIVE.fun)
    x0 = x0 if rows is None else x0 + np.outer(np.arange(rows), [0.1, 0, 0.1, 0, 0])
    given = {"method": method, "jac": jac, "step": 1e-3, "budget": st.Budget(iters=6)}
    res = st.minimize(fun, x0, bounds=PARTLY, trace="x", **given)
    small = st.minimize(lambda x: FIVE.fun(freed(x)), x0[..., [0, 2]], bounds=PARTLY[:3:2], **given)
    np.testing.assert_array_equal(res.nfev, small.nfev)
    np.testing.assert_array_equal(res.njev, small.njev)
    np.testing.assert_allclose(res.x[..., [0, 2]], small.x, rtol=1e-6)
    assert np.sum(res.nfev) == len(fun.points)
    assert (np.array(fun.points)[:, [1, 3, 4]] == FIVE.x0[[1, 3, 4]]).all()
    assert res.trace.x.shape[-1] == 5


@pytest.mark.parametrize("jac", ["2-point", FIVE.grad, True], ids=str)
def test_the_gradient_of_a_fixed_variable_is_reported_as_scipy_does(jac):
    """NaN where differences were not taken; a gradient that was given is given back whole."""
    fun = (lambda x: (FIVE.fun(x), FIVE.grad(x))) if jac is True else FIVE.fun
    res = st.minimize(fun, FIVE.x0, jac=jac, bounds=PARTLY)
    given = {"method": "L-BFGS-B", "bounds": PARTLY, "options": {"gtol": 1e-9, "ftol": 1e-15}}
    theirs = scipy.optimize.minimize(fun, FIVE.x0, jac=jac, **given)
    assert res.success
    np.testing.assert_array_equal(np.isnan(res.jac), np.isnan(theirs.jac))
    np.testing.assert_allclose(res.jac, theirs.jac, atol=2e-4, rtol=1e-4)
    np.testing.assert_allclose(res.x, theirs.x, atol=1e-5)


def test_fixed_variables_take_no_part_in_a_hessian_made_of_products():
    grad = Recorded(FIVE.grad)
    res = st.minimize(FIVE.fun, FIVE.x0, jac=grad, method="newton", bounds=PARTLY, budget=st.Budget(iters=1))
    assert res.hvp_source == "difference"
    assert len(grad.points) == res.njev == 1 + 2 + 1  # ∇f, two columns, ∇f


def test_equal_bounds_that_float32_cannot_hold_fix_the_variable():
    """Rounded inwards they cross; the variable must seem to be at rest all the same."""
    at, grad = 1e6 + 0.1, lambda x: 2 * (x - 1)
    x0, bounds = np.array([at, 2.0], dtype=np.float32), [(at, at), (-5, 5)]
    res = st.minimize(lambda x: ((x - 1) ** 2).sum(), x0, jac=grad, bounds=bounds, gtol=1e-4)
    assert res.status is Status.CONVERGED
    assert res.x[1] == pytest.approx(1.0, abs=1e-4)


@METHOD
def test_a_start_outside_is_projected_and_one_at_a_vertex_leaves_it(method):
    given = {"method": method, "bounds": CUT, "budget": st.Budget(iters=9)} | derivatives(ROSEN, method)
    same(st.minimize(ROSEN.fun, [7.0, -9.0], **given), st.minimize(ROSEN.fun, [0.8, -1.0], **given))
    given = {"method": method, "bounds": [(-3, 5), (-3, 2)]} | derivatives(BOOTH, method)
    for start in ([-3.0, -3.0], [5.0, 2.0], [-3.0, 2.0]):
        # on the edge v = 2 the function is (u − 3)² + (2u − 3)²
        np.testing.assert_allclose(st.minimize(BOOTH.fun, start, **given).x, [1.8, 2.0], atol=1e-5)


def logarithm(x):
    assert (x > 0).all()
    return float((3 * x - np.log(x)).sum())


TROUBLE = {
    "undefined outside": (
        logarithm, lambda x: 3 - 1 / x, lambda x: np.diag(1 / (x * x)), [0.5, 0.1], [(0.5, 2), (0.1, 5)],
        [0.5, 1 / 3],
    ),
    "unbounded outside": (
        lambda x: float(-x[0] * x[0] * x[0] + x[1] * x[1]), lambda x: np.array([-3 * x[0] * x[0], 2 * x[1]]),
        lambda x: np.diag([-6 * x[0], 2.0]), [0.1, 0.5], [(-1, 2), (-1, 1)], [2.0, 0.0],
    ),
    "bent down, and held by a slope of 10": (
        lambda x: float(10 * x[0] - x[0] * x[0] + x[1] * x[1]), lambda x: np.array([10 - 2 * x[0], 2 * x[1]]),
        lambda x: np.diag([-2.0, 2.0]), [0.0, 0.0], [(0, 1), (-1, 1)], [0.0, 0.0],
    ),
    "held at 1e6, where f falls": (
        lambda x: float(-x[0] + (x[1] - 1) ** 2), lambda x: np.array([-1.0, 2 * (x[1] - 1)]),
        lambda x: np.diag([0.0, 2.0]), [1e6, 1.0], [(None, 1e6), (None, None)], [1e6, 1.0],
    ),
}  # fmt: skip


@pairs(method=METHODS, name=TROUBLE)
def test_a_minimum_at_a_bound_beyond_which_f_is_no_use(method, name):
    fun, jac, hess, x0, bounds, least = TROUBLE[name]
    res = st.minimize(fun, x0, method=method, jac=jac, hess=hess, bounds=bounds)
    assert res.status is Status.CONVERGED
    np.testing.assert_allclose(res.x, least, atol=1e-5)
    assert res.nit == 0 or x0 != least


SADDLES = [
    ([(-1, 1), (-1, 1.2)], {1.2, -1.0}),  # the minima at ±√2 are cut off on both sides
    ([(-1, 1), (0, 2)], {2**0.5}),  # the start is on the bound: one way only
    ([(-1, 1), (-2, 0)], {-(2**0.5)}),
    ([(-1, 1), (0, 0)], {0.0}),  # there is no way down
]


@pytest.mark.parametrize(("bounds", "ends"), SADDLES)
def test_a_start_at_a_saddle(bounds, ends):
    p = saddle("saddle", (0.0, 0.0))
    res = st.minimize(p.fun, p.x0, jac=p.grad, bounds=bounds)
    assert res.status == Status.CONVERGED
    assert min(abs(res.x[1] - end) for end in ends) <= 1e-5
    assert abs(res.x[0]) <= 1e-5


@pairs(method=METHODS, slope=(NAN, INF, -INF))
def test_a_gradient_that_is_not_finite_at_a_bound(method, slope):
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
    given = {"jac": lambda x: np.array([1e-6]), "gtol": 1e-9, "budget": st.Budget(iters=0)}
    res = st.minimize(lambda x: 1e-6 * float(x[0]), [1e12], bounds=[(0, None)], **given)
    assert (res.status, res.trace.gnorm[0]) == (Status.MAX_ITERATIONS, pytest.approx(1e-6))


@pytest.mark.parametrize("jac", ["2-point", "3-point"])
def test_differences_at_a_bound_find_what_lies_just_inside(jac):
    res = st.minimize(lambda x: 1000 * (x[0] - 1e-6) ** 2, [0.0], jac=jac, bounds=[(0, None)])
    assert res.x[0] == pytest.approx(1e-6, rel=1e-3)


def test_a_way_down_beside_bounds_that_the_gradient_does_not_survive():
    def fun(x):
        return x[0] ** 2.5 + x[1] ** 2.5 - x[2] ** 2 + x[2] ** 4

    def jac(x):
        return np.array([2.5 * x[0] * np.sqrt(x[0]), 2.5 * x[1] * np.sqrt(x[1]), -2 * x[2] + 4 * x[2] ** 3])

    res = st.minimize(fun, np.zeros(3), jac=jac, bounds=[(0, None), (0, None), (-1, 1)])
    assert res.fun == pytest.approx(-0.25, abs=1e-6)


def test_xtol_goes_by_how_far_x_has_really_moved():
    """From 0.5 the first step would be 5 long; the bound lets it be 1e-9."""
    given = {"jac": lambda x: np.array([10.0]), "method": "gd", "step": 0.5, "gtol": 0.0, "xtol": 1e-6}
    res = st.minimize(lambda x: 10 * float(x[0]), [0.5], bounds=[(0.5 - 1e-9, None)], **given)
    assert (res.status, res.nit) == (Status.XTOL, 1)


def in_a_box(n, condition, seed):
    """Return f and ∇f of a convex quadratic, its Hessian, and a box with a point in it."""
    random = np.random.default_rng([n, seed])
    turned, _ = np.linalg.qr(random.standard_normal((n, n)))
    H = turned * np.geomspace(1, condition, n) @ turned.T
    b = random.standard_normal(n) * np.sqrt(condition)
    low, high = -random.uniform(0.05, 1, n), random.uniform(0.05, 1, n)
    return lambda x: 0.5 * x @ H @ x - b @ x, lambda x: H @ x - b, H, low, high, random.uniform(low, high)


def test_a_step_goes_to_the_minimum_of_the_model_in_the_box():
    """By SciPy's solver for bounded linear least squares; its active sets may cycle, then it is a descent."""
    exact = []
    for n, seed in itertools.product((2, 3, 5, 8), range(25)):
        _, grad, H, low, high, x = in_a_box(n, 100, seed)
        G, g, root = np.linalg.inv(H), grad(x), np.linalg.cholesky(H).T
        box = space_of(Bounds(low, high), x)
        p = box.downhill(lambda v, G=G: G @ v, lambda G=G: np.diag(G), x, g)
        assert inside(x + p, low - 1e-12, high + 1e-12)
        assert g @ p < 0
        least = scipy.optimize.lsq_linear(root, np.linalg.solve(root.T, -g), (low - x, high - x), tol=1e-14)
        exact.append(np.allclose(p, least.x, atol=1e-5))
    assert np.mean(exact) >= 0.95


def test_cgd_auto_in_a_box_where_f_is_quadratic():
    """The second box took 31 evaluations where variables that a step had put to a bound stayed there."""
    ours, theirs = [], []
    for n, condition, seed in itertools.product((2, 5, 10), (10, 1e3, 1e5), range(4)):
        fun, grad, _, low, high, x = in_a_box(n, condition, seed)
        given = {"jac": grad, "bounds": Bounds(low, high)}
        res, peer = st.minimize(fun, x, **given), scipy.optimize.minimize(fun, x, method="L-BFGS-B", **given)
        assert res.success
        assert res.fun <= peer.fun + 1e-7 * abs(peer.fun)
        ours.append(res.nfev)
        theirs.append(peer.nfev)
    assert sum(ours) <= 0.8 * sum(theirs)
