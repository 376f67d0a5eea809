"""The SFU formulas, transcribed a second time in mpmath: as printed, without rearrangement."""

from itertools import pairwise

import mpmath as mp
from mpmath import cos, exp, fsum, mpf, pi, sin, sqrt

d = mpf  # a decimal constant, at the precision with which the function is called


def total(term, points, first=1):
    """Return the sum of term(i, t) over the numbered points."""
    return fsum(term(i, t) for i, t in enumerate(points, first))


def squares(x):
    return fsum(t**2 for t in x)


def langermann(x):
    def term(c, a):
        square = squares([x[0] - a[0], x[1] - a[1]])
        return c * exp(-square / pi) * cos(pi * square)

    return fsum(map(term, (1, 2, 5, 2, 3), ((3, 5), (5, 2), (2, 1), (1, 4), (7, 9))))


def levy(x):
    w = [1 + (t - 1) / 4 for t in x]
    middle = fsum((t - 1) ** 2 * (1 + 10 * sin(pi * t + 1) ** 2) for t in w[:-1])
    return sin(pi * w[0]) ** 2 + middle + (w[-1] - 1) ** 2 * (1 + sin(2 * pi * w[-1]) ** 2)


def levy_13(x):
    first = (x[0] - 1) ** 2 * (1 + sin(3 * pi * x[1]) ** 2)
    return sin(3 * pi * x[0]) ** 2 + first + (x[1] - 1) ** 2 * (1 + sin(2 * pi * x[1]) ** 2)


def schaffer(x, top):
    return d("0.5") + (top - d("0.5")) / (1 + d("0.001") * squares(x)) ** 2


def shubert(x):
    first, second = (fsum(i * cos((i + 1) * t + i) for i in range(1, 6)) for t in x)
    return first * second


def bohachevsky(x, constant, waves):
    return x[0] ** 2 + 2 * x[1] ** 2 - waves + d(constant)


def quadratic(x):
    last = max(len(x) - 1, 1)
    share = [mpf(2 * i) / last - 1 if len(x) > 1 else 0 for i in range(len(x))]
    return fsum((d("9.90745113") + s * d("0.89965944")) * t**2 for s, t in zip(share, x, strict=True)) / 2


def perm(x, term):
    numbers = range(1, len(x) + 1)
    return fsum(fsum(term(i, j, x[j - 1]) for j in numbers) ** 2 for i in numbers)


def zakharov(x):
    weighted = total(lambda i, t: d("0.5") * i * t, x)
    return squares(x) + weighted**2 + weighted**4


def dejong_5(x):
    grid = (-32, -16, 0, 16, 32)
    holes = [(a, b) for b in grid for a in grid]
    return 1 / (d("0.002") + total(lambda i, h: 1 / (i + (x[0] - h[0]) ** 6 + (x[1] - h[1]) ** 6), holes))


def branin(x):
    b, c, t = d("5.1") / (4 * pi**2), 5 / pi, 1 / (8 * pi)
    return (x[1] - b * x[0] ** 2 + c * x[0] - 6) ** 2 + 10 * (1 - t) * cos(x[0]) + 10


def colville(x):
    first = 100 * (x[0] ** 2 - x[1]) ** 2 + (x[0] - 1) ** 2 + (x[2] - 1) ** 2 + 90 * (x[2] ** 2 - x[3]) ** 2
    second = d("10.1") * ((x[1] - 1) ** 2 + (x[3] - 1) ** 2)
    return first + second + d("19.8") * (x[1] - 1) * (x[3] - 1)


def goldstein_price(x):
    a, b = x
    left = 19 - 14 * a + 3 * a**2 - 14 * b + 6 * a * b + 3 * b**2
    right = 18 - 32 * a + 12 * a**2 + 48 * b - 36 * a * b + 27 * b**2
    return (1 + (a + b + 1) ** 2 * left) * (30 + (2 * a - 3 * b) ** 2 * right)


