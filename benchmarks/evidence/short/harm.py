"""Does GapSAM do harm where nothing overfits? Around the optimizer of airbench, a fast recipe for CIFAR-10.

DIR, the folder of the data, holds a clone of github.com/KellerJordan/cifar10-airbench, yours to fetch, and
its folder cifar10. Network, loader, augmentation, whitening, look-ahead and all numbers are airbench's; only
the loop is written here, so that a step may have two passes. The base is the same loop without GapSAM; a
third row is GapSAM before its gate. All have as many gradients. GapSAM watches 500 of the training images,
and is trained on these for the last epochs only. They take turns, seed by seed, and want a GPU of their own,
since their seconds are compared.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.evidence.methods import RETURNED
from benchmarks.evidence.runner import Study
from torch.nn import functional as F

from steepen.torch import GapSAM

WATCHED = 500
METHODS = ("base", "gate", "gap")


def recipe(target: str) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return airbench's tools, the numbers that it trains by, and how it loads its images."""
    tools, own = (importlib.import_module(f"airbench.{name}") for name in ("utils", f"lib_airbench{target}"))
    given: dict[str, Any] = {}
    for function in (tools.train, getattr(own, f"train{target}")):
        parameters = inspect.signature(function).parameters.values()
        given |= {one.name: one.default for one in parameters if one.default is not one.empty}
    return tools, given, {"batch_size": own.hyp["opt"]["batch_size"], "aug": own.hyp["aug"], "altflip": True}


def train(target: str, method: str, seed: int, few: int = 0) -> dict[str, Any]:
    """Make one run."""
    tools, given, loading = recipe(target)
    torch.manual_seed(seed)
    loader, whole = (tools.CifarLoader("cifar10", train=True, **loading) for _ in range(2))
    test = tools.CifarLoader("cifar10", train=False, batch_size=2000)
    steps = few or math.ceil(len(loader) * given["epochs"])
    watched: Any = None
    if method != "base":
        order = torch.randperm(len(loader.images), generator=torch.Generator().manual_seed(seed))
        watch, keep = (part.to(loader.images.device) for part in (order[:WATCHED], order[WATCHED:]))
        watched = loader.normalize(loader.images[watch]), loader.labels[watch]
        loader.images, loader.labels = loader.images[keep], loader.labels[keep]

    momentum, model = given["momentum"], given["make_net"]()
    scale = 1024 * (1 + 1 / (1 - momentum))
    lr, decay = given["learning_rate"] / scale, given["weight_decay"] * loader.batch_size / scale
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    groups = [
        {
            "params": [p for name, p in trained if ("norm" in name) is norms],
            "lr": rate,
            "weight_decay": decay / rate,
        }
        for norms, rate in ((True, lr * given["bias_scaler"]), (False, lr))
    ]
    base = torch.optim.SGD(groups, momentum=momentum, nesterov=True)

    def loss_of(x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y, label_smoothing=given["label_smoothing"], reduction="sum")

    gate = {"gate": None} if method == "gap" else {}
    opt = base if method == "base" else GapSAM(base, model, watched, steps, reduction="sum", **gate)
    warm = int(steps * given["lr_peak"])

    def rate(k: float) -> float:
        """Return the learning rate over its peak: up in a line, and down in another."""
        if k < warm:
            return 0.2 + 0.8 * k / warm
        return 1 + (given["lr_end"] - 1) * (k - warm) / (steps - warm)

    peaks = [group["lr"] for group in base.param_groups]
    slow = tools.LookaheadState(model)
    torch.cuda.synchronize()
    begun, k, done, epoch = time.perf_counter(), 0, 0.0, 0
    tools.init_whitening_conv(model[0], loader.normalize(loader.images[:5000]))
    model.train()
    while steps - done >= 1:
        if opt is not base and done >= RETURNED * steps:
            opt.validation, loader = None, whole
        model[0].bias.requires_grad = epoch < given["whiten_bias_epochs"]
        for x, y in loader:
            for group, peak in zip(base.param_groups, peaks, strict=True):
                group["lr"] = peak * rate(done)
            if opt is base:
                base.zero_grad()
                loss_of(x, y).backward()
                base.step()
            else:
                opt.step_on(loss_of, x, y)
            k += 1
            done = k if opt is base else opt.gradients  # what GapSAM spends is not known before
            if k % 5 == 0:
                slow.update(model, decay=0.95**5 * (done / steps) ** 3)
            if steps - done < 1:
                break
        epoch += 1
    slow.update(model, decay=1.0)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    report = opt.report() if isinstance(opt, GapSAM) else None
    return {
        "accuracy": tools.evaluate(model, test, tta_level=given["tta_level"]), "seconds": round(seconds, 3),
        "steps": k, "probed": report.perturbed if report else 0,
        "gap": round(report.validation - report.training, 4) if report else None,
    }  # fmt: skip


class Airbench(Study):
    """Its recipes for 94 and 96 %."""

    name = "airbench"
    tasks = ("airbench-94", "airbench-96")

    def rows(self, task: str) -> Sequence[str]:
        return METHODS

    def jobs(self, task: str, rows: Sequence[str], seeds: int | None = None) -> Iterator[Any]:
        for seed in range(20 if seeds is None else seeds):
            yield from ((task, method, seed) for method in (rows if seed % 2 else rows[::-1]))

    def bench(self, task: str, data: Path, device: str, toy: bool) -> str:
        folder = data.resolve() / "cifar10-airbench"
        if not (folder / "airbench").is_dir():
            raise ValueError(f"data: expected a clone of cifar10-airbench, got {folder}")
        for part in ("train.pt", "test.pt"):
            if not (data / "cifar10" / part).exists():
                raise ValueError(f"data: there is no cifar10/{part} in {data}; airbench makes it when run")
        sys.path.append(str(folder))
        os.chdir(data)
        target = task.removeprefix("airbench-")
        for method in METHODS:  # the first passes choose their kernels
            train(target, method, -1, few=60)
        return target

    def make(self, job: Any, values: Any, bench: str) -> dict[str, Any]:
        return train(bench, job[1], job[2])


AIRBENCH = Airbench()
