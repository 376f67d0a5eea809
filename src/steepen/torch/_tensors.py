"""Lists of tensors, and what a pass leaves behind: random numbers, buffers, gradients, modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Undo = Callable[[], None]
lists: Any = torch  # for its operations on lists, which have no types


def local(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the parts of tensors that lie on this rank; all of those that are not sharded."""
    return [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors]  # pyright: ignore


def copied(tensors: Sequence[Tensor], room: Sequence[Tensor] = ()) -> list[Tensor]:
    """Return copies of tensors, made in one launch, in the room of older ones if they fit."""
    new, old = ([(t.shape, t.dtype, t.device) for t in some] for some in (tensors, room))
    copies = list(room) if new == old else [torch.empty_like(t) for t in tensors]
    lists._foreach_copy_(copies, tensors)
    return copies


def norm(tensors: Sequence[Tensor]) -> Tensor:
    """Return the norm over all tensors, in float32 at least; over all ranks where they are sharded."""
    norms: list[Any] = []
    for sharded in (False, True):
        kind = [t for t in tensors if hasattr(t, "to_local") is sharded]
        if kind:
            dtypes = [torch.promote_types(dtype, torch.float32) for dtype in {t.dtype for t in kind}]
            total = _length(lists._foreach_norm(kind, 2, max(dtypes, key=lambda dtype: dtype.itemsize)))
            norms.append(total.full_tensor() if hasattr(total, "full_tensor") else total)
    return _length(norms)


def _length(norms: Sequence[Any]) -> Any:
    return norms[0] if len(norms) == 1 else lists.linalg.vector_norm(torch.stack(list(norms)))


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
