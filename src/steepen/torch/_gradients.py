"""The gradients of a pass: found on the parameters, and refused where they are not what they seem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["find", "refuse_sparse", "refuse_unscaled", "scale_of", "spend", "unscale"]

_SPENT = "_steepen_spent"


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
        grads += [p.grad for p in had]
        weights += [strength / largest] * (len(params) - len(weights))
    if not params:
        raise RuntimeError(
            "no parameter has a gradient: the closure, or the loop, must call backward() on the loss"
        )
    for grad in () if fresh else grads:
        if getattr(grad, _SPENT, None) == grad._version:
            raise RuntimeError(
                f"a parameter of shape {tuple(grad.shape)} still has the gradient of the last step: call "
                "zero_grad(), and backward() on a new loss"
            )
    return params, grads, weights


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


def spend(params: Iterable[Tensor]) -> None:
    """Mark the gradients as used by a step.

    Examples
    --------
    >>> p = torch.nn.Parameter(torch.ones(2))
    >>> p.grad = torch.ones(2)
    >>> spend([p])
    >>> find([{"params": [p]}], [0.1])
    Traceback (most recent call last):
    RuntimeError: a parameter of shape (2,) still has the gradient of the last step: call zero_grad(), ...
    """
    for p in params:
        grad = p.grad
        if grad is not None:
            setattr(grad, _SPENT, grad._version)


def unscale(scaler: Any, optimizer: Any) -> None:
    """Let a GradScaler take its scale out of the gradients, and note whether they are finite."""
    if scaler is not None:
        refuse_unscaled(scaler, optimizer)
        scaler.unscale_(optimizer.base)


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
