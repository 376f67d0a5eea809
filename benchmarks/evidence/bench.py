"""A task on a device, ready for its runs: one network, its passes captured as CUDA graphs on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmarks.evidence import networks
from benchmarks.evidence.captured import Captured
from benchmarks.evidence.methods import Row, last_rows
from benchmarks.evidence.networks import ResNet18, crops_and_flips
from benchmarks.evidence.tasks import LINE, SPECS, Spec, classes, noise
from torch import Tensor, nn
from torch.nn import functional as F

from steepen.train.training import Data, Task

SPLIT = 0.1  # of the training data is held out while lr, weight decay and strength are chosen


def smoothed(scores: Tensor, y: Tensor, smoothing: Any = 0.0) -> Tensor:
    """Return the cross-entropy with smoothed labels, as torch's own; ε may be a number on the device."""
    logs = scores.log_softmax(-1)
    wanted = logs.gather(-1, y.unsqueeze(-1)).squeeze(-1)
    return -((1 - smoothing) * wanted + smoothing * logs.mean(-1)).mean()


def plain(scores: Tensor, y: Tensor, label_smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(scores.flatten(0, -2), y.flatten(), label_smoothing=label_smoothing)


def held_out(data: Data, part: float) -> Data:
    """Return the training part without its last examples, to be judged by these."""
    cut = len(data.x) - round(part * len(data.x))
    return Data(data.x[:cut], data.y[:cut], data.x[cut:], data.y[cut:])


@dataclass(frozen=True)
class SmoothingTask(Task):
    """A task with label smoothing ε in training."""

    smoothing: float = 0.0

    def step(self, model: Any, optimizer: Any, x: Any, y: Any) -> None:
        loss = partial(self.loss, label_smoothing=self.smoothing) if self.smoothing else self.loss
        Task.step(replace(self, loss=loss), model, optimizer, x, y)


@dataclass(frozen=True)
class CapturedTask(SmoothingTask):
    """A task whose passes are captured: each leaves the gradients on the parameters."""

    passes: Any = None

    def step(self, model: Any, optimizer: Any, x: Any, y: Any) -> None:
        if not hasattr(optimizer, "passes"):
            optimizer.zero_grad()
            self.passes(model, x, y, self.smoothing)
        else:
            for part in optimizer.passes((x, y)):
                optimizer.record_loss(self.passes(model, *part, self.smoothing))
        optimizer.step()


class Bench:
    """A task on a device: one network and its passes for all runs, its weights drawn anew for each."""

    def __init__(self, name: str, folder: Path | None, device: str, toy: bool = False) -> None:
        spec = SPECS[name]
        data = noise(name) if folder is None else spec.load(folder)
        if toy:
            spec = replace(spec, batch=min(spec.batch, 32), network=TOYS.get(name, spec.network))
            data = Data(data.x[:200], data.y[:200], data.x_test[:200], data.y_test[:200])
        self.spec, self.toy = spec, toy
        layout = {"memory_format": torch.channels_last} if data.x.ndim == 4 and device == "cuda" else {}
        dtype = torch.bfloat16 if device == "cuda" and data.x.is_floating_point() else None
        x, x_test = (part.to(device, dtype or part.dtype, **layout) for part in (data.x, data.x_test))
        self.data = Data(x, data.y.to(device), x_test, data.y_test.to(device))
        self.network = lambda: spec.network(data).to(device, **layout)
        self.task = SmoothingTask(
            self._new, plain, self.data, spec.batch, partial(_base, spec, device == "cuda"),
            crops_and_flips if spec.crops else None, torch.bfloat16 if device == "cuda" else None,
        )  # fmt: skip
        if device == "cuda":
            self.model = self._new(0)
            sizes = [spec.batch, spec.batch // 4, spec.batch // 16]
            first = self.data.x[: spec.batch], self.data.y[: spec.batch]
            passes = Captured(self.model, smoothed, *first, sizes, compiled=True)
            own = {one.name: getattr(self.task, one.name) for one in fields(SmoothingTask)} | {
                "make": self._again
            }
            self.task = CapturedTask(**own, passes=passes)
        self.device = device
        self.held_out = None
        if spec.held_out is not None and folder is not None:
            rows = spec.held_out(folder)
            self.held_out = rows[rows < len(self.data.x)]

    def _new(self, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self.network()

    def _again(self, seed: int) -> nn.Module:
        """Put new weights into the network whose passes are captured."""
        self.model.load_state_dict(self._new(seed).state_dict())
        self.model.zero_grad()
        return self.model.train()

    def at(self, stage: str, row: Row, strength: float = 0.0) -> SmoothingTask:
        """Return the task to be judged by the test part, or by what is held out of the training part."""
        task = replace(self.task, smoothing=strength if row.smoothing else 0.0)
        if stage == "final":
            own = self.held_out if self.held_out is not None else last_rows(len(self.data.y))
            return replace(task, held_out=own if row.held_out else None)
        data = held_out(self.data, SPLIT)
        return replace(task, data=data, held_out=last_rows(len(data.y)) if row.held_out else None)

    def grads(self, stage: str) -> float:
        """Return the minibatch gradients of a run of the base."""
        epochs = self.spec.epochs if stage == "final" else self.spec.tuning
        if self.toy:
            epochs = 8 if stage == "final" else 1
        return epochs * len(self.at(stage, Row("")).data.x) / self.spec.batch


def _base(spec: Spec, fused: bool, params: Any, lr: float, decay: float) -> torch.optim.Optimizer:
    if spec.base == "adamw":
        return torch.optim.AdamW(params, lr=lr, weight_decay=decay, fused=fused)
    return torch.optim.SGD(
        params, lr=lr, momentum=0.9, nesterov=spec.nesterov, weight_decay=decay, fused=fused
    )


TOYS: dict[str, Callable[[Data], nn.Module]] = {
    **dict.fromkeys(
        ("cifar10-resnet", "cifar100-resnet", "cifar100-noise20", "cifar100-noise40"),
        lambda data: ResNet18(classes(data), 8),
    ),
    "cifar100-vit": lambda data: networks.ViT(classes(data), 16, 2, 2),
    "characters": lambda data: networks.Characters(classes(data), LINE, 16, 2, 2),
}
