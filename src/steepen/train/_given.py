"""What the user gives to `compare`: the network, the base, the data; and how they are known again."""

from __future__ import annotations

import inspect
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import torch

from .._tools.check import is_number, one_of
from .optimizers import BASES, base_of
from .training import Data, Task, drawing, take

Builder = Callable[[Any, float, float], Any]


def builder(base: str | Builder) -> Builder:
    """Return what builds the base from parameters, lr and weight decay."""
    if isinstance(base, str):
        return base_of(one_of("base", base, BASES))
    if not callable(base):
        raise TypeError(f"base: expected 'sgd', 'adamw' or a callable, got {base!r}")

    def build(params: Any, lr: float, decay: float) -> Any:
        made = base(params, lr, decay)
        if not isinstance(made, torch.optim.Optimizer):
            raise TypeError(f"base: expected to be given an optimizer of torch, got {made!r}")
        return made

    return build


def rates_of(base: Any) -> tuple[float, ...]:
    """Return three learning rates to choose from: those of SGD, or around the default of the class."""
    if isinstance(base, torch.optim.SGD):
        return 0.03, 0.1, 0.3
    own: Any = _defaults(base).get("lr")
    if not is_number(own):
        raise ValueError(
            f"lr: expected values to choose from, as {type(base).__name__} has no default; got None"
        )
    return tuple(float(f"{factor * own:.3g}") for factor in (0.3, 1, 3))


def decays_of(base: Any) -> tuple[float, ...]:
    """Return three weight decays to choose from; AdamW's is apart from the gradient, and larger."""
    apart = isinstance(base, torch.optim.AdamW) or base.defaults.get("decoupled_weight_decay")
    return (0.01, 0.1, 0.3) if apart else (1e-4, 1e-3, 1e-2)


def _defaults(base: Any) -> dict[str, Any]:
    parameters = inspect.signature(base.__class__).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}


def read_data(train: Any, test: Any, device: str) -> Data:
    """Read both parts into tensors on the device, the training part in a random order."""
    with drawing(0):  # a loader that shuffles has the same order in the next call
        parts = [_pair(name, _read(name, given)) for name, given in (("train", train), ("test", test))]
    (x, y), (x_test, y_test) = (tuple(_moved(one, device) for one in part) for part in parts)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)).to(device)
    return Data(take(x, order), y[order], x_test, y_test)  # what is held out must not be one class


def _read(name: str, given: Any) -> Any:
    """Return all examples as one batch: a pair, or a dict."""
    if isinstance(given, Mapping) or (isinstance(given, tuple | list) and len(cast(list[Any], given)) == 2):
        return cast(Any, given)
    if isinstance(given, torch.utils.data.DataLoader):
        generator: Any = cast(Any, given).generator
        before = None if generator is None else generator.get_state()
        if generator is not None:
            generator.manual_seed(0)
        found = [_pair(name, batch) for batch in cast(Any, given)]
        if generator is not None:
            generator.set_state(before)
        try:
            return tuple(_joined([pair[i] for pair in found]) for i in (0, 1))
        except RuntimeError as error:
            raise ValueError(
                f"{name}: expected batches whose examples are alike, as texts padded to one length; {error}"
            ) from error
    if hasattr(given, "__getitem__") and hasattr(given, "__len__") and not hasattr(given, "dtype"):
        return torch.utils.data.default_collate([given[i] for i in range(len(given))])
    raise TypeError(
        f"{name}: expected examples and targets, a dict, a dataset or a loader, got {type(given).__name__}"
    )


def _pair(name: str, batch: Any) -> tuple[Any, Any]:
    """Return the examples and the targets of a batch; in a dict these are its "labels"."""
    if isinstance(batch, Mapping):
        x = dict(cast(Mapping[str, Any], batch))
        if "labels" not in x:
            raise ValueError(f"{name}: expected the targets under 'labels' in a dict, got {', '.join(x)}")
        y = x.pop("labels")
    else:
        x, y = batch
    counts = [len(part) for part in (cast(dict[str, Any], x).values() if isinstance(x, Mapping) else (x,))]
    if not len(y) or counts != [len(y)] * len(counts):
        raise ValueError(
            f"{name}: expected as many targets as examples, got {len(y)} and {', '.join(map(str, counts))}"
        )
    return x, y


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], Mapping):
        return {key: _joined([part[key] for part in parts]) for key in parts[0]}
    return torch.cat([torch.as_tensor(part) for part in parts])


def _moved(part: Any, device: str) -> Any:
    if isinstance(part, Mapping):
        return {key: _moved(one, device) for key, one in cast(Mapping[str, Any], part).items()}
    return torch.as_tensor(part).to(device)


def maker(make_model: Callable[[], Any], device: str) -> Callable[[int], Any]:
    """Return what builds the network with weights that follow from a seed."""
    if isinstance(make_model, torch.nn.Module) or not callable(make_model):
        raise TypeError(
            f"make_model: expected a function that returns a new network, got {type(make_model).__name__}; "
            "each run needs its own: write def make_model(): return …"
        )

    def make(seed: int) -> Any:
        with drawing(seed):  # on the CPU, so that the device makes no difference
            model = make_model()
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
        "data": f"{len(task.data.y)}+{len(task.data.y_test)}:{_checksum(task.data)}",
        "base": _words(task.base(model.parameters(), 1e-3, 0.0)),
    }


def _checksum(parts: Iterable[Any], total: int = 0) -> str:
    for one in parts:
        if isinstance(one, Mapping):
            one = torch.tensor(bytearray(_checksum(cast(Mapping[str, Any], one).values()).encode()))
        if isinstance(one, torch.Tensor):
            flat = one.detach().cpu().contiguous().reshape(-1)
            total = zlib.crc32(f"{one.dtype}{tuple(one.shape)}".encode(), total)
            total = zlib.crc32(flat.view(torch.uint8).numpy().tobytes(), total)
    return f"{total:08x}"


def _first_loss(task: Task, model: Any, smoothed: bool) -> float:
    x, y = take(task.data.x, slice(task.batch)), task.data.y[: task.batch]
    with torch.no_grad(), drawing(0, task.device):
        if task.augment is not None:
            x = task.augment(x, torch.Generator(task.device).manual_seed(0))
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
    return float(f"{float(value):.3g}")  # a GPU may add in another order


def _words(base: Any) -> str:
    """Name an optimizer with the options that are not its class's own, of each group."""
    own, words = _defaults(base), list[str]()
    for group in base.param_groups:
        options = {name: group[name] for name in own if name in group and name not in ("lr", "weight_decay")}
        changed = [f"{name}={value}" for name, value in options.items() if own[name] != value]
        words.append(f"{type(base).__name__}({', '.join(changed)})")
    return " + ".join(dict.fromkeys(words))


def check_device(device: str) -> None:
    """Refuse a device that is not here."""
    if device not in ("cpu", "cuda", "mps"):
        raise ValueError(f"device: expected cpu, cuda or mps, got {device!r}")
    if device != "cpu" and not getattr(torch, device).is_available():
        raise ValueError(f"device: there is no {device} here; expected cpu")
