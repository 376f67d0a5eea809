"""The functions that the SFU library puts under “other”."""

from functools import partial
from math import pi
from typing import Any

import numpy as np

from ._function import entry
from ._numerics import Array, indices, perm, spread, total

other = partial(entry, "other")


@other("Beale", (-4.5, 4.5), (3, 0.5))
def beale(x: Array, slope: bool) -> Any:
    x1, x2 = x
    power, value, g1, g2 = 1.0, 0.0, 0.0, 0.0
    for i, c in enumerate((1.5, 2.25, 2.625), 1):
        rise, power = i * power, power * x2
        residual = c - x1 * (1 - power)
        value, g1 = value + residual * residual, g1 - 2 * residual * (1 - power)
        g2 = g2 + 2 * residual * x1 * rise
    return (g1, g2) if slope else value


# 10(1 − t)cos(x1) + 10 is written 20(1 − t)cos²(x1/2) + 10t, with t = 1/(8π).
B, C, S = 5.1 / (4 * pi * pi), 5 / pi, 10 - 1.25 / pi


@other("Branin", [(-5, 10), (0, 15)], [(-pi, 12.275), (pi, 2.275), (3 * pi, 2.475)], 1.25 / pi)
def branin(x: Array, slope: bool) -> Any:
    x1, x2 = x
    u = x2 + x1 * (C - B * x1) - 6
    if slope:
        return 2 * u * (C - 2 * B * x1) - S * np.sin(x1), 2 * u
    w = np.cos(x1 / 2)
    return u * u + 2 * S * w * w + 1.25 / pi


@other("Colville", (-10, 10), 1.0, n=4)
def colville(x: Array, slope: bool) -> Any:
    x1, x2, x3, x4 = x
    a, b, c, d = x1 * x1 - x2, x1 - 1, x3 * x3 - x4, x3 - 1
    s, t = (x2 - 1) + (x4 - 1), x2 - x4
    if slope:
        a, c, s, t = 200 * a, 180 * c, 20 * s, 0.2 * t
        return 2 * a * x1 + 2 * b, s + t - a, 2 * c * x3 + 2 * d, s - t - c
    return 100 * a * a + b * b + 90 * c * c + d * d + 10 * s * s + 0.1 * t * t


@other("Forrester et al. (2008)", (0, 1), 0.75724875784185587, -6.0207400557670828, n=1)
def forrester(x: Array, slope: bool) -> Any:
    u = 6 * x[0] - 2
    return (12 * u * (np.sin(2 * u) + u * np.cos(2 * u)),) if slope else u * u * np.sin(2 * u)


# A product of two quartics, one in s = x1 + x2, one in e = 2·x1 − 3·x2.
@other("Goldstein-Price", (-2, 2), (0, -1), 3.0)
def goldstein_price(x: Array, slope: bool) -> Any:
    s, e = x[0] + x[1], 2 * x[0] - 3 * x[1]
    a = 1 + (s + 1) ** 2 * (19 + s * (3 * s - 14))
    b = 30 + e * e * (18 + e * (3 * e - 16))
    if slope:
        along, across = 12 * (s + 1) * (s - 1) * (s - 2) * b, 12 * e * (e - 1) * (e - 3) * a
        return along + 2 * across, along - 3 * across
    return a * b


ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
A3 = np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]])
P3 = np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]) / 10000
A6 = np.array([
    [10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
    [17, 8, 0.05, 10, 0.1, 14],
])  # fmt: skip
P6 = np.array([
    [1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
    [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381],
]) / 10000  # fmt: skip


def hartmann(A: Array, P: Array, shift: float, scale: float, x: Array, slope: bool) -> Any:
    """Return (shift − the sum of four Gaussian wells) / scale, or its gradient."""
    d = x - spread(P, x[0])
    pull = spread(A, x[0]) * d
    wells = spread(ALPHA, x[0]) * np.exp(-total(pull * d, axis=1))
    return total(pull * wells[:, None]) * (2 / scale) if slope else (shift - total(wells)) / scale


LOW_3 = (0.11458887665506897, 0.55564889461693004, 0.85254698468667744)
LOW_4 = (0.18739527297346669, 0.19415152930244072, 0.55791778006256900, 0.26477962417039715)
LOW_6 = (
    0.20168951100670542, 0.15001069182345797, 0.47687397422189699, 0.27533243049405607, 0.31165161660011324,
    0.65730053406562031,
)  # fmt: skip


@other("Hartmann 3-D", (0, 1), LOW_3, -3.8627797873326625, n=3)
def hartmann_3(x: Array, slope: bool) -> Any:
    return hartmann(A3, P3, 0.0, 1.0, x, slope)


@other("Hartmann 4-D", (0, 1), LOW_4, -3.1344941412223992, n=4)
def hartmann_4(x: Array, slope: bool) -> Any:
    return hartmann(A6[:, :4], P6[:, :4], 1.1, 0.839, x, slope)


@other("Hartmann 6-D", (0, 1), LOW_6, -3.3223680114155148, n=6)
def hartmann_6(x: Array, slope: bool) -> Any:
    return hartmann(A6, P6, 0.0, 1.0, x, slope)


# With β = 0.5: squares of the sums of (jⁱ + β)·((x_j/j)ⁱ − 1). For its minima see `perm_0`.
def _perm_d_minima(n: int) -> Any:
    return [(1.0, 2.0), (23 / 13, 14 / 13)] if n == 2 else np.arange(1.0, n + 1)


@other("Perm d, β", lambda n: (-n, n), _perm_d_minima, any_n=True)
def perm_d(x: Array, slope: bool) -> Any:
    j, n = indices(x), len(x)
    return perm(x, j, np.cumprod([j] * n, axis=0) + 0.5, [1] * n, slope)


@other("Powell", (-4, 5), 0.0, n=4, any_n=True, every=4)
def powell(x: Array, slope: bool) -> Any:
    a, b, c, d = x[0::4], x[1::4], x[2::4], x[3::4]
    p, q, r, s = a + 10 * b, c - d, b - 2 * c, a - d
    if slope:
        g, p, q, r, s = np.empty_like(x), 2 * p, 10 * q, 4 * r * r**2, 40 * s * s**2
        g[0::4], g[1::4], g[2::4], g[3::4] = p + s, 10 * p + r, q - 2 * r, -q - s
        return g
    r, s = r**2, s**2
    return total(p * p + 5 * q * q + r * r + 10 * s * s)


BETA = np.array([0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5])
CENTRES = np.array([[4, 1, 8, 6, 3, 2, 5, 8, 6, 7], [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6]] * 2).T
HOLE = (4.0007468682706344, 3.9995094800857736) * 2


@other("Shekel", (0, 10), HOLE, -10.536443153483528, n=4)
def shekel(x: Array, slope: bool) -> Any:
    d = x - spread(CENTRES, x[0])
    share = 1 / (total(d * d, axis=1) + spread(BETA, x[0]))
    return 2 * total(d * (share * share)[:, None]) if slope else -total(share)


@other("Styblinski-Tang", (-5, 5), -2.9035340277711771, lambda n: n * -39.166165703771415, any_n=True)
def styblinski_tang(x: Array, slope: bool) -> Any:
    return x * (2 * x * x - 16) + 2.5 if slope else total(x * (2.5 + x * (x * x / 2 - 8)))
