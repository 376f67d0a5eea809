"""One training run: one method, one seed, a budget of gradients."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch.optim import swa_utils

from ..torch._trace import judging, random_of
from .optimizers import Method, learning_rate, steps_of
from .results import Run
from .tuning import Choice

__all__ = ["Data", "Task", "fit"]

_torch: Any = torch
EVALUATIONS = 40  # looks at the test part on the way, evenly in gradients
_CHUNK = 2000  # examples that are judged at once


class Data(NamedTuple):
    """Examples and their targets: the training part, and the part to judge by.

    Examples are a tensor, or a dict of tensors that the network takes by name.

    Examples
    --------
    >>> Data(torch.ones(4, 2), torch.zeros(4), torch.ones(1, 2), torch.zeros(1)).y_test
    tensor([0.])
    """

    x: Any
    y: Any
    x_test: Any
    y_test: Any


def take(x: Any, rows: Any) -> Any:
    """Return these examples."""
    if isinstance(x, Mapping):
        return {name: part[rows] for name, part in cast(Mapping[str, Any], x).items()}
    return x[rows]


@dataclass(frozen=True)
class Task:
    """What is trained, and how it is judged.

    Examples
    --------
    >>> from steepen.train.optimizers import METHODS, base_of
    >>> x, y = torch.eye(4), torch.arange(4)
    >>> task = Task(
    ...     lambda seed: torch.nn.Linear(4, 4), torch.nn.functional.cross_entropy, Data(x, y, x, y), 2,
    ...     base_of("sgd"))
    >>> run = fit(task, "sam", METHODS["sam"], Choice(0.1, 5e-4, 0.1), seed=0, grads=20)
    >>> run.steps, run.perturbed, run.gradients
    (10, 10, 20)
    """

    make: Callable[[int], Any]  # a new network in training mode, its weights from the seed
    loss: Callable[..., Any]  # the mean loss of the network's output and the targets
    data: Data
    batch: int
    base: Callable[[Any, float, float], Any]  # the optimizer of parameters, lr and weight decay
    augment: Callable[[Any, Any], Any] | None = None  # changes examples by the generator it is given
    autocast: Any = None  # the precision of the passes
    backward: Callable[[Any, Any, Any, float], Any] | None = None
    """In the place of a forward and backward pass, for those that are captured: takes the network, examples,
    targets and the ε of label smoothing, leaves the gradients on the parameters, returns the loss."""
    held_out: Any = None
    """Rows of the training part that are not trained on but watched: for early stopping, and for GapSAM,
    which by default has `last_rows`."""

    @property
    def device(self) -> torch.device:
        """Where the data is."""
        return self.data.y.device

    def forward(self, model: Any, x: Any) -> Any:
        """Run the network in the precision of the passes."""
        context = nullcontext() if self.autocast is None else _torch.autocast(self.device.type, self.autocast)
        with context:
            return model(**x) if isinstance(x, Mapping) else model(x)

    def apart(self, method: Method) -> tuple[Any, Data | None]:
        """Return the rows to train on, and the others in the place of the test part."""
        every = torch.arange(len(self.data.y), device=self.device)
        rows = last_rows(len(every)) if method.by_gap and self.held_out is None else self.held_out
        if rows is None:
            return every, None
        rows = torch.as_tensor(rows, device=self.device)
        watched = self.data._replace(x_test=take(self.data.x, rows), y_test=self.data.y[rows])
        return every[~torch.isin(every, rows)], watched


@contextmanager
def drawing(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Have torch draw from the seed alone, here and on a device; its generators are left as they were."""
    device = torch.device(device)
    undo = random_of(device)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would reach all GPUs
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)
    try:
        yield
    finally:
        undo()


def batches(rows: Any, batch: int, seed: int) -> Iterator[Any]:
    """Yield rows for minibatches without end: every pass a new order, what does not fill a batch left out."""
    if batch > len(rows):
        raise ValueError(f"batch: expected at most the {len(rows)} examples, got {batch}")
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = rows[torch.randperm(len(rows), generator=generator).to(rows.device)]
        for start in range(0, len(rows) - batch + 1, batch):
            yield order[start : start + batch]


class _Curve:
    """Accuracy and loss on the way, after so many examples and so many seconds of training."""

    def __init__(self, figures: Callable[[], tuple[float, ...]], device: torch.device) -> None:
        self._figures, self._device = figures, device
        self.seconds, self.rows = 0.0, [(0, 0.0, *figures())]
        self._clock = time.perf_counter()

    def look(self, spent: int, show: Callable[[], None]) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds += time.perf_counter() - self._clock
        self.rows.append((spent, self.seconds, *self._figures()))
        show()
        self._clock = time.perf_counter()


