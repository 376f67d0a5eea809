"""Speed and memory of the core beside its peers, in one run: `make bench`.

Times are taken alternately (ours, theirs, ours, ...) and reported as the median of the ratios of neighbours,
since machines drift. Every row names its bar; a row over its bar is marked.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads that wait for a busy core time nothing

import numpy as np
import scipy
import scipy.optimize as so

import steepen as st

PI = np.pi


def branin(x):
    x1, x2 = x[..., 0], x[..., 1]
    q = x2 - 5.1 / (4 * PI**2) * x1 * x1 + 5 / PI * x1 - 6
    return q * q + 10 * (1 - 1 / (8 * PI)) * np.cos(x1) + 10


def branin_grad(x):
    x1, x2 = x[..., 0], x[..., 1]
    q = x2 - 5.1 / (4 * PI**2) * x1 * x1 + 5 / PI * x1 - 6
    g = np.empty_like(x)
    g[..., 0] = 2 * q * (5 / PI - 5.1 / (2 * PI**2) * x1) - 10 * (1 - 1 / (8 * PI)) * np.sin(x1)
    g[..., 1] = 2 * q
    return g


def hand_gd(f, grad, x, step, iters):
    """Steepest descent as one writes it, tracing x, f and ‖∇f‖."""
    xs, fs, norms = [], [], []
    for _ in range(iters):
        g = grad(x)
        xs.append(x.copy())
        fs.append(f(x))
        norms.append(np.linalg.norm(g))
        x = x - step * g
    return x


def hand_cgd_fd(f, grad, x, step, lam, r, iters):
    """CGD-FD as one writes it, with the guard, tracing x, f and ‖∇f‖."""
    xs, fs, norms = [], [], []
    nu = 2 * lam / r
    for _ in range(iters):
        g = grad(x)
        p = -(1 - nu) * g - nu * grad(x + r * g)
        if not g @ p < 0:
            p = -g
        xs.append(x.copy())
        fs.append(f(x))
        norms.append(np.linalg.norm(g))
        x = x + step * p
    return x


def hand_batch(f, grad, x, step, iters, keep_x):
    """Many starts at once, tracing f and ‖∇f‖ (and x)."""
    xs, fs, norms = [], [], []
    for _ in range(iters):
        g = grad(x)
        fs.append(f(x))
        norms.append(np.sqrt((g * g).sum(axis=-1)))
        if keep_x:
            xs.append(x)
        x = x - step * g
    return x, np.stack(fs), np.stack(norms), np.stack(xs) if keep_x else None


def clock(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def race(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[float, float, float]:
    """Median times of both, and the median ratio of neighbours."""
    ours(), theirs()
    pairs = [(clock(ours), clock(theirs)) for _ in range(rounds)]
    return (
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


class Table:
    """Prints a row at a time, and remembers whether a bar was missed."""

    def __init__(self) -> None:
        self.failed = False
        print(f"{'what':<54} {'ours':>11} {'peer':>11} {'ratio':>8}  bar")

    def row(
        self, what: str, ours: float, peer: float, ratio: float, bar: float, unit: str, least=False
    ) -> None:
        good = ratio >= bar if least else ratio <= bar
        self.failed |= not good
        sign = ">=" if least else "<="
        mark = "" if good else "  MISSED"
        print(f"{what:<54} {ours:>8.4g} {unit:>2} {peer:>8.4g} {unit:>2} {ratio:>8.3f}  {sign} {bar:g}{mark}")


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
                times = race(lambda m=method, t=trace: ours(m, t), lambda m=method: hand(m), rounds)
                table.row(f"{method} {label} / by hand, {name}", *scaled(times, iters), bar, "µs")
        steps = lbfgsb().nit
        for method in ("gd", "cgd-fd"):
            a, b, _ = race(lambda m=method: ours(m, "x"), lbfgsb, rounds)
            a, b = a / iters * 1e6, b / steps * 1e6
            table.row(f"{method} / SciPy L-BFGS-B, {name}", a, b, a / b, 1.0, "µs")


def scaled(times: tuple[float, float, float], iters: int) -> tuple[float, float, float]:
    return times[0] / iters * 1e6, times[1] / iters * 1e6, times[2]


def quasi_newton(table: Table) -> None:
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
        a, b, _ = race(lambda m=memory: ours(m), lambda m=memory: theirs(m), rounds)
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
        a, b, ratio = race(ours, theirs, (120 if quick else 600) // n + 4)
        part = used[1] / used[0]
        name = f"cgd-auto / SciPy L-BFGS-B, {'a value, no' if jac is None else 'with'} gradient, n={n}"
        table.row(name, a / used[0] * 1e6, b / used[1] * 1e6, ratio * part, bar, "µs")


def own_rosenbrock(x):
    bend, rest = x[1:] - x[:-1] ** 2, 1 - x[:-1]
    return float(100 * bend.dot(bend) + rest.dot(rest))


def own_slope(x):
    g, bend = np.empty_like(x), x[1:] - x[:-1] ** 2
    g[-1] = 0.0
    g[:-1] = -400 * x[:-1] * bend - 2 * (1 - x[:-1])
    g[1:] += 200 * bend
    return g


def bytecodes(run: Callable[[], object], users: set[object]) -> tuple[int, int]:
    """Count the bytecodes that a call executes and the Python calls it makes, beside those of the user's."""
    codes = calls = inside = 0

    def trace(frame, event, arg):
        nonlocal calls, inside
        if frame.f_code in users:
            inside += 1

            def leave(frame, event, arg):
                nonlocal inside
                inside -= event == "return"
                return leave

            return leave
        if inside:
            return None
        calls += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False

        def count(frame, event, arg):
            nonlocal codes
            codes += event == "opcode"
            return count

        return count

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return codes, calls


