"""Larger problems of CUTEst type, n from 50 to 1000: values and gradients in O(n), over leading axes.

They go by their CUTEst names, with these exceptions: SINQUAD is the corrected SINQUAD2, and HAGER and
RAYDAN1 are from Andrei's collection; the quadratic SPECTRUM is ours.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from steepen.functions._numerics import Array, absolute, indices, sign, spread, total

from ._problem import Evaluate, Problem

Pair = tuple[Any, Array]


def _arwhead(x: Array) -> Pair:
    first, last = x[:-1], x[-1]
    q = first * first + last * last
    g = np.empty_like(x)
    g[:-1], g[-1] = 4 * q * first - 4, 4 * last * total(q)
    return total(q * q - 4 * first + 3), g


def _bdqrtic(x: Array) -> Pair:
    m, s = len(x) - 4, x * x
    line = 3 - 4 * x[:m]
    q = s[:m] + 2 * s[1 : m + 1] + 3 * s[2 : m + 2] + 4 * s[3 : m + 3] + 5 * s[-1]
    g = np.zeros_like(x)
    for k in range(4):
        g[k : m + k] += 4 * (k + 1) * q * x[k : m + k]
    g[-1] += 20 * x[-1] * total(q)
    g[:m] -= 8 * line
    return total(line * line) + total(q * q), g


def _broydn7d(x: Array) -> Pair:
    half = len(x) // 2
    r = (3 - 2 * x) * x + 1
    r[1:] -= x[:-1]
    r[:-1] -= 2 * x[1:]
    s = x[:half] + x[half:]
    a, b = absolute(r) ** (1 / 3), absolute(s) ** (1 / 3)
    dr, ds = 7 / 3 * a**4 * sign(r), 7 / 3 * b**4 * sign(s)
    g = dr * (3 - 4 * x)
    g[:-1] -= dr[1:]
    g[1:] -= 2 * dr[:-1]
    g[:half] += ds
    g[half:] += ds
    return total(a**7) + total(b**7), g


def _woods(x: Array) -> Pair:
    a, b, c, d = x[::4], x[1::4], x[2::4], x[3::4]
    p, q, s, t = b - a * a, d - c * c, b + d - 2, b - d
    value = 100 * p * p + (1 - a) ** 2 + 90 * q * q + (1 - c) ** 2 + 10 * s * s + t * t / 10
    g = np.empty_like(x)
    g[::4], g[2::4] = -400 * p * a - 2 * (1 - a), -360 * q * c - 2 * (1 - c)
    g[1::4], g[3::4] = 200 * p + 20 * s + t / 5, 180 * q + 20 * s - t / 5
    return total(value), g


def _cosine(x: Array) -> Pair:
    angle = x[:-1] * x[:-1] - x[1:] / 2
    sin = np.sin(angle)
    g = np.zeros_like(x)
    g[:-1] -= 2 * x[:-1] * sin
    g[1:] += sin / 2
    return total(np.cos(angle)), g


def _cragglvy(x: Array) -> Pair:
    a, b, c, d = x[:-2:2], x[1:-2:2], x[2::2], x[3::2]
    grow, tan = np.exp(a), np.tan(c - d)
    p, q, r = grow - b, b - c, tan + c - d
    value = p**4 + 100 * q**6 + r**4 + a**8 + (d - 1) ** 2
    dp, dq, dr = 4 * p**3, 600 * q**5, 4 * r**3 * (2 + tan * tan)
    g = np.zeros_like(x)
    g[:-2:2], g[1:-2:2] = dp * grow + 8 * a**7, dq - dp
    g[2::2] += dr - dq
    g[3::2] += 2 * (d - 1) - dr
    return total(value), g


def _window_sums(x: Array, width: int) -> Array:
    """Return sums of each coordinate and the `width` after it, as many as there are."""
    sums = x.copy()
    for k in range(1, width + 1):
        sums[:-k] += x[k:]
    return sums


def _curly(x: Array) -> Pair:
    q = _window_sums(x, 10)
    slope = (4 * q * q - 40) * q - 0.1
    return total(q * (q * (q * q - 20) - 0.1)), _window_sums(slope[::-1], 10)[::-1]


def _dixmaan(weights: tuple[float, float, float, float], powers: tuple[int, ...], x: Array) -> Pair:
    n, m = len(x), len(x) // 3
    a, b, c, d = (w * (indices(x) / n) ** k for w, k in zip(weights, powers, strict=True))
    s, far = x * x, x[m:] * x[m:]
    lift = x[1:] * (1 + x[1:])
    link, reach, pair = b[:-1] * s[:-1] * lift, c[: 2 * m] * s[: 2 * m] * far, d[:m] * x[:m]
    value = 1 + total(a * s) + total(link * lift) + total(reach * far) + total(pair * x[2 * m :])
    g = 2 * a * x
    g[:-1] += 2 * b[:-1] * x[:-1] * lift * lift
    g[1:] += 2 * link * (1 + 2 * x[1:])
    g[: 2 * m] += 2 * c[: 2 * m] * x[: 2 * m] * far * far
    g[m:] += 4 * reach * x[m:]
    g[:m] += d[:m] * x[2 * m :]
    g[2 * m :] += pair
    return value, g


def _dixon3dq(x: Array) -> Pair:
    step, first, last = x[1:-1] - x[2:], x[0] - 1, x[-1] - 1
    g = np.zeros_like(x)
    g[0], g[-1] = 2 * first, 2 * last
    g[1:-1] += 2 * step
    g[2:] -= 2 * step
    return first * first + last * last + total(step * step), g


def _weighted_squares(weights: Array, x: Array) -> Pair:
    pull = spread(weights, x[0]) * x
    return total(pull * x), 2 * pull


def _dqrtic(x: Array) -> Pair:
    away = x - indices(x)
    return total(away**4), 4 * away**3


def _edensch(x: Array) -> Pair:
    a, b = x[:-1] - 2, x[1:]
    g = np.zeros_like(x)
    g[:-1] = 4 * a**3 + 2 * a * b * b
    g[1:] += 2 * a * a * b + 2 * (b + 1)
    return 16 + total(a**4 + (a * b) ** 2 + (b + 1) ** 2), g


def _eg2(x: Array) -> Pair:
    angle, last = x[0] + x[:-1] * x[:-1] - 1, x[-1] * x[-1]
    cos = np.cos(angle)
    g = np.empty_like(x)
    g[:-1], g[-1] = 2 * x[:-1] * cos, x[-1] * np.cos(last)
    g[0] += total(cos)
    return total(np.sin(angle)) + np.sin(last) / 2, g


def _engval1(x: Array) -> Pair:
    q = x[:-1] * x[:-1] + x[1:] * x[1:]
    g = np.zeros_like(x)
    g[:-1] = 4 * q * x[:-1] - 4
    g[1:] += 4 * q * x[1:]
    return total(q * q - 4 * x[:-1] + 3), g


def _valley(x: Array) -> Pair:
    """Return 100 Σ (xᵢ₊₁ - xᵢ²)², the part that the chained Rosenbrock functions share."""
    bend = x[1:] - x[:-1] * x[:-1]
    g = np.zeros_like(x)
    g[:-1] = -400 * bend * x[:-1]
    g[1:] += 200 * bend
    return 100 * total(bend * bend), g


def _extrosnb(x: Array) -> Pair:
    value, g = _valley(x)
    g[0] += 2 * (x[0] - 1)
    return value + (x[0] - 1) ** 2, g


def _genrose(x: Array) -> Pair:
    value, g = _valley(x)
    g[1:] += 2 * (x[1:] - 1)
    return 1 + value + total((x[1:] - 1) ** 2), g


def _fletchcr(x: Array) -> Pair:
    bend = x[1:] - x[:-1] + 1 - x[:-1] * x[:-1]
    g = np.zeros_like(x)
    g[:-1] = -200 * bend * (1 + 2 * x[:-1])
    g[1:] += 200 * bend
    return 100 * total(bend * bend), g


def _fletcbv2(x: Array) -> Pair:
    h2, step = 1 / (len(x) + 1) ** 2, x[1:] - x[:-1]
    value = (x[0] ** 2 + total(step * step) + x[-1] ** 2) / 2 - h2 * total(2 * x + np.cos(x)) - x[-1]
    g = h2 * (np.sin(x) - 2)
    g[0] += x[0]
    g[-1] += x[-1] - 1
    g[1:] += step
    g[:-1] -= step
    return value, g


def _fminsrf2(x: Array) -> Pair:
    p = round(len(x) ** 0.5)
    sheet = x.reshape(p, p, *x.shape[1:])
    down, up = sheet[1:, 1:] - sheet[:-1, :-1], sheet[1:, :-1] - sheet[:-1, 1:]
    scale = (p - 1) ** 2
    area = np.sqrt(1 + scale / 2 * (down * down + up * up))
    middle = p // 2 - 1
    centre = sheet[middle, middle]
    g = np.zeros_like(sheet)
    g[1:, 1:] = down / (2 * area)
    g[:-1, :-1] -= down / (2 * area)
    g[1:, :-1] += up / (2 * area)
    g[:-1, 1:] -= up / (2 * area)
    g[middle, middle] += 2 * centre / len(x)
    return total(total(area)) / scale + centre * centre / len(x), g.reshape(x.shape)


def _freuroth(x: Array) -> Pair:
    a, b = x[:-1], x[1:]
    r, s = a - 13 + ((5 - b) * b - 2) * b, a - 29 + ((b + 1) * b - 14) * b
    g = np.zeros_like(x)
    g[:-1] = 2 * (r + s)
    g[1:] += 2 * (r * ((10 - 3 * b) * b - 2) + s * ((3 * b + 2) * b - 14))
    return total(r * r + s * s), g


def _hager(x: Array) -> Pair:
    root, grow = np.sqrt(indices(x)), np.exp(x)
    return total(grow - root * x), grow - root


def _liarwhd(x: Array) -> Pair:
    bend, away = x * x - x[0], x - 1
    g = 16 * bend * x + 2 * away
    g[0] -= 8 * total(bend)
    return 4 * total(bend * bend) + total(away * away), g


def _nondia(x: Array) -> Pair:
    bend, first = x[0] - x[:-1] * x[:-1], x[0] - 1
    g = np.zeros_like(x)
    g[:-1] = -400 * bend * x[:-1]
    g[0] += 200 * total(bend) + 2 * first
    return 100 * total(bend * bend) + first * first, g


def _nondquar(x: Array) -> Pair:
    q, first, last = x[:-2] + x[1:-1] + x[-1], x[0] - x[1], x[-2] + x[-1]
    cube = 4 * q**3
    g = np.zeros_like(x)
    g[:-2] = cube
    g[1:-1] += cube
    g[-1] = total(cube) + 2 * last
    g[-2] += 2 * last
    g[0] += 2 * first
    g[1] -= 2 * first
    return total(q**4) + first * first + last * last, g


def _power(x: Array) -> Pair:
    pull = indices(x) * x
    s = total(pull * x)
    return s * s, 4 * s * pull


def _raydan1(x: Array) -> Pair:
    grow = np.exp(x)
    return total(indices(x) / 10 * (grow - x)), indices(x) / 10 * (grow - 1)


def _schmvett(x: Array) -> Pair:
    a, b, c = x[:-2], x[1:-1], x[2:]
    gap, angle, ratio = a - b, (np.pi * b + c) / 2, (a + c) / b
    well, bell = 1 / (1 + gap * gap), np.exp(-((ratio - 2) ** 2))
    dgap, dangle, dratio = 2 * gap * well * well, -np.cos(angle) / 2, 2 * (ratio - 2) * bell / b
    g = np.zeros_like(x)
    g[:-2] = dgap + dratio
    g[1:-1] += np.pi * dangle - dgap - dratio * ratio
    g[2:] += dangle + dratio
    return -total(well + np.sin(angle) + bell), g


def _sinquad(x: Array) -> Pair:
    first, middle, last = x[0], x[1:-1], x[-1]
    r, end = np.sin(middle - last) - first * first + middle * middle, last * last - first * first
    cos = np.cos(middle - last)
    g = np.empty_like(x)
    g[0] = 4 * (first - 1) ** 3 - 4 * first * (total(r) + end)
    g[1:-1] = 2 * r * (cos + 2 * middle)
    g[-1] = 4 * last * end - 2 * total(r * cos)
    return (first - 1) ** 4 + total(r * r) + end * end, g


def _scattered(y: Array) -> tuple[Array, Any]:
    """Return Σₖ y at k·i modulo n for k = 1, 2, 3, 5, 7, 11, with what sends a derivative back."""
    n = len(y)
    places = [(k * np.arange(1, n + 1) - 1) % n for k in (1, 2, 3, 5, 7, 11)]

    def back(slope: Array) -> Array:
        g = np.zeros_like(slope)
        for place in places:
            np.add.at(g, place, slope)
        return g

    return sum(y[place] for place in places), back  # pyright: ignore


def _sparsine(x: Array) -> Pair:
    s, back = _scattered(np.sin(x))
    return total(indices(x) * s * s) / 2, back(indices(x) * s) * np.cos(x)


def _sparsqur(x: Array) -> Pair:
    s, back = _scattered(x * x)
    return total(indices(x) * s * s) / 8, back(indices(x) * s) * x / 2


def _tointgss(x: Array) -> Pair:
    gap, s = x[:-2] - x[1:-1], x[2:] * x[2:]
    base, below = 10 / (len(x) + 2) + s, 0.1 + s
    bell = np.exp(-gap * gap / below)
    dgap = 2 * base * bell * gap / below
    g = np.zeros_like(x)
    g[:-2] = dgap
    g[1:-1] -= dgap
    g[2:] += 2 * x[2:] * (2 - bell - base * bell * gap * gap / (below * below))
    return total(base * (2 - bell)), g


def _tquartic(x: Array) -> Pair:
    bend, first = x[0] * x[0] - x[1:] * x[1:], x[0] - 1
    g = np.empty_like(x)
    g[0], g[1:] = 2 * first + 4 * x[0] * total(bend), -4 * bend * x[1:]
    return first * first + total(bend * bend), g


def _tridia(x: Array) -> Pair:
    step, first = 2 * x[1:] - x[:-1], x[0] - 1
    pull = 2 * indices(x)[1:] * step
    g = np.zeros_like(x)
    g[0] = 2 * first
    g[:-1] -= pull
    g[1:] += 2 * pull
    return first * first + total(pull * step) / 2, g


def _slope(n: int) -> Array:
    return np.arange(1, n + 1) / (n + 1)


def _frame(p: int) -> Array:
    """Return a sheet of p × p heights: a plane of slopes 4 and 8 on its rim, zero inside."""
    along = np.linspace(0, 1, p)
    sheet = 1 + 4 * along[:, None] + 8 * along
    sheet[1:-1, 1:-1] = 0
    return sheet.ravel()


def _problem(
    name: str, evaluate: Evaluate, n: int, start: ArrayLike, fbest: float, *others: float
) -> Problem:
    x0 = np.resize(np.asarray(start, float), n)
    return Problem(name, f"{name.upper()}, n = {n}", "large", evaluate, x0, fbest, others)


def _dqdrtic_weights(n: int) -> Array:
    weights = np.full(n, 201.0)
    weights[[0, 1, -2, -1]] = 1, 101, 200, 100
    return weights


def _hager_best(n: int) -> float:
    root = np.sqrt(np.arange(1.0, n + 1))
    return float(np.sum(root - root * np.log(root)))


_EQUAL, _A, _B, _D = (0, 0, 0, 0), (1, 0, 0.125, 0.125), (1, 0.0625, 0.0625, 0.0625), (1, 0.26, 0.26, 0.26)
_LINEAR, _SQUARE = (1, 0, 0, 1), (2, 0, 0, 2)
_BROYDN7D_ENDS = (39.6781933109, 39.8276686073, 40.1228415733, 67.6475525247)
_CURLY = -100.31629024133105  # the least q⁴ - 20q² - q/10

# Values that are no closed forms: long L-BFGS-B runs, then Newton steps in extended precision; those of
# BROYDN7D and FREUROTH are the lowest of some hundred random starts.
PROBLEMS = (
    _problem("arwhead", _arwhead, 500, 1, 0.0),
    _problem("bdqrtic", _bdqrtic, 500, 1, 1981.0130845943954),
    _problem("broydn7d", _broydn7d, 100, 1, 6.34776525891444, *_BROYDN7D_ENDS),
    _problem("cosine", _cosine, 500, 1, -499.0),
    _problem("cragglvy", _cragglvy, 500, [1] + 499 * [2], 167.44912764273258, 169.685380987),
    _problem("curly10", _curly, 100, 1e-4 * _slope(100), 100 * _CURLY),
    _problem("dixmaana", partial(_dixmaan, _A, _EQUAL), 300, 2, 1.0),
    _problem("dixmaand", partial(_dixmaan, _D, _EQUAL), 300, 2, 1.0),
    _problem("dixmaane", partial(_dixmaan, _A, _LINEAR), 300, 2, 1.0),
    _problem("dixmaanf", partial(_dixmaan, _B, _LINEAR), 300, 2, 1.0),
    _problem("dixmaani", partial(_dixmaan, _A, _SQUARE), 300, 2, 1.0),
    _problem("dixmaanl", partial(_dixmaan, _D, _SQUARE), 300, 2, 1.0),
    _problem("dixon3dq", _dixon3dq, 100, -1, 0.0),
    _problem("dqdrtic", partial(_weighted_squares, _dqdrtic_weights(500)), 500, 3, 0.0),
    _problem("dqrtic", _dqrtic, 500, 2, 0.0),
    _problem("edensch", _edensch, 500, 0, 3003.2845920207646),
    _problem("eg2", _eg2, 500, 0, -499.5, -498.947394332),
    _problem("engval1", _engval1, 1000, 2, 1108.1947187850134),
    _problem("extrosnb", _extrosnb, 100, -1, 0.0),
    _problem("fletcbv2", _fletcbv2, 100, _slope(100), -0.5140067861117383),
    _problem("fletchcr", _fletchcr, 100, 0, 0.0, 49.6424354627),
    _problem("fminsrf2", _fminsrf2, 256, _frame(16), 1.0),
    _problem("freuroth", _freuroth, 500, [0.5, -2] + 498 * [0], 699.2762268049851, 60633.525242341915),
    _problem("genrose", _genrose, 100, _slope(100), 1.0),
    _problem("hager", _hager, 500, 1, _hager_best(500)),
    _problem("liarwhd", _liarwhd, 1000, 4, 0.0),
    _problem("nondia", _nondia, 500, -1, 0.0),
    _problem("nondquar", _nondquar, 100, [1, -1], 0.0),
    _problem("power", _power, 500, 1, 0.0),
    _problem("raydan1", _raydan1, 500, 1, 12525.0),
    _problem("schmvett", _schmvett, 500, 0.5, -1494.0),
    _problem("sinquad", _sinquad, 50, 0.1, 0.0),
    _problem("sparsine", _sparsine, 100, 0.5, 0.0),
    _problem("sparsqur", _sparsqur, 500, 0.5, 0.0),
    _problem("spectrum", partial(_weighted_squares, np.logspace(0, 6, 500)), 500, 1, 0.0),
    _problem("tointgss", _tointgss, 500, 3, 4980 / 502, 4990 / 502),
    _problem("tquartic", _tquartic, 500, 0.1, 0.0),
    _problem("tridia", _tridia, 500, 1, 0.0),
    _problem("woods", _woods, 1000, [-3, -1], 0.0),
)
