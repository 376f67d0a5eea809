"""What a probe must not disturb: the random numbers and the buffers of the network.

Of two passes over the same batch, the second draws the numbers of the first, and its updates of buffers are
undone. A pass over a share of the batch is undone itself: the full pass finds all as it would without one.
"""

from __future__ import annotations

import random
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ._private import copy_

__all__ = ["Buffers", "Listener", "Replay", "Which", "sources"]

_compiler: Any = torch.compiler  # without types
_MOST = 4096  # forwards of one pass
Which: TypeAlias = bool | Literal["all"]
Source: TypeAlias = tuple[Callable[[Any], Any], Callable[[], Any]]  # puts a state, and gets it


class Listener:
    """A hook on a network that calls a method; a copy of it, on a copy of the network, calls nobody."""

    def __init__(self, method: Any = None) -> None:
        self._method = None if method is None else weakref.WeakMethod(method)

    def __reduce__(self) -> tuple[type[Listener], tuple[()]]:
        return Listener, ()

    def __call__(self, *_: Any) -> None:
        """Call it, and not from within compiled code."""
        if torch.compiler.is_compiling():
            self._apart()
        else:
            self._tell()

    def _tell(self) -> None:
        method = None if self._method is None else self._method()
        if method is not None:
            method()

    _apart = _compiler.disable(_tell)


class Replay:
    """Random numbers to draw again, and buffers to put back."""

    def __init__(self, model: nn.Module | None, which: Which, *, shared: bool) -> None:
        self.which = which  # torch's random numbers, or "all": Python's and NumPy's too
        self.shared = shared  # the first pass is over a share of the batch
        self._buffers = Buffers(model)
        self.forget()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_sources": [], "_marks": [], "_after": None}  # of the moment

    def forget(self) -> None:
        """Drop all marks: no pass has begun."""
        self._sources: list[Source] = []
        self._marks: list[list[Any]] = []  # the states where the first pass, or each forward of it, began
        self._again = 0  # forwards of the second pass
        self._after: list[Any] | None = None  # the states after the first pass; not None in the second

    def look(self) -> None:
        """Find the buffers of the model anew."""
        self._buffers.look()

    def first(self, device: torch.device) -> None:
        """Begin the first pass, of a closure; the second then begins at the same mark."""
        self.forget()
        self._mark(device)

    def forward(self, device: torch.device) -> None:
        """Begin a forward of the model, in a loop. The i-th of the second pass draws as that of the first."""
        if self._after is None:
            self._mark(device)
            return
        # but of shares only the first: what comes next goes on from there, as it would without a probe
        if self._again < (1 if self.shared else len(self._marks)):
            self._put(self._marks[self._again])
        self._again += 1

    def _mark(self, device: torch.device) -> None:
        if self.shared and not self._marks:
            self._buffers.keep()
        if self.which and not self._sources:
            self._sources = sources(device, self.which)
        if len(self._marks) == _MOST:  # forwards that no step comes of
            self._marks.clear()
        self._marks.append([get() for _, get in self._sources])

    def second(self, *, closure: bool) -> None:
        """Begin the second pass: that of a closure at the mark, that of a loop when its forwards come."""
        self._after = [get() for _, get in self._sources]
        if closure:
            self._put(self._marks[0])
        if not self.shared:
            self._buffers.keep()
        elif self._marks:
            self._buffers.put_back()

    def end(self) -> None:
        """End the second pass, or leave it."""
        after, self._after, self._again = self._after, None, 0
        if after is not None and not self.shared:
            self._put(after)
            self._buffers.put_back()

    def _put(self, states: list[Any]) -> None:
        for (put, _), state in zip(self._sources, states, strict=True):
            put(state)


class Buffers:
    """All buffers of a network, with room for a copy of each."""

    def __init__(self, model: nn.Module | None) -> None:
        self.model = model
        self._places: list[tuple[dict[str, Any], str]] | None = None
        self._kept: list[tuple[list[Tensor], list[Tensor]]] = []  # originals and copies, by dtype and device

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "_places": None, "_kept": []}

    def look(self) -> None:
        """Find them anew."""
        self._places, self._kept = None, []

    @torch.no_grad()
    def keep(self) -> None:
        """Copy them."""
        if self._places is None:
            modules: Any = () if self.model is None else self.model.modules()
            names = [(m._buffers, name) for m in modules for name in m._buffers]
            self._places = [(d, name) for d, name in names if d[name] is not None and not is_lazy(d[name])]
        here = [d[name] for d, name in self._places]
        known = [one for originals, _ in self._kept for one in originals]
        if len(here) != len(known) or set(map(id, here)) != set(map(id, known)):
            kinds: dict[Any, list[Tensor]] = {}
            for one in dict.fromkeys(here):
                kinds.setdefault((one.dtype, one.device), []).append(one)
            self._kept = [(ones, [torch.empty_like(one) for one in ones]) for ones in kinds.values()]
            self._owners = [(d, name, d[name]) for d, name in self._places]
        for originals, copies in self._kept:
            copy_(copies, originals)

    @torch.no_grad()
    def put_back(self) -> None:
        """Give them the values of the copies."""
        if not self._kept:
            return
        for d, name, original in self._owners:
            if d.get(name) is not original:  # a forward pass that makes a new one each time
                d[name] = original
        for originals, copies in self._kept:
            copy_(originals, copies)


def sources(device: torch.device, which: bool | str) -> list[Source]:
    """Return what puts and gets the state of each generator that a pass on the device may draw from."""
    cpu = torch.default_generator
    found: list[Source] = [(cpu.set_state, cpu.get_state)]
    if device.type == "cuda":
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                "random numbers cannot be replayed while a CUDA graph is captured; pass replay=False "
                "(a network without dropout loses nothing by it)"
            )
        there: Any = torch.cuda.default_generators[device.index or 0]
        found.append((there.set_offset, there.get_offset))  # cheaper than the whole state
    elif device.type != "cpu":
        kind: Any = torch.get_device_module(device)
        found.append((partial(kind.set_rng_state, device=device), partial(kind.get_rng_state, device)))
    if which == "all":
        found.append((random.setstate, random.getstate))
        found.append((np.random.set_state, np.random.get_state))
    return found
