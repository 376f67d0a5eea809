"""`compare`, for users: equal budgets and trials, tuned without the test data; writes only the file `out`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch

from .._tools import jobs
from .._tools.check import number, one_of, whole
from .._tools.fingerprint import fingerprint, mark, said
from .._tools.version import version
from ..torch._batch import leaves, mapped
from .results import Choice, Comparison, Run, best, square
from .training import (
    BASE,
    BASES,
    CONTROLS,
    METHODS,
    Builder,
    Data,
    Method,
    Task,
    drawing,
    fit,
    judge,
    steps_of,
    take,
)

_KEY = ("stage", "method", "lr", "weight_decay", "strength", "seed", "kind")
_TRIAL = 1000  # the seed of all trials; no run has it
_STEP = 0.0123, 0.0321  # lr and weight decay of the step that tells tasks apart: values that no base has


def compare(
    make_model: Callable[[], Any], loss: Callable[..., Any], train: Any, test: Any, *,
    base: str | Callable[[Any, float, float], Any] = "sgd",
    methods: Sequence[str] | Mapping[str, Method] = ("sam", "sam16-late", "gap"), controls: bool = True,
    budget: float = 10.0, seeds: int = 3, lr: float | Sequence[float] | None = None,
    weight_decay: float | Sequence[float] | None = None, batch: int = 128, validation: float = 0.1,
    augment: Callable[[Any, Any], Any] | None = None, autocast: Any = None,
    device: str | torch.device = "cpu", out: str | os.PathLike[str] | None = None, progress: bool = False,
    workers: Any = None,
) -> Comparison:  # fmt: skip
    """Train a network with several methods, all with the same number of gradients and of trials.

    Print the result for a table and a verdict.

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
        Names from `METHODS`, or your own `Method` by name. The base alone is always the first row.
    controls : bool
        Whether to add rows of the base with its own settings: fewer steps, a mean of the weights, and the
        held-out data returned to training. The verdict compares each method with the best of them.
    budget : float
        The gradients of a run, in epochs; an ascent step counts in proportion to its examples.
    lr, weight_decay : number or k numbers
        The values to choose from: k of each make k² trials per method, one weight decay k, one of each none.
        By default three that suit "sgd" or "adamw"; another base needs lr, and weight_decay if it has any.
    validation : float
        The part of the training data, drawn at random, held out for tuning, early stopping and GapSAM.
    augment : callable, optional
        `augment(x, generator)` returns the augmented examples of a minibatch.
    autocast : torch.dtype, optional
        The precision of the passes, such as `torch.bfloat16`.
    out : path, optional
        A file for `steepen.load_results`, from which the same call resumes; an error if it is of another
        network, loss, data, base, augmentation or setting.
    workers : int, executor or map-like callable, optional
        Where the runs are made, as in `steepen.sweep`; by default in this process, one after the other.

    Examples
    --------
    >>> import torch
    >>> x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    >>> y = (x[:, 0] > 0).long()
    >>> found = compare(
    ...     lambda: torch.nn.Linear(4, 2), torch.nn.functional.cross_entropy, (x, y), (x, y),
    ...     methods=["sam"], controls=False, budget=2, seeds=2, lr=(0.1, 0.3), weight_decay=(1e-4, 1e-3),
    ...     batch=20,
    ... )
    >>> found.methods, len(found.trials), len(found.runs)
    (['base', 'sam'], 8, 4)
    """
    whole("seeds", seeds, 1)
    whole("batch", batch, 1)
    number("validation", validation, "a part of the training data, above 0 and below 1", above=0, below=1)
    number("budget", budget, "a number of passes over the training data, 1 or more", least=1)
    for name, given in (("loss", loss), ("augment", loss if augment is None else augment)):
        if not callable(given):
            raise TypeError(f"{name}: expected a function, got {given!r}")
    kinds, build = _kinds(methods, controls), _builder(base)
    data = _read_data(train, test, device)
    held = range(len(data.y) - max(1, round(validation * len(data.y))), len(data.y))
    if batch > held.start:
        raise ValueError(f"batch: expected at most the {held.start} examples to train on, got {batch}")
    task = Task(_maker(make_model, device), loss, data, batch, build, augment, autocast, held_out=held)
    grads = budget * held.start / batch
    squares = _squares(base, kinds, lr, weight_decay)
    model, other = _networks(task)
    settings: dict[str, Any] = _fingerprint(task, model) | {
        "budget": budget, "batch": batch, "validation": validation, "device": str(device),
        "autocast": str(autocast), "version": version(), "torch": str(torch.__version__),
    }  # fmt: skip
    _try(task, other, kinds, squares, grads)
    file = None if out is None else jobs.JobFile(out, _KEY, {"results": "comparison", **settings})
    found = Comparison(settings, list(kinds), controls=[name for name in kinds if name in CONTROLS])
    runs = partial(_runs, kinds=kinds, grads=grads, file=file, progress=progress, workers=workers)
    apart: Any = task.apart()[1]
    tries = [(name, one, _TRIAL) for name, square in squares.items() for one in square if len(square) > 1]
    for name, choice, run in runs("trial", replace(task, data=apart), tries):
        score = -run.loss if math.isnan(run.accuracy) else run.accuracy
        found.trials[name, choice] = math.nan if run.diverged else score
    for name, trials in squares.items():  # of equals the first, in whatever order they have ended
        index = best([found.trials[name, one] for one in trials]) if len(trials) > 1 else 0
        if index is not None:
            found.choices[name] = trials[index]
    if "base" in found.choices:
        found.choices |= dict.fromkeys(found.controls, found.choices["base"])
    left = [
        (name, found.choices[name], seed) for seed in range(seeds) for name in kinds if name in found.choices
    ]
    found.runs = sorted((run for *_, run in runs("final", task, left)), key=lambda run: run.seed)
    return found


def _runs(
    stage: str, task: Task, wanted: list[Any], *, kinds: Mapping[str, Method], grads: float, **options: Any
) -> Iterator[tuple[str, Choice, Run]]:
    """Train with these methods, choices and seeds, or read the runs from the file."""
    marks = {name: mark((kind, kind.when(steps_of(kind, grads, task.batch)))) for name, kind in kinds.items()}
    keys = [(stage, name, *choice, seed, marks[name]) for name, choice, seed in dict.fromkeys(wanted)]
    for done in jobs.run(
        _fit, keys, strict=True, **options,
        send=lambda key: (task, kinds[cast(str, key[1])], key, grads),
        title=lambda key: f"{key[1]}, lr {key[2]}, weight decay {key[3]}, seed {key[5]}",
    ):  # fmt: skip
        _, name, *choice, _, _ = cast(Any, done.key)
        yield name, Choice(*choice), Run.of(done.value)


def _kinds(methods: Sequence[str] | Mapping[str, Method], controls: bool) -> dict[str, Method]:
    """Return the methods by name, the base first, then its controls."""
    if isinstance(methods, str):
        raise TypeError(f"methods: expected a list of names, got {methods!r}")
    if not isinstance(methods, Mapping):
        methods = {name: METHODS[one_of("methods", name, METHODS)] for name in methods}
    for name, kind in methods.items():
        if name in ("base", *CONTROLS) or not isinstance(cast(Any, kind), Method):
            other = "a Method by a name other than 'base' and those of its controls"
            raise TypeError(f"methods: expected {other}, got {name!r}: {kind!r}")
    return {"base": BASE, **(CONTROLS if controls else {}), **methods}


def _squares(base: Any, kinds: Mapping[str, Method], lr: Any, decay: Any) -> dict[str, list[Choice]]:
    """Return the trials of each method."""
    own = BASES[base] if isinstance(base, str) else None
    if own is None and lr is None:
        raise ValueError("lr: expected values to choose from, as base is a callable; got None")
    lrs = _values("lr", own.lr if own and lr is None else lr)
    k = len(lrs)
    if decay is None:
        decay = 0.0 if own is None else _some(own.decay, k)
    decays = _values("weight_decay", decay, k)
    tuned = {name: kind for name, kind in kinds.items() if name not in CONTROLS}
    tried = {name: _some(kind.ladder, k) if kind.symbol else 0.0 for name, kind in tuned.items()}
    return {name: square(lrs, decays, _values(f"ladder of {name!r}", one, k)) for name, one in tried.items()}


def _some(values: Sequence[float], k: int) -> Sequence[float]:
    """Return the middle one or the lower two of three values, if there is to be a choice of so many."""
    return values[2 - k : 2] if k < len(values) == 3 else values


def _values(name: str, given: Any, k: int | None = None) -> tuple[float, ...]:
    """Return the values of lr, or those of something else: one, or as many as the k of lr."""
    values: tuple[Any, ...] = tuple(np.ravel(given).tolist())
    if len(values) not in (1, k or len(values) or 1):
        had = "methods and bases that are named have up to 3"
        raise ValueError(f"{name}: expected {k or 1} values, as many as for lr; got {len(values)}; {had}")
    low: Any = {"above": 0} if k is None else {"least": 0}
    for value in values:
        number(name, value, "positive numbers" if k is None else "numbers, 0 or more", **low)
    return values


def _fit(task: Task, method: Method, key: tuple[Any, ...], grads: float) -> dict[str, Any]:
    _, name, *choice, seed, _ = key
    return fit(task, name, method, Choice(*choice), seed=seed, grads=grads).record()


def _builder(base: str | Builder) -> Builder:
    """Return a function that builds the base from parameters, lr and weight decay."""
    if isinstance(base, str):
        return BASES[one_of("base", base, BASES)].build
    if not callable(base):
        raise TypeError(f"base: expected 'sgd', 'adamw' or a callable, got {base!r}")
    return base


def _read_data(train: Any, test: Any, device: Any) -> Data:
    """Read both parts into tensors on the device, the training part in a random order."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # of a torch without it
        raise ValueError(f"device: expected an available one, such as 'cpu'; got {device!r}") from error
    with drawing(0):  # a loader that shuffles has the same order in the next call
        (x, y), (x_test, y_test) = (_read(*one, device) for one in (("train", train), ("test", test)))
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)).to(device)
    return Data(take(x, order), y[order], x_test, y_test)  # what is held out must not be one class


