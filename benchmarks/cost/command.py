"""`python -m benchmarks cost`: speed and memory beside peers, in one run and one table.

    python -m benchmarks cost                     # all of it, ten minutes
    python -m benchmarks cost evaluation imports  # some of it
    python -m benchmarks cost --list

Times are taken alternately (ours, theirs, ours, ...) and reported as the median of the ratios of neighbours,
since machines drift. A row names its bar, where there is one. A row over its bar is marked, and the exit
status is then 1.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable

import numpy as np
import scipy

import steepen as st

from . import batches, single
from .timer import Table

CASES: dict[str, tuple[str, Callable[[Table, bool], None]]] = {
    "iteration": ("gd and cgd-fd beside loops by hand and L-BFGS-B", single.per_iteration),
    "matrix": ("CGD-BFGS beside SciPy's BFGS, n = 1000", single.quasi_newton),
    "large": ("cgd-auto beside L-BFGS-B, n = 1000", single.auto),
    "evaluation": ("cgd-auto beside L-BFGS-B, n = 2, 10, 100, with and without a gradient", single.small),
    "bytecodes": ("bytecodes and Python calls of an evaluation", single.work),
    "lockstep": ("many starts beside a loop over SciPy and the compiled engine", batches.lockstep),
    "batches": ("10 000 starts with fixed steps beside NumPy by hand and loops", batches.fixed_steps),
    "methods": ("the same for three methods, and beside lockstep", batches.by_methods),
    "imports": ("import steepen", single.imports),
    "memory": ("the memory of a trace", single.trace_memory),
}
"""What is timed, by name."""


def main(argv: list[str] | None = None) -> None:
    """Time what is named, by default everything."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks cost", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="what to time")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--list", action="store_true", help="list what there is, and stop")
    given = parser.parse_args(argv)
    if given.list:
        print("\n".join(f"{name:12}{what}" for name, (what, _) in CASES.items()))
        return
    if unknown := [name for name in given.names if name not in CASES]:
        parser.error(f"expected some of {', '.join(CASES)}; got {unknown[0]!r}")
    print(f"steepen {st.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, "
          f"python {platform.python_version()}, {platform.machine()}\n")  # fmt: skip
    table = Table()
    for name in given.names or CASES:
        CASES[name][1](table, given.quick)
    raise SystemExit(int(table.failed))
