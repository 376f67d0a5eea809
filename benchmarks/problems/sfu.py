"""All 49 test functions of the SFU Virtual Library of Simulation Experiments, and the paper's quadratic.

Those that `steepen.functions` does not have are defined here. (For n > 2 the two Perm functions have further
minimisers, which are not listed.)

    from benchmarks.problems.sfu import FUNCTIONS

    f = FUNCTIONS["hartmann-6"]
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import permutations
from math import fsum, pi, sqrt
from typing import Any

import numpy as np

import steepen as st
from steepen.functions._function import CATALOGUE, Function, entry
from steepen.functions._numerics import Array, absolute, indices, nonzero, sign, spread, total

wavy, bowl, plate = (partial(entry, group) for group in ("many local minima", "bowl-shaped", "plate-shaped"))
valley, steep, other = (partial(entry, group) for group in ("valley-shaped", "steep ridges/drops", "other"))
Wave = Callable[[Any], Any]


@wavy("Bukin N. 6", [(-15, -5), (-3, 3)], (-10, 1))
def bukin_6(x: Array, slope: bool) -> Any:
    x1, x2 = x
    ridge = x2 - x1 * x1 / 100
    if slope:
        steep = 50 * sign(ridge) / nonzero(np.sqrt(absolute(ridge)))
        return 0.01 * sign(x1 + 10) - steep * x1 / 50, steep
    return 100 * np.sqrt(absolute(ridge)) + 0.01 * absolute(x1 + 10)


CORNERS = [(i * 1.3494066171539108, j * 1.3494066171539108) for i in (1, -1) for j in (1, -1)]


# Cross-in-Tray has exp(100) inside a tenth power. With u = |s| + exp(−E), the same number is
# −1e-4·(u·exp(E))^0.1, which float32 can hold.
@wavy("Cross-in-Tray", (-10, 10), CORNERS, -2.0626118708227369)
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


def schaffer(x: Array, wave: Wave, wave_slope: Wave | None = None) -> Any:
    """Return ½ + (w(a) − ½)/b² with a = x1² − x2² and b = 1 + (x1² + x2²)/1000: Schaffer 2 and 4.

    The halves are combined, so that nothing cancels at the origin. Schaffer 4 has |a|, but its w is even.
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
    rise: Wave = lambda a: np.sin(2 * a)  # noqa: E731
    return schaffer(x, lambda a: np.sin(a) ** 2, rise if slope else None)


ROOT = 1.2531318314637332


@wavy("Schaffer N. 4", (-100, 100), [(0, ROOT), (0, -ROOT), (ROOT, 0), (-ROOT, 0)], 0.29257863203598055)
def schaffer_4(x: Array, slope: bool) -> Any:
    rise: Wave = lambda a: -np.sin(2 * np.sin(a)) * np.cos(a)  # noqa: E731
    return schaffer(x, lambda a: np.cos(np.sin(a)) ** 2, rise if slope else None)


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


def perm(x: Array, inner: Any, weights: Iterable[Any], targets: Iterable[Any], slope: bool) -> Any:
    """Return Σᵢ(Σⱼ wᵢⱼ((xⱼ/cⱼ)ⁱ − tᵢⱼ))², the form of both Perm functions; c is `inner`."""
    power, value, g = np.ones_like(indices(x)), 0.0, 0.0
    for i, (weight, target) in enumerate(zip(weights, targets, strict=True), 1):
        rise, power = i * power / inner, power * (x / inner)
        residual = total(weight * (power - target))
        value, g = value + residual * residual, g + 2 * residual * weight * rise
    return g if slope else value


# With β = 10. For n = 2 the two conditions are a line and an ellipse, which meet twice. For n > 2 there are
# further minimisers too, more with larger n: not listed.
def _perm_0_minima(n: int) -> Any:
    return [(1.0, 0.5), (11 / 23, 45 / 46)] if n == 2 else 1 / np.arange(1.0, n + 1)


@bowl("Perm 0, d, β", lambda n: (-n, n), _perm_0_minima, any_n=True)
def perm_0(x: Array, slope: bool) -> Any:
    j, n = indices(x), len(x)
    return perm(x, 1.0, [j + 10] * n, np.cumprod([1 / j] * n, axis=0), slope)


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


@valley("Three-Hump Camel", (-5, 5), 0.0)
def three_hump_camel(x: Array, slope: bool) -> Any:
    x1, x2 = x
    q = x1 * x1
    if slope:
        return x1 * (4 + q * (q - 4.2)) + x2, x1 + 2 * x2
    return q * (2 + q * (q / 6 - 1.05)) + x1 * x2 + x2 * x2


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


