"""The mean loss on validation data, and its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, cast

import torch
from torch import Tensor, nn

from .._tools.check import is_number
from ._cut import examples, rows_of
from ._means import mean_of
from ._trace import judging

__all__ = ["Validation"]

_PARTS = 8  # whose spread tells the error, at least


class Validation:
    """Reads the mean loss on validation data, with dropout as in training, and without a trace."""

    def __init__(self, model: nn.Module, data: Any, *, by_sum: bool = False) -> None:
        if isinstance(data, Iterator):
            raise TypeError(f"validation: expected data that can be read again, such as a list; got {data!r}")
        self.model, self.data, self.by_sum = model, data, by_sum
        self.loss: Callable[..., Tensor] | None = None

    def read(self) -> tuple[Tensor, Tensor]:
        """Return the mean loss over all examples, and its standard error; NaN where that is not known."""
        with judging(self.model, dropout=True):
            if callable(self.data):
                losses = _losses(self.data())
                return mean_of(list(losses), [1] * len(losses))
            return self._read()

    def _read(self) -> tuple[Tensor, Tensor]:
        if self.loss is None:
            raise TypeError(
                "validation: expected a callable that returns the mean loss, as this loop has no loss of its "
                "own (step_on has one); got data"
            )
        values: list[Tensor] = []
        counts: list[int] = []
        for part in _parts(self.data):
            try:
                value = self.loss(*part) if isinstance(part, tuple | list) else self.loss(part)
            except RuntimeError as error:  # another device, shape or type than the network's
                raise RuntimeError(f"validation: its loss could not be taken: {error}") from error
            except TypeError as error:
                raise TypeError(
                    f"validation: expected batches that loss_of takes as it takes those of step_on; {error}"
                ) from error
            (value,), n = _losses(value, most=1), examples(part)
            values.append(value / n if self.by_sum else value)
            counts.append(n)
        if not sum(counts):
            raise ValueError("validation: expected at least one example, got none")
        return mean_of(values, counts)


def _parts(data: Any) -> Iterator[Any]:
    """Yield the data in eight parts or more; a batch is a tensor, a dict, or a list with a tensor."""
    one = isinstance(data, Tensor | Mapping)
    if isinstance(data, tuple | list):
        one = any(hasattr(part, "shape") for part in cast(list[Any], data))
    if not one and not isinstance(data, Iterable):
        raise TypeError(f"validation: expected a callable, a batch, or an iterable of batches; got {data!r}")
    batches = cast(Iterable[Any], [data] if one else data)
    many = max(1, len(batches)) if isinstance(batches, Sized) else _PARTS
    for batch in batches:
        n = examples(batch)
        size = max(1, -(-n // -(-_PARTS // many)))
        for start in range(0, n, size):
            yield rows_of(batch, start, min(start + size, n))


def _losses(value: Any, most: float = math.inf) -> Tensor:
    """Return what was given for a loss as a list of numbers, no more than so many."""
    if is_number(value):
        return torch.tensor([float(value)])
    if isinstance(value, Tensor) and 0 < value.numel() <= most and (value.ndim < 2 or value.numel() == 1):
        return value.detach().reshape(-1).float()
    what = "the mean loss, one number" if most == 1 else "the mean loss, or a loss for each example"
    came = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
    raise ValueError(f"validation: expected {what}; got {came}")
