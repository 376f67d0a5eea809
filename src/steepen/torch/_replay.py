"""The second pass sees the network of the first: the same random numbers, and statistics left alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase as NormBase  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.instancenorm import _InstanceNorm as InstanceNorm  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.module import register_module_forward_pre_hook

__all__ = ["Replay"]


class Replay:
    """What must be put back before, and left alone during, the second pass.

    Parameters
    ----------
    model : Module, optional
        Whose running statistics to leave alone. Without one, they are found as the second pass runs.
    rng : bool
        Whether to replay random numbers: those of torch, on the CPU and the parameters' device, and those
        of Python's `random`.

    Examples
    --------
    >>> replay = Replay(None, rng=True)
    >>> replay.mark(torch.device("cpu"))
    >>> first = torch.rand(2)
    >>> replay.start()
    >>> second = torch.rand(2)
    >>> replay.end()
    >>> torch.equal(first, second)
    True
    """

    def __init__(self, model: nn.Module | None, *, rng: bool) -> None:
        self.model = model
        self.rng = rng
        self._marked: list[tuple[Callable[[Any], Any], Any]] = []
        self._undo: list[Callable[[], None]] = []

    def mark(self, device: torch.device) -> None:
        """Remember the random numbers to come: the first pass starts here.

        Examples
        --------
        >>> Replay(None, rng=False).mark(torch.device("cpu"))
        """
        if not self.rng:
            return
        self._marked = [(torch.set_rng_state, torch.get_rng_state()), (random.setstate, random.getstate())]
        if device.type != "cpu":
            if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    "random numbers cannot be replayed while a CUDA graph is captured; pass replay=False "
                    "(a network without dropout loses nothing by it)"
                )
            kind: Any = torch.get_device_module(device)
            state = kind.get_rng_state(device)
            self._marked.append((lambda state: kind.set_rng_state(state, device), state))

    def start(self) -> None:
        """Begin the second pass.

        Examples
        --------
        >>> norm = nn.BatchNorm1d(2)
        >>> replay = Replay(norm, rng=False)
        >>> replay.start()
        >>> _ = norm(torch.randn(8, 2))
        >>> replay.end()
        >>> norm.running_mean
        tensor([0., 0.])
        """
        for put, state in self._marked:
            put(state)
        if self.model is not None:
            for module in self.model.modules():
                self._leave(module)
        else:
            self._undo.append(register_module_forward_pre_hook(self._before).remove)

    def end(self) -> None:
        """End the second pass.

        Examples
        --------
        >>> Replay(None, rng=False).end()
        """
        while self._undo:
            self._undo.pop()()

    def _before(self, module: nn.Module, _: Any) -> None:
        self._leave(module)

    def _leave(self, module: nn.Module) -> None:
        if not isinstance(module, NormBase) or not module.training or not module.track_running_stats:
            return
        # so told, a module in training mode uses the batch's statistics and updates none
        module.track_running_stats = False
        self._undo.append(lambda: setattr(module, "track_running_stats", True))
        if isinstance(module, InstanceNorm):  # updates whatever statistics it has
            mean, var = module.running_mean, module.running_var
            module.running_mean = module.running_var = None
            self._undo.append(lambda: setattr(module, "running_mean", mean))
            self._undo.append(lambda: setattr(module, "running_var", var))
