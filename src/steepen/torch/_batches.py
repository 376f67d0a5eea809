"""The mean loss of a network over some batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from ._cut import examples
from ._trace import buffers_of, random_of

__all__ = ["Batches", "mean_of"]


class Batches:
    """The losses of a network on some batches (x, y), which are kept: the same at every call."""

    def __init__(self, model: object, loss: Callable[[Any, Any], Tensor], data: Any) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model: expected a torch.nn.Module, got {model!r}")
        self.model, self.loss = model, loss
        first = next(model.parameters(), None)
        if first is None:
            raise ValueError("model: expected some parameters, got none")
        if any(hasattr(p, "to_local") for p in model.parameters()):
            raise ValueError("model: expected whole parameters, got sharded ones: gather them first")
        self.device, self.dtype = first.device, first.dtype
        self.undo = [buffers_of(model), random_of(self.device)]
        self.batches: list[Any] = [data] if _is_batch(data) else list(data)
        for i, batch in enumerate(self.batches):
            if not _is_batch(batch):
                raise TypeError(f"data: expected batches (x, y), got {type(batch).__name__} at {i}")
        if not self.batches:
            raise ValueError("data: expected at least one batch (x, y), got none")
        self.counts = [float(examples(x)) for x, _ in self.batches]

    def rewind(self) -> None:
        """Put the random numbers and the buffers back to where they were."""
        for undo in self.undo:
            undo()

    def each(self, *, graph: bool = False) -> Iterator[Tensor]:
        """Return the loss of each batch, with its graph if that is wanted."""
        self.rewind()
        for x, y in self.batches:
            x, y = _moved(x, self.device), _moved(y, self.device)
            with torch.set_grad_enabled(graph):
                out = self.model(**x) if isinstance(x, Mapping) else self.model(x)
                value: object = self.loss(out, y)
            if not isinstance(value, Tensor) or value.ndim:
                raise TypeError(f"loss: expected a mean, a tensor without axes; got {value!r}")
            yield value

    def losses(self) -> list[float]:
        """Return the loss of each batch; refuse one that is not finite."""
        values = [float(value) for value in self.each()]
        for i, value in enumerate(values):
            if not math.isfinite(value):
                raise ValueError(f"loss: expected a finite mean, got {value} of batch {i}")
        return values


def mean_of(values: Sequence[Any], counts: Sequence[float]) -> tuple[Any, Any]:
    """Return a mean of numbers or tensors, weighed by counts, and its standard error; NaN of one value."""
    n, total = len(values), sum(counts)
    parts = [count / total for count in counts]
    mean = sum(value * part for value, part in zip(values, parts, strict=True))
    squares = sum(((value - mean) * part) ** 2 for value, part in zip(values, parts, strict=True))
    return mean, (squares * (n / (n - 1))) ** 0.5 if n > 1 else mean * math.nan


def _is_batch(data: object) -> bool:
    """Say whether this is one batch, and not several: a tuple or list of x and y."""
    pair = cast(Sequence[object], data) if isinstance(data, tuple | list) else ()
    return len(pair) == 2 and isinstance(pair[0], Tensor | Mapping)


def _moved(part: Any, device: torch.device) -> Any:
    if isinstance(part, Mapping):
        return {name: _moved(one, device) for name, one in cast(Mapping[str, Any], part).items()}
    return part.to(device) if isinstance(part, Tensor) else part
