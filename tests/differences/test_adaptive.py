"""Intervals that follow the noise and the bends of f, their errors, and surveys of f″."""

import numpy as np
import pytest

from .answers import Driver, adaptive_of, answered, arrived

EPS = 2.0**-52


def smooth(x):
    return 2 + (np.arange(1, len(x) + 1) * (x - 1.3) ** 2).sum() + np.exp(0.3 * x).sum()


def slopes(x):
    return 2 * np.arange(1, len(x) + 1) * (x - 1.3) + 0.3 * np.exp(0.3 * x)


def bends(x):
    return 2 * np.arange(1, len(x) + 1) + 0.09 * np.exp(0.3 * x)


@pytest.mark.parametrize("noise", [0.0, 1e-10, 1e-6])
@pytest.mark.parametrize("bend", [1e-3, 1.0, 1e3])
def test_a_forward_difference_has_the_best_length(noise, bend):
    """2√(ε_f/|f″|), where that is within bounds; twice as long or half as long, its error is larger."""
    x, f = np.array([1.5, -2.0]), 3.0
    gradients = adaptive_of(x)
    gradients.known.noise = noise
    gradients.set_curvature(np.full(2, bend))
    ahead, back = gradients.intervals(x, f, False)
    expected = 2 * np.sqrt(max(noise, 3 * EPS) / bend)
    np.testing.assert_allclose(ahead, [expected, -expected], rtol=1e-6)
    assert (back == 0).all()
    np.testing.assert_allclose(
        gradients.error_of(x, f, False), 2 * np.sqrt(max(noise, 3 * EPS) * bend), rtol=1e-6
    )


def test_a_length_that_is_not_known_is_the_square_root_of_the_error():
    x = np.array([0.0, -30.0])
    gradients = adaptive_of(x)
    np.testing.assert_allclose(gradients.intervals(x, 2.0, False)[0], np.sqrt(EPS) * np.array([1, -30]))
    gradients.known.noise = 2e-8
    np.testing.assert_allclose(gradients.intervals(x, 2.0, False)[0], 1e-4 * np.array([1, -30]))


def test_lengths_stay_within_a_range():
    x, f = np.array([1.0, 1.0]), 1.0
    gradients = adaptive_of(x)
    gradients.set_curvature(np.array([1e-30, 1e40]))
    ahead, _ = gradients.intervals(x, f, False)
    assert ahead[0] == pytest.approx(1e5 * np.sqrt(EPS))
    assert ahead[1] >= 1e-5 * np.sqrt(EPS) * 1e-3


def test_a_central_difference_is_longer_and_goes_both_ways():
    x = np.array([1.5, -2.0])
    gradients = adaptive_of(x)
    gradients.set_curvature(np.array([1.0, 100.0]))
    one, _ = gradients.intervals(x, 3.0, False)
    ahead, back = gradients.intervals(x, 3.0, True)
    assert (ahead >= 8 * abs(one)).all()
    np.testing.assert_allclose(ahead, back, rtol=1e-6)


@pytest.mark.parametrize("central", [False, True])
@pytest.mark.parametrize("level", [0.0, 1e-8])
def test_errors_bound_the_true_ones(central, level):
    """Where |f″| and the noise are known; and they are no more than a few hundred times too large."""
    rng, least, most = np.random.default_rng(1), [], []
    for _ in range(60):
        x = rng.uniform(-3, 3, 4)

        def fun(x):
            return smooth(x) + level * rng.uniform(-1, 1)

        gradients = adaptive_of(x)
        gradients.known.noise = level
        gradients.set_curvature(bends(x))
        gradients.known.central = central
        driver, cost = Driver(fun), gradients.cost
        g, error = driver(gradients.gradient(x, smooth(x)))
        assert (driver.nfev, driver.njev) == (cost, 1) == (8 if central else 4, 1)
        ratio = error / np.maximum(abs(g - slopes(x)), 1e-300)
        least.append(ratio.min())
        most.append(np.median(ratio))
    assert min(least) > 0.9
    assert np.median(most) < 500


def test_central_differences_are_far_better():
    x = np.array([0.3, -1.0, 2.0])
    errors = []
    for central in (False, True):
        gradients = adaptive_of(x)
        gradients.set_curvature(bends(x))
        gradients.known.central = central
        g, error = answered(gradients.gradient(x, smooth(x)), smooth)
        errors.append((abs(g - slopes(x)).max(), error.max()))
    assert errors[1][0] < 1e-2 * errors[0][0]
    assert errors[1][1] < 1e-1 * errors[0][1]


def test_central_differences_show_the_second_derivative():
    x = np.array([0.3, -1.0, 2.0])
    gradients = adaptive_of(x)
    gradients.set_curvature(3 * bends(x))
    gradients.known.central = True
    answered(gradients.gradient(x, smooth(x)), smooth)
    np.testing.assert_allclose(gradients.curvature, bends(x), rtol=1e-2)
    gradients.set_curvature(5 * bends(x))  # a method knows less than that
    np.testing.assert_allclose(gradients.curvature, bends(x), rtol=1e-2)


def test_what_was_learnt_of_f_where_it_does_not_bend_is_forgotten():
    x = np.array([0.5])
    gradients = adaptive_of(x)
    gradients.set_curvature(np.array([1e4]))
    gradients.known.central = True
    answered(gradients.gradient(x, 1.5), lambda x: 1 + x[0])
    assert gradients.curvature[0] < 1e3


