"""The bowl- and the plate-shaped functions of the SFU library."""

from functools import partial
from itertools import permutations
from math import pi, sqrt
from typing import Any

import numpy as np

from ._function import entry
from ._numerics import Array, absolute, indices, perm, sign, total

bowl, plate = partial(entry, "bowl-shaped"), partial(entry, "plate-shaped")


# Bohachevsky 1, 2, 3: 1 − cos is written as 2sin² so that nothing cancels at the minimum.
@bowl("Bohachevsky 1", (-100, 100), 0.0)
def bohachevsky_1(x: Array, slope: bool) -> Any:
    x1, x2 = x
    if slope:
        return 2 * x1 + 0.9 * pi * np.sin(3 * pi * x1), 4 * x2 + 1.6 * pi * np.sin(4 * pi * x2)
    s1, s2 = np.sin(1.5 * pi * x1), np.sin(2 * pi * x2)
    return x1 * x1 + 2 * x2 * x2 + 0.6 * s1 * s1 + 0.8 * s2 * s2


@bowl("Bohachevsky 2", (-100, 100), 0.0)
def bohachevsky_2(x: Array, slope: bool) -> Any:
    x1, x2 = x
    a, b = 3 * pi * x1, 4 * pi * x2
    if slope:
        return 2 * x1 + 0.9 * pi * np.sin(a) * np.cos(b), 4 * x2 + 1.2 * pi * np.cos(a) * np.sin(b)
    s1, s2 = np.sin(1.5 * pi * x1), np.sin(2 * pi * x2)
    return x1 * x1 + 2 * x2 * x2 + 0.6 * (s1 * s1 + np.cos(a) * s2 * s2)


@bowl("Bohachevsky 3", (-100, 100), 0.0)
def bohachevsky_3(x: Array, slope: bool) -> Any:
    x1, x2 = x
    if slope:
        s = pi * np.sin(pi * (3 * x1 + 4 * x2))
        return 2 * x1 + 0.9 * s, 4 * x2 + 1.2 * s
    s = np.sin(pi * (1.5 * x1 + 2 * x2))
    return x1 * x1 + 2 * x2 * x2 + 0.6 * s * s


# With β = 10. For n = 2 the two conditions are a line and an ellipse, which meet twice. For n > 2 there are
# further minimisers too, more with larger n: not listed.
def _perm_0_minima(n: int) -> Any:
    return [(1.0, 0.5), (11 / 23, 45 / 46)] if n == 2 else 1 / np.arange(1.0, n + 1)


@bowl("Perm 0, d, β", lambda n: (-n, n), _perm_0_minima, any_n=True)
def perm_0(x: Array, slope: bool) -> Any:
    j, n = indices(x), len(x)
    return perm(x, 1.0, [j + 10] * n, np.cumprod([1 / j] * n, axis=0), slope)


@bowl("Rotated Hyper-Ellipsoid", (-65.536, 65.536), 0.0, any_n=True)
def rotated_hyper_ellipsoid(x: Array, slope: bool) -> Any:
    weights = len(x) + 1 - indices(x)
    return 2 * weights * x if slope else total(weights * x * x)


@bowl("Sphere", (-5.12, 5.12), 0.0, any_n=True)
def sphere(x: Array, slope: bool) -> Any:
    return 2 * x if slope else total(x * x)


@bowl("Sum of Different Powers", (-1, 1), 0.0, any_n=True)
def sum_of_different_powers(x: Array, slope: bool) -> Any:
    i, size = indices(x), absolute(x)
    return (i + 1) * sign(x) * size**i if slope else total(size ** (i + 1))


@bowl("Sum Squares", (-10, 10), 0.0, any_n=True)
def sum_squares(x: Array, slope: bool) -> Any:
    i = indices(x)
    return 2 * i * x if slope else total(i * x * x)


def _trid_minimum(n: int) -> Any:
    i = np.arange(1.0, n + 1)
    return i * (n + 1 - i)


@bowl("Trid", lambda n: (-n * n, n * n), _trid_minimum, lambda n: -n * (n + 4) * (n - 1) / 6, any_n=True)
def trid(x: Array, slope: bool) -> Any:
    shifted = x - 1
    if slope:
        g = 2 * shifted
        g[1:] -= x[:-1]
        g[:-1] -= x[1:]
        return g
    return total(shifted * shifted) - total(x[1:] * x[:-1])


@plate("Booth", (-10, 10), (1, 3))
def booth(x: Array, slope: bool) -> Any:
    x1, x2 = x
    a, b = x1 + 2 * x2 - 7, 2 * x1 + x2 - 5
    return (2 * a + 4 * b, 4 * a + 2 * b) if slope else a * a + b * b


@plate("Matyas", (-10, 10), 0.0)
def matyas(x: Array, slope: bool) -> Any:
    s, d = x[0] + x[1], x[0] - x[1]
    return (0.02 * s + 0.5 * d, 0.02 * s - 0.5 * d) if slope else 0.01 * s * s + 0.25 * d * d


@plate("McCormick", [(-1.5, 4), (-3, 4)], (0.5 - pi / 3, -0.5 - pi / 3), -sqrt(3) / 2 - pi / 3)
def mccormick(x: Array, slope: bool) -> Any:
    s, d = x[0] + x[1], x[0] - x[1] - 1
    if slope:
        along, across = np.cos(s) + 0.5, 2 * d
        return along + across, along - across
    return np.sin(s) + 0.5 * s + d * d


@plate("Power Sum", (0, 4), sorted(set(permutations((1, 2, 2, 3)))), n=4)
def power_sum(x: Array, slope: bool) -> Any:
    power, value, g = np.ones_like(x), 0.0, 0.0
    for i, b in enumerate((8.0, 18.0, 44.0, 114.0), 1):  # the power sums of (1, 2, 2, 3)
        rise, power = i * power, power * x
        residual = total(power) - b
        value, g = value + residual * residual, g + 2 * residual * rise
    return g if slope else value


@plate("Zakharov", (-5, 10), 0.0, any_n=True)
def zakharov(x: Array, slope: bool) -> Any:
    i = indices(x)
    half = total(i * x) / 2
    square = half * half
    return 2 * x + (half + 2 * half * half * half) * i if slope else total(x * x) + square + square * square
