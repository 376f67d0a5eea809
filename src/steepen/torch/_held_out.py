"""The mean loss on held-out data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from .._tools.check import is_number
from ._cut import examples, rows_of
from ._trace import judging

__all__ = ["HeldOut", "is_sum"]


class HeldOut:
    """Reads the mean loss on held-out data, with the network in eval mode and without a trace."""

    def __init__(self, model: nn.Module, data: Any, loss: Callable[..., Tensor] | None) -> None:
        if loss is not None and not callable(loss):
            raise TypeError(f"loss: expected a callable that returns the mean loss of a batch; got {loss!r}")
        if callable(data) and loss is not None:
            raise TypeError("loss: held_out is a callable, which returns the loss itself; leave loss out")
        if isinstance(data, Iterator):
            raise TypeError(f"held_out: expected data that can be read again, such as a list; got {data!r}")
        self.model, self.data, self.loss = model, data, loss
        self.by_sum = False  # whether the loss is a sum over the batch

    def read(self) -> Tensor:
        """Return the mean loss over all examples."""
        with judging(self.model):
            return _number(self.data()) if callable(self.data) else self._mean()

    def _mean(self) -> Tensor:
        if self.loss is None:
            raise TypeError(
                "loss: held_out is data, so a loss is needed: step_on has one; for other loops give loss=, "
                "or a callable as held_out"
            )
        total, count = cast(Any, 0.0), 0
        for batch in _batches(self.data):
            n = examples(batch)
            try:
                value = _number(self.loss(*batch) if isinstance(batch, tuple | list) else self.loss(batch))
            except RuntimeError as error:  # another device, shape or type than the network's
                raise RuntimeError(f"held_out: its loss could not be taken: {error}") from error
            total = total + value * (1 if self.by_sum else n)
            count += n
        if count == 0:
            raise ValueError("held_out: expected at least one example, got none")
        return total / count


def is_sum(model: nn.Module, loss: Callable[..., Tensor], batch: tuple[Any, ...]) -> bool:
    """Find out whether a loss is a sum over the batch, and not a mean: by its two halves and the whole."""
    half = examples(batch) // 2
    if not half:
        return False
    with judging(model):
        parts = [rows_of(batch, *rows) for rows in ((0, half), (half, 2 * half), (0, 2 * half))]
        first, second, both = (float(_number(loss(*part))) for part in parts)
    return abs(first + second - both) < abs((first + second) / 2 - both)


def _batches(data: Any) -> Iterable[Any]:
    """Return the batches: a batch is a tensor, a dict, or a tuple or list with a tensor in it."""
    one = isinstance(data, Tensor | Mapping)
    if isinstance(data, tuple | list):
        one = any(isinstance(part, Tensor) for part in cast(list[Any], data))
    if one:
        return [data]
    if not isinstance(data, Iterable):
        raise TypeError(f"held_out: expected a callable, a batch, or an iterable of batches; got {data!r}")
    return cast(Iterable[Any], data)


def _number(value: Any) -> Tensor:
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.detach().reshape(()).float()
    if is_number(value):
        return torch.tensor(float(value))
    raise ValueError(f"held_out: expected the mean loss, one number; got {value!r}")
