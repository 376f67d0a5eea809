"""Numbers on their way from the device to the host, so that nobody waits for them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["Post"]


class Post:
    """Sends numbers, and hands them out when they have come.

    Examples
    --------
    >>> post = Post()
    >>> post.come() is None
    True
    >>> post.send(torch.tensor([1.0, 2.0]))
    >>> post.come()
    [1.0, 2.0]
    """

    def __init__(self) -> None:
        self._numbers: Tensor | None = None
        self._event: Any = None

    def send(self, numbers: Tensor) -> None:
        """Send a copy of the numbers."""
        if not numbers.is_cuda:
            self._numbers = numbers.clone()
            return
        self._numbers = torch.empty_like(numbers, device="cpu", pin_memory=True)
        self._numbers.copy_(numbers, non_blocking=True)
        self._event = torch.cuda.Event()
        self._event.record()

    def come(self) -> list[float] | None:
        """Return what was sent last; None where nothing was, or it is still on its way."""
        if self._numbers is None or (self._event is not None and not self._event.query()):
            return None
        return [float(one) for one in self._numbers]
