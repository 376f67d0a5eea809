"""The second pass sees the network of the first: the same random numbers, and statistics left alone."""

from __future__ import annotations

import random
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase as NormBase  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.instancenorm import _InstanceNorm as InstanceNorm  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.module import register_module_forward_pre_hook

__all__ = ["Replay"]

_WATCHED = 3  # passes in which to find out whether a network draws from Python's or NumPy's generator


class Replay:
    """What must be put back before, and left alone during, the second pass.

    Parameters
    ----------
    model : Module, optional
        Whose running statistics to leave alone. Without one, they are found as the second pass runs.
    rng : bool
        Whether to replay random numbers: those of torch, on the CPU and the parameters' device; and those of
        Python and NumPy, if one of the first passes is seen to draw from their global generators.

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
        self._norms: list[nn.Module] = []
        self._torch: list[tuple[torch.Generator, torch.Tensor]] = []
        self._other: tuple[Any, Any] | None = None  # states of Python's and NumPy's generators
        self._watched = 0
        self._undo: list[Callable[[], object]] = []

    def look(self) -> None:
        """Find the model's modules with running statistics.

        Examples
        --------
        >>> Replay(nn.BatchNorm1d(2), rng=True).look()
        """
        if self.model is not None:
            self._norms = [module for module in self.model.modules() if isinstance(module, NormBase)]

    def mark(self, device: torch.device) -> None:
        """Remember the random numbers to come: the first pass starts here.

        Examples
        --------
        >>> Replay(None, rng=False).mark(torch.device("cpu"))
        """
        if not self.rng:
            return
        generators = [torch.default_generator]
        if device.type == "cuda":
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    "random numbers cannot be replayed while a CUDA graph is captured; pass replay=False "
                    "(a network without dropout loses nothing by it)"
                )
            generators.append(torch.cuda.default_generators[device.index or 0])
        elif device.type != "cpu":
            kind: Any = torch.get_device_module(device)
            generators.append(kind.default_generators[device.index or 0])
        self._torch = [(generator, generator.get_state()) for generator in generators]
        self._other = _states() if self._watched < _WATCHED else None

    def start(self) -> None:
        """Begin the second pass.

        Examples
        --------
        >>> norm = nn.BatchNorm1d(2)
        >>> replay = Replay(norm, rng=False)
        >>> replay.look()
        >>> replay.start()
        >>> _ = norm(torch.randn(8, 2))
        >>> replay.end()
        >>> norm.running_mean
        tensor([0., 0.])
        """
        for generator, state in self._torch:
            now = generator.get_state()
            generator.set_state(state)
            self._undo.append(partial(generator.set_state, now))  # to go on as after one pass
        if self._other is not None:
            before, after = self._other, _states()
            if _same(before, after):
                self._watched += 1  # it may never draw; to ask takes longer than a small network
            else:
                self._watched = 0
                _set_states(before)
                self._undo.append(partial(_set_states, after))
        self._torch, self._other = [], None  # a mark is good for one pass
        if self.model is None:
            _refuse_compiled()
            handle = register_module_forward_pre_hook(_watch(weakref.ref(self)))
            self._undo.append(weakref.finalize(self, handle.remove))  # whichever comes first
        for module in self._norms:
            self._leave(module)

    def end(self) -> None:
        """End the second pass.

        Examples
        --------
        >>> Replay(None, rng=False).end()
        """
        while self._undo:
            self._undo.pop()()

    def _leave(self, module: Any) -> None:
        """Let a module in training mode use the statistics of its batch and update none."""
        if not module.training or not module.track_running_stats:
            return
        changed: dict[str, Any] = {"track_running_stats": True}
        object.__setattr__(module, "track_running_stats", False)  # a module's own way is slow
        if isinstance(module, InstanceNorm):  # updates whatever statistics it has
            changed |= {"running_mean": module.running_mean, "running_var": module.running_var}
            module.running_mean = module.running_var = None
        self._undo.append(lambda: _set(module, changed))


def _set(module: Any, values: dict[str, Any]) -> None:
    object.__setattr__(module, "track_running_stats", values.pop("track_running_stats"))
    for name, value in values.items():
        setattr(module, name, value)


def _refuse_compiled() -> None:
    """Refuse a compiled network that is not known: its modules do not say when they run."""
    dynamo: Any = sys.modules.get("torch._dynamo")
    if dynamo is not None and dynamo.utils.counters["stats"]["unique_graphs"]:
        raise RuntimeError(
            "torch.compile is in use: give CGD the network, model=..., so that the second pass can leave its "
            "running statistics alone"
        )


def _watch(replay: weakref.ref[Replay]) -> Callable[[nn.Module, Any], None]:
    def before(module: nn.Module, _: Any) -> None:
        owner = replay()
        if owner is not None and isinstance(module, NormBase):
            owner._leave(module)  # pyright: ignore[reportPrivateUsage]

    return before


def _states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()  # noqa: NPY002


def _set_states(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002


def _same(a: tuple[Any, Any], b: tuple[Any, Any]) -> bool:
    numpy = zip(a[1], b[1], strict=True)
    return a[0] == b[0] and all(np.array_equal(x, y) for x, y in numpy)
