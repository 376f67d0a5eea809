"""Functions that are hard without a gradient: kinks, few digits, interrupted runs, small and large values.

    python -m benchmarks.hard_values [kinks] [rounded] [resumed] [scaled] [--quick] [--each]

cgd-auto and SciPy's BFGS get f alone, with their own defaults, in the same run; every value of f is counted.

`kinks` are 600 convex functions of n = 2 … 12 variables, of five kinds, that are not differentiable at their
minimum. f* is known by construction or from linear programming. A success that ends more than 1e-6·(f0 − f*)
above f* is false.

`rounded` are 47 functions whose values have few digits: six functions rounded to 3 … 9 digits, three models
in float32, two fits of a differential equation with the default tolerances of `solve_ivp`. `lowest_seen` says
how ends are judged.

`resumed` are runs that are cut at every limit of evaluations, gradients and iterations, and resumed from
their checkpoint: how many differ from the uncut run, and the values that a resumed run asks for in addition.

`scaled` compares 1e-12·f and 1e12·f with f, and fits Student's t distribution from a start far away.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import scipy.optimize
from benchmarks.no_gradient import NOISY, Spent, Values
from benchmarks.problems import suite
from scipy.integrate import solve_ivp
from scipy.special import gammaln

import steepen as st

KINKS = 600
ABOVE = 1e-6
"""A success at a kink may be above f* by this part of f0 − f*."""
DIGITS = range(3, 10)
CUTS = 70
"""Cuts of one kind of one run, at most: all of them where there are no more."""
SCALES = (1e-12, 1.0, 1e12)


class Ended(NamedTuple):
    """Where a solver ended, what it calls that, and the values of f that it asked for."""

    x: Any
    fun: float
    success: bool
    status: str
    used: int
    message: str = ""


def ours(f: Callable[[Any], Any], x0: Any) -> Ended:
    values = Values(f)
    try:
        end = st.minimize(values, x0, trace=False)
    except Spent:
        return Ended(x0, values.lowest, False, "spent", values.used)
    return Ended(end.x, float(end.fun), bool(end.success), end.status.name, values.used, str(end.message))


def bfgs(f: Callable[[Any], Any], x0: Any) -> Ended:
    values = Values(f)
    try:
        end = scipy.optimize.minimize(values, x0, method="BFGS")
    except Spent:
        return Ended(x0, values.lowest, False, "spent", values.used)
    return Ended(end.x, float(end.fun), bool(end.success), str(end.status), values.used)


def listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.most_common())


# --- kinks ---------------------------------------------------------------------------------------------


class Kink(NamedTuple):
    """A convex function with a kink at its minimum, a start, and the minimum."""

    name: str
    f: Callable[[Any], Any]
    x0: Any
    fstar: float


def l1_system(rng: np.random.Generator, n: int, name: str) -> Kink:
    M = rng.normal(size=(n, n))
    return Kink(name, lambda x: 1 + abs(M @ (x - 1)).sum(), np.zeros(n), 1.0)


def max_of_quadratics(rng: np.random.Generator, n: int, name: str) -> Kink:
    """Return maxᵢ (2 + gᵢᵀd + ½dᵀAᵢd) with d = x − x*: Σλᵢgᵢ = 0 for some λ > 0, so 2 is the minimum."""
    m = n + 1
    G = rng.normal(size=(m, n))
    weights = rng.uniform(0.5, 1.5, m)
    G[-1] = -(weights[:-1] @ G[:-1]) / weights[-1]
    roots = rng.normal(size=(m, n, n)) / np.sqrt(n)
    centre = rng.normal(size=n)

    def f(x: Any) -> Any:
        d = x - centre
        return (2 + G @ d + 0.5 * ((roots @ d) ** 2).sum(axis=-1)).max()

    return Kink(name, f, centre + rng.normal(size=n), 2.0)


def lasso(rng: np.random.Generator, n: int, name: str) -> Kink:
    """Return ½‖Ax − b‖² + μ‖x‖₁ with b such that a chosen x*, half of it zero, is the minimiser."""
    A = rng.normal(size=(2 * n, n))
    best = rng.normal(size=n) * (np.arange(n) % 2)
    signs = np.where(best != 0, np.sign(best), rng.uniform(-0.8, 0.8, n))
    mu = 0.5
    b = A @ best + mu * A @ np.linalg.solve(A.T @ A, signs)

    def f(x: Any) -> Any:
        return 0.5 * ((A @ x - b) ** 2).sum() + mu * abs(x).sum()

    return Kink(name, f, rng.normal(size=n), float(f(best)))


def l1_regression(rng: np.random.Generator, n: int, name: str) -> Kink:
    A = rng.normal(size=(3 * n, n))
    b = A @ rng.normal(size=n) + rng.standard_t(2, size=3 * n)
    # minimise Σt with −t ≤ Ax − b ≤ t
    unit = np.eye(len(b))
    x = linear_program(n, np.block([[A, -unit], [-A, -unit]]), np.concatenate([b, -b]))
    return Kink(name, lambda w: abs(A @ w - b).sum(), np.zeros(n), float(abs(A @ x - b).sum()))


def hinge(rng: np.random.Generator, n: int, name: str) -> Kink:
    """Return the hinge loss of a linear classifier whose classes overlap."""
    A = rng.normal(size=(6 * n, n))
    A *= np.sign(A @ rng.normal(size=n) + 1.5 * np.sqrt(n) * rng.normal(size=len(A)))[:, None]

    def f(w: Any) -> Any:
        return np.maximum(0, 1 - A @ w).sum()

    # minimise Σt with t ≥ 1 − Aw and t ≥ 0
    x = linear_program(n, np.hstack([-A, -np.eye(len(A))]), -np.ones(len(A)))
    return Kink(name, f, np.zeros(n), float(f(x)))


def linear_program(n: int, A: Any, b: Any) -> Any:
    """Return the x of min Σt over (x, t) with A·(x, t) ≤ b and t ≥ 0."""
    slacks = A.shape[1] - n
    cost = np.concatenate([np.zeros(n), np.ones(slacks)])
    found = scipy.optimize.linprog(cost, A, b, bounds=[(None, None)] * n + [(0, None)] * slacks)
    assert found.success, found.message
    return found.x[:n]


FAMILIES: dict[str, Callable[[np.random.Generator, int, str], Kink]] = {
    "‖M(x − 1)‖₁": l1_system,
    "max of quadratics": max_of_quadratics,
    "hinge loss": hinge,
    "L1 regression": l1_regression,
    "lasso": lasso,
}


def kinks(quick: bool, each: bool) -> None:
    print("kinks: false successes (ours, BFGS), values over BFGS's (median, most, runs above 3),")
    print("median of (f − f*)/(f0 − f*) where runs end (ours, BFGS), how ours ended")
    total, worst, named, ratios = 0, [0, 0], 0, []
    for family, make in FAMILIES.items():
        wrong, parts, used, ends = [0, 0], ([], []), [], Counter[str]()
        for k in range(KINKS // len(FAMILIES) // (10 if quick else 1)):
            n = 2 + k % 11
            kink = make(np.random.default_rng([41, k]), n, f"{family} {k}")
            fall = float(kink.f(kink.x0)) - kink.fstar
            both = ours(kink.f, kink.x0), bfgs(kink.f, kink.x0)
            for side, end in enumerate(both):
                part = (end.fun - kink.fstar) / fall
                parts[side].append(part)
                wrong[side] += end.success and part > ABOVE
            used.append(both[0].used / both[1].used)
            ends[both[0].status] += 1
            named += "check_gradient" in both[0].message
            total += 1
            if each:
                print(f"{kink.name:24s} n = {n:2d} {parts[0][-1]:8.1e} {both[0].used:6d} {both[0].status:14s}"
                      f" BFGS {parts[1][-1]:8.1e} {both[1].used:6d} {both[1].success}")  # fmt: skip
        worst = [a + b for a, b in zip(worst, wrong, strict=True)]
        ratios += used
        row(family, wrong, used, parts, ends)
    print(f"all {total}: false successes {worst[0]} (BFGS {worst[1]}), values over BFGS's"
          f" {np.median(ratios):.2f}, at most {max(ratios):.1f}, above 3 in {sum(np.array(ratios) > 3)};"
          f" messages that advise check_gradient: {named}")  # fmt: skip


def row(name: str, wrong: list[int], used: list[float], parts: Any, ends: Counter[str]) -> None:
    above = sum(np.array(used) > 3)
    print(f"{name:18s} {wrong[0]:3d} {wrong[1]:3d}   {np.median(used):5.2f} {max(used):5.1f} {above:3d}"
          f"   {np.median(parts[0]):7.0e} {np.median(parts[1]):7.0e}   {listed(ends)}")  # fmt: skip


# --- few digits ----------------------------------------------------------------------------------------


class Coarse(NamedTuple):
    """A function whose values have few digits, and the same with all of them."""

    name: str
    f: Callable[[Any], Any]
    exact: Callable[[Any], Any]
    x0: Any
    digits: int | None = None


def rosenbrock(x: Any) -> Any:
    return 1 + 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def rounded_to(f: Callable[[Any], Any], digits: int) -> Callable[[Any], float]:
    return lambda x: float(f"{float(f(x)):.{digits - 1}e}")


def in_single(f: Callable[[Any, Any], Any]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return f(x, kind) in float32 and in float64."""
    return lambda x: float(f(x, np.float32)), lambda x: float(f(x, np.float64))


