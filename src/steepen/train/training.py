"""One training run: one optimizer, one seed, a budget of gradients."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from .._tools.optional import load
from .data import Data
from .folders import CIFAR
from .optimizers import DECAY, FRACTION, OPTIMIZERS, Kind, base_of, learning_rate, steps_of, strength_of, wrap
from .results import Run
from .settings import Settings
from .tuning import Choice

__all__ = ["Task", "fit"]

EVALUATIONS = 40  # looks at the test part on the way, evenly in gradients
_HIDDEN = {"digits": 64, "mnist1d": 100}
_CHUNK = 2000  # examples that are judged at once


@dataclass(frozen=True)
class Task:
    """What is trained, and how it is judged.

    Examples
    --------
    >>> from steepen.train.data import load_data
    >>> from steepen.train.models import mlp
    >>> from torch.nn.functional import cross_entropy
    >>> task = Task(lambda seed: mlp(64, 8, seed), cross_entropy, load_data("digits"), 32, base_of("sgd"))
    >>> fit(task, "sam", OPTIMIZERS["sam"], Choice(0.1, 5e-4, 0.1), seed=0, grads=20).steps
    10
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

    def forward(self, model: Any, x: Any) -> Any:
        """Run the network in the precision of the passes."""
        torch = load("torch", "steepen train", extra="train")
        with nullcontext() if self.autocast is None else torch.autocast(x.device.type, self.autocast):
            return model(x)


def batches(examples: int, batch: int, seed: int, device: Any = "cpu") -> Iterator[Any]:
    """Yield rows for minibatches without end: every pass a new order, what does not fill a batch left out."""
    torch = load("torch", "steepen train", extra="train")
    if batch > examples:
        raise ValueError(f"batch: expected at most the {examples} examples, got {batch}")
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(examples, generator=generator).to(device)
        for start in range(0, examples - batch + 1, batch):
            yield order[start : start + batch]


