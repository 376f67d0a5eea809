"""The gradients of a pass: collected from the parameters, and refused where they are not what they seem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._diagnostics import Seen
from ._guard import Guard
from ._tensors import Bucket, add_, buckets, local

__all__ = ["collect", "combine", "missing", "scale_of", "unscale"]

_SPENT = "_steepen_spent"


def collect(groups: Sequence[dict[str, Any]], weights: Sequence[float]) -> list[Bucket]:
    """Sort the parameters that have a gradient into buckets, by the weight of their group.

    Examples
    --------
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> collect([{"params": [p]}], [1.0])
    Traceback (most recent call last):
    RuntimeError: no parameter has a gradient: the closure, or the loop, must call backward() on the loss
    """
    entries: list[tuple[Tensor, Tensor, float]] = []
    devices: set[torch.device] = set()
    for group, weight in zip(groups, weights, strict=True):
        for p in group["params"]:
            grad = p.grad
            if grad is None:
                continue
            if grad.layout is not torch.strided:
                raise TypeError(
                    f"a parameter of shape {tuple(p.shape)} has a sparse gradient; CGD needs dense ones: "
                    "for an embedding, sparse=False"
                )
            if getattr(grad, _SPENT, None) == grad._version:
                raise RuntimeError(
                    f"a parameter of shape {tuple(p.shape)} still has the gradient of the last step: call "
                    "zero_grad(), and backward() on a new loss"
                )
            devices.add(grad.device)
            entries.append((p, _own(grad), weight))
    if not entries:
        raise RuntimeError(
            "no parameter has a gradient: the closure, or the loop, must call backward() on the loss"
        )
    if len(devices) > 1:
        names = ", ".join(sorted(map(str, devices)))
        raise ValueError(
            f"base: expected parameters on one device, got {names}; shard the model with FSDP instead"
        )
    return buckets(entries)


def missing(found: Sequence[Bucket], params: Sequence[Tensor]) -> list[Bucket]:
    """Give the parameters that only the second pass reached, with a first gradient of zero.

    Examples
    --------
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> p.grad = torch.ones(2)
    >>> missing([], [p])[0].g
    [tensor([0., 0.])]
    """
    known = {p for bucket in found for p in bucket.params}
    new = [(p, p.grad) for p in params if p.grad is not None and p not in known]
    return buckets((p, torch.zeros_like(grad), 1.0) for p, grad in new)


def combine(found: Sequence[Bucket], ups: Sequence[Sequence[Tensor]], guard: Guard, seen: Seen) -> Seen:
    """Put d = g + νu in the place of the gradients, or leave g there where the guard says so.

    Examples
    --------
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> p.grad = torch.ones(2)
    >>> one = torch.tensor(1.0)
    >>> found = collect([{"params": [p]}], [1.0])
    >>> _ = combine(found, [[torch.ones(2)]], Guard("off", 1), Seen(one, 1.0, 0.5, one, one))
    >>> p.grad
    tensor([1.5000, 1.5000])
    """
    skip = guard.judge(seen.n, seen.nu, seen.product, seen.size)
    for bucket, up in zip(found, ups, strict=True):
        fused = bucket.fused and all(g.stride() == u.stride() for g, u in zip(bucket.g, up, strict=True))
        add_(bucket.g, seen.nu, up, fused=fused, skip=skip)
        for p, grad in zip(bucket.params, bucket.held, strict=True):
            p.grad = grad
            setattr(grad, _SPENT, grad._version)
    return seen


def unscale(scaler: Any, optimizer: Any) -> None:
    """Let a GradScaler take its scale out of the gradients, and note whether they are finite."""
    if scaler is None:
        return
    known = getattr(scaler, "_per_optimizer_states", {}).get(id(optimizer), {})
    if known.get("found_inf_per_device"):
        raise RuntimeError(
            "scaler.unscale_() has been called on this optimizer: leave that to CGD, and clip with max_norm"
        )
    scaler.unscale_(optimizer.base)


def scale_of(scaler: Any, device: torch.device) -> Tensor:
    """Give a GradScaler's scale where it lies, on the device."""
    return scaler.scale(torch.ones((), device=device))


def _own(grad: Tensor) -> Tensor:
    """Copy a gradient that lives in the memory of another, such as a bucket of DDP, who will write there."""
    part = local(grad)
    if part.untyped_storage().nbytes() == part.numel() * part.element_size():
        return grad
    return grad.clone()
