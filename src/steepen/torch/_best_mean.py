"""The mean of the weights that validation data choose, for GapSAM; hooks into its step, evaluates the net."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor

from .._tools.check import number
from ._gap_sam import GapSAM
from ._tensors import copied, lists, local, mean_over_processes
from ._validation import read_loss

_SINCE = (
    0.5  # the part of the run from which on the mean is evaluated: earlier, labels that are wrong choose it
)
_READINGS = 50  # over a whole run


class BestMean:
    """A mean of a network's weights, taken where its validation loss is lowest in the second half of a run.

    Create it once, beside the optimizer: it follows its steps. The mean is exponential, plain while there are
    few steps, and counts the buffers of BatchNorm too. It is evaluated every fiftieth of the run, without
    dropout, on the validation data of the optimizer: keep these to the end. Two copies of the weights.

    Parameters
    ----------
    opt : GapSAM
        The optimizer of the run, whose validation data can be read: data or a function, not None.
    beta : float
        The weight of the mean before, in a step.

    Attributes
    ----------
    loss : float
        The lowest validation loss of the mean; inf before the first reading.
    step : int, optional
        The steps that had been taken then.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    >>> x, held = torch.randn(256, 20), torch.randn(500, 20)
    >>> y, held_y = ((part[:, 0] + torch.randn(len(part))).gt(0).long() for part in (x, held))
    >>> opt = GapSAM(torch.optim.AdamW(model.parameters(), lr=1e-2), model, (held, held_y), 100)
    >>> best = BestMean(opt)
    >>> for _ in range(100):
    ...     rows = torch.randint(256, (64,))
    ...     _ = opt.step_on(lambda x, y: torch.nn.functional.cross_entropy(model(x), y), x[rows], y[rows])
    >>> best.load()  # the network has the mean's weights from here on
    >>> 50 <= best.step <= 100
    True
    """

    def __init__(self, opt: GapSAM, beta: float = 0.99) -> None:
        if not isinstance(cast(Any, opt), GapSAM):
            raise TypeError(f"opt: expected a GapSAM, whose validation data choose; got {opt!r}")
        if opt.validation is None:
            raise ValueError(
                "opt: expected validation data or a function, to evaluate the mean on; the losses that "
                "record_validation_loss gets are of the network itself"
            )
        number("beta", beta, "a number above 0 and below 1", above=0, below=1)
        self._opt, self.beta = opt, float(beta)
        self.loss: float = math.inf
        self.step: int | None = None
        self._taken = 0
        self._mean: list[Tensor] = copied(self._now())
        self._best: list[Tensor] = copied(self._now())
        opt.register_step_post_hook(self._after)

    def _now(self) -> list[Tensor]:
        """Return what the mean is of: parameters, and buffers that are not counts; local shards."""
        model = self._opt.model
        every: list[Tensor] = [*model.parameters(), *model.buffers()]
        return local([one.detach() for one in every if one.is_floating_point()])

    @torch.no_grad()
    def _after(self, *_: Any) -> None:
        """Update the mean after a step; evaluate it every fiftieth of the run, in the second half."""
        opt, now = self._opt, self._now()
        self._taken += 1
        self._mean = [mean.to(t.device) for mean, t in zip(self._mean, now, strict=True)]
        weight = 1 - min(self.beta, self._taken / (self._taken + 1))
        lists._foreach_lerp_(self._mean, now, weight)
        each = max(1, opt.total_steps // _READINGS)
        if opt.validation is not None and opt.k >= _SINCE * opt.total_steps and opt.k % each == 0:
            self._evaluate(now)

    def _evaluate(self, now: list[Tensor]) -> None:
        opt, kept = self._opt, copied(now)
        try:
            lists._foreach_copy_(now, self._mean)
            read, *_ = read_loss(opt.model, opt.validation, opt._loss_of, opt._by_sum, dropout=False)  # pyright: ignore
        finally:
            lists._foreach_copy_(now, kept)
        loss = float(mean_over_processes(read, opt.process_group))
        if loss < self.loss:
            self.loss, self.step, self._best = loss, opt.k, copied(self._mean)

    @torch.no_grad()
    def load(self) -> None:
        """Put the weights of the best mean into the network."""
        if self.step is None:
            first = math.ceil(_SINCE * self._opt.total_steps)
            raise RuntimeError(
                f"load(): no mean was evaluated yet; that begins with step {first}, {self._opt.k} were taken"
            )
        lists._foreach_copy_(self._now(), self._best)

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs, beside the optimizer's own state."""
        means = {"mean": copied(self._mean), "best": copied(self._best)}
        return {"taken": self._taken, "loss": self.loss, "step": self.step, **means}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load what `state_dict` returned."""
        self._taken, self.loss, self.step = state["taken"], state["loss"], state["step"]
        now = self._now()
        for own, theirs in ((self._mean, state["mean"]), (self._best, state["best"])):
            if [t.shape for t in theirs] != [t.shape for t in now]:
                raise ValueError("state: expected that of a network of the same shapes")
            lists._foreach_copy_(own, [t.to(mine) for t, mine in zip(theirs, own, strict=True)])
