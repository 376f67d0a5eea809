"""A strength that sets itself: the probe raises the loss by a part of the generalisation gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .._tools.check import is_number, number, whole
from ..schedules import L, Schedule, ScheduleLike
from ._family import schedule_of
from ._launch import Word

__all__ = ["SHARE", "START", "ByGap", "Gauge", "Steering", "is_loss", "judging", "ranks_of", "steered"]

SHARE = 1 / 16
"""The share of the batch that the probe is taken from, where nothing is said."""
START = 1e-3
"""The length ‖s‖/‖x‖ that the steering begins with."""

_CONSTANT, _RISING = (
    1 / 3,
    0.5,
)  # the part, where the number of steps is not known; and at the end where it is
_RATE = 0.02  # of the length's logarithm, at most, a step
_NEW = 0.03  # the weight of a new step in running means
_OLD = 0.7  # the weight of what was known in the gap
_LATE = 2  # steps until a report is heard, so that nobody waits for the device
_dist: Any = torch.distributed  # without types
Gauge = Callable[[], Any]


@dataclass(frozen=True)
class ByGap:
    """How `strength="auto"` sets the length of the probe.

    The gap is the loss on held-out examples less the loss on training examples, both at x. The length is
    steered so that the probe raises the loss by `part` of the gap; while that is less than `floor`, there is
    no probe, and a step is the base's own.

    Parameters
    ----------
    part : number, schedule or callable of the step
        By default a third; where the number of steps is given, it rises evenly from 0 to a half.
    floor : float
        The least rise of the loss that is worth a probe; the default suits a cross-entropy.
    every : int
        The number of steps after which the gauge is read.

    Examples
    --------
    >>> from steepen.torch import CGD, ByGap
    >>> model = torch.nn.Linear(4, 1)
    >>> opt = CGD(torch.optim.SGD(model.parameters(), lr=0.1), strength=ByGap(part=0.5), model=model)
    >>> opt.active  # not before a gap is known
    False
    """

    part: ScheduleLike | None = None
    floor: float = 0.02
    every: int = 100

    def __post_init__(self) -> None:
        number("floor", self.floor, "a number, 0 or more", least=0)
        whole("every", self.every, 1)

    def parts(self, steps: int | None) -> Schedule:
        """Return the part by the step."""
        default = _CONSTANT if steps is None else L(0.0, _RISING)
        return schedule_of("part", default if self.part is None else self.part, steps)


def steered(gain: Tensor, mean: Tensor, rise: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the new gain of the length and the new running mean of the rise, after a step with this rise.

    A rise that is not finite changes nothing.
    """
    mean = _mean(mean, rise, _NEW)
    move = ((target - mean) / target).clamp(-1, 1)
    return torch.where(rise.isfinite(), gain * (_RATE * move).exp(), gain), mean