def fit(
    task: Task,
    name: str,
    method: Method,
    choice: Choice,
    *,
    seed: int,
    grads: float,
    evaluations: int = EVALUATIONS,
    watch: Callable[[Any], None] | None = None,
) -> Run:
    """Train one network within a budget of gradients, and judge it on the way and at the end.

    The weights, the order of the minibatches, their augmentation and what dropout draws depend on the seed
    alone: step k has the same masks with every method, and in every process. A gradient is a pass over a
    minibatch; the ascent step's pass counts by its examples. A run whose test loss is not finite any more
    ends there. The test part is looked at so many times, evenly in gradients; `watch` is shown the network
    after each.
    """
    data, batch, device = task.data, task.batch, task.device
    rows, apart = task.apart(method)
    steps, most = steps_of(method, grads, batch), round(grads * batch)
    model = task.make(seed)
    options: dict[str, Any] = {"dtype": task.autocast} if method.optimizer == "CGD" else {}
    if method.by_gap:
        options["validation"] = lambda: _judged(model, apart, task)[0]  # on the device: nobody waits for it
    base = task.base(model.parameters(), choice.lr, choice.decay)
    optimizer = method.wrap(base, model, choice.strength, steps, **options)
    average = _average(model, choice.strength) if method.symbol == "β" else None
    judged = model if average is None else average.module
    smoothing = choice.strength if method.symbol == "ε" else 0.0
    random = torch.Generator(device).manual_seed(seed)
    taken = 0

    def figures() -> tuple[float, ...]:
        return (*judge(judged, data, task), *(() if apart is None else judge(judged, apart, task)[1:]))

    curve = _Curve(figures, device)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: learning_rate(taken, steps))
    with drawing(seed, device):  # what dropout draws
        for picked in batches(rows, batch, seed):
            x, y = take(data.x, picked), data.y[picked]
            x = x if task.augment is None else task.augment(x, random)
            _step(task, model, optimizer, x, y, smoothing)
            taken += 1
            schedule.step()
            if average is not None:
                average.update_parameters(model)
            spent, before = round(batch * getattr(optimizer, "gradients", taken)), curve.rows[-1][0]
            if spent * evaluations // most > before * evaluations // most or taken == steps:
                curve.look(spent, lambda: None if watch is None else watch(judged))
            if taken == steps or not math.isfinite(curve.rows[-1][3]):
                break
    at, times, accuracies, losses, *held_out = zip(*curve.rows, strict=True)
    counts = tuple(n // batch if n % batch == 0 else n / batch for n in at)
    return Run(
        name, seed, taken, counts[-1], counts, accuracies, losses, choice.strength, curve.seconds, times,
        getattr(optimizer, "perturbed", 0), *held_out,
    )  # fmt: skip


def _step(task: Task, model: Any, optimizer: Any, x: Any, y: Any, smoothing: float) -> None:
    """Take one step on a batch."""

    def loss_of(x: Any, y: Any) -> Any:
        smoothed = {"label_smoothing": smoothing} if smoothing else {}
        return task.loss(task.forward(model, x), y, **smoothed)

    def backward(x: Any, y: Any) -> Any:
        if task.backward is not None:
            return task.backward(model, x, y, smoothing)
        loss = loss_of(x, y)
        loss.backward()
        return loss

    if not hasattr(optimizer, "passes"):  # the base alone
        optimizer.zero_grad()
        backward(x, y)
        optimizer.step()
    elif task.backward is None:
        optimizer.step_on(loss_of, x, y)
    else:
        for part in optimizer.passes((x, y)):
            optimizer.record_loss(backward(*part))
        optimizer.step()


def last_rows(examples: int) -> range:
    """Return the rows that GapSAM is given to watch: the last 2 %, or 200, and at most a tenth."""
    return range(examples - min(max(200, round(0.02 * examples)), examples // 10), examples)


def _average(model: Any, decay: float) -> Any:
    """Return a running mean of the weights and of BatchNorm's statistics.

    It is the mean of all steps until those outweigh β: so the first weights, far off, do not stay in it.
    """
    taken: Counter[Any] = Counter()  # steps, by dtype: torch averages these apart, and its own count waits

    def update(averages: Any, current: Any, count: Any) -> None:
        taken[averages[0].dtype] += 1
        n = taken[averages[0].dtype]
        swa_utils.get_ema_multi_avg_fn(min(decay, n / (n + 1)))(averages, current, count)

    return swa_utils.AveragedModel(model, multi_avg_fn=update, use_buffers=True)


def judge(model: Any, data: Data, task: Task) -> tuple[float, float]:
    """Return the accuracy (NaN where targets are no classes) and the mean loss on the test part."""
    loss, right, targets = _judged(model, data, task)
    return float(right) / targets if targets else math.nan, float(loss)


def _judged(model: Any, data: Any, task: Task) -> tuple[Any, Any, int]:
    """Return the loss and how many targets are met, where the network is; and how many there are."""
    examples, right, targets, loss = len(data.y_test), 0, 0, 0.0
    with judging(model):
        for start in range(0, examples, _CHUNK):
            rows = slice(start, start + _CHUNK)
            x, y = take(data.x_test, rows), data.y_test[rows]
            out = task.forward(model, x)
            out = out.float() if isinstance(out, torch.Tensor) else out
            loss = loss + task.loss(out, y) * (len(y) / examples)
            scores = getattr(out, "logits", out)  # as Hugging Face has it
            shifted = isinstance(x, Mapping) and y.ndim > 1  # the next token is the loss's to find
            if not (shifted or y.is_floating_point()) and getattr(scores, "ndim", 0) == y.ndim + 1:
                right = right + (scores.argmax(dim=-1) == y).sum()
                targets += y.numel()
    return loss, right, targets