def work(table: Table) -> None:
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


def lockstep(table: Table, quick: bool) -> None:
    """Time cgd-auto from many starts beside a loop over SciPy; no bar, the page says what to take."""
    rng = np.random.default_rng(0)
    for rows in (1, 10, 100, 1000) if quick else (1, 10, 100, 1000, 10_000):
        x0 = rng.uniform([-5, 0], [10, 15], (rows, 2))
        some = x0[: min(rows, 200)]

        def loop(some=some):
            for one in some:
                so.minimize(branin, one, jac=branin_grad, method="L-BFGS-B")

        ours = min(
            clock(lambda x0=x0: st.minimize(branin, x0, jac=branin_grad, trace=False)) for _ in range(3)
        )
        theirs = min(clock(loop) for _ in range(3)) * rows / len(some)
        name = f"cgd-auto, {rows} starts / loop over L-BFGS-B"
        table.row(name, ours * 1e3, theirs * 1e3, ours / theirs, math.inf, "ms")


def batches(table: Table, quick: bool) -> None:
    rng = np.random.default_rng(0)
    x0, iters = rng.uniform([-5, 0], [10, 15], (10_000, 2)), 40
    for keep_x in (False, True):

        def ours(keep_x=keep_x):
            return st.minimize(
                branin, x0, method="gd", jac=branin_grad, step=1e-3, budget=st.Budget(iters=iters),
                gtol=0.0, trace="x" if keep_x else True,
            )  # fmt: skip

        hand = race(
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


def imports(table: Table) -> None:
    def start(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], check=True)

    times = race(start("import steepen"), start("import numpy, scipy.optimize"), 15)
    table.row("import steepen / numpy + scipy.optimize", times[0] * 1e3, times[1] * 1e3, times[2], 1.2, "ms")


def trace_memory(table: Table) -> None:
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    quick = parser.parse_args().quick
    print(f"steepen {st.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, "
          f"python {platform.python_version()}, {platform.machine()}\n")  # fmt: skip
    table = Table()
    per_iteration(table, quick)
    quasi_newton(table)
    auto(table, quick)
    small(table, quick)
    work(table)
    lockstep(table, quick)
    batches(table, quick)
    imports(table)
    trace_memory(table)
    return int(table.failed)


if __name__ == "__main__":
    sys.exit(main())
