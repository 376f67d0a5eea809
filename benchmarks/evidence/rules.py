"""Rules that set the strength of a probe by themselves, beside fixed strengths; prints a table.

    python -m benchmarks.evidence.rules mnist1d --lr 0.3 --seeds 8
    python -m benchmarks.evidence.rules fashion:4000 --data fashion.npz --rules sgd gap-slope-rising:0.5

A perceptron with two hidden layers of 100 under SGD with momentum 0.9, 4 000 gradients of batches of 100, the
probe (1/16 of the batch) counted; 200 training examples (or 2 %) are kept aside for the rules that need them.
All seeds run at once, each with its own weights, order and strength. It is apart from `steepen.torch`, so
that a rule can be tried in a line of `target` or `measure`.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np
import torch
from benchmarks.evidence.data import load_data
from torch import Tensor
from torch.nn.functional import cross_entropy

GRADS, BATCH, FLOOR = 4000, 100, 0.02
RULES = [
    "sgd", "smooth:0.1",  # label smoothing
    "rho:0.2", "rho:0.6",  # fixed
    "gap:0.333",  # a third of the gap, the rise as f_B(x + s) − f_b(x)
    "gap-slope:0.333", "gap-slope:0.6", "gap-slope-rising:0.5", "gap-slope-rising:1",  # the rise as ⟨s, d⟩/2
    "fall:0.1", "fall-rising:0.2",  # of the training loss, since the first epoch
    "noise:1",  # Takeuchi's estimate of the gap
    "cosine:0.5", "relative:0.5",  # 1 − cos(g_b, d); the rise over the training loss
]  # fmt: skip


def load(name: str, path: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if name == "mnist1d":
        return tuple(load_data("mnist1d"))  # pyright: ignore
    with np.load(path) as file:
        x, y, xt, yt = (torch.from_numpy(file[key]) for key in ("x_train", "y_train", "x_test", "y_test"))
    x, xt = (part.flatten(1).float() / 255 for part in (x, xt))
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[: int(name.split(":")[1])]
    mean, std = x[rows].mean(), x[rows].std()
    return (x[rows] - mean) / std, y[rows], (xt - mean) / std, yt


def weights(inputs: int, seeds: int) -> list[Tensor]:
    """Make the weights of torch's Linear, a network for each seed."""
    made: list[list[Tensor]] = []
    for seed in range(seeds):
        torch.manual_seed(seed)
        layers = [torch.nn.Linear(a, b) for a, b in ((inputs, 100), (100, 100), (100, 10))]
        made.append([p for layer in layers for p in (layer.weight.detach().T, layer.bias.detach()[None])])
    return [torch.stack(ps).requires_grad_() for ps in zip(*made, strict=True)]


def losses(ws: list[Tensor], x: Tensor, y: Tensor, smooth: float = 0.0) -> tuple[Tensor, Tensor]:
    """Return the loss of each example, and the accuracy, of each network on its own batch."""
    for i in (0, 2, 4):
        x = torch.baddbmm(ws[i + 1], x, ws[i])
        x = x.relu() if i < 4 else x
    each = cross_entropy(x.flatten(0, 1), y.flatten(), reduction="none", label_smoothing=smooth)
    return each.view(y.shape), (x.argmax(2) == y).float().mean(1)


def inner(a: Any, b: Any) -> Tensor:
    return sum((s * t).sum((1, 2)) for s, t in zip(a, b, strict=True))  # pyright: ignore


