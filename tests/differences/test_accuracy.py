"""When differences become central and forward again, what they count, and which ends values can show."""

import dataclasses
import itertools

import numpy as np
import pytest

import steepen as st
from steepen.questions import Denied, Point, Values
from steepen.status import Status

from .answers import Driver, adaptive_of, arrived


def bowl(x):
    return 1 + (np.arange(1, len(x) + 1) * (x - 1) ** 2).sum()


def slopes(x):
    return 2 * np.arange(1, len(x) + 1) * (x - 1)


def rough(x, level):
    """Return what spoils a value: the same number for the same point, and any other for the next."""
    seed = 43758.5453 * np.sin(1e6 * (np.asarray(x) * np.arange(1, x.shape[-1] + 1)).sum(axis=-1))
    return 1 + level * (2 * (seed - np.floor(seed)) - 1)


def test_a_start_costs_two_values_more_and_later_iterates_none():
    x = np.array([3.0, 2.0, -1.0])
    gradients = adaptive_of(x)
    run, driver = arrived(gradients, bowl, x)
    assert (driver.nfev, driver.njev, run.fresh) == (5, 1, False)
    np.testing.assert_allclose(run.here.g, slopes(x), rtol=1e-6)
    assert (abs(run.here.g - slopes(x)) <= run.here.error).all()
    _, driver = arrived(gradients, bowl, 0.9 * x, k=1, f_before=bowl(x))
    assert (driver.nfev, driver.njev) == (3, 1)


def test_a_start_whose_variables_differ_in_size_is_surveyed():
    """By one gradient; small slopes there are not trusted, since f may have waves that are shorter."""
    x = np.array([3.0, 2e-4])

    def fun(x):
        return 1 + (x[0] - 1) ** 2 + (x[1] / 1e-4 - 1) ** 2

    gradients = adaptive_of(x)
    run, driver = arrived(gradients, fun, x)
    assert (driver.nfev, driver.njev) == (2 + 4, 1)
    np.testing.assert_allclose(run.here.g, [4, 2e4], rtol=1e-3)
    np.testing.assert_allclose(gradients.curvature, [2, 2e8], rtol=1e-2)
    run, driver = arrived(adaptive_of(x), lambda x: 1 + 1e-8 * (x[0] + x[0] ** 2) + 0 * x[1], x)
    assert driver.njev >= 1
    assert driver.nfev > 2 + 4


def test_a_survey_whose_gradient_is_small_is_not_trusted():
    """f may have waves that are shorter: over another length they may show."""

    def fun(x):
        return 1 + 1e-9 * x[0] + 1e-11 * (x[1] / 1e-4) ** 2

    x, survey = np.array([3.0, 2e-4]), Driver(fun)
    g, _, fine = survey(adaptive_of(x).survey(x, fun(x)))
    assert fine
    assert np.linalg.norm(g) < 1e-5
    run, driver = arrived(adaptive_of(x), fun, x)
    assert driver.nfev >= 2 + survey.nfev + 2
    assert not np.array_equal(run.here.g, g)


def test_noise_makes_differences_central_before_they_hide_the_gradient():
    level = 1e-6

    def fun(x):
        return bowl(x) * rough(x, level)

    x = np.array([3.0, 2.0])
    gradients = adaptive_of(x)
    arrived(gradients, fun, x)
    assert 0.1 * level < gradients.known.noise / bowl(x) < 2 * level
    gradients.set_curvature(np.array([2.0, 4.0]))
    assert not gradients.known.central
    run, _ = arrived(gradients, fun, np.array([2.9, 2.0]), k=1, f_before=fun(x))
    assert not run.fresh
    run, _ = arrived(gradients, fun, np.array([1.2, 1.1]), k=2, f_before=fun(np.array([1.2, 1.1])) + 1e-7)
    assert run.fresh
    assert gradients.known.central
    assert np.linalg.norm(run.here.g - slopes(np.array([1.2, 1.1]))) < 0.1


def test_noise_is_measured_again_where_f_has_changed():
    x = np.array([30.0, 20.0])
    gradients = adaptive_of(x)
    fun = lambda x: bowl(x) * rough(x, 1e-8)  # noqa: E731
    arrived(gradients, fun, x)
    before = gradients.known.noise
    _, driver = arrived(gradients, fun, np.array([29.0, 20.0]), k=1, f_before=fun(x))
    assert driver.nfev == 2
    _, driver = arrived(gradients, fun, np.array([3.0, 2.0]), k=2, f_before=fun(x))
    assert driver.nfev > 2
    assert gradients.known.noise < 0.1 * before


