"""Time and memory of a training step: the base optimizer, two bare passes, SAM's peers, and ours.

    python benchmarks/torch_step.py                       # on a GPU: bf16, the models of the bars
    python benchmarks/torch_step.py --quick               # small shapes, also on a CPU: does it run?
    python benchmarks/torch_step.py --before OLD/src      # with an older checkout beside it
    python benchmarks/torch_step.py --gate --only ResNet  # GapSAM with its gate open and closed: 40 s

Whole runs, with what GapSAM reads (the base, gate open, gate closed; CIFAR-100, some two minutes on an H200):
`python -m benchmarks.evidence timing --data DIR --device cuda --tasks cifar100-resnet --rows base,gate`.

Each row is a median over rounds in which all take turns, as a ratio to two bare passes (forward, backward,
forward, backward, one step of the base) and to one step of the base. In the rows that say "graphs" each pass
is one CUDA graph, as `torch.compile(mode="reduce-overhead")` makes them, and the ratio is to SGD with such a
pass: else a pass over 32 pictures may take as long as one over 512, as the host cannot launch it faster.
"""

from __future__ import annotations

import argparse
import copy
import gc
import importlib
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steepen.torch import CGD, MSAM, SAM, AscentOptimizer, GapSAM

sys.path.append(str(Path(__file__).parents[1]))
from benchmarks.evidence.networks import ResNet18

Pass = Callable[[nn.Module, Tensor, Tensor], Tensor]  # forwards and backwards
Problem = tuple[nn.Module, Pass, tuple[Tensor, Tensor]]
Step = Callable[[], None]
SHARE = 1 / 16


class MLP(nn.Sequential):
    """Four million parameters in six tensors of weights."""

    def __init__(self, width: int = 1024) -> None:
        sizes = [784, width, width, width, width, 10]
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(sizes):
            layers += [nn.Linear(a, b), nn.ReLU()]
        super().__init__(*layers[:-1])


