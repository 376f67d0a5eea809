"""Differences over given intervals: lengths, points, counts, boxes, and what a complex step drops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from steepen.differences.finite_differences import DifferenceOptions
from steepen.questions import Denied, Value, Values
from steepen.space import space_of
from steepen.status import Status

from .answers import Driver, adaptive_of, answered, arrived, gradient_of, run_at

EPS = 2.0**-52
SCHEMES = ("2-point", "3-point", "cs")


def smooth(x):
    return (np.arange(1, len(x) + 1) * (x - 1.3) ** 2).sum() + np.exp(0.3 * x).sum()


def slopes(x):
    return 2 * np.arange(1, len(x) + 1) * (x - 1.3) + 0.3 * np.exp(0.3 * x)


def made(x, adapts, scheme="2-point", bounds=None):
    return adaptive_of(x, bounds) if adapts else gradient_of(x, scheme, bounds)


START = np.array([0.4, -2.0, 8.0])


@pytest.mark.parametrize(("scheme", "error"), [("2-point", 1e-6), ("3-point", 1e-9), ("cs", 1e-14)])
def test_a_gradient_is_right_and_takes_its_number_of_values(scheme, error):
    driver = Driver(smooth)
    g, unknown = driver(gradient_of(START, scheme).gradient(START, smooth(START)))
    np.testing.assert_allclose(g, slopes(START), rtol=error)
    assert unknown is None
    assert (driver.nfev, driver.njev, driver.rounds) == (6 if scheme == "3-point" else 3, 1, 1)
    assert driver.nfev == gradient_of(START, scheme).cost
    driver = Driver(smooth)  # where f is not known, only forward differences need it
    again, _ = driver(gradient_of(START, scheme).gradient(START))
    assert np.array_equal(again, g)
    assert driver.nfev == {"2-point": 4, "3-point": 6, "cs": 3}[scheme]


def test_intervals_are_those_of_scipy():
    x = np.array([0.0, -0.5, 3.0, -20.0])
    away = np.array([1, -1, 1, -1])
    for scheme, power in (("2-point", 1 / 2), ("3-point", 1 / 3)):
        expected = EPS**power * np.array([1, 1, 3, 20]) * away
        np.testing.assert_allclose(DifferenceOptions().intervals(scheme, x, EPS), expected, rtol=1e-15)
    asked = DifferenceOptions(eps=np.array(1e-3)).intervals("2-point", x, EPS)
    assert np.array_equal(asked, np.full(4, 1e-3))
    usual = EPS**0.5 * away[0]
    relative = DifferenceOptions(rel_step=np.array(1e-3)).intervals("2-point", x, EPS)
    np.testing.assert_allclose(relative, [usual, -5e-4, 3e-3, -2e-2], rtol=1e-12)
    short = DifferenceOptions(eps=np.array([1e-3, 1e-30, 1e-30, 0.0])).intervals("2-point", x, EPS)
    np.testing.assert_allclose(short[1:], EPS**0.5 * np.array([-1, 3, -20]))


def test_points_are_of_one_question_in_the_order_of_the_variables():
    x = np.array([1.0, 2.0])
    asking = gradient_of(x, "3-point").gradient(x)
    question = next(asking)
    assert isinstance(question, Values)
    assert (question.gradients, question.imaginary) == (1, False)
    moved = np.array(question.points) - x
    assert [np.flatnonzero(row).tolist() for row in moved] == [[0], [0], [1], [1]]
    assert (np.sign(moved.sum(axis=1)) == [1, -1, 1, -1]).all()
    cs = next(gradient_of(x, "cs").gradient(x))
    assert cs.imaginary
    assert np.array_equal(np.real(cs.points), [x, x])
    two = gradient_of(x).gradient(x)
    assert isinstance(next(two), Value)
    assert two.send(5.0).gradients == 1


def test_a_denial_passes():
    asking = gradient_of(START).gradient(START)
    next(asking)
    with pytest.raises(Denied):
        asking.throw(Denied(Status.MAX_EVALUATIONS))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_fixed_variable_has_no_difference(scheme):
    driver, bounds = Driver(smooth), [(None, None), (-2.0, -2.0), (0, 99)]
    gradients = gradient_of(START, scheme, bounds)
    g, _ = driver(gradients.gradient(START, smooth(START)))
    assert g[1] == 0
    assert driver.nfev == (4 if scheme == "3-point" else 2)
    assert all(point[1] == -2.0 for point in driver.points)
    np.testing.assert_allclose(g[[0, 2]], slopes(START)[[0, 2]], rtol=1e-6)
    assert np.isnan(gradients.reported(g)).tolist() == [False, True, False]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_where_all_variables_are_fixed_a_gradient_counts_all_the_same(scheme):
    driver = Driver(smooth)
    g, _ = driver(gradient_of(START, scheme, [(v, v) for v in START]).gradient(START, 1.0))
    assert (driver.nfev, driver.njev, g.tolist()) == (0, 1, [0, 0, 0])


@given(
    some.floats(-1e6, 1e6), some.floats(0, 1e3), some.floats(0, 1), some.floats(1e-12, 1.0),
    some.sampled_from([-1.0, 1.0]), some.booleans(),
)  # fmt: skip
def test_a_difference_fits_its_box_and_has_a_length(low, width, place, h, sign, both: bool):
    high = max(low + width, float(np.nextafter(low, np.inf)))  # at least one float apart
    x = np.array([min(max(low + place * (high - low), low), high)])
    box = space_of([(low, high)], x)
    ahead, back = box.differences(x, np.array([sign * h]), np.array([sign * h / 3]), both)
    up, down = high - x, x - low
    assert ahead != 0
    assert -down <= ahead <= up
    assert 0 <= back <= down
    room = max(up, down)
    assert ahead + back <= room / 40 or room >= h / 3 or high - low < 1e3 * np.spacing(abs(x))
    if not back and room >= h / 3:  # all of it, where one side has the room
        assert abs(ahead) == h / 3


@pytest.mark.parametrize("scheme", ["2-point", "3-point"])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("width", [1.0, 1e-4, 1e-9])
@pytest.mark.parametrize("adapts", [True, False])
def test_a_box_keeps_the_points_and_the_gradient_is_right(scheme, place, width, adapts):
    x = START + 0.0
    bounds = [(v - place * width, v + (1 - place) * width) for v in x]
    driver = Driver(smooth)
    g, _ = driver(made(x, adapts, scheme, bounds).gradient(x, smooth(x)))
    low, high = np.array(bounds).T
    assert all(((low <= point) & (point <= high)).all() for point in driver.points)
    np.testing.assert_allclose(g, slopes(x), rtol=1e-5 if width > 1e-5 else 0.05)


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("adapts", [True, False])
def test_where_f_is_not_finite_on_one_side_the_other_is_taken(side, adapts):
    def fun(x):
        return np.nan if side * (x[0] - 2) > 0 else smooth(x)

    x, driver = np.array([2.0, 3.0]), Driver(fun)
    g, _ = driver(made(x, adapts).gradient(x, fun(x)))
    np.testing.assert_allclose(g, slopes(x), rtol=1e-5)
    assert driver.nfev == (3 if side > 0 else 2)


def test_where_the_other_side_is_out_of_the_box_no_slope_is_found():
    def fun(x):
        return np.nan if x[0] > 2 else smooth(x)

    x, driver = np.array([2.0, 3.0]), Driver(fun)
    g, _ = driver(gradient_of(x, bounds=[(2, 9), (0, 9)]).gradient(x, fun(x)))
    assert np.isnan(g).tolist() == [True, False]
    assert driver.nfev == 2


@pytest.mark.parametrize("scheme", ["2-point", "3-point"])
def test_the_error_that_is_measured_bounds_the_true_one(scheme):
    rng = np.random.default_rng(4)
    for _ in range(50):
        x = rng.uniform(-3, 3, 3)
        gradients, f = gradient_of(x, scheme), smooth(x)
        g, _ = answered(gradients.gradient(x, f), smooth)
        driver = Driver(smooth)
        error = driver(gradients.error(x, f, g, 0.0))
        assert (abs(g - slopes(x)) <= 3 * error).all()
        assert error.max() < 1e-5 * abs(f) ** 0.5
        assert driver.njev == 0
        assert driver.nfev == (6 if scheme == "3-point" else 3)


@pytest.mark.parametrize("scheme", ["2-point", "3-point"])
def test_a_gradient_of_zero_between_two_rounded_values_is_made_again(scheme):
    def fun(x):
        return float(f"{smooth(x):.4g}")

    x = np.array([0.3, 0.71])
    gradients = gradient_of(x, scheme)
    run, _ = arrived(gradients, fun, x)
    assert run.here.g.tolist() == [0, 0]
    driver = Driver(fun)
    g, _ = driver(gradients.recheck(run))
    assert driver.njev == 1
    np.testing.assert_allclose(g, slopes(x), rtol=0.2)
    assert gradients.coarse
    assert gradients.gradient_eps > 1e-5
    assert answered(gradients.error(x, run.here.f, g, 0.0), fun).min() > 1e-4


def test_a_small_gradient_of_a_smooth_function_costs_two_values_at_most():
    x = np.array([1.0, 1.0])
    gradients = gradient_of(x)
    run, _ = arrived(gradients, lambda x: 3 + ((x - 1) ** 2).sum(), x)
    driver = Driver(lambda x: 3 + ((x - 1) ** 2).sum())
    run.here = run.here._replace(g=np.array([0.0, 1e-9]))
    run.gnorm = 1e-9
    assert driver(gradients.recheck(run)) is None
    assert 2 <= driver.nfev <= 17
    run.gnorm, driver = 1.0, Driver(smooth)
    assert driver(gradients.recheck(run)) is None
    assert driver.nfev == 0


def test_in_single_precision_points_and_gradient_are_so_too():
    x = np.array([0.5, 2.0], dtype=np.float32)
    gradients, driver = gradient_of(x), Driver(smooth)
    g, _ = driver(gradients.gradient(x, smooth(x)))
    assert g.dtype == np.float32
    assert all(point.dtype == np.float32 for point in driver.points)
    np.testing.assert_allclose(g, slopes(x), rtol=1e-2)
    assert gradients.coarse


# --- what a complex step drops ----------------------------------------------------------------------------


def dropped(x):
    return (x[0] - 1) ** 2 + 3 * abs(x[1] - 2) + 0j


@pytest.mark.parametrize("bounds", [None, [(0, 9), (5, 9)], [(0, 9), (0, 5)], [(0, 9), (5, 5 + 1e-9)]])
def test_a_complex_step_through_abs_is_refused(bounds):
    x = np.array([3.0, 5.0])
    with pytest.raises(ValueError, match=r'fun: .*x\[1\].*jac="cs".*sqrt\(x\*x\).*"2-point"'):
        arrived(
            gradient_of(x, "cs", bounds), lambda x: dropped(x) if np.iscomplexobj(x) else dropped(x).real, x
        )


def test_a_slope_that_is_zero_is_not_refused():
    """A stationary variable, one that f does not read, a cubic's saddle, a corner, and sin x − x."""
    functions = [
        lambda x: (x[0] - 1) ** 2 + (x[1] - 5) ** 2,
        lambda x: (x[0] - 1) ** 2 + 0 * x[1],
        lambda x: (x[0] - 1) ** 2 - 1e9 * np.cos(x[1] - 5),
        lambda x: x[0] ** 2 + (np.real(x[1]) - 5) ** 2 + 0j,
        lambda x: x[0] ** 2 + np.sin(x[1] - 5) - (x[1] - 5),
        lambda x: 1e-300 * x[0] + np.sin(x[1] - 5) - (x[1] - 5),
        lambda x: (x[0] - 1) ** 2 + (x[1] - 5) * (np.real(x[1]) > 5),
    ]
    x = np.array([3.0, 5.0])
    for fun in functions:
        run, driver = arrived(gradient_of(x, "cs"), fun, x)
        assert run.here.g[1] == 0
        assert driver.njev == 1
        assert driver.nfev <= 2 + 3


