"""What the campaign minimises: the collections of the library, and hostile functions in closed form.

A target is given twice. In floats it is what a user would write: vectorised over leading axes, in the
precision of x. In mpmath numbers it is what the referee reads; where `exact` is None there are floats only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np

import steepen as st

from ..functions.formulas import REFERENCES
from ..problems.formulas import FITS, FORMULAS, One, formula_name
from ..problems.regressions import regression

Array = Any
Exact = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Target:
    """A function with its gradient, and where runs begin.

    Attributes
    ----------
    centre, spread : starts are centre + spread·u with u in [−1, 1]
    unit : the size of x at which the function has features
    noise, resolution : the size of the noise in f, relative to |f|, and the least difference of two values
    lowest : the minimum of a convex function with kinks
    second : an object with `grad`, `hvp` and `hess`, where there is one
    """

    name: str
    fun: Callable[[Array], Array]
    grad: Callable[[Array], Array]
    centre: Array
    spread: Array
    exact: Exact | None = None
    unit: float = 1.0
    noise: float = 0.0
    resolution: float = 0.0
    lowest: float | None = None
    second: Any = None
    group: str = "hostile"

    @property
    def n(self) -> int:
        return len(self.centre)


def hostile(
    name: str, fun: Any, grad: Any, exact: Exact, centre: Sequence[float], spread: float = 0.0, **more: Any
) -> Target:
    """Return a target whose values and gradients keep the precision of x."""
    return Target(
        name, lambda x: _like(fun(x), x), lambda x: _like(grad(x), x), np.array(centre, dtype=float),
        np.full(len(centre), float(spread)), exact, **more,
    )  # fmt: skip


def _like(value: Any, x: Array) -> Array:
    value = np.asarray(value)
    return value.astype(np.result_type(x.dtype, value.dtype) if value.dtype.kind == "c" else x.dtype)


# --- functions of one variable, or sums of them ------------------------------------------------------------


def _sum(terms: Array) -> Array:
    return terms.sum(axis=-1)


def separable(
    name: str, fun: Any, grad: Any, exact: Callable[[Any], Any], *where: Any, **more: Any
) -> Target:
    """Return Σ f(xᵢ)."""
    return hostile(name, lambda x: _sum(fun(x)), grad, lambda x: mp.fsum(exact(t) for t in x), *where, **more)


def _power(p: float) -> Target:
    def grad(x: Array) -> Array:
        sign = np.where(x.real < 0, -1.0, np.where(x.real > 0, 1.0, 0.0)).astype(x.real.dtype)
        return p * sign * (sign * x) ** (p - 1)

    def fun(x: Array) -> Array:
        return np.abs(x) ** p

    return separable(f"power-{p:g}", fun, grad, lambda t: abs(t) ** mp.mpf(p), [1.5, -0.7], 1.0)


def _where(test: Any, inside: Any, outside: float) -> Any:
    return lambda x: np.where(test(x.real), inside(x), outside)


def _positive(x: Array) -> Array:
    return x > 0


def _log_domain(value: Any) -> Any:
    return lambda t: value(t) if t > 0 else mp.inf


ONE_VARIABLE = [
    separable("exp50", lambda x: np.exp(50 * x) - x, lambda x: 50 * np.exp(50 * x) - 1,
        lambda t: mp.exp(50 * t) - t, [3.0], 9.0),
    *(_power(p) for p in (1, 1.5, 2, 4, 8)),
    *(
        separable(
            f"reciprocal-{out}",
            _where(_positive, lambda x: 1 / x + x, float(out)),
            _where(_positive, lambda x: 1 - 1 / (x * x), float(out)),
            _log_domain(lambda t: 1 / t + t),
            [6.0],
            5.5,
        )
        for out in ("inf", "nan")
    ),
    separable("log-barrier", _where(_positive, lambda x: x - 1e-3 * np.log(x), np.nan),
        _where(_positive, lambda x: 1 - 1e-3 / x, np.nan),
        _log_domain(lambda t: t - mp.mpf(1e-3) * mp.log(t)), [2.0, 3.0], 1.5),
    separable("minus-log", _where(_positive, lambda x: -np.log(x), np.nan),
        _where(_positive, lambda x: -1 / x, np.nan), _log_domain(lambda t: -mp.log(t)), [1.0], 0.9),
    separable("huber", lambda x: np.where(abs(x) < 1, x * x / 2, abs(x) - 0.5),
        lambda x: np.where(abs(x) < 1, x, np.sign(x.real)),
        lambda t: t * t / 2 if abs(t) < 1 else abs(t) - mp.mpf(0.5), [20.0, -3.0], 5.0),
    separable("kink", lambda x: abs(x - 1) + 0.125 * x * x, lambda x: np.sign((x - 1).real) + 0.25 * x,
        lambda t: abs(t - 1) + t * t / 8, [3.0, -4.0], 2.0),
    separable("linear", lambda x: x, lambda x: 1 + 0 * x, lambda t: t, [1.0] * 8),
    separable("constant", lambda x: 3 + 0 * x, lambda x: 0 * x, lambda t: mp.mpf(3), [1.0, 2.0], 1.0),
    separable("well",
        lambda x: -np.exp(-x * x), lambda x: 2 * x * np.exp(-x * x), lambda t: -mp.exp(-t * t), [1.0, -2.0],
        5.0),
    separable("underflow", lambda x: np.exp(-x), lambda x: -np.exp(-x), lambda t: mp.exp(-t), [300.0], 300.0),
    separable("cliff", lambda x: x * x + 1e6 * (x.real > 1), lambda x: 2 * x,
        lambda t: t * t + (10**6 if t > 1 else 0), [0.0, 2.0], 3.0),
    separable("nan-gap", lambda x: np.where((x.real > 0) & (x.real < 1), np.nan, (x - 3) ** 2),
        lambda x: np.where((x.real > 0) & (x.real < 1), np.nan, 2 * (x - 3)),
        lambda t: mp.inf if 0 < t < 1 else (t - 3) ** 2, [-2.0, 5.0], 2.0),
    separable("inf-beyond-ten", lambda x: np.where(abs(x) > 10, np.inf, np.cosh(x / 4) + x),
        lambda x: np.where(abs(x) > 10, np.inf, np.sinh(x / 4) / 4 + 1),
        lambda t: mp.inf if abs(t) > 10 else mp.cosh(t / 4) + t, [8.0, 1.0], 1.5),
    separable("cosh300",
        lambda x: np.cosh(300 * x), lambda x: 300 * np.sinh(300 * x), lambda t: mp.cosh(300 * t),
        [2.0, -2.0], 0.5),
    separable("offset",
        lambda x: 1e10 + (x - 1) ** 2, lambda x: 2 * (x - 1), lambda t: 10**10 + (t - 1) ** 2, [5.0, -30.0],
        10.0),
    separable("steep-quartic", lambda x: 1e200 * x * x * x * x, lambda x: 4e200 * x * x * x,
        lambda t: mp.mpf(1e200) * t**4, [1.0, 3.0], 0.5),
]  # fmt: skip


# --- functions of several ----------------------------------------------------------------------------------


def _saddle() -> Target:
    return hostile(
        "saddle", lambda x: x[..., 0] ** 2 - x[..., 1] ** 2 + x[..., 1] ** 4 / 4,
        lambda x: np.stack([2 * x[..., 0], x[..., 1] ** 3 - 2 * x[..., 1]], axis=-1),
        lambda x: x[0] ** 2 - x[1] ** 2 + x[1] ** 4 / 4, [0.0, 0.0],
    )  # fmt: skip


def _rows(x: Array, A: Array) -> Array:
    """Return A·x for every point, summed alike for one and for many."""
    return (x[..., None, :] * A.astype(x.real.dtype)).sum(axis=-1)


def _columns(weight: Array, A: Array) -> Array:
    return (weight[..., :, None] * A.astype(weight.real.dtype)).sum(axis=-2)


def _linear_model(
    name: str, A: Array, value: Any, slope: Any, exact: Any, ridge: float, **where: Any
) -> Target:
    """Return Σ value(i, aᵢ·x) + ridge·‖x‖²."""
    exactly = [[mp.mpf(float(a)) for a in row] for row in A]

    def precisely(x: Sequence[Any]) -> Any:
        terms = (exact(i, mp.fdot(row, x)) for i, row in enumerate(exactly))
        return mp.fsum(terms) + mp.mpf(ridge) * mp.fsum(t * t for t in x)

    return hostile(
        name, lambda x: value(_rows(x, A)).sum(axis=-1) + ridge * (x * x).sum(axis=-1),
        lambda x: _columns(slope(_rows(x, A)), A) + 2 * ridge * x, precisely, [0.0] * A.shape[1], **where,
    )  # fmt: skip


def _poisson(seed: int) -> Target:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(20, 3)) * [1.0, 3.0, 10.0 ** rng.uniform(-1, 2)]
    y = rng.poisson(3.0, size=20).astype(float)
    return _linear_model(
        f"poisson-{seed}", A, lambda z: np.exp(z) - y.astype(z.real.dtype) * z,
        lambda z: np.exp(z) - y.astype(z.real.dtype), lambda i, z: mp.exp(z) - mp.mpf(y[i]) * z, 0.0,
        spread=5.0,
    )  # fmt: skip


def _logistic(seed: int, ridge: float) -> Target:
    rng = np.random.default_rng(100 + seed)
    A = rng.normal(size=(20, 3)) * [1.0, 0.1, 30.0]
    noise = 0.0 if ridge == 0 else 2.0  # without noise the classes are separable: the infimum is at infinity
    A *= np.where(A @ [1.0, -5.0, 0.1] + noise * rng.normal(size=20) > 0, 1.0, -1.0)[:, None]
    return _linear_model(
        f"logistic-{seed}" if ridge else f"separable-{seed}", A, lambda z: np.log1p(np.exp(-z)),
        lambda z: -1 / (1 + np.exp(z)), lambda i, z: mp.log1p(mp.exp(-z)) if z > -200 else -z, ridge,
        spread=3.0,
    )  # fmt: skip


def _sum_of_exponentials() -> Target:
    A = np.array([[1.0, 3.0], [1.0, -3.0], [-1.0, 0.0]])
    weight = np.exp(-0.1)
    return _linear_model(
        "sum-of-exponentials", A, lambda z: weight * np.exp(z), lambda z: weight * np.exp(z),
        lambda i, z: mp.mpf(weight) * mp.exp(z), 0.0, spread=10.0,
    )  # fmt: skip


def _ill_conditioned(n: int) -> Target:
    q = np.geomspace(1e-6, 1e6, n)
    exactly = [mp.mpf(float(t)) for t in q]
    return hostile(
        "ill-conditioned", lambda x: (q.astype(x.real.dtype) * (x - 1) ** 2).sum(axis=-1),
        lambda x: 2 * q.astype(x.real.dtype) * (x - 1),
        lambda x: mp.fsum(a * (t - 1) ** 2 for a, t in zip(exactly, x, strict=True)), [3.0] * n, 2.0,
    )  # fmt: skip


def _plain(target: Target) -> str:
    return target.name.partition(":")[2]


def scaled(target: Target, f: float, x: float) -> Target:
    """Return f·target(·/x)."""
    base = target.exact
    assert base is not None
    return replace(
        target, name=f"{_plain(target)}-f{f:g}-x{x:g}", fun=lambda p: f * target.fun(p / x),
        grad=lambda p: f / x * target.grad(p / x),
        exact=lambda p: mp.mpf(f) * base([t / mp.mpf(x) for t in p]), centre=target.centre * x,
        spread=target.spread * x, unit=x, second=None, group="hostile",
    )  # fmt: skip


def noisy(target: Target, noise: float) -> Target:
    """Return 1 + target with a relative error that depends on every bit of x; the gradient is exact."""
    base = target.exact
    assert base is not None

    def fun(x: Array) -> Array:
        seed = np.sin(1e6 * (x.real * np.arange(1, target.n + 1)).sum(axis=-1)) * 43758.5453
        return _like((1 + target.fun(x)) * (1 + noise * (2 * (seed - np.floor(seed)) - 1)), x)

    return replace(
        target, name=f"{_plain(target)}-noise{noise:g}", fun=fun, exact=lambda x: 1 + base(x), noise=noise,
        second=None, group="hostile",
    )  # fmt: skip


def coarse(target: Target, digits: int) -> Target:
    """Return 1 + target, rounded to so many digits."""
    base = target.exact
    assert base is not None

    def fun(x: Array) -> Array:
        f = 1 + target.fun(x)
        with np.errstate(all="ignore"):
            unit = 10.0 ** (np.floor(np.log10(np.abs(f))) + 1 - digits)
            rounded = np.round(f / unit) * unit
        return _like(np.where(np.isfinite(rounded), rounded, f), x)

    return replace(
        target, name=f"{_plain(target)}-digits{digits}", fun=fun, exact=lambda x: 1 + base(x),
        noise=10.0 ** (1 - digits), second=None, group="hostile",
    )  # fmt: skip


# --- the collections ---------------------------------------------------------------------------------------


def _function(f: Any) -> Target:
    low, high = f.bounds.T
    return Target(
        f"functions:{f.name}", f, f.grad, (low + high) / 2, (high - low) / 2, REFERENCES[f.name], second=f,
        group="functions",
    )  # fmt: skip


def _problem(p: Any) -> Target:
    exact = None
    if p.suite in ("mgh", "large") and p.name not in FITS and p.n <= MOST_EXACT:
        formula = FORMULAS[formula_name(p)]
        exact = lambda x: formula(One(x))  # noqa: E731
    elif p.suite == "nist":
        exact = regression(p.title.partition(",")[0])
    return Target(
        f"problems:{p.name}", p, p.grad, p.x0, 0.2 * np.maximum(abs(p.x0), 0.1), exact, group="problems"
    )


MOST_EXACT = 12
"""With more variables the referee has floats only: fifty digits would take minutes."""


@cache
def targets() -> dict[str, Target]:
    """Return all targets by name."""
    functions = [_function(f) for f in st.functions.values()]
    problems = [_problem(p) for p in st.problems.values()]
    by_name = {_plain(t): t for t in functions}
    hostile = [
        *ONE_VARIABLE,
        _saddle(),
        *(_poisson(seed) for seed in range(6)),
        *(_logistic(seed, ridge) for seed in range(3) for ridge in (0.0, 1e-3)),
        _sum_of_exponentials(),
        _ill_conditioned(6),
    ]
    for name in ("rosenbrock", "sphere", "booth", "styblinski-tang"):
        hostile += [
            scaled(by_name[name], f, x)
            for f, x in ((1e150, 1.0), (1e-150, 1.0), (1.0, 1e150), (1.0, 1e-150), (1e-310, 1.0),
                         (1e-5, 1e5), (1e5, 1e-5))
        ]  # fmt: skip
        hostile += [noisy(by_name[name], noise) for noise in (1e-10, 1e-6)]
    return {t.name: t for t in (*functions, *problems, *hostile)}
