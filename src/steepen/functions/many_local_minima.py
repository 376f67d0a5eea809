"""The functions with many local minima.

Examples
--------
>>> import steepen as st
>>> f = st.functions["shubert"]
>>> f.minima.shape, round(f.fmin, 4)
((18, 2), -186.7309)
"""

from functools import partial
from math import e, pi
from typing import Any

import numpy as np

from steepen.functions import _kinked
from steepen.functions._function import Function, Value, scalable
from steepen.functions._numerics import Array, indices, nonzero, spread, total

GROUP = "many local minima"


def _ackley(x: Array) -> Any:
    n = len(x)
    s = np.sin(pi * x)
    spike = np.expm1(-0.2 * np.sqrt(total(x * x) / n))
    return -20 * spike - e * np.expm1(-2 / n * total(s * s))


def _ackley_grad(x: Array, g: Array) -> None:
    n = len(x)
    r = np.sqrt(total(x * x) / n)
    spike = 4 / n * np.exp(-0.2 * r) / nonzero(r)
    ripple = 2 * pi / n * np.exp(total(np.cos(2 * pi * x)) / n)
    np.add(spike * x, ripple * np.sin(2 * pi * x), out=g)


def _drop_wave(x: Array) -> Any:
    x1, x2 = x
    q = x1 * x1 + x2 * x2
    c = np.cos(6 * np.sqrt(q))
    return -4 * c * c / (q + 4)


def _drop_wave_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    q = x1 * x1 + x2 * x2
    r = np.sqrt(q)
    c, level = np.cos(6 * r), q + 4
    outward = (24 * np.sin(12 * r) / nonzero(r) + 8 * c * c / level) / level
    g[0] = outward * x1
    g[1] = outward * x2


def _gramacy_lee(x: Array) -> Any:
    t = x[0]
    return np.sin(10 * pi * t) / (2 * t) + (t - 1) ** 2 * (t - 1) ** 2


def _gramacy_lee_grad(x: Array, g: Array) -> None:
    t = x[0]
    wave = 10 * pi * np.cos(10 * pi * t) - np.sin(10 * pi * t) / t
    g[0] = wave / (2 * t) + 4 * (t - 1) * (t - 1) ** 2


def _before(factors: Array) -> Array:
    """Return, for each factor, the product of those before it."""
    products = np.ones_like(factors)
    np.cumprod(factors[:-1], axis=0, out=products[1:])
    return products


def _griewank(x: Array) -> Any:
    t = x / np.sqrt(indices(x))
    s = np.sin(t / 2)
    # 1 − c1·c2·... as a sum of the positive (1 − c_i)·c1·...·c_{i−1} near the minimum.
    return total(x * x) / 4000 + 2 * total(s * s * _before(np.cos(t)))


def _griewank_grad(x: Array, g: Array) -> None:
    root = np.sqrt(indices(x))
    c = np.cos(x / root)
    others = _before(c) * _before(c[::-1])[::-1]
    np.add(x / 2000, np.sin(x / root) / root * others, out=g)


_WEIGHTS = np.array([1.0, 2.0, 5.0, 2.0, 3.0])
_DROPS_1 = np.array([3.0, 5.0, 2.0, 1.0, 7.0])
_DROPS_2 = np.array([5.0, 2.0, 1.0, 4.0, 9.0])


def _langermann(x: Array) -> Any:
    x1, x2 = x
    q = (x1 - spread(_DROPS_1, x1)) ** 2 + (x2 - spread(_DROPS_2, x2)) ** 2
    return total(spread(_WEIGHTS, x1) * np.exp(-q / pi) * np.cos(pi * q))


def _langermann_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    d1, d2 = x1 - spread(_DROPS_1, x1), x2 - spread(_DROPS_2, x2)
    q = d1 * d1 + d2 * d2
    swing = np.cos(pi * q) / pi + pi * np.sin(pi * q)
    pull = -2 * spread(_WEIGHTS, x1) * np.exp(-q / pi) * swing
    g[0] = total(pull * d1)
    g[1] = total(pull * d2)


# Levy in t = w − 1: sin²(πw) = sin²(πt), so nothing cancels at the minimum t = 0.


def _levy(x: Array) -> Any:
    t = (x - 1) / 4
    first, last = np.sin(pi * t[0]), np.sin(2 * pi * t[-1])
    middle = np.sin(pi * t[:-1] + 1)
    body = total(t[:-1] * t[:-1] * (1 + 10 * middle * middle))
    return first * first + body + t[-1] * t[-1] * (1 + last * last)


def _levy_grad(x: Array, g: Array) -> None:
    t = (x - 1) / 4
    head, tail = t[:-1], t[-1]
    angle = pi * head + 1
    s, last = np.sin(angle), np.sin(2 * pi * tail)
    g[:-1] = head * (0.5 * (1 + 10 * s * s) + 2.5 * pi * head * np.sin(2 * angle))
    g[-1] = tail * (0.5 * (1 + last * last) + 0.5 * pi * tail * np.sin(4 * pi * tail))
    g[0] += pi / 4 * np.sin(2 * pi * t[0])


def _levy_13(x: Array) -> Any:
    a, b = x - 1
    s1, s2, s3 = np.sin(3 * pi * a), np.sin(3 * pi * b), np.sin(2 * pi * b)
    return s1 * s1 + a * a * (1 + s2 * s2) + b * b * (1 + s3 * s3)


