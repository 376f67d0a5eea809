"""Batches with fixed steps beside loops written by hand for them, which record the same.

Times are taken alternately and reported as the median of the ratios of neighbours. Bar: 1.2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import steepen as st
from steepen._call import solve

from .core import branin, branin_grad, race

STEP, LAM, R, BAR = 1e-3, 0.01, 1e-3, 1.2
METHODS = ("gd", "cgd-fd", "bfgs")


def dots(a, b):
    return (a * b).sum(axis=-1)


def by_hand(method: str, x: np.ndarray, iters: int, keep_x: bool):
    """Return the last points, and what a trace has: f, ‖∇f‖, λ, α, the guard, the counts (and x)."""
    count, n = x.shape
    columns = {name: [] for name in ("f", "gnorm", "guarded", "x")}
    g, grads = branin_grad(x), 1
    G = np.broadcast_to(np.eye(n), (count, n, n)).copy() if method == "bfgs" else None
    guarded = np.zeros(count, bool)
    counts = np.empty((2, iters + 1, count), np.int64)
    for k in range(iters):
        columns["f"].append(branin(x))
        columns["gnorm"].append(np.sqrt(dots(g, g)))
        counts[0, k], counts[1, k] = k, grads
        if keep_x:
            columns["x"].append(x)
        p = -g
        if method == "cgd-fd":
            p = p - (2 * LAM / R) * (branin_grad(x + R * g) - g)
            grads += 1
        elif method == "bfgs":
            p = -np.einsum("ijk,ik->ij", G, g)
        if method != "gd":
            guarded = ~(dots(g, p) < 0)
            p[guarded] = -g[guarded]
        columns["guarded"].append(guarded)
        x_next = x + STEP * p
        g_next = branin_grad(x_next)
        grads += 1
        if method == "bfgs":
            G = rank_two(G, x_next - x, g_next - g)
        x, g = x_next, g_next
    columns["f"].append(branin(x))
    columns["gnorm"].append(np.sqrt(dots(g, g)))
    if keep_x:
        columns["x"].append(x)
    steps = np.full((2, iters + 1, count), STEP)
    return x, counts, steps, {name: np.stack(column) for name, column in columns.items() if column}


def rank_two(G, s, y):
    """Return the inverse BFGS matrices with these pairs, where they may be used."""
    w, rho = np.einsum("ijk,ik->ij", G, y), dots(s, y)
    good = rho > 1e-10 * np.sqrt(dots(s, s) * dots(y, y))
    rho = np.where(good, rho, 1.0)[:, None]
    v = (1 + dots(y, w)[:, None] / rho) / 2 * s - w
    a = s / rho
    new = G + a[:, :, None] * v[:, None, :] + v[:, :, None] * a[:, None, :]
    return np.where(good[:, None, None], new, G)


def ours(method: str, x0: np.ndarray, iters: int, keep_x: bool = False):
    more = {"lam": LAM, "r": R, "switch": st.switches.Never()} if method == "cgd-fd" else {}
    return st.minimize(
        branin, x0, method=method, jac=branin_grad, step=STEP, budget=st.Budget(iters=iters), gtol=0.0,
        trace="x" if keep_x else True, **more,
    )  # fmt: skip


def in_lockstep(call: Callable[[], object]) -> None:
    """Make a call with the driver of all other batches."""
    fits, solve.fits = solve.fits, lambda *_: False
    try:
        call()
    finally:
        solve.fits = fits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quick = parser.parse_args().quick
    rounds = 10 if quick else 30
    rng, iters, missed = np.random.default_rng(0), 40, False
    x0 = rng.uniform([-5, 0], [10, 15], (10_000, 2))
    print("10 000 rows of Branin, 40 iterations, ms      ours  by hand    ratio")
    for method in METHODS:
        for keep_x in (False, True):
            same = np.isclose(ours(method, x0, iters).x, by_hand(method, x0, iters, keep_x)[0])
            assert same.mean() > 0.99, "a few rows are chaotic"
            mine, hand, ratio = race(
                lambda m=method, k=keep_x: ours(m, x0, iters, k),
                lambda m=method, k=keep_x: by_hand(m, x0, iters, k),
                rounds,
            )
            missed |= ratio > BAR
            label = f"{method}{', with x' if keep_x else ''}"
            mark = "  MISSED" if ratio > BAR else ""
            print(f"{label:<40} {mine * 1e3:9.2f} {hand * 1e3:8.2f} {ratio:8.3f}{mark}")
    print("\nfixed steps against lockstep, ms               ours lockstep    ratio")
    for method in METHODS:
        for rows in (1, 10, 100, 1000, *(() if quick else (10_000,))):
            few = 1 if rows == 10_000 else 5
            mine, other, ratio = race(
                lambda m=method, b=rows: ours(m, x0[:b], iters),
                lambda m=method, b=rows: in_lockstep(lambda: ours(m, x0[:b], iters)),
                few,
            )
            print(f"{f'{method}, {rows} rows':<40} {mine * 1e3:9.2f} {other * 1e3:8.2f} {ratio:8.3f}")
    return int(missed)


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        sys.exit(main())
