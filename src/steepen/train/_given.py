"""What the user gives to `compare`: the network, the base, the data; and how they are known again."""

from __future__ import annotations

import inspect
import math
import zlib
from collections.abc import Callable
from typing import Any

from .._tools.check import is_number, one_of
from .._tools.optional import load
from .data import Data
from .optimizers import base_of
from .settings import BASES
from .training import Task

Builder = Callable[[Any, float, float], Any]


def builder(base: str | Builder) -> Builder:
    """Return what builds the base from parameters, lr and weight decay."""
    if isinstance(base, str):
        return base_of(one_of("base", base, BASES))
    if not callable(base):
        raise TypeError(f"base: expected 'sgd', 'adamw' or a callable, got {base!r}")
    optim = load("torch.optim", "compare", extra="train")

    def build(params: Any, lr: float, decay: float) -> Any:
        made = base(params, lr, decay)
        if not isinstance(made, optim.Optimizer):
            raise TypeError(f"base: expected to be given an optimizer of torch, got {made!r}")
        return made

    return build


def rates_of(base: Any) -> tuple[float, ...]:
    """Return three learning rates to choose from: those of SGD, or around the default of the class."""
    optim = load("torch.optim", "compare", extra="train")
    if isinstance(base, optim.SGD):
        return 0.03, 0.1, 0.3
    own: Any = _defaults(base).get("lr")
    if not is_number(own):
        raise ValueError(
            f"lr: expected values to choose from, as {type(base).__name__} has no default; got None"
        )
    return tuple(float(f"{factor * own:.3g}") for factor in (0.3, 1, 3))


def decays_of(base: Any) -> tuple[float, ...]:
    """Return three weight decays to choose from; AdamW's is apart from the gradient, and larger."""
    optim = load("torch.optim", "compare", extra="train")
    apart = isinstance(base, optim.AdamW) or base.defaults.get("decoupled_weight_decay")
    return (0.01, 0.1, 0.3) if apart else (1e-4, 1e-3, 1e-2)


def _defaults(base: Any) -> dict[str, Any]:
    parameters = inspect.signature(base.__class__).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}


def read_data(train: Any, test: Any, device: str) -> Data:
    """Read both parts into tensors on the device, the training part in a random order."""
    torch = load("torch", "compare", extra="train")
    parts: list[Any] = []
    both: dict[str, Any] = {"train": train, "test": test}
    for name, given in both.items():
        pair: list[Any]
        if type(given) in (tuple, list) and len(given) == 2:
            pair = [torch.as_tensor(part) for part in given]
        elif isinstance(given, torch.utils.data.DataLoader):
            batches: list[Any] = list(given)
            pair = [torch.cat([torch.as_tensor(batch[i]) for batch in batches]) for i in (0, 1)]
        elif (
            all(hasattr(given, one) for one in ("__getitem__", "__len__"))
            and not hasattr(given, "keys")
            and (not hasattr(given, "dtype"))
        ):
            rows: list[Any] = [given[i] for i in range(len(given))]
            pair = [torch.stack([torch.as_tensor(row[i]) for row in rows]) for i in (0, 1)]
        else:
            raise TypeError(
                f"{name}: expected examples and targets, a dataset or a loader, got {type(given).__name__}"
            )
        if len(pair[0]) != len(pair[1]) or not len(pair[0]):
            raise ValueError(
                f"{name}: expected as many targets as examples, got {len(pair[1])} and {len(pair[0])}"
            )
        parts += [part.to(device) for part in pair]
    order = torch.randperm(len(parts[0]), generator=torch.Generator().manual_seed(0)).to(device)
    return Data(parts[0][order], parts[1][order], *parts[2:])  # what is held out must not be one class


def maker(make_model: Callable[[], Any], device: str) -> Callable[[int], Any]:
    """Return what builds the network with weights that follow from a seed."""
    torch = load("torch", "compare", extra="train")
    from .models import seeded

    if isinstance(make_model, torch.nn.Module) or not callable(make_model):
        raise TypeError(
            f"make_model: expected a function that returns a new network, got {type(make_model).__name__}; "
            "each run needs its own: write def make_model(): return …"
        )

    def make(seed: int) -> Any:
        model = seeded(make_model, seed)
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"make_model: expected to be given a torch.nn.Module, got {type(model).__name__}")
        return model.to(device).train()

    if make(0) is make(0):
        raise ValueError("make_model: expected a new network in each call, got the same one twice")
    return make


def fingerprint(task: Task, *, smoothed: bool) -> dict[str, Any]:
    """Return by what a later call knows the same task again; refuse what no run could mend.

    The weights that seed 0 draws, the loss of the first batch with them, the data, and the base: another
    architecture, loss or augmentation shows in one of these.
    """
    model = task.make(0)
    drawn = _checksum(model.state_dict().values())
    if drawn != _checksum(task.make(0).state_dict().values()):
        raise ValueError("make_model: expected the same weights for the same seed of torch, got others")
    return {
        "network": drawn,
        "first loss": _first_loss(task, model, smoothed),
        "data": f"{len(task.data.x)}+{len(task.data.x_test)}:{_checksum(task.data)}",
        "base": _words(task.base(model.parameters(), 1e-3, 0.0)),
    }


def _checksum(tensors: Any) -> str:
    torch = load("torch", "compare", extra="train")
    total = 0
    for one in tensors:
        if isinstance(one, torch.Tensor):
            flat = one.detach().cpu().contiguous().reshape(-1)
            total = zlib.crc32(f"{one.dtype}{tuple(one.shape)}".encode(), total)
            total = zlib.crc32(flat.view(torch.uint8).numpy().tobytes(), total)
    return f"{total:08x}"


def _first_loss(task: Task, model: Any, smoothed: bool) -> float:
    torch = load("torch", "compare", extra="train")
    x, y = task.data.x[: task.batch], task.data.y[: task.batch]
    with torch.no_grad(), torch.random.fork_rng([x.device] if x.is_cuda else []):
        torch.manual_seed(0)
        if task.augment is not None:
            x = task.augment(x, torch.Generator(x.device).manual_seed(0))
        out = task.forward(model, x)
        value = task.loss(out, y)
        if smoothed:
            try:
                task.loss(out, y, label_smoothing=0.1)
            except TypeError as error:
                raise ValueError("methods: 'smooth' needs a loss that takes label_smoothing") from error
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise TypeError(f"loss: expected a tensor of one number, got {value!r}")
    if not math.isfinite(float(value)):
        raise ValueError(f"loss: expected a finite number at the initial weights, got {float(value)}")
    return float(value)


def _words(base: Any) -> str:
    """Name an optimizer with the options that are not its class's own, of each group."""
    own, words = _defaults(base), list[str]()
    for group in base.param_groups:
        options = {name: group[name] for name in own if name in group and name not in ("lr", "weight_decay")}
        changed = [f"{name}={value}" for name, value in options.items() if own[name] != value]
        words.append(f"{type(base).__name__}({', '.join(changed)})")
    return " + ".join(dict.fromkeys(words))
