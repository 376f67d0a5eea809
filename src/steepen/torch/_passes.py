"""The gradients that passes leave on the parameters: counted, found, and refused where they are old."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from ._private import found_inf

__all__ = ["Passes", "aligned", "find", "refuse_sparse", "refuse_unscaled", "scale_of", "unscale"]

_MARK = "_steepen_mark"
MOMENTA = ("momentum_buffer", "exp_avg")  # where optimizers of torch keep their mean of gradients


class Passes:
    """Counts how often gradients are added to the parameters, and knows one gradient that is old."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}  # by parameter, since the gradients were cleared or taken
        self._watched: dict[int, tuple[Tensor, Any]] = {}  # and what removes the hook
        self._mark: object = None  # on a gradient that nothing may be added to
        self._why = ""

    def __reduce__(self) -> tuple[type[Passes], tuple[()]]:
        return Passes, ()  # a copy counts for its own parameters

    def watch(self, params: Sequence[Tensor]) -> None:
        """Count for the first and the last of these: a hook on each would tell no more."""
        able = [p for p in params if p.requires_grad and not is_lazy(p)]
        for p in (*able[:1], *able[-1:]):
            if id(p) not in self._watched:
                hooked: Any = p  # torch has no types for it
                handle = hooked.register_post_accumulate_grad_hook(_tick(self._counts, id(p)))
                remove = weakref.finalize(self, handle.remove)
                remove.atexit = False
                self._watched[id(p)] = p, remove

    def ignore(self) -> None:
        """Count no more: a hook costs a step more than all else here."""
        for _, remove in self._watched.values():
            remove()
        self._watched.clear()

    @property
    def count(self) -> int:
        """How many passes went backwards: the most that one of them has seen, as some may not see all."""
        return max(self._counts.values(), default=0)

    def clear(self, count: int = 0) -> None:
        """Take note that the gradients were cleared, or are those of so many passes again."""
        self._counts.clear()
        self._counts[0] = count
        self._mark = None

    def taken(self, params: Iterable[Tensor]) -> None:
        """Take note that a step has used the gradients: what is added to them would be wrong."""
        self.clear()
        why = "still has the gradient of the last step: call zero_grad() of this optimizer, and"
        self._set_mark(params, why)

    def before_closure(self, params: Iterable[Tensor]) -> None:
        """Drop the gradients of the last step; others the closure must clear."""
        having = [p for p in params if p.grad is not None]
        if having and self._is_old(having[0]):
            for p in having:
                p.grad = None  # a closure need not clear
            having = []
        self.clear()
        self._set_mark(
            having,
            "has a gradient from before step(closure), which its second pass cannot make again: to "
            "accumulate, put all micro-batches into the closure; else let it call zero_grad() first, and",
        )

    def refuse_old(self, params: Iterable[Tensor]) -> None:
        """Refuse gradients that were added to old ones, or are those."""
        for p in params:
            if self._is_old(p):
                raise RuntimeError(
                    f"a parameter of shape {tuple(p.shape)} {self._why} backward() on a new loss"
                )

    def _set_mark(self, params: Iterable[Tensor], why: str) -> None:
        """Mark one, as a loop that clears clears all; to hold it would cost memory."""
        first = next((p.grad for p in params if p.grad is not None), None)
        if first is not None:
            self._mark, self._why = object(), why
            setattr(first, _MARK, self._mark)

    def _is_old(self, p: Tensor) -> bool:
        return self._mark is not None and getattr(p.grad, _MARK, None) is self._mark


def _tick(counts: dict[int, int], key: int) -> Any:
    def tick(_: Tensor) -> None:
        counts[key] = counts.get(key, 0) + 1

    return tick


def find(
    groups: Sequence[dict[str, Any]], strengths: Sequence[float], eta: str = "eta", states: Any = None
) -> tuple[list[Tensor], list[Tensor], list[float], list[float | None]]:
    """Return the parameters with a gradient, these, weights (each group's share of the largest) and η.

    With the `states` of an optimizer it is their momentum in the place of the gradient.
    """
    largest = max(strengths, key=abs)
    params: list[Tensor] = []
    found: list[Tensor] = []
    weights: list[float] = []
    etas: list[float | None] = []
    for group, strength in zip(groups, strengths, strict=True):
        for p in group["params"]:
            one = momentum(states, p) if states is not None else p.grad
            if one is not None:
                params.append(p)
                found.append(one if states is not None or type(one) is Tensor else aligned(p))
        new = len(params) - len(weights)
        weights += [strength / largest] * new
        etas += [group.get(eta)] * new
    if not params:
        raise RuntimeError(
            "no parameter has a gradient: the closure, or the loop, must call backward() on the loss"
        )
    return params, found, weights, etas


def momentum(states: Any, p: Tensor) -> Tensor | None:
    """Return the momentum of a parameter, where an optimizer has one."""
    state = states.get(p, {})
    return next((state[name] for name in MOMENTA if state.get(name) is not None), None)


def aligned(p: Tensor) -> Tensor:
    """Return a gradient laid out over the ranks like its parameter: one may be a sum yet to be made."""
    grad: Any = p.grad
    placements: Any = getattr(p, "placements", None)
    if placements is not None and grad.placements != placements:
        grad = p.grad = grad.redistribute(placements=placements)
    return grad


def refuse_sparse(grads: Iterable[Tensor]) -> None:
    """Refuse gradients that are not dense."""
    for grad in grads:
        if grad.layout is not torch.strided:
            raise TypeError(
                f"a parameter of shape {tuple(grad.shape)} has a sparse gradient; CGD needs dense ones: for "
                "an embedding, sparse=False"
            )


def unscale(scaler: Any, optimizer: Any, ranks: Any = None) -> None:
    """Let a GradScaler take its scale out of the gradients, and note whether they are finite.

    With `ranks`, a process group whose gradients are not yet summed, they must be so on all of them.
    """
    if scaler is None:
        return
    refuse_unscaled(scaler, optimizer)
    scaler.unscale_(optimizer.base)
    if ranks is not None and scaler.is_enabled():
        for flag in found_inf(scaler, optimizer.base).values():
            torch.distributed.all_reduce(flag, torch.distributed.ReduceOp.MAX, group=ranks)  # pyright: ignore


def refuse_unscaled(scaler: Any, optimizer: Any) -> None:
    """Refuse a step whose gradients have lost their scale already: it would be taken out twice."""
    if found_inf(scaler, optimizer):
        raise RuntimeError(
            "scaler.unscale_() has been called on this optimizer: leave that to CGD, and clip with max_norm"
        )


def scale_of(scaler: Any, device: torch.device) -> Tensor:
    """Return a GradScaler's scale where it lies, on the device."""
    return scaler.scale(torch.ones((), device=device))
