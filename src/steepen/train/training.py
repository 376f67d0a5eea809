"""One run of one method with a budget of gradients, for `compare` and benchmarks; trains on the device."""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch.optim import swa_utils

from .. import torch as ours
from .._core import ascent
from .._tools.check import number, one_of
from ..torch._batch import mapped
from ..torch._tensors import judging
from .results import Choice, Run

_torch: Any = torch
Builder = Callable[[Any, float, float], Any]
_WARMUP = 0.05  # the part of the steps over which the learning rate rises
_NAMES = {"λ": "lam", "ρ": "rho"}  # of a strength among the options of an optimizer
EVALUATIONS = 40  # of the test data during a run, evenly in gradients
_CHUNK = 2000  # examples that are evaluated at once


def last(part: float) -> Callable[[int], range]:
    """Return a function from the number of steps to the range of the last part of them."""
    return lambda steps: range(steps - round(part * steps), steps)


@dataclass(frozen=True)
class Method:
    """One way to train: an optimizer of `steepen.torch` around the base, or the base alone.

    `optimizer` is its name there, such as "SAM", and `options` are its other arguments. `symbol` names its
    strength, λ or ρ; `ladder` has the values to choose from, as many as lr has. `when` maps the number of
    steps to those with an ascent step (GapSAM finds its own); `ascent_fraction` is 0 if it needs no pass.

    `length` is the part of the budget that a run uses, and `returned` the part of the run after which the
    held-out examples are trained on too. With `mean` = β an exponential mean of the weights is evaluated in
    place of them; its β is the strength if `symbol` is "β". `since` is the part of the run from which on it
    may be stopped early.

    Examples
    --------
    >>> METHODS["sam-late"].when(100)
    range(75, 100)
    >>> fgr = Method("CGD", "λ", ladder=(0.03, 0.1, 0.3), options={"r": 0.05, "guard": False})
    """

    optimizer: str = ""
    symbol: Literal["λ", "ρ", "β", ""] = ""
    ladder: tuple[float, ...] = (0.02, 0.1, 0.4)
    when: Callable[[int], range] = range
    ascent_fraction: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    length: float = 1.0
    mean: float = 0.0
    returned: float = 1.0
    since: float = 0.0

    def __post_init__(self) -> None:
        number("length", self.length, "a part of the budget, above 0", above=0)
        number("mean", self.mean, "β, from 0 for no mean to below 1", least=0, below=1)
        number("returned", self.returned, "a part of the run, 0 or more", least=0)
        number("since", self.since, "a part of the run, from 0 to 1", least=0, below=1 + 1e-12)

    @property
    def by_gap(self) -> bool:
        """Whether it sets its own strength, from held-out examples."""
        return self.optimizer == "GapSAM"

    def wrap(self, base: Any, model: Any, strength: float, steps: int, **options: Any) -> Any:
        """Wrap the base for a run of `steps` steps; return the base itself if there is no wrapper."""
        if not self.optimizer:
            return base
        kind = getattr(ours, one_of("optimizer", self.optimizer, ours.__all__))
        if self.by_gap and self.when is not range:
            raise ValueError("when: GapSAM finds the steps with an ascent step itself, leave it out")
        given: dict[str, Any] = {"total_steps": steps} if self.by_gap else {"when": self.when(steps)}
        given |= {_NAMES[self.symbol]: strength} if self.symbol in _NAMES else {}
        shares = self.by_gap or 0 < self.ascent_fraction < 1
        given |= {"ascent_fraction": self.ascent_fraction} if shares else {}
        return kind(base, model, **given | dict(self.options) | options)


