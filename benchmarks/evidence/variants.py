"""Variants of GapSAM's ascent step and gate, against GapSAM as it is: the same seeds, the same gradients.

`variants`: `late` takes the whole batch for its ascent steps in the last quarter of the run. `functional`
keeps the gradient with respect to the logits at x and takes the Jacobian at x + s; that needs a forward pass
over the batch at x, a third of a gradient; `functional-free` is not charged for it.
`gates`: `gate-0.1-0.2` has a gate that begins to open where the gap is a tenth of the validation loss, and is
open at two tenths. Gates are chosen on the perceptrons and judged on the convolutions.
`backs`: `back-0.6` trains on what it watches from six tenths of the run on, not from three quarters on.
`rates`: `base@constant` and `gate@constant` keep the learning rate after the warm-up; with `tenth` it falls
to a tenth of its peak, not to 0; with `third` the peak is a third of the tuned one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from benchmarks.evidence.bench import Bench
from benchmarks.evidence.methods import RETURNED
from benchmarks.evidence.methods import ROWS as EVIDENCE
from benchmarks.evidence.runner import Records, Study
from torch import Tensor

from steepen.torch import GapSAM
from steepen.train import training
from steepen.train.results import Choice, Mean
from steepen.train.training import BASE, Method, Task, fit, learning_rate

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


GAP = EVIDENCE["gate"].method
KINDS: dict[str, Method] = {
    "base": BASE,
    "gate": GAP,
    **{
        name: Variant("GapSAM", ascent_fraction=1 / 16, options={"kind": name}, returned=RETURNED)
        for name in ("late", "functional", "functional-free")
    },
    **{
        f"gate-{low}-{high}": replace(GAP, options=GAP.options | {"gate": (low, high)}) for low, high in GATES
    },
    **{f"back-{part}": replace(GAP, returned=part) for part in BACKS},
    **{f"base@{plan}": BASE for plan in PLANS if plan},
    **{f"gate@{plan}": GAP for plan in PLANS if plan},
}


def ending_at(part: float) -> Callable[[float, float], float]:
    """Return the usual learning rate, but falling to this part of its peak after the warm-up."""

    def rate(step: float, steps: float) -> float:
        usual = learning_rate(step, steps)
        return usual if step < 0.05 * steps else part + (1 - part) * usual

    return rate


def task_of(bench: Bench, method: str) -> Task:
    """Return the task for a method."""
    task = bench.at("final", EVIDENCE["base" if method.partition("@")[0] == "base" else "gate"])
    if method.startswith("functional"):
        return FunctionalTask(**{one.name: getattr(task, one.name) for one in fields(Task)})
    return task


class Variants(Study):
    """One of the questions, by its rows."""

    tasks = tuple(SMALL)

    def __init__(self, name: str, rows: Sequence[str]) -> None:
        self.name, self._rows = name, ("gate", *rows)

    def rows(self, task: str) -> Sequence[str]:
        return self._rows

    def jobs(self, task: str, rows: Sequence[str], seeds: int | None = None) -> Iterator[Any]:
        for seed in range(5 if seeds is None else seeds):
            yield from ((task, method, seed) for method in rows)

    def bench(self, task: str, data: Path, device: str, toy: bool) -> Bench:
        torch.set_num_threads(1)
        return Bench(task, None if toy else data, device, toy)

    def make(self, job: Any, values: Any, bench: Bench) -> dict[str, Any]:
        task, method, seed = job
        end, peak = PLANS[method.partition("@")[2]]
        choice = SMALL[task]._replace(lr=peak * SMALL[task].lr)
        with mock.patch.object(training, "learning_rate", ending_at(end)):
            run = fit(
                task_of(bench, method), method, KINDS[method], choice, seed=seed, grads=bench.grads("final"),
                evaluations=2,
            )  # fmt: skip
        return {
            "loss": run.loss, "accuracy": run.accuracy, "steps": run.steps, "perturbed": run.perturbed,
            "gradients": run.gradients, "seconds": round(run.seconds, 1),
        }  # fmt: skip


VARIANTS = Variants("variants", ["late", "functional", "functional-free"])
GATED = Variants("gates", [f"gate-{low}-{high}" for low, high in GATES])
RETURNS = Variants("backs", [f"back-{part}" for part in BACKS])
RATES = Variants(
    "rates", ["base", *(f"{kind}@{plan}" for kind in ("base", "gate") for plan in PLANS if plan)]
)


def text() -> str:
    """Return what was found of each question."""
    parts = [f"{study.name}:\n{table(study.read())}" for study in (VARIANTS, GATED, RETURNS)]
    return "\n\n".join([*parts, f"{RATES.name}:\n{table_of_plans(RATES.read())}"])


def table(done: Records) -> str:
    """Return each method's test loss and accuracy, and the differences to GapSAM as it is."""
    lines: list[str] = []
    for name in SMALL:
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
            cell_texts = "  ".join(f"{cell:>18}" for cell in cells)
            lines.append(f"{name:14} {method:16} {len(seeds)} seeds  {cell_texts}")
    return "\n".join(lines)


def table_of_plans(done: Records) -> str:
    """Return test loss and accuracy of base and GapSAM under each learning rate, and their differences."""
    heads = (f"{what}{one}" for what in ("loss ", "accuracy ") for one in ("base", "GapSAM", "Δ"))
    lines = [f"{'task':14} {'learning rate':14} {'':8}  " + "  ".join(f"{head:>15}" for head in heads)]
    for name, plan in itertools.product(SMALL, PLANS):
        pairs, cells = pairs_of(done, name, plan), list[str]()
        for what, form, scale in (("loss", ".3f", 1), ("accuracy", ".2f", 100)) if pairs else ():
            cells += [Mean.of([pair[i][what] for pair in pairs]).text(form, scale) for i in (0, 1)]
            cells += [Mean.of([two[what] - one[what] for one, two in pairs]).text("+" + form, scale)]
        if cells:
            cell_texts = "  ".join(f"{cell:>15}" for cell in cells)
            lines.append(f"{name:14} {plan or 'to 0':14} {len(pairs):2} seeds  {cell_texts}")
    return "\n".join(lines)


def pairs_of(done: Records, name: str, plan: str) -> list[tuple[Any, Any]]:
    """Return the runs of the base and of GapSAM with the same seeds, under one plan of the learning rate."""
    base, gate = (f"{kind}@{plan}".rstrip("@") for kind in ("base", "gate"))
    return [
        (run, done[name, gate, seed])
        for (task, method, seed), run in done.items()
        if (task, method) == (name, base) and (name, gate, seed) in done
    ]