A3 = "3 10 30", "0.1 10 35", "3 10 30", "0.1 10 35"
P3 = (3689, 1170, 2673), (4699, 4387, 7470), (1091, 8732, 5547), (381, 5743, 8828)
A6 = "10 3 17 3.5 1.7 8", "0.05 10 17 0.1 8 14", "3 3.5 1.7 10 17 8", "17 8 0.05 10 0.1 14"
P6 = (
    (1312, 1696, 5569, 124, 8283, 5886), (2329, 4135, 8307, 3736, 1004, 9991),
    (2348, 1451, 3522, 2883, 3047, 6650), (4047, 8828, 8732, 5743, 1091, 381),
)  # fmt: skip


def wells(x, A, P):
    def well(alpha, a, p):
        return d(alpha) * exp(
            -fsum(d(b) * (t - mpf(c) / 10000) ** 2 for b, t, c in zip(a.split(), x, p, strict=False))
        )

    return fsum(map(well, ("1", "1.2", "3", "3.2"), A, P))


def powell(x):
    fours = zip(x[::4], x[1::4], x[2::4], x[3::4], strict=True)
    terms = ((a + 10 * b, (b - 2 * c) ** 2, (a - e) ** 2, c - e) for a, b, c, e in fours)
    return fsum(p**2 + q**2 + 10 * r**2 + 5 * s**2 for p, q, r, s in terms)


def shekel(x):
    odd, even = (4, 1, 8, 6, 3, 2, 5, 8, 6, 7), (4, 1, 8, 6, 7, 9, 3, 1, 2, d("3.6"))
    beta = (1, 2, 2, 4, 4, 6, 3, 7, 5, 5)
    holes = zip(beta, odd, even, strict=True)
    return -fsum(1 / (squares([x[0] - p, x[1] - q, x[2] - p, x[3] - q]) + mpf(b) / 10) for b, p, q in holes)


NAMED = (
    langermann, levy, levy_13, shubert, quadratic, zakharov, dejong_5, branin, colville, goldstein_price,
    powell, shekel,
)  # fmt: skip

