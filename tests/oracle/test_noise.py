"""ECnoise, kinks and quantised values on a line, compared with a literal transcription and closed forms."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np
import pytest

from steepen._oracle.ecnoise import ecnoise, find_quantum, is_kink, measure


def transcribed(values: Any) -> float:
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


def test_ecnoise_is_that_of_the_listing() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(7.0)
    for _ in range(200):
        values = rng.normal(size=7) + rng.normal(scale=100) * t + rng.normal() * t**3
        assert float(ecnoise(values)) == pytest.approx(transcribed(values), rel=1e-9)


def test_the_level_is_the_standard_deviation_and_smooth_functions_have_none() -> None:
    values = np.random.default_rng(1).uniform(-1, 1, (7, 2000)) + 50 * np.arange(7)[:, None]
    levels = ecnoise(values) * 3**0.5
    assert np.mean(levels > 0) > 0.99
    assert 0.9 < np.median(levels) < 1.1
    assert np.quantile(levels, 0.01) > 0.2
    for smooth in (np.arange(7.0) ** 2, np.exp(1e-3 * np.arange(7)), 3.0 * np.arange(7), np.zeros(7)):
        assert float(ecnoise(smooth)) < 1e-9


def test_a_kink_is_no_noise_and_noise_is_no_kink() -> None:
    rng, t = np.random.default_rng(2), np.arange(7.0)[:, None]
    corners = rng.uniform(0, 6, (3, 500))
    convex = sum(abs(t - corner) * weight for corner, weight in zip(corners, (1, 0.3, 2), strict=True))
    assert is_kink(abs(t - corners[0]) - 0.7 * t).all()
    assert is_kink(convex).all()
    assert is_kink(-convex).all()
    assert np.mean(is_kink(rng.normal(size=(7, 5000)))) < 0.02


def on_a_line(f: Any, part: float = 0.01, step: float = 1e-9) -> Any:
    """Return what is measured of f(1 + t·step), and how many values that took."""
    asked: list[float] = []

    def values(t: Any, rows: Any) -> Any:
        asked.append(float(t))
        return np.asarray(f(1 + t * step))

    def rounding(changes: Any) -> Any:
        return 2.2e-16 * (abs(f(1.0)) + 1e9 * np.abs(np.diff(changes, axis=0)).max(axis=0))

    found = measure(
        values,
        np.asarray(f(1.0)),
        np.array(True),
        rounding,
        np.asarray(0.0),
        np.asarray(part),
        np.asarray(1e9),
    )
    return float(found.noise), float(found.quantum), len(asked)


def test_two_values_are_enough_where_there_is_no_noise() -> None:
    assert on_a_line(lambda x: 1 + x**2) == (0.0, 0.0, 2)


def test_noise_persists_on_a_shorter_line_and_a_ripple_does_not() -> None:
    rng = np.random.default_rng(3)
    noise, quantum, values = on_a_line(lambda x: 1 + x + 1e-9 * rng.uniform(-1, 1))
    assert 2e-10 < noise < 2e-9
    assert (quantum, values) == (0.0, 9)
    assert on_a_line(lambda x: 1 + x + 1e-9 * np.sin(2e9 * x))[0] == 0.0


@pytest.mark.parametrize("digits", [3, 5, 7])
def test_the_quantum_of_rounded_values_is_found(digits: int) -> None:
    _, quantum, values = on_a_line(lambda x: round(1 + x * x, digits))
    assert 0.9 * 10.0**-digits <= quantum <= 3 * 10.0**-digits
    assert values <= 17


def test_a_smooth_function_that_stays_level_is_not_quantised() -> None:
    for f in (lambda x: 5.0 + 0 * x, lambda x: 1 + (x - 1) ** 2):
        level = find_quantum(
            lambda t, rows, f=f: np.asarray(f(1 + t * 1e-9)), np.asarray(f(1.0)), np.array(True),
            np.asarray(2.2e-16), np.asarray(0.0), np.asarray(1e9),
        )  # fmt: skip
        assert level == 0
