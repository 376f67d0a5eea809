"""Variants of GapSAM's ascent step and gate, against GapSAM as it is: the same seeds, the same gradients.

    python variants.py --data DIR [--out FILE] [--only mnist1d-mlp] [--seeds 5] [--methods gate late]

`late` takes the whole batch for its ascent steps in the last quarter of the run. `functional` keeps the
gradient with respect to the logits at x and takes the Jacobian at x + s; that needs a forward pass over the
batch at x, a third of a gradient; `functional-free` is not charged for it. `gate-0.1-0.2` has a gate that
begins to open where the gap is a tenth of the validation loss, and is open at two tenths. Gates are chosen
on the perceptrons and judged on the convolutions. `back-0.6` trains on what it watches from six tenths of
the run on, not from three quarters on. A run that has a line in the file is not made again.
Prints the mean difference to GapSAM, paired by seed, with its standard error.

`base@constant` and `gate@constant` keep the learning rate after the warm-up; with `tenth` it falls to a tenth
of its peak, not to 0; with `third` the peak is a third of the tuned one. With `--plans` it prints GapSAM
beside the base: `python variants.py --out rates.jsonl --plans --seeds 0` shows what was found.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from tasks import Bench
from torch import Tensor

from steepen.torch import GapSAM
from steepen.train import training
from steepen.train.results import Choice, Mean
from steepen.train.training import BASE, METHODS, Method, Task, fit, learning_rate

SMALL = {  # the base's settings are those that its trials have chosen
    "mnist1d-mlp": Choice(0.4, 1e-3),
    "mnist1d-cnn": Choice(0.2, 1e-3),
    "fashion4k-mlp": Choice(0.03, 1e-2),
    "fashion4k-cnn": Choice(0.1, 3e-3),
    "fashion-mlp": Choice(0.03, 1e-4),
    "fashion-cnn": Choice(0.1, 5e-4),
}
BACKS = (0.4, 0.5, 0.6)
PLANS = {  # the learning rate at the end, as a part of its peak; the peak, as a part of the tuned one
    "": (0.0, 1.0),
    "tenth": (0.1, 1.0),
    "constant": (1.0, 1.0),
    "third": (0.0, 1 / 3),
    "third-tenth": (0.1, 1 / 3),
    "third-constant": (1.0, 1 / 3),
}
GATES = ((0.1, 0.2), (0.15, 0.25), (0.25, 0.35), (0.3, 0.4), (0.1, 0.4), (0.2, 0.5))


class LateGapSAM(GapSAM):
    """Takes the whole batch for the ascent step in the last quarter."""

    def step_on(self, loss_of: Callable[..., Tensor], *batch: Any, scaler: Any = None) -> Tensor:
        if self.gradients >= 0.75 * self.total_steps:
            self.ascent_fraction = 1.0
        return super().step_on(loss_of, *batch, scaler=scaler)


class FunctionalGapSAM(GapSAM):
    """Is charged for the forward pass at x; `FunctionalTask` makes it."""

    charge = 1 / 3

    def step_on(self, loss_of: Callable[..., Tensor], *batch: Any, scaler: Any = None) -> Tensor:
        before = self.perturbed
        loss = super().step_on(loss_of, *batch, scaler=scaler)
        self.gradients += self.charge * (self.perturbed - before)
        return loss


class FreeGapSAM(FunctionalGapSAM):
    """Is not charged for it."""

    charge = 0.0


@dataclass(frozen=True)
class FunctionalTask(Task):
    """In a perturbed step the gradient is J(x + s)ᵀ∇ℓ(z(x)), with z the logits of the batch."""

    def step(self, model: Any, optimizer: Any, x: Any, y: Any) -> None:
        kept: list[Tensor] = []

        def loss_of(xs: Any, ys: Any) -> Tensor:
            if optimizer.ascending:
                with torch.no_grad():
                    logits = self.forward(model, x)
                kept.append(torch.func.grad(self.loss)(logits, y))
            out = self.forward(model, xs)
            loss = self.loss(out, ys)
            if not optimizer.moved:
                return loss
            linear = (out * kept[0]).sum()
            return loss.detach() + linear - linear.detach()  # the loss at x + s, for GapSAM's own numbers

        optimizer.step_on(loss_of, x, y)


class Variant(Method):
    """GapSAM in another class."""

    def wrap(self, base: Any, model: Any, strength: float, steps: int, **options: Any) -> Any:
        kind = {"late": LateGapSAM, "functional": FunctionalGapSAM, "functional-free": FreeGapSAM}
        return kind[self.options["kind"]](base, model, total_steps=steps, **options)


KINDS: dict[str, Method] = {
    "base": BASE,
    "gate": METHODS["gap"],
    **{
        name: Variant("GapSAM", ascent_fraction=1 / 16, options={"kind": name})
        for name in ("late", "functional", "functional-free")
    },
    **{
        f"gate-{low}-{high}": replace(METHODS["gap"], options=METHODS["gap"].options | {"gate": (low, high)})
        for low, high in GATES
    },
    **{f"back-{part}": METHODS["gap"] for part in BACKS},
    **{f"base@{plan}": BASE for plan in PLANS if plan},
    **{f"gate@{plan}": METHODS["gap"] for plan in PLANS if plan},
}


def ending_at(part: float) -> Callable[[float, float], float]:
    """Return the usual learning rate, but falling to this part of its peak after the warm-up."""

    def rate(step: float, steps: float) -> float:
        usual = learning_rate(step, steps)
        return usual if step < 0.05 * steps else part + (1 - part) * usual

    return rate


def task_of(bench: Bench, method: str) -> Task:
    """Return the task for a method."""
    task = bench.at("final", "base" if method.partition("@")[0] == "base" else "gate")
    if method.startswith("back-"):
        return replace(task, given_back=float(method.removeprefix("back-")))
    if method.startswith("functional"):
        return FunctionalTask(**{one.name: getattr(task, one.name) for one in fields(Task)})
    return task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".jsonl"))
    parser.add_argument("--only", default="", help="tasks whose name contains this")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--plans", action="store_true", help="compare with the base, by learning rate")
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = given.out.read_text("utf-8").splitlines() if given.out.exists() else []
    done = {(run["task"], run["method"], run["seed"]): run for run in map(json.loads, lines)}
    for name in (name for name in SMALL if given.only in name and given.seeds):
        bench = Bench(name, given.data, "cpu")
        for seed in range(given.seeds):
            for method in given.methods:
                if (name, method, seed) in done:
                    continue
                kind, (end, peak) = KINDS[method], PLANS[method.partition("@")[2]]
                choice = SMALL[name]._replace(lr=peak * SMALL[name].lr)
                with mock.patch.object(training, "learning_rate", ending_at(end)):
                    run = fit(
                        task_of(bench, method), method, kind, choice, seed=seed,
                        grads=bench.grads("final", "base"), evaluations=2,
                    )  # fmt: skip
                record = {"task": name, "method": method, "seed": seed, "loss": run.loss}
                record |= {"accuracy": run.accuracy, "steps": run.steps, "perturbed": run.perturbed}
                record |= {"gradients": run.gradients, "seconds": round(run.seconds, 1)}
                done[name, method, seed] = record
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
    (table_of_plans if given.plans else table)(done, [name for name in SMALL if given.only in name])


def table(done: dict[tuple[str, str, int], dict[str, Any]], names: list[str]) -> None:
    """Print each method's test loss and accuracy, and the differences to GapSAM as it is."""
    for name in names:
        for method in KINDS:
            seeds = [seed for task, one, seed in done if (task, one) == (name, method)]
            if not seeds:
                continue
            cells: list[str] = []
            for what, form, scale in (("loss", ".4f", 1), ("accuracy", ".2f", 100)):
                own = {seed: done[name, method, seed][what] for seed in seeds}
                gap = [
                    own[seed] - done[name, "gate", seed][what]
                    for seed in seeds
                    if (name, "gate", seed) in done
                ]
                cells += [Mean.of(list(own.values())).text(form, scale), Mean.of(gap).text("+" + form, scale)]
            print(f"{name:14} {method:16} {len(seeds)} seeds  " + "  ".join(f"{cell:>18}" for cell in cells))


