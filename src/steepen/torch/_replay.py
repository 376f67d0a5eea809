"""The second pass sees the network of the first: the same random numbers, and statistics left alone."""

from __future__ import annotations

import random
import sys
import weakref
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.fx import GraphModule
from torch.nn.modules.batchnorm import _NormBase as NormBase  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.instancenorm import _InstanceNorm as InstanceNorm  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.module import register_module_forward_pre_hook

__all__ = ["Replay"]

# In the first passes it is watched which modules run, and whether they draw from Python's or NumPy's
# generator; the latter then now and again: to ask takes longer than a small network.
_WATCHED, _AGAIN = 3, 16
_OPEN: weakref.WeakSet[Replay] = weakref.WeakSet()  # those in whose second pass we are


class Replay:
    """What must be put back before, and left alone during, the second pass.

    Parameters
    ----------
    model : Module, optional
        Whose running statistics to leave alone. Without one, they are found as the second pass runs.
    rng : bool
        Whether to replay random numbers: those of torch, on the CPU and the parameters' device; and those of
        Python and NumPy, from when a pass is seen to draw from their global generators.

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
        self._torch: list[tuple[Callable[[Any], Any], Callable[[], Any], Any]] = []
        self._other: tuple[Any, Any] | None = None  # states of Python's and NumPy's generators
        self._quiet = 0  # passes since one that drew from the others
        self._touched: list[Any] = []
        self._seen: set[int] | None = None
        self._watched = 0
        self._undo: list[Callable[[], object]] = []

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_torch": []}  # generators are shared, and a mark is of the moment

    def look(self) -> None:
        """Find the modules with running statistics: in the model, or anew as they run.

        Examples
        --------
        >>> Replay(nn.BatchNorm1d(2), rng=True).look()
        """
        self._watched = 0
        everything = () if self.model is None else self.model.modules()
        self._norms = [module for module in everything if isinstance(module, NormBase)]

    def mark(self, device: torch.device) -> None:
        """Remember the random numbers to come: the first pass starts here.

        Examples
        --------
        >>> Replay(None, rng=False).mark(torch.device("cpu"))
        """
        if not self.rng:
            return
        sources: list[tuple[Callable[[Any], Any], Callable[[], Any]]] = []
        cpu = torch.default_generator
        sources.append((cpu.set_state, cpu.get_state))
        if device.type == "cuda":
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    "random numbers cannot be replayed while a CUDA graph is captured; pass replay=False "
                    "(a network without dropout loses nothing by it)"
                )
            there: Any = torch.cuda.default_generators[device.index or 0]
            sources.append((there.set_offset, there.get_offset))  # cheaper than the whole state
        elif device.type != "cpu":
            kind: Any = torch.get_device_module(device)
            sources.append((partial(kind.set_rng_state, device=device), partial(kind.get_rng_state, device)))
        self._torch = [(put, get, get()) for put, get in sources]
        watched = self._quiet < _WATCHED or self._quiet % _AGAIN == 0
        self._other = _states() if watched else None

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
        self._quiet += 1
        if _OPEN:  # another optimizer, of the same loop, has turned the clock back already
            self._torch, self._other = [], None
        elif self._torch:
            _OPEN.add(self)
        for put, get, state in self._torch:
            self._undo.append(partial(put, get()))  # to go on as after one pass
            put(state)
        if self._other is not None:
            before, after = self._other, _states()
            if not _same(before, after):
                self._quiet = 0
                _set_states(before)
                self._undo.append(partial(_set_states, after))
        self._torch, self._other = [], None  # a mark is good for one pass
        for module in self._norms:
            self._leave(module)
        if self.model is None and self._watched < _WATCHED:  # a hook costs, and has code compiled anew
            self._watched += 1
            self._seen = set()
            handle = register_module_forward_pre_hook(partial(_runs, weakref.ref(self), get_ident()))
            self._undo.append(weakref.finalize(self, handle.remove))  # whichever comes first

    def check(self) -> None:
        """Refuse a second pass of which nothing was seen although something is compiled.

        A module says when it runs, but not from within compiled code.

        Examples
        --------
        >>> Replay(None, rng=False).check()
        """
        dynamo: Any = sys.modules.get("torch._dynamo")
        if self._seen is None or self._seen or dynamo is None:
            return
        if dynamo.utils.counters["stats"]["unique_graphs"]:
            raise RuntimeError(
                "torch.compile is in use, and hides the modules that run: give CGD the network, model=..., "
                "so that the second pass can leave its running statistics alone"
            )

    def end(self) -> None:
        """End the second pass.

        Examples
        --------
        >>> Replay(None, rng=False).end()
        """
        for module in self._touched:
            object.__setattr__(module, "track_running_stats", True)
        self._touched = []
        self._seen = None
        _OPEN.discard(self)
        while self._undo:
            self._undo.pop()()

    def _leave(self, module: Any) -> None:
        """Let a module in training mode use the statistics of its batch and update none."""
        if not module.training or not module.track_running_stats:
            return
        object.__setattr__(module, "track_running_stats", False)  # a module's own way is slow
        self._touched.append(module)
        if isinstance(module, InstanceNorm):  # updates whatever statistics it has
            for name in ("running_mean", "running_var"):
                self._undo.append(partial(setattr, module, name, getattr(module, name)))
                setattr(module, name, None)

    def meet(self, module: nn.Module) -> None:
        """Leave alone what is in a module that is about to run: compiled, its parts would not say so.

        Examples
        --------
        >>> Replay(None, rng=False).meet(nn.BatchNorm1d(2))
        """
        if self._seen is None or id(module) in self._seen or isinstance(module, GraphModule):
            return
        for inner in module.modules():
            self._seen.add(id(inner))
            if isinstance(inner, NormBase):
                self._norms.append(inner)
                self._leave(inner)


def _runs(replay: weakref.ref[Replay], thread: int, module: nn.Module, _: Any) -> None:
    owner = replay()
    # other threads train other networks; compiled code is not asked, as it does not know its thread
    if owner is not None and (torch.compiler.is_compiling() or get_ident() == thread):
        owner.meet(module)


def _states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()  # noqa: NPY002


def _set_states(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002


def _same(a: tuple[Any, Any], b: tuple[Any, Any]) -> bool:
    numpy = zip(a[1], b[1], strict=True)
    return a[0] == b[0] and all(np.array_equal(x, y) for x, y in numpy)
