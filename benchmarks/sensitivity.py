"""How much cgd-auto depends on each of its constants: each one smaller and larger, the others as they are.

For every variant this prints the geometric mean of evaluations against SciPy, to 1e-5 and to 1e-8: L-BFGS-B
(m = 10) on the suites mgh and large, BFGS on nist; with the problems solved to 1e-8. A constant that
could be chosen to please a problem would show here as a number that jumps.

    python benchmarks/sensitivity.py [jobs] [constants]
"""

import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"

from importlib import import_module

import numpy as np
from joblib import Parallel, delayed

import steepen as st
from steepen.bench.measure import Run, measure
from steepen.bench.profiles import best_value, evaluations_to, geometric_mean

BUDGET = 3000
AGAINST = {"mgh": "L-BFGS-B", "large": "L-BFGS-B", "nist": "BFGS"}
ACCURACIES = (1e-5, 1e-8)
VARIANTS = {
    ("directions._pairs", "ASYMMETRY"): (0.01, 0.1),
    ("directions._pairs", "INDEPENDENT"): (1e-5, 1e-2),
    ("directions._pairs", "LONG"): (10.0, 100.0),
    ("directions.auto", "MOST"): (20, 1000),
    ("directions.auto", "FAST"): (5_000, 60_000),
    ("directions.auto", "ENOUGH"): (10, 100),
    ("directions.auto", "GROWTH"): (4.0, 100.0),
    ("directions.auto", "BOOST"): (1.5, 4.0),
    ("directions.auto", "BOLD"): (64.0, 1e6),
    ("directions.auto", "FAINT"): (1e-3, 1e-1),
    ("directions.auto", "NOISE"): (1e2, 1e6),
    ("directions.auto", "START"): (0.1, 10.0),
    ("directions.auto", "SHORTEST"): (0.01, 1.0),
    ("directions.auto", "LONGEST"): (0.3, 3.0),
    ("steps", "PROBED"): (1e-8, 1e-3),
    ("steps", "WARY"): (1e-6, 2e-5),
    ("directions.auto", "CAREFUL"): (1e-5, 1e-1),
    ("directions.auto", "LEAST"): (1e-5, 1e-1),
    ("directions.auto", "DOWNHILL"): (1.0, 1e4),
}


def runs(solver: str, change: tuple[str, str, float] | None = None) -> dict[str, Run]:
    """Run a solver on all problems that it is asked about, with one constant changed."""
    module = import_module(f"steepen.{change[0]}") if change else None
    before = getattr(module, change[1]) if change else None
    if change:
        setattr(module, change[1], change[2])
    try:
        suites = [suite for suite in AGAINST if solver in ("cgd-auto", AGAINST[suite])]
        return {p.name: measure(p, solver, BUDGET) for suite in suites for p in st.problems.suite(suite)}
    finally:
        if change:
            setattr(module, change[1], before)


def report(name: str, ours: dict[str, Run], peers: dict[str, dict[str, Run]], base: dict[str, Run]) -> None:
    cells = []
    for suite, peer in AGAINST.items():
        costs = {accuracy: ([], []) for accuracy in ACCURACIES}
        for p in st.problems.suite(suite):
            f0 = float(p(p.x0))
            reached = min(run.improvements[-1][1] for run in (base[p.name], peers[peer][p.name]))
            fstar = best_value(f0, p.fbest, reached, ACCURACIES[-1])
            for accuracy, (own, other) in costs.items():
                own.append(evaluations_to(ours[p.name].improvements, f0, fstar, accuracy))
                other.append(evaluations_to(peers[peer][p.name].improvements, f0, fstar, accuracy))
        means = " ".join(f"{geometric_mean(*pair)[0]:5.2f}" for pair in costs.values())
        cells.append(f"{means} {int(np.isfinite(costs[1e-8][0]).sum()):4d}")
    print(f"{name:24} " + "   ".join(cells), flush=True)


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else -1
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
