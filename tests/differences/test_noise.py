"""ECnoise, kinks and quantised values on a line, compared with a literal transcription and closed forms."""

from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from steepen.differences.noise import MOST, Line, NoiseModel, ecnoise, is_kink, step_between
from steepen.space import space_of

from .answers import Driver

EPS = 2.0**-52


def transcribed(values):
    """Return the level of Moré and Wild's ECnoise (2011), as their listing has it; 0 where it finds none."""
    m, table, sigma, signs = len(values) - 1, list(values), [], []
    for k in range(1, m + 1):
        table = [table[i + 1] - table[i] for i in range(m + 1 - k)]
        gamma = factorial(k) ** 2 / factorial(2 * k)
        sigma.append((gamma * sum(t * t for t in table) / (m + 1 - k)) ** 0.5)
        signs.append(min(table) * max(table) < 0)
    for k in range(m - 2):
        if max(sigma[k : k + 3]) <= 4 * min(sigma[k : k + 3]) and signs[k]:
            return sigma[k]
    return 0.0


def test_ecnoise_is_that_of_the_listing():
    rng = np.random.default_rng(0)
    t = np.arange(7.0)
    found = 0
    for _ in range(200):
        values = rng.normal(size=7) + rng.normal(scale=100) * t + rng.normal() * t**3
        assert ecnoise(values) == pytest.approx(transcribed(values), rel=1e-9)
        found += ecnoise(values) > 0
    assert 50 < found < 200


def test_the_level_is_the_standard_deviation_and_smooth_functions_have_none():
    values = np.random.default_rng(1).uniform(-1, 1, (2000, 7)) + 50 * np.arange(7)
    levels = np.array([ecnoise(row) for row in values]) * 3**0.5
    assert np.mean(levels > 0) > 0.99
    assert 0.9 < np.median(levels) < 1.1
    assert np.quantile(levels, 0.01) > 0.2
    for smooth in (np.arange(7.0) ** 2, np.exp(1e-3 * np.arange(7)), 3.0 * np.arange(7), np.zeros(7)):
        assert ecnoise(smooth) < 1e-9


def test_values_that_are_not_finite_have_no_level():
    with np.errstate(all="ignore"):
        assert not ecnoise(np.array([1.0, np.nan, 3.0, 1.0, 2.0, 1.0, 3.0])) > 0
        assert not 0 < ecnoise(np.array([1.0, np.inf, 3.0, 1.0, 2.0, 1.0, 3.0])) < np.inf


def test_a_kink_is_no_noise_and_noise_is_no_kink():
    rng, t = np.random.default_rng(2), np.arange(7.0)
    for corners in rng.uniform(0, 6, (500, 3)):
        convex = sum(abs(t - corner) * weight for corner, weight in zip(corners, (1, 0.3, 2), strict=True))
        assert is_kink(abs(t - corners[0]) - 0.7 * t)
        assert is_kink(convex)
        assert is_kink(-convex)
    assert np.mean([is_kink(row) for row in rng.normal(size=(5000, 7))]) < 0.02


@given(some.floats(1e-6, 1e6), some.lists(some.integers(-300, 300).filter(bool), min_size=1, max_size=5))
def test_the_step_between_multiples_is_their_greatest_common_divisor(step, multiples):
    expected = np.gcd.reduce(multiples)
    found = step_between([step * m for m in multiples], 1e-15 * step)
    assert found == pytest.approx(step * expected, rel=1e-9)


def test_there_is_no_step_between_what_has_none_or_is_rounding():
    assert step_between([1.0, 2**0.5, 3**0.5], 1e-12) == 0.0
    assert step_between([1e-13, 3e-13], 1e-15) == 0.0
    assert step_between([np.inf, np.nan, 0.0], 1e-15) == 0.0
    assert step_between([np.inf, 0.5, 0.75], 1e-15) == 0.25


def on_a_line(f, step=None, **more):
    """Return the noise and the quantum that are measured of f near 1, and how many values that took."""
    model, driver, x = NoiseModel(EPS), Driver(lambda x: f(x[0])), np.ones(1)
    driver(model.estimate(space_of(None, x), x, f(1.0), 0.0, step, **more))
    return model.noise, model.resolution * f(1.0), driver.nfev


def test_two_values_are_enough_where_there_is_no_noise():
    assert on_a_line(lambda x: 1 + x**2) == (0.0, 0.0, 2)


def test_noise_is_measured_and_a_kink_is_none():
    rng = np.random.default_rng(3)
    noise, quantum, values = on_a_line(lambda x: 1 + x + 1e-9 * rng.uniform(-1, 1))
    assert 2e-10 < noise < 2e-9
    assert (quantum, values) == (0.0, 6)
    assert on_a_line(lambda x: 1 + abs(x - 1 - 3e-9))[0] == 0.0
    assert 2e-5 < on_a_line(lambda x: 1 + x + 1e-4 * rng.uniform(-1, 1), 1e-3)[0] < 2e-4


