"""The benchmarks of steepen; README.md beside this file says which command answers what.

python -m benchmarks race --sets mgh nist --solvers cgd-auto L-BFGS-B --features noise=1e-4
python -m benchmarks table held-out
python -m benchmarks cost
python -m benchmarks evidence tables
"""

import os
import sys
from importlib import import_module

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

COMMANDS = {
    "race": "benchmarks.race.command",
    "table": "benchmarks.race.tables",
    "cost": "benchmarks.cost.command",
    "evidence": "benchmarks.evidence.__main__",
}


def main() -> None:
    """Run the command that is named first."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        print(__doc__)
        print(f"expected one of {', '.join(COMMANDS)}")
        raise SystemExit(2)
    name = sys.argv.pop(1)
    sys.argv[0] = f"python -m benchmarks {name}"
    import_module(COMMANDS[name]).main()


if __name__ == "__main__":
    main()
