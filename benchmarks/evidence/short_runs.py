"""Short runs on little data, as in fine-tuning: the base, GapSAM, and GapSAM with its gate open.

Is GapSAM ever worse than the base, and is a run destroyed?

A BERT of one layer learns which of two marks comes first in a sequence: 64 to 512 sequences, none or a fifth
of the labels wrong, AdamW with a constant learning rate of 1e-4 to 3e-3, batches of 16, 150 to 1 200 steps:
25 settings drawn once, four seeds each. All train on the same data; GapSAM is given an eighth as many
held-out sequences, at least 32, as to a user who has a validation set anyway. All are judged by the loss on
2 000 new sequences with as many wrong labels, and by the accuracy on 2 000 with right ones. A run is
destroyed if its training loss ends above that of guessing while the base's does not.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.evidence.runner import Records, Study
from torch import Tensor

from steepen.torch import GapSAM


class Setting(NamedTuple):
    """What a pair of runs shares."""

    examples: int
    wrong: float
    lr: float
    steps: int
    seed: int


LONG = [Setting(256, 0.2, 3e-3, 1200, seed) for seed in range(6)]


def settings() -> list[Setting]:
    """Draw 25 settings, four seeds each."""
    draw = random.Random(0)
    choices = ((64, 128, 256, 512), (0.0, 0.2), (1e-4, 3e-4, 1e-3, 3e-3), (150, 400, 1200))
    drawn: dict[tuple[float, ...], None] = {}
    while len(drawn) < 25:
        drawn[tuple(draw.choice(values) for values in choices)] = None
    return [Setting(*one, seed) for one in drawn for seed in range(4)]  # pyright: ignore


def sequences(count: int, seed: int, wrong: float) -> tuple[Tensor, Tensor]:
    """Make sequences with two marks, and labels that say which of them comes first."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(3, 20, (count, 8), generator=generator)
    places = torch.rand(count, 8, generator=generator).argsort(1)[:, :2]
    rows.scatter_(1, places, torch.tensor([[1, 2]]).expand(count, 2))
    labels = (places[:, 0] < places[:, 1]).long()
    flipped = torch.rand(count, generator=generator) < wrong
    return rows, torch.where(flipped, 1 - labels, labels)


METHODS: dict[str, dict[str, Any] | None] = {"base": None, "open": {"gate": None}, "gate": {}}
"""What GapSAM is given."""