BASE = Method()
CONTROLS: dict[str, Method] = {
    **{f"base-{part:g}": Method(length=part) for part in (0.75, 0.5, 0.375, 0.25)},
    "base-returned": Method(returned=0.75),
    "ema": Method(mean=0.99),
}
"""What to try before an ascent step, with the base's own settings: where a network overfits, fewer steps and
a mean of the weights are cures too. "base-returned" trains on the held-out examples in the last quarter.
"""
METHODS: dict[str, Method] = {
    "sam": Method("SAM", "ρ"),
    "sam-late": Method("SAM", "ρ", when=last(0.25)),
    "sam16-late": Method("SAM", "ρ", (0.1, 0.3, 1.0), last(0.5), 1 / 16),
    "gap": Method("GapSAM", ascent_fraction=1 / 16),
    "gap-returned": Method("GapSAM", ascent_fraction=1 / 16, returned=0.75),
    "gap-ema": Method("GapSAM", ascent_fraction=1 / 16, mean=0.99, since=0.5),
    "cgd": Method("CGD", "λ"),
    "cgd-late": Method("CGD", "λ", when=last(0.25)),
}
"""The methods by name."""


def steps_of(method: Method, grads: float, batch: int) -> int:
    """Return the largest number of steps within a budget of gradients; for GapSAM, the most it could take."""
    fraction = method.ascent_fraction if method.optimizer else 0
    rows = min(max(2, round(fraction * batch)), batch) if fraction else 0  # of the ascent step's pass

    grads *= method.length

    def planned(steps: int) -> int:  # ascent steps; `when` may name steps beyond the run
        return sum(map(method.when(steps).__contains__, range(steps)))

    def cost(steps: int) -> int:
        return steps * batch + rows * (planned(steps) + (0 not in method.when(steps)))

    steps = int(grads) if method.by_gap else bisect_right(range(1, int(grads) + 1), grads * batch, key=cost)
    if method.by_gap and steps < ascent.LEAST:
        raise ValueError(f"budget: GapSAM needs {ascent.LEAST} steps or more, but this allows {steps}")
    if method.optimizer and not planned(steps):
        raise ValueError(f"budget: it allows {steps} steps, none of which has an ascent step")
    return steps


class Base(NamedTuple):
    """An optimizer that takes the steps, with its default values of lr and weight decay."""

    kind: Callable[..., Any]
    lr: tuple[float, ...]
    decay: tuple[float, ...]

    def build(self, params: Any, lr: float, decay: float) -> Any:
        """Return the optimizer of these parameters."""
        return self.kind(params, lr=lr, weight_decay=decay)


BASES = {
    "sgd": Base(partial(torch.optim.SGD, momentum=0.9), (0.03, 0.1, 0.3), (1e-4, 1e-3, 1e-2)),
    "adamw": Base(torch.optim.AdamW, (3e-4, 1e-3, 3e-3), (0.01, 0.1, 0.3)),
}


def learning_rate(step: float, steps: float) -> float:
    """Return the fraction of the peak learning rate: warm-up over the first twentieth, then cosine decay."""
    rise = max(1, round(_WARMUP * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise))) if step < steps else 0.0


class Data(NamedTuple):
    """Training and test data; examples are a tensor, or a dict of tensors that the network takes by name."""

    x: Any
    y: Any
    x_test: Any
    y_test: Any


def take(x: Any, rows: Any) -> Any:
    """Return these examples."""
    return mapped(lambda part: part[rows], x)


