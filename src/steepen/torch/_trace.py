"""What a pass leaves behind: random numbers drawn, buffers changed, gradients of others, modes set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ._tensors import copied, lists

Undo = Callable[[], None]


def random_of(device: torch.device) -> Undo:
    """Remember torch's random state, of the CPU and of the device; return what puts it back."""
    there: Any = None if device.type in ("cpu", "meta") else torch.get_device_module(device)
    here = torch.get_rng_state()
    state = None if there is None else there.get_rng_state(device)

    def undo() -> None:
        torch.set_rng_state(here)
        if there is not None:
            there.set_rng_state(state, device)

    return undo


def gradients_of(params: Sequence[Tensor]) -> Undo:
    """Put the gradients of parameters aside; return what puts them back."""
    kept = [(p, p.grad) for p in params]
    for p in params:
        p.grad = None

    def undo() -> None:
        for p, grad in kept:
            p.grad = grad

    return undo


@torch.no_grad()
def buffers_of(model: nn.Module) -> Undo:
    """Remember the buffers of a network, such as BatchNorm's statistics; return what puts them back."""
    places = [(m, name, b) for m in model.modules() for name, b in m.named_buffers(recurse=False)]
    kinds: dict[torch.dtype, list[Tensor]] = {}  # a list of one kind is copied in one launch
    for _, _, buffer in places:
        kinds.setdefault(buffer.dtype, []).append(buffer)
    kept = [(buffers, copied(buffers)) for buffers in kinds.values()]

    @torch.no_grad()
    def undo() -> None:
        for buffers, copies in kept:
            lists._foreach_copy_(buffers, copies)
        for module, name, buffer in places:
            if getattr(module, name) is not buffer:  # a pass may put a new one in its place
                setattr(module, name, buffer)

    return undo


@contextmanager
def judging(model: nn.Module, *, dropout: bool = False) -> Iterator[None]:
    """Have every module in eval mode, without gradients, and leave no trace.

    With `dropout` only what has running statistics is, and the rest as it was: a loss to compare with those
    of training.
    """
    modes = [(module, module.training) for module in model.modules()]
    parameter = next(model.parameters(), None)
    undo = random_of(torch.device("cpu") if parameter is None else parameter.device), buffers_of(model)
    try:
        for module, training in modes:
            module.training = training and dropout and not hasattr(module, "track_running_stats")
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
        for one in undo:
            one()
