"""One training run: one optimizer, one seed, a budget of gradients."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from .._tools.optional import load
from .data import Data
from .models import mlp
from .optimizers import learning_rate, make, steps_within, strength_of
from .results import Run
from .settings import Settings

__all__ = ["EVALUATIONS", "batches", "check_device", "judge", "train"]

EVALUATIONS = 40
"""How often the test part is looked at on the way, evenly in gradients."""

_HIDDEN = {"digits": 64, "mnist1d": 100}


def batches(examples: int, batch: int, seed: int) -> Iterator[Any]:
    """Give rows for minibatches without end: every pass a new order, what does not fill a batch left out.

    Examples
    --------
    >>> rows = batches(10, 4, seed=0)
    >>> first, second = next(rows), next(rows)
    >>> len(set(first.tolist()) | set(second.tolist()))
    8
    """
    torch = load("torch", "steepen train", extra="train")
    if batch > examples:
        raise ValueError(f"batch: expected at most the {examples} examples, got {batch}")
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(examples, generator=generator)
        for start in range(0, examples - batch + 1, batch):
            yield order[start : start + batch]


def train(name: str, seed: int, settings: Settings, data: Data) -> Run:
    """Train one network, and judge it on the way and at the end.

    The weights and the order of the minibatches depend on the seed alone, not on the optimizer. A run whose
    test loss is not finite any more ends there.

    Examples
    --------
    >>> from steepen.train.data import load_data
    >>> run = train("sgd", 0, Settings.of("digits", grads=100), load_data("digits"))
    >>> run.steps, run.gradients, run.diverged, run.accuracy > 0.5
    (100, 100, False, True)
    """
    torch = load("torch", "steepen train", extra="train")
    loss_of = torch.nn.functional.cross_entropy
    begun = time.perf_counter()
    steps = steps_within(name, settings)
    model = mlp(data.x.shape[1], _HIDDEN[settings.data], seed).to(data.x.device)
    optimizer = make(name, settings, steps, model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, partial(learning_rate, steps=steps))
    exact = getattr(optimizer, "exact", False)
    order = batches(len(data.x), settings.batch, seed)
    gradients = taken = 0
    curve = [(0, *judge(model, data))]

    def part(spent: int) -> int:
        return spent * EVALUATIONS // settings.grads

    for taken, rows in zip(range(1, steps + 1), order, strict=False):
        x, y = data.x[rows], data.y[rows]
        twice = exact and optimizer.active

        def closure(x: Any = x, y: Any = y, twice: bool = twice) -> Any:
            nonlocal gradients
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward(create_graph=twice)
            gradients += 1 + twice  # the optimizer goes backward through the backward pass
            return loss

        optimizer.step(closure)
        scheduler.step()
        if part(gradients) > part(curve[-1][0]) or taken == steps:
            curve.append((gradients, *judge(model, data)))
            if not math.isfinite(curve[-1][2]):
                break
    at, accuracy, loss = zip(*curve, strict=True)
    strength, seconds = strength_of(name, settings), time.perf_counter() - begun
    return Run(name, seed, taken, gradients, at, accuracy, loss, strength, seconds)


def judge(model: Any, data: Data) -> tuple[float, float]:
    """Give the accuracy, as a share, and the mean loss on the test part.

    Examples
    --------
    >>> from steepen.train.data import load_data
    >>> accuracy, loss = judge(mlp(64, 64, seed=0), load_data("digits"))
    >>> accuracy < 0.3, 2 < loss < 3
    (True, True)
    """
    torch = load("torch", "steepen train", extra="train")
    with torch.no_grad():
        scores = model(data.x_test)
        loss = torch.nn.functional.cross_entropy(scores, data.y_test)
        right = int((scores.argmax(dim=1) == data.y_test).sum())
    return right / len(scores), float(loss)


def check_device(device: str) -> None:
    """Refuse a device that is not here.

    Examples
    --------
    >>> check_device("abacus")
    Traceback (most recent call last):
    ValueError: device: expected cpu or cuda, got 'abacus'
    """
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device: expected cpu or cuda, got {device!r}")
    torch = load("torch", "steepen train", extra="train")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device: there is no cuda here; expected cpu")
