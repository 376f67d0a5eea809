"""How runs without a gradient end on what real functions do: noise, flat directions, few digits, boxes.

    python -m benchmarks.ends [processes] [float32] [noise] [boxes] [rounded] [starts] [each] [fresh]

- `processes`: 30 likelihoods of Gaussian processes in five logarithms (the length along one input has no
  minimum: a flat direction), and the same shifted, so that 0 is nothing special. A run is at the minimum
  within 1e-5 of where BFGS with the gradient ends, from the run's end; ends from the same start are compared.
- `float32`: 20 functions that are computed in float32 and returned as float.
- `noise`: Rosenbrock's function plus normal noise of 1e-4, 1e-3 and 1e-2, 40 runs each, and 140 quadratics.
  A far success ends more than 20 times the noise above the minimum.
- `boxes`: 800 convex quadratics of two to six variables in a box. An end contradicts `res.jac` where a
  success leaves a projected gradient above the tolerance and f above its minimum, or a failure does not.
- `rounded`: 360 quadratics of three variables, one or two of which are rounded to 1 … 7 decimals. A false
  success ends more than 30 units of the last decimal, squared, above the lowest value; the others are off
  where they are more than 1e-3 from their best for the rounded ones as they are.
- `starts`: the first step on the held-out problems, shifted so that 0 means nothing, where a survey has found
  f″ at the start: each variable by no more than its size, as it is, against a step of length 1 along −∇f.

Without a name, all six are run. `fresh` draws what `noise`, `rounded` and `starts` run from other seeds
than those on which constants were chosen. `after the last gain` is the median share of values that were
made after f was within a part of 1e-8 of the whole decrease of where it ended (for noise, within the noise).
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize as so
from benchmarks.problems import cases

import steepen as st
from steepen.methods.auto import CGDAuto

Function = Callable[[Any], float]

CLOSE = 1e-5
FAR = 20.0
NOISES = {1e-4: 1, 1e-3: 2, 1e-2: 2}
FIRST = 14_000 if "fresh" in sys.argv else 0
"""The first seed of noisy runs."""


def count(total: Counter[str], **seen: Any) -> None:
    """Add what a run was to the counts."""
    total.update({name.replace("_", " "): int(number) for name, number in seen.items()})


class Watched:
    """A function that keeps every value, and what the function without its noise is there."""

    def __init__(self, fun: Function, exact: Function | None = None) -> None:
        self.fun, self.exact, self.values = fun, exact or fun, list[float]()

    def __call__(self, x: Any) -> float:
        value = self.fun(x)
        self.values.append(value if self.exact is self.fun else self.exact(x))
        return value

    def idle(self, part: float) -> float:
        """Return the share of values made after the lowest was within `part` of its last one."""
        lowest = np.minimum.accumulate(np.array(self.values))
        return 1 - (np.argmax(lowest <= lowest[-1] + part) + 1) / len(lowest)


# --- Gaussian processes --------------------------------------------------------------------------------


def process(seed: int) -> tuple[Function, Callable[[Any], Any]]:
    """Return −log likelihood over (amplitude, three lengths, noise), all logarithms, and its gradient."""
    rng = np.random.default_rng(seed)
    n, noise = (30, 50, 80)[seed % 3], (0.3, 0.1, 0.01)[seed // 3 % 3]
    X = rng.uniform(-1, 1, (n, 3))
    y = np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + noise * rng.standard_normal(n)  # X[:, 2] plays no part
    y = (y - y.mean()) / y.std()
    apart = (X[:, None, :] - X[None, :, :]) ** 2

    def parts(t):
        amplitude, lengths, spread = np.exp(2 * t[0]), np.exp(t[1:4]), np.exp(2 * t[4])
        kernel = amplitude * np.exp(-0.5 * (apart / lengths**2).sum(axis=2))
        return kernel, lengths, spread, kernel + (spread + 1e-10) * np.eye(n)

    def value(t):
        with np.errstate(all="ignore"):
            try:
                factor = scipy.linalg.cholesky(parts(t)[3], lower=True)
            except (np.linalg.LinAlgError, ValueError):
                return np.inf
            half = scipy.linalg.solve_triangular(factor, y, lower=True)
            return float(0.5 * half @ half + np.log(np.diag(factor)).sum() + 0.5 * n * np.log(2 * np.pi))

    def slope(t):
        kernel, lengths, spread, K = parts(t)
        inverse = np.linalg.inv(K)
        a = inverse @ y
        M = 0.5 * (inverse - np.outer(a, a))
        along = [(M * kernel * apart[:, :, i]).sum() / lengths[i] ** 2 for i in range(3)]
        return np.array([2 * (M * kernel).sum(), *along, 2 * spread * np.trace(M)])

    return value, slope


def processes(each: bool) -> None:
    for name, shift in (("", 0.0), (" shifted by 5", 5.0)):
        total: Counter[str] = Counter()
        ends, idle, ratios = Counter[str](), list[float](), list[float]()
        for seed in range(30):
            value, slope = process(seed)

            def moved(t, value=value, shift=shift):
                return value(t - shift)

            start = np.zeros(5) + shift
            f = Watched(moved)
            res = st.minimize(f, start, trace=False)
            given = st.minimize(value, np.zeros(5), jac=slope, trace=False)
            theirs = so.minimize(moved, start, method="BFGS")
            polished = so.minimize(value, res.x - shift, jac=slope, method="BFGS", options={"gtol": 1e-9})
            nearby = min(polished.fun, res.fun)
            close = res.fun <= nearby + CLOSE
            ends[res.status.name] += 1
            idle.append(f.idle(1e-8 * (f.values[0] - res.fun)))
            ratios.append(res.nfev / theirs.nfev)
            count(
                total, values=res.nfev, close_failures=close and not res.success,
                far_successes=res.success and not res.fun <= nearby + 1e-3,
                lower_ends_with_the_gradient=res.fun > given.fun + 1e-3,
                higher_ones=res.fun < given.fun - 1e-3,
            )  # fmt: skip
            if each:
                print(
                    f"  {seed:2} {res.status.name:18} {res.nfev:5} {res.fun - nearby:8.1e} "
                    f"{res.fun - given.fun:8.1e} idle {idle[-1]:.2f}"
                )
        print(
            f"30 Gaussian processes{name}: " + ", ".join(f"{what} {count}" for what, count in total.items())
        )
        print(
            f"    {dict(ends)}; after the last gain {np.median(idle):.2f}; "
            f"values over BFGS's {np.exp(np.mean(np.log(ratios))):.2f}   (bar: no failure within 1e-5)"
        )


# --- float32 -------------------------------------------------------------------------------------------


def singles() -> Any:
    """Yield a name, a function that is computed in float32, and a start."""
    rng = np.random.default_rng(7)
    for seed in range(8):
        yield f"rosen {seed}", so.rosen, rng.uniform(-2, 2, 2)
    for seed in range(4):
        yield f"rosen 4 {seed}", so.rosen, rng.uniform(-2, 2, 4)
    for seed in range(4):
        axes = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        H = axes @ np.diag(np.geomspace(1, 100, 4)) @ axes.T
        H32 = H.astype(np.float32)

        def bowl(x, H=H, H32=H32):
            return 3 + 0.5 * x @ (H32 if x.dtype == np.float32 else H) @ x

        yield f"bowl {seed}", bowl, rng.uniform(-2, 2, 4)
    for seed in range(4):
        f = st.functions[("booth", "matyas", "three-hump-camel", "zakharov")[seed]]
        yield f.name, f, rng.uniform(-2, 2, 2)


def float32(each: bool) -> None:
    total, ends = Counter[str](), Counter[str]()
    idle = list[float]()
    for name, exact, start in singles():

        def single(x, exact=exact):
            return float(exact(np.asarray(x, dtype=np.float32)))

        f = Watched(single)
        res = st.minimize(f, start, trace=False)
        polished = so.minimize(exact, res.x, method="BFGS", options={"gtol": 1e-9})
        least = polished.fun
        above = float(exact(res.x)) - least
        # what the rounding of x and of f to float32 changes near there, ten times
        spread = [abs(single(res.x * (1 + 2e-7 * k)) - float(exact(res.x))) for k in range(-3, 4)]
        near = above <= 10 * max(spread) + 1e-6 * max(1.0, abs(least))
        ends[res.status.name] += 1
        idle.append(f.idle(1e-8 * (f.values[0] - res.fun)))
        count(
            total, true_successes=res.success and near, false_successes=res.success and not near,
            failures_at_the_minimum=near and not res.success, values=res.nfev,
        )  # fmt: skip
        if each and not (near and res.success):
            print(
                f"  {name:12} {res.status.name:18} {res.nfev:5} above {above:8.1e} jac {norm(res.jac):8.1e}"
            )
    print("20 float32 functions: " + ", ".join(f"{what} {count}" for what, count in total.items()))
    print(f"    {dict(ends)}; after the last gain {np.median(idle):.2f}   (bar: 20 true, 0 false)")


# --- noise ---------------------------------------------------------------------------------------------


def norm(v: Any) -> float:
    return float(np.linalg.norm(v))


def noisy_run(exact: Function, start: Any, noise: float, seed: int, least: float = 0.0) -> Any:
    rng = np.random.default_rng(seed)
    f = Watched(lambda x: exact(x) + noise * float(rng.standard_normal()), exact)
    res = st.minimize(f, start, trace=False)
    return res, exact(res.x) - least, f.idle(noise)


def noise(each: bool) -> None:
    for size, bar in NOISES.items():
        total, ends, idle = Counter[str](), Counter[str](), list[float]()
        for seed in range(FIRST, FIRST + 40):
            start = np.random.default_rng(seed).uniform(-2, 2, 2)
            res, above, after = noisy_run(so.rosen, start, size, 100 + seed)
            far = above > FAR * size
            ends[res.status.name] += 1
            idle.append(after)
            count(
                total, far_successes=res.success and far, far_failures=far and not res.success,
                near_failures=not far and not res.success, values=res.nfev,
            )  # fmt: skip
            if each and far:
                print(f"  {seed:2} {res.status.name:18} {res.nfev:5} above {above / size:8.1f} noises")
        print(f"40 Rosenbrock + {size:g}: " + ", ".join(f"{what} {n}" for what, n in total.items()))
        print(f"    {dict(ends)}; after the last gain {np.median(idle):.2f}   (bar: {bar} far successes)")
    total, idle = Counter[str](), list[float]()
    for seed in range(FIRST, FIRST + 140):
        rng = np.random.default_rng(seed)
        n, size = (2, 4, 8, 3)[seed % 4], (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)[seed % 5]
        axes = np.linalg.qr(rng.standard_normal((n, n)))[0]
        H = axes @ np.diag(np.geomspace(1, (1, 10, 100, 1000)[seed // 20 % 4], n)) @ axes.T

        def bowl(x, H=H):
            return float(0.5 * x @ H @ x)

        res, above, after = noisy_run(bowl, rng.uniform(-3, 3, n), size, 500 + seed)
        far = above > FAR * size
        idle.append(after)
        count(
            total, far_successes=res.success and far, failures=not res.success,
            near_failures=not res.success and not far, values=res.nfev,
        )  # fmt: skip
        if each and (far or not res.success):
            print(f"  {seed:3} {res.status.name:18} {res.nfev:5} above {above / size:8.1f} noises")
    print("140 quadratics with noise: " + ", ".join(f"{what} {n}" for what, n in total.items()))
    print(f"    after the last gain {np.median(idle):.2f}   (bar: no far success, no failure)")


# --- boxes ---------------------------------------------------------------------------------------------


def boxes(each: bool) -> None:
    total, ends, idle = Counter[str](), Counter[str](), list[float]()
    for seed in range(800):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 7))
        axes = np.linalg.qr(rng.standard_normal((n, n)))[0]
        H = axes @ np.diag(10.0 ** rng.uniform(-1, 3, n)) @ axes.T
        middle, offset = rng.uniform(-2, 2, n), (0.0, 1.0, 0.0, 100.0)[seed % 4]
        low = rng.uniform(-2, 0, n)
        high = low + 10.0 ** rng.uniform(-1, 0.5, n)

        def bowl(x, H=H, middle=middle, offset=offset):
            return float(offset + 0.5 * (x - middle) @ H @ (x - middle))

        f = Watched(bowl)
        res = st.minimize(f, rng.uniform(low, high), bounds=list(zip(low, high, strict=True)), trace=False)
        root = np.linalg.cholesky(H).T
        best = so.lsq_linear(root, root @ middle, (low, high), method="bvls", tol=1e-15, max_iter=1000)
        above = res.fun - bowl(best.x)
        residual = norm(res.x - np.clip(res.x - res.jac, low, high))
        there = above <= 1e-9 * (f.values[0] - res.fun) + 1e-13 * abs(offset)
        contradicts = (not res.success and (residual <= 1e-5 or there)) or (
            res.success and residual > 1e-5 and not there
        )
        ends[res.status.name] += 1
        idle.append(f.idle(1e-8 * (f.values[0] - res.fun)))
        count(
            total, contradictions=contradicts, failures=not res.success, not_at_the_minimum=not there,
            values=res.nfev,
        )  # fmt: skip
        if each and (contradicts or res.status is st.Status.RESOLUTION):
            print(f"  {seed:3} n {n} {res.status.name:18} {res.nfev:5} above {above:8.1e} {residual:8.1e}")
    print("800 quadratics in boxes: " + ", ".join(f"{what} {n}" for what, n in total.items()))
    print(f"    {dict(ends)}; after the last gain {np.median(idle):.2f}   (bar: no contradiction)")


# --- rounded variables ---------------------------------------------------------------------------------


def partly_rounded(seed: int, decimals: int) -> tuple[Function, Any, Callable[[Any], float], float]:
    """Return a quadratic that rounds some variables, a start, how far others are off, and the highest end."""
    rng = np.random.default_rng(seed)
    middle, away = rng.standard_normal(3), rng.standard_normal(3) * rng.choice([0.3, 1, 3])
    root = rng.standard_normal((3, 3)) if seed % 2 else np.eye(3)
    H = root @ root.T + 0.1 * np.eye(3)
    coarse = [1] if seed % 3 else [0, 2]
    free = [i for i in range(3) if i not in coarse]

    def fun(x):
        x = np.array(x)
        x[coarse] = np.round(x[coarse], decimals)
        return float(1 + (x - middle) @ H @ (x - middle))

    def best(rounded):
        """Return the minimum with these values of the rounded variables."""
        x = np.zeros(3)
        x[coarse] = rounded
        beside = H[np.ix_(free, coarse)] @ (x - middle)[coarse]
        x[free] = middle[free] - np.linalg.solve(H[np.ix_(free, free)], beside)
        return x

    def off(x):
        return float(abs(x - best(np.round(x[coarse], decimals)))[free].max())

    near = np.round(middle[coarse], decimals)
    steps = np.array(np.meshgrid(*[np.arange(-3, 4)] * len(coarse))).reshape(len(coarse), -1).T
    lowest = min(fun(best(near + step * 10.0**-decimals)) for step in steps)
    unit = np.linalg.eigvalsh(H)[-1] * 10.0 ** (-2 * decimals)
    return fun, middle + away, off, lowest + 30 * unit + 1e-9


def rounded(each: bool) -> None:
    total, ends = Counter[str](), Counter[str]()
    for seed in range(FIRST, FIRST + 60):
        for decimals in (1, 2, 3, 4, 5, 7):
            fun, start, off, allowed = partly_rounded(seed, decimals)
            res = st.minimize(fun, start, trace=False)
            near, apart = res.fun <= allowed, off(res.x)
            ends[res.status.name] += 1
            count(
                total, at_the_minimum=near, false_successes=res.success and not near,
                failures=not res.success, others_off=apart > 1e-3, values=res.nfev,
            )  # fmt: skip
            if each and not (near and res.success):
                print(
                    f"  {seed:3} {decimals} {res.status.name:18} {res.nfev:5} above {res.fun - allowed:8.1e}"
                )
    print("360 quadratics, partly rounded: " + ", ".join(f"{what} {n}" for what, n in total.items()))
    print(f"    {dict(ends)}   (bar: 1 in 100 false)")


# --- first steps ---------------------------------------------------------------------------------------


def starts(each: bool) -> None:
    ratios: dict[float, list[float]] = {1e-3: [], 1e-5: [], 1e-8: []}
    differ = 0
    for seed, case in enumerate(cases("others").values()):
        x0 = np.asarray(case.x0, dtype=float)
        shift = np.random.default_rng(FIRST + seed).uniform(-10, 10, x0.size) * max(1.0, norm(x0))
        runs = []
        for gradient in (False, True):
            f = Watched(lambda x, case=case, shift=shift: float(case.value(x - shift)))
            with along_the_gradient() if gradient else nullcontext():
                st.minimize(f, x0 + shift, trace=False, budget=st.Budget(evals=20_000))
            runs.append(np.minimum.accumulate(np.array(f.values)))
        least = min(lowest[-1] for lowest in runs)
        if len(runs[0]) == len(runs[1]) and (runs[0] == runs[1]).all():
            continue
        differ += 1
        for accuracy, found in ratios.items():
            level = least + accuracy * (runs[0][0] - least)
            if max(lowest[-1] for lowest in runs) <= level:
                own, other = (int(np.argmax(lowest <= level)) + 1 for lowest in runs)
                found.append(other / own)
        if each:
            print(f"  {case.name:30} {len(runs[0]):6} {len(runs[1]):6}")
    means = "/".join(f"{np.exp(np.mean(np.log(found))):.2f}" for found in ratios.values())
    both = "/".join(str(len(found)) for found in ratios.values())
    print(f"first steps on {differ} shifted problems, along −∇f over by size: values {means}")
    print(f"    to 1e-3/1e-5/1e-8, on the {both} that both solve")


@contextmanager
def along_the_gradient() -> Iterator[None]:
    """Let a first step ignore f″ and the sizes of the variables."""
    before = CGDAuto._take_curvature
    CGDAuto._take_curvature = lambda *_: None
    try:
        yield
    finally:
        CGDAuto._take_curvature = before


PARTS = {
    "processes": processes,
    "float32": float32,
    "noise": noise,
    "boxes": boxes,
    "rounded": rounded,
    "starts": starts,
}


def main() -> None:
    warnings.simplefilter("ignore")
    asked = [name for name in sys.argv[1:] if name in PARTS] or list(PARTS)
    for name in asked:
        PARTS[name]("each" in sys.argv)


if __name__ == "__main__":
    main()