@pytest.mark.parametrize(("step", "is_noise"), [(None, False), (np.full(1, 1e-3), True)])
def test_on_a_longer_line_what_looks_like_a_kink_may_be_noise(step, is_noise):
    """There, f itself bends to one side."""
    x = np.ones(1)
    u = Line(space_of(None, x), x, 1.0, EPS, step).u[0]
    values = abs(np.arange(7.0) - 1.3)
    assert is_kink(values)
    assert ecnoise(values) > 0
    assert (on_a_line(lambda x: 1 + abs((x - 1) / u - 1.3), step)[0] > 0) == is_noise


@pytest.mark.parametrize("digits", [3, 5, 7])
def test_the_quantum_of_rounded_values_is_found(digits):
    _, quantum, values = on_a_line(lambda x: round(1 + x * x, digits))
    assert quantum == pytest.approx(10.0**-digits, rel=1e-3)
    assert values <= MOST


def test_two_levels_on_a_line_are_few_digits_and_no_noise():
    noise, quantum, values = on_a_line(lambda x: 1 + 1e-5 * (int((x - 1) * 1e9) % 2))
    assert noise == 0.0
    assert quantum == pytest.approx(1e-5)
    assert values == 6


def test_f_is_not_taken_for_coarser_than_a_fiftieth_of_its_size():
    assert on_a_line(lambda x: 1.0 if x < 1 + 1e-6 else 2.0)[1] == 0.02


@pytest.mark.parametrize("f", [lambda x: 5.0 + 0 * x, lambda x: 1 + (x - 1) ** 2, lambda x: 1 + (x - 1) ** 4])
def test_a_smooth_function_that_stays_level_is_not_quantised(f):
    assert on_a_line(f)[:2] == (0.0, 0.0)


def test_stairs_that_look_straight_are_seen_where_differences_are_0():
    x = np.ones(1)
    u = Line(space_of(None, x), x, 1.0, EPS).u[0]

    def f(x):
        return 1 + 2.0**-10 * round((x - 1) / u)

    assert on_a_line(f)[:2] == (0.0, 0.0)
    assert on_a_line(f, bends=np.full(1, np.nan))[1] == 2.0**-10
    assert on_a_line(f, bends=np.full(1, 1e16))[1] == 0.0  # so steep a bend explains it


def test_a_smaller_error_is_believed_only_if_measured_anew():
    x, space = np.ones(1), space_of(None, np.ones(1))
    for anew, noise in ((False, 1e-3), (True, 0.0)):
        model = NoiseModel(EPS, noise=1e-3, f_scale=2.0)
        assert not Driver(lambda x: 1 + x[0] ** 2)(model.estimate(space, x, 2.0, 0.0, anew=anew))
        assert model.noise == noise


def test_what_is_louder_is_believed_and_what_is_quantised_has_no_known_slope():
    x, space = np.ones(1), space_of(None, np.ones(1))
    model = NoiseModel(EPS, conditioning=3.0)
    driver = Driver(lambda x: round(1 + x[0] ** 2, 4))
    assert driver(model.estimate(space, x, 2.0, 0.0, anew=False))
    assert model.resolution == pytest.approx(5e-5, rel=1e-2)
    assert model.conditioning == 0.0


def test_a_variable_that_is_fixed_is_not_moved():
    x = np.array([1.0, 2.0])
    model, driver = NoiseModel(EPS), Driver(lambda x: x.sum())
    driver(model.estimate(space_of([(1, 1), (0, 9)], x), x, 3.0, 0.0))
    assert all(point[0] == 1.0 for point in driver.points)
    driver = Driver(lambda x: x.sum())
    assert driver(model.estimate(space_of([(1, 1), (2, 2)], x), x, 3.0, 0.0)) is False
    assert driver.nfev == 0


@pytest.mark.parametrize("side", [0, 1])
def test_a_line_stays_in_its_box(side):
    x = np.array([1.0])
    bounds = [(1.0, 2.0)] if side else [(0.0, 1.0)]
    driver = Driver(lambda x: round(float(x[0]), 3))
    driver(NoiseModel(EPS).estimate(space_of(bounds, x), x, 1.0, 0.0))
    assert driver.nfev > 2
    assert all(bounds[0][0] <= point[0] <= bounds[0][1] for point in driver.points)


def test_the_error_of_a_value_is_the_largest_of_its_parts():
    assert NoiseModel(EPS).eps_f(-3.0) == 3 * EPS
    assert NoiseModel(EPS, conditioning=5.0).eps_f(3.0) == 8 * EPS
    assert NoiseModel(EPS, resolution=1e-3).eps_f(3.0) == 3e-3
    assert NoiseModel(EPS, resolution=1e-3, f_scale=2.0).eps_f(0.0) == 2e-3
    assert NoiseModel(EPS, noise=1.0, resolution=1e-3).eps_f(3.0) == 1.0
    model = NoiseModel(EPS, noise=1e-6, f_scale=1.0)
    assert [model.changed(f) for f in (0.2, 0.3, 3.9, 4.1)] == [True, False, False, True]
    assert not NoiseModel(EPS, f_scale=1.0).changed(9.0)