def _read(name: str, given: Any, device: Any) -> tuple[Any, Any]:
    """Return all examples and all targets."""
    batches: Any = [given]
    if not isinstance(given, Mapping) and not (type(given) in (tuple, list) and len(given) == 2):
        if not hasattr(given, "__len__") or hasattr(given, "dtype"):
            kinds = "examples and targets, a dict, a dataset or a loader"
            raise TypeError(f"{name}: expected {kinds}, got {type(given).__name__}")
        loads = torch.utils.data.DataLoader
        batches = cast(Any, given) if isinstance(given, loads) else loads(given, batch_size=len(given) or 1)
    generator = getattr(batches, "generator", None) or torch.Generator()
    state = generator.get_state()
    generator.manual_seed(0)
    pairs = [_pair(name, batch) for batch in batches]
    generator.set_state(state)
    if not pairs:
        raise ValueError(f"{name}: expected examples, got none")
    flat = [leaves(pair) for pair in pairs]
    try:
        whole = iter([torch.cat(parts).detach().to(device) for parts in zip(*flat, strict=True)])
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"{name}: expected examples of one shape, such as padded texts; {error}") from error
    return mapped(lambda _: next(whole), pairs[0])


def _pair(name: str, batch: Any) -> tuple[Any, Any]:
    """Return the examples and the targets of a batch; in a dict these are its "labels"."""
    if isinstance(batch, Mapping):
        rest: dict[str, Any] = dict(sorted(cast(Mapping[str, Any], batch).items()))
        if "labels" not in rest:
            raise ValueError(f"{name}: expected the targets under 'labels' in a dict, got {', '.join(rest)}")
        batch = rest, rest.pop("labels")
    if len(batch) != 2:
        raise ValueError(f"{name}: expected pairs of examples and targets, got {len(batch)} parts")
    x, y = mapped(torch.as_tensor, tuple(batch))
    counts = [len(part) for part in leaves(x)]
    if not len(y) or set(counts) != {len(y)}:
        raise ValueError(f"{name}: expected as many targets as examples, got {len(y)} and {counts}")
    return x, y


