"""Run the study of tuned settings again, and write the tables that `steepen reproduce --only tuned` reads.

python benchmarks/tuned.py                    # goes on where an earlier run stopped
python benchmarks/tuned.py --folder again     # all of it, into a folder of its own
"""

import argparse
import csv
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from steepen.paper import tuned_study as study

FOLDER = Path(study.__file__).parent


def read(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Return the rows of a table; a new one gets its head."""
    if not path.exists():
        add(path, [columns])
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def add(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Append rows to a table, each as it comes."""
    for row in rows:
        with path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(row)


def main() -> None:
    """Tune what is not tuned yet, and judge what is not judged yet, function by function."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the tables are")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    settings, results, why = (folder / f"tuned_{name}.csv" for name in ("settings", "results", "why"))
    judged = {tuple(row[:5]) for row in read(results, study.RESULTS)}
    explained = {tuple(row[:2]) for row in read(why, study.WHY)}
    began = time.process_time()
    for problem in sorted(study.problems(), key=lambda problem: problem.function.n):
        name, n = problem.function.name, str(problem.function.n)
        done = {tuple(row[:4]) for row in read(settings, study.SETTINGS)}
        add(settings, study.settings_of(problem, done))
        rows = read(settings, study.SETTINGS)
        tuned = {tuple(row[:4]): study.Setting(*map(float, row[4:])) for row in rows}
        add(results, study.judge(problem, tuned, judged))
        if (name, n) not in explained:
            add(why, [(name, n, *study.why(problem, tuned[name, n, "100", "gd"]))])
        print(f"{problem.key}: done after {time.process_time() - began:.0f} s of one core", flush=True)


if __name__ == "__main__":
    main()
