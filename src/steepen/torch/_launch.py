"""Many small kernels in one launch, a CUDA graph of them; and a number that comes back without a wait."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["Launch", "Word"]

_log = logging.getLogger("steepen")
_MOST = 8  # graphs kept, the latest: from step to step the allocator hands out few different addresses


class Launch:
    """Runs a function; on a GPU as a graph, once its tensors lie where they lay before."""

    def __init__(self, device: torch.device, *, graph: bool = True, pool: Any = None) -> None:
        self.graph = graph and device.type == "cuda"  # whether graphs may be used at all
        self._pool, self._device = pool, device
        self._seen: dict[tuple[int, ...], Any] = {}
        self._graphs: dict[tuple[int, ...], Any] = {}

    @classmethod
    def pair(cls, device: torch.device, *, graph: bool) -> tuple[Launch, Launch]:
        """Make two that share the memory of what they make on the way, as they never run at once."""
        pool: Any = torch.cuda.graph_pool_handle() if graph and device.type == "cuda" else None
        return cls(device, graph=graph, pool=pool), cls(device, graph=graph, pool=pool)

    def __call__(self, function: Callable[[], object], *works_on: Sequence[Tensor]) -> None:
        """Run it, and say what tensors it works on, of those that may lie elsewhere the next time."""
        here = self.graph and self._device.index in (None, torch.cuda.current_device())
        if not here or torch.cuda.is_current_stream_capturing():
            function()
            return
        key = tuple([tensor.data_ptr() for tensors in works_on for tensor in tensors])
        captured = self._graphs.pop(key, None)
        if captured is None and key not in self._seen:
            self._seen[key] = None
            function()
        else:
            try:
                captured = captured or _capture(function, self._pool)
            except RuntimeError as error:
                _log.warning("no CUDA graph of the step, which is slower without: %s", error)
                self.graph = False
                function()
                return
            captured.replay()
            self._graphs[key] = captured  # as the latest
        for kept, most in ((self._graphs, _MOST), (self._seen, 100 * _MOST)):
            if len(kept) > most:
                del kept[next(iter(kept))]


def _capture(function: Callable[[], object], pool: Any) -> torch.cuda.CUDAGraph:
    stream, captured = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        # thread_local: another thread, such as one that pins memory, may go on meanwhile
        captured.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            function()
        finally:
            captured.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return captured


class Word:
    """A number on its way from the device to the host; to read it a step or two later is no wait."""

    def __init__(self, number: Tensor) -> None:
        self._event: Any = None
        if not number.is_cuda:
            self._number = number.clone()
            return
        self._number = torch.zeros((), dtype=number.dtype, pin_memory=True)
        self._number.copy_(number, non_blocking=True)
        self._event = torch.cuda.Event()
        self._event.record(torch.cuda.current_stream(number.device))

    def read(self) -> float:
        """Return the number."""
        if self._event is not None:
            self._event.synchronize()
        return float(self._number)
