"""Values of 8 ms, n = 20, no gradient: one process, and four that evaluate the differences.

    python benchmarks/workers.py

Each value takes 8 ms: once waiting, as for a simulation on another machine, which shows what spreading costs
whatever the number of cores; once at work on a core of this one. The runs are the same to the bit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import steepen as st

X0 = np.array([-1.2, 1.0] * 10)
BUDGET = st.Budget(evals=400)
SECONDS = 0.008


def value(x: Any) -> float:
    """Return Rosenbrock's function."""
    t = x[1:] - x[:-1] ** 2
    return float((100 * t * t + (1 - x[:-1]) ** 2).sum())


def waiting(x: Any) -> float:
    """Return it after 8 ms."""
    time.sleep(SECONDS)
    return value(x)


def working(x: Any) -> float:
    """Return it after 8 ms of this process's own time."""
    end = time.process_time() + SECONDS
    while time.process_time() < end:
        pass
    return value(x)


def timed(fun: Callable[[Any], float], workers: Any) -> tuple[float, st.Result]:
    """Return the smallest seconds of three runs, and their result."""
    times: list[float] = []
    result: Any = None
    for _ in range(3):
        began = time.perf_counter()
        result = st.minimize(fun, X0, workers=workers, budget=BUDGET)
        times.append(time.perf_counter() - began)
    return min(times), result


def main() -> None:
    """Print the table."""
    cores = len(os.sched_getaffinity(0))
    print(f"{BUDGET.evals} values of 8 ms, n = {len(X0)}, {cores} cores")
    print("| a value | workers | seconds | times as fast as serial |")
    print("|---|---|---|---|")
    with ProcessPoolExecutor(4, get_context("spawn")) as processes, ThreadPoolExecutor(4) as threads:
        list(processes.map(value, [X0] * 8))  # they are started
        for fun in (waiting, working):
            alone, serial = timed(fun, None)
            print(f"| {fun.__name__} | none | {alone:.2f} | 1 |")
            for name, workers in (("4 processes", processes), ("4 threads", threads)):
                if fun is working and workers is threads:
                    continue  # it holds the GIL
                seconds, result = timed(fun, workers)
                assert np.array_equal(result.x, serial.x)
                assert result.nfev == serial.nfev
                print(f"| {fun.__name__} | {name} | {seconds:.2f} | {alone / seconds:.2f} |")


if __name__ == "__main__":
    main()