class Rule:
    """What a rule knows; all are one number a seed."""

    def __init__(self, text: str, seeds: int, examples: int, share: int) -> None:
        self.name, *numbers = text.split(":")
        self.numbers = [float(one) for one in numbers]
        self.examples, self.share = examples, share
        self.rho = torch.full((seeds,), self.numbers[0] if self.name == "rho" else 0.05)
        self.gap = torch.zeros(seeds)
        self.reports = 0
        self.first = torch.full((seeds,), math.nan)  # the training loss at the end of the first epoch
        self.means: dict[str, Tensor] = {}

    def mean(self, name: str, value: Tensor, rate: float = 0.03) -> Tensor:
        old = self.means.get(name, value)
        self.means[name] = old + rate * (value - old)
        return self.means[name]

    def report(self, held_out: Tensor) -> None:
        gap = held_out - self.means["train"]
        self.gap = gap if self.reports == 0 else 0.7 * self.gap + 0.3 * gap
        self.reports += 1
        self.first = torch.where(self.first.isnan(), self.means["train"], self.first)

    def target(self, t: Tensor) -> Tensor:
        """Return what the measure is steered to; there is no probe where it is below the floor."""
        zero = torch.zeros_like(self.rho)
        if self.name in ("sgd", "smooth"):
            return zero
        if self.name == "rho":
            return zero + (t >= (self.numbers[1] if len(self.numbers) > 1 else 0)).float()
        part = self.numbers[0] * t if self.name.endswith("rising") else self.numbers[0]
        if self.name.startswith("gap"):
            return part * self.gap
        if self.name.startswith("fall"):  # of the training loss since the end of the first epoch
            return part * (self.first - self.means.get("train", zero)).nan_to_num(0)
        if self.name == "noise":  # Takeuchi: gap = tr(C·H⁻¹)/n, with the curvature along g_b for H
            return self.numbers[0] * self.means.get("takeuchi", zero + 1)
        return zero + self.numbers[0]  # cosine, relative: a constant

    def measure(self, fb: Tensor, fplus: Tensor, own: Tensor, gb: Tensor, d: Tensor, gd: Tensor) -> Tensor:
        """From the losses f_b(x), f_B(x + s) and f_b(x + s), ‖g_b‖, ‖d‖ and ⟨g_b, d⟩."""
        slope = self.rho * gd / gb  # ⟨s, d⟩
        curve = (2 * (own - fb - self.rho * gb) / self.rho**2).clamp(min=1e-6)
        # ‖g_b‖² = ‖g‖² + tr(C)/b, and ⟨g_b, g_B⟩ = ‖g‖² + tr(C)/B, as b is a part of B
        noise = (gb * gb - gd + self.rho * gb * curve).clamp(min=0) / (1 / self.share - 1 / BATCH)
        noise, curve = self.mean("noise", noise), self.mean("curve", curve)
        self.means["takeuchi"] = noise / (self.examples * curve)
        if "slope" in self.name or self.name.startswith(("fall", "noise")):
            return slope / 2
        if self.name == "cosine":
            return 1 - gd / (gb * d)
        if self.name == "relative":
            return slope / 2 / self.means["train"]
        return fplus - fb

    def steer(self, measured: Tensor, target: Tensor, on: Tensor) -> None:
        if self.name in ("sgd", "rho", "smooth"):
            return
        mean = self.mean("measure", torch.where(on, measured, self.means.get("measure", measured)))
        move = torch.where(on, ((target - mean) / target).clamp(-1, 1), 0.0)
        self.rho = (self.rho * (0.02 * move).exp()).clamp(1e-4, 10)