def test_at_a_bound_a_bend_is_no_slope():
    x = np.array([3.0, 5.0])
    run, _ = arrived(gradient_of(x, "cs", [(0, 9), (5, 9)]), lambda x: x[0] ** 2 + 1e6 * (x[1] - 5) ** 2, x)
    assert run.here.g[1] == 0


def test_a_complex_step_that_is_followed_costs_nothing_more():
    run, driver = arrived(gradient_of(START, "cs"), smooth, START)
    np.testing.assert_allclose(run.here.g, slopes(START), rtol=1e-14)
    assert driver.nfev == 3
    zero = np.array([1.0, 5.0])  # and later on, a slope of 0 is not looked at
    run, driver = arrived(gradient_of(zero, "cs"), lambda x: (x[0] - 1) ** 2 + x[1] * x[1], zero, k=1)
    assert (run.here.g[0], driver.nfev) == (0, 2)


def test_what_it_is_for_a_run():
    gradients = gradient_of(START, "cs")
    assert not gradients.given
    assert gradients.exact
    assert not gradients.coarse
    assert gradients.gradient_eps == EPS
    forward = gradient_of(START)
    assert not forward.exact
    assert forward.gradient_eps == EPS ** (2 / 3)
    assert forward.curvature is None
    assert "kink" in forward.sentence(Status.LINE_SEARCH_FAILED)
    assert forward.sentence(Status.CONVERGED) == Status.CONVERGED.sentence
    assert forward.trusts(run_at(START, 1.0))
