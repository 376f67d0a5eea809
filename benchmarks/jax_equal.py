"""The compiled engine against the eager one, run by run: `python benchmarks/jax_equal.py --method bfgs`.

Every method on problems of Moré, Garbow and Hillstrom in 2 to 4 variables, with fixed steps and with its
search, with and without bounds, in both precisions. The eager run is made from the start and from two that
last bits have moved: iterates may differ by 1000 times what that changes, and counts and status must be the
same wherever it leaves them the same. At the floor of f any of CONVERGED, ROUNDOFF and NOISE will do.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import steepen as st

METHODS = ("gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto")
FLOOR = {st.Status.CONVERGED, st.Status.ROUNDOFF, st.Status.NOISE}


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def freudenstein(x: Any) -> Any:
    a, b = x
    return (-13 + a + ((5 - b) * b - 2) * b) ** 2 + (-29 + a + ((b + 1) * b - 14) * b) ** 2


def beale(x: Any) -> Any:
    return sum((y - x[0] * (1 - x[1] ** i)) ** 2 for i, y in ((1, 1.5), (2, 2.25), (3, 2.625)))


def helix(x: Any) -> Any:
    turn = jnp.arctan2(x[1], x[0]) / (2 * np.pi)
    return 100 * (x[2] - 10 * turn) ** 2 + 100 * (jnp.hypot(x[0], x[1]) - 1) ** 2 + x[2] ** 2


def powell(x: Any) -> Any:
    a, b, c, d = x
    return (a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4


def wood(x: Any) -> Any:
    a, b, c, d = x
    first = 100 * (b - a**2) ** 2 + (1 - a) ** 2 + 90 * (d - c**2) ** 2 + (1 - c) ** 2
    return first + 10 * (b + d - 2) ** 2 + 0.1 * (b - d) ** 2


PROBLEMS: dict[Any, list[float]] = {
    rosenbrock: [-1.2, 1.0], freudenstein: [0.5, -2.0], beale: [1.0, 1.0], helix: [-1.0, 0.5, 0.5],
    powell: [3.0, -1.0, 0.0, 1.0], wood: [-3.0, -1.0, -3.0, -1.0],
}  # fmt: skip


def told(run: st.Result) -> tuple[int, ...]:
    return run.nit, run.nfev, run.njev, run.nhvp, run.nhev


def compare(fun: Any, x0: Any, given: dict[str, Any]) -> str:
    """Return what differs between the two engines; nothing where they agree."""
    grad = jax.jit(jax.grad(fun))
    own: dict[str, Any] = {
        "fun": jax.jit(fun), "jac": grad, "hess": jax.jit(jax.hessian(fun)),
        "hvp": jax.jit(lambda x, v: jax.jvp(grad, (x,), (v,))[1]),
    }  # fmt: skip
    found = st.minimize(fun, x0, engine="jax", **given)
    eps = np.finfo(x0.dtype).eps
    one, *moved = (st.minimize(x0=x0 * (1 + bits * eps), **own, **given) for bits in (0, 4, -4))
    if any(one.status != other.status or told(one) != told(other) for other in moved):
        return ""  # last bits of the start change the run
    if found.status != one.status:
        floor = {found.status, one.status} <= FLOOR
        return "" if floor else f"status {found.status.name}, eager {one.status.name}"
    if found.status not in FLOOR and told(found) != told(one):
        return f"counts {told(found)}, eager {told(one)}"
    sway = 1000 * max(np.abs(one.x - other.x).max() for other in moved)
    sway += 1e5 * eps * max(1.0, np.abs(one.x).max())
    apart = np.abs(found.x - one.x).max()
    return "" if apart <= sway or not np.isfinite(one.x).all() else f"x {apart:.1e} apart, allowed {sway:.1e}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--method", choices=METHODS, action="append", help="by default all")
    parser.add_argument("--iters", type=int, default=60)
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", True)  # programs are run once each
    apart = made = 0
    for method in options.method or METHODS:
        for fun, start in PROBLEMS.items():
            for dtype in (np.float64, np.float32):
                for step in (1e-4, None):
                    for bounds in (None, [(s - 4.0, s + 2.5) for s in start]):
                        x0, budget = np.array(start, dtype), st.Budget(iters=options.iters)
                        given = {"method": method, "bounds": bounds, "step": step, "budget": budget}
                        said = compare(fun, x0, given)
                        made += 1
                        apart += bool(said)
                        if said:
                            what = f"{np.dtype(dtype)}, step {step}, {'bounds' if bounds else 'no bounds'}"
                            print(f"{method}, {fun.__name__}, {what}: {said}", flush=True)
        print(f"{method}: {made} pairs of runs so far, {apart} differ", flush=True)
    return int(apart > 0)


if __name__ == "__main__":
    sys.exit(main())
