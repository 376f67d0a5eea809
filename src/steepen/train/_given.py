"""The inputs of `compare`: the network, the base, the data; and a fingerprint of them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch

from .._tools.check import one_of
from ..torch._batch import leaves, mapped
from .optimizers import BASES, Builder
from .training import Data, Task, drawing, take


def builder(base: str | Builder) -> Builder:
    """Return a function that builds the base from parameters, lr and weight decay."""
    if isinstance(base, str):
        return BASES[one_of("base", base, BASES)].build
    if not callable(base):
        raise TypeError(f"base: expected 'sgd', 'adamw' or a callable, got {base!r}")
    return base


def read_data(train: Any, test: Any, device: str) -> Data:
    """Read both parts into tensors on the device, the training part in a random order."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # of a torch without it
        raise ValueError(
            f"device: expected an available one, such as 'cpu'; got {device!r}: {error}"
        ) from error
    with drawing(0):  # a loader that shuffles has the same order in the next call
        (x, y), (x_test, y_test) = (_read(*one, device) for one in (("train", train), ("test", test)))
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)).to(device)
    return Data(take(x, order), y[order], x_test, y_test)  # what is held out must not be one class


def _read(name: str, given: Any, device: str) -> tuple[Any, Any]:
    """Return all examples and all targets."""
    batches: Any = [given]
    if not isinstance(given, Mapping) and not (type(given) in (tuple, list) and len(given) == 2):
        if not hasattr(given, "__len__") or hasattr(given, "dtype"):
            came = type(given).__name__
            raise TypeError(
                f"{name}: expected examples and targets, a dict, a dataset or a loader, got {came}"
            )
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
        raise ValueError(
            f"{name}: expected batches whose examples have one shape, such as padded texts; {error}"
        ) from error
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
        raise ValueError(
            f"{name}: expected as many targets as examples, got {len(y)} and {', '.join(map(str, counts))}"
        )
    return x, y


def maker(make_model: Callable[[], Any], device: str) -> Callable[[int], Any]:
    """Return a function that builds the network with weights set by a seed."""
    if isinstance(make_model, torch.nn.Module) or not callable(make_model):
        raise TypeError(
            f"make_model: expected a function that returns a new network, got {type(make_model).__name__}; "
            "each run needs a new one: def make_model(): return …"
        )

    def make(seed: int) -> Any:
        with drawing(seed):  # on the CPU, so that the device makes no difference
            model = make_model()
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"make_model: expected it to return a torch Module, got {type(model).__name__}")
        return model.to(device).train()

    return make


def fingerprint(task: Task) -> dict[str, Any]:
    """Check the network and the loss; return what tells tasks apart: first loss, data, base."""
    model, again = task.make(0), task.make(0)
    if model is again:
        raise ValueError("make_model: expected a new network in each call, got the same one twice")
    pairs = zip(model.parameters(), again.parameters(), strict=True)
    if not all(torch.equal(one, other) for one, other in pairs):
        raise ValueError("make_model: expected the same weights for the same seed of torch, they differ")
    made = task.base(model.parameters(), 1e-3, 0.0)
    if not isinstance(made, torch.optim.Optimizer):
        raise TypeError(f"base: expected it to return a torch optimizer, got {made!r}")
    left = ("params", "lr", "weight_decay")
    groups = [", ".join(f"{k}={v}" for k, v in one.items() if k not in left) for one in made.param_groups]
    return {
        "first loss": float(f"{_first_loss(task, model):.3g}"),  # a GPU adds in any order
        "data": f"{len(task.data.y)}+{len(task.data.y_test)}:{_checksum(task.data)}",
        "base": f"{type(made).__name__}({'; '.join(dict.fromkeys(groups))})",
    }


def _checksum(data: Data) -> str:
    total = 0
    for one in leaves(data):
        flat = one.cpu().contiguous().reshape(-1)
        total = zlib.crc32(f"{one.dtype}{tuple(one.shape)}".encode(), total)
        total = zlib.crc32(flat.view(torch.uint8).numpy().tobytes(), total)
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
