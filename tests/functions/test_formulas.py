"""Value, gradient, H·v and Hessian against central differences of the transcription, 120 digits."""

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from steepen.functions import Function, functions

EPS = np.finfo(float).eps
STEP = mp.mpf(10) ** -25


def in_dimensions() -> list[Any]:
    cases = list(functions.values())
    for f in functions.values():
        if f.any_n:
            sizes = {"powell": (8,), "rosenbrock": (3, 5)}.get(f.name, (1, 5))
            cases += [f.at(n) for n in sizes]
    return [pytest.param(f, id=f"{f.name}-n{f.n}") for f in cases]


def moved(x: list[Any], v: list[Any], t: Any) -> list[Any]:
    return [a + t * b for a, b in zip(x, v, strict=True)]


def exact_slope(f: Callable[[list[Any]], Any], x: list[Any], v: list[Any]) -> Any:
    return (f(moved(x, v, STEP)) - f(moved(x, v, -STEP))) / (2 * STEP)


def points(f: Function) -> np.ndarray:
    """Return points all over the box, and some around the first minimiser."""
    rng = np.random.default_rng(f.n)
    low, high = f.bounds.T
    everywhere = rng.uniform(low, high, size=(8, f.n))
    near = f.minima[0] + 0.01 * np.minimum(high - low, 20) * rng.normal(size=(2, f.n))
    return np.concatenate([everywhere, near])


@pytest.mark.parametrize("f", in_dimensions())
def test_agrees_with_the_transcription(f: Function, references: dict[str, Any]):
    """Errors are as small as those of moving x by a few units in its last place."""
    reference = references[f.name]
    axes = [[mp.mpf(int(i == j)) for j in range(f.n)] for i in range(f.n)]
    for point in points(f):
        with mp.workdps(120):
            x = [mp.mpf(float(t)) for t in point]
            value = reference(x)
            grad = [exact_slope(reference, x, axis) for axis in axes]
            grad_error = [float(a - float(b)) for a, b in zip(grad, f.grad(point), strict=True)]
            value_error = float(value - float(f(point)))
        value_scale = abs(float(value)) + sum(abs(float(a) * b) for a, b in zip(grad, point, strict=True))
        grad_scale = np.abs([float(t) for t in grad]) + np.abs(f.hess(point)) @ np.abs(point)
        if f.name == "schwefel":  # the printed 418.9829 cancels near the minimum
            value_scale += 419 * f.n
        assert abs(value_error) <= 30 * EPS * value_scale
        assert np.abs(grad_error).max() <= 10 * EPS * grad_scale.max()


# Sines of angles in the thousands: the second derivative feels their rounding.
LARGE_ANGLES = {"schaffer-2": 1e-10, "schaffer-4": 1e-10, "griewank": 1e-11, "easom": 1e-11}


@pytest.mark.parametrize("f", in_dimensions())
def test_second_derivatives_agree_with_the_transcription(f: Function, references: dict[str, Any]):
    reference = references[f.name]
    tolerance = LARGE_ANGLES.get(f.name, 1e-11 if "boha" in f.name else 1e-12)
    for point in points(f)[[0, -1]]:
        with mp.workdps(120):
            x = [mp.mpf(float(t)) for t in point]
            exact = np.empty((f.n, f.n))
            for i in range(f.n):
                axis = [mp.mpf(int(i == k)) for k in range(f.n)]
                for j in range(i + 1):
                    other = [mp.mpf(int(j == k)) for k in range(f.n)]

                    def slope(y: list[Any], axis: list[Any] = axis) -> Any:
                        return exact_slope(reference, y, axis)

                    exact[i, j] = exact[j, i] = float(exact_slope(slope, x, other))
        hess = f.hess(point)
        v = np.random.default_rng(1).normal(size=f.n)
        size = np.abs(exact).max()
        assert np.abs(hess - exact).max() <= tolerance * size
        assert np.abs(f.hvp(point, v) - exact @ v).max() <= 2 * tolerance * f.n * size
        assert np.array_equal(hess, hess.T)