@dataclass(frozen=True)
class Task:
    """What is trained, and how it is evaluated."""

    make: Callable[[int], Any]  # a new network in training mode, its weights from the seed
    loss: Callable[..., Any]  # the mean loss of the network's output and the targets
    data: Data
    batch: int
    base: Builder  # of the optimizer, from parameters, lr and weight decay
    augment: Callable[[Any, Any], Any] | None = None  # changes examples by the generator it is given
    autocast: Any = None  # the precision of the passes
    held_out: Any = None  # rows that are not trained on: for early stopping, and for GapSAM

    @property
    def device(self) -> torch.device:
        """The device of the data."""
        return self.data.y.device

    def forward(self, model: Any, x: Any) -> Any:
        """Run the network in the precision of the passes."""
        context = nullcontext() if self.autocast is None else _torch.autocast(self.device.type, self.autocast)
        with context:
            return model(**x) if isinstance(x, Mapping) else model(x)

    def apart(self) -> tuple[Any, Data | None]:
        """Return the rows to train on, and the held-out rows as test data."""
        every = torch.arange(len(self.data.y), device=self.device)
        if self.held_out is None:
            return every, None
        rows = torch.as_tensor(self.held_out, device=self.device)
        watched = self.data._replace(x_test=take(self.data.x, rows), y_test=self.data.y[rows])
        return every[~torch.isin(every, rows)], watched

    def optimizer(self, model: Any, method: Method, choice: Choice, steps: int, watched: Data | None) -> Any:
        """Return the optimizer of a run: the base, wrapped by the method."""
        options: dict[str, Any] = {"dtype": self.autocast} if method.optimizer == "CGD" else {}
        if method.by_gap:
            options["validation"] = lambda: _judged(model, watched, self, dropout=True)[0]  # on the device
        base = self.base(model.parameters(), choice.lr, choice.decay)
        return method.wrap(base, model, choice.strength, steps, **options)

    def minibatch(self, rows: Any, random: Any) -> tuple[Any, Any]:
        """Return these examples, augmented, and their targets; copies."""
        x = take(self.data.x, rows)
        return x if self.augment is None else self.augment(x, random), self.data.y[rows]

    def step(self, model: Any, optimizer: Any, x: Any, y: Any) -> None:
        """Take one step on a batch."""

        def loss_of(x: Any, y: Any) -> Any:
            return self.loss(self.forward(model, x), y)

        if hasattr(optimizer, "step_on"):
            optimizer.step_on(loss_of, x, y)
            return
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()


