"""The evidence: its data, its runs, their timing, and every table of the pages.

    python -m benchmarks.evidence prepare --data DIR     # all data but pictures, books and environments
    python -m benchmarks.evidence run --data DIR --tasks mnist1d-mlp,lm-small --rows base,gate --device cuda
    python -m benchmarks.evidence run --toy --tasks characters      # small networks, 200 random examples
    python -m benchmarks.evidence left                   # the runs that are left
    python -m benchmarks.evidence timing --data DIR --tasks cifar100-resnet --device cuda       # by itself
    python -m benchmarks.evidence publish                # new runs, into the text files of results
    python -m benchmarks.evidence tables                 # every table, into the pages
    python -m benchmarks.evidence tables --show          # every table, printed
    python -m benchmarks.evidence pictures

Studies: networks (the tables of the tasks), short (language models and fine-tuning), minima and airbench,
variants, gates, backs and rates (of GapSAM), short-runs, optax, rl and grpo. `--studies` chooses some.

DIR holds cifar10.npz and cifar100.npz (x_train, y_train, x_test, y_test) or the binary versions, fashion.npz
likewise, what `benchmarks.evidence.short.corpus` has made, and a clone of cifar10-airbench. A run is
recorded as it ends, and is not made again, nor is a published one. Start `run` as often as there is room for:
processes share the work, and may be killed at any time. Seconds of runs that share a device say nothing:
`timing` is for that. The published runs of a task are one text file, results/STUDY/TASK.jsonl.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.evidence.pages import Parts, inserted
from benchmarks.evidence.runner import Study, left, work
from benchmarks.evidence.studies import PLACES, studies, study

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md", "docs/when.md", "docs/evidence.md", "docs/optax.md", "docs/rl.md",
    "benchmarks/evidence/rl/rows.md",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["prepare", "run", "left", "timing", "publish", "tables", "pictures"])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path("out/evidence"), help="the folder of new runs")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--studies", default="", help="by name, all by default")
    parser.add_argument("--tasks", default="", help="by name, all by default")
    parser.add_argument("--rows", default="", help="by name, all by default")
    parser.add_argument("--seeds", type=int, help="the task's own by default")
    parser.add_argument("--seconds", type=float, default=math.inf, help="after which no run is begun")
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--show", action="store_true", help="print the tables, and write nothing")
    given = parser.parse_args()
    if given.what == "prepare":
        from benchmarks.evidence.tasks import prepare

        prepare(given.data)
    elif given.what == "tables":
        print(everything()) if given.show else write()
    elif given.what == "pictures":
        pictures()
    else:
        names, rows = (said.split(",") if said else [] for said in (given.studies, given.rows))
        if unknown := set(names) - set(PLACES):
            parser.error(f"expected some of {', '.join(PLACES)}; got {', '.join(unknown)}")
        tasks = given.tasks.split(",") if given.tasks else []
        chosen = list(chosen_of(names or list(PLACES), tasks))
        if unknown := set(tasks) - {task for _, task in chosen}:
            parser.error(f"tasks: there is no {', '.join(unknown)} in {', '.join(names or PLACES)}")
        known = {row for one, task in chosen for row in one.rows(task)}
        if unknown := set(rows) - known:
            parser.error(f"rows: expected some of {', '.join(sorted(known))}; got {', '.join(unknown)}")
        until = time.time() + given.seconds
        if given.what == "publish":
            print("\n".join(f"{one.name}/{task}" for one in studies() for task in one.publish(given.out)))
            return
        for one, task in chosen:
            if given.what == "run":
                work(
                    one, task, rows, given.data, given.out, device=given.device, toy=given.toy, until=until,
                    seeds=given.seeds, tell=partial(print, flush=True),
                )  # fmt: skip
            elif given.what == "timing":
                one.timing(task, rows, given.data, given.out, given.device, given.toy)
            else:
                own = Counter(job[1] for job in left(one, task, one.read(given.out), rows, given.seeds))
                parts = ", ".join(f"{name} {n}" for name, n in own.items())
                print(f"{one.name:10} {task:20} {own.total():4}  {parts}")


def chosen_of(names: list[str], tasks: list[str]) -> Iterator[tuple[Study, str]]:
    """Yield studies and their tasks; toys if they are named."""
    for name in names:
        one = study(name)
        yield from ((one, task) for task in (*one.tasks, *one.toys) if task in (tasks or one.tasks))


def parts() -> Parts:
    """Return what writes each table of the pages."""
    from benchmarks.evidence import report, with_optax
    from benchmarks.evidence.rl import report as policies
    from benchmarks.evidence.short import report as short

    return {**report.PARTS, **short.PARTS, **policies.PARTS, "training": with_optax.table}


def everything() -> str:
    """Return every table, and what was printed of GapSAM's variants and of the short runs."""
    from benchmarks.evidence import short_runs, variants

    texts = [*(part() for part in parts().values()), variants.text(), short_runs.text()]
    return "\n\n".join(texts)


def write() -> None:
    """Write every table into the pages."""
    for name in PAGES:
        path = ROOT / name
        path.write_text(inserted(path.read_text("utf-8"), parts()), "utf-8")


def pictures() -> None:
    """Draw the pictures of the pages."""
    from benchmarks.evidence import report
    from benchmarks.evidence.jobs import NETWORKS
    from benchmarks.evidence.rl import report as policies
    from benchmarks.evidence.short import report as short

    docs = ROOT / "docs"
    report.picture(NETWORKS.read(), "cifar100-resnet", docs / "cifar100.svg")
    short.picture(short.SHORT.read(), docs / "short.svg")
    policies.picture(policies.control(), policies.rewards(), docs / "rl.svg")


if __name__ == "__main__":
    main()
