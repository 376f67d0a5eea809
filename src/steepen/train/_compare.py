"""`compare`: does it help on this model? Equal budgets, equal trials, test data not used for tuning."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch

from .._tools import jobs
from .._tools.check import number, one_of, whole
from .._tools.version import version
from ._given import builder, fingerprint, maker, read_data
from .optimizers import BASE, BASES, METHODS, Method, steps_of
from .results import Choice, Comparison, Run, best, square
from .training import Task, fit

_KEY = ("stage", "method", "lr", "weight_decay", "strength", "seed")
_TRIAL = 1000  # the seed of all trials; no run has it


def compare(
    make_model: Callable[[], Any],
    loss: Callable[..., Any],
    train: Any,
    test: Any,
    *,
    base: str | Callable[[Any, float, float], Any] = "sgd",
    methods: Sequence[str] | Mapping[str, Method] = ("sam", "share16-late", "gap"),
    budget: float = 10.0,
    seeds: int = 3,
    lr: float | Sequence[float] | None = None,
    weight_decay: float | Sequence[float] | None = None,
    strengths: Mapping[str, float | Sequence[float]] | None = None,
    batch: int = 128,
    validation: float = 0.1,
    augment: Callable[[Any, Any], Any] | None = None,
    autocast: Any = None,
    device: str = "cpu",
    out: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Comparison:
    """Train a network with several methods, all with the same number of gradients and of trials.

    Print the result for a table and a verdict. Inside `joblib.parallel_config(n_jobs=2)` two runs are made
    at a time.

    Parameters
    ----------
    make_model : callable
        Returns a new network. torch's generator is seeded before the call, so the seed sets the weights.
    loss : callable
        The mean loss of the network's output and the targets, such as `torch.nn.functional.cross_entropy`.
    train, test : pair, dict, dataset or DataLoader
        Examples and targets, in any order. Examples are a tensor or an array, or a dict that the network
        takes by name; a dict has its targets under "labels". Datasets and loaders are read into memory.
    base : "sgd", "adamw" or callable
        The optimizer that takes the steps; a callable gets parameters, lr and weight decay.
    methods : sequence of str, or dict
        Names from `METHODS`, or your own methods by name. The base alone is always the first row.
    budget : float
        The gradients of a run, in epochs; an ascent step counts in proportion to its examples.
    lr, weight_decay : number or k numbers
        The values to choose from: k values of each give k² trials per method; one value, no trials. By
        default three that suit "sgd" or "adamw"; for another base pass lr, and weight_decay if it has any.
    strengths : dict, optional
        For methods by name: the k strengths to choose from.
    validation : float
        The part of the training data, drawn at random, that is held out: to tune lr, weight decay and
        strength of each method, for early stopping, and for GapSAM.
    augment : callable, optional
        `augment(x, generator)` returns the augmented examples of a minibatch.
    autocast : torch.dtype, optional
        The precision of the passes, such as `torch.bfloat16`.
    out : path, optional
        A file for `steepen.load_results`, from which the same call resumes; an error if it is of another
        network, loss, data, base or setting.

    Examples
    --------
    >>> import torch
    >>> x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    >>> y = (x[:, 0] > 0).long()
    >>> found = compare(
    ...     lambda: torch.nn.Linear(4, 2), torch.nn.functional.cross_entropy, (x, y), (x, y),
    ...     methods=["sam"], budget=2, seeds=2, lr=(0.1, 0.3), weight_decay=(1e-4, 1e-3), batch=20,
    ... )
    >>> found.methods, len(found.trials), len(found.runs)
    (['base', 'sam'], 8, 4)
    """
    whole("seeds", seeds, 1)
    whole("batch", batch, 1)
    number("validation", validation, "a part of the training data, above 0 and below 1", above=0, below=1)
    number("budget", budget, "a number of passes over the training data, 1 or more", least=1)
    kinds, build = _kinds(methods), builder(base)
    data = read_data(train, test, device)
    held = range(len(data.y) - max(1, round(validation * len(data.y))), len(data.y))
    if batch > held.start:
        raise ValueError(f"batch: expected at most the {held.start} examples to train on, got {batch}")
    task = Task(maker(make_model, device), loss, data, batch, build, augment, autocast, held_out=held)
    grads = budget * held.start / batch
    for kind in kinds.values():
        steps_of(kind, grads, batch)  # refuses too few
    squares = _squares(base, kinds, lr, weight_decay, strengths or {})
    settings: dict[str, Any] = fingerprint(task) | {
        "budget": budget, "batch": batch, "validation": validation, "device": device,
        "autocast": None if autocast is None else str(autocast), "version": version(),
        "torch": str(torch.__version__),
    }  # fmt: skip
    file = None if out is None else jobs.JobFile(out, _KEY, {"results": "comparison", **settings})
    found = Comparison(settings, list(kinds))
    runs = partial(_runs, kinds=kinds, grads=grads, file=file, progress=progress)
    apart: Any = task.apart()[1]
    tries = [(name, one, _TRIAL) for name, square in squares.items() for one in square if len(square) > 1]
    for name, choice, run in runs("trial", replace(task, data=apart), tries):
        score = -run.loss if math.isnan(run.accuracy) else run.accuracy
        found.trials[name, choice] = math.nan if run.diverged else score
    for name, trials in squares.items():  # of equals the first, in whatever order they have ended
        index = best([found.trials[name, one] for one in trials]) if len(trials) > 1 else 0
        if index is not None:
            found.choices[name] = trials[index]
    left = [(name, one, seed) for seed in range(seeds) for name, one in found.choices.items()]
    found.runs = sorted((run for *_, run in runs("final", task, left)), key=lambda run: run.seed)
    return found


def _runs(
    stage: str, task: Task, wanted: list[Any], *, kinds: Mapping[str, Method], grads: float, file: Any,
    progress: bool,
) -> Iterator[tuple[str, Choice, Run]]:  # fmt: skip
    """Train with these methods, choices and seeds, or read the runs from the file."""
    keys = [(stage, name, *choice, seed) for name, choice, seed in dict.fromkeys(wanted)]
    for done in jobs.run(
        _fit, keys, file=file, strict=True, progress=progress,
        send=lambda key: (task, kinds[cast(str, key[1])], key, grads),
        title=lambda key: f"{key[1]}, lr {key[2]}, weight decay {key[3]}, seed {key[5]}",
    ):  # fmt: skip
        _, name, *choice, _ = cast(Any, done.key)
        yield name, Choice(*choice), Run.of(done.value)


def _kinds(methods: Sequence[str] | Mapping[str, Method]) -> dict[str, Method]:
    """Return the methods by name, the base first."""
    if isinstance(methods, str):
        raise TypeError(f"methods: expected a list of names, got {methods!r}")
    if isinstance(methods, Mapping):
        return {"base": BASE, **methods}
    return {"base": BASE} | {name: METHODS[one_of("methods", name, METHODS)] for name in methods}


def _squares(
    base: Any, kinds: Mapping[str, Method], lr: Any, decay: Any, strengths: Mapping[str, Any]
) -> dict[str, list[Choice]]:
    """Return the trials of each method."""
    own = BASES[base] if isinstance(base, str) else None
    if own is None and lr is None:
        raise ValueError("lr: expected values to choose from, as base is a callable; got None")
    rates = _values("lr", own.lr if own and lr is None else lr)
    if decay is None:
        decay = 0.0 if own is None else _some(own.decay, len(rates))
    decays = _values("weight_decay", decay, len(rates), zero=True)
    for name in strengths:
        if name not in kinds:
            raise ValueError(f"strengths: {name!r} is not one of the methods, {', '.join(kinds)}")

    def values_of(name: str, kind: Method) -> Sequence[float]:
        ladder = strengths.get(name, _some(kind.ladder, len(rates)))
        return _values("strengths", ladder, len(rates)) if kind.symbol else (0.0,) * len(rates)

    return {name: square(rates, decays, values_of(name, kind)) for name, kind in kinds.items()}


def _some(three: Sequence[float], count: int) -> Sequence[float]:
    """Return `count` of three values: the middle one, the lower two, or all."""
    return {1: three[1:2], 2: three[:2]}.get(count, three)


def _values(name: str, given: Any, count: int | None = None, *, zero: bool = False) -> tuple[float, ...]:
    values: tuple[Any, ...] = tuple(cast(Any, given)) if isinstance(given, Sequence) else (given,)
    if count is not None and len(values) == 1:
        values *= count
    if not values or (count is not None and len(values) != count):
        raise ValueError(f"{name}: expected {count or 1} values, as many as for lr; got {given!r}")
    for value in values:
        if zero:
            number(name, value, "numbers, 0 or more", least=0)
        else:
            number(name, value, "positive numbers", above=0)
    return values


def _fit(task: Task, method: Method, key: tuple[Any, ...], grads: float) -> dict[str, Any]:
    _, name, *choice, seed = key
    return fit(task, name, method, Choice(*choice), seed=seed, grads=grads).record()
