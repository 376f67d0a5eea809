"""How much cgd-auto depends on each of its constants: each one smaller and larger, the others as they are.

For every variant this prints the geometric mean of evaluations against SciPy, to 1e-5 and to 1e-8: L-BFGS-B
(m = 10) on the suites mgh and large, BFGS on nist; with the problems solved to 1e-8. A constant that
could be chosen to please a problem would show here as a number that jumps.

    python -m benchmarks.sensitivity [jobs] [constants]
    python -m benchmarks.sensitivity [jobs] by-values [constants]

The second varies the constants of finite differences (`steepen.differences.tuning`) threefold each way, and
gives values of f against SciPy's BFGS on the problems of `no_gradient.py` that nothing was tuned on, to 1e-5
and to 1e-8, with the problems solved, the good ends called failures, and all values to the end against those
of the runs as they are; then how many of 40 runs with noise of 1e-8, and of 35 on functions rounded to 3 … 9
digits, are successes near the minimum.
"""

import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from importlib import import_module

import numpy as np
import scipy.optimize
from benchmarks.bench.measure import Run, measure
from benchmarks.bench.profiles import best_value, evaluations_to, geometric_mean
from benchmarks.problems import suite as suite_of
from joblib import Parallel, delayed

import steepen as st
from steepen.differences import tuning

BUDGET = 3000
AGAINST = {"mgh": "L-BFGS-B", "large": "L-BFGS-B", "nist": "BFGS"}
ACCURACIES = (1e-5, 1e-8)
VARIANTS = {
    ("methods.pairs", "ASYMMETRY"): (0.01, 0.1),
    ("methods.pairs", "INDEPENDENT"): (1e-5, 1e-2),
    ("methods.pairs", "LONG"): (10.0, 100.0),
    ("methods.auto", "MOST"): (20, 1000),
    ("methods.auto", "FAST"): (5_000, 60_000),
    ("methods.auto", "ENOUGH"): (10, 100),
    ("methods.auto", "GROWTH"): (4.0, 100.0),
    ("methods.auto", "BOOST"): (1.5, 4.0),
    ("methods.auto", "BOLD"): (64.0, 1e6),
    ("methods.auto", "FAINT"): (1e-3, 1e-1),
    ("methods.auto", "NOISE"): (1e2, 1e6),
    ("methods.auto", "START"): (0.1, 10.0),
    ("methods.auto", "SHORTEST"): (0.01, 1.0),
    ("methods.auto", "LONGEST"): (0.3, 3.0),
    ("steps.armijo", "PROBED"): (1e-8, 1e-3),
    ("steps.armijo", "WARY"): (1e-6, 2e-5),
    ("methods.auto", "CAREFUL"): (1e-5, 1e-1),
    ("methods.auto", "LEAST"): (1e-5, 1e-1),
}


def runs(solver: str, change: tuple[str, str, float] | None = None) -> dict[str, Run]:
    """Run a solver on all problems that it is asked about, with one constant changed."""
    module = import_module(f"steepen.{change[0]}") if change else None
    before = getattr(module, change[1]) if change else None
    if change:
        setattr(module, change[1], change[2])
    try:
        suites = [suite for suite in AGAINST if solver in ("cgd-auto", AGAINST[suite])]
        return {p.name: measure(p, solver, BUDGET) for suite in suites for p in suite_of(suite)}
    finally:
        if change:
            setattr(module, change[1], before)


def report(name: str, ours: dict[str, Run], peers: dict[str, dict[str, Run]], base: dict[str, Run]) -> None:
    cells = []
    for suite, peer in AGAINST.items():
        costs = {accuracy: ([], []) for accuracy in ACCURACIES}
        for p in suite_of(suite):
            f0 = float(p(p.x0))
            reached = min(run.improvements[-1][1] for run in (base[p.name], peers[peer][p.name]))
            fstar = best_value(f0, p.fbest, reached, ACCURACIES[-1])
            for accuracy, (own, other) in costs.items():
                own.append(evaluations_to(ours[p.name].improvements, f0, fstar, accuracy))
                other.append(evaluations_to(peers[peer][p.name].improvements, f0, fstar, accuracy))
        means = " ".join(f"{geometric_mean(*pair)[0]:5.2f}" for pair in costs.values())
        cells.append(f"{means} {int(np.isfinite(costs[1e-8][0]).sum()):4d}")
    print(f"{name:24} " + "   ".join(cells), flush=True)


def without_gradient(name: str | None = None, factor: float = 1.0) -> dict[str, list]:
    """Run the problems of `no_gradient.py` with one constant changed; return improvements and ends."""
    from benchmarks import no_gradient

    if name is not None:
        setattr(tuning, name, getattr(tuning, name) * factor)
    try:
        runs = {case.name: no_gradient.solve(case, "cgd-auto") for case in no_gradient.aside()}
        found = {key: [run.improvements, run.end.success, run.used] for key, run in runs.items()}
        return found | {"noise": noisy_runs(1e-8), "rounded": rounded_runs()}
    finally:
        if name is not None:
            setattr(tuning, name, getattr(tuning, name) / factor)


