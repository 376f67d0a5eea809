"""A language model on few tokens for many epochs: the network, the rows, and one run of it.

Every row has as many gradients as the base, its ascent steps counted, and as many tokens at hand: GapSAM is
trained on the books that it watches in the last quarter only (one row: in the last half), and all other rows
throughout.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.evidence.captured import Captured
from benchmarks.evidence.methods import RETURNED
from benchmarks.evidence.robustness import Robustness, robustness
from torch import Tensor, nn
from torch.nn import functional as F

from steepen.torch import SAM, AscentOptimizer, GapSAM
from steepen.train.results import Choice

LOOKS = 16  # at validation and test, evenly over a run
WARMUP, MAX_NORM = 0.05, 1.0
MANUAL_STEPS, MANUAL_LR = 200, 1e-4  # of the fine-tuning that a network may forget by


@dataclass(frozen=True)
class Size:
    """A network and how long it is trained."""

    width: int
    depth: int
    heads: int
    length: int  # tokens of a line
    batch: int  # lines
    tokens: int  # at hand, those that GapSAM watches among them
    watched: int
    epochs: int
    judged: int  # tokens of the validation, and of the test
    lr: float = 1.0  # times what was chosen for the small one


SIZES = {
    "lm-small": Size(256, 6, 4, 256, 32, 256_000, 16_000, 28, 131_072),
    "lm-mild": Size(256, 6, 4, 256, 32, 800_000, 32_000, 12, 131_072),
    "lm-large": Size(512, 8, 8, 512, 32, 2_000_000, 64_000, 16, 131_072, lr=0.5),
    "lm-books": Size(512, 8, 8, 512, 32, 10_000_000, 130_000, 8, 131_072, lr=0.5),
    "lm-toy": Size(16, 2, 2, 16, 8, 2_048, 256, 4, 512),
}


class Layer(nn.Module):
    """One layer of a transformer, with the norms before, and dropout where there is any."""

    def __init__(self, size: Size, dropout: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        width = size.width
        self.heads, self.dropout = size.heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(seen.transpose(1, 2).reshape(b, t, c)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Dropout(nn.Module):
    """Dropout whose rate is a number on the device, so that one compiled network serves all rates."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rate", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x * (torch.rand_like(x) >= self.rate) / (1 - self.rate)


class GPT(nn.Module):
    """Predicts the next token at every place of a line."""

    def __init__(self, size: Size, vocabulary: int, dropout: bool) -> None:
        super().__init__()
        self.dropout = Dropout() if dropout else nn.Identity()
        self.tokens, self.places = nn.Embedding(vocabulary, size.width), nn.Embedding(size.length, size.width)
        self.layers = nn.Sequential(*(Layer(size, self.dropout) for _ in range(size.depth)))
        self.norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, vocabulary, bias=False)
        for name, p in self.named_parameters():
            if p.ndim > 1:
                inner = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * size.depth) if inner else 0.02)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(self.tokens(x) + self.places.weight[: x.shape[1]])
        return self.head(self.norm(self.layers(x)))


def cross_entropy(scores: Tensor, y: Tensor, _: Any = None) -> Tensor:
    return F.cross_entropy(scores.flatten(0, -2).float(), y.flatten())


class Both(torch.optim.Optimizer):
    """Two optimizers for two kinds of parameters, as one."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for part in self.parts:
            part.step()


def base_of(name: str, model: GPT, lr: float, decay: float) -> torch.optim.Optimizer:
    """Return AdamW, or torch's Muon for the matrices of the layers with AdamW for the rest."""
    fused = next(model.parameters()).is_cuda
    rest = [p for p in model.parameters() if p.ndim > 1]
    vectors = {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0}
    if name == "adamw":
        groups = [{"params": rest}, vectors]
        return torch.optim.AdamW(groups, lr, (0.9, 0.95), weight_decay=decay, fused=fused)
    matrices = [p for p in model.layers.parameters() if p.ndim > 1]
    muon = torch.optim.Muon(matrices, lr, decay, adjust_lr_fn="match_rms_adamw")
    groups = [{"params": [p for p in rest if all(p is not one for one in matrices)]}, vectors]
    return Both(muon, torch.optim.AdamW(groups, lr, (0.9, 0.95), weight_decay=decay, fused=fused))


