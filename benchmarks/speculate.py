"""Values of 50 ms, four workers: how much sooner a run ends whose workers evaluate differences ahead.

    python benchmarks/speculate.py

A value waits 50 ms, as for a simulation on another machine. With `speculate=3` the three workers that idle
while f is evaluated at a trial point evaluate values of the difference there. "For nothing" are those that
were not needed; they are in the count before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import numpy as np

import steepen as st

SECONDS = 0.05
TIMES = np.linspace(0.0, 1.0, 40)
MEASURED = np.exp(-2 * TIMES) + 0.3 * TIMES + 0.02 * np.random.default_rng(0).standard_normal(40)


def valley(x: Any) -> float:
    """Return Rosenbrock's function."""
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def bowl(x: Any) -> float:
    """Return a function whose curvatures differ by a factor of 100."""
    return float((0.5 * np.logspace(0, 2, len(x)) * x * x + 0.1 * x**4 + x).sum())


def fit(x: Any) -> float:
    """Return the squared misfit of an exponential and cosines to 40 points."""
    waves = np.cos(np.pi * np.arange(len(x) - 1) * TIMES[:, None]) @ x[1:]
    return float(((np.exp(-x[0] * TIMES) + waves - MEASURED) ** 2).sum())


STARTS: dict[Callable[[Any], float], float] = {valley: -1.2, bowl: 2.0, fit: 0.5}


def timed(fun: Callable[[Any], float], n: int, threads: Executor, ahead: int) -> tuple[float, st.Result]:
    """Return the seconds of a run, and its result."""

    def waiting(x: Any) -> float:
        time.sleep(SECONDS)
        return fun(x)

    x0, began = np.full(n, STARTS[fun]), time.perf_counter()
    result = st.minimize(waiting, x0, workers=threads, speculate=ahead)
    return time.perf_counter() - began, result


def main() -> None:
    """Print the table."""
    print("| f | n | seconds | evaluations | seconds with speculate=3 | evaluations | for nothing | faster |")
    print("|---|---|---|---|---|---|---|---|")
    with ThreadPoolExecutor(4) as threads:
        for fun in STARTS:
            for n in (3, 10):
                before, plain = timed(fun, n, threads, 0)
                after, ahead = timed(fun, n, threads, 3)
                assert plain.success
                assert ahead.success
                print(
                    f"| {fun.__name__} | {n} | {before:.1f} | {plain.nfev} | {after:.1f} | {ahead.nfev} "
                    f"| {ahead.nfev_unused} | {before / after:.2f} × |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
