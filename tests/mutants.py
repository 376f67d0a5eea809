"""Plant faults in the modules that carry promises, one by one in a copy, and see which the tests let pass.

    python tests/mutants.py --out out/mutants --every 40     every fortieth fault; 1: all of them

The faults are cosmic-ray's: comparisons, signs, conditions, loops. A fault that survives is looked at: a test
is missing, or the change means nothing. The session in the folder can be read with cosmic-ray's own tools,
and is continued if it is there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

MODULES = (
    "run", "endings", "roundoff", "problem", "space", "steps", "methods", "differences", "drivers",
    "switches", "schedules",
)  # fmt: skip
"""The modules, or folders of them, in src/steepen."""

TESTS = (
    "tests/methods", "tests/differences", "tests/test_matrix.py", "tests/test_space.py",
    "tests/test_steps.py", "tests/test_switches.py", "tests/test_schedules.py", "tests/drivers",
)  # fmt: skip
"""The quick ones first: most faults are seen by them."""

KINDS = re.compile(
    r"core/(ReplaceComparisonOperator_(Lt_GtE|LtE_Gt|Gt_LtE|GtE_Lt|Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is)"
    r"|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul)|ReplaceUnaryOperator_(USub_UAdd|Delete_Not)"
    r"|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceTrueWithFalse|ReplaceFalseWithTrue|AddNot|ZeroIterationForLoop)"
)
"""The kinds of faults. Numbers are left alone: a constant that is tuned is not a promise."""

CONFIG = """
[cosmic-ray]
module-path = [{paths}]
timeout = 600.0
excluded-modules = []
test-command = "{python} -m pytest -q -x --no-header -p no:cacheprovider --part core {tests}"

[cosmic-ray.distributor]
name = "local"
"""


def copy_to(folder: Path) -> None:
    """Copy what git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def prepare(folder: Path, every: int) -> None:
    """Write the session: every so-manieth fault of these kinds."""
    from cosmic_ray.work_db import WorkDB, use_db

    copy_to(folder)
    source = folder / "src" / "steepen"
    paths = [source / name if (source / name).is_dir() else source / f"{name}.py" for name in MODULES]
    listed = ", ".join(f'"{path.relative_to(folder)}"' for path in paths)
    config = CONFIG.format(paths=listed, python=sys.executable, tests=" ".join(TESTS))
    (folder / "mutants.toml").write_text(config, encoding="utf-8")
    cosmic_ray("init", "mutants.toml", "mutants.sqlite", folder=folder)
    with use_db(folder / "mutants.sqlite", WorkDB.Mode.open) as database:
        items = [item for item in database.work_items if KINDS.fullmatch(item.mutations[0].operator_name)]
        database.clear()
        database.add_work_items(items[::every])
        print(f"{len(items[::every])} of {len(items)} faults")


def cosmic_ray(*command: str, folder: Path) -> None:
    """Run a command of cosmic-ray."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    code = "from cosmic_ray.cli import main; raise SystemExit(main())"
    subprocess.run([sys.executable, "-c", code, *command], cwd=folder, env=environment, check=True)


def survivors(folder: Path) -> list[str]:
    """Return the faults that no test has seen."""
    from cosmic_ray.work_db import WorkDB, use_db
    from cosmic_ray.work_item import TestOutcome

    with use_db(folder / "mutants.sqlite", WorkDB.Mode.open) as database:
        outcomes = dict(database.results)
        alive = [
            item for item in database.work_items
            if (found := outcomes.get(item.job_id)) and found.test_outcome is TestOutcome.SURVIVED
        ]  # fmt: skip
        lines: list[str] = []
        for item in alive:
            fault, diff = item.mutations[0], outcomes[item.job_id].diff or ""
            changed = [
                line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
            ]
            lines.append(
                "\n".join([f"{fault.module_path}:{fault.start_pos[0]} {fault.operator_name}", *changed])
            )
        print(f"{len(outcomes) - len(alive)} of {len(outcomes)} faults were seen")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of the copy and the session")
    parser.add_argument("--every", type=int, default=1, help="plant every so-manieth fault")
    given = parser.parse_args()
    folder = given.out.resolve()
    if not (folder / "mutants.sqlite").exists():
        folder.mkdir(parents=True, exist_ok=True)
        prepare(folder, given.every)
    cosmic_ray("exec", "mutants.toml", "mutants.sqlite", folder=folder)
    print("\n\n".join(survivors(folder)))


if __name__ == "__main__":
    main()
