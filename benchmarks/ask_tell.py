"""What ask and tell costs beside `minimize`: processor time for a value of a cheap function of ten numbers.

    python benchmarks/ask_tell.py

Both make the same runs in turn, evaluations included. The smallest times are printed, and the median of the
ratios of neighbours. The calls of functions, Python's and C's, are the same on every machine.
"""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import steepen as st

X0 = np.array([-1.2, 1.0] * 5)
REPEATS = 41


def both(x: Any) -> tuple[float, Any]:
    """Return Rosenbrock's function and its gradient."""
    t, g = x[1:] - x[:-1] ** 2, np.zeros_like(x)
    g[:-1] = -400 * x[:-1] * t - 2 * (1 - x[:-1])
    g[1:] += 200 * t
    return float((100 * t * t + (1 - x[:-1]) ** 2).sum()), g


def value(x: Any) -> float:
    """Return Rosenbrock's function."""
    t = x[1:] - x[:-1] ** 2
    return float((100 * t * t + (1 - x[:-1]) ** 2).sum())


def told(method: str, gradient: bool) -> st.Result:
    """Make a run by ask and tell."""
    run = st.Run(X0, method=method, jac=gradient or None, budget=st.Budget(iters=300))
    while ask := run.ask():
        if gradient:
            run.tell(ask, *both(ask.points[0]))
        else:
            run.tell(ask, [value(x) for x in ask.points])
    return run.result()


def called(method: str, gradient: bool) -> st.Result:
    """Make the same run by `minimize`."""
    fun: Callable[..., Any] = both if gradient else value
    return st.minimize(fun, X0, method=method, jac=gradient or None, budget=st.Budget(iters=300))


def seconds(make: Callable[[], st.Result]) -> float:
    """Return the processor's time that a run takes."""
    began = time.process_time()
    make()
    return time.process_time() - began


def calls(make: Callable[[], st.Result]) -> int:
    """Return how many functions a run calls."""
    profile = cProfile.Profile()
    profile.runcall(make)
    return pstats.Stats(profile).total_calls  # pyright: ignore[reportAttributeAccessIssue]


def main() -> None:
    """Print the table."""
    print(
        "| method | gradient | evaluations | minimize, µs each | ask and tell, µs each | more | more calls |"
    )
    print("|---|---|---|---|---|---|---|")
    for method in ("cgd-auto", "bfgs", "gd"):
        for gradient in (True, False):
            count = called(method, gradient).nfev
            assert told(method, gradient).nfev == count
            times = [
                (seconds(lambda: called(method, gradient)), seconds(lambda: told(method, gradient)))  # noqa: B023
                for _ in range(REPEATS)
            ]
            ours, theirs = (min(column) / count * 1e6 for column in zip(*times, strict=True))
            more = calls(lambda: told(method, gradient)) / calls(lambda: called(method, gradient)) - 1  # noqa: B023
            slower = median(theirs / ours for ours, theirs in times) - 1
            source = "yes" if gradient else "no"
            print(
                f"| {method} | {source} | {count} | {ours:.1f} | {theirs:.1f} | {slower:.0%} | {more:.0%} |"
            )


if __name__ == "__main__":
    main()
