"""The gradients of a pass: found on the parameters, and refused where they are not what they seem."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "LeftOver",
    "aligned",
    "find",
    "refuse_sparse",
    "refuse_unscaled",
    "renew",
    "scale_of",
    "spend",
    "unscale",
]

_SPENT = "_steepen_spent"
_NONE = "no parameter has a gradient: the closure, or the loop, must call backward() on the loss"


def find(
    groups: Sequence[dict[str, Any]], strengths: Sequence[float], *, fresh: bool = False
) -> tuple[list[Tensor], list[Tensor], list[float]]:
    """Give the parameters that have a gradient, these, and weights: each group's share of the largest.

    `fresh` says that the gradients cannot be those of an earlier step.

    Examples
    --------
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> find([{"params": [p]}], [0.1])
    Traceback (most recent call last):
    RuntimeError: no parameter has a gradient: the closure, or the loop, must call backward() on the loss
    """
    largest = max(strengths, key=abs)
    params: list[Tensor] = []
    grads: list[Tensor] = []
    weights: list[float] = []
    for group, strength in zip(groups, strengths, strict=True):
        had = [p for p in group["params"] if p.grad is not None]
        params += had
        grads += [_gradient(p) for p in had]
        weights += [strength / largest] * (len(params) - len(weights))
    if not params:
        raise RuntimeError(_NONE)
    for grad in () if fresh else grads:
        if hasattr(grad, _SPENT):  # whether or not a new one was added to it
            raise RuntimeError(
                f"a parameter of shape {tuple(grad.shape)} still has the gradient of the last step: call "
                "zero_grad() of this optimizer, and backward() on a new loss"
            )
    return params, grads, weights


def _gradient(p: Tensor) -> Tensor:
    return p.grad if type(p.grad) is Tensor else aligned(p)


def aligned(p: Tensor) -> Tensor:
    """Give a gradient laid out over the ranks like its parameter: one may be a sum yet to be made.

    Examples
    --------
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> p.grad = torch.ones(2)
    >>> aligned(p) is p.grad
    True
    """
    grad: Any = p.grad
    placements: Any = getattr(p, "placements", None)
    if placements is not None and grad.placements != placements:
        grad = p.grad = grad.redistribute(placements=placements)
    return grad


def refuse_sparse(grads: Iterable[Tensor]) -> None:
    """Refuse gradients that are not dense.

    Examples
    --------
    >>> refuse_sparse([torch.ones(2).to_sparse()])
    Traceback (most recent call last):
    TypeError: a parameter of shape (2,) has a sparse gradient; CGD needs dense ones: for an embedding, ...
    """
    for grad in grads:
        if grad.layout is not torch.strided:
            raise TypeError(
                f"a parameter of shape {tuple(grad.shape)} has a sparse gradient; CGD needs dense ones: for "
                "an embedding, sparse=False"
            )


def spend(params: Iterable[Tensor], *, one: bool = False) -> None:
    """Mark the gradients, or the first `one`, as of no more use: taken by a step, or cleared.

    Examples
    --------
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> p.grad = torch.ones(2)
    >>> spend([p])
    >>> find([{"params": [p]}], [0.1])
    Traceback (most recent call last):
    RuntimeError: a parameter of shape (2,) still has the gradient of the last step: call zero_grad() ...
    """
    for p in params:
        grad = p.grad
        if grad is not None:
            setattr(grad, _SPENT, grad._version)
            if one:
                return


def renew(params: Iterable[Tensor]) -> None:
    """Take the marks away again: the gradients are about to be cleared.

    Examples
    --------
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> p.grad = torch.ones(2)
    >>> spend([p])
    >>> renew([p])
    >>> len(find([{"params": [p]}], [0.1])[0])
    1
    """
    for p in params:
        if hasattr(p.grad, _SPENT):
            delattr(p.grad, _SPENT)


class LeftOver:
    """Gradients from before a closure. Those of the last step are dropped; others the closure must clear.

    Examples
    --------
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> p.grad = torch.ones(2)     # of a micro-batch before
    >>> old = LeftOver(iter([p]))
    >>> p.sum().backward()
    >>> old.refuse([p], cleared=False)
    Traceback (most recent call last):
    RuntimeError: there are gradients from before step(closure), which its second pass cannot make again: ...
    """

    def __init__(self, params: Iterable[Tensor]) -> None:
        having = [p for p in params if p.grad is not None]
        first = having[0].grad if having else None
        if first is None or _is_spent(first):
            for p in having:
                p.grad = None  # so that no old gradient can pass for a new one
            first = None
        self._first = None if first is None else weakref.ref(first)  # to hold it would cost memory
        self._version = 0 if first is None else first._version

    def refuse(self, params: Iterable[Tensor], *, cleared: bool) -> None:
        """Refuse what the closure has added to, or not touched, where it has not `cleared` them."""
        first = None if self._first is None or cleared else self._first()
        if first is None or all(p.grad is not first for p in params):
            return
        if first._version == self._version:
            raise RuntimeError(_NONE)
        raise RuntimeError(
            "there are gradients from before step(closure), which its second pass cannot make again: to "
            "accumulate, put all micro-batches into the closure; else let it call zero_grad() first"
        )


def _is_spent(grad: Tensor) -> bool:
    return getattr(grad, _SPENT, None) == grad._version


def unscale(scaler: Any, optimizer: Any, ranks: Any = None) -> None:
    """Let a GradScaler take its scale out of the gradients, and note whether they are finite.

    With `ranks`, a process group whose gradients are not yet summed, they must be so on all of them.
    """
    if scaler is None:
        return
    refuse_unscaled(scaler, optimizer)
    scaler.unscale_(optimizer.base)
    if ranks is not None and scaler.is_enabled():
        found: Any = scaler._per_optimizer_states[id(optimizer.base)]["found_inf_per_device"]
        for flag in found.values():
            torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX, group=ranks)  # pyright: ignore


def refuse_unscaled(scaler: Any, optimizer: Any) -> None:
    """Refuse a step whose gradients have lost their scale already: it would be taken out twice."""
    known = getattr(scaler, "_per_optimizer_states", {}).get(id(optimizer), {})
    if known.get("found_inf_per_device"):
        raise RuntimeError(
            "scaler.unscale_() has been called on this optimizer: leave that to CGD, and clip with max_norm"
        )


def scale_of(scaler: Any, device: torch.device) -> Tensor:
    """Give a GradScaler's scale where it lies, on the device."""
    return scaler.scale(torch.ones((), device=device))