@contextmanager
def drawing(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed torch's generators, on the CPU and on a device, and restore their states afterwards."""
    device = torch.device(device)
    with _torch.random.fork_rng([] if device.type == "cpu" else [device], device_type=device.type):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reach all GPUs
        if device.type != "cpu":
            torch.get_device_module(device).manual_seed(seed)
        yield


def batches(rows: Any, batch: int, seed: int) -> Iterator[Any]:
    """Yield rows for minibatches without end, shuffled in each epoch; incomplete batches are dropped."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = rows[torch.randperm(len(rows), generator=generator).to(rows.device)]
        for start in range(0, len(rows) - batch + 1, batch):
            yield order[start : start + batch]


def _average(model: Any, beta: float) -> Any:
    """Return an exponential mean of weights and buffers; a plain mean until there are enough steps for β."""
    taken: Counter[Any] = Counter()  # steps, by dtype: torch averages these apart, and its own count waits

    def update(averages: Any, current: Any, _: Any) -> None:
        taken[averages[0].dtype] += 1
        n = taken[averages[0].dtype]
        swa_utils.get_ema_multi_avg_fn(min(beta, n / (n + 1)))(averages, current, n)

    return swa_utils.AveragedModel(model, multi_avg_fn=update, use_buffers=True).eval()


class _Curve:
    """The evaluations during a run, and the seconds that it has taken without them."""

    def __init__(self, task: Task, model: Any, watched: Data | None, watch: Any) -> None:
        self.task, self.model, self.watched, self.watch = task, model, watched, watch
        self.points: list[tuple[Any, ...]] = []  # examples, seconds, accuracy, loss, those held out
        self.seconds, self.clock = 0.0, time.perf_counter()

    def evaluate(self, spent: int, *, watching: bool = True) -> None:
        """Add a point, and call `watch`; what the evaluation takes is not counted."""
        if self.task.device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds += (time.perf_counter() - self.clock) * (spent > 0)
        point = spent, self.seconds, *judge(self.model, self.task.data, self.task)
        if self.watched is not None:
            point += judge(self.model, self.watched, self.task) if watching else (math.nan, math.nan)
        self.points.append(point)
        if self.watch is not None and spent:
            self.watch(self.model)
        self.clock = time.perf_counter()


def fit(
    task: Task, name: str, method: Method, choice: Choice, *, seed: int, grads: float,
    evaluations: int = EVALUATIONS, watch: Callable[[Any], None] | None = None,
) -> Run:  # fmt: skip
    """Train one network within a budget of gradients, evaluated evenly in gradients; `watch` is called after.

    Weights, minibatches, augmentation and dropout masks depend on the seed and the step alone. A run ends
    when its test loss is no longer finite.
    """
    data, batch, device = task.data, task.batch, task.device
    rows, watched = task.apart()
    steps, most = steps_of(method, grads, batch), round(method.length * grads * batch)
    model = task.make(seed)
    beta = choice.strength if method.symbol == "β" else method.mean
    average = _average(model, beta) if beta else None
    optimizer = task.optimizer(model, method, choice, steps, watched)
    random = torch.Generator(device).manual_seed(seed)
    taken, done, watching = (
        0,
        0.0,
        watched is not None,
    )  # steps, and how many of those planned: GapSAM's gradients
    curve = _Curve(task, model if average is None else average.module, watched, watch)
    curve.evaluate(0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: learning_rate(done, steps))
    drawn = batches(rows, batch, seed)
    with drawing(seed, device):  # what dropout draws
        while steps - done >= 1 and math.isfinite(curve.points[-1][3]):
            if watching and done >= method.returned * steps:
                watching, drawn = False, batches(torch.arange(len(data.y), device=device), batch, seed)
                if method.by_gap:
                    optimizer.validation = None
            task.step(model, optimizer, *task.minibatch(next(drawn), random))
            if average is not None:
                average.update_parameters(model)
            taken += 1
            done = optimizer.gradients if method.by_gap else taken
            schedule.step()
            spent = round(batch * getattr(optimizer, "gradients", taken))
            before = curve.points[-1][0]
            if spent * evaluations // most > before * evaluations // most or steps - done < 1:
                curve.evaluate(spent, watching=watching)
    at, times, accuracies, losses, *held_out = zip(*curve.points, strict=True)
    right, lost = held_out or ((), ())
    at = tuple(n // batch if n % batch == 0 else n / batch for n in at)
    return Run(
        name, seed, taken, at[-1], at, accuracies, losses, strength=choice.strength, seconds=curve.seconds,
        times=times, perturbed=getattr(optimizer, "perturbed", 0), held_out=lost, held_out_accuracies=right,
        since=method.since,
    )  # fmt: skip


def judge(model: Any, data: Data, task: Task) -> tuple[float, float]:
    """Return the accuracy (NaN if targets are not classes) and the mean loss on the test data."""
    loss, right, targets = map(float, _judged(model, data, task))
    return right / targets if targets else math.nan, loss


def _judged(model: Any, data: Any, task: Task, dropout: bool = False) -> tuple[Any, Any, Any]:
    """Return the loss, the number of correct targets and the number of targets, on the device."""
    losses, known, right, targets = list[Any](), list[Any](), 0, 0
    with judging(model, dropout=dropout):
        for rows in _torch.arange(len(data.y_test), device=task.device).split(_CHUNK):
            x, y = take(data.x_test, rows), data.y_test[rows]  # copies: the network may write into them
            out = task.forward(model, x)
            if isinstance(out, torch.Tensor) and out.is_floating_point():  # half precision is coarse
                out = out.to(torch.promote_types(out.dtype, torch.float32))
            losses.append(task.loss(out, y).reshape(()))
            scores = getattr(out, "logits", out)  # as Hugging Face has it
            numbers = y.is_floating_point() or y.is_complex() or getattr(scores, "numel", int)() == y.numel()
            some = torch.ones_like(y, dtype=torch.bool) if numbers else y >= 0  # negative classes are ignored
            known.append(some.sum())
            shifted = isinstance(x, Mapping) and y.ndim > 1  # the next token is the loss's to find
            axis = None if shifted or numbers else _class_axis(scores, y)
            if axis is not None:
                right = right + ((scores.argmax(dim=axis) == y) & some).sum()
                targets = targets + known[-1]
    weights = torch.stack(known)
    means = torch.where(weights > 0, torch.stack(losses), 0)  # that of none is NaN
    return (means * (weights / weights.sum())).sum(), right, targets


def _class_axis(scores: Any, y: Any) -> int | None:
    """Return the axis of the classes, the last or torch's second; None if neither or both would do."""
    shape, wanted = tuple(getattr(scores, "shape", ())), tuple(y.shape)
    fits = {axis % len(shape) for axis in (-1, 1) if len(shape) > 1 and shape[axis] > 1
            and shape[: axis % len(shape)] + shape[axis % len(shape) + 1 :] == wanted}  # fmt: skip
    return fits.pop() if len(fits) == 1 else None
