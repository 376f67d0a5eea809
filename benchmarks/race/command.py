"""`python -m benchmarks race`: sets × solvers × features, counted, compared and drawn.

    python -m benchmarks race --sets mgh nist --solvers cgd-auto L-BFGS-B --features noise=1e-4
    python -m benchmarks race --fun mine:loss --start 1 2 --solvers cgd-auto Nelder-Mead --features noise=1e-3

What was run is kept in out/race/race.sqlite: if interrupted, the same command goes on. The last solver is
the one that the others are compared with. `--list` names the sets, solvers and features.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.problems import SETS, Case

from . import ACCURACIES, LIMIT, race, store_path
from .features import FEATURES
from .solvers import SOLVERS


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "python -m benchmarks race", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--sets", nargs="+", default=[], help="problem sets")
    made.add_argument("--fun", help="a function of yours, as module:name, in place of sets")
    made.add_argument("--start", nargs="+", type=float, help="its start")
    made.add_argument("--jac", help="its gradient, as module:name")
    made.add_argument("--solvers", nargs="+", default=["cgd-auto", "L-BFGS-B"])
    made.add_argument("--features", nargs="+", default=["plain"])
    made.add_argument("--limit", type=int, default=LIMIT, help="evaluations for each solver on each problem")
    made.add_argument("--seconds", type=float, default=math.inf, help="time for each run")
    made.add_argument(
        "--defaults", action="store_true", help="each solver's own tolerances, not the tightest"
    )
    made.add_argument("--accuracies", nargs="+", type=float, default=list(ACCURACIES))
    made.add_argument("--workers", type=int, default=-1, help="processes; by default one a core")
    made.add_argument(
        "--out", type=Path, help="also write rows.csv and the profiles as pictures into a folder"
    )
    made.add_argument("--store", type=Path, help="where runs are kept")
    made.add_argument("--list", action="store_true", help="list sets, solvers and features, and stop")
    return made


def listed() -> str:
    """Return what there is to choose from."""
    sets = [f"  {name:22}{what}" for name, (what, _) in SETS.items()]
    solvers = [
        f"  {name}" + ("" if one.is_installed else f"   (pip install {one.package})")
        for name, one in SOLVERS.items()
    ]
    features = [
        f"  {name + '=…' * needs:22}{(change.__doc__ or '').partition('.')[0]}"
        for name, (change, needs) in FEATURES.items()
    ]
    return "\n".join(["sets", *sets, "solvers", *solvers, "features, joined by +", *features])


def main(argv: list[str] | None = None) -> None:
    """Run the race, and print the comparison."""
    made = parser()
    given = made.parse_args(argv)
    if given.list:
        print(listed())
        return
    if bool(given.sets) == bool(given.fun) or bool(given.fun) != bool(given.start):
        made.error("expected --sets, or --fun with --start")
    store = given.store
    if given.sets and store is None:
        store = store_path(kept_as(given.limit, given.seconds, given.defaults))
        store.parent.mkdir(parents=True, exist_ok=True)
    try:
        sets = given.sets or [own(given.fun, given.start, given.jac)]
        found = race(
            sets, given.solvers, given.features, limit=given.limit, tight=not given.defaults,
            accuracies=given.accuracies, seconds=given.seconds, store=store,
            workers=given.workers if given.sets else None, progress=sys.stderr.isatty(),
        )  # fmt: skip
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        made.error(str(error))
    except KeyboardInterrupt:
        raise SystemExit("interrupted; the same command goes on") from None
    found.show()
    if given.out is not None:
        from . import pictures

        given.out.mkdir(parents=True, exist_ok=True)
        found.save(given.out / "rows.csv")
        for path in pictures.save(found, given.out):
            print(path)


def own(fun: str, start: list[float], jac: str | None) -> Case:
    """Return the case of a function that is named by its module."""
    sys.path.insert(0, "")
    value = _imported("--fun", fun)
    slope = None if jac is None else _imported("--jac", jac)
    both = None if slope is None else lambda x: (value(x), slope(x))
    return Case(fun.partition(":")[2], value, start, both)


def kept_as(limit: int, seconds: float, defaults: bool) -> str:
    """Return the name of the file of runs with these settings, since one file has runs with one setting."""
    return "-".join(
        ["race", *["defaults"] * defaults, f"{limit}", *[f"{seconds:g}s"] * math.isfinite(seconds)]
    )


def _imported(option: str, name: str) -> Callable[[Any], Any]:
    module, sign, attribute = name.partition(":")
    if not sign:
        raise ValueError(f"{option}: expected module:name, got {name!r}")
    found = getattr(import_module(module), attribute, None)
    if not callable(found):
        raise ValueError(f"{option}: {module} has no function {attribute!r}")
    return found
