"""`compare`, for users: equal budgets and trials, tuned without the test data; writes only the file `out`."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch

from .._tools import jobs
from .._tools.check import number, one_of, whole
from .._tools.fingerprint import fingerprint
from .._tools.version import version
from ..torch._batch import leaves, mapped
from .results import Choice, Comparison, Run, best, square
from .training import BASE, BASES, METHODS, Builder, Data, Method, Task, drawing, fit, steps_of, take

_KEY = ("stage", "method", "lr", "weight_decay", "strength", "seed", "kind")
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
    batch: int = 128,
    validation: float = 0.1,
    augment: Callable[[Any, Any], Any] | None = None,
    autocast: Any = None,
    device: str = "cpu",
    out: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Comparison:
    """Train a network with several methods, all with the same number of gradients and of trials.

    Print the result for a table and a verdict. Inside `joblib.parallel_config(n_jobs=2)` two run at a time.

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
    budget : float
        The gradients of a run, in epochs; an ascent step counts in proportion to its examples.
    lr, weight_decay : number or k numbers
        The values to choose from: k values of each give k² trials per method; one value, no trials. By
        default three that suit "sgd" or "adamw"; for another base pass lr, and weight_decay if it has any.
    validation : float
        The part of the training data, drawn at random, held out for tuning, early stopping and GapSAM.
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
    kinds, build = _kinds(methods), _builder(base)
    data = _read_data(train, test, device)
    held = range(len(data.y) - max(1, round(validation * len(data.y))), len(data.y))
    if batch > held.start:
        raise ValueError(f"batch: expected at most the {held.start} examples to train on, got {batch}")
    task = Task(_maker(make_model, device), loss, data, batch, build, augment, autocast, held_out=held)
    grads = budget * held.start / batch
    for kind in kinds.values():
        steps_of(kind, grads, batch)  # refuses too few
    squares = _squares(base, kinds, lr, weight_decay)
    settings: dict[str, Any] = _fingerprint(task) | {
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
    marks = {name: f"{zlib.crc32(fingerprint(kind).encode()):08x}" for name, kind in kinds.items()}
    keys = [(stage, name, *choice, seed, marks[name]) for name, choice, seed in dict.fromkeys(wanted)]
    for done in jobs.run(
        _fit, keys, file=file, strict=True, progress=progress,
        send=lambda key: (task, kinds[cast(str, key[1])], key, grads),
        title=lambda key: f"{key[1]}, lr {key[2]}, weight decay {key[3]}, seed {key[5]}",
    ):  # fmt: skip
        _, name, *choice, _, _ = cast(Any, done.key)
        yield name, Choice(*choice), Run.of(done.value)


def _kinds(methods: Sequence[str] | Mapping[str, Method]) -> dict[str, Method]:
    """Return the methods by name, the base first."""
    if isinstance(methods, str):
        raise TypeError(f"methods: expected a list of names, got {methods!r}")
    if isinstance(methods, Mapping):
        return {"base": BASE, **methods}
    return {"base": BASE} | {name: METHODS[one_of("methods", name, METHODS)] for name in methods}


def _squares(base: Any, kinds: Mapping[str, Method], lr: Any, decay: Any) -> dict[str, list[Choice]]:
    """Return the trials of each method."""
    own = BASES[base] if isinstance(base, str) else None
    if own is None and lr is None:
        raise ValueError("lr: expected values to choose from, as base is a callable; got None")
    rates = _values("lr", own.lr if own and lr is None else lr)
    k = len(rates)
    if decay is None:
        decay = 0.0 if own is None else _some(own.decay, k)
    decays = _values("weight_decay", decay, k, zero=True)
    tried = {name: _some(kind.ladder, k) if kind.symbol else 0.0 for name, kind in kinds.items()}
    return {name: square(rates, decays, _values("ladder", one, k, zero=True)) for name, one in tried.items()}


def _some(values: Sequence[float], k: int) -> Sequence[float]:
    """Return the middle one or the lower two of three values, if there is to be a choice of so many."""
    return values[2 - k : 2] if k < len(values) == 3 else values


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
    _, name, *choice, seed, _ = key
    return fit(task, name, method, Choice(*choice), seed=seed, grads=grads).record()


def _builder(base: str | Builder) -> Builder:
    """Return a function that builds the base from parameters, lr and weight decay."""
    if isinstance(base, str):
        return BASES[one_of("base", base, BASES)].build
    if not callable(base):
        raise TypeError(f"base: expected 'sgd', 'adamw' or a callable, got {base!r}")
    return base


def _read_data(train: Any, test: Any, device: str) -> Data:
    """Read both parts into tensors on the device, the training part in a random order."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # of a torch without it
        raise ValueError(f"device: expected an available one, such as 'cpu'; got {device!r}") from error
    with drawing(0):  # a loader that shuffles has the same order in the next call
        (x, y), (x_test, y_test) = (_read(*one, device) for one in (("train", train), ("test", test)))
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)).to(device)
    return Data(take(x, order), y[order], x_test, y_test)  # what is held out must not be one class


def _read(name: str, given: Any, device: str) -> tuple[Any, Any]:
    """Return all examples and all targets."""
    batches: Any = [given]
    if not isinstance(given, Mapping) and not (type(given) in (tuple, list) and len(given) == 2):
        if not hasattr(given, "__len__") or hasattr(given, "dtype"):
            kinds = "examples and targets, a dict, a dataset or a loader"
            raise TypeError(f"{name}: expected {kinds}, got {type(given).__name__}")
        loads = torch.utils.data.DataLoader
        batches = cast(Any, given) if isinstance(given, loads) else loads(given, batch_size=len(given))
    generator = getattr(batches, "generator", None) or torch.Generator()
    state = generator.get_state()
    generator.manual_seed(0)
    pairs = [_pair(name, batch) for batch in batches]
    generator.set_state(state)
    flat = [leaves(pair) for pair in pairs]
    try:
        whole = iter([torch.cat(parts).to(device) for parts in zip(*flat, strict=True)])
    except (RuntimeError, ValueError) as error:
        text = f"{name}: expected batches whose examples have one shape, such as padded texts; {error}"
        raise ValueError(text) from error
    return mapped(lambda _: next(whole), pairs[0])


def _pair(name: str, batch: Any) -> tuple[Any, Any]:
    """Return the examples and the targets of a batch; in a dict these are its "labels"."""
    if isinstance(batch, Mapping):
        rest: dict[str, Any] = dict(sorted(cast(Mapping[str, Any], batch).items()))
        if "labels" not in rest:
            raise ValueError(f"{name}: expected the targets under 'labels' in a dict, got {', '.join(rest)}")
        batch = rest, rest.pop("labels")
    x, y = mapped(torch.as_tensor, tuple(batch))
    counts = [len(part) for part in leaves(x)]
    if not len(y) or set(counts) != {len(y)}:
        came = f"{len(y)} and {', '.join(map(str, counts))}"
        raise ValueError(f"{name}: expected as many targets as examples, got {came}")
    return x, y


def _maker(make_model: Callable[[], Any], device: str) -> Callable[[int], Any]:
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


def _fingerprint(task: Task) -> dict[str, Any]:
    """Check the network and the loss; return what tells tasks apart: first loss, data, base."""
    model, again = task.make(0), task.make(0)
    if model is again:
        raise ValueError("make_model: expected a new network in each call, got the same one twice")
    pairs = zip(model.parameters(), again.parameters(), strict=True)
    if not all(torch.equal(one, other) for one, other in pairs):
        raise ValueError("make_model: expected the same weights for the same seed of torch, they differ")
    shapes = [(name, *parameter.shape) for name, parameter in model.named_parameters()]
    made = task.base(model.parameters(), 1e-3, 0.0)
    if not isinstance(made, torch.optim.Optimizer):
        raise TypeError(f"base: expected it to return a torch optimizer, got {made!r}")
    return {
        "loss": fingerprint(task.loss),
        "first loss": float(f"{_first_loss(task, model):.3g}"),  # a GPU adds in any order
        "network": f"{zlib.crc32(str(shapes).encode()):08x}",
        "data": f"{len(task.data.y)}+{len(task.data.y_test)}:{_checksum(task.data)}",
        "base": " ".join(repr(made).split()),
    }


def _checksum(data: Data) -> str:
    total = 0
    for one in leaves(data):
        flat = one.cpu().contiguous().reshape(-1).view(torch.uint8)
        total = zlib.crc32(f"{one.dtype}{tuple(one.shape)}".encode() + flat.numpy().tobytes(), total)
    return f"{total:08x}"


def _first_loss(task: Task, model: Any) -> float:
    x, y = take(task.data.x, slice(task.batch)), task.data.y[: task.batch]
    with torch.no_grad(), drawing(0, task.device):
        if task.augment is not None:
            x = task.augment(x, torch.Generator(task.device).manual_seed(0))
        value = task.loss(task.forward(model, x), y)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise TypeError(f"loss: expected a tensor of one number, got {value!r}")
    if not math.isfinite(float(value)):
        raise ValueError(f"loss: expected a finite number at the initial weights, got {float(value)}")
    return float(value)
