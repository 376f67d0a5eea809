"""Exact Hessian-vector products, for CGD, by differentiating twice; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_REFUSED = ("double backward", "derivative for", "differentiate twice", "donated buffers")  # torch's words


def differentiated(loss: Tensor, params: Sequence[Tensor]) -> list[Any]:
    """Return the gradient of a loss with its graph; None for parameters that it does not depend on."""
    found: Any = _explained(lambda: torch.autograd.grad(loss, params, create_graph=True, allow_unused=True))
    return list(found)


def products(graphs: Sequence[Any], params: Sequence[Tensor], v: Sequence[Any]) -> list[Any]:
    """Return H·v, from a gradient with its graph; None where that is 0. A v of None is 0."""
    pairs = [(h, u) for h, u in zip(graphs, v, strict=True) if h is not None and u is not None]
    pairs = [(h, u) for h, u in pairs if h.requires_grad]  # a loss that is linear in p has no graph there
    if not pairs:
        return [None] * len(params)
    outputs, along = zip(*pairs, strict=True)
    found: Any = _explained(lambda: torch.autograd.grad(outputs, params, along, allow_unused=True))
    return list(found)


def with_gradient(loss: Tensor, gradient: Sequence[Any], params: Sequence[Tensor]) -> Tensor:
    """Return a loss of the same value whose `backward` gives this gradient."""
    return _WithGradient.apply(loss.detach(), gradient, *params)  # pyright: ignore


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, loss: Tensor, gradient: Sequence[Any], *_: Tensor) -> Tensor:
        ctx.gradient = gradient
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        (out,) = grad_outputs
        return None, None, *(None if d is None else out * d for d in ctx.gradient)


def _explained(differentiate: Callable[[], Any]) -> Any:
    """Call it; say what to write where the network cannot be differentiated twice."""
    try:
        return differentiate()
    except RuntimeError as error:
        if not any(words in str(error).lower() for words in _REFUSED):
            raise
        raise RuntimeError(
            f"exact: an operation of the network has no second derivative ({error}). For fused attention "
            "write `with torch.nn.attention.sdpa_kernel(SDPBackend.MATH):` around the forward pass, in "
            'transformers attn_implementation="eager"; leave torch.compile out; or take differences, '
            "CGD(base, model, lam)"
        ) from error
