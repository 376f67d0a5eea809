"""Cost of a step of each method of steepen.torch, in time and memory, over a step of its base optimizer.

Exact products stand beside torch's own double backward, written by hand. Needs torch alone:

    python -m benchmarks.torch_family_cost            # ResNet-18 and a GPT-2 of 124 million parameters, bf16
    python -m benchmarks.torch_family_cost --quick    # small shapes, a few seconds on a CPU

Methods take turns in blocks of steps. A ratio is the median over the rounds of ratios within one, with its
quartiles. On a CPU the passes are in float32, and there is no memory to report.
"""

from __future__ import annotations

import argparse
import copy
import gc
import itertools
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from steepen.torch import CGD, EGR, SAM

LAM = 1e-3


class Block(nn.Module):
    """A residual block of two 3×3 convolutions."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        short = nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
        self.short = nn.Identity() if before == after and stride == 1 else nn.Sequential(*short)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(out)) + self.short(x))


def resnet18(width: int) -> nn.Module:
    """Return ResNet-18 for images of 32×32."""
    sizes = [width, width, 2 * width, 4 * width, 8 * width]
    blocks = [
        Block(before if i == 0 else after, after, 2 if i == 0 and k else 1)
        for k, (before, after) in enumerate(itertools.pairwise(sizes))
        for i in range(2)
    ]
    stem = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10))


class Layer(nn.Module):
    """A layer of a transformer, with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, length, width))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class GPT(nn.Module):
    """A GPT-2 with tied embeddings."""

    def __init__(self, words: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        out = self.layers(self.words(x) + self.places.weight[: x.shape[1]])
        return F.linear(self.norm(out), self.words.weight).flatten(0, 1)


class Task(NamedTuple):
    """A network and a batch."""

    model: nn.Module
    x: Tensor
    y: Tensor

    def loss(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss, in bf16 on a GPU."""
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.device.type == "cuda"):
            return F.cross_entropy(model(x), y.flatten())


Step = Callable[[], Any]


def tasks(device: torch.device, quick: bool) -> dict[str, Callable[[], Task]]:
    def resnet() -> Task:
        n, width = (16, 8) if quick else (512, 64)
        x = torch.randn(n, 3, 32, 32, device=device).to(memory_format=torch.channels_last)
        model = resnet18(width).to(device, memory_format=torch.channels_last)
        return Task(model, x, torch.randint(10, (n,), device=device))

    def gpt() -> Task:
        shape = (100, 32, 64, 4, 2) if quick else (50_304, 512, 768, 12, 12)
        x = torch.randint(shape[0], (32, shape[1]), device=device)
        return Task(GPT(*shape).to(device), x, x.roll(-1, 1))

    return {"ResNet-18, 512 images": resnet, "GPT-2 124M, 32 × 512 tokens": gpt}


def methods(task: Task) -> dict[str, Callable[[], Step]]:
    """Return what makes a step of each method, on a copy of the network."""

    def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = copy.deepcopy(task.model)
        return model, torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)

    def base() -> Step:
        model, opt = parts()

        def step() -> None:
            opt.zero_grad()
            task.loss(model, task.x, task.y).backward()
            opt.step()

        return step

    def ours(kind: Callable[..., Any], **options: Any) -> Step:
        model, sgd = parts()
        opt = kind(sgd, model, **options)
        return lambda: opt.step_on(partial(task.loss, model), task.x, task.y)

    def by_hand() -> Step:
        model, opt = parts()
        params = list(model.parameters())

        def step() -> None:
            opt.zero_grad()
            loss = task.loss(model, task.x, task.y)
            g = torch.autograd.grad(loss, params, create_graph=True)
            (loss + LAM * torch.stack([one.square().sum() for one in g]).sum()).backward()
            opt.step()

        return step

    lam: dict[str, Any] = {"lam": LAM}
    if task.x.is_cuda:
        lam["dtype"] = torch.bfloat16
    return {
        "base": base,
        "base, math attention": base,
        "SAM": partial(ours, SAM),
        "SAM, 1/16 of the batch": partial(ours, SAM, ascent_fraction=1 / 16),
        "ASAM": partial(ours, SAM, rho=0.5, adaptive=True),
        "GNP": partial(ours, SAM, alpha=0.8),
        "CGD by differences": partial(ours, CGD, **lam),
        "EGR, exact": partial(ours, EGR, lam=LAM),
        "CGD, exact, with the guard": partial(ours, CGD, lam=LAM, exact=True),
        "double backward by hand": by_hand,
    }


EXACT = ("base, math attention", "EGR, exact", "CGD, exact, with the guard", "double backward by hand")


def attention(name: str, step: Step) -> Step:
    """Return a step whose attention can be differentiated as often as the method does."""

    def with_math() -> None:
        with sdpa_kernel(SDPBackend.MATH):
            step()

    return with_math if name in EXACT else step


def clock(step: Step, times: int, device: torch.device) -> float:
    """Return the seconds of a step, over a block of them."""
    synchronise = torch.cuda.synchronize if device.type == "cuda" else lambda: None
    synchronise()
    start = time.perf_counter()
    for _ in range(times):
        step()
    synchronise()
    return (time.perf_counter() - start) / times


def peak(step: Step, device: torch.device) -> float:
    """Return the peak memory of a step, in GiB."""
    if device.type != "cuda":
        return float("nan")
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2**30


def measured(task: Task, device: torch.device, seconds: float, block: float) -> dict[str, Any]:
    """Return time, memory and ratio of each method that fits into memory."""
    rows: dict[str, Any] = {}
    for name, make in methods(task).items():  # memory: each alone
        try:
            rows[name] = {"GiB": peak(attention(name, make()), device)}
        except torch.OutOfMemoryError:
            print(f"  {name}: out of memory")
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    rounds: dict[str, list[float]] = {name: [] for name in rows}
    steps = {name: attention(name, make()) for name, make in methods(task).items() if name in rows}
    for step in steps.values():
        clock(step, 3, device)
    times = {name: max(1, round(block / clock(step, 2, device))) for name, step in steps.items()}
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or len(rounds["base"]) < 3:
        for name, step in steps.items():
            step()  # memory is still where the one before has left it
            rounds[name].append(clock(step, times[name], device))
    for name, row in rows.items():
        ratios = [ours / base for ours, base in zip(rounds[name], rounds["base"], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        row |= {"ms": statistics.median(rounds[name]) * 1e3, "ratio": middle, "rounds": len(ratios)}
        row |= {"low": low, "high": high}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small shapes")
    parser.add_argument("--seconds", type=float, default=45.0, help="time for each network, besides warm-up")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(f"torch {torch.__version__}, {where}")
    found: dict[str, Any] = {}
    for name, make in tasks(device, options.quick).items():
        print(f"\n{name}\n  {'':<28}{'ms':>9}{'/ base':>9}{'(quartiles)':>16}{'GiB':>8}")
        found[name] = measured(make(), device, *((1.0, 0.02) if options.quick else (options.seconds, 0.2)))
        for method, row in found[name].items():
            spread = f"({row['low']:.2f} to {row['high']:.2f})"
            print(f"  {method:<28}{row['ms']:9.2f}{row['ratio']:9.3f}{spread:>16}{row['GiB']:8.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
