"""Running means on the device, without synchronising, for CGD and GapSAM; and a weighted mean of losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


class Means:
    """Running means, given the weight of a new value for each; NaN before the first value.

    Values that are updated together must be adjacent in the order of names; one kernel launch updates them.
    Means sent to the host are read there `delay` sends later, when they have long arrived: those of the last
    `delay` sends are kept, and the oldest of these are read.
    """

    def __init__(
        self, weights: Mapping[str, float], device: Any, dtype: torch.dtype = torch.float32, delay: int = 1
    ) -> None:
        self.names = list(weights)
        self._weights = torch.tensor(list(weights.values()), device=device, dtype=dtype)
        self._table = torch.zeros((2, len(weights)), device=device, dtype=dtype)  # sums, and of their weights
        self._one = torch.ones((), device=device, dtype=dtype)
        self._sent: list[Callable[[], Tensor]] = [_sent(self._means())] * delay

    def to(self, device: torch.device) -> Means:
        """Move them to a device."""
        self._weights, self._table = self._weights.to(device), self._table.to(device)
        self._one = self._one.to(device)
        return self

    def update(self, **values: Tensor) -> None:
        """Add one value to each; values that are not finite are ignored."""
        first = self.names.index(next(iter(values)))
        which = slice(first, first + len(values))
        table = self._table[:, which]
        given = [value.to(table) for value in values.values()]
        new = torch.stack([*given, *[self._one] * len(given)]).view(2, -1)
        table.lerp_(torch.where(new[0].abs() < math.inf, new, table), self._weights[which])

    def _means(self) -> Tensor:
        return self._table[0] / self._table[1]

    def now(self) -> dict[str, Tensor]:
        """Return the means."""
        return dict(zip(self.names, self._means().unbind(), strict=True))

    def send(self) -> None:
        """Send the means to the host, in the place of the oldest."""
        self._sent = [*self._sent[1:], _sent(self._means())]

    def arrived(self) -> dict[str, Tensor]:
        """Return, on the host, the oldest means that were sent and are kept."""
        return dict(zip(self.names, self._sent[0]().unbind(), strict=True))

    def state_dict(self) -> dict[str, Tensor]:
        """Return for each, on the host, the sum, the sum of the weights, and the means sent."""
        rows = torch.stack([*self._table.cpu(), *(read() for read in self._sent)], 1)
        return dict(zip(self.names, rows.unbind(), strict=True))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Load the result of `state_dict`."""
        rows = torch.stack([state[name] for name in self.names], 1)
        self._table.copy_(rows[:2])
        self._sent = [row.clone for row in rows[2:]]


def _sent(values: Tensor) -> Callable[[], Tensor]:
    """Send numbers to the host; return a function that reads them there, and waits if it must."""
    if not values.is_cuda:
        return values.cpu().clone
    there = torch.empty_like(values, device="cpu", pin_memory=True).copy_(values, non_blocking=True)
    event: Any = torch.cuda.Event()
    event.record()
    return lambda: (event.synchronize(), there)[1]


def mean_of(values: Sequence[Any], counts: Sequence[float]) -> tuple[Any, Any]:
    """Return a mean of numbers or tensors, weighted by counts, and its standard error; NaN for one value."""
    n, total = len(values), sum(counts)
    parts = [count / total for count in counts]
    mean = sum(value * part for value, part in zip(values, parts, strict=True))
    squares = sum(((value - mean) * part) ** 2 for value, part in zip(values, parts, strict=True))
    return mean, (squares * (n / (n - 1))) ** 0.5 if n > 1 else mean * math.nan
