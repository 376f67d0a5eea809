"""The SFU formulas, transcribed a second time in mpmath: as printed, without rearrangement."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import mpmath as mp
from mpmath import cos, exp, fsum, mpf, pi, sin, sqrt

Point = Sequence[Any]
Reference = Callable[[Point], Any]


def d(text):
    """Return a decimal constant at the working precision."""
    return mpf(text)


# Many local minima


def ackley(x):
    n = len(x)
    root = sqrt(fsum(t**2 for t in x) / n)
    return 20 - 20 * exp(-d("0.2") * root) - exp(fsum(cos(2 * pi * t) for t in x) / n) + mp.e


def cross_in_tray(x):
    inner = sin(x[0]) * sin(x[1]) * exp(abs(100 - sqrt(x[0] ** 2 + x[1] ** 2) / pi))
    return -d("0.0001") * (abs(inner) + 1) ** d("0.1")


def drop_wave(x):
    square = x[0] ** 2 + x[1] ** 2
    return -(1 + cos(12 * sqrt(square))) / (d("0.5") * square + 2)


def eggholder(x):
    first = (x[1] + 47) * sin(sqrt(abs(x[1] + x[0] / 2 + 47)))
    return -first - x[0] * sin(sqrt(abs(x[0] - (x[1] + 47))))


def griewank(x):
    product = mp.fprod(cos(t / sqrt(i)) for i, t in enumerate(x, 1))
    return fsum(t**2 for t in x) / 4000 - product + 1


def langermann(x):
    total = mpf(0)
    for c, a in zip((1, 2, 5, 2, 3), ((3, 5), (5, 2), (2, 1), (1, 4), (7, 9)), strict=True):
        square = (x[0] - a[0]) ** 2 + (x[1] - a[1]) ** 2
        total += c * exp(-square / pi) * cos(pi * square)
    return total


def levy(x):
    w = [1 + (t - 1) / 4 for t in x]
    middle = fsum((t - 1) ** 2 * (1 + 10 * sin(pi * t + 1) ** 2) for t in w[:-1])
    return sin(pi * w[0]) ** 2 + middle + (w[-1] - 1) ** 2 * (1 + sin(2 * pi * w[-1]) ** 2)


def levy_13(x):
    first = (x[0] - 1) ** 2 * (1 + sin(3 * pi * x[1]) ** 2)
    return sin(3 * pi * x[0]) ** 2 + first + (x[1] - 1) ** 2 * (1 + sin(2 * pi * x[1]) ** 2)


def schaffer_2(x):
    top = sin(x[0] ** 2 - x[1] ** 2) ** 2 - d("0.5")
    return d("0.5") + top / (1 + d("0.001") * (x[0] ** 2 + x[1] ** 2)) ** 2


def schaffer_4(x):
    top = cos(sin(abs(x[0] ** 2 - x[1] ** 2))) ** 2 - d("0.5")
    return d("0.5") + top / (1 + d("0.001") * (x[0] ** 2 + x[1] ** 2)) ** 2


def shubert(x):
    first, second = (fsum(i * cos((i + 1) * t + i) for i in range(1, 6)) for t in x)
    return first * second


# Bowl-shaped


def bohachevsky_1(x):
    waves = d("0.3") * cos(3 * pi * x[0]) + d("0.4") * cos(4 * pi * x[1])
    return x[0] ** 2 + 2 * x[1] ** 2 - waves + d("0.7")


def bohachevsky_2(x):
    waves = d("0.3") * cos(3 * pi * x[0]) * cos(4 * pi * x[1])
    return x[0] ** 2 + 2 * x[1] ** 2 - waves + d("0.3")


def bohachevsky_3(x):
    waves = d("0.3") * cos(3 * pi * x[0] + 4 * pi * x[1])
    return x[0] ** 2 + 2 * x[1] ** 2 - waves + d("0.3")


def perm_0(x):
    n = len(x)
    return fsum(
        fsum((j + 10) * (x[j - 1] ** i - mpf(1) / mpf(j) ** i) for j in range(1, n + 1)) ** 2
        for i in range(1, n + 1)
    )


def quadratic(x):
    middle, half_width = d("9.90745113"), d("0.89965944")
    n = len(x)
    share = [mpf(2 * i) / (n - 1) - 1 if n > 1 else mpf(0) for i in range(n)]
    return fsum((middle + s * half_width) * t**2 for s, t in zip(share, x, strict=True)) / 2


# Plate-shaped


def mccormick(x):
    bent = sin(x[0] + x[1]) + (x[0] - x[1]) ** 2
    return bent - d("1.5") * x[0] + d("2.5") * x[1] + 1


def zakharov(x):
    weighted = fsum(d("0.5") * i * t for i, t in enumerate(x, 1))
    return fsum(t**2 for t in x) + weighted**2 + weighted**4


# Valley-shaped


def three_hump_camel(x):
    first = 2 * x[0] ** 2 - d("1.05") * x[0] ** 4 + x[0] ** 6 / 6
    return first + x[0] * x[1] + x[1] ** 2


def six_hump_camel(x):
    first = (4 - d("2.1") * x[0] ** 2 + x[0] ** 4 / 3) * x[0] ** 2
    return first + x[0] * x[1] + (-4 + 4 * x[1] ** 2) * x[1] ** 2


def dixon_price(x):
    tail = (i * (2 * x[i - 1] ** 2 - x[i - 2]) ** 2 for i in range(2, len(x) + 1))
    return (x[0] - 1) ** 2 + fsum(tail)


# Steep ridges and drops


def dejong_5(x):
    grid = (-32, -16, 0, 16, 32)
    holes = [(a, b) for b in grid for a in grid]
    total = fsum(1 / (i + (x[0] - a) ** 6 + (x[1] - b) ** 6) for i, (a, b) in enumerate(holes, 1))
    return 1 / (d("0.002") + total)


# Other


def beale(x):
    targets = enumerate(("1.5", "2.25", "2.625"), 1)
    return fsum((d(c) - x[0] + x[0] * x[1] ** i) ** 2 for i, c in targets)


def branin(x):
    b, c, t = d("5.1") / (4 * pi**2), 5 / pi, 1 / (8 * pi)
    return (x[1] - b * x[0] ** 2 + c * x[0] - 6) ** 2 + 10 * (1 - t) * cos(x[0]) + 10


def colville(x):
    first = 100 * (x[0] ** 2 - x[1]) ** 2 + (x[0] - 1) ** 2 + (x[2] - 1) ** 2
    second = 90 * (x[2] ** 2 - x[3]) ** 2
    third = d("10.1") * ((x[1] - 1) ** 2 + (x[3] - 1) ** 2)
    return first + second + third + d("19.8") * (x[1] - 1) * (x[3] - 1)


def goldstein_price(x):
    a, b = x
    left = 19 - 14 * a + 3 * a**2 - 14 * b + 6 * a * b + 3 * b**2
    right = 18 - 32 * a + 12 * a**2 + 48 * b - 36 * a * b + 27 * b**2
    return (1 + (a + b + 1) ** 2 * left) * (30 + (2 * a - 3 * b) ** 2 * right)


ALPHA = ("1", "1.2", "3", "3.2")
A3 = (("3", "10", "30"), ("0.1", "10", "35"), ("3", "10", "30"), ("0.1", "10", "35"))
P3 = ((3689, 1170, 2673), (4699, 4387, 7470), (1091, 8732, 5547), (381, 5743, 8828))
A6 = (
    ("10", "3", "17", "3.5", "1.7", "8"),
    ("0.05", "10", "17", "0.1", "8", "14"),
    ("3", "3.5", "1.7", "10", "17", "8"),
    ("17", "8", "0.05", "10", "0.1", "14"),
)
P6 = (
    (1312, 1696, 5569, 124, 8283, 5886),
    (2329, 4135, 8307, 3736, 1004, 9991),
    (2348, 1451, 3522, 2883, 3047, 6650),
    (4047, 8828, 8732, 5743, 1091, 381),
)


def wells(x, a, p):
    def power(i):
        return fsum(d(a[i][j]) * (t - mpf(p[i][j]) / 10000) ** 2 for j, t in enumerate(x))

    return fsum(d(ALPHA[i]) * exp(-power(i)) for i in range(4))


def perm_d(x):
    n = len(x)

    def term(i, j):
        return (mpf(j) ** i + d("0.5")) * ((x[j - 1] / j) ** i - 1)

    return fsum(fsum(term(i, j) for j in range(1, n + 1)) ** 2 for i in range(1, n + 1))


def powell(x):
    total = mpf(0)
    for i in range(0, len(x), 4):
        a, b, c, e = x[i : i + 4]
        total += (a + 10 * b) ** 2 + 5 * (c - e) ** 2 + (b - 2 * c) ** 4 + 10 * (a - e) ** 4
    return total


def shekel(x):
    odd = (4, 1, 8, 6, 3, 2, 5, 8, 6, 7)
    even = (4, 1, 8, 6, 7, 9, 3, 1, 2, d("3.6"))
    beta = (1, 2, 2, 4, 4, 6, 3, 7, 5, 5)
    centres = zip(odd, even, odd, even, strict=True)
    return -fsum(
        1 / (fsum((t - c) ** 2 for t, c in zip(x, centre, strict=True)) + mpf(b) / 10)
        for b, centre in zip(beta, centres, strict=True)
    )


NAMED = (
    ackley, cross_in_tray, drop_wave, eggholder, griewank, langermann, levy, levy_13, schaffer_2,
    schaffer_4, shubert, bohachevsky_1, bohachevsky_2, bohachevsky_3, perm_0, quadratic, mccormick,
    zakharov, three_hump_camel, six_hump_camel, dixon_price, dejong_5, beale, branin, colville,
    goldstein_price, perm_d, powell, shekel,
)  # fmt: skip

REFERENCES = {function.__name__.replace("_", "-"): function for function in NAMED} | {
    "bukin-6": lambda x: 100 * sqrt(abs(x[1] - d("0.01") * x[0] ** 2)) + d("0.01") * abs(x[0] + 10),
    "gramacy-lee": lambda x: sin(10 * pi * x[0]) / (2 * x[0]) + (x[0] - 1) ** 4,
    "holder-table": lambda x: -abs(sin(x[0]) * cos(x[1]) * exp(abs(1 - sqrt(x[0] ** 2 + x[1] ** 2) / pi))),
    "rastrigin": lambda x: 10 * len(x) + fsum(t**2 - 10 * cos(2 * pi * t) for t in x),
    "schwefel": lambda x: d("418.9829") * len(x) - fsum(t * sin(sqrt(abs(t))) for t in x),
    "rotated-hyper-ellipsoid": lambda x: fsum(x[j] ** 2 for i in range(len(x)) for j in range(i + 1)),
    "sphere": lambda x: fsum(t**2 for t in x),
    "sum-of-different-powers": lambda x: fsum(abs(t) ** (i + 1) for i, t in enumerate(x, 1)),
    "sum-squares": lambda x: fsum(i * t**2 for i, t in enumerate(x, 1)),
    "trid": lambda x: fsum((t - 1) ** 2 for t in x) - fsum(x[i] * x[i - 1] for i in range(1, len(x))),
    "booth": lambda x: (x[0] + 2 * x[1] - 7) ** 2 + (2 * x[0] + x[1] - 5) ** 2,
    "matyas": lambda x: d("0.26") * (x[0] ** 2 + x[1] ** 2) - d("0.48") * x[0] * x[1],
    "power-sum": lambda x: fsum((fsum(t**i for t in x) - b) ** 2 for i, b in enumerate((8, 18, 44, 114), 1)),
    "rosenbrock": lambda x: fsum(100 * (b - a**2) ** 2 + (a - 1) ** 2 for a, b in pairwise(x)),
    "easom": lambda x: -cos(x[0]) * cos(x[1]) * exp(-((x[0] - pi) ** 2) - (x[1] - pi) ** 2),
    "michalewicz": lambda x: -fsum(sin(t) * sin(i * t**2 / pi) ** 20 for i, t in enumerate(x, 1)),
    "forrester": lambda x: (6 * x[0] - 2) ** 2 * sin(12 * x[0] - 4),
    "hartmann-3": lambda x: -wells(x, A3, P3),
    "hartmann-4": lambda x: (d("1.1") - wells(x, A6, P6)) / d("0.839"),
    "hartmann-6": lambda x: -wells(x, A6, P6),
    "styblinski-tang": lambda x: fsum(t**4 - 16 * t**2 + 5 * t for t in x) / 2,
}
