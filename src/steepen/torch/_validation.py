"""The mean validation loss and its standard error, for GapSAM; runs the network, then restores its state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, cast

import torch
from torch import Tensor, nn

from .._tools.check import is_number
from ._batch import examples, rows_of
from ._means import mean_of
from ._tensors import judging

_PARTS = 8  # whose spread tells the error, at least


def read_loss(
    model: nn.Module, data: Any, loss_of: Callable[..., Tensor] | None, by_sum: bool, *, dropout: bool = True
) -> tuple[Tensor, Tensor, float]:
    """Return the mean loss on validation data, its standard error, and the examples of a loss on average."""
    with judging(model, dropout=dropout):
        if callable(data):
            losses = losses_of(data())
            return *mean_of(list(losses), [1] * len(losses)), 1.0
        if loss_of is None:
            raise TypeError(
                "validation: expected a callable that returns the mean loss, as only step_on is given a loss "
                "function; got data"
            )
        parts = [(_loss(loss_of, part), examples(part)) for part in _parts(data)]
    if (total := sum(n for _, n in parts)) < 2:
        raise ValueError(f"validation: expected a few hundred examples, got {total}")
    losses = [loss / n if by_sum else loss for loss, n in parts]
    return *mean_of(losses, [n for _, n in parts]), total / len(parts)


def _loss(loss_of: Callable[..., Any], part: Any) -> Tensor:
    try:
        value = loss_of(*part if isinstance(part, tuple | list) else (part,))
    except (RuntimeError, TypeError) as error:  # another device, shape or type than the network's
        error.add_note("validation: expected batches that loss_of accepts, like those of step_on")
        raise
    return losses_of(value, most=1)[0]


def _parts(data: Any) -> Iterator[Any]:
    """Yield the data in eight parts or more; a batch is a tensor, a dict, or a list with a tensor."""
    inner = cast(list[Any], data) if isinstance(data, tuple | list) else []
    one = isinstance(data, Tensor | Mapping) or any(hasattr(part, "shape") for part in inner)
    if not one and not isinstance(data, Iterable):
        raise TypeError(f"validation: expected a callable, a batch, or an iterable of batches; got {data!r}")
    batches = cast(Iterable[Any], [data] if one else data)
    try:
        many = max(1, len(cast(Sized, batches)))
    except TypeError:  # it has no length, or like a loader of an iterable dataset does not know it
        many = _PARTS
    for batch in batches:
        n = examples(batch)
        size = max(1, -(-n // -(-_PARTS // many)))
        for start in range(0, n, size):
            yield rows_of(batch, start, min(start + size, n))


def losses_of(value: Any, most: float = math.inf) -> Tensor:
    """Return a loss, or losses, as a vector of at most `most` numbers."""
    if is_number(value):
        return torch.tensor([float(value)])
    if isinstance(value, Tensor) and 0 < value.numel() <= most and (value.ndim < 2 or value.numel() == 1):
        return value.detach().reshape(-1).float()
    what = "the mean loss, one number" if most == 1 else "the mean loss, or a loss for each example"
    came = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
    raise ValueError(f"validation: expected {what}; got {came}")
