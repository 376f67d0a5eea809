"""The functions with many local minima of the SFU library."""

from collections.abc import Callable
from functools import partial
from math import e, pi
from typing import Any

import numpy as np

from ._function import entry
from ._numerics import Array, absolute, indices, nonzero, sign, spread, total

wavy = partial(entry, "many local minima")
Wave = Callable[[Any], Any]


@wavy("Ackley", (-32.768, 32.768), 0.0, any_n=True)
def ackley(x: Array, slope: bool) -> Any:
    n, r = len(x), np.sqrt(total(x * x) / len(x))
    if slope:
        spike = 4 / n * np.exp(-0.2 * r) / nonzero(r)
        return spike * x + 2 * pi / n * np.exp(total(np.cos(2 * pi * x)) / n) * np.sin(2 * pi * x)
    s = np.sin(pi * x)
    return -20 * np.expm1(-0.2 * r) - e * np.expm1(-2 / n * total(s * s))


@wavy("Bukin N. 6", [(-15, -5), (-3, 3)], (-10, 1))
def bukin_6(x: Array, slope: bool) -> Any:
    x1, x2 = x
    ridge = x2 - x1 * x1 / 100
    if slope:
        steep = 50 * sign(ridge) / nonzero(np.sqrt(absolute(ridge)))
        return 0.01 * sign(x1 + 10) - steep * x1 / 50, steep
    return 100 * np.sqrt(absolute(ridge)) + 0.01 * absolute(x1 + 10)


PITS = [(i * 1.3494066171539108, j * 1.3494066171539108) for i in (1, -1) for j in (1, -1)]


# Cross-in-Tray has exp(100) inside a tenth power. With u = |s| + exp(−E), the same number is
# −1e-4·(u·exp(E))^0.1, which float32 can hold.
@wavy("Cross-in-Tray", (-10, 10), PITS, -2.0626118708227369)
def cross_in_tray(x: Array, slope: bool) -> Any:
    x1, x2 = x
    r, s1, s2 = np.sqrt(x1 * x1 + x2 * x2), np.sin(x1), np.sin(x2)
    a1, a2, far = absolute(s1), absolute(s2), 100 - r / pi
    height, level = absolute(far), a1 * a2
    u = level + np.exp(-height)
    if slope:
        common = -1e-5 * np.exp(0.1 * height) * u**0.1 / u
        inward = -sign(far) * level / (pi * nonzero(r))
        return (
            common * (sign(s1) * np.cos(x1) * a2 + inward * x1),
            common * (sign(s2) * np.cos(x2) * a1 + inward * x2),
        )
    return -1e-4 * np.exp(0.1 * height) * u**0.1


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
HOLES = [(i, j) * CORNER for i in (1, -1) for j in (1, -1)]


@wavy("Holder Table", (-10, 10), HOLES, -19.208502567886732)
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


WEIGHTS, DROPS = np.array([1.0, 2.0, 5.0, 2.0, 3.0]), np.array([[3.0, 5, 2, 1, 7], [5.0, 2, 1, 4, 9]])


@wavy("Langermann", (0, 10), (2.7934022086450369, 1.5972325013283600), -4.1558092918477851)
def langermann(x: Array, slope: bool) -> Any:
    x1, x2 = x
    d1, d2 = x1 - spread(DROPS[0], x1), x2 - spread(DROPS[1], x2)
    q = d1**2 + d2**2
    if slope:
        swing = np.cos(pi * q) / pi + pi * np.sin(pi * q)
        pull = -2 * spread(WEIGHTS, x1) * np.exp(-q / pi) * swing
        return total(pull * d1), total(pull * d2)
    return total(spread(WEIGHTS, x1) * np.exp(-q / pi) * np.cos(pi * q))


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


@wavy("Levy N. 13", (-10, 10), 1.0)
def levy_13(x: Array, slope: bool) -> Any:
    a, b = x - 1
    s1, s2, s3 = np.sin(3 * pi * a), np.sin(3 * pi * b), np.sin(2 * pi * b)
    if slope:
        tail = 2 * b * (1 + s3 * s3 + pi * b * np.sin(4 * pi * b))
        return (
            3 * pi * np.sin(6 * pi * a) + 2 * a * (1 + s2 * s2),
            3 * pi * a * a * np.sin(6 * pi * b) + tail,
        )
    return s1 * s1 + a * a * (1 + s2 * s2) + b * b * (1 + s3 * s3)


@wavy("Rastrigin", (-5.12, 5.12), 0.0, any_n=True)
def rastrigin(x: Array, slope: bool) -> Any:
    if slope:
        return 2 * x + 20 * pi * np.sin(2 * pi * x)
    s = np.sin(pi * x)
    return total(x * x + 20 * s * s)


def schaffer(x: Array, wave: Wave, wave_slope: Wave | None = None) -> Any:
    """Return ½ + (w(a) − ½)/b² or its gradient, where a = x1² − x2² and b = 1 + (x1² + x2²)/1000.

    Schaffer 2 and 4 have this form. The halves are combined, so that nothing cancels at the origin. In
    Schaffer 4 it is |a|, but its w is even.
    """
    x1, x2 = x
    a, small = (x1 - x2) * (x1 + x2), (x1 * x1 + x2 * x2) / 1000
    if wave_slope is not None:
        b = 1 + small
        across, outward = 2 * wave_slope(a), (0.5 - wave(a)) / (250 * b)
        return x1 * (outward + across) / (b * b), x2 * (outward - across) / (b * b)
    return (wave(a) + small * (1 + small / 2)) / (1 + small) ** 2


@wavy("Schaffer N. 2", (-100, 100), 0.0)
def schaffer_2(x: Array, slope: bool) -> Any:
    return schaffer(x, lambda a: np.sin(a) ** 2, (lambda a: np.sin(2 * a)) if slope else None)


ROOT = 1.2531318314637332


@wavy("Schaffer N. 4", (-100, 100), [(0, ROOT), (0, -ROOT), (ROOT, 0), (-ROOT, 0)], 0.29257863203598055)
def schaffer_4(x: Array, slope: bool) -> Any:
    rise: Wave = lambda a: -np.sin(2 * np.sin(a)) * np.cos(a)  # noqa: E731
    return schaffer(x, lambda a: np.cos(np.sin(a)) ** 2, rise if slope else None)


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
