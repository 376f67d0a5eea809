"""cgd-auto from many starts: a batch in lockstep, a loop over SciPy, and the compiled engine.

    python benchmarks/lockstep.py            B = 1 … 1000
    python benchmarks/lockstep.py --large    B = 10 000, too

Branin's function costs 15 µs, so what is timed is mostly what each library adds. The compiled engine's first
call compiles; its time is printed apart. All runs stop at ‖∇f‖ ≤ 1e-5.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax.numpy as jnp
import numpy as np
import scipy.optimize as so
from benchmarks.core import branin, branin_grad

import steepen as st


def traced(x):
    """Branin's function for JAX."""
    q = x[1] - 5.1 / (4 * jnp.pi**2) * x[0] ** 2 + 5 / jnp.pi * x[0] - 6
    return q * q + 10 * (1 - 1 / (8 * jnp.pi)) * jnp.cos(x[0]) + 10


def seconds(function, times: int = 3) -> float:
    """Return the least time of a few calls."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        function()
        found.append(time.perf_counter() - began)
    return min(found)


def main() -> None:
    """Print a line for each number of starts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--large", action="store_true", help="10 000 starts, too")
    sizes = (1, 10, 100, 1000, 10_000) if parser.parse_args().large else (1, 10, 100, 1000)
    rng, options = np.random.default_rng(0), {"gtol": 1e-5, "ftol": 0}
    print(f"{'starts':>7} {'lockstep':>10} {'SciPy, loop':>12} {'compiled':>10} {'first call':>11}  ms")
    for rows in sizes:
        x0 = rng.uniform([-5, 0], [10, 15], (rows, 2))
        some = x0[:200]

        def loop(some=some):
            for one in some:
                so.minimize(branin, one, jac=branin_grad, method="L-BFGS-B", options=options)

        def compiled(x0=x0):
            return st.minimize(traced, x0, engine="jax")

        ours = seconds(lambda x0=x0: st.minimize(branin, x0, jac=branin_grad, trace=False))
        theirs = seconds(loop) * rows / len(some)
        first = seconds(compiled, 1)
        times = [1e3 * one for one in (ours, theirs, seconds(compiled))]
        print(f"{rows:>7} {times[0]:>10.1f} {times[1]:>12.1f} {times[2]:>10.1f} {first * 1e3:>11.0f}")


if __name__ == "__main__":
    main()
