"""The formulas a second time: sums over indices as they are printed, for one point.

The elementary functions are mpmath's, so a point of mpf numbers gives the value at the working precision.
"""

import re
from collections.abc import Callable
from math import prod

import mpmath as mp
from mpmath import atan2, cos, log, pi, sin, sqrt, tan

from steepen.problems import problems

Formula = Callable[[list[float]], float]


class One(list[float]):
    """A list whose first index is 1, as in print."""

    def __getitem__(self, i):
        assert i >= 1
        return super().__getitem__(i - 1)


def exp(t):
    """Return eᵗ; what no float can hold is 0 or inf, since mpmath takes seconds for it."""
    return mp.exp(t) if abs(t) < 1e5 else mp.mpf(0) if t < 0 else mp.inf


def upto(last, first=1):
    return range(first, last + 1)


def squares(residuals):
    return sum(r**2 for r in residuals)


def rosenbrock(x):
    return sum(100 * (x[2 * i] - x[2 * i - 1] ** 2) ** 2 + (1 - x[2 * i - 1]) ** 2 for i in upto(len(x) // 2))


def freudenstein_roth(x):
    return (-13 + x[1] + ((5 - x[2]) * x[2] - 2) * x[2]) ** 2 + (
        -29 + x[1] + ((x[2] + 1) * x[2] - 14) * x[2]
    ) ** 2


def helical_valley(x):
    turn = atan2(x[2], x[1]) / (2 * pi)
    turn += turn < -0.25  # the branch of the collection is cut below the negative x2 axis
    return 100 * ((x[3] - 10 * turn) ** 2 + (sqrt(x[1] ** 2 + x[2] ** 2) - 1) ** 2) + x[3] ** 2


def bard(x):
    y = [0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.1, 4.39]
    return squares([y[i - 1] - (x[1] + i / ((16 - i) * x[2] + min(i, 16 - i) * x[3])) for i in upto(15)])


def gulf(x):
    def residual(i):
        y = 25 + (-50 * log(i / 100)) ** (2 / 3)
        return exp(-(abs(y - x[2]) ** x[3]) / x[1]) - i / 100

    return squares([residual(i) for i in upto(99)])


def box_3d(x):
    t = [i / 10 for i in upto(10)]
    return squares([exp(-s * x[1]) - exp(-s * x[2]) - x[3] * (exp(-s) - exp(-10 * s)) for s in t])


def powell_singular(x):
    return sum(
        (x[i] + 10 * x[i + 1]) ** 2
        + 5 * (x[i + 2] - x[i + 3]) ** 2
        + (x[i + 1] - 2 * x[i + 2]) ** 4
        + 10 * (x[i] - x[i + 3]) ** 4
        for i in range(1, len(x), 4)
    )


def wood(x):
    return sum(
        100 * (x[i + 1] - x[i] ** 2) ** 2
        + (1 - x[i]) ** 2
        + 90 * (x[i + 3] - x[i + 2] ** 2) ** 2
        + (1 - x[i + 2]) ** 2
        + 10 * (x[i + 1] + x[i + 3] - 2) ** 2
        + (x[i + 1] - x[i + 3]) ** 2 / 10
        for i in range(1, len(x), 4)
    )


def biggs_exp6(x):
    def residual(t):
        y = exp(-t) - 5 * exp(-10 * t) + 3 * exp(-4 * t)
        return x[3] * exp(-t * x[1]) - x[4] * exp(-t * x[2]) + x[6] * exp(-t * x[5]) - y

    return squares([residual(i / 10) for i in upto(13)])


def watson(x):
    n = len(x)

    def residual(t):
        slope = sum((j - 1) * x[j] * t ** (j - 2) for j in upto(n, 2))
        return slope - sum(x[j] * t ** (j - 1) for j in upto(n)) ** 2 - 1

    return squares([residual(i / 29) for i in upto(29)]) + x[1] ** 2 + (x[2] - x[1] ** 2 - 1) ** 2


def penalty_2(x):
    n, a = len(x), 1e-5
    value = (x[1] - 0.2) ** 2 + (sum((n - j + 1) * x[j] ** 2 for j in upto(n)) - 1) ** 2
    for i in upto(n, 2):
        y = exp(i / 10) + exp((i - 1) / 10)
        value += a * (exp(x[i] / 10) + exp(x[i - 1] / 10) - y) ** 2
    return value + a * sum((exp(x[i - n + 1] / 10) - exp(-1 / 10)) ** 2 for i in upto(2 * n - 1, n + 1))


def variably_dimensioned(x):
    s = sum(j * (x[j] - 1) for j in upto(len(x)))
    return sum((t - 1) ** 2 for t in x) + s**2 + s**4


def trigonometric(x):
    n, c = len(x), sum(cos(t) for t in x)
    return squares([n - c + i * (1 - cos(x[i])) - sin(x[i]) for i in upto(n)])


def brown_almost_linear(x):
    n = len(x)
    return squares([x[i] + sum(x) - (n + 1) for i in upto(n - 1)]) + (prod(x) - 1) ** 2


def boundary_value(x):
    n = len(x)
    h, z = 1 / (n + 1), [0.0, *x, 0.0]
    return squares([2 * z[i] - z[i - 1] - z[i + 1] + h**2 * (z[i] + i * h + 1) ** 3 / 2 for i in upto(n)])


def integral_equation(x):
    n = len(x)
    h = 1 / (n + 1)
    cube = [(x[j] + j * h + 1) ** 3 for j in upto(n)]

    def residual(i):
        before = (1 - i * h) * sum(j * h * cube[j - 1] for j in upto(i))
        after = i * h * sum((1 - j * h) * cube[j - 1] for j in upto(n, i + 1))
        return x[i] + h * (before + after) / 2

    return squares([residual(i) for i in upto(n)])


def broyden_tridiagonal(x):
    z = [0.0, *x, 0.0]
    return squares([(3 - 2 * z[i]) * z[i] - z[i - 1] - 2 * z[i + 1] + 1 for i in upto(len(x))])


def broyden_banded(x):
    def residual(i):
        near = (j for j in upto(min(len(x), i + 1), max(1, i - 5)) if j != i)
        return x[i] * (2 + 5 * x[i] ** 2) + 1 - sum(x[j] * (1 + x[j]) for j in near)

    return squares([residual(i) for i in upto(len(x))])


def linear_full_rank(x):
    n, m, s = len(x), 2 * len(x), sum(x)
    return squares([x[i] - 2 / m * s - 1 for i in upto(n)]) + (m - n) * (2 / m * s + 1) ** 2


def linear_rank_1(x):
    s = sum(j * x[j] for j in upto(len(x)))
    return squares([i * s - 1 for i in upto(2 * len(x))])


def linear_rank_1_zeros(x):
    n = len(x)
    s = sum(j * x[j] for j in upto(n - 1, 2))
    return 2 + squares([(i - 1) * s - 1 for i in upto(2 * n - 1, 2)])


def chebyquad(x):
    def chebyshev(i, t):
        a, b = 1.0, 2 * t - 1
        for _ in range(i - 1):
            a, b = b, 2 * (2 * t - 1) * b - a
        return b

    n = len(x)
    means = [0 if i % 2 else -1 / (i**2 - 1) for i in upto(n)]
    return squares([sum(chebyshev(i, t) for t in x) / n - means[i - 1] for i in upto(n)])


def arwhead(x):
    n = len(x)
    return sum((x[i] ** 2 + x[n] ** 2) ** 2 - 4 * x[i] + 3 for i in upto(n - 1))


def bdqrtic(x):
    n = len(x)
    return sum(
        (3 - 4 * x[i]) ** 2 + (sum((k + 1) * x[i + k] ** 2 for k in range(4)) + 5 * x[n] ** 2) ** 2
        for i in upto(n - 4)
    )


def broydn7d(x):
    n, z = len(x), [0.0, *x, 0.0]
    tri = (abs((3 - 2 * z[i]) * z[i] - z[i - 1] - 2 * z[i + 1] + 1) ** (7 / 3) for i in upto(n))
    return sum(tri) + sum(abs(x[i] + x[i + n // 2]) ** (7 / 3) for i in upto(n // 2))


def curly10(x):
    n = len(x)
    q = [sum(x[j] for j in upto(min(i + 10, n), i)) for i in upto(n)]
    return sum(t**4 - 20 * t**2 - 0.1 * t for t in q)


def dixmaan(a, b, c, d, k):
    def value(x):
        n, m = len(x), len(x) // 3
        return (
            1
            + sum(a * x[i] ** 2 * (i / n) ** k for i in upto(n))
            + sum(b * x[i] ** 2 * (x[i + 1] + x[i + 1] ** 2) ** 2 for i in upto(n - 1))
            + sum(c * x[i] ** 2 * x[i + m] ** 4 for i in upto(2 * m))
            + sum(d * x[i] * x[i + 2 * m] * (i / n) ** k for i in upto(m))
        )

    return value


def dixon3dq(x):
    n = len(x)
    return (x[1] - 1) ** 2 + sum((x[j] - x[j + 1]) ** 2 for j in upto(n - 1, 2)) + (x[n] - 1) ** 2


def fletcbv2(x):
    n, z = len(x), [0.0, *x, 0.0]
    h = 1 / (n + 1)
    return (
        sum((z[i] - z[i + 1]) ** 2 for i in range(n + 1)) / 2 - h**2 * sum(2 * t + cos(t) for t in x) - x[n]
    )


def fminsrf2(x):
    p = round(sqrt(len(x)))

    def at(i, j):
        return x[(i - 1) * p + j]

    cells = (
        sqrt(1 + (p - 1) ** 2 / 2 * ((at(i, j) - at(i + 1, j + 1)) ** 2 + (at(i + 1, j) - at(i, j + 1)) ** 2))
        for i in upto(p - 1)
        for j in upto(p - 1)
    )
    return sum(cells) / (p - 1) ** 2 + at(p // 2, p // 2) ** 2 / p**2


def nondquar(x):
    n = len(x)
    quartic = sum((x[i] + x[i + 1] + x[n]) ** 4 for i in upto(n - 2))
    return (x[1] - x[2]) ** 2 + (x[n - 1] + x[n]) ** 2 + quartic


def sinquad(x):
    n = len(x)
    middle = sum((sin(x[i] - x[n]) - x[1] ** 2 + x[i] ** 2) ** 2 for i in upto(n - 1, 2))
    return (x[1] - 1) ** 4 + middle + (x[n] ** 2 - x[1] ** 2) ** 2


def scattered(x, i, of):
    return sum(of(x[(k * i - 1) % len(x) + 1]) for k in (1, 2, 3, 5, 7, 11))


def spectrum(x):
    n = len(x)
    return sum(10 ** (6 * (i - 1) / (n - 1)) * x[i] ** 2 for i in upto(n))


def tointgss(x):
    n = len(x)
    return sum(
        (10 / (n + 2) + x[i + 2] ** 2) * (2 - exp(-((x[i] - x[i + 1]) ** 2) / (0.1 + x[i + 2] ** 2)))
        for i in upto(n - 2)
    )


# By name without the dimension.
NAMED = (
    rosenbrock, freudenstein_roth, helical_valley, bard, gulf, box_3d, powell_singular, wood, biggs_exp6,
    watson, penalty_2, variably_dimensioned, trigonometric, brown_almost_linear, boundary_value,
    integral_equation, broyden_tridiagonal, broyden_banded, linear_full_rank, linear_rank_1,
    linear_rank_1_zeros, chebyquad, arwhead, bdqrtic, broydn7d, curly10, dixon3dq, fletcbv2, fminsrf2,
    nondquar, sinquad, spectrum, tointgss,
)  # fmt: skip

FORMULAS = {f.__name__.replace("_", "-"): f for f in NAMED} | {
    "powell-badly-scaled": lambda x: (1e4 * x[1] * x[2] - 1) ** 2 + (exp(-x[1]) + exp(-x[2]) - 1.0001) ** 2,
    "brown-badly-scaled": lambda x: (x[1] - 1e6) ** 2 + (x[2] - 2e-6) ** 2 + (x[1] * x[2] - 2) ** 2,
    "beale": lambda x: squares([y - x[1] * (1 - x[2] ** i) for i, y in enumerate([1.5, 2.25, 2.625], 1)]),
    "jennrich-sampson": lambda x: squares([2 + 2 * i - (exp(i * x[1]) + exp(i * x[2])) for i in upto(10)]),
    "brown-dennis": lambda x: squares(
        [
            (x[1] + t * x[2] - exp(t)) ** 2 + (x[3] + x[4] * sin(t) - cos(t)) ** 2
            for t in (i / 5 for i in upto(20))
        ]
    ),
    "penalty-1": lambda x: 1e-5 * sum((t - 1) ** 2 for t in x) + (sum(t**2 for t in x) - 0.25) ** 2,
    "cosine": lambda x: sum(cos(-0.5 * x[i + 1] + x[i] ** 2) for i in upto(len(x) - 1)),
    "cragglvy": lambda x: sum(
        (exp(x[2 * i - 1]) - x[2 * i]) ** 4
        + 100 * (x[2 * i] - x[2 * i + 1]) ** 6
        + (tan(x[2 * i + 1] - x[2 * i + 2]) + x[2 * i + 1] - x[2 * i + 2]) ** 4
        + x[2 * i - 1] ** 8
        + (x[2 * i + 2] - 1) ** 2
        for i in upto(len(x) // 2 - 1)
    ),
    "dqdrtic": lambda x: sum(x[i] ** 2 + 100 * x[i + 1] ** 2 + 100 * x[i + 2] ** 2 for i in upto(len(x) - 2)),
    "dqrtic": lambda x: sum((x[i] - i) ** 4 for i in upto(len(x))),
    "edensch": lambda x: (
        16
        + sum(
            (x[i] - 2) ** 4 + (x[i] * x[i + 1] - 2 * x[i + 1]) ** 2 + (x[i + 1] + 1) ** 2
            for i in upto(len(x) - 1)
        )
    ),
    "eg2": lambda x: sum(sin(x[1] + t**2 - 1) for t in list(x)[:-1]) + 0.5 * sin(x[len(x)] ** 2),
    "engval1": lambda x: sum((x[i] ** 2 + x[i + 1] ** 2) ** 2 - 4 * x[i] + 3 for i in upto(len(x) - 1)),
    "extrosnb": lambda x: (x[1] - 1) ** 2 + 100 * sum((x[i] - x[i - 1] ** 2) ** 2 for i in upto(len(x), 2)),
    "fletchcr": lambda x: 100 * sum((x[i + 1] - x[i] + 1 - x[i] ** 2) ** 2 for i in upto(len(x) - 1)),
    "freuroth": lambda x: sum(freudenstein_roth(One([x[i], x[i + 1]])) for i in upto(len(x) - 1)),
    "genrose": lambda x: (
        1 + sum(100 * (x[i] - x[i - 1] ** 2) ** 2 + (x[i] - 1) ** 2 for i in upto(len(x), 2))
    ),
    "hager": lambda x: sum(exp(x[i]) - sqrt(i) * x[i] for i in upto(len(x))),
    "liarwhd": lambda x: sum(4 * (t**2 - x[1]) ** 2 + (t - 1) ** 2 for t in x),
    "nondia": lambda x: (x[1] - 1) ** 2 + sum(100 * (x[1] - x[i - 1] ** 2) ** 2 for i in upto(len(x), 2)),
    "power": lambda x: sum(i * x[i] ** 2 for i in upto(len(x))) ** 2,
    "raydan1": lambda x: sum(i / 10 * (exp(x[i]) - x[i]) for i in upto(len(x))),
    "schmvett": lambda x: sum(
        -1 / (1 + (x[i] - x[i + 1]) ** 2)
        - sin((pi * x[i + 1] + x[i + 2]) / 2)
        - exp(-(((x[i] + x[i + 2]) / x[i + 1] - 2) ** 2))
        for i in upto(len(x) - 2)
    ),
    "sparsine": lambda x: sum(0.5 * i * scattered(x, i, sin) ** 2 for i in upto(len(x))),
    "sparsqur": lambda x: sum(0.125 * i * scattered(x, i, lambda t: t**2) ** 2 for i in upto(len(x))),
    "tquartic": lambda x: (x[1] - 1) ** 2 + sum((x[1] ** 2 - t**2) ** 2 for t in x),
    "tridia": lambda x: (x[1] - 1) ** 2 + sum(i * (2 * x[i] - x[i - 1]) ** 2 for i in upto(len(x), 2)),
    "extended-rosenbrock": rosenbrock,
    "extended-powell": powell_singular,
    "woods": wood,
    "dixmaana": dixmaan(1, 0, 0.125, 0.125, 0),
    "dixmaand": dixmaan(1, 0.26, 0.26, 0.26, 0),
    "dixmaane": dixmaan(1, 0, 0.125, 0.125, 1),
    "dixmaanf": dixmaan(1, 0.0625, 0.0625, 0.0625, 1),
    "dixmaani": dixmaan(1, 0, 0.125, 0.125, 2),
    "dixmaanl": dixmaan(1, 0.26, 0.26, 0.26, 2),
}


# Fits to data have no formula here: their values are held to printed ones, or to NIST's.
FITS = {"gaussian", "meyer", "kowalik-osborne", "osborne-1", "osborne-2"}


def stem(name):
    """Return a name without the dimension at its end."""
    short = re.sub(r"-\d+$", "", name)
    return name if name in {"penalty-1", "penalty-2"} or f"{name}-4" in problems else short


def formula_name(p):
    """Return the name of the formula of a problem."""
    return stem(p.name) if p.suite == "mgh" and "n =" in p.title else p.name
