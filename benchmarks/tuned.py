"""Run the study of tuned settings again, and write the tables that `steepen reproduce --only tuned` reads.

python benchmarks/tuned.py                    # goes on where an earlier run stopped
python benchmarks/tuned.py --folder again     # all of it, into a folder of its own
python benchmarks/tuned.py --jobs 2           # two problems at a time
"""

import argparse
import csv
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from steepen._jobs import run
from steepen.paper import tuned_study as study

Key = tuple[Any, ...]
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


def made(
    name: str, n: int, done: Sequence[Key], judged: Sequence[Key], explained: bool, tuned: dict[Key, Any]
) -> dict[str, list[Any]]:
    """Tune what is not tuned yet on one problem, and judge what is not judged yet; return the new rows."""
    problem = next(one for one in study.problems([name]) if one.function.n == n)
    settings = list(study.settings_of(problem, done))
    tuned = tuned | {tuple(row[:4]): study.Setting(*map(float, row[4:])) for row in settings}
    why = () if explained else [(name, str(n), *study.why(problem, tuned[name, str(n), "100", "gd"]))]
    return {"settings": settings, "results": list(study.judge(problem, tuned, judged)), "why": list(why)}


def main() -> None:
    """Make what is missing, problem by problem; the rows of one are appended together when it is done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the tables are")
    parser.add_argument("--jobs", type=int, help="processes; one by default, or what joblib is told")
    parser.add_argument("--only", help="these functions only, by name with commas between")
    given = parser.parse_args()
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"settings": study.SETTINGS, "results": study.RESULTS, "why": study.WHY}
    paths = {name: folder / f"tuned_{name}.csv" for name in columns}
    rows = {name: read(paths[name], columns[name]) for name in columns}
    tuned = {tuple(row[:4]): study.Setting(*map(float, row[4:])) for row in rows["settings"]}
    judged = [tuple(row[:5]) for row in rows["results"]]
    explained = {tuple(row[:2]) for row in rows["why"]}
    found = study.problems(given.only.split(",") if given.only else None)
    keys = sorted(((one.function.name, one.function.n) for one in found), key=lambda key: key[1])

    def send(key: Key) -> tuple[Any, ...]:
        mine = (key[0], str(key[1]))
        own = {one: setting for one, setting in tuned.items() if one[:2] == mine}
        return *key, list(own), [one for one in judged if one[:2] == mine], mine in explained, own

    began = time.perf_counter()
    for done in run(made, keys, send=send, jobs=given.jobs, strict=True):
        for name, new in done.value.items():
            add(paths[name], new)
        print(f"{done.key[0]}-{done.key[1]}: done after {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
