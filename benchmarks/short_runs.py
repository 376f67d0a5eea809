"""Short runs on little data, as in fine-tuning, with the rule and without.

Is the rule ever worse than the base, and is a run destroyed?

    python benchmarks/short_runs.py --jobs 2            # 100 pairs of runs, and a longer case with six seeds
    python benchmarks/short_runs.py --quick             # four pairs: does it run?
    python benchmarks/short_runs.py --show              # the runs that are kept in short_runs.jsonl

A BERT of one layer learns which of two marks comes first in a sequence: 64 to 512 sequences, none or a fifth
of the labels wrong, AdamW with a constant learning rate of 1e-4 to 3e-3, batches of 16, 150 to 1 200 steps:
25 settings drawn once, four seeds each. Base and rule train on the same data; the rule is given an eighth as
many held-out sequences, at least 32. Both are judged by the loss on 2 000 new sequences with as many
wrong labels, and by the accuracy on 2 000 with right ones. A run is destroyed if its training loss ends above
that of guessing while the base's does not.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
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


def run(given: tuple[Setting, bool]) -> dict[str, Any]:
    """Train once, with the rule or without."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.set_num_threads(1)
    setting, rule = given
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
    opt = GapSAM(base, model, held_out, steps) if rule else base
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


Pairs = dict[Setting, tuple[dict[str, Any], dict[str, Any]]]
KEPT = Path(__file__).with_name("short_runs.jsonl")


def kept(path: Path = KEPT) -> Pairs:
    """Read the pairs of runs of a file."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {Setting(*line["setting"]): (line["base"], line["rule"]) for line in lines}


def show(pairs: Pairs) -> tuple[int, int]:
    """Print each setting; return in how many of them the rule is worse, and how many runs were destroyed."""
    groups: dict[tuple[float, ...], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for setting, pair in pairs.items():
        groups.setdefault(setting[:-1], []).append(pair)
    worse = destroyed = 0
    print("examples wrong     lr steps   loss: base    rule   rule − base     accuracy: base  rule")
    for (n, wrong, lr, steps), found in groups.items():
        gaps = [rule["loss"] - base["loss"] for base, rule in found]
        error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
        mean = statistics.mean(gaps)
        worse += mean > 2 * error
        destroyed += sum(
            not rule["training"] < math.log(2) < math.inf and base["training"] < math.log(2)
            for base, rule in found
        )
        means = [
            statistics.mean(one[i][key] for one in found) for key in ("loss", "accuracy") for i in (0, 1)
        ]
        print(
            f"{n:8} {wrong:5} {lr:6g} {steps:5} {means[0]:12.3f} {means[1]:7.3f} {mean:+8.3f} ± {error:.3f}"
            f" {means[2]:14.1f} {means[3]:6.1f}"
        )
    everything = [rule["loss"] - base["loss"] for base, rule in pairs.values()]
    print(f"{len(pairs)} pairs; rule − base {statistics.mean(everything):+.3f} in the mean")
    print(f"settings in which the rule is worse by two standard errors: {worse} of {len(groups)}")
    print(f"runs destroyed: {destroyed}")
    return worse, destroyed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--out", type=Path, help="write the runs here, as lines of JSON")
    given = parser.parse_args()
    if given.show:
        show(kept())
        return
    many = [Setting(64, 0.2, 3e-3, 60, seed) for seed in range(4)] if given.quick else [*LONG, *settings()]
    work = [(setting, rule) for setting in many for rule in (False, True)]
    with ProcessPoolExecutor(given.jobs) as pool:
        found = list(pool.map(run, work))
    pairs = {setting: (found[2 * i], found[2 * i + 1]) for i, setting in enumerate(many)}
    show(pairs)
    if given.out:
        lines = [{"setting": setting, "base": base, "rule": rule} for setting, (base, rule) in pairs.items()]
        given.out.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


if __name__ == "__main__":
    main()
