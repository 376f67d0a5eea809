"""One run: an iteration, an evaluation, its bytecodes, an import, the memory of a trace."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable

import numpy as np
import scipy.optimize as so

import steepen as st

from .functions import branin, branin_grad, hand_cgd_fd, hand_gd, own_rosenbrock, own_slope
from .timer import Table, alternating, bytecodes, clock


def per_iteration(table: Table, quick: bool) -> None:
    rosen, slope = so.rosen, so.rosen_der
    cases = [
        ("Branin n=2", branin, branin_grad, np.array([4.0, 5.0]), 1e-4, 0.01, 0.01, 1.15, 1500),
        ("Rosenbrock n=1000", rosen, slope, np.full(1000, -1.2), 1e-5, 1e-5, 1e-4, 1.15, 1000),
    ]
    rounds = 15 if quick else 60
    for name, f, g, x0, step, lam, r, bar, iters in cases:

        def hand(method, f=f, g=g, x0=x0, step=step, lam=lam, r=r, iters=iters):
            if method == "gd":
                return hand_gd(f, g, x0, step, iters)
            return hand_cgd_fd(f, g, x0, step, lam, r, iters)

        def ours(method, trace, f=f, g=g, x0=x0, step=step, lam=lam, r=r, iters=iters):
            more = {"lam": lam, "r": r, "b": iters} if method == "cgd-fd" else {}
            budget = st.Budget(iters=iters)
            return st.minimize(
                f, x0, method=method, jac=g, step=step, budget=budget, gtol=0.0, trace=trace, **more
            )

        def lbfgsb(f=f, g=g, x0=x0, iters=iters):
            options = {"gtol": 0, "ftol": 0, "maxiter": iters}
            return so.minimize(f, x0, jac=g, method="L-BFGS-B", options=options)

        assert ours("cgd-fd", True).trace.penalised[:-1].all()
        for method in ("gd", "cgd-fd"):
            for trace, label in ((True, "traced"), ("x", "traced with x")):
                times = alternating(lambda m=method, t=trace: ours(m, t), lambda m=method: hand(m), rounds)
                table.row(f"{method} {label} / by hand, {name}", *scaled(times, iters), bar, "µs")
        steps = lbfgsb().nit
        for method in ("gd", "cgd-fd"):
            a, b, _ = alternating(lambda m=method: ours(m, "x"), lbfgsb, rounds)
            a, b = a / iters * 1e6, b / steps * 1e6
            table.row(f"{method} / SciPy L-BFGS-B, {name}", a, b, a / b, 1.0, "µs")


def scaled(times: tuple[float, float, float], iters: int) -> tuple[float, float, float]:
    return times[0] / iters * 1e6, times[1] / iters * 1e6, times[2]


def quasi_newton(table: Table, quick: bool) -> None:
    x0, iters = np.full(1000, -1.2), 12

    def ours():
        return st.minimize(
            so.rosen, x0, jac=so.rosen_der, method="cgd-bfgs", lam=1e-5, step=1e-5,
            budget=st.Budget(iters=iters), gtol=0.0,
        )  # fmt: skip

    def theirs():
        return so.minimize(
            so.rosen, x0, jac=so.rosen_der, method="BFGS", options={"maxiter": iters, "gtol": 0}
        )

    ours()
    a = min(clock(ours) for _ in range(5)) / iters
    b = min(clock(theirs) for _ in range(2)) / iters
    table.row("SciPy BFGS / CGD-BFGS, Rosenbrock n=1000", a * 1e3, b * 1e3, b / a, 20.0, "ms", least=True)


def auto(table: Table, quick: bool) -> None:
    """Time an evaluation of f and ∇f with all that goes with it, for a cheap f."""
    x0, evals = np.tile([-1.2, 1.0], 500), 400

    def ours(memory):
        budget = st.Budget(evals=evals)
        return st.minimize(
            so.rosen, x0, jac=so.rosen_der, method="cgd-auto", memory=memory, gtol=0.0, budget=budget
        )

    def theirs(memory):
        options = {"maxcor": memory or 10, "gtol": 0, "ftol": 0, "maxfun": evals, "maxiter": evals}
        return so.minimize(so.rosen, x0, jac=so.rosen_der, method="L-BFGS-B", options=options)

    for memory, bar, rounds in (
        (None, 2.0, 10 if quick else 40), (10, 1.8, 10 if quick else 40), (200, 1.0, 2 if quick else 5),
    ):  # fmt: skip
        used = ours(memory).nfev, theirs(memory).nfev
        a, b, _ = alternating(lambda m=memory: ours(m), lambda m=memory: theirs(m), rounds)
        a, b = a / used[0] * 1e6, b / used[1] * 1e6
        name = f"cgd-auto / SciPy L-BFGS-B, an evaluation, n=1000, m={memory or 'default'}"
        table.row(name, a, b, a / b, bar, "µs")


def small(table: Table, quick: bool) -> None:
    """Time an evaluation of a cheap f, with all that goes with it: with its gradient, and without one."""
    evals, der = 4000, so.rosen_der
    cases = (
        (2, der, 1.6),
        (10, der, 2.0),
        (100, der, 2.5),
        (2, None, 2.5),
        (10, None, 2.0),
        (100, None, 1.2),
    )
    for n, jac, bar in cases:
        x0 = np.tile([-1.2, 1.0], n // 2)

        def ours(x0=x0, jac=jac):
            return st.minimize(so.rosen, x0, jac=jac, trace=False, budget=st.Budget(evals=evals))

        def theirs(x0=x0, jac=jac):
            return so.minimize(so.rosen, x0, jac=jac, method="L-BFGS-B", options={"maxfun": evals})

        used = ours().nfev, theirs().nfev
        a, b, ratio = alternating(ours, theirs, (120 if quick else 600) // n + 4)
        part = used[1] / used[0]
        name = f"cgd-auto / SciPy L-BFGS-B, {'a value, no' if jac is None else 'with'} gradient, n={n}"
        table.row(name, a / used[0] * 1e6, b / used[1] * 1e6, ratio * part, bar, "µs")


def work(table: Table, quick: bool) -> None:
    """Count what an evaluation costs beside the user's own functions: the same on every machine."""
    users: set[object] = {own_rosenbrock.__code__, own_slope.__code__}
    for n in (2, 10, 100):
        x0 = np.tile([-1.2, 1.0], n // 2)

        def run(x0=x0):
            budget = st.Budget(evals=4000)
            return st.minimize(own_rosenbrock, x0, jac=own_slope, trace=False, budget=budget)

        evals = run().nfev
        codes, calls = bytecodes(run, users)
        table.row(f"bytecodes of an evaluation, n={n}", codes / evals, 1500, codes / evals, 1500, "")
        table.row(f"Python calls of an evaluation, n={n}", calls / evals, 60, calls / evals, 60, "")


def imports(table: Table, quick: bool) -> None:
    def start(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    times = alternating(start("import steepen"), start("import numpy, scipy.optimize"), 15)
    table.row("import steepen / numpy + scipy.optimize", times[0] * 1e3, times[1] * 1e3, times[2], 1.2, "ms")


def trace_memory(table: Table, quick: bool) -> None:
    def peak(keep_x: bool, x0: np.ndarray, iters: int) -> int:
        tracemalloc.start()
        st.minimize(
            lambda x: 0.5 * (x * x).sum(axis=-1), x0, jac=lambda x: x, method="gd", step=1e-6, gtol=0.0,
            budget=st.Budget(iters=iters), trace="x" if keep_x else True,
        )  # fmt: skip
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    for label, x0, iters in (
        ("n=2", np.ones(2), 500_000 - 1),
        ("n=1000", np.ones(1000), 1000 - 1),
        ("1000 rows, n=10", np.ones((1000, 10)), 100 - 1),
    ):
        own = 8 * x0.size * (iters + 1) / 1e6
        extra = (peak(True, x0, iters) - peak(False, x0, iters)) / 1e6
        table.row(f"trace of x / its own bytes, 10⁶ numbers, {label}", extra, own, extra / own, 2.0, "MB")
