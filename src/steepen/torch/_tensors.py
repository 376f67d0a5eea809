"""For the optimizers and evaluation: lists of tensors; saves, restores RNG, buffers, gradients and modes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Undo = Callable[[], None]
lists: Any = torch  # for its operations on lists, which have no types
distributed: Any = torch.distributed  # without types


def local(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the local shards of tensors on this rank; tensors that are not sharded as they are."""
    return [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors]  # pyright: ignore


def copied(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return copies of tensors, made in one launch."""
    copies = [torch.empty_like(t) for t in tensors]
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


def grads_of(params: Iterable[Tensor]) -> list[Tensor]:
    """Return the gradients of parameters that have one."""
    return [p.grad for p in params if p.grad is not None]


def random_of(device: torch.device) -> Undo:
    """Save torch's random state, on the CPU and the device; return a function that restores it."""
    there: Any = None if device.type in ("cpu", "meta") else torch.get_device_module(device)
    here = torch.get_rng_state()
    state = None if there is None else there.get_rng_state(device)

    def undo() -> None:
        torch.set_rng_state(here)
        if there is not None:
            there.set_rng_state(state, device)

    return undo


def gradients_of(params: Sequence[Tensor]) -> Undo:
    """Set the gradients of parameters aside; return a function that restores them."""
    kept = [(p, p.grad) for p in params]
    for p in params:
        p.grad = None

    def undo() -> None:
        for p, grad in kept:
            p.grad = grad

    return undo


def unchanged(params: Iterable[Tensor]) -> Callable[[], bool]:
    """Note the gradients of parameters; return a function that tells whether they are the same, unwritten."""
    noted = [(p, p.grad, 0 if p.grad is None else p.grad._version) for p in params]
    return lambda: all(p.grad is g and (g is None or g._version == version) for p, g, version in noted)


def processes(group: Any = None) -> int:
    """Return how many processes train together, in a group or in all."""
    there = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size(group) if there else 1


def mean_over_processes(value: Tensor, group: Any = None) -> Tensor:
    """Return the mean over the processes that train together."""
    if (count := processes(group)) == 1:
        return value
    value = value.clone()
    distributed.all_reduce(value, group=group)
    return value / count


_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by size in bytes


@torch.no_grad()
def values_of(x: Sequence[Tensor]) -> Undo:
    """Save the values of tensors; return a function that restores them."""
    old = copied(x)
    return lambda: lists._foreach_copy_(x, old)


@torch.no_grad()
def move(x: Sequence[Tensor], s: Sequence[Tensor], by: Tensor, *, masked: bool) -> None:
    """Add by·s to x, writing over s, without synchronising.

    If `masked`, nothing is added where by is 0, also if s is not finite.
    """
    lists._foreach_mul_(s, by)
    for size, word in _WORDS.items() if masked else ():  # as integers: 0 · NaN is NaN
        if same := [one.view(word) for one in s if one.element_size() == size]:
            lists._foreach_mul_(same, (by != 0).to(word))
    lists._foreach_add_(x, s)


@torch.no_grad()
def buffers_of(model: nn.Module) -> Undo:
    """Save the buffers of a network, such as BatchNorm's statistics; return a function that restores them."""
    places = [(m, name, b) for m in model.modules() for name, b in m.named_buffers(recurse=False)]
    kinds: dict[torch.dtype, list[Tensor]] = {}  # a list of one kind is copied in one launch
    for _, _, buffer in places:
        if 0 not in buffer.stride():  # an expanded one cannot be written to
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
    """Put every module in eval mode, without gradients, and restore all state afterwards.

    With `dropout`, only modules with running statistics: the loss is then comparable with that of training.
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
