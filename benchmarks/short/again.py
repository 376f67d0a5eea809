"""Train networks of `benchmarks/evidence` again, and see which of their minima survive.

    python again.py --data DIR --out again.jsonl                         # those that a CPU trains; or
    python again.py --data DIR --out again.jsonl --device cuda --only cifar10-resnet

DIR is that of `benchmarks/evidence/work.py`. Settings and seeds are those of the runs that are kept there:
the same networks, up to last bits, which a long run amplifies. Each is a line of JSON, and is not trained
twice.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from lm import robustness, table
from tasks import KINDS, SPECS, Bench, order_of, plain

from steepen._tools.jobs import JobFile, run
from steepen.train.results import Choice
from steepen.train.training import fit

HERE = Path(__file__).parent
KEY = ("task", "method", "seed")
METHODS = ("base", "sam", "sam-late", "share16-late", "gap")
SEEDS, LOOKS, JUDGED = 3, 10, 2000  # JUDGED examples of the test part


def kept(path: Path = HERE.parent / "evidence" / "runs.jsonl") -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the runs whose networks are to be had again."""
    file = JobFile(path, ("task", "method", "stage", "trial", "seed"))
    return {(key[0], key[1], key[4]): one for key, one in file.read().items() if key[2] == "final"}


def again(bench: Bench, record: dict[str, Any], method: str, seed: int) -> dict[str, Any]:
    """Train one network; the base is looked at on its way, so that others can be compared at its loss."""
    x, y = bench.data.x_test, bench.data.y_test
    some = order_of(len(x))[:JUDGED].to(x.device)  # files may be sorted by class
    x, y = x[some].float() if x.is_floating_point() else x[some], y[some]
    way: list[dict[str, Any]] = []

    def look(model: torch.nn.Module) -> None:
        way.append(table(robustness(model, plain, (x, y))))

    values = Choice(record["lr"], record["decay"], record["strength"])
    grads = bench.grads("final", method)
    looks = LOOKS if method == "base" else 1
    ended = fit(
        bench.at("final", method), method, KINDS[method], values, seed=seed, grads=grads, evaluations=looks,
        watch=look,
    )  # fmt: skip
    found = {"loss": round(ended.loss, 5), "robustness": way[-1]}
    return found | ({"way": way} if method == "base" else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=HERE / "again.jsonl")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", choices=SPECS, nargs="+", help="tasks; by default those for the device")
    given = parser.parse_args()
    torch.set_num_threads(1)
    runs = kept()
    for task in given.only or [name for name, spec in SPECS.items() if spec.gpu is (given.device == "cuda")]:
        bench = Bench(task, given.data, given.device)
        keys = [(task, method, seed) for seed in range(SEEDS) for method in METHODS]

        def one(task: str, method: str, seed: int, bench: Bench = bench) -> dict[str, Any]:
            return again(bench, runs[task, method, seed], method, seed)

        for ended in run(one, keys, file=JobFile(given.out, KEY), jobs=1):
            print(*ended.key, ended.error or ended.value["robustness"], flush=True)


if __name__ == "__main__":
    main()