def test_a_gradient_that_its_error_hides_is_made_again_by_central_differences():
    x = np.array([1 + 1e-8, 1.0])
    gradients = adaptive_of(x)
    gradients.set_curvature(np.array([2.0, 4.0]))
    run, driver = arrived(gradients, lambda x: 1e6 * bowl(x), x)
    assert driver.njev == 1 + gradients.known.central
    gradients = adaptive_of(x)
    run, driver = arrived(gradients, lambda x: bowl(x) * rough(x, 1e-6), x)
    assert gradients.known.central
    assert driver.njev == 2
    assert not run.fresh


def test_a_failed_search_gets_central_differences_first():
    x = np.array([3.0, 2.0])
    gradients = adaptive_of(x)
    run, _ = arrived(gradients, bowl, x)
    driver = Driver(bowl)
    assert driver(gradients.improves(run, run.stalled)) == (True, None)
    assert gradients.known.central
    assert driver.nfev == 2  # f may be noisier here than at the start: two values tell


def test_forward_differences_come_back_where_they_would_have_done():
    x = np.array([3.0, 2.0])
    gradients = adaptive_of(x)
    gradients.known.central = True
    run, _ = arrived(gradients, bowl, x)
    gradients.gtol = 1e-9
    gradients.relax(run)
    assert gradients.known.central  # their error is above gtol
    gradients.gtol = 1e-5
    gradients.relax(run)
    assert not gradients.known.central
    gradients.known.noise, gradients.known.central = 1e-3, True
    gradients.relax(run)
    assert gradients.known.central


MINIMUM = np.array([1.0, 1.0, 1.0])


def stopped(fun, x=MINIMUM, slope=-1e-30, f_lower=0.0, **known):
    """Return a run at x with central differences whose search has failed, and its gradients."""
    gradients = adaptive_of(x)
    for name, value in known.items():
        setattr(gradients.known, name, value)
    gradients.known.central = True
    run, _ = arrived(gradients, fun, x, slope=slope)
    run.f_start = run.here.f + 10
    return gradients, run


@pytest.mark.parametrize("x", [MINIMUM, MINIMUM + 1e-9])
def test_a_run_at_a_smooth_minimum_ends_by_rounding_or_its_differences(x):
    gradients, run = stopped(bowl, x)
    driver = Driver(bowl)
    assert driver(gradients.ends(run)) in (Status.ROUNDOFF, Status.FD_LIMIT)
    assert driver.nfev == 4
    assert driver.njev == 0
    assert Driver(bowl)(gradients.improves(run, run.stalled)) == (False, Status.FD_LIMIT)
    run.slope = -1.0
    driver = Driver(bowl)
    assert driver(gradients.ends(run)) is None
    assert driver.nfev == 0


def test_what_hides_the_decrease_names_the_end():
    """An error of the differences that is larger than ∇f, or the rounding of f."""
    gradients, run = stopped(bowl, MINIMUM + 1e-9)
    for error, status in ((1e-12, Status.ROUNDOFF), (1e-7, Status.FD_LIMIT)):
        run.here = run.here._replace(g=np.full(3, 1e-9), error=np.full(3, error))
        assert Driver(bowl)(gradients.ends(run)) is status


def test_a_run_elsewhere_does_not_end():
    gradients, run = stopped(bowl, np.array([3.0, 2.0, 1.0]))
    assert Driver(bowl)(gradients.ends(run)) is None
    better, status = Driver(bowl)(gradients.improves(run, run.stalled))
    assert (better, status) == (False, None)


def test_a_run_at_a_kink_does_not_end():
    def fun(x):
        return 1 + abs(x - 1).sum()

    gradients, run = stopped(fun)
    assert Driver(fun)(gradients.ends(run)) is None
    assert Driver(fun)(gradients.improves(run, run.stalled))[1] is None


def test_noise_names_the_end():
    rng = np.random.default_rng(0)
    fun = lambda x: bowl(x) + 1e-6 * rng.uniform(-1, 1)  # noqa: E731
    ends = []
    for _ in range(20):
        gradients, run = stopped(fun)
        run.stalled = True
        ends += [Driver(fun)(gradients.ends(run)), Driver(fun)(gradients.improves(run, run.stalled))[1]]
    assert set(ends) <= {None, Status.NOISE}
    assert ends.count(Status.NOISE) >= 10