def run(text: str, data: Any, seeds: int, lr: float, decay: float, share: int) -> Any:
    x, y, xt, yt = data
    name = text.split(":")[0]
    aside = (200 if len(x) <= 4000 else len(x) // 50) * name.startswith("gap")
    smooth = float(text.split(":")[1]) if name == "smooth" else 0.0
    n = len(x) - aside
    ws = weights(x.shape[1], seeds)
    buffers = [torch.zeros_like(w) for w in ws]
    rule = Rule(text, seeds, n, share)
    draws = [torch.Generator().manual_seed(1000 + s) for s in range(seeds)]
    held = torch.stack([torch.randperm(len(x), generator=g) for g in draws])
    gauge, rows = held[:, :aside], held[:, aside:]
    spent, probed, history = torch.zeros(seeds), torch.zeros(seeds), []
    column = (seeds, 1, 1)
    step = 0
    while True:
        t = spent / GRADS
        if (t >= 1).all():
            break
        epoch, place = divmod(step, n // BATCH)
        if place == 0:
            order = torch.stack([torch.randperm(n, generator=g) for g in draws])
            rows = rows.gather(1, order)
            if epoch:
                with torch.no_grad():
                    xs, ys = (x[gauge], y[gauge]) if aside else (x[rows[:, :1]], y[rows[:, :1]])
                    rule.report(losses(ws, xs, ys)[0].mean(1))
                now = rule.gap, rule.rho, rule.means.get("measure", rule.rho), rule.means["train"]
                history.append([one.mean().item() for one in now])
        at = rows[:, place * BATCH : (place + 1) * BATCH]
        xb, yb = x[at], y[at]
        target = rule.target(t)
        on = target >= (0 if name in ("rho", "cosine", "noise") else FLOOR)
        on &= target > 0
        if on.any():
            fb = losses(ws, xb[:, :share], yb[:, :share])[0].mean(1)
            gb = torch.autograd.grad(fb.sum(), ws)
            size = inner(gb, gb).sqrt()
            rule.mean("train", fb.detach())
            c = torch.where(on, rule.rho / size, 0.0).view(column)
            old = [w.detach().clone() for w in ws]
            with torch.no_grad():
                for w, g in zip(ws, gb, strict=True):
                    w.add_(c * g)
            each, _ = losses(ws, xb, yb)
            fplus, own = each.mean(1), each[:, :share].mean(1).detach()
            d = torch.autograd.grad(fplus.sum(), ws)
            with torch.no_grad():
                for w, o in zip(ws, old, strict=True):
                    w.copy_(o)
                measured = rule.measure(fb, fplus, own, size, inner(d, d).sqrt(), inner(gb, d))
                rule.steer(measured, target, on)
        else:
            f = losses(ws, xb, yb, smooth)[0].mean(1)
            d = torch.autograd.grad(f.sum(), ws)
            rule.mean("train", f.detach())
        rise = (spent / (0.05 * GRADS)).clamp(max=1)
        rate = lr * torch.where(rise < 1, rise + 1 / (0.05 * GRADS), 0.5 * (1 + torch.cos(math.pi * t)))
        rate = torch.where(t < 1, rate, 0.0).view(column)
        with torch.no_grad():
            for w, b, g in zip(ws, buffers, d, strict=True):
                b.mul_(0.9).add_(g + decay * w)
                w.sub_(rate * b)
        live = (t < 1).float()
        spent += live * (1 + on.float() * share / BATCH)
        probed += live * on.float()
        step += 1
    with torch.no_grad():
        parts = [
            losses(ws, xs.expand(seeds, -1, -1), ys.expand(seeds, -1))
            for xs, ys in zip(xt[None].split(2000, 1), yt[None].split(2000, 1), strict=True)
        ]
    loss = torch.cat([each for each, _ in parts], 1).mean(1)
    accuracy = torch.stack([right for _, right in parts]).mean(0)
    return accuracy * 100, loss, (probed / step), rule.rho, history


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("task", help="mnist1d, or fashion:N with --data")
    parser.add_argument("--data", default="fashion.npz", help="x_train, y_train, x_test, y_test")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--decay", type=float, default=1e-3)
    parser.add_argument("--share", type=int, default=6, help="examples of the probe, of a batch of 100")
    parser.add_argument("--history", action="store_true")
    parser.add_argument("--rules", nargs="+", default=RULES)
    given = parser.parse_args()
    torch.set_num_threads(1)
    data, base = load(given.task, given.data), None
    print(f"{given.task}, {given.seeds} seeds, {given.lr=}, {given.decay=}, {given.share=}", flush=True)
    for text in given.rules:
        begun = time.perf_counter()
        accuracy, loss, on, rho, history = run(text, data, given.seeds, given.lr, given.decay, given.share)
        base = base or (accuracy, loss)

        def paired(one: Tensor, other: Tensor, digits: int) -> str:
            change, error = one - other, (one - other).std() / len(one) ** 0.5
            return f"{one.mean():.{digits}f} ({change.mean():+.{digits}f} ± {error:.{digits}f})"

        took = time.perf_counter() - begun
        print(
            f"{text:24} {paired(accuracy, base[0], 2):26} {paired(loss, base[1], 3):26} "
            f"on {on.mean():.2f}  ρ {rho.mean():.3f}  {took:.0f} s",
            flush=True,
        )
        if given.history:
            for row in history[:: max(1, len(history) // 8)]:
                print("   gap {:.3f} ρ {:.3f} measure {:.3f} train {:.3f}".format(*row))


if __name__ == "__main__":
    main()