# --- the rows ----------------------------------------------------------------------------------------


class LossBudget(AscentOptimizer):
    """An ascent step that raises the loss by σ to first order, ρ = σ/‖g‖: LE-SAM's budget."""

    def __init__(self, base: Any, model: Any, sigma: float, **options: Any) -> None:
        super().__init__(base, model, **options)
        self.sigma = sigma

    def _perturbation(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        return (self.sigma / (n * n)).minimum(0.1 * x() / n), None


class Inner:
    """An ascent step that leaves the embeddings and the head where they are."""

    model: Any

    def _movable(self) -> list[Tensor]:
        for p in (*self.model.tokens.parameters(), *self.model.places.parameters(), self.model.head.weight):
            p.grad = None
        return super()._movable()  # type: ignore[misc]


class InnerSAM(Inner, SAM):
    """SAM by the weights of the layers."""


class InnerGapSAM(Inner, GapSAM):
    """GapSAM by the weights of the layers."""


NONE = (0.0, 0.0)
Wrap = Callable[[Any, GPT, float, int, Any], Any]


@dataclass(frozen=True)
class Row:
    """One way to train; `cost` is the gradients of a step, in the mean over the run."""

    name: str
    strengths: tuple[float, float] = NONE
    wrap: Wrap | None = None  # base, model, strength, steps, what to watch
    cost: float = 1.0
    like: str = ""  # whose trials it takes, without any of its own
    stopped: bool = False  # by the trial whose validation was lowest on its way, not at its end
    watches: bool = False  # some books, which are not trained on
    few: bool = False  # tokens of these, and trains on the rest of them
    back: float = 1.0  # the part of the run after which it trains on all of them


def late(steps: int, part: float) -> range:
    return range(steps - round(part * steps), steps)


def _sam_late(base: Any, model: GPT, rho: float, steps: int, _: Any) -> Any:
    return SAM(base, model, rho, when=late(steps, 0.25), max_norm=MAX_NORM)


def _inner_sam_late(base: Any, model: GPT, rho: float, steps: int, _: Any) -> Any:
    return InnerSAM(base, model, rho, when=late(steps, 0.25), max_norm=MAX_NORM)


def _tenth(base: Any, model: GPT, rho: float, steps: int, _: Any) -> Any:
    return SAM(base, model, 10 * rho, when=range(0, steps, 10), max_norm=MAX_NORM)


def _budget(base: Any, model: GPT, sigma: float, steps: int, _: Any) -> Any:
    return LossBudget(base, model, sigma, max_norm=MAX_NORM)


def _share(base: Any, model: GPT, rho: float, steps: int, _: Any) -> Any:
    return SAM(base, model, rho, ascent_fraction=1 / 16, when=late(steps, 0.5), max_norm=MAX_NORM)


def _rule(base: Any, model: GPT, strength: float, steps: int, watch: Any) -> Any:
    return GapSAM(base, model, watch, steps, strength=strength or 1.0, gate=None, max_norm=MAX_NORM)


def _gate(base: Any, model: GPT, _: float, steps: int, watch: Any) -> Any:
    return GapSAM(base, model, watch, steps, max_norm=MAX_NORM)


def _rule_ema(base: Any, model: GPT, _: float, steps: int, watch: Any) -> Any:
    return _rule(base, model, 1.0, steps, watch)


def _inner_rule(base: Any, model: GPT, strength: float, steps: int, watch: Any) -> Any:
    return InnerGapSAM(base, model, watch, steps, strength=strength or 1.0, gate=None, max_norm=MAX_NORM)


FEW = (4_000, 8_000)  # tokens that suffice to watch, of few tokens in all and of many
RHO, EMA, STRENGTH, RULE = (0.05, 0.2), (0.99, 0.996), (0.5, 2.0), 1 + 1 / 48
ROWS = {
    "base": Row("base"),
    "base-less": Row("base, without what GapSAM watches", like="base", watches=True, few=True),
    "gate": Row(
        "GapSAM, settings of the base", NONE, _gate, like="base", watches=True, few=True, back=RETURNED
    ),
    "gate-half": Row(
        "the same, watching until the half", NONE, _gate, like="base", watches=True, few=True, back=0.5
    ),
    "early": Row("base, stopped early", like="base", stopped=True),
    "shorter": Row("base, fewer epochs", (0.25, 0.5)),
    "dropout": Row("base + dropout", (0.1, 0.3)),
    "ema": Row("base + EMA", EMA),
    "sam-late": Row("SAM, last quarter", RHO, _sam_late, 1.25),
    "sam-tenth": Row("SAM, every tenth step, 10 ρ", (0.01, 0.05), _tenth, 1.1),
    "le-sam": Row("LE-SAM's loss budget", (0.1, 0.35), _budget, 2.0),
    "share16-late": Row("SAM, 1/16 of the batch, last half", (0.1, 0.3), _share, 1 + 1 / 32),
    "gap": Row("GapSAM before its gate", STRENGTH, _rule, RULE, watches=True),
    "gap-ema": Row("GapSAM before its gate + EMA", EMA, _rule_ema, RULE, watches=True),
    "gap-base": Row(
        "GapSAM before its gate, settings of the base", NONE, _rule, RULE, like="base", watches=True
    ),
    "sam-late-inner": Row("SAM, last quarter, inner weights", RHO, _inner_sam_late, 1.25),
    "gap-inner": Row("GapSAM before its gate, inner weights", STRENGTH, _inner_rule, RULE, watches=True),
}
LR, DECAY = {"adamw": (1e-3, 2e-3), "muon": (2.5e-4, 5e-4)}, (0.4, 1.6)


# --- one run -----------------------------------------------------------------------------------------


class Bench:
    """The tokens and the networks of one size on a device, kept for all runs of a process."""

    def __init__(self, name: str, folder: Path, device: str) -> None:
        self.size, self.device = SIZES[name], device
        path = folder / "tokens.npz"
        if not path.exists():
            raise ValueError(f"corpus: there is no {path}; make it by corpus.py")
        size = self.size
        with np.load(path) as parts:
            need = {
                "train": size.tokens - size.watched, "watched": size.watched, "validation": size.judged,
                "test": size.judged, "manual": 10 * size.batch * size.length,
            }  # fmt: skip
            for part, many in need.items():
                if len(parts[part]) < many:
                    raise ValueError(
                        f"corpus: too small for {name}: expected {many} tokens in {part!r}, "
                        f"got {len(parts[part])}"
                    )
            every = {part: torch.from_numpy(parts[part].astype(np.int64)).to(device) for part in need}
            self.vocabulary = 1 + max(int(part.max()) for part in every.values())
        self.every = {part: every[part][:many] for part, many in need.items()} | {"manual": every["manual"]}
        self.networks: dict[bool, tuple[GPT, Any]] = {}

    def network(self, dropout: bool, seed: int) -> tuple[GPT, Any]:
        """Return a network with new weights, and what runs a pass: captured once, on a GPU."""
        new = self._new(dropout, seed)
        if self.device != "cuda":
            return new, _plain
        if dropout not in self.networks:
            model, size = self._new(dropout, seed), self.size
            lines = self.every["train"][: size.batch * size.length].view(size.batch, size.length)
            sizes = [size.batch] if dropout else [size.batch, max(2, size.batch // 16)]
            self.networks[dropout] = model, Captured(model, cross_entropy, lines, lines, sizes, compiled=True)
        model, passes = self.networks[dropout]
        model.load_state_dict(new.state_dict())
        model.zero_grad()
        return model.train(), lambda model, x, y: passes(model, x, y, 0.0)

    def _new(self, dropout: bool, seed: int) -> GPT:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return GPT(self.size, self.vocabulary, dropout).to(self.device)

    def lines(self, tokens: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        found = tokens[starts[:, None] + torch.arange(self.size.length + 1, device=tokens.device)]
        return found[:, :-1].contiguous(), found[:, 1:].contiguous()

    def batches(self, tokens: Tensor, seed: int) -> Any:
        """Yield minibatches without end: every epoch cut at other places, in another order."""
        size, random = self.size, torch.Generator().manual_seed(seed)
        while True:
            first = int(torch.randint(size.length, (), generator=random))
            many = (len(tokens) - 1 - first) // size.length
            starts = first + size.length * torch.randperm(many, generator=random).to(tokens.device)
            for part in starts.split(size.batch):
                if len(part) == size.batch:
                    yield self.lines(tokens, part)

    def in_order(self, tokens: Tensor, most: int = 10**9) -> list[tuple[Tensor, Tensor]]:
        many = min((len(tokens) - 1) // self.size.length, most)
        starts = self.size.length * torch.arange(many, device=tokens.device)
        return [self.lines(tokens, part) for part in starts.split(2 * self.size.batch)]

    def autocast(self) -> Any:
        return torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda")

    @torch.no_grad()
    def judge(self, model: GPT, batches: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Return the mean loss, on the device: nobody waits for it."""
        training = model.training
        model.eval()
        with self.autocast():
            values = torch.stack([cross_entropy(model(x), y) * len(x) for x, y in batches])
        model.train(training)
        return values.sum() / sum(len(x) for x, _ in batches)


def _plain(model: GPT, x: Tensor, y: Tensor) -> Tensor:
    loss = cross_entropy(model(x), y)
    loss.backward()
    return loss


def rate(k: float, steps: int) -> float:
    """Return the learning rate over its peak: a short warm-up, then a cosine to zero."""
    warm = max(1, round(WARMUP * steps))
    return (k + 1) / warm if k < warm else 0.5 * (1 + math.cos(math.pi * (k - warm) / max(1, steps - warm)))


def train(
    bench: Bench, optimizer: str, method: str, values: Choice, seed: int, *, whole: bool = True
) -> dict[str, Any]:
    """Make one run; `whole` measures what becomes of the network afterwards too."""
    row, size, cuda = ROWS[method], bench.size, bench.device == "cuda"
    tokens, watch = bench.every["train"], bench.every["watched"]
    used = 0 if not row.watches else FEW[size.tokens > 500_000] if row.few else len(watch)
    tokens, watch, every = torch.cat((tokens, watch[used:])), watch[:used], torch.cat((tokens, watch))
    grads = size.epochs * (size.tokens // (size.batch * size.length))
    grads = grads * values.strength if method == "shorter" else grads
    steps = int(grads / row.cost)
    model, run = bench.network(method == "dropout", seed)
    if method == "dropout":
        model.dropout.rate.fill_(values.strength)
    base = base_of(optimizer, model, values.lr * size.lr, values.decay)
    watched = bench.in_order(watch) if used else []
    opt = base
    if row.wrap is not None:
        opt = row.wrap(base, model, values.strength, steps, lambda: bench.judge(model, watched))
    beta = values.strength if method in ("ema", "gap-ema") else 0.0
    average = copy.deepcopy(model) if beta else model
    judged = [bench.in_order(bench.every[name]) for name in ("validation", "test")]
    peaks = [group["lr"] for group in opt.param_groups]
    some = max(1, 65_536 // judged[1][0][0].numel())  # batches of the test that rounding is judged by
    trained, curve, way, training = 0.0, [], [], torch.zeros((), device=bench.device)
    k, done, batches = 0, 0.0, bench.batches(tokens, seed)
    clock = time.perf_counter()
    while steps - done >= 1:
        if done >= row.back * steps and opt.validation is not None:
            opt.validation, batches = None, bench.batches(every, seed)
        x, y = next(batches)
        for group, peak in zip(opt.param_groups, peaks, strict=True):
            group["lr"] = peak * rate(done, steps)
        if opt is base:
            base.zero_grad()
            loss = run(model, x, y)
            nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        else:
            for piece in opt.passes((x, y)):
                loss = run(model, *piece)
                opt.record_loss(loss)
        opt.step()
        k, before = k + 1, done
        done = opt.gradients if row.back < 1 else k  # what it spends is not known before
        training.lerp_(loss.detach(), max(0.02, 1 / k))
        if beta:
            new = 1 - min(beta, k / (k + 1))  # the mean of all steps until these outweigh β
            with torch.no_grad():
                torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), new)
        if steps - done < 1 or done * LOOKS // steps > before * LOOKS // steps:
            if cuda:
                torch.cuda.synchronize()
            trained += time.perf_counter() - clock
            losses = [float(bench.judge(average, one)) for one in judged]
            curve.append([k * size.batch * size.length, *losses, float(training)])
            if whole and method == "base":  # so that others can be compared at an equal loss
                with bench.autocast():
                    way.append(table(robustness(model, cross_entropy, judged[1][:some])))
            clock = time.perf_counter()
            if not all(map(math.isfinite, losses)):
                break
    if cuda:
        torch.cuda.synchronize()
    trained += time.perf_counter() - clock
    report = opt.report() if isinstance(opt, AscentOptimizer) else None
    record: dict[str, Any] = {
        "lr": values.lr * size.lr, "decay": values.decay, "strength": values.strength,
        "steps": k, "gradients": round(report.gradients, 1) if report else k,
        "probed": report.perturbed if report else 0, "seconds": round(trained, 3),
    }  # fmt: skip
    at, validation, test, fitted = zip(*curve, strict=True)
    record |= {
        "at": list(at), "validations": _short(validation), "tests": _short(test), "trainings": _short(fitted),
        "validation": _short(validation)[-1], "test": _short(test)[-1],
    }  # fmt: skip
    if whole and record["test"] is not None:
        if average is not model:
            model.load_state_dict(average.state_dict())
        if method == "dropout":
            model.dropout.rate.fill_(0.0)
        record |= afterwards(bench, model, run, judged[1][:some])
        record |= {"way": way} if way else {}
    return record


def afterwards(bench: Bench, model: GPT, run: Any, test: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    """Measure what becomes of a trained network: rounded, disturbed, pruned, and fine-tuned on the manual."""
    with bench.autocast():
        found = robustness(model, cross_entropy, test)
    record: dict[str, Any] = {"robustness": table(found)}
    manual = bench.every["manual"]
    cut = len(manual) // 10
    own = bench.in_order(manual[:cut])
    record["manual"] = {"before": round(float(bench.judge(model, own)), 4)}
    adamw = torch.optim.AdamW(model.parameters(), MANUAL_LR, (0.9, 0.95), weight_decay=0.0)
    few = MANUAL_STEPS if bench.device == "cuda" else 5
    for _, (x, y) in zip(range(few), bench.batches(manual[cut:], 0), strict=False):
        adamw.zero_grad()
        run(model, x, y)
        adamw.step()
    record["manual"] |= {
        "after": round(float(bench.judge(model, own)), 4), "test": round(float(bench.judge(model, test)), 4)
    }  # fmt: skip
    return record


def table(found: Robustness) -> dict[str, float | None]:
    """Return losses by what was done to the weights."""
    done = {"loss": found.loss}
    done |= {f"{bits} bits": loss for bits, loss in found.rounded.items()}
    done |= {f"noise {size:g}": mean for size, (mean, _) in found.noisy.items()}
    done |= {f"pruned {part:g}": loss for part, loss in found.pruned.items()}
    return dict(zip(done, _short(list(done.values())), strict=True))


def _short(values: Sequence[float]) -> list[float | None]:
    return [round(value, 4) if math.isfinite(value) else None for value in values]
