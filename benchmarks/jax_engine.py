"""The compiled engine beside its peers, in one run: `python benchmarks/jax_engine.py`.

Peers that are not installed (optimistix, jaxopt) are left out. Times are processor time unless they say
otherwise, and the least of a few rounds, ours and theirs alternately. `--million` makes 10⁶ bounded runs and
needs JAX alone, on a CPU or a GPU; it prints the time and the least that memory bandwidth allows.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads that wait for a busy core time nothing

import jax
import jax.numpy as jnp
import numpy as np

import steepen as st
import steepen.jax as sj

jax.config.update("jax_enable_x64", True)

PI = np.pi
BOX = [(-5.0, 10.0), (0.0, 15.0)]


def branin(x: Any) -> Any:
    q = x[1] - 5.1 / (4 * PI**2) * x[0] * x[0] + 5 / PI * x[0] - 6
    return q * q + 10 * (1 - 1 / (8 * PI)) * jnp.cos(x[0]) + 10


A6 = np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
               [17, 8, 0.05, 10, 0.1, 14]])  # fmt: skip
P6 = 1e-4 * np.array([[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                      [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]])  # fmt: skip
C6 = np.array([1.0, 1.2, 3.0, 3.2])


def hartmann(x: Any) -> Any:
    return -(C6 * jnp.exp(-(A6 * (x - P6) ** 2).sum(axis=-1))).sum()


def rosenbrock(x: Any) -> Any:
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def have(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def clock(function: Callable[[], Any], now: Callable[[], float] = time.process_time) -> float:
    begun = now()
    jax.block_until_ready(function())
    return now() - begun


def race(functions: dict[str, Callable[[], Any]], rounds: int = 3) -> dict[str, float]:
    """Return the least time of each, taken alternately."""
    for function in functions.values():
        jax.block_until_ready(function())
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(clock(function))
    return {name: min(found) for name, found in times.items()}


def row(what: str, ours: float, peer: float, unit: str, bar: float | None = None) -> None:
    said = "" if bar is None else f"  bar {bar:g}" + ("" if ours / peer <= bar else "  MISSED")
    print(f"{what:<58} {ours:>9.4g} {peer:>9.4g} {unit:<3} {ours / peer:>7.2f}{said}", flush=True)


def by_hand(lam: float | None, step: float, r: float, iters: int) -> Callable[[Any], Any]:
    """Return GD, or CGD-FD, as one writes it: a while_loop with the ends that a run has."""
    both = jax.value_and_grad(rosenbrock)

    def body(s: Any) -> Any:
        k, x, _, g, best = s
        p = -g
        if lam is not None:
            nu = 2 * lam / r
            p = -(1 - nu) * g - nu * jax.grad(rosenbrock)(x + r * g)
            p = jnp.where((g * p).sum() < 0, p, -g)
        x = x + step * p
        f, g = both(x)
        return k + 1, x, f, g, jnp.minimum(best, f)

    def more(s: Any) -> Any:
        return (s[0] < iters) & ((s[3] ** 2).sum() > 1e-24) & jnp.isfinite(s[2])

    def run(x: Any) -> Any:
        f, g = both(x)
        return jax.lax.while_loop(more, body, (0, x, f, g, f))

    return jax.jit(run)


def iterations() -> None:
    """Time an iteration."""
    print(f"\n{'an iteration':<58} {'ours':>9} {'peer':>9}       ratio")
    for n, iters in ((2, 20_000), (1000, 1000)):
        x, step, lam, r = jnp.tile(jnp.array([-1.2, 1.0]), n // 2), 1e-5, 1e-5, 1e-4
        for method, bar in (("gd", 1.2), ("cgd-fd", 1.2)):
            more: dict[str, Any] = {"lam": lam, "r": r, "b": iters} if method == "cgd-fd" else {}
            ours = jax.jit(
                lambda x, m=method, more=more, k=iters, step=step: sj.minimize(
                    rosenbrock, x, method=m, step=step, gtol=1e-12, budget=st.Budget(iters=k), **more
                )
            )
            hand = by_hand(lam if more else None, step, r, iters)
            found = race({"ours": lambda f=ours, x=x: f(x), "hand": lambda f=hand, x=x: f(x)})
            a, b = (found[name] / iters * 1e6 for name in ("ours", "hand"))
            row(f"{method}, fixed step, n = {n} / by hand", a, b, "µs", 2.0 if n == 2 else bar)
        if have("optimistix"):
            searches(n, x)
        else:
            print("optimistix is not installed: no BFGS to compare with")


def _steps(solution: Any) -> tuple[Any, Any]:
    return solution.stats["num_steps"], solution.state.num_accepted_steps


def searches(n: int, x: Any) -> None:
    import optimistix as optx
    import scipy.optimize as so

    peers = {
        "bfgs": (optx.BFGS(1e-30, 1e-30), 1.2 if n > 2 else 3.0, 60),
        "cgd-auto": (optx.LBFGS(1e-30, 1e-30, history_length=10), 1.5 if n > 2 else None, 60),
    }
    for method, (solver, bar, iters) in peers.items():
        memory = {"memory": 10} if method == "cgd-auto" else {}
        ours = jax.jit(
            lambda x, m=method, k=iters, memory=memory: sj.minimize(
                rosenbrock, x, method=m, gtol=1e-12, budget=st.Budget(iters=k), **memory
            )
        )
        theirs = jax.jit(
            lambda x, s=solver, k=iters: _steps(
                optx.minimise(lambda y, _: rosenbrock(y), s, x, max_steps=k, throw=False)
            )
        )
        found = race({"ours": lambda f=ours: f(x), "theirs": lambda f=theirs: f(x)})
        run, (steps, taken) = ours(x), map(int, theirs(x))
        # a step of optimistix's is a trial, with one evaluation of f; those it accepts are its iterations
        a, b = found["ours"] / int(run.nfev) * 1e6, found["theirs"] / steps * 1e6
        row(f"{method}, n = {n}, an evaluation / optimistix's step", a, b, "µs")
        row(
            f"{method}, n = {n}, an iteration / optimistix's accepted step",
            a * int(run.nfev) / int(run.nit),
            b * steps / taken,
            "µs",
            bar,
        )
        if method == "cgd-auto":
            grad = jax.jit(jax.value_and_grad(rosenbrock))
            options = {"maxcor": 10, "gtol": 0, "ftol": 0, "maxiter": iters}

            def scipy_run(grad=grad, options=options, x=x) -> Any:
                return so.minimize(lambda y: [np.asarray(a) for a in grad(y)], np.asarray(x), jac=True,
                                   method="L-BFGS-B", options=options)  # fmt: skip

            used = scipy_run().nfev
            row(
                f"{method}, n = {n}, an evaluation / SciPy L-BFGS-B's",
                a,
                clock(scipy_run) / used * 1e6,
                "µs",
                1.0,
            )


def logistic(w: Any) -> Any:
    return jnp.mean(jnp.logaddexp(0.0, -LABELS * (DATA @ w))) + 0.01 * (w @ w)


RNG = np.random.default_rng(0)
DATA = RNG.normal(size=(200, 50))
LABELS = np.sign(DATA @ RNG.normal(size=50) + 0.5 * RNG.normal(size=200))

TABLE = (("Rosenbrock", rosenbrock, 2, (1, 100, 10_000)), ("Rosenbrock", rosenbrock, 10, (1, 100)),
         ("logistic", logistic, 50, (1, 100)), ("Rosenbrock", rosenbrock, 100, (1,)),
         ("Rosenbrock", rosenbrock, 1000, (1,)))  # fmt: skip
BARS = {"bfgs": 2.0, "cgd-auto": 4.0, "bfgs, bounds": 3.0, "cgd-auto, bounds": 6.0}
"""The most that a first call may take to compile, in units of optimistix's BFGS."""