def fit(
    task: Task,
    name: str,
    kind: Kind,
    choice: Choice,
    *,
    seed: int,
    grads: float,
    fraction: float = FRACTION,
    evaluations: int = EVALUATIONS,
    watch: Callable[[Any], None] | None = None,
) -> Run:
    """Train one network within a budget of gradients, and judge it on the way and at the end.

    The weights, the order of the minibatches, their augmentation and what dropout draws depend on the seed
    alone: step k has the same masks with every optimizer, and in every process. A gradient is a pass over a
    minibatch; the ascent step's pass counts by its examples. A run whose test loss is not finite any more
    ends there.

    `kind` and `choice` say how, `name` is for the record. `fraction` is the part of the steps with an ascent
    step of kinds named early or late. The test part is looked at so many times, evenly in gradients; `watch`
    is shown the network after each.

    Examples
    --------
    >>> from steepen.train.data import load_data
    >>> from steepen.train.models import mlp
    >>> from torch.nn.functional import cross_entropy
    >>> task = Task(lambda seed: mlp(64, 8, seed), cross_entropy, load_data("digits"), 32, base_of("sgd"))
    >>> run = fit(task, "share4", OPTIMIZERS["share4"], Choice(0.1, 5e-4, 0.1), seed=0, grads=20)
    >>> run.steps, run.perturbed, run.gradients
    (16, 16, 20)
    """
    torch = load("torch", "steepen train", extra="train")
    from .models import drawing

    data, batch, device = task.data, task.batch, task.data.x.device
    watched = last_rows(len(data.x)) if kind.by_gap and task.held_out is None else task.held_out
    rows, apart = _apart(data, watched)
    steps, most = steps_of(kind, grads, batch, fraction), round(grads * batch)
    model = task.make(seed)
    options: dict[str, Any] = {"dtype": task.autocast} if kind.door == "CGD" else {}
    if kind.by_gap:
        options["validation"] = lambda: _judged(model, apart, task)[0]  # on the device: nobody waits for it
    base = task.base(model.parameters(), choice.lr, choice.decay)
    optimizer = wrap(kind, base, model, choice.strength, steps, fraction, **options)
    average = _average(model, choice.strength) if kind.symbol == "β" else None
    judged = model if average is None else average.module
    smoothing = choice.strength if kind.symbol == "ε" else 0.0
    smoothed = {"label_smoothing": smoothing} if smoothing else {}
    passes = 2 if kind.like == "egr" else 1  # exact products go backwards through the backward pass
    random = torch.Generator(device).manual_seed(seed)
    taken = spent = 0  # steps, and examples that went through a pass

    def figures() -> tuple[float, ...]:
        return (*judge(judged, data, task), *(() if apart is None else judge(judged, apart, task)[1:]))

    curve = [(0, 0.0, *figures())]
    clock, trained = time.perf_counter(), 0.0

    def look() -> None:
        nonlocal clock, trained
        if device.type == "cuda":
            torch.cuda.synchronize()
        trained += time.perf_counter() - clock
        curve.append((spent, trained, *figures()))
        if watch is not None:
            watch(judged)
        clock = time.perf_counter()

    def loss_of(x: Any, y: Any) -> Any:
        nonlocal spent
        spent += passes * len(x) * torch.is_grad_enabled()  # GapSAM has a look without, at step 0
        return task.loss(task.forward(model, x), y, **smoothed)

    def backward(x: Any, y: Any) -> Any:
        nonlocal spent
        if task.backward is None:
            loss = loss_of(x, y)
            loss.backward()
            return loss
        spent += len(x)
        return task.backward(model, x, y, smoothing)

    def rate(_: int) -> float:
        return learning_rate(taken, steps)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    with drawing(seed, device):  # what dropout draws
        for picked in batches(len(rows), batch, seed, device):
            if taken == steps:
                break
            x, y = data.x[rows[picked]], data.y[rows[picked]]
            if task.augment is not None:
                x = task.augment(x, random)
            if not kind.door:
                optimizer.zero_grad()
                backward(x, y)
                optimizer.step()
            elif task.backward is None:
                optimizer.step_on(loss_of, x, y)
            else:
                for part in optimizer.passes((x, y)):
                    optimizer.record_loss(backward(*part))
                optimizer.step()
            taken += 1
            scheduler.step()
            if average is not None:
                average.update_parameters(model)
            if spent * evaluations // most > curve[-1][0] * evaluations // most:
                look()
                if not math.isfinite(curve[-1][3]):
                    break
    if spent > curve[-1][0]:
        look()
    at, times, accuracies, losses, *held_out = zip(*curve, strict=True)
    counts = tuple(n // batch if n % batch == 0 else n / batch for n in at)
    return Run(
        name, seed, taken, counts[-1], counts, accuracies, losses, choice.strength, trained, times,
        getattr(optimizer, "perturbed", 0), *held_out,
    )  # fmt: skip


def last_rows(examples: int) -> range:
    """Return the rows that GapSAM is given to watch: the last 2 %, or 200, and at most a tenth."""
    return range(examples - min(max(200, round(0.02 * examples)), examples // 10), examples)


def _apart(data: Data, held_out: Any) -> tuple[Any, Data | None]:
    """Return the rows to train on, and the others in the place of the test part."""
    torch = load("torch", "steepen train", extra="train")
    every = torch.arange(len(data.x), device=data.x.device)
    if held_out is None:
        return every, None
    rows = torch.as_tensor(held_out, device=data.x.device)
    return every[~torch.isin(every, rows)], data._replace(x_test=data.x[rows], y_test=data.y[rows])


def _average(model: Any, decay: float) -> Any:
    """Return a running mean of the weights and of BatchNorm's statistics.

    It is the mean of all steps until those outweigh β: so the first weights, far off, do not stay in it.
    """
    means = load("torch.optim.swa_utils", "steepen train", extra="train")
    taken: Counter[Any] = Counter()  # steps, by dtype: torch averages these apart, and its own count waits

    def update(averages: Any, current: Any, count: Any) -> None:
        taken[averages[0].dtype] += 1
        n = taken[averages[0].dtype]
        means.get_ema_multi_avg_fn(min(decay, n / (n + 1)))(averages, current, count)

    return means.AveragedModel(model, multi_avg_fn=update, use_buffers=True)


def train(name: str, seed: int, settings: Settings, data: Data) -> Run:
    """Train the network that belongs to the settings, and judge it on the way and at the end."""
    torch = load("torch", "steepen train", extra="train")
    from .models import ResNet18, crops_and_flips, mlp, seeded

    pictures = settings.data in CIFAR

    def network(seed: int) -> Any:
        if pictures:
            made = seeded(lambda: ResNet18(CIFAR[settings.data].classes), seed)
        else:
            made = mlp(data.x.shape[1], _HIDDEN[settings.data], seed)
        return made.to(data.x.device)

    task = Task(
        network, torch.nn.functional.cross_entropy, data, settings.batch, base_of(settings.base),
        crops_and_flips if pictures else None,
        torch.bfloat16 if pictures and settings.device == "cuda" else None,
    )  # fmt: skip
    choice = Choice(settings.lr, DECAY[settings.base], strength_of(name, settings))
    kind, fraction = OPTIMIZERS[name], settings.fraction
    return fit(task, name, kind, choice, seed=seed, grads=settings.grads, fraction=fraction)


def judge(model: Any, data: Data, task: Task) -> tuple[float, float]:
    """Return the accuracy (NaN where targets are no classes) and the mean loss on the test part."""
    loss, right, targets = _judged(model, data, task)
    return float(right) / targets if targets else math.nan, float(loss)


def _judged(model: Any, data: Any, task: Task) -> tuple[Any, Any, int]:
    """Return the loss and how many targets are met, where the network is; and how many there are."""
    from ..torch._trace import judging

    examples, right, targets, loss = len(data.x_test), 0, 0, 0.0
    with judging(model):
        for start in range(0, examples, _CHUNK):
            x, y = data.x_test[start : start + _CHUNK], data.y_test[start : start + _CHUNK]
            scores = task.forward(model, x).float()
            loss = loss + task.loss(scores, y) * (len(x) / examples)
            if not y.is_floating_point() and scores.ndim == y.ndim + 1:
                right = right + (scores.argmax(dim=-1) == y).sum()
                targets += y.numel()
    return loss, right, targets


def check_device(device: str) -> None:
    """Refuse a device that is not here."""
    if device not in ("cpu", "cuda", "mps"):
        raise ValueError(f"device: expected cpu, cuda or mps, got {device!r}")
    torch = load("torch", "steepen train", extra="train")
    if device != "cpu" and not getattr(torch, device).is_available():
        raise ValueError(f"device: there is no {device} here; expected cpu")