def _levy_13_grad(x: Array, g: Array) -> None:
    a, b = x - 1
    s2, s3 = np.sin(3 * pi * b), np.sin(2 * pi * b)
    g[0] = 3 * pi * np.sin(6 * pi * a) + 2 * a * (1 + s2 * s2)
    tail = 2 * b * (1 + s3 * s3 + pi * b * np.sin(4 * pi * b))
    g[1] = 3 * pi * a * a * np.sin(6 * pi * b) + tail


def _rastrigin(x: Array) -> Any:
    s = np.sin(pi * x)
    return total(x * x + 20 * s * s)


def _rastrigin_grad(x: Array, g: Array) -> None:
    np.add(2 * x, 20 * pi * np.sin(2 * pi * x), out=g)


# Schaffer 2 and 4 are ½ + (w(a) − ½)/b² with a = x1² − x2² and b = 1 + (x1² + x2²)/1000. The
# halves are joined, as b² − 1, so that nothing cancels at the origin. The |a| of number 4 is
# left out: its w is even.


def _schaffer(wave: Value, x: Array) -> Any:
    x1, x2 = x
    small = (x1 * x1 + x2 * x2) / 1000
    return (wave((x1 - x2) * (x1 + x2)) + small * (1 + small / 2)) / (1 + small) ** 2


def _schaffer_grad(wave: Value, wave_slope: Value, x: Array, g: Array) -> None:
    x1, x2 = x
    a, b = (x1 - x2) * (x1 + x2), 1 + (x1 * x1 + x2 * x2) / 1000
    across, outward = 2 * wave_slope(a), (0.5 - wave(a)) / (250 * b)
    g[0] = x1 * (outward + across) / (b * b)
    g[1] = x2 * (outward - across) / (b * b)


def _sin_squared(a: Any) -> Any:
    return np.sin(a) ** 2


def _sin_squared_slope(a: Any) -> Any:
    return np.sin(2 * a)


def _cos_sin_squared(a: Any) -> Any:
    return np.cos(np.sin(a)) ** 2


def _cos_sin_squared_slope(a: Any) -> Any:
    return -np.sin(2 * np.sin(a)) * np.cos(a)


_ONE_TO_FIVE = np.arange(1.0, 6.0)


def _shubert(x: Array) -> Any:
    i = spread(_ONE_TO_FIVE, x)
    first, second = total(i * np.cos((i + 1) * x + i))
    return first * second


def _shubert_grad(x: Array, g: Array) -> None:
    i = spread(_ONE_TO_FIVE, x)
    angle = (i + 1) * x + i
    waves, slopes = total(i * np.cos(angle)), -total(i * (i + 1) * np.sin(angle))
    np.multiply(slopes, waves[::-1], out=g)


# Where a Shubert factor is highest and lowest; the minimum is the product of the two.
_HIGHS = (-7.0835064076515596, -0.80032110047197312, 5.4828642067076134)
_LOWS = (-7.7083137354993474, -1.4251284283197610, 4.8580568788598255)
_SCHAFFER = 1.2531318314637332

FUNCTIONS = (
    scalable("ackley", "Ackley", GROUP, _ackley, _ackley_grad, bounds=(-32.768, 32.768), coordinate=0.0),
    _kinked.BUKIN_6,
    _kinked.CROSS_IN_TRAY,
    Function(
        "drop-wave", "Drop-Wave", GROUP, _drop_wave, _drop_wave_grad, n=2, bounds=(-5.12, 5.12), minima=0.0,
        fmin=-1.0,
    ),
    _kinked.EGGHOLDER,
    Function(
        "gramacy-lee", "Gramacy & Lee (2012)", GROUP, _gramacy_lee, _gramacy_lee_grad, n=1, bounds=(0.5, 2.5),
        minima=0.54856344452760518, fmin=-0.86901113498949977,
    ),
    scalable("griewank", "Griewank", GROUP, _griewank, _griewank_grad, bounds=(-600, 600), coordinate=0.0),
    _kinked.HOLDER_TABLE,
    Function(
        "langermann", "Langermann", GROUP, _langermann, _langermann_grad, n=2, bounds=(0, 10),
        minima=(2.7934022086450369, 1.5972325013283600), fmin=-4.1558092918477851,
    ),
    scalable("levy", "Levy", GROUP, _levy, _levy_grad, bounds=(-10, 10), coordinate=1.0),
    Function(
        "levy-13", "Levy N. 13", GROUP, _levy_13, _levy_13_grad, n=2, bounds=(-10, 10), minima=1.0, fmin=0.0,
    ),
    scalable(
        "rastrigin", "Rastrigin", GROUP, _rastrigin, _rastrigin_grad, bounds=(-5.12, 5.12), coordinate=0.0,
    ),
    Function(
        "schaffer-2", "Schaffer N. 2", GROUP, partial(_schaffer, _sin_squared),
        partial(_schaffer_grad, _sin_squared, _sin_squared_slope), n=2, bounds=(-100, 100), minima=0.0,
        fmin=0.0,
    ),
    Function(
        "schaffer-4", "Schaffer N. 4", GROUP, partial(_schaffer, _cos_sin_squared),
        partial(_schaffer_grad, _cos_sin_squared, _cos_sin_squared_slope), n=2, bounds=(-100, 100),
        minima=[(0, _SCHAFFER), (0, -_SCHAFFER), (_SCHAFFER, 0), (-_SCHAFFER, 0)], fmin=0.29257863203598055,
    ),
    _kinked.SCHWEFEL,
    Function(
        "shubert", "Shubert", GROUP, _shubert, _shubert_grad, n=2, bounds=(-10, 10),
        minima=[pair for high in _HIGHS for low in _LOWS for pair in ((high, low), (low, high))],
        fmin=-186.73090883102383,
    ),
)  # fmt: skip
