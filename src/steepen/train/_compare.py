"""`compare`: does it help on this model? Equal budgets, equal trials, a test part that no choice has seen."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from .. import __version__
from .._run.progress import item_bar
from .._tools.check import number, one_of, whole
from .._tools.optional import load
from .comparison import Comparison, Trial, kept
from .data import Data
from .optimizers import FRACTION, OPTIMIZERS, Kind, base_of, steps_of
from .results import Run
from .settings import BASES
from .training import Task, check_device, fit, last_rows
from .tuning import Choice, best, held_out, square

__all__ = ["compare"]

_LR = {"sgd": (0.03, 0.1, 0.3), "adamw": (3e-4, 1e-3, 3e-3)}
_DECAY = {"sgd": (1e-4, 1e-3, 1e-2), "adamw": (0.01, 0.1, 0.3)}


def compare(
    make_model: Callable[[], Any],
    loss: Callable[..., Any],
    train: Any,
    test: Any,
    *,
    base: str | Callable[[Any, float, float], Any] = "sgd",
    methods: Sequence[str] = ("sam", "share16-late", "gap"),
    budget: float = 10.0,
    seeds: int = 3,
    lr: float | Sequence[float] | None = None,
    weight_decay: float | Sequence[float] | None = None,
    strengths: Mapping[str, float | Sequence[float]] | None = None,
    batch: int = 128,
    validation: float = 0.1,
    tuning: float | None = None,
    augment: Callable[[Any, Any], Any] | None = None,
    autocast: Any = None,
    device: str = "cpu",
    out: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Comparison:
    """Train a network by several methods, all with the same number of gradients and of trials.

    Learning rate, weight decay and strength of each method are chosen on a part of the training data that is
    held out for it. Every method then trains on all of it, with the same seeds, judged by the test part.

    Parameters
    ----------
    make_model : callable
        Returns a new network. torch's generator is seeded before, so weights follow from the seed.
    loss : callable
        The mean loss of the network's output and the targets, such as `torch.nn.functional.cross_entropy`.
    train, test : pair of tensors or arrays, or a dataset
        Examples and targets, in any order; a dataset of `torch.utils.data` is read into memory.
    base : "sgd", "adamw" or callable
        The optimizer that takes the steps; a callable gets parameters, lr and weight decay.
    methods : sequence of str
        Names from `OPTIMIZERS`. The base alone is always the first row.
    budget : float
        The gradients of a run, in passes over the training data; a probe counts by its examples.
    seeds : int
        Runs of each method.
    lr, weight_decay : number or k numbers
        What to choose from: with k values of each every method has k² trials; with one there is none.
    strengths : dict, optional
        For methods by name: as many strengths to choose from.
    batch : int
        The examples in a minibatch.
    validation : float
        The part of the training data, at random, that is held out for the trials.
    tuning : float, optional
        The budget of a trial; by default that of a run.
    augment : callable, optional
        Changes the examples of a minibatch, by the generator that it gets.
    autocast : torch.dtype, optional
        The precision of the passes, such as `torch.bfloat16`.
    device : "cpu", "cuda" or "mps"
        Where to train.
    out : path, optional
        A folder that is there. Its `comparison.json` is written after each run; the next call with the same
        settings goes on from there.
    progress : bool
        Show a progress bar, if standard error is a terminal.

    Returns
    -------
    Comparison
        Print it for the table.

    Examples
    --------
    >>> import torch
    >>> x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    >>> y = (x[:, 0] > 0).long()
    >>> found = compare(
    ...     lambda: torch.nn.Linear(4, 2), torch.nn.functional.cross_entropy, (x, y), (x, y),
    ...     methods=["sam"], budget=2, seeds=2, lr=(0.1, 0.3), weight_decay=(1e-4, 1e-3), batch=20,
    ... )
    >>> [line.optimizer for line in found.summary()], len(found.trials), len(found.runs)
    (['base', 'sam'], 8, 4)
    """
    torch = load("torch", "compare", extra="train")
    check_device(device)
    whole("seeds", seeds, 1)
    whole("batch", batch, 1)
    number("validation", validation, "a part of the training data, above 0 and below 1", above=0, below=1)
    names = _names(methods)
    squares = _squares(base, names, lr, weight_decay, strengths or {})
    data = _data(train, test, device)
    tuning = budget if tuning is None else tuning
    for name, value in (("budget", budget), ("tuning", tuning)):
        number(name, value, "a number of passes over the training data, 1 or more", least=1)
    small = held_out(data, validation) if len(squares["base"]) > 1 else data
    kinds = [_kind(name) for name in names]
    room = len(small.x) - any(kind.by_gap for kind in kinds) * len(last_rows(len(small.x)))
    if batch > room:
        raise ValueError(f"batch: expected at most the {room} examples to train on, got {batch}")
    for kind in kinds:
        steps_of(kind, tuning * len(small.x) / batch, batch, FRACTION)  # refuses a phase of less than a step
    build = base_of(base) if isinstance(base, str) else base
    task = Task(_maker(make_model, device), loss, data, batch, build, augment, autocast)
    _try(task, names)
    settings = {
        "base": base if isinstance(base, str) else getattr(base, "__name__", "given"),
        "budget": budget, "tuning": tuning, "batch": batch, "validation": validation, "device": device,
        "autocast": None if autocast is None else str(autocast), "data": _checksum(data),
        "trials": len(squares["base"]),
        "steepen": __version__, "torch": str(torch.__version__),
    }  # fmt: skip
    found = kept(settings, names, squares, out)
    trials = _missing_trials(found, squares)
    with item_bar(progress, len(trials) + seeds * len(names)) as show:
        for name, index in trials:
            show(f"{name}, trial {index + 1}")
            run = _attempt(found, replace(task, data=small), name, squares[name][index], _TRIAL, tuning)
            if run is not None:
                found.trials.append(Trial(name, index, *squares[name][index], run.accuracy, run.loss))
            _save(found, out)
        _choose(found, squares)
        have = {(run.optimizer, run.seed) for run in found.runs}
        for seed in range(seeds):  # seed by seed, so that an interrupt leaves pairs
            for name in names:
                show(f"{name}, seed {seed}")
                if (name, seed) not in have and name in found.choices:
                    run = _attempt(found, task, name, found.choices[name], seed, budget)
                    found.runs += [] if run is None else [run]
                    _save(found, out)
    found.runs = [run for run in found.runs if run.optimizer in names and run.seed < seeds]
    return found


_TRIAL = 1000  # the seed of all trials; no run has it
_BASE = OPTIMIZERS["sgd"]  # no penalty, whatever the base


def _kind(name: str) -> Kind:
    return _BASE if name == "base" else OPTIMIZERS[name]


def _names(methods: Sequence[str]) -> list[str]:
    if isinstance(methods, str):
        raise TypeError(f"methods: expected a list of names, got {methods!r}")
    names = ["base", *(name for name in methods if name != "base")]
    for name in names[1:]:
        one_of("methods", name, OPTIMIZERS)
        if name in BASES:
            raise ValueError(f"methods: {name!r} is a base; say base={name!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"methods: expected each once, got {', '.join(names[1:])}")
    return names


def _squares(
    base: Any, names: Sequence[str], lr: Any, decay: Any, strengths: Mapping[str, Any]
) -> dict[str, list[Choice]]:
    """Return the trials of each method."""
    if isinstance(base, str):
        one_of("base", base, BASES)
    elif not callable(base):
        raise TypeError(f"base: expected 'sgd', 'adamw' or a callable, got {base!r}")
    known = base if isinstance(base, str) else "sgd"
    rates = _values("lr", _LR[known] if lr is None else lr)
    decays = _DECAY[known] if decay is None else decay
    decays = _values("weight_decay", decays, len(rates), zero=True)
    for name in strengths:
        if name not in names:
            raise ValueError(f"strengths: {name!r} is not one of the methods, {', '.join(names)}")
    found: dict[str, list[Choice]] = {}
    for name in names:
        kind, count = _kind(name), len(rates)
        ladder = strengths.get(name, _of(kind.ladder, count)) if kind.symbol else (0.0,) * count
        own = _values("strengths", ladder, count) if kind.symbol else ladder
        found[name] = square(rates, decays, own)
    return found


def _of(ladder: Sequence[float], count: int) -> Sequence[float]:
    """Return so many of three strengths: the middle one, the lower two, or all."""
    return {1: ladder[1:2], 2: ladder[:2]}.get(count, ladder)


def _values(name: str, given: Any, count: int | None = None, *, zero: bool = False) -> tuple[float, ...]:
    values: tuple[Any, ...] = tuple(cast(Any, given)) if isinstance(given, Sequence) else (given,)
    if count is not None and len(values) == 1:
        values *= count
    if not values or (count is not None and len(values) != count):
        raise ValueError(f"{name}: expected {count or 1} values, as many as of lr; got {given!r}")
    for value in values:
        if zero:
            number(name, value, "numbers, 0 or more", least=0)
        else:
            number(name, value, "positive numbers", above=0)
    return values


def _data(train: Any, test: Any, device: str) -> Data:
    """Read both parts into tensors on the device."""
    torch = load("torch", "compare", extra="train")
    parts: list[Any] = []
    both: dict[str, Any] = {"train": train, "test": test}
    for name, given in both.items():
        pair: list[Any]
        if type(given) in (tuple, list) and len(given) == 2:
            pair = [torch.as_tensor(part) for part in given]
        elif hasattr(given, "__getitem__") and hasattr(given, "__len__") and not hasattr(given, "dtype"):
            rows: list[Any] = [given[i] for i in range(len(given))]
            pair = [torch.stack([torch.as_tensor(row[i]) for row in rows]) for i in (0, 1)]
        else:
            raise TypeError(
                f"{name}: expected examples and targets, or a dataset, got {type(given).__name__}"
            )
        if len(pair[0]) != len(pair[1]) or not len(pair[0]):
            raise ValueError(
                f"{name}: expected as many targets as examples, got {len(pair[1])} and {len(pair[0])}"
            )
        parts += [part.to(device) for part in pair]
    order = torch.randperm(len(parts[0]), generator=torch.Generator().manual_seed(0)).to(device)
    return Data(parts[0][order], parts[1][order], *parts[2:])  # what is held out must not be one class


def _maker(make_model: Callable[[], Any], device: str) -> Callable[[int], Any]:
    torch = load("torch", "compare", extra="train")

    def make(seed: int) -> Any:
        with torch.random.fork_rng(devices=[]):  # built on the CPU, so that the device makes no difference
            torch.default_generator.manual_seed(seed)
            model = make_model()
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"make_model: expected to be given a torch.nn.Module, got {type(model).__name__}")
        return model.to(device).train()

    return make


def _try(task: Task, names: Sequence[str]) -> None:
    """Find out at the first batch what no run could mend."""
    torch = load("torch", "compare", extra="train")
    x, y = task.data.x[: task.batch], task.data.y[: task.batch]
    smoothing: dict[str, Any] = {"label_smoothing": 0.1} if "smooth" in names else {}
    with torch.no_grad(), torch.random.fork_rng():
        out = task.forward(task.make(0), x)
        value = task.loss(out, y)
        if smoothing:
            try:
                task.loss(out, y, **smoothing)
            except TypeError as error:
                raise ValueError("methods: 'smooth' needs a loss that takes label_smoothing") from error
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise TypeError(f"loss: expected a tensor of one number, got {value!r}")
    if not math.isfinite(float(value)):
        raise ValueError(f"loss: expected a finite number at the initial weights, got {float(value)}")


def _checksum(data: Data) -> str:
    """Return sizes and a checksum, by which a later call knows the same data."""
    sums = [zlib.crc32(np.ascontiguousarray(part.cpu().float().numpy()).tobytes()) for part in data]
    return f"{len(data.x)}+{len(data.x_test)}:{'-'.join(f'{one:08x}' for one in sums)}"


def _missing_trials(found: Comparison, squares: Mapping[str, list[Choice]]) -> list[tuple[str, int]]:
    have = {(trial.method, trial.trial) for trial in found.trials}
    every = [(name, index) for name in squares for index in range(len(squares[name]))]
    return [one for one in every if one not in have and len(squares[one[0]]) > 1]


def _attempt(
    found: Comparison, task: Task, name: str, choice: Choice, seed: int, budget: float
) -> Run | None:
    """Train once; a method for which there is not enough memory is marked, and the others go on."""
    torch = load("torch", "compare", extra="train")
    if name in found.failures:
        return None
    try:
        return fit(task, name, _kind(name), choice, seed=seed, grads=budget * len(task.data.x) / task.batch)
    except (torch.cuda.OutOfMemoryError, MemoryError):
        found.failures[name] = "out of memory"
        if task.data.x.is_cuda:
            torch.cuda.empty_cache()
        return None


def _choose(found: Comparison, squares: Mapping[str, list[Choice]]) -> None:
    """Take the best trial of each method."""
    for name, trials in squares.items():
        own = [trial for trial in found.trials if trial.method == name]
        index = best([trial.score if math.isfinite(trial.loss) else math.nan for trial in own])
        if len(trials) == 1:
            found.choices[name] = trials[0]
        elif index is not None:
            found.choices[name] = own[index].choice
        else:
            found.failures.setdefault(name, "every trial diverged")


def _save(found: Comparison, out: Any) -> None:
    if out is not None:
        found.save(out)
