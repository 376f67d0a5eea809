"""The valleys, and the steep ridges and drops of the SFU library."""

from functools import partial
from math import fsum, pi
from typing import Any

import numpy as np

from ._function import entry
from ._numerics import Array, indices, spread, total

valley, steep = partial(entry, "valley-shaped"), partial(entry, "steep ridges/drops")


@valley("Three-Hump Camel", (-5, 5), 0.0)
def three_hump_camel(x: Array, slope: bool) -> Any:
    x1, x2 = x
    q = x1 * x1
    if slope:
        return x1 * (4 + q * (q - 4.2)) + x2, x1 + 2 * x2
    return q * (2 + q * (q / 6 - 1.05)) + x1 * x2 + x2 * x2


LOW = np.array([0.089842013100318062, -0.71265640302073963])


@valley("Six-Hump Camel", [(-3, 3), (-2, 2)], [LOW, -LOW], -1.0316284534898774)
def six_hump_camel(x: Array, slope: bool) -> Any:
    x1, x2 = x
    q1, q2 = x1 * x1, x2 * x2
    if slope:
        return x1 * (8 + q1 * (2 * q1 - 8.4)) + x2, x1 + x2 * (16 * q2 - 8)
    return q1 * (4 + q1 * (q1 / 3 - 2.1)) + x1 * x2 + 4 * q2 * (q2 - 1)


def _dixon_price_minima(n: int) -> Any:
    minimiser = 2.0 ** (2.0 ** (1 - np.arange(1.0, n + 1)) - 1)
    return [minimiser, np.append(minimiser[:-1], -minimiser[-1])] if n > 1 else minimiser


@valley("Dixon-Price", (-10, 10), _dixon_price_minima, any_n=True)
def dixon_price(x: Array, slope: bool) -> Any:
    first, links, i = x[0] - 1, 2 * x[1:] * x[1:] - x[:-1], indices(x)[1:]
    if slope:
        g, pull = np.empty_like(x), 2 * i * links
        g[0], g[1:] = 2 * first, 4 * x[1:] * pull
        g[:-1] -= pull
        return g
    return first * first + total(i * links * links)


@valley("Rosenbrock", (-5, 10), 1.0, any_n=True, least=2)
def rosenbrock(x: Array, slope: bool) -> Any:
    head = x[:-1]
    bend, rest = x[1:] - head * head, head - 1
    if slope:
        g, pull = np.zeros_like(x), 200 * bend
        g[1:] = pull
        g[:-1] += 2 * rest - 2 * head * pull
        return g
    return total(100 * bend * bend + rest * rest)


GRID = np.array([-32.0, -16.0, 0.0, 16.0, 32.0])
HOLES, DEPTHS = (np.tile(GRID, 5), np.repeat(GRID, 5)), np.arange(1.0, 26.0)


@steep("De Jong N. 5", (-65.536, 65.536), (-31.978334835656970, -31.978334837300795), 0.99800383779445026)
def dejong_5(x: Array, slope: bool) -> Any:
    x1, x2 = x
    d1, d2 = x1 - spread(HOLES[0], x1), x2 - spread(HOLES[1], x2)
    q1, q2 = d1**2, d2**2
    share = 1 / (spread(DEPTHS, x1) + q1 * q1 * q1 + q2 * q2 * q2)
    value = 1 / (0.002 + total(share))
    if slope:
        rise = 6 * value * value
        return rise * total(share * share * q1 * q1 * d1), rise * total(share * share * q2 * q2 * d2)
    return value


@steep("Easom", (-100, 100), pi, -1.0)
def easom(x: Array, slope: bool) -> Any:
    x1, x2 = x
    a, b = x1 - pi, x2 - pi
    c1, c2, hill = np.cos(x1), np.cos(x2), np.exp(-a * a - b * b)
    if slope:
        return (np.sin(x1) + 2 * a * c1) * c2 * hill, (np.sin(x2) + 2 * b * c2) * c1 * hill
    return -c1 * c2 * hill


def michalewicz_minimum(n: int) -> tuple[Array, float]:
    """Solve each coordinate: Newton on the log-slope from the two ridges around x = π/2."""
    i = np.arange(1.0, n + 1)
    below = np.maximum(np.floor(i / 4 - 0.5), 0)
    ridge = pi * np.sqrt((below + np.array([[0.5], [1.5]])) / i)
    x = ridge
    for _ in range(10):
        tan = np.tan(i * (x - ridge) * (x + ridge) / pi)
        rise = 1 / np.tan(x) - 40 / pi * i * x * tan
        bend = (2 * i * x / pi) ** 2 * (1 + tan * tan) + 2 * i / pi * tan
        x = x + rise / (1 / np.sin(x) ** 2 + 20 * bend)
    # The power of a sine near 1, with its digits kept: sin² = 1 − sin²(distance to the ridge).
    off = np.sin(i * (x - ridge) * (x + ridge) / pi)
    height = np.sin(x) * np.exp(10 * np.log1p(-off * off))
    best = height.argmax(axis=0)[None]
    return np.take_along_axis(x, best, axis=0), -fsum(np.take_along_axis(height, best, axis=0)[0])


# With m = 10: the valley of coordinate i is sin²⁰(i·x²/π).
@steep(
    "Michalewicz", (0, pi), lambda n: michalewicz_minimum(n)[0], lambda n: michalewicz_minimum(n)[1],
    any_n=True,
)  # fmt: skip
def michalewicz(x: Array, slope: bool) -> Any:
    i = indices(x)
    angle = i * x * x / pi
    s = np.sin(angle)
    s2 = s * s
    s4 = s2**2
    s16 = (s4 * s4) ** 2
    if slope:
        return -s * s2 * s16 * (s * np.cos(x) + 40 / pi * i * x * np.sin(x) * np.cos(angle))
    return -total(np.sin(x) * s4 * s16)
