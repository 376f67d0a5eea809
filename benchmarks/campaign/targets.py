"""What the campaign minimises: the collections of the library, and hostile functions in closed form.

A target is given twice. In floats it is what a user would write: vectorised over leading axes, in the
precision of x. In mpmath numbers it is what the referee reads; where `exact` is None there are floats only.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
from benchmarks.problems import problems
from benchmarks.references.functions import REFERENCES
from benchmarks.references.nist import regression
from benchmarks.references.problems import FITS, FORMULAS, One, formula_name
from scipy.optimize import linprog

from steepen.functions import functions


@dataclass(frozen=True)
class Target:
    """A function with its gradient. Runs begin at centre + spread·u with u in [−1, 1].

    `unit` is the size of x at which it has features, `noise` that of the noise in f, relative to |f|,
    `resolution` the least difference of two values, `lowest` the minimum of a convex function with kinks,
    `second` an object with `grad`, `hvp` and `hess`.
    """

    name: str
    fun: Any
    grad: Any
    centre: Any
    spread: Any
    exact: Any = None
    unit: float = 1.0
    noise: float = 0.0
    resolution: float = 0.0
    lowest: float | None = None
    second: Any = None
    group: str = "hostile"

    @property
    def n(self):
        return len(self.centre)


def hostile(name, fun, grad, exact, centre, spread=0.0, **more):
    """Return a target whose values and gradients keep the precision of x."""
    where = np.array(centre, dtype=float), np.full(len(centre), float(spread))
    return Target(name, lambda x: _like(fun(x), x), lambda x: _like(grad(x), x), *where, exact, **more)


def _like(value, x):
    value = np.asarray(value)
    return value.astype(np.result_type(x.dtype, value.dtype) if value.dtype.kind == "c" else x.dtype)


def _exactly(values):
    return np.vectorize(lambda t: mp.mpf(float(t)), otypes=[object])(values)


# --- functions of one variable, or sums of them ------------------------------------------------------------


def separable(name, fun, grad, exact, *where):
    """Return Σ f(xᵢ)."""
    return hostile(name, lambda x: fun(x).sum(axis=-1), grad, lambda x: mp.fsum(map(exact, x)), *where)


def _power(p):
    def grad(x):
        sign = np.where(x.real < 0, -1.0, np.where(x.real > 0, 1.0, 0.0)).astype(x.real.dtype)
        return p * sign * (sign * x) ** (p - 1)

    name = f"power-{p:g}"
    return separable(name, lambda x: np.abs(x) ** p, grad, lambda t: abs(t) ** mp.mpf(p), [1.5, -0.7], 1.0)


def _positive(name, fun, grad, exact, *where, out=np.nan):
    """Return Σ f(xᵢ), where f is not defined below 0."""

    def defined(f):
        return lambda x: np.where(x.real > 0, f(x), out)

    return separable(name, defined(fun), defined(grad), lambda t: exact(t) if t > 0 else mp.inf, *where)


ONE_VARIABLE = [
    separable("exp50", lambda x: np.exp(50 * x) - x, lambda x: 50 * np.exp(50 * x) - 1,
        lambda t: mp.exp(50 * t) - t, [3.0], 9.0),
    *(_power(p) for p in (1, 1.5, 2, 4, 8)),
    *(_positive(f"reciprocal-{out}", lambda x: 1 / x + x, lambda x: 1 - 1 / (x * x), lambda t: 1 / t + t,
        [6.0], 5.5, out=float(out)) for out in ("inf", "nan")),
    _positive("log-barrier", lambda x: x - 1e-3 * np.log(x), lambda x: 1 - 1e-3 / x,
        lambda t: t - mp.mpf(1e-3) * mp.log(t), [2.0, 3.0], 1.5),
    _positive("minus-log", lambda x: -np.log(x), lambda x: -1 / x, lambda t: -mp.log(t), [1.0], 0.9),
    separable("huber", lambda x: np.where(abs(x) < 1, x * x / 2, abs(x) - 0.5),
        lambda x: np.where(abs(x) < 1, x, np.sign(x.real)),
        lambda t: t * t / 2 if abs(t) < 1 else abs(t) - mp.mpf(0.5), [20.0, -3.0], 5.0),
    separable("kink", lambda x: abs(x - 1) + 0.125 * x * x, lambda x: np.sign((x - 1).real) + 0.25 * x,
        lambda t: abs(t - 1) + t * t / 8, [3.0, -4.0], 2.0),
    separable("linear", lambda x: x, lambda x: 1 + 0 * x, lambda t: t, [1.0] * 8),
    separable("constant", lambda x: 3 + 0 * x, lambda x: 0 * x, lambda t: mp.mpf(3), [1.0, 2.0], 1.0),
    separable("well", lambda x: -np.exp(-x * x), lambda x: 2 * x * np.exp(-x * x),
        lambda t: -mp.exp(-t * t), [1.0, -2.0], 5.0),
    separable("underflow", lambda x: np.exp(-x), lambda x: -np.exp(-x), lambda t: mp.exp(-t), [300.0], 300.0),
    separable("cliff", lambda x: x * x + 1e6 * (x.real > 1), lambda x: 2 * x,
        lambda t: t * t + (10**6 if t > 1 else 0), [0.0, 2.0], 3.0),
    separable("nan-gap", lambda x: np.where((x.real > 0) & (x.real < 1), np.nan, (x - 3) ** 2),
        lambda x: np.where((x.real > 0) & (x.real < 1), np.nan, 2 * (x - 3)),
        lambda t: mp.inf if 0 < t < 1 else (t - 3) ** 2, [-2.0, 5.0], 2.0),
    separable("inf-beyond-ten", lambda x: np.where(abs(x) > 10, np.inf, np.cosh(x / 4) + x),
        lambda x: np.where(abs(x) > 10, np.inf, np.sinh(x / 4) / 4 + 1),
        lambda t: mp.inf if abs(t) > 10 else mp.cosh(t / 4) + t, [8.0, 1.0], 1.5),
    separable("cosh300", lambda x: np.cosh(300 * x), lambda x: 300 * np.sinh(300 * x),
        lambda t: mp.cosh(300 * t), [2.0, -2.0], 0.5),
    separable("offset", lambda x: 1e10 + (x - 1) ** 2, lambda x: 2 * (x - 1),
        lambda t: 10**10 + (t - 1) ** 2, [5.0, -30.0], 10.0),
    separable("steep-quartic", lambda x: 1e200 * x * x * x * x, lambda x: 4e200 * x * x * x,
        lambda t: mp.mpf(1e200) * t**4, [1.0, 3.0], 0.5),
]  # fmt: skip


# --- functions of several ----------------------------------------------------------------------------------


def _rows(x, A):
    """Return A·x for every point, summed alike for one and for many."""
    return (x[..., None, :] * A.astype(x.real.dtype)).sum(axis=-1)


def _columns(weight, A):
    return (weight[..., :, None] * A.astype(weight.real.dtype)).sum(axis=-2)


def _linear_model(name, A, value, slope, exact, ridge, **where):
    """Return Σ value(i, aᵢ·x) + ridge·‖x‖²."""
    rows = _exactly(A)

    def precisely(x):
        terms = (exact(i, mp.fdot(row, x)) for i, row in enumerate(rows))
        return mp.fsum(terms) + mp.mpf(ridge) * mp.fsum(t * t for t in x)

    return hostile(
        name, lambda x: value(_rows(x, A)).sum(axis=-1) + ridge * (x * x).sum(axis=-1),
        lambda x: _columns(slope(_rows(x, A)), A) + 2 * ridge * x, precisely, [0.0] * A.shape[1], **where,
    )  # fmt: skip


def _poisson(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(20, 3)) * [1.0, 3.0, 10.0 ** rng.uniform(-1, 2)]
    y = rng.poisson(3.0, size=20).astype(float)
    return _linear_model(
        f"poisson-{seed}", A, lambda z: np.exp(z) - y.astype(z.real.dtype) * z,
        lambda z: np.exp(z) - y.astype(z.real.dtype), lambda i, z: mp.exp(z) - mp.mpf(y[i]) * z, 0.0,
        spread=5.0,
    )  # fmt: skip


def _logistic(seed, ridge):
    rng = np.random.default_rng(100 + seed)
    A = rng.normal(size=(20, 3)) * [1.0, 0.1, 30.0]
    noise = 0.0 if ridge == 0 else 2.0  # without noise the classes are separable: the infimum is at infinity
    A *= np.where(A @ [1.0, -5.0, 0.1] + noise * rng.normal(size=20) > 0, 1.0, -1.0)[:, None]
    return _linear_model(
        f"logistic-{seed}" if ridge else f"separable-{seed}", A, lambda z: np.log1p(np.exp(-z)),
        lambda z: -1 / (1 + np.exp(z)), lambda i, z: mp.log1p(mp.exp(-z)) if z > -200 else -z, ridge,
        spread=3.0,
    )  # fmt: skip


THREE, WEIGHT, Q = np.array([[1.0, 3.0], [1.0, -3.0], [-1.0, 0.0]]), np.exp(-0.1), np.geomspace(1e-6, 1e6, 6)
SEVERAL = [
    hostile("saddle", lambda x: x[..., 0] ** 2 - x[..., 1] ** 2 + x[..., 1] ** 4 / 4,
        lambda x: np.stack([2 * x[..., 0], x[..., 1] ** 3 - 2 * x[..., 1]], axis=-1),
        lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4, [0.0, 0.0]),
    *map(_poisson, range(6)), *(_logistic(seed, ridge) for seed in range(3) for ridge in (0.0, 1e-3)),
    _linear_model("sum-of-exponentials", THREE, lambda z: WEIGHT * np.exp(z), lambda z: WEIGHT * np.exp(z),
        lambda i, z: mp.mpf(WEIGHT) * mp.exp(z), 0.0, spread=10.0),
    hostile("ill-conditioned", lambda x: (Q.astype(x.real.dtype) * (x - 1) ** 2).sum(axis=-1),
        lambda x: 2 * Q.astype(x.real.dtype) * (x - 1),
        lambda x: mp.fsum(a * (t - 1) ** 2 for a, t in zip(_exactly(Q), x, strict=True)), [3.0] * 6, 2.0),
]  # fmt: skip

# --- kinks: convex functions with a known minimum ----------------------------------------------------------


@cache
def kinked(number):
    """Return ‖M(x − 1)‖₁, a maximum of quadratics, a hinge loss or an L1 regression of 2 to 12 variables."""
    rng = np.random.default_rng([2029, number])
    n = int(rng.integers(2, 13))
    kind = KINKS[int(rng.integers(len(KINKS)))]
    return kind(rng, n, f"{kind.__name__.strip('_').replace('_', '-')}-{number}")


def _l1_system(rng, n, name):
    M = rng.normal(size=(n, n))
    return _sum_of_kinks(name, M, M.sum(axis=1), -1.0, np.ones(n), spread=1.0)


def _l1_regression(rng, n, name):
    A = rng.normal(size=(3 * n, n))
    return _sum_of_kinks(name, A, A @ rng.normal(size=n) + rng.standard_t(2, size=3 * n), -1.0)


def _hinge(rng, n, name):
    """Return Σ max(0, 1 − aᵢ·x), the classes overlapping."""
    A = rng.normal(size=(6 * n, n))
    A *= np.sign(A @ rng.normal(size=n) + 1.5 * np.sqrt(n) * rng.normal(size=len(A)))[:, None]
    return _sum_of_kinks(name, -A, -np.ones(len(A)), 0.0)


def _sum_of_kinks(name, A, b, low, best=None, spread=0.5):
    """Return 1 + Σ max(z, low·z), z = Ax − b; its minimiser is `best`, or found by linear programming."""
    if best is None:  # minimise Σt with t ≥ z and t ≥ low·z
        m, n = A.shape
        sides = np.block([[A, -np.eye(m)], [low * A, -np.eye(m)]])
        cost = np.concatenate([np.zeros(n), np.ones(m)])
        best = linprog(cost, sides, np.concatenate([b, low * b]), bounds=(None, None)).x[:n]

    def fun(x):
        z = _rows(x, A) - b
        return 1 + np.where(z.real > 0, z, low * z).sum(axis=-1)

    rows, offsets = _exactly(A), _exactly(b)

    def exact(x):
        z = rows @ np.array(x, dtype=object) - offsets
        return 1 + mp.fsum(max(t, mp.mpf(low) * t) for t in z)

    return hostile(
        name, fun, lambda x: _columns(np.where((_rows(x, A) - b).real > 0, 1.0, low), A), exact,
        [0.0] * A.shape[1], spread, lowest=float(fun(best)), group="kinks",
    )  # fmt: skip


def _max_of_quadratics(rng, n, name):
    """Return maxᵢ (2 + gᵢᵀd + ½‖Rᵢd‖²), d = x − x*. Some λ > 0 has Σλᵢgᵢ = 0, so the minimum is 2."""
    G, R = rng.normal(size=(n + 1, n)), rng.normal(size=(n + 1, n, n)) / np.sqrt(n)
    weights, centre = rng.uniform(0.5, 1.5, n + 1), rng.normal(size=n)
    G[-1] = -(weights[:-1] @ G[:-1]) / weights[-1]

    def pieces(d):
        inner = (R * d[..., None, None, :]).sum(axis=-1)
        values = 2 + _rows(d, G) + 0.5 * (inner * inner).sum(axis=-1)
        return values, inner, values.real.argmax(axis=-1)

    def fun(x):
        values, _, top = pieces(x - centre)
        return np.take_along_axis(values, top[..., None], axis=-1)[..., 0]

    def grad(x):
        _, inner, top = pieces(x - centre)
        chosen = np.take_along_axis(inner, top[..., None, None], axis=-2)[..., 0, :]
        return G[top] + (R[top] * chosen[..., :, None]).sum(axis=-2)

    exact_G, exact_R, exact_centre = map(_exactly, (G, R, centre))

    def exact(x):
        d = np.array(x, dtype=object) - exact_centre
        inner = exact_R @ d
        return max(2 + exact_G @ d + (inner * inner).sum(axis=-1) / 2)

    return hostile(name, fun, grad, exact, centre, 1.0, lowest=2.0, group="kinks")


KINKS = (_l1_system, _max_of_quadratics, _hinge, _l1_regression)

# --- other forms of a function -----------------------------------------------------------------------------


def _plain(target):
    return target.name.partition(":")[2]


def scaled(target, f, x):
    """Return f·target(·/x)."""
    return replace(
        target, name=f"{_plain(target)}-f{f:g}-x{x:g}", fun=lambda p: f * target.fun(p / x),
        grad=lambda p: f / x * target.grad(p / x),
        exact=lambda p: mp.mpf(f) * target.exact([t / mp.mpf(x) for t in p]), centre=target.centre * x,
        spread=target.spread * x, unit=x, second=None, group="hostile",
    )  # fmt: skip


def _changed(target, word, fun, **more):
    """Return 1 + target with other values; the gradient is exact."""
    return replace(
        target, name=f"{_plain(target)}-{word}", fun=lambda x: _like(fun(x), x),
        exact=lambda x: 1 + target.exact(x), second=None, group="hostile", **more,
    )  # fmt: skip


def noisy(target, noise):
    """Return 1 + target with a relative error that depends on every bit of x."""

    def fun(x):
        seed = np.sin(1e6 * (x.real * np.arange(1, target.n + 1)).sum(axis=-1)) * 43758.5453
        return (1 + target.fun(x)) * (1 + noise * (2 * (seed - np.floor(seed)) - 1))

    return _changed(target, f"noise{noise:g}", fun, noise=noise)


def coarse(target, digits):
    """Return 1 + target, rounded to so many digits."""

    def fun(x):
        f = 1 + target.fun(x)
        with np.errstate(all="ignore"):
            unit = 10.0 ** (np.floor(np.log10(np.abs(f))) + 1 - digits)
            rounded = np.round(f / unit) * unit
        return np.where(np.isfinite(rounded), rounded, f)

    return _changed(target, f"digits{digits}", fun, noise=10.0 ** (1 - digits))


def decimals(target, digits):
    """Return 1 + target with so many digits after the point."""
    values = f"decimals{digits}", lambda x: np.round(1 + target.fun(x), digits)
    return _changed(target, *values, resolution=10.0**-digits)


def single(target):
    """Return 1 + target computed in float32, whatever the precision of x."""
    return _changed(target, "float32", lambda x: 1 + target.fun(x.astype(np.float32)), noise=1e-6)


# --- the collections ---------------------------------------------------------------------------------------


MOST_EXACT = 12
"""With more variables the referee has floats only: fifty digits would take minutes."""


def _function(f):
    low, high = f.bounds.T
    exact, where = REFERENCES[f.name], ((low + high) / 2, (high - low) / 2)
    return Target(f"functions:{f.name}", f, f.grad, *where, exact, second=f, group="functions")


def _problem(p):
    exact, where = None, (p.x0, 0.2 * np.maximum(abs(p.x0), 0.1))
    if p.suite in ("mgh", "large") and p.name not in FITS and p.n <= MOST_EXACT:
        formula = FORMULAS[formula_name(p)]
        exact = lambda x: formula(One(x))  # noqa: E731
    elif p.suite == "nist":
        exact = regression(p.title.partition(",")[0])
    return Target(f"problems:{p.name}", p, p.grad, *where, exact, group="problems")


SCALES = (1e150, 1.0), (1e-150, 1.0), (1.0, 1e150), (1.0, 1e-150), (1e-310, 1.0), (1e-5, 1e5), (1e5, 1e-5)


@cache
def targets():
    """Return all targets by name."""
    known = [_function(f) for f in functions.values()]
    suites = [_problem(p) for p in problems.values()]
    by_name = {_plain(t): t for t in known}
    hostile = [*ONE_VARIABLE, *SEVERAL]
    for name in ("rosenbrock", "sphere", "booth", "styblinski-tang"):
        hostile += [scaled(by_name[name], f, x) for f, x in SCALES]
        hostile += [noisy(by_name[name], noise) for noise in (1e-10, 1e-6)]
    return {t.name: t for t in (*known, *suites, *hostile)}
