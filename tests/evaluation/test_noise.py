"""ECnoise, kinks and quantised values on a line, compared with a literal transcription and closed forms."""

from math import factorial

import numpy as np
import pytest

from steepen import Budget
from steepen._core.backends import backend_for
from steepen._core.space import Everywhere
from steepen._evaluation.calls import UserCalls
from steepen._evaluation.counter import EvaluationCounter
from steepen._evaluation.noise import COST, FDState, NoiseModel, ecnoise, is_kink


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
    for _ in range(200):
        values = rng.normal(size=7) + rng.normal(scale=100) * t + rng.normal() * t**3
        assert float(ecnoise(values)) == pytest.approx(transcribed(values), rel=1e-9)


def test_the_level_is_the_standard_deviation_and_smooth_functions_have_none():
    values = np.random.default_rng(1).uniform(-1, 1, (7, 2000)) + 50 * np.arange(7)[:, None]
    levels = ecnoise(values) * 3**0.5
    assert np.mean(levels > 0) > 0.99
    assert 0.9 < np.median(levels) < 1.1
    assert np.quantile(levels, 0.01) > 0.2
    for smooth in (np.arange(7.0) ** 2, np.exp(1e-3 * np.arange(7)), 3.0 * np.arange(7), np.zeros(7)):
        assert float(ecnoise(smooth)) < 1e-9


def test_a_kink_is_no_noise_and_noise_is_no_kink():
    rng, t = np.random.default_rng(2), np.arange(7.0)[:, None]
    corners = rng.uniform(0, 6, (3, 500))
    convex = sum(abs(t - corner) * weight for corner, weight in zip(corners, (1, 0.3, 2), strict=True))
    assert is_kink(abs(t - corners[0]) - 0.7 * t).all()
    assert is_kink(convex).all()
    assert is_kink(-convex).all()
    assert np.mean(is_kink(rng.normal(size=(7, 5000)))) < 0.02


def on_a_line(f, step=None):
    """Return the noise and the quantum that are measured of f near 1, and how many values that took."""
    backend = backend_for(np.ones(1))
    calls = UserCalls(
        lambda x: float(f(x[0])),
        np.ones(1),
        backend,
        Everywhere(backend),
        EvaluationCounter(backend, Budget()),
    )
    model = NoiseModel(calls, FDState.start((1,)))
    model.estimate(np.ones(1), f(1.0), True, 0.0, step)
    return model.state.noise, model.state.resolution * f(1.0), calls.counter.nfev


def test_two_values_are_enough_where_there_is_no_noise():
    assert on_a_line(lambda x: 1 + x**2) == (0.0, 0.0, 2)


def test_noise_is_measured_and_a_kink_is_none():
    rng = np.random.default_rng(3)
    noise, quantum, values = on_a_line(lambda x: 1 + x + 1e-9 * rng.uniform(-1, 1))
    assert 2e-10 < noise < 2e-9
    assert (quantum, values) == (0.0, 6)
    assert on_a_line(lambda x: 1 + abs(x - 1 - 3e-9))[0] == 0.0
    assert 2e-5 < on_a_line(lambda x: 1 + x + 1e-4 * rng.uniform(-1, 1), 1e-3)[0] < 2e-4


@pytest.mark.parametrize("digits", [3, 5, 7])
def test_the_quantum_of_rounded_values_is_found(digits):
    _, quantum, values = on_a_line(lambda x: round(1 + x * x, digits))
    assert quantum == pytest.approx(10.0**-digits, rel=1e-3)
    assert values <= COST.evals


@pytest.mark.parametrize("f", [lambda x: 5.0 + 0 * x, lambda x: 1 + (x - 1) ** 2, lambda x: 1 + (x - 1) ** 4])
def test_a_smooth_function_that_stays_level_is_not_quantised(f):
    assert on_a_line(f)[:2] == (0.0, 0.0)
