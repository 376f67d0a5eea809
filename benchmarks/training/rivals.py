"""Rivals that need no ascent step: label smoothing, and a running mean of the weights (EMA)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from torch.optim import swa_utils

from steepen.train.training import Task


@dataclass(frozen=True)
class RivalTask(Task):
    """A task with label smoothing ε in training, or whose network is judged by a mean of its weights."""

    smoothing: float = 0.0
    decay: float = 0.0  # β of the mean; 0 for none
    means: dict[Any, Any] = field(default_factory=dict[Any, Any])  # by network

    def judged(self, model: Any) -> Any:
        """Return what is judged in the place of a network: the mean of its weights, if there is one."""
        return self.means[model].module if model in self.means else model

    def forward(self, model: Any, x: Any) -> Any:
        return super().forward(model if model.training else self.judged(model), x)

    def step(self, model: Any, optimizer: Any, x: Any, y: Any) -> None:
        self.train_on(model, optimizer, x, y)
        if self.decay:
            if model not in self.means:
                self.means[model] = _average(model, self.decay)
            self.means[model].update_parameters(model)

    def train_on(self, model: Any, optimizer: Any, x: Any, y: Any) -> None:
        """Take one step on a batch, with smoothed labels."""
        loss = partial(self.loss, label_smoothing=self.smoothing) if self.smoothing else self.loss
        Task.step(replace(self, loss=loss), model, optimizer, x, y)


def rival(task: RivalTask, method: str, strength: float) -> RivalTask:
    """Return the task for one run of a method; the strength of "smooth" is ε, that of "ema" β."""
    own = {"smooth": {"smoothing": strength}, "ema": {"decay": strength}}
    return replace(task, **own.get(method, {}), means={})


def _average(model: Any, decay: float) -> Any:
    """Return a running mean of weights and statistics; a plain mean until there are enough steps for β."""
    taken: Counter[Any] = Counter()  # steps, by dtype: torch averages these apart, and its own count waits

    def update(averages: Any, current: Any, count: Any) -> None:
        taken[averages[0].dtype] += 1
        n = taken[averages[0].dtype]
        swa_utils.get_ema_multi_avg_fn(min(decay, n / (n + 1)))(averages, current, count)

    return swa_utils.AveragedModel(model, multi_avg_fn=update, use_buffers=True).eval()
