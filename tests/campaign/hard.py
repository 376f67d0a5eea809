"""A table of cases that are hard without a gradient: kinks, few digits, and runs that are cut and resumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
from scipy.optimize import linprog

from .cases import METHODS, PENALISED, PLAIN, Case
from .targets import Array, Target, _like, _plain, _rows, coarse, hostile, noisy, targets

KINDS = ("kink", "few digits", "resumed")


def hard(number: int) -> Case:
    """Return case i of this table. All draws come from its number alone."""
    rng = np.random.default_rng([2028, number])
    method = "cgd-auto" if rng.random() < 0.8 else "bfgs"
    scheme = "2-point" if rng.random() < 0.8 else "3-point"
    base = targets()[f"functions:{PLAIN[int(rng.integers(len(PLAIN)))]}"]
    x0 = base.centre + base.spread * rng.uniform(-1, 1, base.n)
    digits, noise, which = int(rng.integers(3, 10)), float(10.0 ** rng.uniform(-13, -4)), int(rng.integers(3))
    plain = Case(number, base, method, x0, scheme, None, None, None, (("iters", 200),), None)
    match KINDS[number % len(KINDS)]:
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
                plain = replace(plain, method=METHODS[int(rng.integers(len(METHODS)))], derivatives="given")
            kind, part = ("evals", "grads", "iters")[int(rng.integers(3))], float(rng.random())
            if plain.method in PENALISED:  # their switch follows from the other two limits
                kind = "evals"
            cut = kind, part
            return replace(plain, target=target, budget=(("iters", 60),), cut=cut)


# --- kinks: convex functions with a known minimum ----------------------------------------------------------


@cache
def kinked(number: int) -> Target:
    """Return ‖M(x − 1)‖₁, a maximum of quadratics, a hinge loss or an L1 regression of 2 to 12 variables."""
    rng = np.random.default_rng([2029, number])
    n = int(rng.integers(2, 13))
    kind = KINKS[int(rng.integers(len(KINKS)))]
    return kind(rng, n, f"{kind.__name__.strip('_').replace('_', '-')}-{number}")


def _l1_system(rng: np.random.Generator, n: int, name: str) -> Target:
    M = rng.normal(size=(n, n))
    return _sum_of_kinks(name, M, M.sum(axis=1), -1.0, np.ones(n), spread=1.0)


def _l1_regression(rng: np.random.Generator, n: int, name: str) -> Target:
    A = rng.normal(size=(3 * n, n))
    return _sum_of_kinks(name, A, A @ rng.normal(size=n) + rng.standard_t(2, size=3 * n), -1.0)


def _hinge(rng: np.random.Generator, n: int, name: str) -> Target:
    """Return Σ max(0, 1 − aᵢ·x), the classes overlapping."""
    A = rng.normal(size=(6 * n, n))
    A *= np.sign(A @ rng.normal(size=n) + 1.5 * np.sqrt(n) * rng.normal(size=len(A)))[:, None]
    return _sum_of_kinks(name, -A, -np.ones(len(A)), 0.0)


def _sum_of_kinks(
    name: str, A: Array, b: Array, low: float, best: Array | None = None, spread: float = 0.5
) -> Target:
    """Return 1 + Σ max(z, low·z), z = Ax − b; its minimiser is `best`, or found by linear programming."""
    if best is None:  # minimise Σt with t ≥ z and t ≥ low·z
        m, n = A.shape
        sides = np.block([[A, -np.eye(m)], [low * A, -np.eye(m)]])
        cost = np.concatenate([np.zeros(n), np.ones(m)])
        found: Any = linprog(cost, sides, np.concatenate([b, low * b]), bounds=(None, None))
        best = found.x[:n]

    def fun(x: Array) -> Array:
        z = _rows(x, A) - b
        return 1 + np.where(z.real > 0, z, low * z).sum(axis=-1)

    def grad(x: Array) -> Array:
        slopes = np.where((_rows(x, A) - b).real > 0, 1.0, low)
        return (slopes[..., :, None] * A).sum(axis=-2)

    exactly = [[mp.mpf(float(a)) for a in row] for row in A]

    def exact(x: Sequence[Any]) -> Any:
        z = [mp.fdot(row, x) - mp.mpf(float(c)) for row, c in zip(exactly, b, strict=True)]
        return 1 + mp.fsum(max(t, mp.mpf(low) * t) for t in z)

    lowest = float(fun(best))
    return hostile(name, fun, grad, exact, [0.0] * A.shape[1], spread, lowest=lowest, group="kinks")


def _max_of_quadratics(rng: np.random.Generator, n: int, name: str) -> Target:
    """Return maxᵢ (2 + gᵢᵀd + ½‖Rᵢd‖²), d = x − x*. Some λ > 0 has Σλᵢgᵢ = 0, so the minimum is 2."""
    G, R = rng.normal(size=(n + 1, n)), rng.normal(size=(n + 1, n, n)) / np.sqrt(n)
    weights, centre = rng.uniform(0.5, 1.5, n + 1), rng.normal(size=n)
    G[-1] = -(weights[:-1] @ G[:-1]) / weights[-1]

    def pieces(d: Array) -> tuple[Array, Array]:
        inner = (R * d[..., None, None, :]).sum(axis=-1)
        return 2 + _rows(d, G) + 0.5 * (inner * inner).sum(axis=-1), inner

    def fun(x: Array) -> Array:
        values = pieces(x - centre)[0]
        return np.take_along_axis(values, values.real.argmax(axis=-1)[..., None], axis=-1)[..., 0]

    def grad(x: Array) -> Array:
        values, inner = pieces(x - centre)
        top = values.real.argmax(axis=-1)
        chosen = np.take_along_axis(inner, top[..., None, None], axis=-2)[..., 0, :]
        return G[top] + (R[top] * chosen[..., :, None]).sum(axis=-2)

    numbers: Callable[[Array], Array] = np.vectorize(lambda t: mp.mpf(float(t)), otypes=[object])
    exact_G, exact_R, exact_centre = numbers(G), numbers(R), numbers(centre)

    def exact(x: Sequence[Any]) -> Any:
        d = np.array(x, dtype=object) - exact_centre
        inner = exact_R @ d
        return max(2 + exact_G @ d + (inner * inner).sum(axis=-1) / 2)

    return hostile(name, fun, grad, exact, centre, 1.0, lowest=2.0, group="kinks")


KINKS = (_l1_system, _max_of_quadratics, _hinge, _l1_regression)


# --- few digits --------------------------------------------------------------------------------------------


def decimals(target: Target, digits: int) -> Target:
    """Return 1 + target with so many digits after the point."""
    return _changed(target, f"decimals{digits}", lambda x: np.round(1 + target.fun(x), digits), 10.0**-digits)


def single(target: Target) -> Target:
    """Return 1 + target computed in float32, whatever the precision of x."""
    changed = _changed(target, "float32", lambda x: 1 + target.fun(x.astype(np.float32)), 0.0)
    return replace(changed, noise=1e-6)


def _changed(target: Target, word: str, fun: Callable[[Array], Array], resolution: float) -> Target:
    base = target.exact
    assert base is not None
    return replace(
        target,
        name=f"{_plain(target)}-{word}",
        fun=lambda x: _like(fun(x), x),
        exact=lambda x: 1 + base(x),
        resolution=resolution,
        second=None,
        group="hostile",
    )
