"""Base class of the optimizers, called by training loops: moves and restores weights, sets p.grad."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from .._tools.check import is_number, number
from ._batch import examples, rows_of
from ._report import Report
from ._step import Phase, Step, first_gradient
from ._tensors import (
    buffers_of,
    copied,
    gradients_of,
    grads_of,
    lists,
    local,
    move,
    norm,
    random_of,
    unchanged,
    values_of,
)
from ._wrapper import Base, Wrapper

When = Container[int] | None
_begun: weakref.WeakSet[AscentOptimizer] = weakref.WeakSet()  # those that have begun a step


class AscentOptimizer(Wrapper):
    """The base class of the optimizers with an ascent step: `CGD`, `EGR`, `SAM`, `MSAM`, `GapSAM`.

    A perturbed step needs two passes. The first, over the batch or a part of it, computes g at the weights x;
    the second, over the batch, computes g⁺ at x + s with s = c·g. The weights are restored bit for bit, and
    the base takes its step with d = g + ν(g⁺ − g), which for ν = 1 is g⁺. Other steps are those of the base.
    Step 0 always makes both passes, so that errors surface there.

    Parameters
    ----------
    base : torch.optim.Optimizer, or a list of these
        The optimizer that takes the steps; or several, each with its own parameters.
    model : Module
        The network. Its buffers, such as BatchNorm's statistics, are left as one pass leaves them.
    ascent_fraction : float
        The part of the batch that g is computed on. With a sixteenth, a step costs 1.06 gradients instead
        of two, and often works as well.
    when : container of int, optional
        The steps with an ascent step, such as `range(5_000, 10_000)`; all by default.
    max_norm : float, optional
        Clip the gradient to this norm before the base's step.

    Examples
    --------
    >>> from steepen.torch import SAM
    >>> model = torch.nn.Linear(2, 1)
    >>> opt = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=0.05, ascent_fraction=1 / 4)
    >>> loss = opt.step_on(lambda x: model(x).square().mean(), torch.ones(8, 2))
    """

    needs_ascent_pass = True  # whether a pass at x comes before the pass over the batch

    def __init__(
        self, base: Base, model: nn.Module, *,
        ascent_fraction: float = 1.0, when: When = None, max_norm: float | None = None,
    ) -> None:  # fmt: skip
        fraction = "a part of the batch, above 0 and at most 1"
        number("ascent_fraction", ascent_fraction, fraction, above=0, below=1 + 1e-12)
        if max_norm is not None:
            number("max_norm", max_norm, "a positive number, or None", above=0)
        if isinstance(when, str) or (when is not None and not hasattr(when, "__contains__")):
            raise TypeError(f"when: expected a container of steps, such as range(500, 1000); got {when!r}")
        super().__init__(base, model)
        self.ascent_fraction, self.when, self.max_norm = float(ascent_fraction), when, max_norm
        self._counts_examples = self.ascent_fraction < 1  # whether a pass must say how many it is over
        self._now = Step()
        self._last: tuple[Tensor, Tensor] | None = None  # c and ‖g‖ of the last ascent step
        self._highest_rate = 0.0
        self._seen = first_gradient(self._params())  # of our own passes, or older than this optimizer

    @property
    def ascending(self) -> bool:
        """Whether the current pass is the one at x, for the ascent step."""
        return self._now.phase is Phase.ASCENT

    @property
    def moved(self) -> bool:
        """Whether the weights are at x + s."""
        return self._now.moved

    # -- for subclasses to override ---------------------------------------------------------------------

    def _wants(self, k: int) -> bool:
        """Return whether step k has an ascent step."""
        return self.when is None or k in self.when

    def _perturbation(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        """Return c, and ν if the step needs it, from ‖g‖ and a function that computes ‖x‖."""
        raise NotImplementedError

    def _ascent(self) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Return the parameters that the ascent step moves, its direction and the direction's norm."""
        params = self._reached("ascent step's pass")
        grads = grads_of(params)
        for shape in (tuple(grad.shape) for grad in grads if grad.is_sparse):
            self._fail(f"base: expected dense gradients, got a sparse one of {shape}; set sparse=False")
        return params, grads, norm(grads)

    def _weight(self, nu: Tensor, after: Tensor, change: Tensor) -> Tensor:
        """Return ν, which may depend on ‖g⁺‖ and ‖g⁺ − g‖."""
        return nu

    def _ascent_passes(self, micro_batches: int) -> int:
        """Return how many passes at x come before those over the batch."""
        return 1 if self.ascent_fraction < 1 else micro_batches if self.needs_ascent_pass else 0

    def _ascent_cost(self) -> float:
        """Return the cost of the ascent step in gradients."""
        now = self._now
        if not now.passes[Phase.ASCENT]:
            return 0.0
        full = self.ascent_fraction == 1
        return 1.0 if full else now.examples[Phase.ASCENT] / now.examples[Phase.BATCH]

    def _begin(self) -> None:
        """Prepare for the passes of a step."""

    def _learn(self) -> None:
        """Update the running estimates from the passes of a step."""

    def _awaits_first(self) -> bool:
        """Return whether the first ascent step is planned and yet to come."""
        return self.when is not None and not self.perturbed

    def _why(self) -> str:
        """Return the reason why no step had an ascent step."""
        return f"`when` contains none of the first {self.k} steps"

    # -- three loops ------------------------------------------------------------------------------------

    def step_on(self, loss_of: Callable[..., Tensor], *batch: Any, scaler: Any = None) -> Tensor:
        """Take one step on a batch: clear the gradients, run all forward and backward passes, and step.

        `loss_of(*batch)` returns the mean loss of a batch, or of a part of one. If a `scaler` is given, it
        takes the step; call `update` yourself. Returns the loss of the whole batch before the step: at x, or
        at x + s if the ascent step used a part of it.
        """
        for part in self.passes(batch, scaler=scaler):
            self._now.whole = True
            with torch.enable_grad():  # an interrupt within torch.no_grad may leave it on
                loss = loss_of(*part)
                self.record_loss(loss)
                loss = self.penalised(loss)
                (loss if scaler is None else scaler.scale(loss)).backward()  # pyright: ignore
        first, batch_losses = (self._now.losses[phase] for phase in (Phase.ASCENT, Phase.BATCH))
        loss = (first if first and self.ascent_fraction == 1 else batch_losses)[0]
        self.step() if scaler is None else self.step(scaler=scaler)  # Lightning's knows no scaler
        return loss

    def passes(self, *batches: Any, scaler: Any = None) -> Iterator[Any]:
        """Yield the batch, or a part of it, for each pass, for a loop that calls `backward` itself.

        For each part: compute the loss, call `backward`, then `record_loss(loss)`; after the loop, when the
        weights are back at x, call `step()`. Gradients are cleared for you. Several batches are
        micro-batches: divide their losses by their number, as usual; with `ascent_fraction` < 1 the ascent
        step uses a part of the first only. If the losses are scaled by a `GradScaler`, pass it.
        """
        self = getattr(self, "_optimizer", self)  # Lightning's wrapper has our methods, but not our state
        if not batches:
            raise TypeError("passes: expected a batch, or the micro-batches of a step; got none")
        total = sum(map(examples, batches)) if self._counts_examples and len(batches) > 1 else 0
        for i in self._run_passes(len(batches), scaler):
            self._now.total = total
            yield self.part(batches[i])

    def step(self, closure: Callable[[], Any] | None = None, *, scaler: Any = None) -> Any:  # pyright: ignore
        """Take the step that `passes` has prepared, or a whole step with a closure.

        The closure, called once or twice, computes the loss of one batch (of `opt.part(batch)` if
        `ascent_fraction` < 1), calls `backward` and returns the loss. If it scales its loss, pass the
        `scaler`, which takes the step. Returns the loss of the whole batch, as `step_on` does.
        """
        loss = None
        if self._now.phase is Phase.BETWEEN:
            loss = self._run_closure(closure, scaler)
        elif closure is not None:  # of a library that runs the last pass, or nothing, inside step()
            with torch.enable_grad():
                loss = closure()
        if self._now.phase is Phase.ASCENT:
            self._fail("step(): the passes over the batch are not done yet; call step() after the loop")
        if self._now.phase is Phase.BATCH:
            self._now.scaler = None  # a library that runs the last pass itself has unscaled by now
            self._finish_passes()
        if self._now.phase is Phase.DUE:
            self._now.phase = Phase.TAKING
        if scaler is None:
            self._take(loss)
        else:
            if self.max_norm is not None:
                scaler.unscale_(self)
            scaler.step(self)
            self._now = Step()  # the scaler may have skipped the step
        self._seen = first_gradient(self._params())
        return loss

    # torch would call an optimizer's hooks around `step`, which a scaler calls once more, or not at all
    step.__dict__["hooked"] = True

    @Optimizer.profile_hook_step
    def _take(self, loss: Any) -> None:
        """Take the step, with the hooks of torch's optimizers around it."""
        if all(p.grad is None for p in self._params()):
            self._fail("step(): the passes' gradients are gone; call zero_grad() after step(), not before")
        if self.max_norm is not None:
            clip_grad_norm_(self._params(), self.max_norm)
        self._learn()
        self.base.step()
        now = self._now
        if now.perturbed or self.k == 0:
            self.gradients += self._ascent_cost()
        self.gradients += 1
        self.perturbed += now.perturbed
        self.k += 1
        self._now = Step()

    def part(self, batch: Any) -> Any:
        """Return the examples of a batch that a closure should use in this pass: a part of them, or all."""
        now = self._now
        if now.phase is Phase.BETWEEN or not self._counts_examples:
            return batch
        n = rows = examples(batch)
        if not n:
            self._fail("batch: expected at least one example, got none")
        if self.ascending:
            total = now.total or n
            wanted = round(self.ascent_fraction * total)
            rows = min(max(wanted, 2), n)  # BatchNorm needs two
            few = f"ascent_fraction: {self.ascent_fraction:g} of {total} examples is {wanted}; using {rows}"
            self._warn("part", few, when=wanted < 2 < n)
        now.examples[now.phase] += rows
        return batch if rows == n else rows_of(batch, 0, rows, n)

    def penalised(self, loss: Tensor) -> Tensor:
        """Return the loss to call `backward` on: only with exact products, of `EGR`, is it another one.

        Its value is that of the loss. With exact products its gradient is g + 2λHg, where H and g are of the
        loss that is passed: that of a micro-batch already divided by their number, and unscaled.
        """
        return loss

    def record_loss(self, loss: Any) -> None:
        """Record the loss of a pass: the one that `backward` was called on, before scaling by a scaler."""
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            came = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
            raise ValueError(f"loss: expected one number in a tensor, the mean over the batch; got {came}")
        now = self._now
        if now.phase in now.passes:
            if len(now.losses[now.phase]) == now.passes[now.phase]:
                self._fail("record_loss: expected one loss per pass, got two; add them up to a single loss")
            now.losses[now.phase].append(loss.detach().clone())  # a graph may write over it in the next pass

    # -- one step ---------------------------------------------------------------------------------------

    def _run_passes(self, micro_batches: int, scaler: Any) -> Iterator[int]:
        """Yield the index of the batch for each pass of a step: for the ascent step, then over the batch."""
        if (last := self._now).phase is not Phase.BETWEEN:
            if last.phase is Phase.DUE and not last.whole and scaler is None and last.scaler is None:
                raise RuntimeError(
                    "passes() before step(): call step() for the previous passes first, or restore() to drop "
                    "them. With Accelerate's accumulate(), pass all micro-batches of a step to passes()"
                )
            self.restore()  # the scaler has skipped a step, or it was left half-way, by an interrupt
        firsts = self._ascent_passes(micro_batches)
        passes = {Phase.ASCENT: firsts, Phase.BATCH: micro_batches}
        self._now = now = Step(passes, scaler, self._in_step())
        self._check_groups()
        self._move_to_device()
        self._look_at_rate()
        self._begin()
        now.perturbed = self._wants(self.k)
        try:
            self.zero_grad()
            if now.perturbed or self.k == 0:
                own = set(self._params())  # a step leaves the trace of one pass over the batch
                others = [p for p in self.model.parameters() if p not in own]
                now.undo += [random_of(self.device), gradients_of(others)]
                if self.ascent_fraction < 1:
                    now.undo.append(buffers_of(self.model))
                now.phase = Phase.ASCENT
                yield from self._while_on(now, firsts)
                self._perturb(now)
            now.phase = Phase.BATCH
            yield from self._while_on(now, micro_batches)
            if now.phase is Phase.BATCH:
                self._finish_passes()
        finally:
            if self._now is now and now.phase is not Phase.DUE:  # else it was discarded, or is complete
                self.restore()

    def _while_on(self, now: Step, passes: int) -> Iterator[int]:
        """Yield the passes of a phase, while no other step has begun."""
        for i in range(passes):
            yield i
            if self._now is not now:
                raise RuntimeError("passes(): restore() or another step has ended this one; leave its loop")

    def _run_closure(self, closure: Callable[[], Any] | None, scaler: Any) -> Any:
        """Run all passes of a step by a closure; return the loss of the whole batch."""
        if closure is None:
            raise RuntimeError(
                "step(): no gradient was computed through this optimizer. Use step_on(loss_of, *batch), "
                "step(closure), or `for part in opt.passes(batch): ...` before step(); for a distributed "
                "checkpoint save opt.base and opt.own"
            )
        (seen, before), (first, version) = self._seen, first_gradient(self._params())
        new = (grad := first()) is not None and (grad is not seen() or version != before)
        if new and bool(norm(grads_of([p for p in self._params() if p.grad is not None]))):
            raise RuntimeError(
                "step(closure): there are gradients from a backward() outside of the closure, which would be "
                "dropped. Pass all micro-batches of a step to passes(); in Lightning's automatic optimisation"
                " add steepen.integrations.lightning.AscentCallback(). If unwanted, call zero_grad() first"
            )
        losses: list[Any] = []
        for _ in self._run_passes(1, scaler):
            self._now.whole = True
            with torch.enable_grad():
                losses.append(closure())
            if self._counts_examples and not self._now.examples[self._now.phase]:
                self._fail("step: the closure must select its part of the batch: x, y = opt.part((x, y))")
            if losses[-1] is not None:
                self.record_loss(losses[-1])
        return losses[-1 if self.ascent_fraction < 1 else 0]

    @torch.no_grad()
    def _perturb(self, now: Step) -> None:
        """Move the weights to x + s."""
        params, along, now.gnorm = self._ascent()
        now.undo_all()
        if self.needs_ascent_pass and self.ascent_fraction == 1:
            now.undo.append(buffers_of(self.model))
        if not params:
            return
        unit = self._unit()
        n = now.gnorm / unit
        c, nu = self._perturbation(n, lambda: norm(params))
        c = torch.where(n.isfinite(), c, 0.0).nan_to_num(0.0, 0.0, 0.0)  # else there is no direction
        self._last = c, n
        if now.perturbed:
            now.params, now.nu, now.g = params, nu, [] if nu is None else copied(local(grads_of(params)))
            x = local(params)
            now.undo += [torch.clear_autocast_cache, values_of(x)]  # before the move: it may be interrupted
            now.moved = True
            masked = now.scaler is None  # a scaler skips a step that is not finite
            move(x, local(along), c / unit, masked=masked)
        for p in self._params():
            p.grad = None
        torch.clear_autocast_cache()  # it holds the weights before the move

    def _finish_passes(self) -> None:
        """Restore the weights, and replace the gradient by the direction of the step."""
        self._now.undo_all()
        for other, same in self._now.others:
            if not same():
                self._fail(
                    f"passes(): they changed gradients of a {other} that is in the middle of a step; take "
                    f"that step first, or wrap both optimizers: {type(self).__name__}([a, b], model)"
                )
        self._reached("pass over the batch")
        if self._now.nu is not None:
            self._mix(self._now.params, self._now.g, self._now.nu)
        self._now.phase = Phase.DUE

    @torch.no_grad()
    def _mix(self, params: Sequence[Tensor], g: Sequence[Tensor], nu: Tensor) -> None:
        """Replace g⁺, the gradient, by d = g + ν(g⁺ − g)."""
        known = set(params)
        for p in params:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        grads = grads_of(params)
        plus, after = local(grads), norm(grads)
        lists._foreach_sub_(plus, g)  # before ν: the difference is small, and ν may be large
        nu = self._weight(nu, after, norm(grads))
        lists._foreach_mul_(plus, nu)
        lists._foreach_add_(plus, g)
        for p in self._params():  # that only the pass over the batch came by: their g is 0
            if p.grad is not None and p not in known:
                p.grad.mul_(nu)

    def restore(self) -> None:
        """Discard the step in progress, if there is one, and restore the weights bit for bit."""
        self._now.undo_all()
        self._now = Step()
        self._seen = first_gradient(self._params())

    def _unit(self) -> Any:
        """Return the divisor for the loss of the ascent step's pass, which may be that of a micro-batch."""
        return self._scale() / self._now.passes[Phase.BATCH] if self.ascent_fraction < 1 else self._scale()

    def _scale(self) -> Any:
        scaler = self._now.scaler
        return 1.0 if scaler is None else scaler.scale(torch.ones((), device=self.device))

    # -- errors and reports -----------------------------------------------------------------------------

    def _reached(self, where: str) -> list[Tensor]:
        """Return the parameters with a gradient."""
        params = [p for p in self._params() if p.grad is not None]
        if not params:
            one = f"the {where} produced no gradient: call backward() on its loss"
            self._fail(f"{one}; for two optimizers in a step write {type(self).__name__}([a, b], model)")
        return params

    def _in_step(self) -> list[tuple[str, Callable[[], bool]]]:
        """Return our other optimizers in the middle of a step, and whether their gradients are unchanged."""
        _begun.add(self)
        return [
            (type(other).__name__, unchanged(other._params()))
            for other in _begun
            if other is not self and other._now.phase is not Phase.BETWEEN and other._now.scaler is None
        ]

    def _look_at_rate(self) -> None:
        """Warn of a learning rate near 0 before the first ascent step: the run may end before it."""
        if not self._awaits_first():
            return
        rates = [group["lr"] for group in self.param_groups if is_number(group.get("lr"))]
        self._highest_rate = max([self._highest_rate, *rates])
        if max(rates, default=0.0) < 0.01 * self._highest_rate:
            few = f"at step {self.k} the learning rate is below a hundredth of its maximum, but there was no"
            self._warn("rate", f"{few} ascent step yet: {self._why()}; check that the run is that long")

    @staticmethod
    @atexit.register
    def _look_back() -> None:
        """Warn of runs that ended before their first ascent step: a rate that stays high tells nothing."""
        for one in _begun:
            text = f"the run has ended after {one.k} steps, without an ascent step: {one._why()}"
            one._warn("rate", text, when=one.k > 0 and one._awaits_first())

    def _fail(self, text: str) -> NoReturn:
        self.restore()
        raise RuntimeError(text)

    def _load_own_state(self, state: dict[str, Any]) -> None:
        self.restore()
        super()._load_own_state(state)

    def report(self) -> Report:
        """Return statistics of the ascent step so far; prints as a table. Synchronises with the device."""
        return Report(steps=self.k, perturbed=self.perturbed, gradients=self.gradients, **self._found())

    def _found(self) -> dict[str, Any]:
        """Return the other fields of the report."""
        length = {} if self._last is None else {"length": abs(float(self._last[0] * self._last[1]))}
        return length | ({} if self.perturbed or not self.k else {"reason": self._why()})
