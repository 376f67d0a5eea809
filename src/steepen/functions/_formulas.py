"""The formulas of the test functions, which only `Function` calls, and the catalogue they enter at import.

At a kink, where the argument of |·| is zero, the derivative of that term is taken as zero. The sign of a
product is taken factor by factor, so that a complex step from a kink stays on it.
"""

from functools import partial
from math import e, pi
from typing import Any

import numpy as np

from ._function import entry
from ._numerics import Array, absolute, indices, nonzero, sign, spread, total

wavy, other = partial(entry, "many local minima"), partial(entry, "other")
bowl, plate, valley = (partial(entry, f"{group}-shaped") for group in ("bowl", "plate", "valley"))


@wavy("Ackley", (-32.768, 32.768), 0.0, any_n=True)
def ackley(x: Array, slope: bool) -> Any:
    n, r = len(x), np.sqrt(total(x * x) / len(x))
    if slope:
        spike = 4 / n * np.exp(-0.2 * r) / nonzero(r)
        return spike * x + 2 * pi / n * np.exp(total(np.cos(2 * pi * x)) / n) * np.sin(2 * pi * x)
    s = np.sin(pi * x)
    return -20 * np.expm1(-0.2 * r) - e * np.expm1(-2 / n * total(s * s))


@wavy("Drop-Wave", (-5.12, 5.12), 0.0, -1.0)
def drop_wave(x: Array, slope: bool) -> Any:
    x1, x2 = x
    q = x1 * x1 + x2 * x2
    r, level = np.sqrt(q), q + 4
    c = np.cos(6 * r)
    if slope:
        outward = (24 * np.sin(12 * r) / nonzero(r) + 8 * c * c / level) / level
        return outward * x1, outward * x2
    return -4 * c * c / level


@wavy("Eggholder", (-512, 512), (512, 404.23180511375781), -959.64066272085080)
def eggholder(x: Array, slope: bool) -> Any:
    x1, x2 = x
    a = x2 + 47
    p, q = a + x1 / 2, x1 - a
    u, w = np.sqrt(absolute(p)), np.sqrt(absolute(q))
    if slope:
        along_u = a * np.cos(u) * sign(p) / (2 * nonzero(u))
        along_w = x1 * np.cos(w) * sign(q) / (2 * nonzero(w))
        return -along_u / 2 - np.sin(w) - along_w, -along_u - np.sin(u) + along_w
    return -a * np.sin(u) - x1 * np.sin(w)


@wavy("Gramacy & Lee (2012)", (0.5, 2.5), 0.54856344452760518, -0.86901113498949977, n=1)
def gramacy_lee(x: Array, slope: bool) -> Any:
    t, wave = x[0], np.sin(10 * pi * x[0])
    if slope:
        return ((10 * pi * np.cos(10 * pi * t) - wave / t) / (2 * t) + 4 * (t - 1) * (t - 1) ** 2,)
    return wave / (2 * t) + (t - 1) ** 2 * (t - 1) ** 2


def before(factors: Array) -> Array:
    """Return, for each factor, the product of the factors before it."""
    products = np.ones_like(factors)
    np.cumprod(factors[:-1], axis=0, out=products[1:])
    return products


@wavy("Griewank", (-600, 600), 0.0, any_n=True)
def griewank(x: Array, slope: bool) -> Any:
    root = np.sqrt(indices(x))
    t = x / root
    c = np.cos(t)
    if slope:
        others = before(c) * before(c[::-1])[::-1]
        return x / 2000 + np.sin(t) / root * others
    s = np.sin(t / 2)
    # 1 − c1·c2·... as a sum of the positive (1 − c_i)·c1·...·c_{i−1} near the minimum.
    return total(x * x) / 4000 + 2 * total(s * s * before(c))


CORNER = np.array([8.0550234757365634, 9.6645900192412729])
CORNERS = [(i, j) * CORNER for i in (1, -1) for j in (1, -1)]


@wavy("Holder Table", (-10, 10), CORNERS, -19.208502567886732)
def holder_table(x: Array, slope: bool) -> Any:
    x1, x2 = x
    r, s1, c2 = np.sqrt(x1 * x1 + x2 * x2), np.sin(x1), np.cos(x2)
    a1, a2, far = absolute(s1), absolute(c2), 1 - r / pi
    height = np.exp(absolute(far))
    if slope:
        outward = sign(far) * a1 * a2 / (pi * nonzero(r))
        return (
            height * (outward * x1 - sign(s1) * np.cos(x1) * a2),
            height * (outward * x2 + sign(c2) * np.sin(x2) * a1),
        )
    return -a1 * a2 * height