def noisy_runs(level: float) -> int:
    """Return how many of forty noisy runs are successes near the minimum."""
    from benchmarks import no_gradient

    good = 0
    for f, n in no_gradient.NOISY.items():
        lowest = f(scipy.optimize.minimize(f, np.full(n, 0.9), tol=1e-9).x)
        for seed in range(no_gradient.SEEDS):
            rng = np.random.default_rng([seed, 7])
            x0 = rng.uniform(0, 2, n)

            def value(x, f=f, rng=rng):
                return float(f(x)) * (1 + level * rng.uniform(-1, 1))

            end = st.minimize(value, x0, jac="2-point", trace=False)
            good += bool(end.success) and f(end.x) - lowest <= max(10 * level, 1e-7) * lowest
    return good


def rounded_runs() -> int:
    """Return how many runs on rounded functions are successes within one unit of the lowest value."""
    from benchmarks import no_gradient

    good = 0
    for f, n in no_gradient.NOISY.items():
        lowest = f(scipy.optimize.minimize(f, np.full(n, 0.9), tol=1e-9).x)
        for digits in range(3, 10):

            def value(x, f=f, digits=digits):
                return float(f"{float(f(x)):.{digits - 1}e}")

            end = st.minimize(value, np.random.default_rng([n, 7]).uniform(0, 2, n), trace=False)
            unit = 10.0 ** (np.floor(np.log10(lowest)) + 1 - digits)
            good += bool(end.success) and f(end.x) - lowest <= 1.01 * unit
    return good


def by_values(jobs: int, chosen: list[str]) -> None:
    from benchmarks import no_gradient

    names = chosen or [name for name in vars(tuning) if name.isupper()]
    changes = [(None, 1.0), *((name, factor) for name in names for factor in (1 / 3, 3.0))]
    cases = list(no_gradient.aside())
    peers = {case.name: no_gradient.solve(case, "BFGS").improvements for case in cases}
    print(f"{'':24} 1e-5  1e-8 solved failures   all noise rounded")
    runs = Parallel(n_jobs=jobs, return_as="generator")(delayed(without_gradient)(*c) for c in changes)
    base = None
    for (name, factor), found in zip(changes, runs, strict=True):
        base = found if base is None else base
        costs = {accuracy: ([], []) for accuracy in ACCURACIES}
        failures = 0
        for case in cases:
            f0, ours, peer = float(case.f(case.x0)), found[case.name], peers[case.name]
            lowest = min(base[case.name][0][-1][1], peer[-1][1])
            fstar = best_value(f0, case.known, lowest, ACCURACIES[-1])
            for accuracy, (own, other) in costs.items():
                own.append(evaluations_to(ours[0], f0, fstar, accuracy))
                other.append(evaluations_to(peer, f0, fstar, accuracy))
            failures += bool(np.isfinite(costs[1e-8][0][-1])) and not ours[1]
        means = " ".join(f"{geometric_mean(*pair)[0]:.3f}" for pair in costs.values())
        label = "as it is" if name is None else f"{name} × {factor:.2g}"
        solved, noise, rounded = int(np.isfinite(costs[1e-8][0]).sum()), found["noise"], found["rounded"]
        used = geometric_mean([found[c.name][2] for c in cases], [base[c.name][2] for c in cases])[0]
        print(f"{label:24} {means} {solved:5d} {failures:8d} {used:6.3f} {noise:5d} {rounded:7d}", flush=True)


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else -1
    if sys.argv[2:3] == ["by-values"]:
        by_values(jobs, sys.argv[3:])
        return
    known = [name for _, name in VARIANTS]
    chosen = sys.argv[2:] or known
    if unknown := sorted(set(chosen) - set(known)):
        sys.exit(f"constants: expected some of {', '.join(known)}; got {', '.join(unknown)}")
    changes = [
        (module, name, value)
        for (module, name), values in VARIANTS.items()
        for value in values
        if name in chosen
    ]
    tasks = [("L-BFGS-B", None), ("BFGS", None), ("cgd-auto", None), *(("cgd-auto", c) for c in changes)]
    print(f"{'':24} " + "   ".join(f"{suite + ': 1e-5 1e-8 solved':16}" for suite in AGAINST))
    found = iter(Parallel(n_jobs=jobs, return_as="generator")(delayed(runs)(*task) for task in tasks))
    peers = {"L-BFGS-B": next(found), "BFGS": next(found)}
    base = next(found)
    report("as it is", base, peers, base)
    for (_, name, value), ours in zip(changes, found, strict=True):
        report(f"{name} = {value:g}", ours, peers, base)


if __name__ == "__main__":
    main()
