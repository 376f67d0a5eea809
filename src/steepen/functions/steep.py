"""The functions with steep ridges or drops.

Examples
--------
>>> import steepen as st
>>> round(st.functions["michalewicz"].at(n=5).fmin, 6)
-4.687658
"""

from math import fsum, pi
from typing import Any

import numpy as np

from steepen.functions._function import Function
from steepen.functions._numerics import Array, indices, spread, total

GROUP = "steep ridges/drops"

_GRID = np.array([-32.0, -16.0, 0.0, 16.0, 32.0])
_HOLES_1, _HOLES_2 = np.tile(_GRID, 5), np.repeat(_GRID, 5)
_DEPTHS = np.arange(1.0, 26.0)


def _dejong_5(x: Array) -> Any:
    x1, x2 = x
    c1, c2 = (x1 - spread(_HOLES_1, x1)) ** 2, (x2 - spread(_HOLES_2, x2)) ** 2
    return 1 / (0.002 + total(1 / (spread(_DEPTHS, x1) + c1 * c1 * c1 + c2 * c2 * c2)))


def _dejong_5_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    d1, d2 = x1 - spread(_HOLES_1, x1), x2 - spread(_HOLES_2, x2)
    q1, q2 = d1 * d1, d2 * d2
    share = 1 / (spread(_DEPTHS, x1) + q1 * q1 * q1 + q2 * q2 * q2)
    value = 1 / (0.002 + total(share))
    slope = 6 * value * value
    g[0] = slope * total(share * share * q1 * q1 * d1)
    g[1] = slope * total(share * share * q2 * q2 * d2)


def _easom(x: Array) -> Any:
    x1, x2 = x
    a, b = x1 - pi, x2 - pi
    return -np.cos(x1) * np.cos(x2) * np.exp(-a * a - b * b)


def _easom_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    a, b = x1 - pi, x2 - pi
    c1, c2, hill = np.cos(x1), np.cos(x2), np.exp(-a * a - b * b)
    g[0] = (np.sin(x1) + 2 * a * c1) * c2 * hill
    g[1] = (np.sin(x2) + 2 * b * c2) * c1 * hill


# Michalewicz with m = 10: the valley of coordinate i is sin²⁰(i·x²/π).


def _michalewicz(x: Array) -> Any:
    s = np.sin(indices(x) * x * x / pi)
    s4 = (s * s) ** 2
    return -total(np.sin(x) * s4 * (s4 * s4) ** 2)


def _michalewicz_grad(x: Array, g: Array) -> None:
    i = indices(x)
    angle = i * x * x / pi
    s = np.sin(angle)
    s2 = s * s
    s16 = ((s2 * s2) ** 2) ** 2
    across = s * np.cos(x) + 40 / pi * i * x * np.sin(x) * np.cos(angle)
    np.multiply(-s * s2 * s16, across, out=g)


def _michalewicz_minimum(n: int) -> tuple[Array, float]:
    """Solve each coordinate: Newton on the log-slope from the two ridges around x = π/2."""
    i = np.arange(1.0, n + 1)
    below = np.maximum(np.floor(i / 4 - 0.5), 0)
    ridge = pi * np.sqrt((below + np.array([[0.5], [1.5]])) / i)
    x = ridge
    for _ in range(10):
        tan = np.tan(i * (x - ridge) * (x + ridge) / pi)
        slope = 1 / np.tan(x) - 40 / pi * i * x * tan
        bend = (2 * i * x / pi) ** 2 * (1 + tan * tan) + 2 * i / pi * tan
        x = x + slope / (1 / np.sin(x) ** 2 + 20 * bend)
    # The power of a sine near 1, with its digits kept: sin² = 1 − sin²(distance to the ridge).
    off = np.sin(i * (x - ridge) * (x + ridge) / pi)
    height = np.sin(x) * np.exp(10 * np.log1p(-off * off))
    best = height.argmax(axis=0)[None]
    return np.take_along_axis(x, best, axis=0), -fsum(np.take_along_axis(height, best, axis=0)[0])


def _michalewicz_at(n: int) -> Function:
    minima, fmin = _michalewicz_minimum(n)
    return Function(
        "michalewicz",
        "Michalewicz",
        GROUP,
        _michalewicz,
        _michalewicz_grad,
        n=n,
        bounds=(0, pi),
        minima=minima,
        fmin=fmin,
        resize=_michalewicz_at,
    )


FUNCTIONS = (
    Function(
        "dejong-5", "De Jong N. 5", GROUP, _dejong_5, _dejong_5_grad, n=2, bounds=(-65.536, 65.536),
        minima=(-31.978334835656970, -31.978334837300795), fmin=0.99800383779445026,
    ),
    Function("easom", "Easom", GROUP, _easom, _easom_grad, n=2, bounds=(-100, 100), minima=pi, fmin=-1.0),
    _michalewicz_at(2),
)  # fmt: skip
