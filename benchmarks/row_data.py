"""A thousand fits, each to its own data: one batch with `rows=` beside a loop over SciPy.

    python benchmarks/row_data.py

Each fits a·exp(−b·t) to 20 points by least squares, with the exact gradient, from the same start, until
‖∇f‖ is 1e-7. A fit is as good as SciPy's if its f is no more than 1e-8 (relatively) above the lower one of
L-BFGS-B and BFGS.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize as scipy_minimize

import steepen as st

B = 1000
TIMES = np.linspace(0.0, 1.0, 20)


def model(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the sum of squares and its gradient, for a batch of fits or for one."""
    decay = np.exp(-x[..., 1:] * TIMES)
    rest = x[..., :1] * decay - y
    slopes = (rest * decay).sum(axis=-1), (rest * -TIMES * x[..., :1] * decay).sum(axis=-1)
    return (rest * rest).sum(axis=-1), 2 * np.stack(slopes, axis=-1)


def timed(make: Callable[[], Any]) -> tuple[float, Any]:
    """Return the smallest of three times, and what is made."""
    times: list[float] = []
    made: Any = None
    for _ in range(3):
        began = time.perf_counter()
        made = make()
        times.append(time.perf_counter() - began)
    return min(times), made


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    true = rng.uniform(0.5, 2.0, (B, 2))
    data = true[:, :1] * np.exp(-true[:, 1:] * TIMES) + 0.01 * rng.standard_normal((B, 20))
    starts = np.ones((B, 2))

    def ours(method: str) -> Any:
        return st.minimize(model, starts, rows=data, jac=True, method=method, gtol=1e-7, trace=False)

    def theirs(method: str) -> Any:
        options = {"gtol": 1e-7} | ({"ftol": 0.0} if method == "L-BFGS-B" else {})
        return [
            scipy_minimize(model, start, (y,), method, jac=True, options=options)
            for start, y in zip(starts, data, strict=True)
        ]

    found: dict[str, tuple[float, Any]] = {}
    for method in ("cgd-auto", "bfgs"):
        seconds, result = timed(lambda: ours(method))  # noqa: B023
        found[f"steepen {method}"] = seconds, result.fun
    for method in ("BFGS", "L-BFGS-B"):
        seconds, results = timed(lambda: theirs(method))  # noqa: B023
        found[f"SciPy {method}"] = seconds, np.array([one.fun for one in results])
    lowest = np.minimum(found["SciPy BFGS"][1], found["SciPy L-BFGS-B"][1])
    print(f"| {B} fits | seconds | as good as SciPy's better one |")
    print("|---|---|---|")
    for name, (seconds, values) in found.items():
        print(f"| {name} | {seconds:.2f} | {(values <= lowest * (1 + 1e-8)).sum()} |")


if __name__ == "__main__":
    main()