@other("Colville", (-10, 10), 1.0, n=4)
def colville(x: Array, slope: bool) -> Any:
    x1, x2, x3, x4 = x
    a, b, c, d = x1 * x1 - x2, x1 - 1, x3 * x3 - x4, x3 - 1
    s, t = (x2 - 1) + (x4 - 1), x2 - x4
    if slope:
        a, c, s, t = 200 * a, 180 * c, 20 * s, 0.2 * t
        return 2 * a * x1 + 2 * b, s + t - a, 2 * c * x3 + 2 * d, s - t - c
    return 100 * a * a + b * b + 90 * c * c + d * d + 10 * s * s + 0.1 * t * t


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


HARTMANN = (
    (A3, P3, (0.0, 1.0), -3.8627797873326625,
     (0.11458887665506897, 0.55564889461693004, 0.85254698468667744)),
    (A6, P6, (1.1, 0.839), -3.1344941412223992,
     (0.18739527297346669, 0.19415152930244072, 0.55791778006256900, 0.26477962417039715)),
    (A6, P6, (0.0, 1.0), -3.3223680114155148,
     (0.20168951100670542, 0.15001069182345797, 0.47687397422189699,
      0.27533243049405607, 0.31165161660011324, 0.65730053406562031)),
)  # fmt: skip
for A, P, form, fmin, low in HARTMANN:
    n = len(low)
    formula = partial(hartmann, A[:, :n], P[:, :n] / 10000, *form)
    more = {"n": n, "bounds": (0, 1), "minima": low, "fmin": fmin}
    CATALOGUE[f"hartmann-{n}"] = Function(f"hartmann-{n}", f"Hartmann {n}-D", "other", formula, **more)


# With β = 0.5: squares of the sums of (jⁱ + β)·((x_j/j)ⁱ − 1). For its minima see `perm_0`.
def _perm_d_minima(n: int) -> Any:
    return [(1.0, 2.0), (23 / 13, 14 / 13)] if n == 2 else np.arange(1.0, n + 1)


@other("Perm d, β", lambda n: (-n, n), _perm_d_minima, any_n=True)
def perm_d(x: Array, slope: bool) -> Any:
    j, n = indices(x), len(x)
    return perm(x, j, np.cumprod([j] * n, axis=0) + 0.5, [1] * n, slope)


def powell(x: Array, slope: bool) -> Any:
    a, b, c, d = x[0::4], x[1::4], x[2::4], x[3::4]
    p, q, r, s = a + 10 * b, c - d, b - 2 * c, a - d
    if slope:
        g, p, q, r, s = np.empty_like(x), 2 * p, 10 * q, 4 * r * r**2, 40 * s * s**2
        g[0::4], g[1::4], g[2::4], g[3::4] = p + s, 10 * p + r, q - 2 * r, -q - s
        return g
    r, s = r**2, s**2
    return total(p * p + 5 * q * q + r * r + 10 * s * s)


def powell_in(n: int) -> Function:
    if n < 4 or n % 4:
        raise ValueError(f"n: powell needs a multiple of 4, got {n}")
    more = {"n": n, "bounds": (-4, 5), "minima": 0.0, "fmin": 0.0, "resize": powell_in}
    return Function("powell", "Powell", "other", powell, **more)


CATALOGUE["powell"] = powell_in(4)

BETA = np.array([0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5])
CENTRES = np.array([[4, 1, 8, 6, 3, 2, 5, 8, 6, 7], [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6]] * 2).T
LOW = (4.0007468682706344, 3.9995094800857736) * 2


@other("Shekel", (0, 10), LOW, -10.536443153483528, n=4)
def shekel(x: Array, slope: bool) -> Any:
    d = x - spread(CENTRES, x[0])
    share = 1 / (total(d * d, axis=1) + spread(BETA, x[0]))
    return 2 * total(d * (share * share)[:, None]) if slope else -total(share)


NAMES = """
ackley bukin-6 cross-in-tray drop-wave eggholder gramacy-lee griewank holder-table langermann levy levy-13
rastrigin schaffer-2 schaffer-4 schwefel shubert bohachevsky-1 bohachevsky-2 bohachevsky-3 perm-0
rotated-hyper-ellipsoid sphere sum-of-different-powers sum-squares trid booth matyas mccormick power-sum
zakharov three-hump-camel six-hump-camel dixon-price rosenbrock dejong-5 easom michalewicz beale branin
colville forrester goldstein-price hartmann-3 hartmann-4 hartmann-6 perm-d powell shekel styblinski-tang
quadratic
"""
FUNCTIONS: dict[str, Function] = {
    name: st.functions[name] if name in st.functions else CATALOGUE[name] for name in NAMES.split()
}
"""The functions by name, in the order of the SFU library's groups."""
