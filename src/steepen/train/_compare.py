"""`compare`: does it help on this model? Equal budgets, equal trials, a test part that no choice has seen."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from .. import __version__
from .._tools import jobs as jobs
from .._tools.check import number, one_of, whole
from .._tools.optional import load
from ._given import builder, decays_of, fingerprint, maker, rates_of, read_data
from .comparison import Comparison, Trial, kept
from .optimizers import OPTIMIZERS, Kind, steps_of
from .results import Run
from .settings import BASES
from .training import Task, check_device, fit
from .tuning import Choice, best, square

__all__ = ["compare"]


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

    A part of the training data is held out, and lr, weight decay and strength of each method are chosen by
    it; then every method trains with the same seeds and is judged by the test part, at the end and where
    the loss on held-out data was lowest on the way. GapSAM reads its gap from it, too. Print what is returned
    for the table.

    Parameters
    ----------
    make_model : callable
        Returns a new network. torch's generator is seeded before, so weights follow from the seed.
    loss : callable
        The mean loss of the network's output and the targets, such as `torch.nn.functional.cross_entropy`.
    train, test : pair of tensors or arrays, a dataset or a DataLoader
        Examples and targets, in any order; a dataset or a loader is read once, into memory.
    base : "sgd", "adamw" or callable
        The optimizer that takes the steps; a callable gets parameters, lr and weight decay. It is called once
        to see what it returns.
    methods : sequence of str
        Names from `OPTIMIZERS`. The base alone is always the first row.
    budget : float
        The gradients of a run, in passes over the training data; an ascent step counts by its examples.
    seeds : int
        Runs of each method.
    lr, weight_decay : number or k numbers
        What to choose from: with k values of each every method has k² trials; with one there is none. By
        default three that suit the base, for an optimizer other than SGD around its own default.
    strengths : dict, optional
        For methods by name: as many strengths to choose from.
    batch : int
        The examples in a minibatch.
    validation : float
        The part of the training data, at random, that is held out.
    tuning : float, optional
        The budget of a trial; by default that of a run.
    augment : callable, optional
        Changes the examples of a minibatch, by the generator that it gets.
    autocast : torch.dtype, optional
        The precision of the passes, such as `torch.bfloat16`.
    device : "cpu", "cuda" or "mps"
        Where to train.
    out : path, optional
        A folder that is there. Its `results.json` is written after each run; the next call goes on from
        there. It is refused if the network's weights, the loss of a first batch, the data, the base or a
        setting are others.
    progress : bool
        Show a progress bar, if standard error is a terminal.

    Notes
    -----
    Trials and runs are jobs: inside of `joblib.parallel_config(n_jobs=2)` there are two at a time, in
    processes, or on the cluster that it names.

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
    tuning = budget if tuning is None else tuning
    for name, value in (("budget", budget), ("tuning", tuning)):
        number(name, value, "a number of passes over the training data, 1 or more", least=1)
    names = _names(methods)
    build = builder(base)
    data = read_data(train, test, device)
    held_out = range(len(data.x) - max(1, round(validation * len(data.x))), len(data.x))
    if batch > held_out.start:
        raise ValueError(f"batch: expected at most the {held_out.start} examples to train on, got {batch}")
    passes = held_out.start / batch  # the gradients of one
    task = Task(maker(make_model, device), loss, data, batch, build, augment, autocast, held_out=held_out)
    for name in names:
        steps_of(_kind(name), min(budget, tuning) * passes, batch)  # refuses too few
    who = fingerprint(task, smoothed="smooth" in names)
    squares = _squares(build(task.make(0).parameters(), 1e-3, 0.0), names, lr, weight_decay, strengths or {})
    settings: dict[str, Any] = {
        **who, "budget": budget, "tuning": tuning, "batch": batch, "validation": validation, "device": device,
        "autocast": None if autocast is None else str(autocast), "trials": len(squares["base"]),
        "steepen": __version__, "torch": str(torch.__version__),
    }  # fmt: skip
    found = kept(settings, names, squares, out)
    judged = data._replace(x_test=data.x[held_out.start :], y_test=data.y[held_out.start :])
    trial = replace(task, data=judged)
    have = {(one.method, one.choice) for one in found.trials}
    tries = [(name, one) for name, square in squares.items() for one in square if len(square) > 1]
    tries = [one for one in dict.fromkeys(tries) if one not in have]
    for name, choice, run in _trained(
        found, trial, [(*one, _TRIAL) for one in tries], tuning * passes, progress
    ):
        score = -run.loss if math.isnan(run.accuracy) else run.accuracy
        found.trials.append(Trial(name, choice, math.nan if run.diverged else score))
        found.save(out)
    _choose(found, squares)
    left = [(name, found.choices[name], seed) for name, seed in found.missing(seeds) if name in found.choices]
    for *_, run in _trained(found, task, left, budget * passes, progress):
        found.runs.append(run)
        found.save(out)
    found.runs.sort(key=lambda run: run.seed)
    return found.only(seeds)


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
    rates = _values("lr", rates_of(base) if lr is None else lr)
    decays = _some(decays_of(base), len(rates)) if decay is None else decay
    decays = _values("weight_decay", decays, len(rates), zero=True)
    for name in strengths:
        if name not in names:
            raise ValueError(f"strengths: {name!r} is not one of the methods, {', '.join(names)}")
    found: dict[str, list[Choice]] = {}
    for name in names:
        kind, count = _kind(name), len(rates)
        ladder = strengths.get(name, _some(kind.ladder, count))
        own = _values("strengths", ladder, count) if kind.symbol else (0.0,) * count
        found[name] = square(rates, decays, own)
    return found


def _some(three: Sequence[float], count: int) -> Sequence[float]:
    """Return so many of three values: the middle one, the lower two, or all."""
    return {1: three[1:2], 2: three[:2]}.get(count, three)


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


def _trained(
    found: Comparison, task: Task, wanted: Sequence[tuple[str, Choice, int]], grads: float, progress: bool
) -> Iterator[tuple[str, Choice, Run]]:
    """Train with these methods, choices and seeds; one for which there is not enough memory is marked."""
    given: dict[Any, Any] = {
        (name, *choice, seed): (task, name, choice, seed, grads) for name, choice, seed in wanted
    }
    for done in jobs.run(
        _fit, given, send=given.__getitem__, strict=True, progress=progress,
        title=lambda key: f"{key[0]}, lr {key[1]:g}, weight decay {key[2]:g}, seed {key[4]}",
    ):  # fmt: skip
        _, name, choice, *_ = given[done.key]
        if done.value is None:
            found.failures[name] = "out of memory"
        else:
            yield name, choice, done.value


def _fit(task: Task, name: str, choice: Choice, seed: int, grads: float) -> Run | None:
    """Train once; None where there is not enough memory."""
    torch = load("torch", "compare", extra="train")
    try:
        return fit(task, name, _kind(name), choice, seed=seed, grads=grads)
    except (torch.cuda.OutOfMemoryError, MemoryError):
        if task.data.x.is_cuda:
            torch.cuda.empty_cache()
        return None


def _choose(found: Comparison, squares: Mapping[str, list[Choice]]) -> None:
    """Take the best trial of each method."""
    for name, trials in squares.items():
        own = [one for one in found.trials if one.method == name]
        own.sort(key=lambda one: trials.index(one.choice))  # they may have ended in any order
        index = best([one.score for one in own])
        if len(trials) == 1:
            found.choices[name] = trials[0]
        elif index is not None:
            found.choices[name] = own[index].choice
        else:
            found.failures.setdefault(name, "every trial diverged")
