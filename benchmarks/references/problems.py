"""The formulas a second time: sums over indices as they are printed, for one point.

The elementary functions are mpmath's, so a point of mpf numbers gives the value at the working precision.
"""

import re
from math import prod

import mpmath as mp
from mpmath import atan2, cos, log, pi, sin, sqrt, tan


class One(list):
    """A list whose first index is 1, as in print."""

    def __getitem__(self, i):
        assert i >= 1
        return super().__getitem__(i - 1)


def exp(t):
    """Return eᵗ; what no float can hold is 0 or inf, since mpmath takes seconds for it."""
    return mp.exp(t) if abs(t) < 1e5 else mp.mpf(0) if t < 0 else mp.inf


def upto(last, first=1):
    return range(first, last + 1)


def squares(residual, numbers):
    return sum(residual(i) ** 2 for i in numbers)


def total(term, x, first=1, short=0):
    """Return the sum of term(i) over the indices of x from the first; the last so many are left out."""
    return sum(map(term, upto(len(x) - short, first)))


def weighted(x, first=1, short=0):
    return total(lambda j: j * x[j], x, first, short)


def padded(x):
    return [0.0, *x, 0.0]


def freudenstein_roth(x, i=1):
    a, b = x[i], x[i + 1]
    return (-13 + a + ((5 - b) * b - 2) * b) ** 2 + (-29 + a + ((b + 1) * b - 14) * b) ** 2


