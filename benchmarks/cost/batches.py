"""Many runs: fixed steps beside loops by hand, cgd-auto in lockstep beside loops and the compiled engine."""

from __future__ import annotations

import math
import os
from collections.abc import Callable

os.environ.setdefault("JAX_ENABLE_X64", "1")

import numpy as np
import scipy.optimize as so

import steepen as st
from steepen._call import solve

from .functions import PI, branin, branin_grad, hand_batch
from .timer import Table, alternating, clock

STEP, LAM, R, BAR = 1e-3, 0.01, 1e-3, 1.2
METHODS = ("gd", "cgd-fd", "bfgs")
ITERS = 40


def starts(rows: int) -> np.ndarray:
    return np.random.default_rng(0).uniform([-5, 0], [10, 15], (rows, 2))


def fixed_steps(table: Table, quick: bool) -> None:
    x0, iters = starts(10_000), ITERS
    for keep_x in (False, True):

        def ours(keep_x=keep_x):
            return st.minimize(
                branin, x0, method="gd", jac=branin_grad, step=1e-3, budget=st.Budget(iters=iters),
                gtol=0.0, trace="x" if keep_x else True,
            )  # fmt: skip

        hand = alternating(
            ours, lambda k=keep_x: hand_batch(branin, branin_grad, x0, 1e-3, iters, k), 10 if quick else 30
        )
        label = "with x" if keep_x else "f, ‖∇f‖"
        table.row(
            f"10 000 starts / hand-vectorised ({label})", hand[0] * 1e3, hand[1] * 1e3, hand[2], 1.2, "ms"
        )
    sample = 200

    def loop(**options: float) -> int:
        options = {"maxiter": iters, **options}
        runs = [
            so.minimize(branin, s, jac=branin_grad, method="L-BFGS-B", options=options) for s in x0[:sample]
        ]
        return sum(run.nit for run in runs)

    # SciPy stops after a few iterations on so easy a function, so its time is scaled to 40 as well
    for label, scale in (("40 iterations", sample * iters / loop(ftol=0, gtol=0)), ("to its tolerance", 1.0)):
        options = {"ftol": 0, "gtol": 0} if scale > 1 else {}
        b = min(clock(lambda o=options: loop(**o)) for _ in range(3)) * scale * len(x0) / sample
        bar = 100.0 if scale > 1 else 0.0
        table.row(f"loop over SciPy, {label} / 10 000 starts", hand[0], b, b / hand[0], bar, "s", least=True)


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


def run(method: str, x0: np.ndarray, iters: int, keep_x: bool = False):
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


def by_methods(table: Table, quick: bool) -> None:
    """Time batches of each method beside a loop written by hand for it, and beside the lockstep driver."""
    x0 = starts(10_000)
    with np.errstate(all="ignore"):
        for method in METHODS:
            for keep_x in (False, True):
                same = np.isclose(run(method, x0, ITERS).x, by_hand(method, x0, ITERS, keep_x)[0])
                assert same.mean() > 0.99, "a few rows are chaotic"
                ours, hand, ratio = alternating(
                    lambda m=method, k=keep_x: run(m, x0, ITERS, k),
                    lambda m=method, k=keep_x: by_hand(m, x0, ITERS, k),
                    10 if quick else 30,
                )
                name = f"{method}, 10 000 rows / by hand{', with x' * keep_x}"
                table.row(name, ours * 1e3, hand * 1e3, ratio, BAR, "ms")
        for method in METHODS:
            for rows in (1, 10, 100, 1000, *(() if quick else (10_000,))):
                ours, other, ratio = alternating(
                    lambda m=method, b=rows: run(m, x0[:b], ITERS),
                    lambda m=method, b=rows: in_lockstep(lambda: run(m, x0[:b], ITERS)),
                    1 if rows == 10_000 else 5,
                )
                table.row(
                    f"{method}, {rows} rows / in lockstep", ours * 1e3, other * 1e3, ratio, math.inf, "ms"
                )


def traced(x):
    """Branin's function for JAX."""
    import jax.numpy as jnp

    q = x[1] - 5.1 / (4 * PI**2) * x[0] ** 2 + 5 / PI * x[0] - 6
    return q * q + 10 * (1 - 1 / (8 * PI)) * jnp.cos(x[0]) + 10


def lockstep(table: Table, quick: bool) -> None:
    """Time cgd-auto from many starts beside a loop over SciPy, and beside the compiled engine.

    All stop at ‖∇f‖ ≤ 1e-5. The compiled engine's first call compiles, and is a row of its own. There is no
    bar: the page says what to take.
    """
    options = {"gtol": 1e-5, "ftol": 0}
    for rows in (1, 10, 100, 1000) if quick else (1, 10, 100, 1000, 10_000):
        x0 = starts(rows)
        some = x0[:200]

        def loop(some=some):
            for one in some:
                so.minimize(branin, one, jac=branin_grad, method="L-BFGS-B", options=options)

        def compiled(x0=x0):
            return st.minimize(traced, x0, engine="jax")

        def ours(x0=x0):
            return st.minimize(branin, x0, jac=branin_grad, trace=False)

        a, b, ratio = alternating(ours, loop, 3)
        part = rows / len(some)
        table.row(
            f"cgd-auto, {rows} starts / loop over L-BFGS-B",
            a * 1e3,
            b * part * 1e3,
            ratio / part,
            math.inf,
            "ms",
        )
        first = clock(compiled)
        a, b, ratio = alternating(ours, compiled, 3)
        table.row(f"cgd-auto, {rows} starts / compiled", a * 1e3, b * 1e3, ratio, math.inf, "ms")
        table.row(
            f"cgd-auto, {rows} starts / first call, compiled", a * 1e3, first * 1e3, a / first, math.inf, "ms"
        )