def table_of_plans(done: dict[tuple[str, str, int], dict[str, Any]], names: list[str]) -> None:
    """Print test loss and accuracy of base and GapSAM under each learning rate, and their differences."""
    heads = (f"{what}{one}" for what in ("loss ", "accuracy ") for one in ("base", "GapSAM", "Δ"))
    print(f"{'task':14} {'learning rate':14} {'':8}  " + "  ".join(f"{head:>15}" for head in heads))
    for name, plan in itertools.product(names, PLANS):
        pairs, cells = pairs_of(done, name, plan), list[str]()
        for what, form, scale in (("loss", ".3f", 1), ("accuracy", ".2f", 100)) if pairs else ():
            cells += [Mean.of([pair[i][what] for pair in pairs]).text(form, scale) for i in (0, 1)]
            cells += [Mean.of([two[what] - one[what] for one, two in pairs]).text("+" + form, scale)]
        if cells:
            print(
                f"{name:14} {plan or 'to 0':14} {len(pairs):2} seeds  " + "  ".join(f"{c:>15}" for c in cells)
            )


def pairs_of(done: dict[tuple[str, str, int], dict[str, Any]], name: str, plan: str) -> list[tuple[Any, Any]]:
    """Return the runs of the base and of GapSAM with the same seeds, under one plan of the learning rate."""
    base, gate = (f"{kind}@{plan}".rstrip("@") for kind in ("base", "gate"))
    return [
        (run, done[name, gate, seed])
        for (task, method, seed), run in done.items()
        if (task, method) == (name, base) and (name, gate, seed) in done
    ]


if __name__ == "__main__":
    main()
