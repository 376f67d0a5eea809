"""State of the step in progress, held by the optimizers' base class; it undoes what the passes changed."""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from ._tensors import Undo


class Phase(Enum):
    """The phase of a step."""

    BETWEEN = "between two steps"
    ASCENT = "the passes at x, for the ascent step"
    BATCH = "the passes over the batch, at x + s where there is an ascent step"
    DUE = "all passes are made, and step() is due"
    TAKING = "within step()"


@dataclass(eq=False)
class Step:
    """What is known of one step; a new one replaces it when it is taken or discarded."""

    passes: Mapping[Phase, int] = field(default_factory=dict[Phase, int])  # how many there are in each phase
    scaler: Any = None
    others: Sequence[tuple[str, Callable[[], bool]]] = ()  # in the middle of a step too
    total: int = 0  # examples of all micro-batches, if that is known
    phase: Phase = Phase.BETWEEN
    whole: bool = False  # whether one call makes the passes and takes the step, so that neither is due alone
    perturbed: bool = False  # whether it has an ascent step
    moved: bool = False  # whether the weights are at x + s
    params: Sequence[Tensor] = ()  # those with a gradient for the ascent step
    g: Sequence[Tensor] = ()  # their gradient at x, if the step needs both
    gnorm: Any = None  # ‖g‖, of the loss as it is scaled
    nu: Tensor | None = None
    losses: dict[Phase, list[Tensor]] = field(default_factory=lambda: defaultdict(list))
    examples: Counter[Phase] = field(default_factory=Counter[Phase])
    undo: list[Undo] = field(default_factory=list[Undo])

    @torch.no_grad()
    def undo_all(self) -> None:
        """Undo the traces of the passes so far, the last first."""
        while self.undo:
            self.undo[-1]()
            self.undo.pop()  # only now: an interrupt may have come before
        self.moved = False


def first_gradient(params: Iterable[Tensor]) -> tuple[Callable[[], Tensor | None], int]:
    """Return a reference to a gradient and its version, which show a backward() of somebody else."""
    grad = next((p.grad for p in params if p.grad is not None), None)
    return (lambda: None, 0) if grad is None else (weakref.ref(grad), grad._version)