def run(setting: Setting, method: str) -> dict[str, Any]:
    """Train once."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.set_num_threads(1)
    n, wrong, lr, steps, seed = setting
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertForSequenceClassification(
        BertConfig(vocab_size=20, max_position_embeddings=8, **sizes)
    ).train()
    x, y = sequences(n, 1000 + seed, wrong)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(model(input_ids=x).logits, y)

    base = torch.optim.AdamW(model.parameters(), lr=lr)
    held_out = sequences(max(32, n // 8), 2000 + seed, wrong)
    options = METHODS[method]
    opt = base if options is None else GapSAM(base, model, held_out, steps, **options)
    order, taken = torch.Generator().manual_seed(seed), 0
    while taken < steps:
        for rows in torch.randperm(n, generator=order).split(16)[: steps - taken]:
            if isinstance(opt, GapSAM):
                opt.step_on(loss_of, x[rows], y[rows])
            else:
                opt.zero_grad()
                loss_of(x[rows], y[rows]).backward()
                opt.step()
            taken += 1
    model.eval()
    with torch.no_grad():
        right, noisy = sequences(2000, 7, 0.0), sequences(2000, 8, wrong)
        accuracy = (model(input_ids=right[0]).logits.argmax(1) == right[1]).float().mean()
        losses = loss_of(*noisy).item(), loss_of(x, y).item()
    return {"accuracy": 100 * accuracy.item(), "loss": losses[0], "training": losses[1]}


Runs = dict[Setting, dict[str, dict[str, Any]]]


class ShortRuns(Study):
    """A hundred settings and seeds, and six longer runs, each with three methods."""

    name = "short-runs"
    fields = ("task", *Setting._fields, "method")
    tasks = ("short-runs",)

    def rows(self, task: str) -> Sequence[str]:
        return tuple(METHODS)

    def jobs(self, task: str, rows: Sequence[str], seeds: int | None = None) -> Iterator[Any]:
        for setting in (*LONG, *settings()):
            if seeds is None or setting.seed < seeds:
                yield from ((task, *setting, method) for method in rows)

    def bench(self, task: str, data: Path, device: str, toy: bool) -> bool:
        return toy

    def make(self, job: Any, values: Any, bench: bool) -> dict[str, Any]:
        setting = Setting(*job[1:-1])
        return run(setting._replace(steps=20) if bench else setting, job[-1])


SHORT_RUNS = ShortRuns()


def kept() -> Runs:
    """Return the runs, by setting and method."""
    return by_setting(SHORT_RUNS.read())


def by_setting(done: Records) -> Runs:
    runs: Runs = {}
    for (_, *setting, method), record in done.items():
        runs.setdefault(Setting(*setting), {})[method] = record
    return runs


def paired(runs: Sequence[dict[str, dict[str, Any]]], one: str, other: str, key: str) -> tuple[float, float]:
    """Return the mean difference of two methods, run by run, and its standard error."""
    gaps = [run[one][key] - run[other][key] for run in runs]
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
    return statistics.mean(gaps), error


def counted(runs: Runs) -> tuple[str, dict[str, tuple[int, ...]]]:
    """Return a line for each setting, and for both ways how often ahead, behind, and destroyed."""
    groups: dict[tuple[float, ...], list[dict[str, dict[str, Any]]]] = {}
    for setting, triple in runs.items():
        groups.setdefault(setting[:-1], []).append(triple)
    lines = [
        "examples wrong     lr steps  loss: base  Δ open gate        Δ gate            accuracy: base  Δ gate"
    ]
    counts = {name: [0, 0, 0] for name in ("open", "gate")}
    for (n, wrong, lr, steps), found in groups.items():
        cells: list[str] = []
        for name, count in counts.items():
            mean, error = paired(found, name, "base", "loss")
            count[0] += mean < -2 * error
            count[1] += mean > 2 * error
            count[2] += sum(
                not run[name]["training"] < math.log(2) and run["base"]["training"] < math.log(2)
                for run in found
            )
            cells.append(f"{mean:+8.3f} ± {error:.3f}")
        loss, accuracy = (statistics.mean(run["base"][key] for run in found) for key in ("loss", "accuracy"))
        mean, error = paired(found, "gate", "base", "accuracy")
        lines.append(
            f"{n:8} {wrong:5} {lr:6g} {steps:5} {loss:11.3f} {cells[0]:>18} {cells[1]:>18} {accuracy:17.1f} "
            f"{mean:+7.1f} ± {error:.1f}"
        )
    for name in counts:
        mean, error = paired(list(runs.values()), name, "base", "loss")
        right, wide = paired(list(runs.values()), name, "base", "accuracy")
        ahead, behind, destroyed = counts[name]
        lines.append(
            f"{name}: loss {mean:+.3f} ± {error:.3f}, accuracy {right:+.2f} ± {wide:.2f} over {len(runs)} "
            f"runs; of {len(groups)} settings {ahead} ahead and {behind} behind by two standard errors; "
            f"{destroyed} runs destroyed"
        )
    mean, error = paired(list(runs.values()), "gate", "open", "loss")
    lines.append(f"gate less open: loss {mean:+.3f} ± {error:.3f}")
    return "\n".join(lines), {
        name: (ahead, behind, destroyed) for name, (ahead, behind, destroyed) in counts.items()
    }


def text() -> str:
    """Return what was found."""
    return counted(kept())[0]