def compiles() -> None:
    """Time the first call and those that follow, as a user makes them: only solvers compile."""
    import optimistix as optx

    titles = f"{'solver':<18} {'compile s':>9} {'run ms':>9} {'total s':>8}"
    print(f"\n{'problem':<16} {'starts':>6} {titles}  / optimistix's")
    for label, fun, n, counts in TABLE:
        for count in counts:
            x = jnp.tile(jnp.array([-1.2, 1.0]), n // 2) if fun is rosenbrock else jnp.zeros(n)
            if count > 1:
                x = jax.random.uniform(jax.random.key(0), (count, n), float, -2.0, 2.0)
            theirs = _peer(fun, optx, count > 1)
            runs = {"optimistix BFGS": lambda x, f=theirs: f(x)}
            for method in ("bfgs", "cgd-auto"):
                runs[method] = lambda x, m=method, f=fun: sj.minimize(f, x, method=m, budget=LONG).x
                if count == 1:
                    box = sj.Bounds(-5.0, 5.0)
                    runs[f"{method}, bounds"] = lambda x, m=method, f=fun, box=box: (
                        sj.minimize(f, x, method=m, bounds=box, budget=LONG).x
                    )
            base: tuple[float, float, float] | None = None
            for name, run in runs.items():
                first = clock(lambda run=run, x=x: run(x))
                spent = min(clock(lambda run=run, x=x: run(x)) for _ in range(3))
                found = first - spent, spent, first
                base = found if base is None else base
                ratios = [a / b for a, b in zip(found, base, strict=True)]
                bar = BARS.get(name) if count == 1 else None
                missed = "  MISSED" if bar is not None and ratios[0] > bar else ""
                figures = f"{found[0]:>9.2f} {1e3 * spent:>9.3g} {first:>8.2f}"
                beside = f"{ratios[0]:.1f} {ratios[1]:.2f} {ratios[2]:.1f}{missed}"
                print(f"{label} {n:<5} {count:>6} {name:<18} {figures}  {beside}", flush=True)


def inside() -> None:
    """Time the trace and the compilation of a new function, in a call and in a `jit` of the user's."""
    import optimistix as optx

    print("\nfirst call on Rosenbrock's function less a second one, processor time, / optimistix's BFGS")
    print(f"{'n':>4} {'where':<8} {'optimistix':>10} {'bfgs':>8} {'cgd-auto':>9}")
    solvers: dict[str, Callable[[Any], Any]] = {
        "optimistix": lambda fun: _peer(fun, optx, many=False),
        "bfgs": lambda fun: lambda x: sj.minimize(fun, x, method="bfgs", budget=LONG).x,
        "cgd-auto": lambda fun: lambda x: sj.minimize(fun, x, budget=LONG).x,
    }
    for n in (2, 10, 100):
        x = jnp.tile(jnp.array([-1.2, 1.0]), n // 2)
        for where in ("direct", "jit"):
            spent = {
                name: min(_first_call(solver, x, where) for _ in range(2)) for name, solver in solvers.items()
            }
            base = spent["optimistix"]
            bars = {"direct": {"bfgs": 0.8, "cgd-auto": 1.3}, "jit": {"bfgs": 1.0, "cgd-auto": 2.0}}[where]
            missed = [name for name, bar in bars.items() if spent[name] / base > bar]
            figures = " ".join(f"{spent[name] / base:>8.2f}" for name in bars)
            said = "  MISSED " + ", ".join(missed) if missed else ""
            print(f"{n:>4} {where:<8} {base:>8.2f} s {figures}{said}", flush=True)


def _first_call(solver: Callable[[Any], Any], x: Any, where: str) -> float:
    """Return the processor time that a first call takes longer than a second one, with nothing cached."""
    jax.clear_caches()
    number = 1e-9 * next(NEW)  # another program each time

    def fun(y: Any) -> Any:
        return rosenbrock(y) + number

    run = solver(fun)
    run = jax.jit(run) if where == "jit" else run
    with warnings.catch_warnings(action="ignore"):
        return clock(lambda: run(x)) - clock(lambda: run(x))


def to_value() -> None:
    """Time runs to the same f, compiled beforehand, beside the limited-memory methods of others."""
    import optax
    import optimistix as optx

    print("\nruns to f ≤ 1e-6 on Rosenbrock's function, in a jit: ms of ours, and of others over ours")
    for n in (10, 100, 1000):
        x = jnp.tile(jnp.array([-1.2, 1.0]), n // 2)

        memory = optax.lbfgs(memory_size=10)
        both = optax.value_and_grad_from_state(rosenbrock)
        solver = sj.Solver(rosenbrock, x, gtol=0.0, memory=10, budget=LONG)

        def optax_step(now: Any, memory: Any = memory, both: Any = both) -> Any:
            k, x, state, _ = now
            f, g = both(x, state=state)
            move, state = memory.update(g, state, x, value=f, grad=g, value_fn=rosenbrock)
            return k + 1, optax.apply_updates(x, move), state, f

        def ours(x: Any, solver: Any = solver) -> Any:
            state = jax.lax.while_loop(lambda s: (s.f > LOW) & s.running, solver.step, solver.init(x))
            return state.k, state.f

        def optaxs(x: Any, step: Any = optax_step, memory: Any = memory) -> Any:
            k, _, _, f = jax.lax.while_loop(lambda s: s[3] > LOW, step, (0, x, memory.init(x), jnp.inf))
            return k, f

        def theirs(x: Any, most: int) -> Any:
            solver = optx.LBFGS(0.0, 1e-12, history_length=10)
            found = optx.minimise(lambda y, _: rosenbrock(y), solver, x, max_steps=most, throw=False)
            return found.stats["num_steps"], rosenbrock(found.value)

        least = _least(lambda most, x=x, theirs=theirs: float(jax.jit(lambda x: theirs(x, most))(x)[1]))
        runs = {"optax": jax.jit(optaxs)}
        runs["optimistix"] = jax.jit(lambda x, theirs=theirs, least=least: theirs(x, least))
        limit = st.Budget(iters=int(ours(x)[0]))

        def whole(x: Any, limit: Any = limit) -> Any:
            sol = sj.minimize(rosenbrock, x, gtol=0.0, memory=10, budget=limit)
            return sol.nit, sol.fun

        runs["cgd-auto"] = jax.jit(whole)
        ends = {name: run(x) for name, run in runs.items()}
        assert all(float(f) <= LOW for _, f in ends.values())
        spent = race({name: lambda run=run, x=x: run(x) for name, run in runs.items()}, 5)
        base = spent.pop("cgd-auto")
        beside = ", ".join(
            f"{name} {took / base:.2f} ({int(ends[name][0])} steps)" for name, took in spent.items()
        )
        missed = "  MISSED" if min(spent.values()) < base else ""
        print(
            f"n = {n}: {1e3 * base:.3g} ms ({int(ends['cgd-auto'][0])} iterations); {beside}{missed}",
            flush=True,
        )


def _least(value: Callable[[int], float]) -> int:
    """Return the least number of steps, to a tenth, with which a run reaches f ≤ LOW."""
    low, most = 8, 16
    while value(most) > LOW:
        low, most = most, 2 * most
    while most - low > max(1, most // 10):
        middle = (low + most) // 2
        low, most = (low, middle) if value(middle) <= LOW else (middle, most)
    return most


def hyper() -> None:
    """Time the first value and gradient of a validation loss by the weight decay of a logistic regression."""
    import optimistix as optx

    train, held = slice(0, 150), slice(150, 200)

    def loss(w: Any, rows: slice, decay: Any) -> Any:
        return jnp.mean(jnp.logaddexp(0.0, -LABELS[rows] * (DATA[rows, :20] @ w))) + jnp.exp(decay) * (w @ w)

    def inner(w: Any, decay: Any) -> Any:
        return loss(w, train, decay)

    solvers: dict[str, Callable[[Any], Any]] = {
        "optimistix BFGS": lambda a: (
            optx.minimise(inner, optx.BFGS(1e-8, 1e-8), jnp.zeros(20), a, max_steps=20_000, throw=False).value
        )
    }
    for method in ("bfgs", "cgd-auto"):
        solvers[method] = lambda a, m=method: (
            sj.minimize(inner, jnp.zeros(20), (a,), method=m, gtol=1e-8, budget=LONG).x
        )
    base = 0.0
    print(
        "\nvalue and gradient of a logistic hyper-gradient, n = 20: compile s, run ms, / optimistix's compile"
    )
    for name, solver in solvers.items():
        both = jax.value_and_grad(lambda a, solver=solver: loss(solver(a), held, -jnp.inf))
        first = clock(lambda both=both: both(-3.0))
        spent = min(clock(lambda both=both: both(-3.0)) for _ in range(3))
        base = base or first - spent
        ratio = (first - spent) / base
        missed = "  MISSED" if ratio > 6 else ""
        slope = float(both(-3.0)[1])
        print(
            f"{name:<18} {first - spent:>9.2f} {1e3 * spent:>9.3g}  {ratio:.1f}{missed}   slope {slope:.9f}"
        )


LONG, LOW, NEW = st.Budget(iters=20_000), 1e-6, itertools.count(1)


def _peer(fun: Any, optx: Any, many: bool) -> Callable[[Any], Any]:
    def fn(y: Any, args: Any) -> Any:
        return fun(y)

    solver = optx.BFGS(1e-8, 1e-8)

    def single(x: Any) -> Any:
        return optx.minimise(fn, solver, x, max_steps=20_000, throw=False).value

    return jax.jit(jax.vmap(single)) if many else single


def starts(count: int) -> None:
    """Time many bounded starts beside others' ways to make them."""
    import scipy.optimize as so

    print(f"\n{count} bounded starts of cgd-auto to gtol 1e-6: the others' time over ours")
    cases = {"Branin": (branin, BOX), "Hartmann-6": (hartmann, [(0.0, 1.0)] * 6)}
    for label, (fun, box) in cases.items():
        low, high = np.array(box).T
        x = jnp.asarray(np.random.default_rng(0).uniform(low, high, (count, len(box))))

        def ours(method="cgd-auto", fun=fun, x=x, box=box) -> Any:
            return sj.minimize(fun, x, method=method, gtol=1e-6, bounds=box)

        found = ours()
        base = race({"ours": ours}, 2)["ours"]
        print(f"{label}: {base:.3g} s, {100 * float(found.success.mean()):.1f} % with success, "
              f"{float(found.nit.mean()):.1f} iterations, {int(found.nit.max())} at most")  # fmt: skip

        def beside(peer: str, spent: float, bar: float | None = None, base=base) -> None:
            said = "" if bar is None else f"  bar {bar:g}" + ("" if spent / base >= bar else "  MISSED")
            print(f"  {peer:<56} {spent:>9.3g} s {spent / base:>7.1f} ×{said}", flush=True)

        beside("bfgs of ours", race({"bfgs": lambda run=ours: run("bfgs")}, 2)["bfgs"])
        if have("optimistix"):
            import optimistix as optx

            def single(x: Any, fun=fun) -> Any:
                solver = optx.BFGS(1e-8, 1e-8)
                return optx.minimise(lambda y, _: fun(y), solver, x, max_steps=500, throw=False).value

            theirs = jax.jit(jax.vmap(single))
            beside(
                "vmap of optimistix's BFGS, unbounded", race({"o": lambda f=theirs, x=x: f(x)}, 2)["o"], 3.0
            )
        few, fewer, sample = x[: count // 10], x[: count // 50], np.asarray(x[:200])
        eager = clock(
            lambda fun=fun, few=few, box=box: (
                st.minimize(fun, np.asarray(few), jac="jax", gtol=1e-6, bounds=box, trace=False).x
            )
        )
        beside("the eager batch (a tenth of them, × 10)", 10 * eager, 10.0)
        grad = jax.jit(jax.value_and_grad(fun))

        def loop(sample=sample, grad=grad, box=box) -> None:
            options = {"gtol": 1e-6, "ftol": 0}
            for start in sample:
                both = lambda y: [np.asarray(a) for a in grad(y)]  # noqa: E731
                so.minimize(both, start, jac=True, bounds=box, method="L-BFGS-B", options=options)

        loop()
        beside("a loop over SciPy's L-BFGS-B (from 200 of them)", clock(loop) * count / 200, 40.0)
        if have("jaxopt"):
            import jaxopt

            solver = jaxopt.LBFGSB(fun=fun, tol=1e-6, maxiter=500)
            limits = (jnp.asarray(low), jnp.asarray(high))
            theirs = jax.jit(jax.vmap(lambda x, s=solver, b=limits: s.run(x, bounds=b).params))
            compiled = theirs.lower(fewer).compile()  # a second run would take minutes
            spent = 50 * clock(lambda f=compiled, few=fewer: f(few))
            beside("vmap of jaxopt's L-BFGS-B (a fiftieth, × 50)", spent, 50.0)


def slow(count: int = 10_000) -> None:
    """Time a batch with one slow row beside the same batch without."""
    print("\none slow row in 10 000, fixed steps: the time with it over the time without")
    x = np.random.default_rng(0).uniform(0.5, 1.5, (count, 2))
    later = x.copy()
    later[count // 2] = 1e3  # some ten times the iterations

    def run(x: Any) -> Any:
        return sj.minimize(lambda x: (x * x).sum(), x, method="gd", step=0.05, gtol=1e-2)

    found = race({"without": lambda: run(x), "with": lambda: run(later)}, 5)
    nit = np.asarray(run(later).nit)
    print(f"iterations: {np.median(nit):.0f}, and {nit.max()} of the slow row")
    row("with the slow row / without", found["with"], found["without"], "s", 1.1)


def sif(most: int) -> None:
    """Solve sif2jax's smallest problems, beside optimistix's BFGS where there are no bounds."""
    import optimistix as optx
    import sif2jax

    kinds = {
        "unconstrained": sif2jax.unconstrained_minimisation_problems,
        "bounded": sif2jax.bounded_minimisation_problems,
    }
    for kind, problems in kinds.items():
        chosen = [p for p in problems if p.num_variables() <= 6][:most]
        ours, theirs, fewer = 0, 0, []
        for problem in chosen:
            fun, y = problem.objective, jnp.asarray(problem.y0, float)
            more = {"bounds": sj.Bounds(*problem.bounds)} if kind == "bounded" else {}
            run = sj.minimize(
                lambda y, p=problem: p.objective(y, p.args), y, budget=st.Budget(evals=2000), **more
            )
            lowest = [float(run.fun)]
            if kind == "unconstrained":
                other = optx.minimise(
                    lambda y, _, p=problem: p.objective(y, p.args),
                    optx.BFGS(1e-8, 1e-8),
                    y,
                    max_steps=2000,
                    throw=False,
                )
                lowest.append(float(fun(other.value, problem.args)))
            known = problem.expected_objective_value
            best = min(
                [f for f in (*lowest, None if known is None else float(known)) if f is not None and f == f]
            )
            solved = [f <= best + 1e-6 * (1 + abs(best)) for f in lowest]
            ours += solved[0]
            if len(solved) == 2:
                theirs += solved[1]
                if all(solved):
                    fewer.append(int(run.nfev) / int(other.stats["num_steps"]))
        print(f"{kind}: {len(chosen)} problems of sif2jax with at most 6 variables; cgd-auto solves {ours}"
              + (f", optimistix's BFGS {theirs}; evaluations where both do, ours over theirs, median "
                 f"{np.median(fewer):.2f}" if fewer else ""), flush=True)  # fmt: skip


def million(count: int, dtypes: tuple[str, ...]) -> None:
    """Make 10⁶ bounded runs on whatever device there is."""
    device = jax.devices()[0]
    print(f"{count} bounded starts of cgd-auto on {device.device_kind}, gtol 1e-6 (float32: 1e-3)")
    for dtype in map(jnp.dtype, dtypes):
        low, high = (jnp.asarray(side, dtype) for side in np.array(BOX).T)
        x = low + (high - low) * jax.random.uniform(jax.random.key(0), (count, 2), dtype)

        def run(x=x, dtype=dtype) -> Any:
            gtol = 1e-6 if dtype.name == "float64" else 1e-3
            return sj.minimize(branin, x, gtol=gtol, bounds=BOX)

        first = clock(run, time.perf_counter)
        spent = min(clock(run, time.perf_counter) for _ in range(2))
        found = run()
        numbers = int(found.nit.sum()) * 2 * slot_numbers()
        rate = bandwidth()
        floor = numbers * dtype.itemsize / rate
        print(f"{dtype.name}: {spent:.3f} s, and {first - spent:.1f} s to compile")
        success, nit = 100 * float(found.success.mean()), float(found.nit.mean())
        print(f"  {success:.2f} % with success, {nit:.2f} iterations on average")
        print(
            f"  an iteration reads and writes {slot_numbers()} numbers; at {rate / 1e9:.0f} GB/s (measured)"
        )
        print(f"  that takes {floor:.3f} s: the run is at {spent / floor:.1f} × the floor", flush=True)


def device(count: int) -> None:
    """Make bounded runs from many starts on whatever device there is, beside a `vmap` of others."""
    low, high = np.array(BOX).T
    x = jnp.asarray(np.random.default_rng(0).uniform(low, high, (count, 2)))
    runs: dict[str, Callable[[], Any]] = {
        method: lambda m=method: sj.minimize(branin, x, method=m, gtol=1e-6, bounds=BOX).x
        for method in ("cgd-auto", "bfgs")
    }
    if have("optimistix"):
        import optimistix as optx

        def single(x: Any) -> Any:
            solver = optx.BFGS(1e-8, 1e-8)
            return optx.minimise(lambda y, _: branin(y), solver, x, max_steps=500, throw=False).value

        theirs = jax.jit(jax.vmap(single))
        runs["vmap of optimistix's BFGS, unbounded"] = lambda: theirs(x)
    if have("jaxopt"):
        import jaxopt

        solver, limits = (
            jaxopt.LBFGSB(fun=branin, tol=1e-6, maxiter=500),
            (jnp.asarray(low), jnp.asarray(high)),
        )
        others = jax.jit(jax.vmap(lambda x: solver.run(x, bounds=limits).params))
        runs["vmap of jaxopt's L-BFGS-B"] = lambda: others(x)
    print(f"{count} bounded starts on {jax.devices()[0].device_kind}, Branin, gtol 1e-6, wall time")
    base = 0.0
    for name, run in runs.items():
        first = clock(run, time.perf_counter)
        spent = min(clock(run, time.perf_counter) for _ in range(2))
        base = base or spent
        beside = f"{spent:>9.3g} s {spent / base:>7.2f} × cgd-auto, {first - spent:.1f} s to compile"
        print(f"  {name:<40} {beside}", flush=True)


def slot_numbers() -> int:
    """Return how many numbers a run of cgd-auto hands from one iteration to the next, for n = 2."""
    n, m = 2, 12
    return 3 * m * n + m + 12 * n + 20


def bandwidth() -> float:
    """Measure how many bytes a second the device reads and writes."""
    a = jnp.ones(1 << (27 if jax.default_backend() != "cpu" else 24))
    double = jax.jit(lambda a: a * 2)
    jax.block_until_ready(double(a))
    return 2 * a.nbytes / min(clock(lambda: double(a), time.perf_counter) for _ in range(5))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--million", action="store_true", help="10⁶ bounded runs, and nothing else")
    parser.add_argument("--device", action="store_true", help="10⁵ bounded runs beside others, wall time")
    parser.add_argument("--count", type=int, help="so many starts in place of 50 000, 10⁵ or a million")
    parser.add_argument("--dtype", choices=("float64", "float32"), help="one of the two for --million")
    parser.add_argument(
        "--only", choices=("iterations", "compiles", "inside", "to_value", "hyper", "starts", "slow", "sif")
    )
    parser.add_argument("--most", type=int, default=20, help="so many of sif2jax's problems of each kind")
    chosen = parser.parse_args()
    print(f"jax {jax.__version__} on {jax.devices()[0].device_kind}, numpy {np.__version__}")
    if chosen.million:
        million(chosen.count or 1_000_000, (chosen.dtype,) if chosen.dtype else ("float64", "float32"))
        return 0
    if chosen.device:
        device(chosen.count or 100_000)
        return 0
    parts: dict[str, Callable[[], None]] = {
        "iterations": iterations, "starts": lambda: starts(chosen.count or 50_000),
        "slow": slow,
    }  # fmt: skip
    if have("optimistix"):
        parts |= {"compiles": compiles, "inside": inside, "to_value": to_value, "hyper": hyper}
    if have("sif2jax") and have("optimistix"):
        parts["sif"] = lambda: sif(chosen.most)
    for name, part in parts.items():
        if chosen.only in (None, name):
            part()
    return 0


if __name__ == "__main__":
    sys.exit(main())
