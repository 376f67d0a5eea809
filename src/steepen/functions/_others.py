"""The functions with steep ridges or drops, and those that fit no other group."""

from functools import partial
from math import fsum, pi
from typing import Any

import numpy as np

from ._function import entry
from ._numerics import Array, indices, perm, spread, total

steep, other = partial(entry, "steep ridges/drops"), partial(entry, "other")

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
P3 = np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
A6 = np.array([
    [10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
    [17, 8, 0.05, 10, 0.1, 14],
])  # fmt: skip
P6 = np.array([
    [1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
    [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381],
])  # fmt: skip


def hartmann(A: Array, P: Array, shift: float, scale: float, x: Array, slope: bool) -> Any:
    """Return (shift − the sum of four Gaussian wells) / scale, or its gradient."""
    d = x - spread(P, x[0])
    pull = spread(A, x[0]) * d
    wells = spread(ALPHA, x[0]) * np.exp(-total(pull * d, axis=1))
    return total(pull * wells[:, None]) * (2 / scale) if slope else (shift - total(wells)) / scale


for A, P, form, fmin, low in (
    (A3, P3, (0.0, 1.0), -3.8627797873326625,
     (0.11458887665506897, 0.55564889461693004, 0.85254698468667744)),
    (A6, P6, (1.1, 0.839), -3.1344941412223992,
     (0.18739527297346669, 0.19415152930244072, 0.55791778006256900, 0.26477962417039715)),
    (A6, P6, (0.0, 1.0), -3.3223680114155148,
     (0.20168951100670542, 0.15001069182345797, 0.47687397422189699,
      0.27533243049405607, 0.31165161660011324, 0.65730053406562031)),
):  # fmt: skip
    n = len(low)
    formula = partial(hartmann, A[:, :n], P[:, :n] / 10000, *form)
    other(f"Hartmann {n}-D", (0, 1), low, fmin, n=n, name=f"hartmann-{n}")(formula)


# With β = 0.5: squares of the sums of (jⁱ + β)·((x_j/j)ⁱ − 1). For its minima see `perm_0`.
def _perm_d_minima(n: int) -> Any:
    return [(1.0, 2.0), (23 / 13, 14 / 13)] if n == 2 else np.arange(1.0, n + 1)


@other("Perm d, β", lambda n: (-n, n), _perm_d_minima, any_n=True)
def perm_d(x: Array, slope: bool) -> Any:
    j, n = indices(x), len(x)
    return perm(x, j, np.cumprod([j] * n, axis=0) + 0.5, [1] * n, slope)


@other("Powell", (-4, 5), 0.0, n=4, any_n=True, fold=4)
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
LOW = (4.0007468682706344, 3.9995094800857736) * 2


@other("Shekel", (0, 10), LOW, -10.536443153483528, n=4)
def shekel(x: Array, slope: bool) -> Any:
    d = x - spread(CENTRES, x[0])
    share = 1 / (total(d * d, axis=1) + spread(BETA, x[0]))
    return 2 * total(d * (share * share)[:, None]) if slope else -total(share)


@other("Styblinski-Tang", (-5, 5), -2.9035340277711771, lambda n: n * -39.166165703771415, any_n=True)
def styblinski_tang(x: Array, slope: bool) -> Any:
    return x * (2 * x * x - 16) + 2.5 if slope else total(x * (2.5 + x * (x * x / 2 - 8)))
