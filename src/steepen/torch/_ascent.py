"""Three loops: an optimizer that takes its gradient at x + s, around any of `torch.optim`."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from .._tools.check import number
from ._cut import examples, rows_of
from ._joined import Base
from ._passes import Passes, Turn

__all__ = ["AscentOptimizer"]


class AscentOptimizer(Passes):
    """What the optimizers with an ascent step share: `CGD`, `SAM`, `GapSAM`, those of `steepen.torch.paper`.

    A step with an ascent step makes two passes. The first, over the batch or a share of it, gives g at the
    weights x; the second, over the batch, gives g⁺ at x + s with s = c·g. The weights are put back bit for
    bit, and the base takes its step with g⁺, or with g + ν(g⁺ − g). Other steps are the base's own. Step 0
    always makes both passes, so that what can go wrong does so there.

    A subclass says how long the ascent step is (`_perturbation`), and may say which steps have one
    (`_wants`).

    Parameters
    ----------
    base : torch.optim.Optimizer, or a list of these
        The optimizer that takes the steps, such as `SGD` or `AdamW`; or several, each of its own parameters.
    model : Module
        The network. Its buffers, such as BatchNorm's statistics, are left as one pass leaves them.
    ascent_fraction : float
        The part of the batch that g is taken from. A sixteenth makes a step cost 1.06 gradients in the place
        of two, and often does as well.
    when : container of int, optional
        The steps with an ascent step, such as `range(5_000, 10_000)` or `range(0, 10_000, 2)`; all by
        default.
    max_norm : float, optional
        Clip the gradient to this norm before the base takes it.

    Examples
    --------
    >>> from steepen.torch import SAM
    >>> model = torch.nn.Linear(2, 1)
    >>> opt = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=0.05, ascent_fraction=1 / 4)
    >>> for x in opt.passes(torch.ones(8, 2)):
    ...     loss = model(x).square().mean()
    ...     loss.backward()
    ...     opt.record_loss(loss)
    >>> opt.step()
    """

    def __init__(
        self,
        base: Base,
        model: nn.Module,
        *,
        ascent_fraction: float = 1.0,
        when: Container[int] | None = None,
        max_norm: float | None = None,
    ) -> None:
        part = "a part of the batch, above 0 and at most 1"
        number("ascent_fraction", ascent_fraction, part, above=0, below=1 + 1e-12)
        if max_norm is not None:
            number("max_norm", max_norm, "a positive number, or None", above=0)
        if when is not None and not hasattr(when, "__contains__"):
            raise TypeError(
                f"when: expected the steps with an ascent step, such as range(500, 1000); got {when!r}"
            )
        super().__init__(base, model, ascent_fraction)
        self.when, self.max_norm = when, max_norm

    def _wants(self, k: int) -> bool:
        """Say whether step k has an ascent step."""
        return self.when is None or k in self.when

    def _learn(self) -> None:
        """Take note of what the passes of a step have told."""

    def _backward(self, loss: Tensor) -> None:
        """Go backwards from the loss that `step_on` has computed."""
        loss.backward()  # pyright: ignore[reportUnknownMemberType]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; between the passes and their step they are still needed."""
        if self._turn is Turn.DUE and self._scaler is None:
            self._fail("zero_grad() before step(): the passes' gradients would be lost; call step() first")
        super().zero_grad(set_to_none)

    # -- three loops ------------------------------------------------------------------------------------

    def step_on(self, loss_of: Callable[..., Tensor], *batch: Any, scaler: Any = None) -> Tensor:
        """Take one step on a batch: clear, cut, go forwards and backwards as often as needed.

        `loss_of(*batch)` returns the mean loss of a batch, or of a part of one. A `scaler` scales it and
        takes the step; `update` is left to you. Returns the loss at the weights before the step: of the
        batch, or of the ascent step's share of it.
        """
        for part in self.passes(batch, scaler=scaler):
            loss = loss_of(*part)
            _refuse_vector(loss)
            self._backward(loss if scaler is None else scaler.scale(loss))
            self.record_loss(loss)
        told = (self._told[Turn.ASCENT] or self._told[Turn.BATCH])[0]
        self.step(scaler=scaler)
        return told

    def passes(self, *batches: Any, scaler: Any = None) -> Iterator[Any]:
        """Yield what to go forwards and backwards on, for a loop that owns the backward pass.

        For each part: compute the loss, go backwards, tell it with `record_loss(loss)`; after the loop call
        `step()`. First comes the ascent step's part, if this step has an ascent step, then the batch. Several
        batches are micro-batches: divide their losses by their number, as always; the ascent step's share is
        taken from the first of them. Gradients are cleared for you, and the weights are at x again when the
        loop ends. If the losses carry the scale of a `GradScaler`, pass it.
        """
        self = getattr(self, "_optimizer", self)  # Lightning's wrapper has our methods, but not our state
        if not batches:
            raise TypeError("passes: expected a batch, or the micro-batches of a step; got none")
        counts = [examples(batch) for batch in batches] if self._counts_rows else [0] * len(batches)
        firsts = len(batches) if self.ascent_fraction == 1 else 1
        for i, turn in self._turns(firsts, len(batches), scaler):
            if turn is Turn.ASCENT and self.ascent_fraction < 1:
                yield self._cut(batches[i], sum(counts))
            else:
                self._rows[turn] += counts[i]
                yield batches[i]

    def step(self, closure: Callable[[], Any] | None = None, *, scaler: Any = None) -> Any:  # pyright: ignore
        """Take the step that `passes` has prepared, or all of one with a closure.

        The closure computes the loss of one batch, calls `backward` and returns the loss; with a share it
        asks for the part of the batch to use, `opt.part(batch)`. It is called once or twice. Where it scales
        its loss, pass the `scaler`, which takes the step; `update` is left to you. Returns the loss at the
        weights before the step.
        """
        loss = None
        if self._turn is Turn.BETWEEN:
            if closure is None:
                raise RuntimeError(
                    "step(): no gradient was taken through this optimizer. Use step_on(loss_of, *batch), "
                    "step(closure), or `for part in opt.passes(batch): ...` before step(); for a distributed "
                    "checkpoint save the state of opt.base, and opt.own beside it"
                )
            self._refuse_gradients()
            for _, turn in self._turns(1, 1, scaler):
                told = self._call(closure, turn)
                loss = told if loss is None else loss
        elif closure is not None:  # of a library that runs the last pass, or nothing, inside step()
            with torch.enable_grad():
                loss = closure()
        if self._turn is Turn.ASCENT:
            self._fail("step(): the passes over the batch are still to come; call step() after the loop")
        if self._turn is Turn.BATCH:
            self._scaler = None  # a library that runs the last pass itself has unscaled by now
            self._finish_passes()
        if scaler is None:
            self._take(loss)
        else:
            if self.max_norm is not None:
                scaler.unscale_(self)
            scaler.step(self)
            self._clear()  # the scaler may have skipped the step
        self._know()
        return loss

    # torch would call an optimizer's hooks around `step`, which a scaler calls once more, or not at all
    step.__dict__["hooked"] = True

    def _call(self, closure: Callable[[], Any], turn: Turn) -> Any:
        before = self._rows[turn]
        with torch.enable_grad():
            loss = closure()
        if self._counts_rows and self._rows[turn] == before:
            self._fail("step: the closure must ask for its part of the batch: x, y = opt.part((x, y))")
        if loss is not None:
            self.record_loss(loss)
        return loss

    @Optimizer.profile_hook_step
    def _take(self, loss: Any) -> None:
        """Take the step, with the hooks of torch's optimizers around it."""
        if self.max_norm is not None:
            clip_grad_norm_(self._params(), self.max_norm)
        self._learn()
        self.gradients += self._cost
        self.perturbed += self._had_ascent
        self.k += 1
        self._clear()
        self.base.step()

    def part(self, batch: Any) -> Any:
        """Return what a closure is to use of a batch in this pass: the ascent step's share, or all of it."""
        if not self._counts_rows or self._turn is Turn.BETWEEN:
            return batch
        n = examples(batch)
        if self._turn is Turn.ASCENT:
            return self._cut(batch, n)
        self._rows[self._turn] += n
        return batch

    def record_loss(self, loss: Any) -> None:
        """Tell the loss of a pass: what was given to `backward`, before a scaler's scale."""
        _refuse_vector(loss)
        if self._turn in self._told:
            most = self._micro if self.ascent_fraction == 1 or self._turn is Turn.BATCH else 1
            if len(self._told[self._turn]) == most:
                self._fail(
                    "record_loss: expected one loss a pass, got two; a step is by one loss, such as the sum"
                )
            self._told[self._turn].append(loss.detach().clone())  # a graph may write over it in the next pass

    def _cut(self, batch: Any, total: int) -> Any:
        n, wanted = examples(batch), round(self.ascent_fraction * total)
        rows = min(max(wanted, 2), n)  # BatchNorm needs two
        if wanted < 2 and n > 2:
            self._warn(
                "part",
                f"ascent_fraction: {self.ascent_fraction:g} of {total} examples is {wanted}; it takes {rows}",
            )
        self._rows[Turn.ASCENT] += rows
        return rows_of(batch, 0, rows)

    def _found(self) -> dict[str, Any]:
        length = {} if self._last is None else {"length": abs(float(self._last[0] * self._last[1]))}
        return length | ({} if self.perturbed or not self.k else {"reason": self._why()})

    def _why(self) -> str:
        """Say why no step had an ascent step."""
        return f"`when` has none of the first {self.k} steps"


def _refuse_vector(loss: Any) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        came = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
        raise ValueError(f"loss: expected one number in a tensor, the mean over the batch; got {came}")
