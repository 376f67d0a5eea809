"""How much cgd-auto depends on each of its constants: each one smaller and larger, the others as they are.

For every variant this prints the geometric mean of evaluations against SciPy, to 1e-5 and to 1e-8: L-BFGS-B
(m = 10) on the suites mgh and large, BFGS on nist; with the problems solved to 1e-8. A constant that
could be chosen to please a problem would show here as a number that jumps.

    python -m benchmarks.sensitivity [constants]
    python -m benchmarks.sensitivity --values [constants]

The second varies the constants of finite differences (`steepen.differences.tuning`) threefold each way, and
gives values of f against SciPy's BFGS on the 70 held-out problems without gradients, and how many runs that
end at the minimum are called failures. Both are races (`benchmarks.race`) with a solver for each change, such
as `cgd-auto[methods.auto.BOOST=4]`; runs are kept in out/race.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from benchmarks.race import Results, race, store_path
from benchmarks.race.profiles import geometric_mean

from steepen.differences import tuning

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


def changes(by_values: bool) -> dict[str, list[str]]:
    """Return the solvers with one constant changed, by the constant."""
    if not by_values:
        return {
            name: [f"cgd-auto[{module}.{name}={value:g}]" for value in values]
            for (module, name), values in VARIANTS.items()
        }
    tuned = {name: value for name, value in vars(tuning).items() if name.isupper()}
    return {
        name: [f"cgd-auto[differences.tuning.{name}={value * factor:g}]" for factor in (1 / 3, 3)]
        for name, value in tuned.items()
    }


def compared(found: Results, solver: str, peer: str) -> str:
    """Return the evaluations over the peer's to each accuracy, and the problems solved to the last."""
    costs = [dict(zip(found.solvers, found.costs(a).T, strict=True)) for a in found.accuracies]
    means = " ".join(f"{geometric_mean(one[solver], one[peer])[0]:5.2f}" for one in costs)
    return f"{means} {int(np.isfinite(costs[-1][solver]).sum()):4d}"


def main(argv: list[str] | None = None) -> None:
    """Run the changes and print a line for each."""
    parser = argparse.ArgumentParser("python -m benchmarks.sensitivity")
    parser.add_argument("constants", nargs="*")
    parser.add_argument("--values", action="store_true", help="constants of finite differences")
    parser.add_argument("--workers", type=int, default=-1)
    given = parser.parse_args(argv)
    known = changes(given.values)
    if unknown := sorted(set(given.constants) - set(known)):
        parser.error(f"constants: expected some of {', '.join(known)}; got {', '.join(unknown)}")
    variants = [one for name in given.constants or known for one in known[name]]
    store = store_path("sensitivity" + "-values" * given.values)
    store.parent.mkdir(parents=True, exist_ok=True)
    more: dict[str, Any] = {"limit": 20_000, "tight": False} if given.values else {}
    found = race(
        ["others"] if given.values else list(AGAINST), ["L-BFGS-B", "BFGS", "cgd-auto", *variants],
        accuracies=ACCURACIES, store=store, workers=given.workers, progress=sys.stderr.isatty(), **more,
    )  # fmt: skip
    against = {"others": "BFGS"} if given.values else AGAINST
    print(f"{'':44} " + "   ".join(f"{one + ': 1e-5 1e-8 solved':16}" for one in against))
    for solver in ["cgd-auto", *variants]:
        cells = [compared(found.of(set=one), solver, peer) for one, peer in against.items()]
        if given.values:
            rows = found.of(solver=solver).rows
            cells.append(f"failures {sum(row.there and not row.success for row in rows)}")
        print(f"{solver:44} " + "   ".join(cells))


if __name__ == "__main__":
    main()