def _maker(make_model: Callable[[], Any], device: Any) -> Callable[[int], Any]:
    """Return a function that builds the network with weights set by a seed."""
    if isinstance(make_model, torch.nn.Module) or not callable(make_model):
        came = type(make_model).__name__
        raise TypeError(f"make_model: expected a function that returns a new network, got {came}")

    def make(seed: int) -> Any:
        with drawing(seed):  # on the CPU, so that the device makes no difference
            model = make_model()
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"make_model: expected it to return a torch Module, got {type(model).__name__}")
        return model.to(device).train()

    return make


def _networks(task: Task) -> tuple[Any, Any]:
    """Return two networks of the same weights; training one must leave the other."""
    pair = task.make(0), task.make(0)
    parts = ([*net.buffers(), *(p for p in net.parameters() if p.requires_grad)] for net in pair)
    one, other = ({part.data_ptr() for part in its} - {0} for its in parts)  # 0 is that of what is empty
    if one & other:
        raise ValueError("make_model: expected a new network in each call, got the same weights or buffers")
    if not all(map(torch.equal, *(net.parameters() for net in pair))):
        raise ValueError("make_model: expected the same weights for the same seed of torch, they differ")
    return pair


def _fingerprint(task: Task, model: Any) -> dict[str, Any]:
    """Check network, base and loss, by one step; return what tells tasks apart."""
    made = task.base(model.parameters(), *_STEP)
    if not isinstance(made, torch.optim.Optimizer):
        raise TypeError(f"base: expected it to return a torch optimizer, got {made!r}")
    shapes = [(name, *parameter.shape) for name, parameter in model.named_parameters()]
    return {
        "loss": fingerprint(task.loss),
        "augment": fingerprint(task.augment),
        "network": mark((shapes, said(model))),
        "data": f"{len(task.data.y)}+{len(task.data.y_test)}:{mark(task.data)}",
        "base": [" ".join(repr(made).split()), fingerprint(task.base)],
        "first losses": _first_losses(task, model, made),
    }