def logistic(x: Any, kind: Any) -> Any:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(80, 5))
    A *= np.sign(A @ rng.normal(size=5) + rng.normal(size=80))[:, None]
    x = x.astype(kind)
    return np.logaddexp(kind(0), -(A.astype(kind) @ x)).mean() + kind(0.01) * x @ x


def network(x: Any, kind: Any) -> Any:
    t = np.linspace(-1, 1, 30, dtype=kind)
    a, b, c = x.astype(kind).reshape(3, 4)
    hidden = np.tanh(t[:, None] * a + b)
    return ((hidden @ c - np.sin(kind(3) * t)) ** 2).mean() + kind(1e-2) * (x.astype(kind) ** 2).sum()


def process(x: Any, kind: Any) -> Any:
    """Return the negative likelihood of a Gaussian process with three parameters."""
    P = np.random.default_rng(2).uniform(size=25)
    v = (np.sin(6 * P) + 0.1 * np.random.default_rng(3).normal(size=25)).astype(kind)
    with np.errstate(all="ignore"):
        scale, length, noise = np.exp(x.astype(kind))
        K = scale * np.exp(-0.5 * ((P[:, None] - P).astype(kind) / length) ** 2)
        K += (noise + kind(1e-3)) * np.eye(25, dtype=kind)
    if not np.isfinite(K).all():
        return np.inf
    return kind(0.5) * (v @ np.linalg.solve(K, v) + np.linalg.slogdet(K)[1])