def rosenbrock(x):
    return sum(100 * (x[2 * i] - x[2 * i - 1] ** 2) ** 2 + (1 - x[2 * i - 1]) ** 2 for i in upto(len(x) // 2))


def helical_valley(x):
    turn = atan2(x[2], x[1]) / (2 * pi)
    turn += turn < -0.25  # the branch of the collection is cut below the negative x2 axis
    return 100 * ((x[3] - 10 * turn) ** 2 + (sqrt(x[1] ** 2 + x[2] ** 2) - 1) ** 2) + x[3] ** 2


BARD = [0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.1, 4.39]


def gulf(x):
    def residual(i):
        y = 25 + (-50 * log(i / 100)) ** (2 / 3)
        return exp(-(abs(y - x[2]) ** x[3]) / x[1]) - i / 100

    return squares(residual, upto(99))


def powell_singular(x):
    fours = (list(x)[i : i + 4] for i in range(0, len(x), 4))
    terms = (
        ((a + 10 * b) ** 2, 5 * (c - d) ** 2, (b - 2 * c) ** 4, 10 * (a - d) ** 4) for a, b, c, d in fours
    )
    return sum(map(sum, terms))


def wood(x):
    def four(a, b, c, d):
        valleys = 100 * (b - a**2) ** 2 + (1 - a) ** 2 + 90 * (d - c**2) ** 2 + (1 - c) ** 2
        return valleys + 10 * (b + d - 2) ** 2 + (b - d) ** 2 / 10

    return sum(four(*list(x)[i : i + 4]) for i in range(0, len(x), 4))


def biggs_exp6(x):
    def residual(t):
        y = exp(-t) - 5 * exp(-10 * t) + 3 * exp(-4 * t)
        return x[3] * exp(-t * x[1]) - x[4] * exp(-t * x[2]) + x[6] * exp(-t * x[5]) - y

    return squares(residual, [i / 10 for i in upto(13)])


def watson(x):
    def residual(t):
        slope = total(lambda j: (j - 1) * x[j] * t ** (j - 2), x, 2)
        return slope - total(lambda j: x[j] * t ** (j - 1), x) ** 2 - 1

    return squares(residual, [i / 29 for i in upto(29)]) + x[1] ** 2 + (x[2] - x[1] ** 2 - 1) ** 2


def penalty_2(x):
    n = len(x)

    def residual(i):
        if i > n:
            return exp(x[i - n + 1] / 10) - exp(-1 / 10)
        return exp(x[i] / 10) + exp(x[i - 1] / 10) - (exp(i / 10) + exp((i - 1) / 10))

    first = (x[1] - 0.2) ** 2 + (total(lambda j: (n - j + 1) * x[j] ** 2, x) - 1) ** 2
    return first + 1e-5 * squares(residual, upto(2 * n - 1, 2))


def variably_dimensioned(x):
    s = total(lambda j: j * (x[j] - 1), x)
    return sum((t - 1) ** 2 for t in x) + s**2 + s**4


def boundary_value(x):
    h, z = 1 / (len(x) + 1), padded(x)
    return squares(
        lambda i: 2 * z[i] - z[i - 1] - z[i + 1] + h**2 * (z[i] + i * h + 1) ** 3 / 2, upto(len(x))
    )


def integral_equation(x):
    h = 1 / (len(x) + 1)

    def residual(i):
        weights = ((1 - max(i, j) * h) * min(i, j) * h for j in upto(len(x)))
        return x[i] + h / 2 * sum(w * (x[j] + j * h + 1) ** 3 for j, w in enumerate(weights, 1))

    return squares(residual, upto(len(x)))


def tridiagonal(x, i):
    z = padded(x)
    return (3 - 2 * z[i]) * z[i] - z[i - 1] - 2 * z[i + 1] + 1


def broyden_banded(x):
    def residual(i):
        near = (j for j in upto(min(len(x), i + 1), max(1, i - 5)) if j != i)
        return x[i] * (2 + 5 * x[i] ** 2) + 1 - sum(x[j] * (1 + x[j]) for j in near)

    return squares(residual, upto(len(x)))


def chebyquad(x):
    def chebyshev(i, t):
        a, b = 1.0, 2 * t - 1
        for _ in range(i - 1):
            a, b = b, 2 * (2 * t - 1) * b - a
        return b

    def residual(i):
        return sum(chebyshev(i, t) for t in x) / len(x) - (0 if i % 2 else -1 / (i**2 - 1))

    return squares(residual, upto(len(x)))


def bdqrtic(x):
    def term(i):
        bent = sum((k + 1) * x[i + k] ** 2 for k in range(4)) + 5 * x[len(x)] ** 2
        return (3 - 4 * x[i]) ** 2 + bent**2

    return total(term, x, short=4)


def broydn7d(x):
    half = len(x) // 2
    pairs = (x[i] + x[i + half] for i in upto(half))
    return sum(abs(r) ** (7 / 3) for r in [*(tridiagonal(x, i) for i in upto(len(x))), *pairs])


def dixmaan(a, b, c, d, k):
    def value(x):
        n, m = len(x), len(x) // 3
        value = 1 + total(lambda i: a * x[i] ** 2 * (i / n) ** k, x)
        value += total(lambda i: b * x[i] ** 2 * (x[i + 1] + x[i + 1] ** 2) ** 2, x, short=1)
        value += total(lambda i: c * x[i] ** 2 * x[i + m] ** 4, x, short=m)
        return value + total(lambda i: d * x[i] * x[i + 2 * m] * (i / n) ** k, x, short=2 * m)

    return value


def fletcbv2(x):
    n, z = len(x), padded(x)
    bends = sum((z[i] - z[i + 1]) ** 2 for i in range(n + 1)) / 2
    return bends - sum(2 * t + cos(t) for t in x) / (n + 1) ** 2 - x[n]


def fminsrf2(x):
    p = round(sqrt(len(x)))

    def at(i, j):
        return x[(i - 1) * p + j]

    def cell(i, j):
        slopes = (at(i, j) - at(i + 1, j + 1)) ** 2 + (at(i + 1, j) - at(i, j + 1)) ** 2
        return sqrt(1 + (p - 1) ** 2 / 2 * slopes)

    area = sum(cell(i, j) for i in upto(p - 1) for j in upto(p - 1))
    return area / (p - 1) ** 2 + at(p // 2, p // 2) ** 2 / p**2


def sinquad(x):
    last = x[len(x)]
    middle = total(lambda i: (sin(x[i] - last) - x[1] ** 2 + x[i] ** 2) ** 2, x, 2, short=1)
    return (x[1] - 1) ** 4 + middle + (last**2 - x[1] ** 2) ** 2


def scattered(x, i, of):
    return sum(of(x[(k * i - 1) % len(x) + 1]) for k in (1, 2, 3, 5, 7, 11))


def cragglvy(x):
    def term(i):
        a, b, c, d = (x[2 * i + k] for k in (-1, 0, 1, 2))
        first = (exp(a) - b) ** 4 + 100 * (b - c) ** 6 + (tan(c - d) + c - d) ** 4
        return first + a**8 + (d - 1) ** 2

    return sum(map(term, upto(len(x) // 2 - 1)))


def edensch(x):
    def term(i):
        a, b = x[i], x[i + 1]
        return (a - 2) ** 4 + (a * b - 2 * b) ** 2 + (b + 1) ** 2

    return 16 + total(term, x, short=1)


def schmvett(x):
    def term(i):
        a, b, c = x[i], x[i + 1], x[i + 2]
        return -1 / (1 + (a - b) ** 2) - sin((pi * b + c) / 2) - exp(-(((a + c) / b - 2) ** 2))

    return total(term, x, short=2)


def tointgss(x):
    def term(i):
        square = x[i + 2] ** 2
        return (10 / (len(x) + 2) + square) * (2 - exp(-((x[i] - x[i + 1]) ** 2) / (0.1 + square)))

    return total(term, x, short=2)


# By name without the dimension.
NAMED = (
    rosenbrock, variably_dimensioned, freudenstein_roth, helical_valley, gulf, powell_singular, wood,
    biggs_exp6, watson, penalty_2, boundary_value, integral_equation, broyden_banded, chebyquad, bdqrtic,
    broydn7d, fletcbv2, fminsrf2, sinquad, cragglvy, edensch, schmvett, tointgss,
)  # fmt: skip

FORMULAS = {f.__name__.replace("_", "-"): f for f in NAMED} | {
    "powell-badly-scaled": lambda x: (1e4 * x[1] * x[2] - 1) ** 2 + (exp(-x[1]) + exp(-x[2]) - 1.0001) ** 2,
    "brown-badly-scaled": lambda x: (x[1] - 1e6) ** 2 + (x[2] - 2e-6) ** 2 + (x[1] * x[2] - 2) ** 2,
    "beale": lambda x: sum((y - x[1] * (1 - x[2] ** i)) ** 2 for i, y in enumerate([1.5, 2.25, 2.625], 1)),
    "jennrich-sampson": lambda x: squares(lambda i: 2 + 2 * i - (exp(i * x[1]) + exp(i * x[2])), upto(10)),
    "bard": lambda x: squares(
        lambda i: BARD[i - 1] - (x[1] + i / ((16 - i) * x[2] + min(i, 16 - i) * x[3])), upto(15)
    ),
    "box-3d": lambda x: squares(
        lambda i: exp(-i * x[1] / 10) - exp(-i * x[2] / 10) - x[3] * (exp(-i / 10) - exp(-i)), upto(10)
    ),
    "brown-dennis": lambda x: squares(
        lambda i: (x[1] + i / 5 * x[2] - exp(i / 5)) ** 2 + (x[3] + x[4] * sin(i / 5) - cos(i / 5)) ** 2,
        upto(20),
    ),
    "penalty-1": lambda x: 1e-5 * sum((t - 1) ** 2 for t in x) + (sum(t**2 for t in x) - 0.25) ** 2,
    "brown-almost-linear": lambda x: (
        squares(lambda i: x[i] + sum(x) - (len(x) + 1), upto(len(x) - 1)) + (prod(x) - 1) ** 2
    ),
    "trigonometric": lambda x: squares(
        lambda i: sum(1 - cos(t) for t in x) + i * (1 - cos(x[i])) - sin(x[i]), upto(len(x))
    ),
    "linear-full-rank": lambda x: (
        sum((t - sum(x) / len(x) - 1) ** 2 for t in x) + len(x) * (sum(x) / len(x) + 1) ** 2
    ),
    "linear-rank-1": lambda x: squares(lambda i: i * weighted(x) - 1, upto(2 * len(x))),
    "linear-rank-1-zeros": lambda x: (
        2 + squares(lambda i: (i - 1) * weighted(x, 2, short=1) - 1, upto(2 * len(x) - 1, 2))
    ),
    "broyden-tridiagonal": lambda x: squares(lambda i: tridiagonal(x, i), upto(len(x))),
    "arwhead": lambda x: total(lambda i: (x[i] ** 2 + x[len(x)] ** 2) ** 2 - 4 * x[i] + 3, x, short=1),
    "cosine": lambda x: total(lambda i: cos(-0.5 * x[i + 1] + x[i] ** 2), x, short=1),
    "dixon3dq": lambda x: (
        (x[1] - 1) ** 2 + total(lambda j: (x[j] - x[j + 1]) ** 2, x, 2, short=1) + (x[len(x)] - 1) ** 2
    ),
    "dqdrtic": lambda x: total(lambda i: x[i] ** 2 + 100 * x[i + 1] ** 2 + 100 * x[i + 2] ** 2, x, short=2),
    "dqrtic": lambda x: total(lambda i: (x[i] - i) ** 4, x),
    "eg2": lambda x: total(lambda i: sin(x[1] + x[i] ** 2 - 1), x, short=1) + 0.5 * sin(x[len(x)] ** 2),
    "engval1": lambda x: total(lambda i: (x[i] ** 2 + x[i + 1] ** 2) ** 2 - 4 * x[i] + 3, x, short=1),
    "extrosnb": lambda x: (x[1] - 1) ** 2 + 100 * total(lambda i: (x[i] - x[i - 1] ** 2) ** 2, x, 2),
    "fletchcr": lambda x: 100 * total(lambda i: (x[i + 1] - x[i] + 1 - x[i] ** 2) ** 2, x, short=1),
    "freuroth": lambda x: total(lambda i: freudenstein_roth(x, i), x, short=1),
    "genrose": lambda x: 1 + total(lambda i: 100 * (x[i] - x[i - 1] ** 2) ** 2 + (x[i] - 1) ** 2, x, 2),
    "hager": lambda x: total(lambda i: exp(x[i]) - sqrt(i) * x[i], x),
    "liarwhd": lambda x: sum(4 * (t**2 - x[1]) ** 2 + (t - 1) ** 2 for t in x),
    "nondia": lambda x: (x[1] - 1) ** 2 + total(lambda i: 100 * (x[1] - x[i - 1] ** 2) ** 2, x, 2),
    "curly10": lambda x: sum(
        q**4 - 20 * q**2 - 0.1 * q for q in (sum(list(x)[i : i + 11]) for i in range(len(x)))
    ),
    "nondquar": lambda x: (
        (x[1] - x[2]) ** 2
        + (x[len(x) - 1] + x[len(x)]) ** 2
        + total(lambda i: (x[i] + x[i + 1] + x[len(x)]) ** 4, x, short=2)
    ),
    "power": lambda x: total(lambda i: i * x[i] ** 2, x) ** 2,
    "raydan1": lambda x: total(lambda i: i / 10 * (exp(x[i]) - x[i]), x),
    "sparsine": lambda x: total(lambda i: 0.5 * i * scattered(x, i, sin) ** 2, x),
    "sparsqur": lambda x: total(lambda i: 0.125 * i * scattered(x, i, lambda t: t**2) ** 2, x),
    "spectrum": lambda x: total(lambda i: 10 ** (6 * (i - 1) / (len(x) - 1)) * x[i] ** 2, x),
    "tquartic": lambda x: (x[1] - 1) ** 2 + sum((x[1] ** 2 - t**2) ** 2 for t in x),
    "tridia": lambda x: (x[1] - 1) ** 2 + total(lambda i: i * (2 * x[i] - x[i - 1]) ** 2, x, 2),
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


def formula_name(p):
    """Return the name of the formula of a problem: without the dimension at its end."""
    return re.sub(r"-\d+$", "", p.name) if p.suite == "mgh" and "n =" in p.title else p.name
