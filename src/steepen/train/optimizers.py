"""The methods of a comparison by name: the wrapper around the base, and the steps that a budget allows."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import torch

from .. import torch as ours
from .._core import ascent

_WARMUP = 0.05  # the part of the steps over which the learning rate rises
_NAMES = {"λ": "lam", "ρ": "rho"}  # of a strength among the options of an optimizer


def last(part: float) -> Callable[[int], range]:
    """Return a function from the number of steps to the range of the last part of them."""
    return lambda steps: range(steps - round(part * steps), steps)


@dataclass(frozen=True)
class Method:
    """One way to train: an optimizer of `steepen.torch` around the base, or the base alone.

    `optimizer` is its name there, such as "SAM", and `options` are its other arguments.
    `symbol` names its strength, λ or ρ; `ladder` has three values to choose from. `when` maps the number of
    steps to those with an ascent step; `ascent_fraction` is 0 if the ascent step needs no pass.

    Examples
    --------
    >>> METHODS["sam-late"].when(100)
    range(75, 100)
    >>> fgr = Method("CGD", "λ", ladder=(0.03, 0.1, 0.3), options={"r": 0.05, "guard": False})
    """

    optimizer: str = ""
    symbol: Literal["λ", "ρ", ""] = ""
    ladder: tuple[float, ...] = (0.02, 0.1, 0.4)
    when: Callable[[int], range] = range
    ascent_fraction: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def by_gap(self) -> bool:
        """Whether it sets its own strength, from held-out examples."""
        return self.optimizer == "GapSAM"

    def rows(self, batch: int) -> int:
        """Return the number of examples of the ascent step's pass, for a given batch size."""
        if not self.optimizer or not self.ascent_fraction:
            return 0
        return min(max(2, round(self.ascent_fraction * batch)), batch)

    def wrap(self, base: Any, model: Any, strength: float, steps: int, **options: Any) -> Any:
        """Wrap the base for a run of `steps` steps; return the base itself if there is no wrapper."""
        if not self.optimizer:
            return base
        given = {"total_steps": steps} if self.by_gap else {"when": self.when(steps)}
        given |= {_NAMES[self.symbol]: strength} if self.symbol else {}
        given |= {"ascent_fraction": self.ascent_fraction} if 0 < self.ascent_fraction < 1 else {}
        return getattr(ours, self.optimizer)(base, model, **given | dict(self.options) | options)


BASE = Method()
METHODS: dict[str, Method] = {
    "sam": Method("SAM", "ρ"),
    "sam-late": Method("SAM", "ρ", when=last(0.25)),
    "share16-late": Method("SAM", "ρ", (0.1, 0.3, 1.0), last(0.5), 1 / 16),
    "gap": Method("GapSAM", ascent_fraction=1 / 16),
    "cgd": Method("CGD", "λ"),
}
"""The methods by name."""


def steps_of(method: Method, grads: float, batch: int) -> int:
    """Return the largest number of steps within a budget of gradients, the pass of step 0 included.

    GapSAM's ascent steps are not known in advance: it plans as many steps as the base, and ends when the
    budget is spent.
    """

    def cost(steps: int) -> int:
        perturbed = method.when(steps)
        return steps * batch + method.rows(batch) * (len(perturbed) + (0 not in perturbed))

    steps = int(grads) if method.by_gap else bisect_right(range(1, int(grads) + 1), grads * batch, key=cost)
    if method.by_gap and steps < ascent.LEAST:
        raise ValueError(f"budget: GapSAM needs {ascent.LEAST} steps or more, but this allows {steps}")
    if method.optimizer and not method.when(steps):
        raise ValueError(f"budget: it allows {steps} steps, none of which has an ascent step")
    return steps


Builder = Callable[[Any, float, float], Any]


class Base(NamedTuple):
    """An optimizer that takes the steps, with its default values of lr and weight decay."""

    kind: Callable[..., Any]
    lr: tuple[float, ...]
    decay: tuple[float, ...]

    def build(self, params: Any, lr: float, decay: float) -> Any:
        """Return the optimizer of these parameters."""
        return self.kind(params, lr=lr, weight_decay=decay)


BASES = {
    "sgd": Base(partial(torch.optim.SGD, momentum=0.9), (0.03, 0.1, 0.3), (1e-4, 1e-3, 1e-2)),
    "adamw": Base(torch.optim.AdamW, (3e-4, 1e-3, 3e-3), (0.01, 0.1, 0.3)),
}


def learning_rate(step: float, steps: float) -> float:
    """Return the fraction of the peak learning rate: warm-up over the first twentieth, then cosine decay."""
    rise = max(1, round(_WARMUP * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise))) if step < steps else 0.0