class Layer(nn.Module):
    """One layer of the transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        )
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    """GPT-2 small: 124 million parameters, the output tied to the embedding."""

    def __init__(
        self, vocabulary: int = 50257, length: int = 1024, width: int = 768, depth: int = 12
    ) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, width // 64) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        return F.linear(self.norm(self.layers(x)), self.tokens.weight)


def problems(device: torch.device, quick: bool) -> dict[str, Callable[[], Problem]]:
    """Build each model with a pass and a batch."""

    def problem(model: nn.Module, x: Tensor, y: Tensor) -> Problem:
        def run(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
                out = model(x)
                loss = F.cross_entropy(out.flatten(0, -2), y.flatten())
            loss.backward()
            return loss

        return model, run, (x, y)

    def gpt2() -> Problem:
        model = GPT2(1000, 64, 128, 2) if quick else GPT2()
        vocabulary, length = (1000, 64) if quick else (50257, 1024)
        tokens = torch.randint(0, vocabulary, (4 if quick else 16, length), device=device)
        return problem(model.to(device), tokens, tokens.roll(-1, 1))

    def resnet() -> Problem:
        n, side = (8, 8) if quick else (512, 32)
        x = torch.randn(n, 3, side, side, device=device).to(memory_format=torch.channels_last)
        model = ResNet18(10, 8 if quick else 64).to(device, memory_format=torch.channels_last)
        return problem(model, x, torch.randint(0, 10, (n,), device=device))

    def mlp(n: int) -> Callable[[], Problem]:
        def build() -> Problem:
            x = torch.randn(n, 784, device=device)
            return problem(
                MLP(64 if quick else 1024).to(device), x, torch.randint(0, 10, (n,), device=device)
            )

        return build

    if quick:
        return {"GPT-2": gpt2, "ResNet-18": resnet, "MLP": mlp(64)}
    return {
        "GPT-2 124M, 16 × 1024": gpt2,
        "ResNet-18, batch 512": resnet,
        "MLP 4M, batch 4096": mlp(4096),
        "MLP 4M, batch 512": mlp(512),
    }


def graphed(model: nn.Module, run: Pass, batch: tuple[Tensor, Tensor]) -> Pass:
    """Make CUDA graphs of the pass over the batch, and of that over its share."""
    graphs: dict[int, tuple[Any, Tensor, list[Tensor | None]]] = {}
    side, n = torch.cuda.Stream(), len(batch[0])
    share = round(SHARE * n)
    for size in sorted(
        {n, max(2, share), max(1, share)}, reverse=True
    ):  # the integration before took one example
        x, y = (part[:size] for part in batch)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model.zero_grad()
                run(model, x, y)
            model.zero_grad()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = run(model, x, y)
        graphs[size] = graph, loss, [p.grad for p in model.parameters()]
        model.zero_grad()

    def replayed(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        graph, loss, grads = graphs[len(x)]
        graph.replay()
        for p, grad in zip(model.parameters(), grads, strict=True):
            p.grad = grad
        return loss

    return replayed


def sam_of_the_paper(base: torch.optim.Optimizer, closure: Callable[[], Tensor], rho: float = 0.05) -> Step:
    """Write SAM as its paper and the common implementations do: loops over the parameters."""
    params = [p for group in base.param_groups for p in group["params"]]

    def step() -> None:
        base.zero_grad()
        closure()
        with torch.no_grad():
            norms = [p.grad.norm(p=2) for p in params]
            scale = rho / (torch.norm(torch.stack(norms), p=2) + 1e-12)
            kept = [p.data.clone() for p in params]
            for p in params:
                p.add_(p.grad * scale)
        base.zero_grad()
        closure()
        with torch.no_grad():
            for p, x in zip(params, kept, strict=True):
                p.data = x
        base.step()

    return step


def methods(model: nn.Module, run: Pass, batch: tuple[Tensor, Tensor]) -> dict[str, Callable[[], Step]]:
    """Return what builds the steps to compare, each with an optimizer of its own on a copy of the model."""

    def sgd(net: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)

    def plain(passes: int = 1, *, graphs: bool = False) -> Step:
        net = copy.deepcopy(model)
        base, each = sgd(net), graphed(net, run, batch) if graphs else run

        def step() -> None:
            for _ in range(passes):
                base.zero_grad()
                each(net, *batch)
            base.step()

        return step

    def through_closure() -> Step:
        net = copy.deepcopy(model)
        base = sgd(net)
        return lambda: base.step(lambda: (base.zero_grad(), run(net, *batch))[1])

    def paper() -> Step:
        net = copy.deepcopy(model)
        return sam_of_the_paper(sgd(net), lambda: run(net, *batch))

    def ours(make: Callable[..., AscentOptimizer], *, graphs: bool = False, **options: Any) -> Step:
        net = copy.deepcopy(model)
        each = graphed(net, run, batch) if graphs else run
        opt = make(sgd(net), net, **options)

        def step() -> None:
            for part in opt.passes(batch):
                opt.record_loss(each(net, *part))
            opt.step()

        return step

    def gap_sam(*, gate_open: bool) -> Step:
        """Perturb every second step, or none, and read a loss in every hundredth, as in a long run."""
        net = copy.deepcopy(model)
        loss = torch.full((), 100.0 if gate_open else 2.5, device=batch[0].device)
        opt = GapSAM(sgd(net), net, lambda: loss, total_steps=5000)  # what is read is not timed

        def step() -> None:
            for part in opt.passes(batch):
                opt.record_loss(run(net, *part))
            opt.step()

        step()
        for _ in range(3):  # until the host knows whether there is a gap
            opt._look_at_numbers()
            opt._means.send()
        opt.k = 2501  # where ascent steps have begun
        return step

    on_gpu = next(model.parameters()).is_cuda
    lam: dict[str, Any] = {"lam": 0.01, "dtype": torch.bfloat16 if on_gpu else None}
    share: dict[str, Any] = {"rho": 0.05, "ascent_fraction": SHARE}
    found: dict[str, Callable[[], Step]] = {
        "SGD": plain,
        "SGD, by closure": through_closure,
        "two bare passes": partial(plain, 2),
        "SAM as in its paper": paper,
        "CGD": partial(ours, CGD, **lam),
        "our SAM": partial(ours, SAM, rho=0.05),
        "off": partial(ours, SAM, rho=0.05, when=range(1)),
        "share 1/16": partial(ours, SAM, **share),
        "GapSAM": partial(gap_sam, gate_open=True),
        "GapSAM, gate closed": partial(gap_sam, gate_open=False),
        "momentum ascent step": partial(ours, MSAM, rho=0.05),
    }
    if on_gpu:
        found["SGD, graphs"] = partial(plain, graphs=True)
        found["share 1/16, graphs"] = partial(ours, SAM, graphs=True, **share)
    if BEFORE is not None:
        found |= before(model, run, batch, sgd)
    return found | peers(model, run, batch)


BEFORE: Any = None  # steepen.torch of another checkout


def load_before(source: Path) -> Any:
    """Import steepen.torch of a checkout before the rebuild, under its own name, and put ours back."""
    ours = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "steepen"}
    sys.path.insert(0, str(source))
    try:
        return importlib.import_module("steepen.torch")
    finally:
        sys.path.remove(str(source))
        for name in [name for name in sys.modules if name.split(".")[0] == "steepen"]:
            del sys.modules[name]
        sys.modules.update(ours)


def before(
    model: nn.Module, run: Pass, batch: tuple[Tensor, Tensor], sgd: Callable[[nn.Module], Any]
) -> dict[str, Callable[[], Step]]:
    """Return the steps of the integration before the rebuild."""

    def old(kind: str, *, graphs: bool = False, **options: Any) -> Step:
        net = copy.deepcopy(model)
        each = graphed(net, run, batch) if graphs else run
        opt = getattr(BEFORE, kind)(sgd(net), model=net, **options)

        def closure() -> Tensor:
            opt.zero_grad()
            return each(net, *opt.part(batch))

        return lambda: opt.step(closure)

    share: dict[str, Any] = {"rho": 0.05, "ascent_fraction": SHARE}
    found: dict[str, Callable[[], Step]] = {
        "before: CGD": partial(old, "CGD", lam=0.01, dtype=torch.bfloat16),
        "before: SAM": partial(old, "SAM", rho=0.05),
        "before: share 1/16": partial(old, "CGD", **share),
    }
    if next(model.parameters()).is_cuda:
        found["before: share 1/16, graphs"] = partial(old, "CGD", graphs=True, replay=False, **share)
    return found


def peers(model: nn.Module, run: Pass, batch: tuple[Tensor, Tensor]) -> dict[str, Callable[[], Step]]:
    """Use pytorch_optimizer's SAM where it can be imported."""
    try:
        from pytorch_optimizer import SAM as PeerSAM
    except ImportError as error:
        print(f"pytorch_optimizer cannot be imported here ({error}): left out")
        return {}

    def build() -> Step:
        net = copy.deepcopy(model)
        optimizer = PeerSAM(net.parameters(), base_optimizer=torch.optim.SGD, rho=0.05, lr=1e-4, momentum=0.9)

        def step() -> None:
            run(net, *batch)
            optimizer.first_step(zero_grad=True)
            run(net, *batch)
            optimizer.second_step(zero_grad=True)

        return step

    return {"pytorch_optimizer's SAM": build}


