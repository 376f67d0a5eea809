"""The campaign's tables: case i is the same call of `minimize` always and everywhere."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import steepen as st

from .targets import Target, coarse, decimals, kinked, noisy, scaled, single, targets

METHODS = ("cgd-auto", "gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp")
PENALISED = ("cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp")
FD_LIMIT = ("2-point", "3-point")
LARGE = 30
"""From this n on runs are a few iterations long: the time goes into many runs."""


@dataclass(frozen=True)
class Case:
    """One call of `minimize`; `derivatives` says where gradients come from.

    "own": fun brings grad (and H·v, H); "given": jac is a callable; "pair": jac=True; else it is the
    difference scheme. `more` are ftol, xtol and r. A run with a `cut` is also cut at this part of its
    "evals", "grads" or "iters", and resumed. Where values have few digits, failures are judged too.
    """

    number: int
    target: Target
    method: str
    x0: Any
    derivatives: str
    step: float | None = None
    lam: float | None = None
    bounds: tuple[tuple[float, float], ...] | None = None
    budget: tuple[tuple[str, int], ...] = (("iters", 200),)
    gtol: float | None = None
    more: tuple[tuple[str, float], ...] = ()
    cut: tuple[str, float] | None = None
    few_digits: bool = False

    @property
    def limits(self):
        return dict(self.budget)

    @property
    def batch(self):
        return self.x0.ndim == 2

    @property
    def tolerance(self):
        """The gtol that holds."""
        return self.gtol if self.gtol is not None else 1e-5 if self.x0.dtype == np.float64 else 1e-3

    @property
    def differences(self):
        return self.derivatives in FD_LIMIT

    def settings(self):
        """Return the arguments of `minimize` that are no functions."""
        given = {name: getattr(self, name) for name in ("step", "lam", "bounds", "gtol")}
        given |= {"jac": self.derivatives if self.differences else None} | dict(self.more)
        given = {name: value for name, value in given.items() if value is not None}
        return given | {"method": self.method, "budget": st.Budget(**self.limits)}


@cache
def _groups():
    groups: dict[str, list[Target]] = {}
    for target in targets().values():
        groups.setdefault("large" if target.n >= LARGE else target.group, []).append(target)
    return groups


def _one_of(rng, *choices):
    return choices[int(rng.integers(len(choices)))]


def _with_odds(rng, odds):
    return list(odds)[int(rng.choice(len(odds), p=np.array(list(odds.values())) / sum(odds.values())))]


def case(number):
    """Return case i. All draws come from its number alone."""
    rng = np.random.default_rng([2026, number])
    group = _with_odds(rng, {"hostile": 45, "functions": 30, "problems": 22, "large": 3})
    target, large = _one_of(rng, *_groups()[group]), group == "large"
    method = METHODS[int(rng.integers(len(METHODS)))] if rng.random() < 0.7 else "cgd-auto"
    if large and method == "newton" and target.n > 100:
        method = "cgd"
    rows = int(rng.integers(1, 4)) if rng.random() < 0.2 else None
    x0 = _start(target, rng, rows)
    derivatives = _with_odds(rng, {"own": 2, "given": 3, "pair": 2, "2-point": 2, "3-point": 1})
    if target.n > 100 and derivatives in FD_LIMIT:
        derivatives = "given"
    step = lam = None
    if rng.random() < 0.4:
        any_size = rng.random() < 0.5
        step = float(10.0 ** rng.uniform(-12, 12)) if any_size else _one_of(rng, 1e-3, 0.01, 0.1, 1.0, 10.0)
    if method in PENALISED and rng.random() < 0.6:
        lam = float(_one_of(rng, -1, 1) * 10.0 ** _one_of(rng, rng.uniform(-10, 10), rng.uniform(-3, 1)))
    bounds = _bounds(target, rng, x0.dtype) if rng.random() < 0.25 else None
    most = _one_of(rng, 0, 1, 2, 3) if large else _one_of(rng, 5, 30, 100, 300)
    if target.n > 4 and (method == "newton" or derivatives in FD_LIMIT):
        most = min(most, 30)
    budget = {"iters": most}
    match _with_odds(rng, {"iters": 4, "evals": 2, "grads": 2, "all": 1}):
        case "evals":
            budget["evals"] = int(rng.integers(1, 3 * most + 2))
        case "grads":
            budget["grads"] = int(rng.integers(1, 2 * most + 2))
        case "all":
            budget |= {"evals": int(rng.integers(1, 40)), "grads": int(rng.integers(1, 40))}
    gtol = _with_odds(rng, {None: 6, 0.0: 1, 1e-12: 2, 1e-8: 1})
    more = {}
    if rng.random() < 0.08:
        more[_one_of(rng, "ftol", "xtol")] = _one_of(rng, 1e-12, 1e-9, 1e-4)
    if method == "cgd-fd" and rng.random() < 0.3:
        more["r"] = float(10.0 ** rng.uniform(-12, 12))
    limits, rest = tuple(budget.items()), tuple(more.items())
    return Case(number, target, method, x0, derivatives, step, lam, bounds, limits, gtol, rest)


def _start(target, rng, rows):
    shape = (target.n,) if rows is None else (rows, target.n)
    x0 = target.centre + target.spread * rng.uniform(-1, 1, size=shape)
    powers = {"plain": 0, "near": 3, "far": 300}
    power = powers[_with_odds(rng, {"plain": 50, "near": 25, "far": 25})]
    if power:
        with np.errstate(over="ignore"):
            x0 = x0 * 10.0 ** rng.uniform(-power, power)
    kind = np.float32 if rng.random() < 0.15 and target.unit == 1.0 else np.float64
    most = 0.1 * float(np.finfo(kind).max)
    return np.clip(x0, -most, most).astype(kind)


def _bounds(target, rng, kind):
    width = np.maximum(np.maximum(target.spread, abs(target.centre)), 0.1 * target.unit)
    low = target.centre - width * rng.uniform(0, 2, size=target.n)
    high = low + width * rng.uniform(0, 3, size=target.n)
    match _with_odds(rng, {"box": 4, "half": 2, "some equal": 2, "all equal": 0.3}):
        case "half":
            low[rng.random(target.n) < 0.5] = -np.inf
            high[rng.random(target.n) < 0.5] = np.inf
        case "some equal":
            same = rng.random(target.n) < 0.5
            high[same] = low[same]
        case "all equal":
            high = low.copy()
    return tuple((float(a), float(b)) for a, b in zip(low.astype(kind), high.astype(kind), strict=True))


# --- tables without a gradient -----------------------------------------------------------------------------

PLAIN = ("rosenbrock", "sphere", "booth", "styblinski-tang", "zakharov", "beale", "three-hump-camel")
HARD = ("kink", "few digits", "resumed")


def by_values(number):
    """Return case i of what makes differences hard: scales, digits, noise, bounds."""
    rng = np.random.default_rng([2027, number])
    kind = ("scaled", "coarse", "noisy", "narrow", "noisy at a bound")[number % 5]
    base = targets()[f"functions:{_one_of(rng, *PLAIN)}"]
    x0 = base.centre + base.spread * rng.uniform(-1, 1, base.n)
    low = high = None
    if kind == "scaled":
        f, x = (float(10.0 ** rng.uniform(-12, 12)) for _ in range(2))
        target, x0 = scaled(base, f, x), x0 * x
    elif kind == "coarse":
        target = coarse(base, int(rng.integers(3, 13)))
    else:
        target = base if kind == "narrow" else noisy(base, float(10.0 ** rng.uniform(-13, -5)))
    if kind == "narrow":
        width = 10.0 ** rng.uniform(-14, 0, base.n) * np.maximum(abs(x0), 1e-3)
        low = x0 - width * rng.choice([0.0, 0.5, 1.0], base.n)
        high = np.maximum(low + width, x0)
    elif kind == "noisy at a bound":
        held = rng.random(base.n) < 0.7
        low, high = np.where(held, x0, base.centre - 2 * base.spread), base.centre + 2 * base.spread
    bounds = None if low is None else tuple(zip(low.tolist(), high.tolist(), strict=True))
    method = "cgd-auto" if rng.random() < 0.8 else "bfgs"
    return Case(number, target, method, x0, "2-point" if rng.random() < 0.8 else "3-point", bounds=bounds)


def hard(number):
    """Return case i of kinks, few digits, and runs that are cut and resumed."""
    rng = np.random.default_rng([2028, number])
    method = "cgd-auto" if rng.random() < 0.8 else "bfgs"
    scheme = "2-point" if rng.random() < 0.8 else "3-point"
    base = targets()[f"functions:{_one_of(rng, *PLAIN)}"]
    x0 = base.centre + base.spread * rng.uniform(-1, 1, base.n)
    digits, noise, which = int(rng.integers(3, 10)), float(10.0 ** rng.uniform(-13, -4)), int(rng.integers(3))
    plain = Case(number, base, method, x0, scheme)
    match HARD[number % len(HARD)]:
        case "kink":
            target = kinked(number)
            x0 = target.centre + target.spread * rng.uniform(-1, 1, target.n)
            return replace(plain, target=target, x0=x0, budget=(("iters", 1000),))
        case "few digits":
            target = (coarse(base, digits), decimals(base, digits), single(base))[which]
            return replace(plain, target=target, few_digits=True)
        case _:
            target = (base, noisy(base, noise), coarse(base, digits))[which]
            if rng.random() < 0.3:
                plain = replace(plain, method=_one_of(rng, *METHODS), derivatives="given")
            kind, part = _one_of(rng, "evals", "grads", "iters"), float(rng.random())
            if plain.method in PENALISED:  # their switch follows from the other two limits
                kind = "evals"
            return replace(plain, target=target, budget=(("iters", 60),), cut=(kind, part))