REFERENCES = {function.__name__.replace("_", "-"): function for function in NAMED} | {
    # many local minima
    "ackley": lambda x: (
        20
        - 20 * exp(-d("0.2") * sqrt(squares(x) / len(x)))
        - exp(fsum(cos(2 * pi * t) for t in x) / len(x))
        + mp.e
    ),
    "bukin-6": lambda x: 100 * sqrt(abs(x[1] - d("0.01") * x[0] ** 2)) + d("0.01") * abs(x[0] + 10),
    "cross-in-tray": lambda x: (
        -d("0.0001") * (abs(sin(x[0]) * sin(x[1]) * exp(abs(100 - sqrt(squares(x)) / pi))) + 1) ** d("0.1")
    ),
    "drop-wave": lambda x: -(1 + cos(12 * sqrt(squares(x)))) / (d("0.5") * squares(x) + 2),
    "eggholder": lambda x: (
        -(x[1] + 47) * sin(sqrt(abs(x[1] + x[0] / 2 + 47))) - x[0] * sin(sqrt(abs(x[0] - (x[1] + 47))))
    ),
    "gramacy-lee": lambda x: sin(10 * pi * x[0]) / (2 * x[0]) + (x[0] - 1) ** 4,
    "griewank": lambda x: squares(x) / 4000 - mp.fprod(cos(t / sqrt(i)) for i, t in enumerate(x, 1)) + 1,
    "holder-table": lambda x: -abs(sin(x[0]) * cos(x[1]) * exp(abs(1 - sqrt(squares(x)) / pi))),
    "rastrigin": lambda x: 10 * len(x) + fsum(t**2 - 10 * cos(2 * pi * t) for t in x),
    "schaffer-2": lambda x: schaffer(x, sin(x[0] ** 2 - x[1] ** 2) ** 2),
    "schaffer-4": lambda x: schaffer(x, cos(sin(abs(x[0] ** 2 - x[1] ** 2))) ** 2),
    "schwefel": lambda x: d("418.9829") * len(x) - fsum(t * sin(sqrt(abs(t))) for t in x),
    # bowl-shaped
    "bohachevsky-1": lambda x: bohachevsky(
        x, "0.7", d("0.3") * cos(3 * pi * x[0]) + d("0.4") * cos(4 * pi * x[1])
    ),
    "bohachevsky-2": lambda x: bohachevsky(x, "0.3", d("0.3") * cos(3 * pi * x[0]) * cos(4 * pi * x[1])),
    "bohachevsky-3": lambda x: bohachevsky(x, "0.3", d("0.3") * cos(3 * pi * x[0] + 4 * pi * x[1])),
    "perm-0": lambda x: perm(x, lambda i, j, t: (j + 10) * (t**i - mpf(1) / mpf(j) ** i)),
    "rotated-hyper-ellipsoid": lambda x: fsum(x[j] ** 2 for i in range(len(x)) for j in range(i + 1)),
    "sphere": squares,
    "sum-of-different-powers": lambda x: total(lambda i, t: abs(t) ** (i + 1), x),
    "sum-squares": lambda x: total(lambda i, t: i * t**2, x),
    "trid": lambda x: fsum((t - 1) ** 2 for t in x) - fsum(a * b for a, b in pairwise(x)),
    # plate-shaped and valley-shaped
    "booth": lambda x: (x[0] + 2 * x[1] - 7) ** 2 + (2 * x[0] + x[1] - 5) ** 2,
    "matyas": lambda x: d("0.26") * squares(x) - d("0.48") * x[0] * x[1],
    "mccormick": lambda x: sin(x[0] + x[1]) + (x[0] - x[1]) ** 2 - d("1.5") * x[0] + d("2.5") * x[1] + 1,
    "power-sum": lambda x: total(lambda i, b: (fsum(t**i for t in x) - b) ** 2, (8, 18, 44, 114)),
    "three-hump-camel": lambda x: (
        2 * x[0] ** 2 - d("1.05") * x[0] ** 4 + x[0] ** 6 / 6 + x[0] * x[1] + x[1] ** 2
    ),
    "six-hump-camel": lambda x: (
        (4 - d("2.1") * x[0] ** 2 + x[0] ** 4 / 3) * x[0] ** 2 + x[0] * x[1] + 4 * (x[1] ** 2 - 1) * x[1] ** 2
    ),
    "dixon-price": lambda x: (x[0] - 1) ** 2 + total(lambda i, t: i * (2 * t**2 - x[i - 2]) ** 2, x[1:], 2),
    "rosenbrock": lambda x: fsum(100 * (b - a**2) ** 2 + (a - 1) ** 2 for a, b in pairwise(x)),
    # steep ridges and drops, and others
    "easom": lambda x: -cos(x[0]) * cos(x[1]) * exp(-((x[0] - pi) ** 2) - (x[1] - pi) ** 2),
    "michalewicz": lambda x: -total(lambda i, t: sin(t) * sin(i * t**2 / pi) ** 20, x),
    "beale": lambda x: total(lambda i, c: (d(c) - x[0] + x[0] * x[1] ** i) ** 2, ("1.5", "2.25", "2.625")),
    "forrester": lambda x: (6 * x[0] - 2) ** 2 * sin(12 * x[0] - 4),
    "hartmann-3": lambda x: -wells(x, A3, P3),
    "hartmann-4": lambda x: (d("1.1") - wells(x, A6, P6)) / d("0.839"),
    "hartmann-6": lambda x: -wells(x, A6, P6),
    "perm-d": lambda x: perm(x, lambda i, j, t: (mpf(j) ** i + d("0.5")) * ((t / j) ** i - 1)),
    "styblinski-tang": lambda x: fsum(t**4 - 16 * t**2 + 5 * t for t in x) / 2,
}