def clock(device: torch.device, step: Step, times: int) -> float:
    """Give the seconds of one step, over a block of them."""
    if device.type != "cuda":
        start = time.perf_counter()
        for _ in range(times):
            step()
        return (time.perf_counter() - start) / times
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    for _ in range(times):
        step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / times


def measure(device: torch.device, steps: dict[str, Step], seconds: float) -> dict[str, list[float]]:
    """Let the methods take turns in blocks; the machine is noisy, and a ratio within one round is less so."""
    times = {}
    for name, step in steps.items():
        for _ in range(5):
            step()
        # enough for the host to get ahead of the device, as it does in a training
        times[name] = max(5, round(0.1 / clock(device, step, 3)))
    blocks: dict[str, list[float]] = {name: [] for name in steps}
    names = list(steps)
    start = time.perf_counter()
    turn = 0
    while time.perf_counter() - start < seconds or turn < 3:
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            for _ in range(3):  # not timed: memory is still where the one before has left it
                steps[name]()
            blocks[name].append(clock(device, steps[name], times[name]))
        turn += 1
    return blocks


def ratio(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """Give the median over the rounds of one time over another, and its standard error."""
    found = [a / b for a, b in zip(ours, theirs, strict=True)]
    return statistics.median(found), math.sqrt(math.pi / 2 / len(found)) * statistics.stdev(found)


GATE = ("SGD", "two bare passes", "off", "GapSAM", "GapSAM, gate closed")


ROWS = (  # whose memory is measured
    "CGD", "our SAM", "off", "share 1/16", "GapSAM", "GapSAM, gate closed", "momentum ascent step",
)  # fmt: skip


def memory(device: torch.device, build: Callable[[], Problem]) -> dict[str, float]:
    """Give the peak memory of a step over that of two bare passes, in copies of the parameters."""
    if device.type != "cuda":
        return {}
    peaks: dict[str, int] = {}
    size = 0
    torch.backends.cudnn.benchmark = False  # its work space differs from run to run
    for name in ("two bare passes", "two bare passes", *ROWS):  # the first to warm up
        model, run, batch = build()
        size = sum(p.numel() * p.element_size() for p in model.parameters())
        step = methods(model, run, batch)[name]()
        for _ in range(20):  # an optimizer that is off gives its room back after sixteen
            step()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(2):
            step()
        torch.cuda.synchronize()
        peaks[name] = torch.cuda.max_memory_allocated()
        del model, run, batch, step
        gc.collect()
        torch.cuda.empty_cache()
    torch.backends.cudnn.benchmark = True
    return {name: (peaks[name] - peaks["two bare passes"]) / size for name in ROWS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small shapes and few steps")
    parser.add_argument("--seconds", type=float, default=20.0, help="time for each model")
    parser.add_argument("--gate", action="store_true", help="only GapSAM, off, and what they are compared to")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    parser.add_argument("--before", type=Path, help="the source folder of a checkout before the rebuild")
    options = parser.parse_args()
    if options.before is not None:
        global BEFORE
        BEFORE = load_before(options.before.resolve())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    precision = "bf16 autocast" if device.type == "cuda" else "float32"  # many CPUs have no bf16, and crawl
    print(f"torch {torch.__version__}, {where}, {precision}")
    results: dict[str, Any] = {}
    for name, build in problems(device, options.quick).items():
        if options.only not in name:
            continue
        model, run, batch = build()
        count = sum(p.numel() for p in model.parameters())
        built = methods(model, run, batch)
        steps = {method: built[method]() for method in (GATE if options.gate else built)}
        seconds = measure(device, steps, 1.0 if options.quick else options.seconds * (1 + options.gate))
        del model, run, batch, built, steps
        gc.collect()
        extra = {} if options.gate else memory(device, build)
        print(f"\n{name} ({count / 1e6:.1f}M parameters)")
        print(f"  {'':<26}{'ms':>9}{'/ bare':>9}{'/ SGD':>9}{'±':>8}{'memory':>9}")
        for method, values in seconds.items():
            base = seconds["SGD, graphs" if "graphs" in method else "SGD"]
            copies = extra.get(method, math.nan)
            shown = "" if math.isnan(copies) else f"{copies:9.2f}"
            (to_bare, _), (to_base, error) = ratio(values, seconds["two bare passes"]), ratio(values, base)
            each = f"{statistics.median(values) * 1e3:9.3f}{to_bare:9.3f}{to_base:9.4f}{error:8.4f}"
            print(f"  {method:<26}{each}{shown}")
        results[name] = {"seconds": seconds, "copies": extra}
    print("\nmemory: peak over that of two bare passes, in copies of the parameters")
    print("bars: two passes / bare 1.03 (GPT-2), 1.06 (ResNet-18), 1.15 (MLP)")
    print("bars: off, gate closed / SGD 1.01, 1.01, 1.05")
    print("bars: share 1/16 / SGD 1.15 (GPT-2), 1.25 (ResNet-18, graphs); memory 2 (CGD), 1 (share), 0 (off)")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