# In t = w − 1: sin²(πw) = sin²(πt), so nothing cancels at the minimum t = 0.
@wavy("Levy", (-10, 10), 1.0, any_n=True)
def levy(x: Array, slope: bool) -> Any:
    t = (x - 1) / 4
    head, tail = t[:-1], t[-1]
    angle = pi * head + 1
    s, last = np.sin(angle), np.sin(2 * pi * tail)
    if slope:
        g = np.empty_like(x)
        g[:-1] = head * (0.5 * (1 + 10 * s * s) + 2.5 * pi * head * np.sin(2 * angle))
        g[-1] = tail * (0.5 * (1 + last * last) + 0.5 * pi * tail * np.sin(4 * pi * tail))
        g[0] += pi / 4 * np.sin(2 * pi * t[0])
        return g
    first = np.sin(pi * t[0])
    return first * first + total(head * head * (1 + 10 * s * s)) + tail * tail * (1 + last * last)


@wavy("Rastrigin", (-5.12, 5.12), 0.0, any_n=True)
def rastrigin(x: Array, slope: bool) -> Any:
    if slope:
        return 2 * x + 20 * pi * np.sin(2 * pi * x)
    s = np.sin(pi * x)
    return total(x * x + 20 * s * s)


@wavy("Schwefel", (-500, 500), 420.96874635998203, lambda n: n * 1.2727566293725214e-05, any_n=True)
def schwefel(x: Array, slope: bool) -> Any:
    r = np.sqrt(absolute(x))
    return -(np.sin(r) + r * np.cos(r) / 2) if slope else total(418.9829 - x * np.sin(r))


# Where a Shubert factor is highest and lowest; the minimum is the product of the two.
HIGHS = (-7.0835064076515596, -0.80032110047197312, 5.4828642067076134)
LOWS = (-7.7083137354993474, -1.4251284283197610, 4.8580568788598255)
PAIRS = [pair for high in HIGHS for low in LOWS for pair in ((high, low), (low, high))]


@wavy("Shubert", (-10, 10), PAIRS, -186.73090883102383)
def shubert(x: Array, slope: bool) -> Any:
    i = spread(np.arange(1.0, 6.0), x)
    angle = (i + 1) * x + i
    waves = total(i * np.cos(angle))
    return -total(i * (i + 1) * np.sin(angle)) * waves[::-1] if slope else waves[0] * waves[1]


@bowl("Rotated Hyper-Ellipsoid", (-65.536, 65.536), 0.0, any_n=True)
def rotated_hyper_ellipsoid(x: Array, slope: bool) -> Any:
    weights = len(x) + 1 - indices(x)
    return 2 * weights * x if slope else total(weights * x * x)


@bowl("Sphere", (-5.12, 5.12), 0.0, any_n=True)
def sphere(x: Array, slope: bool) -> Any:
    return 2 * x if slope else total(x * x)


@plate("Booth", (-10, 10), (1, 3))
def booth(x: Array, slope: bool) -> Any:
    x1, x2 = x
    a, b = x1 + 2 * x2 - 7, 2 * x1 + x2 - 5
    return (2 * a + 4 * b, 4 * a + 2 * b) if slope else a * a + b * b


@plate("Matyas", (-10, 10), 0.0)
def matyas(x: Array, slope: bool) -> Any:
    s, d = x[0] + x[1], x[0] - x[1]
    return (0.02 * s + 0.5 * d, 0.02 * s - 0.5 * d) if slope else 0.01 * s * s + 0.25 * d * d


@plate("Zakharov", (-5, 10), 0.0, any_n=True)
def zakharov(x: Array, slope: bool) -> Any:
    i = indices(x)
    half = total(i * x) / 2
    square = half * half
    return 2 * x + (half + 2 * half * half * half) * i if slope else total(x * x) + square + square * square


LOW = np.array([0.089842013100318062, -0.71265640302073963])


@valley("Six-Hump Camel", [(-3, 3), (-2, 2)], [LOW, -LOW], -1.0316284534898774)
def six_hump_camel(x: Array, slope: bool) -> Any:
    x1, x2 = x
    q1, q2 = x1 * x1, x2 * x2
    if slope:
        return x1 * (8 + q1 * (2 * q1 - 8.4)) + x2, x1 + x2 * (16 * q2 - 8)
    return q1 * (4 + q1 * (q1 / 3 - 2.1)) + x1 * x2 + 4 * q2 * (q2 - 1)


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


@other("Styblinski-Tang", (-5, 5), -2.9035340277711771, lambda n: n * -39.166165703771415, any_n=True)
def styblinski_tang(x: Array, slope: bool) -> Any:
    return x * (2 * x * x - 16) + 2.5 if slope else total(x * (2.5 + x * (x * x / 2 - 8)))
