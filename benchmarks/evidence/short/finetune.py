"""Fine-tuning MiniLM on few passages: the tasks, the rows, and one run.

Every row has the same passages and as many gradients, its ascent steps counted. Rows that watch held-out
data, early stopping and GapSAM, take an eighth of these passages for it, of other books or pages; the others
train on all. GapSAM watches few of them, and until the half of the run only: chosen on the authors, where two
more rows were tried, and judged on the manual. The weights come from a package, see corpus.py, in half
precision; they are trained in float32.
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from benchmarks.evidence.short.lm import RETURNED, Captured, robustness, table
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from steepen.torch import SAM, GapSAM
from steepen.train.results import Choice

WATCHED = 1 / 8  # of the passages
MOST = 120  # that a row with `few` watches
LOOKS = 10
EPOCHS, BATCH = {16: 20, 64: 8, 256: 5, 2: 4}, {16: 32, 64: 32, 256: 64, 2: 4}
BINS = 15  # of the calibration error
RULE = 1 + 1 / 48  # gradients of a step, in the mean


class Setting(NamedTuple):
    """Which passages, how many of each class, and what is trained."""

    task: str  # "authors" or "manual"
    each: int
    lora: bool

    @classmethod
    def of(cls, name: str) -> Setting:
        task, each, kind = name.split("-")
        return cls(task, int(each), kind == "lora")


@dataclass(frozen=True)
class Row:
    """One way to train. Its four trials: two learning rates with two weight decays or two strengths."""

    name: str
    rates: tuple[float, ...] = (1.0, 3.0)  # times 1e-4, or 1e-3 for LoRA
    decays: tuple[float, ...] = (0.01,)
    strengths: tuple[float, ...] = (0.0,)
    cost: float = 1.0
    like: str = ""  # whose trials it takes, without any of its own
    watches: bool = False
    few: int = 1  # watches one in so many of the passages that are set aside, and trains on the others
    back: float = 1.0  # the part of the run after which it trains on those too


ROWS = {
    "base": Row("AdamW, weight decay .01", rates=(0.5, 1.0, 3.0, 6.0)),
    "decay": Row("AdamW, weight decay tuned", rates=(0.5, 1.0), decays=(0.01, 5.0)),
    "early": Row("the same, stopped early", like="decay", watches=True),
    "sam": Row("SAM throughout", strengths=(0.05, 0.15), cost=2.0),
    "gap": Row("GapSAM before its gate, settings of the tuned base", cost=RULE, like="decay", watches=True),
    "gate": Row("GapSAM, settings of the tuned base", like="decay", watches=True, few=4, back=0.5),
    "gate-late": Row(
        "the same, watching until three quarters", like="decay", watches=True, few=4, back=RETURNED
    ),
    "gate-0.4": Row("the same, watching until 0.4", like="decay", watches=True, few=4, back=0.4),
    "gate-few": Row("the same, watching half as many", like="decay", watches=True, few=8, back=0.5),
    "decay-less": Row("the tuned base, without what GapSAM watches", like="decay", watches=True, few=4),
    "gap-own": Row(
        "GapSAM before its gate, settings of its own", strengths=(1.0, 4.0), cost=RULE, watches=True
    ),
}


def rows_of(task: str) -> tuple[str, ...]:
    """Return the rows that a task has: those that were not chosen are of the authors alone."""
    return tuple(name for name in ROWS if task.startswith("authors") or name not in ("gate-0.4", "gate-few"))


def trials(row: Row, lora: bool) -> list[Choice]:
    """Return lr, decay and strength of each trial."""
    unit = 1e-3 if lora else 1e-4
    return [
        Choice(rate * unit, decay, strength)
        for decay in row.decays
        for strength in row.strengths
        for rate in row.rates
    ]


class Classifier(nn.Module):
    """MiniLM, the mean over its tokens, and a linear head; rows of tokens are padded by zeros."""

    def __init__(self, bert: nn.Module, width: int, classes: int) -> None:
        super().__init__()
        self.bert, self.head = bert, nn.Linear(width, classes)

    def forward(self, input_ids: Tensor) -> Tensor:
        there = input_ids != 0
        seen = there[:, None, None, :].expand(-1, 1, there.shape[1], -1)  # in full: no look at the data
        states = self.bert(input_ids=input_ids, attention_mask=seen).last_hidden_state
        return self.head((states * there[..., None]).sum(1) / there.sum(1, keepdim=True))


class Bench:
    """The passages of a task and MiniLM's weights on a device."""

    def __init__(self, name: str, folder: Path, device: str) -> None:
        self.setting, self.device = Setting.of(name), device
        for file in (f"{self.setting.task}.npz", "minilm.npz"):
            if not (folder / file).exists():
                raise ValueError(f"corpus: there is no {folder / file}; make it by corpus.py")
        with np.load(folder / f"{self.setting.task}.npz") as z:
            x, y = (torch.from_numpy(z[key].astype(np.int64)).to(device) for key in ("x", "y"))
            part = torch.from_numpy(z["part"]).to(device)
        self.x, self.y, self.classes = x, y, 1 + int(y.max())
        self.pools = [
            [((part == which) & (y == label)).nonzero().flatten() for label in range(self.classes)]
            for which in range(3)
        ]
        have = sum(min(map(len, pool)) for pool in self.pools[:2])
        if have < self.setting.each:
            raise ValueError(
                f"corpus: too small for {name}: expected {self.setting.each} passages a class, got {have}"
            )
        self.test = torch.cat(self.pools[2])
        with np.load(folder / "minilm.npz") as z:
            self.config = json.loads(str(z["config"]))
            self.weights = {key: torch.from_numpy(z[key]).float() for key in z.files if key != "config"}

    def network(self, seed: int) -> Classifier:
        from transformers import BertConfig, BertModel

        config = BertConfig(
            **{k: v for k, v in self.config.items() if k not in ("architectures", "torch_dtype")}
        )
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            bert = BertModel(config, add_pooling_layer=False)
            missing, _ = bert.load_state_dict(self.weights, strict=False)
            lost = [name for name in missing if "position_ids" not in name]
            if lost:
                raise ValueError(f"minilm: expected all weights of the network, got none of {lost[:3]}")
            if self.setting.lora:
                from peft import LoraConfig, get_peft_model

                bert = get_peft_model(bert, LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value"]))
            return Classifier(bert, config.hidden_size, self.classes).to(self.device)

    def passages(self, seed: int) -> tuple[Tensor, Tensor]:
        """Draw the rows to train on and those to watch: in all so many of each class."""
        random = torch.Generator().manual_seed(seed)
        watched = max(1, round(WATCHED * self.setting.each))
        drawn = [
            [rows[torch.randperm(len(rows), generator=random)[:many].to(rows.device)] for rows in pool]
            for pool, many in ((self.pools[0], self.setting.each - watched), (self.pools[1], watched))
        ]
        return torch.cat(drawn[0]), torch.cat(drawn[1])

    @torch.no_grad()
    def scores(self, model: nn.Module, rows: Tensor) -> Tensor:
        training = model.training
        model.eval()
        found = torch.cat([model(self.x[part]) for part in rows.split(512)])
        model.train(training)
        return found.float()


def calibration_error(scores: Tensor, y: Tensor) -> float:
    """Return the expected calibration error: |confidence − accuracy|, over bins of equal width."""
    sure, said = scores.softmax(-1).max(-1)
    right = (said == y).float()
    bins = (sure * BINS).long().clamp(max=BINS - 1)
    gap = torch.zeros(BINS, device=y.device).index_add_(0, bins, sure - right)
    return float(gap.abs().sum() / len(y))


def _plain(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    loss = cross_entropy(model(x), y)
    loss.backward()
    return loss


def _passes(model: nn.Module, x: Tensor, y: Tensor) -> Callable[..., Tensor]:
    """Return what makes a pass: captured, since a small network waits for its host most of the time."""
    passes = Captured(
        model, lambda scores, y, _: cross_entropy(scores, y), x, y, [len(x), max(1, len(x) // 16)],
        compiled=False, mixed=False,
    )  # fmt: skip
    return lambda model, x, y: passes(model, x, y, 0.0)


def train(
    bench: Bench, method: str, values: Choice, seed: int, *, trial: bool = False, few: int = 0
) -> dict[str, Any]:
    """Make one run. A trial trains without what is watched, and is judged by that."""
    row, setting, cuda = ROWS[method], bench.setting, bench.device == "cuda"
    rows, watched = bench.passages(seed)
    if not (row.watches or trial):
        rows = torch.cat((rows, watched))
    if row.few > 1:
        each = max(row.few, -(-len(watched) // MOST))
        few_of = torch.arange(len(watched), device=watched.device) % each == 0
        rows, watched = torch.cat((rows, watched[~few_of])), watched[few_of]
    batch = BATCH[setting.each]
    grads = EPOCHS[setting.each] * max(1, setting.each * bench.classes // batch)
    steps = max(20, int((few or grads) / row.cost))
    torch.manual_seed(seed)
    model = bench.network(seed)
    params = [p for p in model.parameters() if p.requires_grad]
    base = torch.optim.AdamW(params, values.lr, weight_decay=values.decay, fused=cuda)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(model(x), y)

    opt: Any = base
    if method == "sam":
        opt = SAM(base, model, values.strength)
    elif method.startswith(("gap", "gate")):
        held_out = bench.x[watched], bench.y[watched]
        gate = {} if row.few > 1 else {"gate": None}
        opt = GapSAM(base, model, lambda: loss_of(*held_out), steps, strength=values.strength or 1.0, **gate)

    run = _passes(model, bench.x[rows[:batch]], bench.y[rows[:batch]]) if cuda else _plain
    random = torch.Generator().manual_seed(seed)
    order, best = rows[:0], (math.inf, 0, None)
    k, done, trained, clock = 0, 0.0, 0.0, time.perf_counter()
    while steps - done >= 1:
        if done >= row.back * steps and opt.validation is not None:
            opt.validation, rows = None, torch.cat((rows, watched))
        if len(order) < batch:
            order = rows[torch.randperm(len(rows), generator=random).to(rows.device)]
        picked, order = order[:batch], order[batch:]
        for group in opt.param_groups:
            group["lr"] = values.lr * min(1.0, (done + 1) / max(1, 0.1 * steps)) * (1 - done / steps)
        x, y = bench.x[picked], bench.y[picked]
        if opt is base:
            base.zero_grad()
            run(model, x, y)
        else:
            for piece in opt.passes((x, y)):
                opt.record_loss(run(model, *piece))
        opt.step()
        k += 1
        done = opt.gradients if row.back < 1 else k  # what it spends is not known before
        if method == "early" and k * LOOKS // steps > (k - 1) * LOOKS // steps:
            held_out = float(cross_entropy(bench.scores(model, watched), bench.y[watched]))
            if held_out < best[0]:
                best = held_out, k, copy.deepcopy(model.state_dict())
    if best[2] is not None:
        model.load_state_dict(best[2])
    if cuda:
        torch.cuda.synchronize()
    trained += time.perf_counter() - clock
    judged = watched if trial else bench.test
    scores, y = bench.scores(model, judged), bench.y[judged]
    loss = float(cross_entropy(scores, y))
    record: dict[str, Any] = {
        "lr": values.lr, "decay": values.decay, "strength": values.strength, "steps": k,
        "probed": getattr(opt, "perturbed", 0), "seconds": round(trained, 3),
        "accuracy": round(float((scores.argmax(-1) == y).float().mean()), 5),
        "loss": round(loss, 5) if math.isfinite(loss) else None,
        "calibration": round(calibration_error(scores, y), 5),
    }  # fmt: skip
    if method == "early":
        record["stopped"] = best[1]
    if not trial and math.isfinite(loss):
        some = bench.test[torch.arange(0, len(bench.test), max(1, len(bench.test) // 512))]
        record["robustness"] = table(robustness(model, cross_entropy, (bench.x[some], bench.y[some])))
    return record
