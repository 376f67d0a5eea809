"""GapSAM: a probe whose length follows from the gap between held-out and training loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .._tools.check import is_number, number, whole
from ._held_out import HeldOut, is_sum
from ._probe import Probe, Turn
from ._report import Report

__all__ = ["GapSAM"]

_dist: Any = torch.distributed  # without types
_READINGS = 50  # of held-out data, over the run
_LEAST = 20  # steps of a run
_NEW, _NEW_HELD_OUT, _NEW_GRADIENT = 0.03, 0.5, 0.1  # the weight of a new value in running means, at least
_RATE, _FALL = 0.03, 4.0  # how fast the gain is learnt: at most so much up a probe, and times this down
_GAIN = (0.02, 100.0)
_LONGEST = 0.1  # of ‖x‖
_NAMES = (
    "training", "held_out", "rise", "rise_square", "target", "length", "bound", "gain", "square", "last",
    "readings", "bad",
)  # fmt: skip


class GapSAM(Probe):
    """A probe that sets its own length, by held-out data.

    The probe aims to raise the loss by a part of the gap, held-out less training loss, and the part rises
    evenly over the run from 0 to `strength`. To first order a probe of length ℓ raises the loss on its share
    by ℓ‖g‖, so ℓ = gain·part·gap/‖g‖, and the gain is learnt from the rises that are seen over the batch.
    A gap that closes, or a training loss that rises, shortens the probe at once; with no gap there is none.

    Parameters
    ----------
    base : torch.optim.Optimizer
        The optimizer that takes the steps, such as `SGD` or `AdamW`.
    model : Module
        The network. Its buffers, such as BatchNorm's statistics, are left as one pass leaves them.
    held_out : callable, batch, iterable of batches, or None
        Data that is not trained on, held out as your test data is: by file, by speaker, by patient. A
        callable returns the mean loss on it. It is read some fifty times over the run, in eval mode. With
        None, tell the loss by `saw_held_out` whenever you have evaluated the network.
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
    (50, True)
    """

    def __init__(
        self,
        base: Optimizer,
        model: nn.Module,
        held_out: Any,
        steps: int,
        *,
        loss: Callable[..., Tensor] | None = None,
        share: float = 1 / 16,
        every: int = 2,
        strength: float = 1.0,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(base, model, share=share, max_norm=max_norm)
        whole("steps", steps, _LEAST)
        whole("every", every, 1)
        number("strength", strength, "a positive number", above=0)
        self.steps, self.every, self.strength = steps, every, strength
        self.held_out = None if held_out is None else HeldOut(model, held_out, loss)
        table = torch.full((len(_NAMES),), math.nan, device=self.device)
        for name, value in {"gain": 1.0, "bound": 0.0, "readings": 0.0, "bad": 0.0}.items():
            table[_NAMES.index(name)] = value
        self._table = table
        self._new = max(_NEW, 10 / steps)  # a short run has no time for long means
        self._by_sum = self._halfway = False
        self._sent: tuple[Tensor, Any] | None = (
            None  # numbers on their way to the host, and when they are there
        )

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
            value = torch.full_like(self._table[0], float(loss))
        else:
            raise ValueError(f"loss: expected the mean loss on held-out data, one number; got {loss!r}")
        value = self._over_ranks(value)
        self._mean("held_out", value, _NEW_HELD_OUT)
        self._of("readings").add_(1)
        self._of("bad").add_(value.isfinite().logical_not())

    def _begin(self) -> None:
        if self.k % max(1, self.steps // _READINGS) == 0:
            self._look_at_numbers()
            if self.held_out is not None:
                self.saw_held_out(self.held_out.read())
                if self.k == 0 and not bool(self._of("held_out").isfinite()):
                    raise ValueError("held_out: expected a finite loss, got one that is not")
            self._send()
        if self.k == self.steps:
            self._warn(
                f"steps: the run goes on after its {self.steps} steps; the part stays at {self.strength:g}"
            )

    def _send(self) -> None:
        """Send the numbers to the host without a wait; they are looked at in the next reading."""
        there = torch.empty_like(self._table, device="cpu", pin_memory=self._table.is_cuda)
        event: Any = torch.cuda.Event() if self._table.is_cuda else None
        there.copy_(self._table, non_blocking=True)
        if event is not None:
            event.record()
        self._sent = there, event

    def _look_at_numbers(self) -> None:
        """Say once what is amiss, by the numbers that were sent at the last reading."""
        if self._sent is None or (self._sent[1] is not None and not self._sent[1].query()):
            return
        now = dict(zip(_NAMES, map(float, self._sent[0]), strict=True))
        if now["bad"]:
            self._warn("held_out: a loss that is not finite was passed over")
        if now["bound"] > 0.5:
            self._warn(f"the probe is cut to its limit, {_LONGEST:g} of the weights' norm, in most steps")
        if self.k < self.steps // 2 or self._halfway:
            return
        self._halfway = True
        losses = f"held-out loss {now['held_out']:.4g}, training loss {now['training']:.4g}"
        if not now["readings"]:
            self._warn(
                "held_out: no loss was told in half of the run: call saw_held_out(), or give held_out="
            )
        elif not now["length"] > 0:
            self._warn(f"no gap in half of the run, so no probe: {losses}")

    # -- the rule ---------------------------------------------------------------------------------------

    def _wants(self, k: int) -> bool:
        return k % self.every == 0

    @property
    def _gap(self) -> Tensor:
        gap = self._up * (self._of("held_out") - self._of("training"))
        return gap.clamp(min=0).nan_to_num(0.0)

    @property
    def _target(self) -> Tensor:
        return self.strength * min(self.k / (self.steps - 1), 1.0) * self._gap

    def _reach(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        self._mean("square", n * n, _NEW_GRADIENT)
        typical = torch.maximum(n, self._of("square").sqrt())
        length, most = self._of("gain") * self._target / typical, _LONGEST * x()
        self._mean("bound", (length > most).float(), self._new)
        length = length.minimum(most)
        self._mean("length", length, self._new)
        return length / n, None

    @torch.no_grad()
    def _learn(self) -> None:
        first, batch = self._told[Turn.PROBE], self._told[Turn.BATCH]
        if not batch or (self._had_probe and not first):
            self._fail("passes: tell the loss of each pass, opt.saw(loss), after its backward()")
        loss = self._over_ranks(self._sum(batch) / self._counted(Turn.BATCH))
        if self.k == 0 or not self._had_probe:  # at x
            self._mean("training", loss, self._new)
            self._of("last").copy_(loss)
            return
        if self.every == 1:  # no step has the loss of the batch at x: that of the share must do
            parts = self._micro if self.share < 1 else 1
            before = self._over_ranks(self._sum(first) * parts / self._counted(Turn.PROBE))
            self._steer(self._up * (loss - before))
            self._mean("training", before, self._new)
        else:
            self._steer(self._up * (loss - self._of("last")))

    def _sum(self, losses: list[Tensor]) -> Tensor:
        return torch.stack(losses).sum().to(self._table)

    def _steer(self, rise: Tensor) -> None:
        """Learn the gain from the rise of one probe; what is below the noise of the rises teaches nothing."""
        self._mean("rise", rise, self._new)
        self._mean("rise_square", rise * rise, self._new)
        self._mean("target", self._target, self._new)
        seen, target, gain = self._of("rise"), self._of("target"), self._of("gain")
        error = (self._new / 2 * (self._of("rise_square") - seen * seen).clamp(min=0)).sqrt()
        move = ((target - seen) / target.maximum(error)).clamp(-_FALL, 1).nan_to_num(0.0)
        gain.copy_((gain * (_RATE * move).exp()).clamp(*_GAIN))

    def _counted(self, turn: Turn) -> int:
        """Return what a loss is to be divided by: the examples, where it is a sum."""
        return self._rows[turn] if self._by_sum else 1

    def _unit(self) -> Any:
        return super()._unit() * self._counted(Turn.PROBE)

    def _over_ranks(self, value: Tensor) -> Tensor:
        """Return the mean over all processes that train together."""
        if not (_dist.is_available() and _dist.is_initialized() and _dist.get_world_size() > 1):
            return value
        value = value.clone()
        _dist.all_reduce(value)
        return value / _dist.get_world_size()

    # -- numbers ----------------------------------------------------------------------------------------

    def _of(self, name: str) -> Tensor:
        return self._table[_NAMES.index(name)]

    def _mean(self, name: str, new: Tensor, weight: float) -> None:
        """Let a running mean take in one more value; one that is not finite is passed over."""
        old = self._of(name)
        mean = torch.where(old.isnan(), new, old.lerp(new.to(old), weight))
        old.copy_(torch.where(new.isfinite(), mean, old))

    def numbers(self) -> Tensor:
        """Return what a resumed run needs beside the base's state."""
        own = torch.cat((self._table.cpu().double(), torch.tensor([float(self._by_sum)]).double()))
        return torch.cat((super().numbers(), own))

    def set_numbers(self, numbers: Tensor) -> None:
        """Take up what `numbers` returned."""
        super().set_numbers(numbers)
        self._table.copy_(numbers[3:-1])
        self._by_sum = bool(numbers[-1])
        if self.held_out is not None:
            self.held_out.by_sum = self._by_sum

    def report(self) -> Report:
        """Return what the probe did so far; printed, it is a table. This waits for the device."""
        names = ("training", "held_out", "rise", "target", "length", "bound")
        found = {name: float(self._of(name)) for name in names}
        return replace(super().report(), **found)
