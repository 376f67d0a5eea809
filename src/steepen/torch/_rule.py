"""GapSAM: a probe whose length follows from the gap between held-out and training loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .._core import ascent
from .._tools.check import is_number, number, whole
from ._held_out import HeldOut, is_sum
from ._joined import Base
from ._probe import Probe, Turn

__all__ = ["GapSAM"]

_dist: Any = torch.distributed  # without types
_READINGS = 50  # of held-out data, over the run
_PAST, _CARRIES = 0.2, 0.25  # the weight of a new value in what was; the part of a fall that is to carry over
_NAMES = (
    "training", "last", "rise", "rise_square", "target", "length", "bound", "square", "held_out", "bad",
    "was_held_out", "was_training", "stalled", "gain",
)  # fmt: skip
# which of them are told together
_AT_X, _PROBED, _HELD_OUT, _TREND = slice(0, 2), slice(2, 8), slice(8, 10), slice(10, 13)


class GapSAM(Probe):
    """A probe that sets its own length, by held-out data.

    The probe aims to raise the loss by a part of the gap, held-out less training loss, and the part rises
    evenly over the run from 0 to `strength`; probes begin after a third of it. To first order a probe of
    length ℓ raises the loss on its share by ℓ‖g‖, so ℓ = gain·part·gap/‖g‖, and the gain is learnt from the
    rises that are seen over the batch. A gap that closes, or a training loss that rises, shortens the probe
    at once; with no gap there is none.

    Parameters
    ----------
    base : torch.optim.Optimizer, or a list of these
        The optimizer that takes the steps, such as `SGD` or `AdamW`; or several, each of its own parameters.
    model : Module
        The network. Its buffers, such as BatchNorm's statistics, are left as one pass leaves them.
    held_out : callable, batch, iterable of batches, or None
        Data that is not trained on, held out as your test data is: by file, by speaker, by patient. A
        callable returns the mean loss on it. It is read every fiftieth of the run, in eval mode, from shortly
        before the first probe on. With None, tell the loss by `saw_held_out` whenever you have evaluated the
        network.
    steps : int
        The length of the run.
    loss : callable, optional
        Returns the mean loss of a batch of `held_out`; by default what `step_on` is given.
    share : float
        The part of the batch that the probe's gradient is taken from.
    every : int
        A probe in every so many steps.
    strength : float
        The part of the gap at the end of the run.
    wait : bool
        Begin with the probes only when what is learnt no longer carries over: when the held-out loss falls by
        less than a quarter of what the training loss falls. For networks that may still be learning at the
        end of the run, such as language models.
    max_norm : float, optional
        Clip the gradient to this norm before the base takes it.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
    >>> x, held = torch.randn(512, 20), torch.randn(200, 20)
    >>> y, held_y = ((part[:, 0] + torch.randn(len(part))).gt(0).long() for part in (x, held))
    >>> opt = GapSAM(torch.optim.AdamW(model.parameters(), lr=1e-2), model, (held, held_y), 100)
    >>> for _ in range(100):
    ...     rows = torch.randint(512, (64,))
    ...     loss = opt.step_on(lambda x, y: nn.functional.cross_entropy(model(x), y), x[rows], y[rows])
    >>> opt.report().probed, opt.report().length > 0.01
    (33, True)
    """

    _first = (
        ascent.FIRST
    )  # of the run before the first probe: as good as from the start, for two thirds of the cost

    def __init__(
        self,
        base: Base,
        model: nn.Module,
        held_out: Any,
        steps: int,
        *,
        loss: Callable[..., Tensor] | None = None,
        share: float = 1 / 16,
        every: int = 2,
        strength: float = 1.0,
        wait: bool = False,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(base, model, share=share, max_norm=max_norm)
        whole("steps", steps, ascent.LEAST)
        whole("every", every, 1)
        number("strength", strength, "a positive number", above=0)
        if not isinstance(wait, bool):
            raise TypeError(f"wait: expected True or False, got {wait!r}")
        self.steps, self.every, self.strength, self.wait = steps, every, strength, wait
        self.held_out = None if held_out is None else HeldOut(model, held_out, loss)
        self._new, training = ascent.new_weights(steps)
        held_out = [ascent.NEW_VALIDATION] * 2
        weights = [training, 1, *[self._new] * 5, ascent.NEW_GRADIENT, *held_out, _PAST, _PAST, 1, 0]
        self._weights = torch.tensor(weights, device=self.device)
        self._table = torch.zeros((2, len(_NAMES)), device=self.device)  # sums, and what to divide them by
        self._table[:, -1] = 1  # the gain
        self._one = torch.ones((), device=self.device)
        self._by_sum = self._open = self._halfway = False
        self._waiting = wait
        nothing = torch.full((len(_NAMES),), math.nan)
        # numbers on their way to the host, and when they are there
        self._sent: list[tuple[Tensor, Any]] = [(nothing, None), (nothing, None)]

    # -- what is told -----------------------------------------------------------------------------------

    def step_on(self, loss_of: Callable[..., Tensor], *batch: Any, scaler: Any = None) -> Tensor:
        """Take one step on a batch, as `Probe.step_on` does; `loss_of` serves for held-out data too.

        Here the loss may be a sum over the batch, which is found out at step 0; in other loops it is a mean.
        """
        if self.held_out is not None and self.held_out.loss is None and not callable(self.held_out.data):
            self.held_out.loss = loss_of
        if self.k == 0 and is_sum(self.model, loss_of, batch):
            if self.held_out is None or callable(self.held_out.data):
                raise ValueError(
                    "loss_of: expected the mean over the batch, got a sum; or give held_out as data"
                )
            self._by_sum = self.held_out.by_sum = True
        return super().step_on(loss_of, *batch, scaler=scaler)

    def saw_held_out(self, loss: Any) -> None:
        """Tell the mean loss on held-out data; with several processes, on each of them.

        Examples
        --------
        >>> model = nn.Linear(2, 1)
        >>> opt = GapSAM(torch.optim.SGD(model.parameters(), lr=0.1), model, None, steps=100)
        >>> opt.saw_held_out(0.7)
        """
        self._follow()
        if isinstance(loss, Tensor) and loss.numel() == 1:
            value = loss.detach().reshape(()).to(self._table)
        elif is_number(loss):
            value = torch.full_like(self._one, float(loss))
        else:
            raise ValueError(f"loss: expected the mean loss on held-out data, one number; got {loss!r}")
        value = self._over_ranks(value)
        self._take_in(_HELD_OUT, value, ~value.isfinite())
        if self.wait and self.k:  # the fall from step 0 says nothing
            now = self._now()
            fall = self._up * (now["was_held_out"] - now["held_out"])
            stalled = fall < _CARRIES * (now["was_training"] - now["training"]).abs()
            self._take_in(_TREND, now["held_out"], now["training"], stalled)

    def _begin(self) -> None:
        if self._reads(self.k):
            self._look_at_numbers()
            if self.held_out is not None:
                self.saw_held_out(self.held_out.read())
                if self.k == 0 and self._now()["held_out"].isnan():
                    raise ValueError("held_out: expected a finite loss, got one that is not")
            self._send()
        if self.k == self.steps:
            self._warn(
                f"steps: the run goes on after its {self.steps} steps; the part stays at {self.strength:g}"
            )

    def _reads(self, k: int) -> bool:
        """Say whether held-out data is read before step k: at step 0, and from shortly before the probes."""
        each, before = max(1, self.steps // _READINGS), 10 if self.wait else 4
        return k % each == 0 and (k == 0 or k >= self._first * self.steps - before * each)

    def _send(self) -> None:
        """Send the numbers to the host without a wait."""
        now = self._table[0] / self._table[1]
        there = torch.empty_like(now, device="cpu", pin_memory=now.is_cuda)
        there.copy_(now, non_blocking=True)
        event: Any = torch.cuda.Event() if now.is_cuda else None
        if event is not None:
            event.record()
        self._sent.append((there, event))

    def _look_at_numbers(self) -> None:
        """See whether there is a gap, and say once what is amiss, by the numbers of the last reading but one.

        They have long arrived, unless the host is two readings ahead of the device: then it waits here, and
        the device has work. So which steps are probed does not depend on how fast either is.
        """
        numbers, event = self._sent.pop(0)
        if event is not None:
            event.synchronize()
        now = dict(zip(_NAMES, map(float, numbers), strict=True))
        if self.k >= self._first * self.steps and now["stalled"] > 0:
            self._waiting = False
        self._open = not self._waiting and self._up * (now["held_out"] - now["training"]) > 0
        if now["bad"] > 0:
            self._warn("held_out: a loss that is not finite was passed over")
        if now["bound"] > 0.5:
            self._warn(
                f"the probe is cut to its limit, {ascent.LONGEST:g} of the weights' norm, in most steps"
            )
        if self.k < self.steps // 2 or self._halfway:
            return
        self._halfway = True
        losses = f"held-out loss {now['held_out']:.4g}, training loss {now['training']:.4g}"
        if math.isnan(now["bad"]):
            self._warn(
                "held_out: no loss was told in half of the run: call saw_held_out(), or give held_out="
            )
        elif not (self.probed or self._waiting or self._open):
            self._warn(f"no gap in half of the run, so no probe: {losses}")

    # -- the rule ---------------------------------------------------------------------------------------

    def _wants(self, k: int) -> bool:
        return self._open and k % self.every == 0 and k >= self._first * self.steps

    def _reach(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        now, part = self._now(), self.strength * min(self.k / (self.steps - 1), 1.0)
        target = (self._up * part * (now["held_out"] - now["training"])).clamp(min=0)
        length, bound = ascent.gap_length(target, now["gain"], n, now["square"], x(), torch)
        self._reached = target, length, bound, n * n
        return length / n, None

    @torch.no_grad()
    def _learn(self) -> None:
        first, batch = self._told[Turn.PROBE], self._told[Turn.BATCH]
        if not batch or not (first or (self.k and not self._had_probe)):
            self._fail("passes: tell the loss of each pass, opt.saw(loss), after its backward()")
        loss = self._over_ranks(self._mean(batch, Turn.BATCH))
        if not self._had_probe:  # at x
            self._take_in(_AT_X, loss, loss)
            return
        before = self._table[0, 1]  # the loss of the last batch at x
        if self.every == 1:  # no step has it: that of the share must do
            before = self._over_ranks(self._mean(first, Turn.PROBE))
            if self.share < 1:
                before = before * self._micro
            self._take_in(_AT_X, before, before)
        rise = self._up * (loss - before)
        self._take_in(_PROBED, rise, rise * rise, *self._reached)
        self._steer()

    def _steer(self) -> None:
        """Learn the gain from the rises seen; what is below their noise teaches nothing."""
        now = self._now()
        factor = ascent.gain_factor(now["rise"], now["rise_square"], now["target"], self._new, torch)
        self._table[0, -1].mul_(factor).clamp_(*ascent.GAIN)

    def _mean(self, losses: list[Tensor], turn: Turn) -> Tensor:
        """Return the loss of a step from those of its micro-batches; its mean, where it is a sum."""
        total = losses[0] if len(losses) == 1 else torch.stack(losses).sum()
        total = total.reshape(()).to(self._table)
        return total / self._rows[turn] if self._by_sum else total

    def _unit(self) -> Any:
        unit = super()._unit()
        return unit * self._rows[Turn.PROBE] if self._by_sum else unit

    def _over_ranks(self, value: Tensor) -> Tensor:
        """Return the mean over all processes that train together."""
        if not (_dist.is_available() and _dist.is_initialized() and _dist.get_world_size() > 1):
            return value
        value = value.clone()
        _dist.all_reduce(value)
        return value / _dist.get_world_size()

    # -- numbers ----------------------------------------------------------------------------------------

    def _now(self) -> dict[str, Tensor]:
        """Return the running means; NaN for what was never told."""
        return dict(zip(_NAMES, (self._table[0] / self._table[1]).unbind(), strict=True))

    def _take_in(self, which: slice, *values: Tensor) -> None:
        """Let running means take in a value each; one that is not finite is passed over."""
        table = self._table[:, which]
        ones = [self._one] * len(values)
        new = torch.stack([*(value.to(table) for value in values), *ones]).view(2, -1)
        table.lerp_(torch.where(new[0].abs() < math.inf, new, table), self._weights[which])

    def _numbers(self) -> Tensor:
        for _, event in self._sent:
            if event is not None:
                event.synchronize()
        sent = [numbers for numbers, _ in self._sent]
        flags = torch.tensor([self._open, self._by_sum, self._waiting])
        own = torch.cat((self._table.flatten().cpu(), *sent, flags))
        return torch.cat((super()._numbers(), own.double()))

    def _set_numbers(self, numbers: Tensor) -> None:
        super()._set_numbers(numbers)
        rows = numbers[3:-3].float().cpu().view(4, -1)
        self._table.copy_(rows[:2])
        self._sent = [(rows[2], None), (rows[3], None)]
        self._open, self._by_sum, self._waiting = (bool(flag) for flag in numbers[-3:])
        if self.held_out is not None:
            self.held_out.by_sum = self._by_sum

    def _found(self) -> dict[str, float]:
        names = ("training", "held_out", "rise", "target", "length", "bound")
        now = self._now()
        return {name: float(now[name]) for name in names}