def equation(seed: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the fit of a predator-prey equation to data, with default tolerances and with small ones."""
    times = np.linspace(0, 8, 25)

    def solution(x: Any, **tolerances: float) -> Any:
        def rates(t: float, y: Any) -> Any:
            return [y[0] * (x[0] - x[1] * y[1]), y[1] * (x[2] * y[0] - x[3])]

        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            found = solve_ivp(rates, (0, 8), [1.0, 0.5], t_eval=times, **tolerances)
        return found.y if found.y.shape[-1] == len(times) else np.full((2, len(times)), np.inf)

    fine = {"rtol": 1e-7, "atol": 1e-9}
    data = solution([1.1, 0.6, 0.5, 0.9], **fine)
    data = data * (1 + 0.05 * np.random.default_rng(seed).normal(size=data.shape))

    def fit(**tolerances: float) -> Callable[[Any], Any]:
        def value(x: Any) -> float:
            if (x <= 0).any() or (x > 5).any():  # beyond, the solver may need millions of steps
                return np.inf
            return float(((solution(x, **tolerances) - data) ** 2).sum())

        return value

    return fit(), fit(**fine)


def coarse() -> Iterator[Coarse]:
    plain = {f: np.random.default_rng([n, 7]).uniform(0, 2, n) for f, n in NOISY.items()}
    plain[rosenbrock] = np.array([-1.2, 1.0])
    for f, x0 in plain.items():
        for digits in DIGITS:
            yield Coarse(f"{f.__name__} to {digits} digits", rounded_to(f, digits), f, x0, digits)
    rng = np.random.default_rng(5)
    for model, n in ((logistic, 5), (network, 12), (process, 3)):
        yield Coarse(f"{model.__name__}, float32", *in_single(model), 0.5 * rng.normal(size=n))
    for seed in range(2):
        yield Coarse(f"solve_ivp fit {seed}", *equation(seed), np.array([0.8, 0.4, 0.4, 0.7]))


def lowest_seen(case: Coarse, x: Any) -> tuple[float, float]:
    """Return the lowest value of the user's f that can be seen from x, and the unit of its values.

    The function with all its digits is minimised from x by BFGS. The user's f is asked there, and is then
    minimised by Nelder and Mead's method, in simplexes of two sizes, from there and from x.

    The unit of values rounded to d digits is one of the last digit. For the others it is measured at the
    lowest point: on lines of 41 points, one hundredth of x long, twice the largest distance of f from its
    polynomial of degree 4.

    An end is good if f there is at most one unit above the lowest value; up to ten units it is called near,
    beyond them above. A success that is above is false; one that is near is counted on its own.
    """
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        best = min((x, scipy.optimize.minimize(case.exact, x, method="BFGS").x), key=case.f)
        for start in (x, best):
            for size in (1e-1, 1e-2):
                corners = np.vstack([start, start + size * np.diag(np.maximum(abs(start), 0.1))])
                options = {"initial_simplex": corners, "maxfev": 100 * len(x)}
                end = scipy.optimize.minimize(case.f, start, method="Nelder-Mead", options=options).x
                best = min((best, end), key=case.f)
    lowest = float(case.f(best))
    if case.digits is not None:
        return lowest, 10.0 ** (np.floor(np.log10(abs(lowest))) + 1 - case.digits)
    rng, t, worst = np.random.default_rng(0), np.linspace(-1, 1, 41), 0.0
    for _ in range(5):
        direction = rng.normal(size=len(best))
        direction *= 0.005 * np.linalg.norm(best) / np.linalg.norm(direction)
        values = np.array([case.f(best + s * direction) for s in t])
        worst = max(worst, abs(values - np.polynomial.Polynomial.fit(t, values, 4)(t)).max())
    return lowest, 2 * worst


def rounded(quick: bool, each: bool) -> None:
    print("few digits: ends that are good (at most 1 unit above the lowest value seen), near (10), above;")
    print("in each: called success, called failure")
    table = {name: Counter[tuple[str, bool]]() for name in ("cgd-auto", "BFGS")}
    ends: dict[str, Counter[str]] = {"good": Counter(), "near": Counter(), "above": Counter()}
    ratios: list[float] = []
    for case in list(coarse())[:: 9 if quick else 1]:
        both = {"cgd-auto": ours(case.f, case.x0), "BFGS": bfgs(case.f, case.x0)}
        seen = [lowest_seen(case, end.x) for end in both.values()]
        lowest, unit = min(low for low, _ in seen), seen[0][1]
        line = f"{case.name:24s} unit {unit:7.1e}"
        for name, end in both.items():
            units = (end.fun - lowest) / unit
            place = "good" if units <= 1.01 else "near" if units <= 10.01 else "above"
            table[name][place, end.success] += 1
            if name == "cgd-auto":
                ends[place][end.status] += 1
            word = "success" if end.success else "failure"
            line += f" | {units:9.3g} units {end.used:6d} {word} {end.status:14s}"
        ratios.append(both["cgd-auto"].used / both["BFGS"].used)
        if each:
            print(line)
    for name, counts in table.items():
        cells = "   ".join(
            f"{place} {counts[place, True]:2d} {counts[place, False]:2d}"
            for place in ("good", "near", "above")
        )
        print(f"{name:10s} {cells}")
    for place, counts in ends.items():
        print(f"ours, {place}: {listed(counts) or 'none'}")
    print(f"values over BFGS's: {np.median(ratios):.2f}, at most {max(ratios):.1f}")


# --- cut and resumed -----------------------------------------------------------------------------------


def with_noise(f: Callable[[Any], Any], level: float) -> Callable[[Any], float]:
    """Return f with an error that depends on every bit of x, the same whenever it is asked."""

    def value(x: Any) -> float:
        seed = np.sin(1e6 * (x * np.arange(1, len(x) + 1)).sum()) * 43758.5453
        return float(f(x)) * (1 + level * (2 * (seed - np.floor(seed)) - 1))

    return value


def same_bits(a: Any, b: Any) -> bool:
    """Say whether two results have the same point, value, gradient and trace, bit for bit."""
    pairs = [(getattr(a, name), getattr(b, name)) for name in ("x", "fun", "jac")]
    pairs += [(getattr(a.trace, name), getattr(b.trace, name)) for name in ("f", "x")]
    return a.status == b.status and all(np.asarray(p).tobytes() == np.asarray(q).tobytes() for p, q in pairs)


def resumed(quick: bool, each: bool) -> None:
    print("cut and resumed: other bits than the uncut run, other counts; where all bits are the same, values")
    print("that the resumed part asks for and the uncut run does not (most of a run)")
    functions = {f: np.random.default_rng([n, 9]).uniform(0, 2, n) for f, n in NOISY.items()}
    functions[rosenbrock] = np.array([-1.2, 1.0])
    for level in (0.0, 1e-6):
        for kind, counter in (("evals", "nfev"), ("grads", "njev"), ("iters", "nit")):
            cuts, bits, counts, more = 0, 0, 0, [0]
            for f, x0 in list(functions.items())[:: 3 if quick else 1]:
                value = with_noise(f, level) if level else f
                asked = Asked(value)
                whole = st.minimize(asked, x0, trace="x")
                most, wrong = int(getattr(whole, counter)), []
                first = 0 if kind == "iters" else 1
                for limit in np.unique(np.linspace(first, most - 1, 10 if quick else CUTS).astype(int)):
                    end, again = cut_and_resumed(value, x0, {kind: int(limit)})
                    cuts += 1
                    other = any(getattr(end, name) != getattr(whole, name) for name in COUNTS)
                    differs = not same_bits(end, whole)
                    bits, counts = bits + differs, counts + other
                    if differs or other:
                        wrong.append(int(limit))
                    if not differs:
                        more.append(len(again) - common_end(again, asked.points))
                if each:
                    print(f"  {f.__name__:12s} noise {level:g} {kind}: {most}, differ when cut at {wrong}")
            print(f"noise {level:5.0e} {kind}: {cuts:4d} cuts {bits:4d} {counts:4d} {max(more):4d}")


COUNTS = ("nfev", "njev", "nhvp", "nit")


class Asked:
    """A function that keeps the points it was asked for."""

    def __init__(self, f: Callable[[Any], Any]) -> None:
        self._f = f
        self.points: list[bytes] = []

    def __call__(self, x: Any) -> Any:
        self.points.append(np.asarray(x).tobytes())
        return self._f(x)


def cut_and_resumed(f: Callable[[Any], Any], x0: Any, limit: dict[str, int]) -> tuple[Any, list[bytes]]:
    """Return the result of a run that was cut and resumed, and the points of the resumed part."""
    asked = Asked(f)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        st.minimize(f, x0, budget=st.Budget(**limit), trace="x", checkpoint=path)
        return st.minimize(asked, x0, trace="x", checkpoint=path), asked.points


def common_end(a: list[bytes], b: list[bytes]) -> int:
    """Return how many of the last points of both are the same."""
    k = 0
    while k < min(len(a), len(b)) and a[-1 - k] == b[-1 - k]:
        k += 1
    return k


# --- sizes of f ----------------------------------------------------------------------------------------


def student(x: Any) -> float:
    """Return the negative log-likelihood of a t distribution: degrees of freedom, location and scale."""
    data = 3 + 2 * np.random.default_rng(4).standard_t(4, size=200)
    nu, location, scale = (float(t) for t in x)
    if nu <= 0 or scale <= 0:
        return np.inf
    with np.errstate(all="ignore"):
        z = (data - location) / scale
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi) - np.log(scale)
        return float(((nu + 1) / 2 * np.log1p(z * z / nu) - constant).sum())


def scaled(quick: bool, each: bool) -> None:
    print("c·f: ends within 1e-6 of f0 − f*, runs that stay at x0, values over those of f, how runs end")
    cases: list[tuple[str, Callable[[Any], Any], Any]] = [
        (f"{f.__name__}-{seed}", f, np.random.default_rng([seed, n, 11]).uniform(0, 2, n))
        for f, n in NOISY.items()
        for seed in range(1 if quick else 6)
    ]
    cases += [(p.name, p, p.x0.copy()) for p in suite("mgh") if p.n <= (3 if quick else 10)]
    lowest: dict[str, float] = {}
    for name, f, x0 in cases:
        with np.errstate(all="ignore"):
            lowest[name] = min(ours(f, x0).fun, bfgs(f, x0).fun, bfgs(f, ours(f, x0).x).fun)
    for scale in SCALES:
        for name, solver in (("cgd-auto", ours), ("BFGS", bfgs)):
            there, still, ratios, ends = 0, 0, [], Counter[str]()
            for label, f, x0 in cases:
                with np.errstate(all="ignore"):
                    end = solver(lambda x, f=f, scale=scale: scale * float(f(x)), x0)
                    plain = solver(lambda x, f=f: float(f(x)), x0)
                    f0 = float(f(x0))
                part = (end.fun / scale - lowest[label]) / (f0 - lowest[label])
                there += part <= 1e-6
                still += bool((end.x == x0).all())
                ratios.append(end.used / plain.used)
                ends[end.status] += 1
                if each:
                    print(f"  {scale:5.0e} {name:9s} {label:22s} {part:8.1e} {end.used:6d} {end.status}")
            print(f"{scale:5.0e} {name:9s} {there:3d} of {len(cases)}, still {still:3d}, values"
                  f" {np.median(ratios):.2f}, {listed(ends)}")  # fmt: skip
    best = min(ours(student, np.array([4.0, 3.0, 2.0])).fun, bfgs(student, np.array([4.0, 3.0, 2.0])).fun)
    for start in ([1.0, 3e23, 5e24], [1.0, 3e8, 5e9], [1.0, 0.0, 1e-6]):
        for name, solver in (("cgd-auto", ours), ("BFGS", bfgs)):
            end = solver(student, np.array(start))
            print(f"t distribution from {start}: {name} {end.fun - best:.3g} above its minimum,"
                  f" {end.used} values, {end.status}, {'success' if end.success else 'failure'}")  # fmt: skip


SECTIONS = {"kinks": kinks, "rounded": rounded, "resumed": resumed, "scaled": scaled}


def main() -> None:
    asked = [word for word in sys.argv[1:] if not word.startswith("-")] or list(SECTIONS)
    for word in asked:
        print(f"--- {word}")
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            SECTIONS[word]("--quick" in sys.argv, "--each" in sys.argv)


if __name__ == "__main__":
    main()