def test_only_a_curvature_that_is_positive_and_finite_is_learnt():
    x = np.ones(4)
    gradients = adaptive_of(x)
    assert np.isnan(gradients.curvature).all()
    gradients.set_curvature(np.array([2.0, 3.0, 4.0, 5.0]))
    gradients.set_curvature(np.array([7.0, 0.0, np.nan, np.inf]))
    assert gradients.curvature.tolist() == [7, 3, 4, 5]


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_survey_finds_second_derivatives_and_slopes(scale):
    x = np.array([0.3, -1.0, 2.0]) * scale
    gradients, driver = adaptive_of(x), Driver(lambda x: smooth(x / scale))
    g, error, fine = driver(gradients.survey(x, smooth(x / scale)))
    assert fine
    assert driver.njev == 0
    np.testing.assert_allclose(g, slopes(x / scale) / scale, rtol=1e-3)
    np.testing.assert_allclose(gradients.curvature, bends(x / scale) / scale**2, rtol=0.2)
    assert (abs(g - slopes(x / scale) / scale) <= 3 * error).all()


def test_a_survey_is_made_longer_until_it_shows_a_bend():
    x = np.array([1.0, 1.0])
    gradients = adaptive_of(x)

    def fun(x):
        return 1.0 + 1e-11 * (x[0] - 3) ** 2 + x[1] ** 2

    driver = Driver(fun)
    driver(gradients.survey(x, fun(x)))
    assert driver.rounds == 3
    assert driver.nfev == 4 + 2 + 2
    np.testing.assert_allclose(gradients.curvature, [2e-11, 2], rtol=0.1)
    gradients, driver = adaptive_of(x), Driver(lambda x: 1.0 + x[1] ** 2)
    driver(gradients.survey(x, 2.0))
    assert driver.nfev == 4 + 2 + 2  # the longest is a tenth of the variable
    assert 0 < gradients.curvature[0] < 1e-11


def test_central_differences_survey_what_is_not_known():
    x, driver = np.array([0.3, -1.0, 2.0]), Driver(smooth)
    gradients = adaptive_of(x)
    gradients.known.central = True
    assert gradients.cost == 3 * 10  # at most
    g, _ = driver(gradients.gradient(x, smooth(x)))
    assert (driver.nfev, driver.njev) == (12, 1)
    np.testing.assert_allclose(g, slopes(x), rtol=1e-8)


def test_a_survey_without_room_finds_no_bend():
    x, bounds = np.array([1.0, 2.0]), [(1.0, 1.5), (2.0, 2.0)]
    gradients, driver = adaptive_of(x, bounds=bounds), Driver(smooth)
    *_, fine = driver(gradients.survey(x, smooth(x)))
    assert not fine
    assert driver.nfev == 0
    assert np.isfinite(gradients.curvature).all()  # the one for which the usual intervals are best


@pytest.mark.parametrize("width", [0.2, 0.05, 0.01])
def test_a_box_that_shortens_the_survey_leaves_the_gradient_right(width):
    def fun(x):
        return 1e-3 * x[0] + x[1] + 1e6 * (x[1] - 1e-3) ** 2

    x = np.array([1.0, 1e-3])
    gradients = adaptive_of(x, bounds=[(1 - width, 1 + width), (1e-3 - 1e-6, 1.0)])
    run, _ = arrived(gradients, fun, x)
    assert run.here.g[0] == pytest.approx(1e-3, rel=1e-3)
    assert run.here.g[1] == pytest.approx(1, rel=1e-3)


def kink(x):
    return 1 + abs(x - [1, 2, 3]).sum()


BOXES = [(None, 4), ([(0, 9), (0, 9), (0, 9)], 4), ([(1, 9), (0, 9), (0, 9)], 5)]


@pytest.mark.parametrize(("bounds", "values"), BOXES)
@pytest.mark.parametrize("fun", [smooth, kink])
def test_f_bends_nine_times_as_much_over_three_times_the_way_unless_it_has_a_kink(fun, bounds, values):
    """Along a variable at its bound, the values are taken inside the box."""
    x = np.array([1.0, 2.0, 3.0])
    gradients, driver = adaptive_of(x, bounds=bounds), Driver(fun)
    gradients.set_curvature(np.full(3, 3.0))
    assert driver(gradients.is_smooth(x, float(fun(x)))) is (fun is smooth)
    assert (driver.nfev, driver.rounds, driver.njev) == (values, 1, 0)
    assert values == 4 or driver.points[0][0] > 1
    low = -np.inf if bounds is None else np.array(bounds)[:, 0]
    assert all((point >= low).all() for point in driver.points)


def test_where_f_is_not_finite_no_value_is_wasted():
    x = np.array([1.0, 2.0])
    for f in (np.inf, np.nan):
        gradients, driver = adaptive_of(x), Driver(lambda x, f=f: f)
        gradients.set_curvature(np.array([1.0, 2.0]))
        gradients.known.resolution, gradients.known.central = 1e-3, True
        g, error = driver(gradients.gradient(x))
        assert np.isnan(g).all()
        assert np.isnan(error).all()
        assert (driver.nfev, driver.njev) == (1, 1)
        assert gradients.curvature.tolist() == [1, 2]
