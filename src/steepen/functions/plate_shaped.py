"""The plate-shaped functions.

Examples
--------
>>> import steepen as st
>>> f = st.functions["matyas"]
>>> f.grad([5.0, 5.0]).round(12).tolist()
[0.2, 0.2]
"""

from itertools import permutations
from math import pi, sqrt
from typing import Any

import numpy as np

from steepen.functions._function import Function, scalable
from steepen.functions._numerics import Array, indices, total

GROUP = "plate-shaped"


def _booth(x: Array) -> Any:
    x1, x2 = x
    a, b = x1 + 2 * x2 - 7, 2 * x1 + x2 - 5
    return a * a + b * b


def _booth_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    a, b = x1 + 2 * x2 - 7, 2 * x1 + x2 - 5
    g[0] = 2 * a + 4 * b
    g[1] = 4 * a + 2 * b


# Matyas and McCormick are written in the sum s and the difference d of the coordinates.


def _matyas(x: Array) -> Any:
    x1, x2 = x
    s, d = x1 + x2, x1 - x2
    return 0.01 * s * s + 0.25 * d * d


def _matyas_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    along, across = 0.02 * (x1 + x2), 0.5 * (x1 - x2)
    g[0] = along + across
    g[1] = along - across


def _mccormick(x: Array) -> Any:
    x1, x2 = x
    s, d = x1 + x2, x1 - x2 - 1
    return np.sin(s) + 0.5 * s + d * d


def _mccormick_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    along, across = np.cos(x1 + x2) + 0.5, 2 * (x1 - x2 - 1)
    g[0] = along + across
    g[1] = along - across


_POWER_SUMS = (8.0, 18.0, 44.0, 114.0)  # of (1, 2, 2, 3)


def _power_sum(x: Array) -> Any:
    power, value = x, 0.0
    for b in _POWER_SUMS:
        residual = total(power) - b
        power, value = power * x, value + residual * residual
    return value


def _power_sum_grad(x: Array, g: Array) -> None:
    power = np.ones_like(x)
    g[...] = 0
    for i, b in enumerate(_POWER_SUMS, 1):
        slope, power = i * power, power * x
        g += 2 * (total(power) - b) * slope


def _zakharov(x: Array) -> Any:
    half = total(indices(x) * x) / 2
    square = half * half
    return total(x * x) + square + square * square


def _zakharov_grad(x: Array, g: Array) -> None:
    i = indices(x)
    half = total(i * x) / 2
    np.add(2 * x, (half + 2 * half * half * half) * i, out=g)


FUNCTIONS = (
    Function("booth", "Booth", GROUP, _booth, _booth_grad, n=2, bounds=(-10, 10), minima=(1, 3), fmin=0.0),
    Function("matyas", "Matyas", GROUP, _matyas, _matyas_grad, n=2, bounds=(-10, 10), minima=0.0, fmin=0.0),
    Function(
        "mccormick", "McCormick", GROUP, _mccormick, _mccormick_grad, n=2, bounds=[(-1.5, 4), (-3, 4)],
        minima=(0.5 - pi / 3, -0.5 - pi / 3), fmin=-sqrt(3) / 2 - pi / 3,
    ),
    Function(
        "power-sum", "Power Sum", GROUP, _power_sum, _power_sum_grad, n=4, bounds=(0, 4),
        minima=sorted(set(permutations((1, 2, 2, 3)))), fmin=0.0,
    ),
    scalable("zakharov", "Zakharov", GROUP, _zakharov, _zakharov_grad, bounds=(-5, 10), coordinate=0.0),
)  # fmt: skip