class Steering:
    """What the rule knows: on the device what steps tell, on the host the gap of the last report heard.

    No step waits: a report reaches the host two steps later, on every rank at the same step.
    """

    def __init__(self, rule: ByGap, gauge: Gauge | None, steps: int | None, most: float) -> None:
        self.rule, self.gauge = rule, gauge
        self.part = rule.parts(steps)
        self.gap = math.nan  # as the host has heard
        self.saw_loss = False
        self.most = most  # of the gain
        self._word: tuple[int, Word] | None = None  # when it is due, and the gap on its way
        self._bind(torch.tensor([1.0, math.nan, 0.0, math.nan, math.nan]))

    def start(self, device: torch.device) -> None:
        """Have the numbers on the device where the steps are."""
        if self._table.device != device:
            self._bind(self._table.to(device))

    def _bind(self, table: Tensor) -> None:
        """Have a name for each number on the device."""
        self._table = table
        self.gain, self.rise, self._loss, self._gap, self._target = table
        self._dialled = math.nan

    # -- the host ---------------------------------------------------------------------------------------

    @property
    def told(self) -> bool:
        """Whether there was a report."""
        return self._word is not None or not math.isnan(self.gap)

    def target(self, k: int) -> float:
        """Return the rise that step k is to have; NaN before a gap is known."""
        if self._word is not None and k >= self._word[0]:
            self._word, self.gap = None, self._word[1].read()
        last = self.part.length
        return float(self.part(k if last is None else min(k, last - 1))) * self.gap

    def wants(self, k: int) -> bool:
        """Say whether step k is to have a probe."""
        target = self.target(k)
        return target >= self.rule.floor and target > 0

    def dial(self, k: int) -> None:
        """Bring the target of step k to the device."""
        target = self.target(k)
        if target != self._dialled:
            self._target.fill_(target)
            self._dialled = target

    # -- the device -------------------------------------------------------------------------------------

    def steer(self, rise: Tensor) -> None:
        """Take note of the rise of this step, and set the length of the next."""
        gain, mean = steered(self.gain, self.rise, rise.to(self.gain), self._target)
        self.gain.copy_(gain.clamp(max=self.most))
        self.rise.copy_(mean)

    def saw(self, loss: object) -> None:
        """Take note of the loss at x that a closure has returned."""
        if not is_loss(loss):
            return  # a report will ask for it
        change = (self._number(loss) - self._loss).nan_to_num(0.0, 0.0, 0.0)  # every step: few kernels
        self._loss.add_(change, alpha=_NEW if self.saw_loss else 1.0)
        self.saw_loss = True

    def report(self, held_out: object, training: object, k: int, ranks: Sequence[Any]) -> None:
        """Take note of a loss on held-out data, between the steps k − 1 and k."""
        both = torch.stack(
            [self._number(held_out), self._loss if training is None else self._number(training)]
        )
        for group in ranks:
            _dist.all_reduce(both, group=group)
            both /= _dist.get_world_size(group)
        self._gap.copy_(_mean(self._gap, both[0] - both[1], 1 - _OLD))
        self._word = k + _LATE if self._word is None else self._word[0], Word(self._gap)

    def _number(self, value: Any) -> Tensor:
        value = value.detach() if isinstance(value, Tensor) else value
        if isinstance(value, Tensor) and value.device == self._loss.device:
            return value.reshape(()).to(self._loss.dtype)
        return torch.full_like(self._loss, float(value))  # to copy it from a CPU would be a wait

    # -- kept -------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_word": None, "_late": self.state_dict()}  # an event cannot be copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        late = state.pop("_late")
        self.__dict__.update(state)
        self._bind(late["steering"])
        self.load_state_dict(late)

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs: tensors always, for those who save by kind."""
        due = -1 if self._word is None else self._word[0]
        heard = torch.tensor([self.gap, due, self.saw_loss], dtype=torch.float64)
        return {"steering": self._table.clone(), "heard": heard}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up where a saved one left off."""
        self._table.copy_(state["steering"])
        self._dialled = math.nan
        self.gap, due, saw_loss = state["heard"].tolist()
        self.saw_loss = bool(saw_loss)
        self._word = (int(due), Word(self._gap)) if due >= 0 else None


def is_loss(value: object) -> bool:
    """Say whether this is one number, on whatever device."""
    return is_number(value) or (isinstance(value, Tensor) and value.numel() == 1)


def ranks_of(model: nn.Module | None, param: Tensor) -> list[Any]:
    """Return the process groups over which losses are averaged: the model's, or all processes."""
    if not (_dist.is_available() and _dist.is_initialized()) or _dist.get_world_size() == 1:
        return []
    if isinstance(model, DistributedDataParallel):
        return [cast(Any, model.process_group)]  # pyright: ignore
    mesh = getattr(param, "device_mesh", None)
    return [None] if mesh is None else [mesh.get_group(i) for i in range(mesh.ndim)]


@contextmanager
def judging(model: nn.Module | None) -> Iterator[None]:
    """Have the model in eval mode, every module of it, and then as each was."""
    were = [] if model is None else [(module, module.training) for module in model.modules()]
    try:
        if model is not None:
            model.eval()
        yield
    finally:
        for module, training in were:
            module.training = training


def _mean(old: Tensor, new: Tensor, weight: float) -> Tensor:
    """Return a running mean with one more value; one that is NaN has seen nothing yet."""
    mean = torch.where(old.isnan(), new, old.lerp(new, weight))
    return torch.where(new.isfinite(), mean, old)
