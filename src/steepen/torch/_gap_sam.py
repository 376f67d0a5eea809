"""GapSAM, for training loops: ascent length by the validation gap; evaluates the net, all-reduces losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .._core import ascent
from .._tools.check import number, whole
from ._ascent import AscentOptimizer
from ._means import Means
from ._step import Phase
from ._tensors import mean_over_processes
from ._validation import losses_of, read_loss
from ._wrapper import Base

_READINGS = 50  # of validation data, over the run
_STALE = 0.4  # of the run after which a validation loss is old: three evaluations a run are enough


class GapSAM(AscentOptimizer):
    """SAM whose ascent step length is set automatically, from validation data.

    The ascent step aims to raise the loss by a part of the gap, validation minus training loss; the part
    grows linearly over the run from 0 to `strength`, and ascent steps begin after a third of it. While the
    gap is below a fifth of the validation loss there are none; from three tenths on the whole part applies.

    Parameters
    ----------
    validation : callable, batch, iterable of batches, or None
        A few hundred examples not used for training, split off as your test data is: by file, by patient.
        Their loss is the `loss_of` of `step_on`; in other loops pass a callable that returns the mean loss,
        or the losses of single examples. With None, call `record_validation_loss` whenever you evaluate the
        network. Set `opt.validation = None` to train on them too in the last quarter of the run.
    total_steps : int
        The length of the run.
    every : int
        Every `every`-th step has an ascent step; the others measure the training loss.
    strength : float
        The part of the gap at the end of the run.
    gate : pair of float, or None
        The ratios of gap to validation loss at which ascent steps begin and are full length. None for a loss
        whose minimum is not 0; while the validation loss is negative, the gate is open, with a warning.
    reduction : "mean" or "sum"
        How the loss is reduced over the examples of a batch.
    base, model, ascent_fraction, max_norm
        As in `AscentOptimizer`.

    Attributes
    ----------
    process_group : ProcessGroup, optional
        The processes whose losses are averaged: those of the model's DDP, or else all. Set it if only some of
        all processes train this model.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
    >>> x, held = torch.randn(512, 20), torch.randn(500, 20)
    >>> y, held_y = ((part[:, 0] + torch.randn(len(part))).gt(0).long() for part in (x, held))
    >>> opt = GapSAM(torch.optim.AdamW(model.parameters(), lr=1e-2), model, (held, held_y), 100)
    >>> for _ in range(100):
    ...     rows = torch.randint(512, (64,))
    ...     loss = opt.step_on(lambda x, y: nn.functional.cross_entropy(model(x), y), x[rows], y[rows])
    >>> opt.report().perturbed, opt.report().length > 0.01
    (24, True)
    """

    saved = (*AscentOptimizer.saved, "_open", "_read", "_gain", "_means")

    def __init__(
        self, base: Base, model: nn.Module, validation: Any, total_steps: int, *,
        ascent_fraction: float = 1 / 16, every: int = 2, strength: float = 1.0,
        gate: tuple[float, float] | None = ascent.GATE, reduction: Literal["mean", "sum"] = "mean",
        max_norm: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(base, model, ascent_fraction=ascent_fraction, max_norm=max_norm)
        whole("total_steps", total_steps, ascent.LEAST)
        whole("every", every, 2)
        number("strength", strength, "a positive number", above=0)
        ascent.check_gate(gate)
        if reduction not in ("mean", "sum"):
            raise ValueError(f"reduction: expected 'mean' or 'sum', got {reduction!r}")
        self.total_steps, self.every, self.strength, self.gate = total_steps, every, strength, gate
        self._by_sum = reduction == "sum"
        self._counts_examples |= self._by_sum
        if isinstance(validation, Iterator):
            raise TypeError(f"validation: expected data to read again, such as a list; got {validation!r}")
        self.validation, self._loss_of = validation, None
        self.process_group: Any = getattr(model, "process_group", None)  # of DDP
        self.recorded = validation is None  # by record_validation_loss
        self._first = ascent.FIRST * total_steps  # the step from which on there are ascent steps
        self._new, training = ascent.new_weights(total_steps)
        names = {
            "training": training, "last": 1.0,
            **dict.fromkeys(("rise", "rise_square", "target", "length", "bound"), self._new),
            "square": ascent.NEW_GRADIENT,
            **dict.fromkeys(("validation", "error", "bad"), ascent.NEW_VALIDATION),
        }  # fmt: skip
        self._means = Means(names, self.device, delay=2)
        self._gain = torch.ones((), device=self.device)
        self._open, self._part = False, 1.0  # examples in each part of a reading
        self._read: int | None = None  # the step before which a validation loss came last

    def step_on(self, loss_of: Callable[..., Tensor], *batch: Any, scaler: Any = None) -> Tensor:
        """Take one step on a batch, as in `AscentOptimizer`; `loss_of` is used on validation data too."""
        of_tuple: Any = lambda *parts: loss_of(parts)  # noqa: E731  # pyright: ignore
        self._loss_of = of_tuple if len(batch) == 1 and isinstance(batch[0], tuple | list) else loss_of
        return super().step_on(loss_of, *batch, scaler=scaler)

    def record_validation_loss(self, loss: Any) -> None:
        """Record the mean loss on validation data; with several processes, call it on each of them."""
        self._take_in(losses_of(loss, most=1)[0], torch.full_like(self._gain, math.nan))

    def _take_in(self, value: Tensor, error: Tensor) -> None:
        self._move_to_device()
        value = mean_over_processes(value.to(self._gain), self.process_group)
        self._means.update(validation=value, error=error, bad=~value.isfinite())
        self._read = self.k

    def _begin(self) -> None:
        each = max(1, self.total_steps // _READINGS)
        if self.k % each == 0 and (self.k == 0 or self.k >= self._first - 4 * each):
            self._look_at_numbers()
            if self.validation is not None and (self._open or self.k % (2 * each) == 0):
                *read, self._part = read_loss(self.model, self.validation, self._loss_of, self._by_sum)
                self._take_in(*read)
                if self.k == 0 and self._means.now()["validation"].isnan():
                    raise ValueError("validation: expected a finite loss, got NaN or infinity")
            self._means.send()

    def _look_at_numbers(self) -> None:
        """Check whether the gate is open, and warn, based on the last validation but one.

        Its numbers have arrived, unless the host is two validations ahead of the device: then it waits here,
        and the device is busy. So which steps are perturbed does not depend on the speed of either.
        """
        now = self._means.arrived()
        gap, opening = (float(one) for one in self._gap(now))
        n = {name: float(value) for name, value in now.items()}
        self._open = gap * opening > 0
        begun, half = self.k >= self._first, self.k >= self.total_steps // 2
        self._warn("bad", "validation: a loss that is not finite was ignored", when=n["bad"] > 0)
        self._warn(
            "bound",
            f"the ascent step is cut to its limit, {ascent.LONGEST:g} of the weights' norm, in most steps; "
            "check that both losses are comparable (reduction='sum' if they are sums), or lower strength",
            when=begun and n["bound"] > 0.5,
        )
        self._warn(
            "error",
            f"validation: its loss is known to ± {n['error']:.2g}, more than a third of the gap {gap:.2g}; "
            "hold out more examples",
            when=half and self._open and n["error"] > gap / 3,
        )
        self._warn(
            "floor",
            f"gate: it needs positive losses, got {n['training']:.4g} in training and {n['validation']:.4g} "
            "in validation; for a loss not bounded below by 0 set gate=None",
            when=begun and self.gate is not None and (n["validation"] <= 0 or n["training"] < 0),
        )
        since = "yet" if self._read is None else f"since step {self._read}"
        self._warn(
            "stale",
            f"validation: at step {self.k} no loss was recorded {since}; call record_validation_loss(), or "
            "set opt.validation = None later",
            when=begun
            and (self.recorded or (self._read or 0) < self._first)
            and self.k - (self._read or 0) > _STALE * self.total_steps,
        )
        self._warn(
            "no gap",
            f"no gap in half of the run, so no ascent step yet: validation loss {n['validation']:.4g}, "
            f"training loss {n['training']:.4g}. The network does not overfit, or they differ in kind: both "
            "must be means over examples (or set reduction='sum'), those of micro-batches divided by their "
            "number",
            when=half and gap <= 0 and not self.perturbed,
        )
        self._warn(
            "over",
            f"total_steps: the run continues after its {self.total_steps} steps; the part of the gap stays "
            f"at {self.strength:g}",
            when=self.k >= self.total_steps,
        )

    def _wants(self, k: int) -> bool:
        return self._open and k % self.every == 0 and k >= self._first

    def _awaits_first(self) -> bool:
        return self.k < self._first

    def _gap(self, now: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the gap, and how far the gate is open."""
        gap = now["validation"] - now["training"]
        if self.gate is None:
            return gap, torch.ones_like(gap)
        return gap, ascent.opening(gap, now["validation"], self.gate, torch)

    def _perturbation(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        now, part = self._means.now(), self.strength * min(self.k / (self.total_steps - 1), 1.0)
        gap, opening = self._gap(now)
        target = (part * gap * opening).clamp(min=0)
        length, bound = ascent.gap_length(target, self._gain, n, now["square"], x(), torch)
        self._wanted = {"target": target, "length": length, "bound": bound, "square": n * n}
        return length / n, None

    @torch.no_grad()
    def _learn(self) -> None:
        losses = self._now.losses[Phase.BATCH]
        if not losses:
            self._fail("passes: call opt.record_loss(loss) for each pass, after its backward()")
        loss = (losses[0] if len(losses) == 1 else torch.stack(losses).sum()).reshape(()).to(self._gain)
        loss = loss / self._now.examples[Phase.BATCH] if self._by_sum else loss
        loss = mean_over_processes(loss, self.process_group)
        if self.k == 0 and not self._by_sum:
            times = float(loss / self._means.now()["validation"])  # of an untrained network both are alike
            for count, fix in (
                (len(losses), f"divide the loss of each micro-batch by their number, {len(losses)}"),
                (self._now.examples[Phase.BATCH] / self._part, "set reduction='sum' if it is a batch's sum"),
            ):
                far = abs(math.log(count)) if count > 0 else 0.0
                alike = far > 0.2 and times > 0 and abs(math.log(times / count)) < min(0.25, far / 2)
                text = f"loss: the first training loss is {times:.2g} times the validation loss; {fix}"
                self._warn(fix, text, when=alike)
        if not self._now.perturbed:  # at x
            self._means.update(training=loss, last=loss)
            return
        rise = loss - self._means.now()["last"]
        self._means.update(rise=rise, rise_square=rise * rise, **self._wanted)
        now = self._means.now()
        self._gain *= ascent.gain_factor(now["rise"], now["rise_square"], now["target"], self._new, torch)
        self._gain.clamp_(*ascent.GAIN)

    def _unit(self) -> Any:
        return self._scale() * self._now.examples[Phase.ASCENT] if self._by_sum else super()._unit()

    def _own_state(self) -> dict[str, Any]:
        ended = self.validation is None and not self.recorded  # the reading: its data may be trained on
        return super()._own_state() | {"total_steps": self.total_steps, "ended": ended}

    def _load_own_state(self, state: dict[str, Any]) -> None:
        super()._load_own_state(state)
        if state["ended"] and not self.recorded:
            self.validation = None
        before, now = state["total_steps"], self.total_steps
        text = f"total_steps: the state is of a run of {before} steps, but this one has {now}"
        self._warn("resumed", text, when=before != now)

    def _found(self) -> dict[str, Any]:
        now: dict[str, Any] = self._means.now() | {"total_steps": self.total_steps}
        now["gap"], now["opening"] = self._gap(now)
        names = ("training", "validation", "error", "gap", "opening", "target", "rise", "length", "bound")
        return super()._found() | {name: float(now[name]) for name in (*names, "total_steps")}

    def _why(self) -> str:
        if self.k <= self._first:
            return f"they begin after a third of the {self.total_steps} steps planned"
        now = self._means.now()
        gap, opening = (float(one) for one in self._gap(now))
        if math.isnan(gap):
            return "no validation loss was recorded"
        if gap > 0 and opening == 0:
            return f"the gate is closed, as the gap is {gap / now['validation']:.2g} of the validation loss"
        return "there was no gap at the last validation" if gap <= 0 else "the gate has only just opened"
