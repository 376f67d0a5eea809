"""Gradients against the complex step of the value, for every problem."""

from typing import Any

import numpy as np
import pytest

from steepen.problems import Problem, problems


def every(*suites: str) -> Any:
    chosen = [p for p in problems.values() if p.suite in suites]
    return pytest.mark.parametrize("p", [pytest.param(p, id=p.name) for p in chosen])


def moved(p: Problem, rng: np.random.Generator, size: float) -> np.ndarray:
    """Return a point near the start: relatively where parameters differ in size by powers of ten."""
    noise = size * rng.normal(size=p.n)
    return p.x0 * (1 + noise) if p.suite == "nist" else p.x0 + noise


def check(p: Problem, x: np.ndarray, directions: np.ndarray) -> None:
    value, grad = p.value_and_grad(x)
    assert np.isfinite(value)
    assert np.isfinite(grad).all()
    size = 1e-30
    slopes = p(x + 1j * size * directions).imag / size
    scale = (np.abs(directions) @ np.abs(grad)).max()
    # residuals that nearly vanish at the start lose digits to cancellation
    bound = 1e-10 if value < 1e-4 else 2e-13
    assert np.abs(slopes - directions @ grad).max() <= bound * scale


@every("mgh", "large", "nist")
def test_gradient_is_the_complex_step_of_the_value(p: Problem):
    rng = np.random.default_rng(p.n)
    for size in (0.0, 1e-3, 0.03):
        x = moved(p, rng, size)
        sizes = np.where(x == 0, 1, np.abs(x))
        check(p, x, np.diag(sizes) if p.n <= 12 else rng.normal(size=(4, p.n)) * sizes)
    if p.n > 12:  # every coordinate, the ends of the chains above all
        axes = np.eye(p.n)[[0, 1, 2, p.n // 2 - 1, p.n // 2, -3, -2, -1]]
        check(p, moved(p, rng, 0.03), axes)


@every("learning")
def test_backpropagation_is_the_complex_step_of_the_loss(p: Problem):
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(p.n)
    for size in (0.0, 0.3):
        check(p, moved(p, rng, size), rng.normal(size=(3, p.n)))


@pytest.mark.parametrize("name", ["osborne-2", "watson-6", "rat43-2", "genrose"])
def test_complex_step_of_the_gradient_is_the_hessian(name: str):
    p = problems[name]
    x, axes = p.x0 + 0.01, np.eye(p.n)[:8]
    exact = p.grad(x + 1e-30j * axes).imag / 1e-30
    step = 1e-6
    differences = (p.grad(x + step * axes) - p.grad(x - step * axes)) / (2 * step)
    assert np.allclose(exact, differences, rtol=1e-6, atol=1e-7 * np.abs(exact).max())