def _first_losses(task: Task, model: Any, base: Any) -> str:
    """Return the loss before and after a step as in training: all that a task does has a part in them."""
    random = torch.Generator(task.device).manual_seed(0)
    with drawing(0, task.device):
        x, y = task.minibatch(torch.arange(task.batch, device=task.device), random)
        value = task.loss(task.forward(model, x), y)
        if not (isinstance(value, torch.Tensor) and value.numel() == 1 and value.isfinite()):
            raise ValueError(f"loss: expected a finite number at the initial weights, got {value!r}")
        task.step(model, base, x, y)
        after = task.loss(task.forward(model, x), y)
    # a GPU adds in any order, and other CPUs in another one
    digits = 5 if task.device.type == "cpu" and task.autocast is None else 3
    return ", then ".join(f"{float(one.detach()):.{digits}g}" for one in (value, after))


def _try(task: Task, model: Any, kinds: Mapping[str, Method], squares: Any, grads: float) -> None:
    """Raise if the network does not take the test data, or a method not its options."""
    where = "test"
    try:
        if not math.isfinite(loss := judge(model, task.data, task)[1]):
            raise ValueError(f"expected a finite loss at the initial weights, got {loss}")
        for name, kind in kinds.items():
            where = f"methods: {name!r}"
            choice = squares.get(name, squares["base"])[0]
            task.optimizer(model, kind, choice, steps_of(kind, grads, task.batch), None)
    except Exception as error:
        raise ValueError(f"{where}: {error}") from error