def test_few_digits_name_the_end():
    fun = lambda x: round(float(bowl(x)), 5)  # noqa: E731
    gradients, run = stopped(fun)
    assert gradients.known.resolution == pytest.approx(1e-5, rel=1e-2)
    assert Driver(fun)(gradients.ends(run)) is Status.RESOLUTION
    assert Driver(fun)(gradients.improves(run, run.stalled)) == (False, Status.RESOLUTION)


def test_noise_that_was_overlooked_is_found_where_a_search_fails():
    noise = 0.0

    def fun(x):
        return bowl(x) * rough(x, noise)

    gradients, run = stopped(fun, np.array([3.0, 2.0, 1.5]))
    noise = 1e-6
    driver = Driver(fun)
    assert driver(gradients.improves(run, run.stalled)) == (True, None)
    assert driver.nfev == 6
    assert gradients.known.noise > 1e-7
    again = Driver(fun)
    assert again(gradients.improves(run, run.stalled)) == (False, None)  # it is known now
    gradients.known.close = True
    better, lower = Driver(fun)(gradients.improves(run, run.stalled))
    assert not better  # what shows on short lines, too, is no kink, and a model of f leads on
    assert bowl(lower.x) < bowl(run.here.x) - 1e-6


def valley(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


@pytest.mark.parametrize(("x", "size"), [(0.5, 1e-2), (0.7, 1e-3), (0.9, 1e-4)])
def test_on_the_floor_of_a_curved_valley_the_model_leads_on(x, size):
    """Where the direction of the run promises nothing; f is 25 to 100 times the noise above its minimum."""
    led = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        fun = lambda x, rng=rng: valley(x) + size * rng.standard_normal()  # noqa: E731
        gradients, run = stopped(fun, np.array([x, x * x]))
        run.here = run.here._replace(f=valley(run.here.x))
        gradients.known.noise = size
        lower = Driver(fun)(gradients.ends(run))
        led += isinstance(lower, Point) and valley(lower.x) < valley(run.here.x)
    assert led >= 18


def test_the_model_leads_nowhere_from_a_minimum():
    """Rarely chance makes a value lower by three noise levels; the run then comes back."""
    ends = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        fun = lambda x, rng=rng: valley(x) + 1e-3 * rng.standard_normal()  # noqa: E731
        gradients, run = stopped(fun, np.array([1.0, 1.0]))
        run.here = run.here._replace(f=valley(run.here.x))
        gradients.known.noise = 1e-3
        ends.append(Driver(fun)(gradients.ends(run)))
    assert ends.count(Status.NOISE) >= 30


def test_the_model_stays_in_the_box():
    rng = np.random.default_rng(0)

    def fun(x):
        assert 0.45 <= x[0] <= 0.6
        return valley(x) + 1e-2 * rng.standard_normal()

    for start in (0.45, 0.5, 0.6):
        res = st.minimize(fun, [start, 0.3], bounds=[(0.45, 0.6), (0, 1)])
        assert valley(res.x) <= valley([0.6, 0.36]) + 0.2


def test_a_slope_within_gtol_along_a_flat_variable_is_no_reason_to_fail():
    """Noise keeps ∇f above gtol; along x[1] it is far below, and f falls for ever, ever more slowly."""
    for seed in range(10):
        rng = np.random.default_rng(seed)

        def fun(x, rng=rng):
            return (x[0] - 2) ** 2 + np.exp(-x[1]) + 1e-10 * rng.standard_normal()

        res = st.minimize(fun, [0.0, 1.0])
        assert res.success
        assert abs(res.jac[1]) <= 1e-4


def test_a_drift_is_no_noise():
    """Every value is higher than the one before: nothing is ever lower, and that proves nothing."""
    for step in (1e-3, 1e-2):
        count = itertools.count()
        res = st.minimize(lambda x, count=count, step=step: bowl(x) + step * next(count), [0.0, 0.0, 0.0])
        assert not res.success or bowl(res.x) <= 1 + 1e-4


def test_few_digits_at_the_start_are_not_those_at_the_end():
    """Values are rounded to 4 digits, and below 2 to 8: differences smaller than a step refute the step."""
    for start in ([0.0, 0.0, 0.0], [5.0, -3.0, 2.0]):
        res = st.minimize(lambda x: float(f"{bowl(x):.{4 if bowl(x) > 2 else 8}g}"), start)
        assert not res.success or bowl(res.x) - 1 < 1e-4


def test_a_slope_at_a_bound_is_not_taken_for_few_digits():
    """A component of ∇f is 0, and f is steep along a variable at its bound: values on a line may differ."""
    H = np.array([[30.0, 3.0, 1.0], [3.0, 2.0, 0.5], [1.0, 0.5, 5.0]])
    for seed in range(40):
        rng = np.random.default_rng(seed)
        middle, low = rng.uniform(-2, 2, 3), rng.uniform(-2, 0, 3)
        res = st.minimize(
            lambda x, middle=middle: 100 + 0.5 * (x - middle) @ H @ (x - middle),
            rng.uniform(low, low + 0.5),
            bounds=list(zip(low, low + 0.5, strict=True)),
        )
        assert res.success
        assert res.status is not Status.RESOLUTION


def test_a_small_gradient_is_trusted_within_its_error():
    gradients, run = stopped(bowl, MINIMUM + 1e-6)
    assert gradients.trusts(run)
    run.here = run.here._replace(error=np.full(3, 1.0))
    assert not gradients.trusts(run)
    run.here = run.here._replace(error=np.full(3, 1e-4))
    assert gradients.trusts(run)  # as much as a thousand times gtol
    run.here = run.here._replace(g=np.array([0.0, 1e-6, 1e-6]))
    assert not gradients.trusts(run)  # f may be quantised
    run.here = run.here._replace(g=np.full(3, 1e-6), error=None)  # a step that made ∇f knows no error
    assert gradients.trusts(run)
    gradients.known.resolution = 1e-3
    assert not gradients.trusts(run)


def test_an_error_counts_as_far_as_the_box_lets_it_move_x():
    x = np.array([1.0, 2.0])
    gradients = adaptive_of(x, bounds=[(1, 9), (0, 9)])
    for g in (1.0, -1.0):
        run, _ = arrived(gradients, lambda x, g=g: 5 + g * x[0] + (x[1] - 2) ** 2, x)
        for error in (1.0, -1.0):
            run.here = run.here._replace(error=np.array([error, 0.0]))
            assert not gradients.trusts(run)


def test_the_rise_of_f_over_a_move_is_that_of_its_known_bends():
    x = np.array([3.0, 0.1, 5.0])
    gradients = adaptive_of(x)
    gradients.set_curvature(np.array([2.0, 6.0, np.nan]))
    assert gradients.rise(x) == 0.5 * (2 * 9 + 6 * 1)


def test_in_a_box_what_is_held_predicts_no_decrease():
    x = np.array([1.0, 2.0])
    gradients = adaptive_of(x, bounds=[(1, 9), (0, 9)])
    gradients.set_curvature(np.array([2.0, 4.0]))
    g, error = np.array([3.0, 2.0]), np.array([1.0, 0.1])
    assert gradients.decreases(x, 1.0, g, error) == (1.0, pytest.approx(0.0025))
    assert gradients.decreases(x, 1.0, -g, error)[0] == 9 / 2 + 1


def test_what_is_handed_on_is_in_one_record():
    """Saved by name and put into another object, it makes the same gradients."""
    x, y = np.array([3.0, 2.0, -1.0]), np.array([1.5, 2.0, 0.0])
    fun = lambda x: bowl(x) * rough(x, 1e-7)  # noqa: E731
    one, other = adaptive_of(x), adaptive_of(x)
    arrived(one, fun, x)
    saved = {field.name: getattr(one.known, field.name) for field in dataclasses.fields(one.known)}
    assert all(isinstance(value, float | bool | np.ndarray) for value in saved.values())
    other.known = type(one.known)(**saved)
    found = [arrived(each, fun, y, k=1, f_before=fun(x)) for each in (one, other)]
    assert np.array_equal(found[0][0].here.g, found[1][0].here.g)
    assert np.array_equal(found[0][1].points, found[1][1].points)


@pytest.mark.parametrize("question", range(3))
def test_a_denial_passes_through_every_question_of_a_start(question):
    x = np.array([3.0, 2e-4])
    fun = lambda x: 1e-3 * bowl(x / [1, 1e-4]) + abs(x[0])  # noqa: E731
    asking = adaptive_of(x).arrive(arrived(adaptive_of(x), fun, x)[0])
    asked = next(asking)
    for _ in range(question):
        assert isinstance(asked, Values)
        asked = asking.send([fun(p) for p in asked.points])
    with pytest.raises(Denied):
        asking.throw(Denied(Status.MAX_EVALUATIONS))
