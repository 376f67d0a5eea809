"""A wrapper around any `torch.optim` optimizer that takes the gradient at x + s, for three kinds of loop."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from .._tools.check import number
from ._batch import examples, rows_of
from ._means import Means
from ._report import Report
from ._tensors import buffers_of, copied, gradients_of, lists, local, norm, random_of
from ._wrapper import Base, Wrapper

When = Container[int] | None
_under_way: weakref.WeakKeyDictionary[nn.Module, weakref.ref[AscentOptimizer]] = weakref.WeakKeyDictionary()


class Turn(Enum):
    """The phase of a step."""

    BETWEEN = "between two steps"
    ASCENT = "a pass at x, for the ascent step"
    BATCH = "the passes over the batch, at x + s where there is an ascent step"
    DUE = "all passes are made, and step() is due"


class AscentOptimizer(Wrapper):
    """The base class of the optimizers with an ascent step: `CGD`, `SAM`, `GapSAM`, `steepen.torch.paper`.

    A perturbed step needs two passes. The first, over the batch or a part of it, computes g at the weights x;
    the second, over the batch, computes g⁺ at x + s with s = c·g. The weights are restored bit for bit, and
    the base takes its step with g⁺, or with g + ν(g⁺ − g). Other steps are plain steps of the base. Step 0
    always makes both passes, so that errors surface there. A subclass defines the length of the ascent step
    (`_perturbation`).

    Parameters
    ----------
    base : torch.optim.Optimizer, or a list of these
        The optimizer that takes the steps, such as `SGD` or `AdamW`; or several, each with own parameters.
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
        self,
        base: Base,
        model: nn.Module,
        *,
        ascent_fraction: float = 1.0,
        when: When = None,
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
        super().__init__(base, model)
        self.ascent_fraction, self.when, self.max_norm = float(ascent_fraction), when, max_norm
        self._counts_rows = self.ascent_fraction < 1  # whether a pass must say how many examples it is over
        self._x: list[
            Tensor
        ] = []  # copies of the weights, and of g where ν needs it, kept between ascent steps
        self._g: list[Tensor] = []
        self._last: tuple[Tensor, Tensor] | None = None  # c and ‖g‖ of the last ascent step
        self._place = self.device
        self._left: tuple[Any, int] = (lambda: None, 0)  # the first gradient that is known, and its version
        self._clear()
        self._know()

    def _clear(self) -> None:
        self._turn = Turn.BETWEEN
        self._told: dict[Turn, list[Tensor]] = {Turn.ASCENT: [], Turn.BATCH: []}
        self._rows: dict[Turn, int] = {Turn.ASCENT: 0, Turn.BATCH: 0}
        self._micro = 1
        self._scaler: Any = None
        self._at: list[Tensor] = []  # the parameters that are at x + s
        self._nu: Tensor | None = None
        self._undo: list[Callable[[], None]] = []

    @property
    def ascending(self) -> bool:
        """Whether the current pass is the one at x, for the ascent step."""
        return self._turn is Turn.ASCENT

    @property
    def moved(self) -> bool:
        """Whether the weights are at x + s."""
        return bool(self._at)

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
        for grad in grads:
            if grad.is_sparse:
                self._fail(
                    f"base: expected dense gradients, got a sparse one of shape {tuple(grad.shape)}; create "
                    "the embedding with sparse=False"
                )
        return params, grads, norm(grads)

    def _combine(self, params: Sequence[Tensor], nu: Tensor) -> None:
        """Replace g⁺ by d, if the step needs both gradients."""

    def _begin(self) -> None:
        """Prepare for the passes of a step."""

    def _learn(self) -> None:
        """Update the running estimates from the passes of a step."""

    # -- three loops ------------------------------------------------------------------------------------

    def step_on(self, loss_of: Callable[..., Tensor], *batch: Any, scaler: Any = None) -> Tensor:
        """Take one step on a batch: clear the gradients, run all forward and backward passes, and step.

        `loss_of(*batch)` returns the mean loss of a batch, or of a part of one. If a `scaler` is given, it
        takes the step; call `update` yourself. Returns the loss of the first pass, before the step.
        """
        for part in self.passes(batch, scaler=scaler):
            loss = loss_of(*part)
            self.record_loss(loss)
            (loss if scaler is None else scaler.scale(loss)).backward()  # pyright: ignore
        told = (self._told[Turn.ASCENT] or self._told[Turn.BATCH])[0]
        self.step(scaler=scaler)
        return told

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
        total = sum(map(examples, batches)) if self._counts_rows else 0
        for i in self._turns(len(batches) if self.ascent_fraction == 1 else 1, len(batches), scaler):
            yield self._part(batches[i], total)

    def step(self, closure: Callable[[], Any] | None = None, *, scaler: Any = None) -> Any:  # pyright: ignore
        """Take the step that `passes` has prepared, or a whole step with a closure.

        The closure, called once or twice, computes the loss of one batch (of `opt.part(batch)` if
        `ascent_fraction` < 1), calls `backward` and returns the loss. If it scales its loss, pass the
        `scaler`, which takes the step. Returns the loss at the weights before the step.
        """
        loss = None
        if self._turn is Turn.BETWEEN:
            if closure is None:
                raise RuntimeError(
                    "step(): no gradient was computed through this optimizer. Use step_on(loss_of, *batch), "
                    "step(closure), or `for part in opt.passes(batch): ...` before step(); for a distributed "
                    "checkpoint save the states of both opt.base and opt.own"
                )
            self._refuse_gradients()
            for _ in self._turns(1, 1, scaler):
                before = self._rows[self._turn]
                with torch.enable_grad():
                    told = closure()
                if self._counts_rows and self._rows[self._turn] == before:
                    self._fail("step: the closure must select its part of the batch: x, y = opt.part((x, y))")
                if told is not None:
                    self.record_loss(told)
                loss = told if loss is None else loss
        elif closure is not None:  # of a library that runs the last pass, or nothing, inside step()
            with torch.enable_grad():
                loss = closure()
        if self._turn is Turn.ASCENT:
            self._fail("step(): the passes over the batch are not done yet; call step() after the loop")
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

    @Optimizer.profile_hook_step
    def _take(self, loss: Any) -> None:
        """Take the step, with the hooks of torch's optimizers around it."""
        if self.max_norm is not None:
            clip_grad_norm_(self._params(), self.max_norm)
        self._learn()
        if self.needs_ascent_pass and (self._had_ascent or self.k == 0):
            full = self.ascent_fraction == 1
            self.gradients += 1.0 if full else self._rows[Turn.ASCENT] / self._rows[Turn.BATCH]
        self.gradients += 1
        self.perturbed += self._had_ascent
        self.k += 1
        self._clear()
        self.base.step()

    def part(self, batch: Any) -> Any:
        """Return the examples of a batch that a closure should use in this pass: a part of them, or all."""
        return batch if self._turn is Turn.BETWEEN else self._part(batch)

    def _part(self, batch: Any, total: int = 0) -> Any:
        """Cut a batch for this pass and count its examples; `total` is of all micro-batches of the step."""
        if not self._counts_rows:
            return batch
        n = rows = examples(batch)
        if self._turn is Turn.ASCENT:
            wanted = round(self.ascent_fraction * (total or n))
            rows = min(max(wanted, 2), n)  # BatchNorm needs two
            if wanted < 2 < n:
                few = f"{self.ascent_fraction:g} of {total or n} examples is {wanted}; using {rows}"
                self._warn("part", f"ascent_fraction: {few}")
        self._rows[self._turn] += rows
        return rows_of(batch, 0, rows)

    def record_loss(self, loss: Any) -> None:
        """Record the loss of a pass: the one that `backward` was called on, before scaling by a scaler."""
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            came = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
            raise ValueError(f"loss: expected one number in a tensor, the mean over the batch; got {came}")
        if self._turn in self._told:
            most = self._micro if self.ascent_fraction == 1 or self._turn is Turn.BATCH else 1
            if len(self._told[self._turn]) == most:
                self._fail("record_loss: expected one loss per pass, got two; add them up to a single loss")
            self._told[self._turn].append(loss.detach().clone())  # a graph may write over it in the next pass

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; an error between the passes and their step, which still needs them."""
        if self._turn is Turn.DUE and self._scaler is None:
            self._fail("zero_grad() before step(): the passes' gradients would be lost; call step() first")
        super().zero_grad(set_to_none)

    # -- one step ---------------------------------------------------------------------------------------

    def _turns(self, firsts: int, batches: int, scaler: Any) -> Iterator[int]:
        """Yield the index of the batch for each pass of a step: for the ascent step, then over the batch."""
        if self._turn is not Turn.BETWEEN and scaler is None and self._scaler is None:
            raise RuntimeError("passes() before step(): call step() for the previous passes first")
        self.restore()
        self._refuse_other()
        self._scaler, self._micro = scaler, batches
        self._step = step = object()  # a generator that is closed late must not end a later step
        self._follow()
        self._begin()
        self._had_ascent = self._wants(self.k)
        ascends = self._had_ascent or self.k == 0
        if not ascends:
            self._x = self._g = []
        try:
            self.zero_grad()
            if ascends:
                if self.needs_ascent_pass:  # a step leaves the trace of one pass over the batch
                    own = set(self._params())
                    others = [p for p in self.model.parameters() if p not in own]
                    self._undo += [random_of(self.device), gradients_of(others)]
                if self.ascent_fraction < 1:
                    self._undo.append(buffers_of(self.model))
                self._turn = Turn.ASCENT
                yield from range(firsts if self.needs_ascent_pass else 0)
                self._perturb()
            self._turn = Turn.BATCH
            yield from range(batches)
            if self._turn is Turn.BATCH:
                self._finish_passes()
        finally:
            if self._step is step and self._turn is not Turn.DUE:
                self.restore()

    @torch.no_grad()
    def _perturb(self) -> None:
        """Move the weights to x + s."""
        params, along, self._n = self._ascent()
        while self._undo:
            self._undo.pop()()
        if self.needs_ascent_pass and self.ascent_fraction == 1:
            self._undo.append(buffers_of(self.model))
        if not params:
            return
        unit = self._unit() if self.needs_ascent_pass else 1.0
        n = self._n / unit
        c, nu = self._perturbation(n, lambda: norm(params))
        c = c.nan_to_num(0.0, 0.0, 0.0)  # where g is 0 or not finite there is no direction
        self._last = c, n
        if self._had_ascent:
            x, s = local(params), local(along)
            self._at, self._nu, self._x = params, nu, copied(x, self._x)
            self._g = [] if nu is None else copied(local(grads_of(params)), self._g)
            if self.needs_ascent_pass:
                lists._foreach_mul_(s, c * (self._up / unit))
            else:  # a direction of the base's
                s = lists._foreach_mul(s, c * (self._up / unit))
            lists._foreach_add_(x, s)
        if self.needs_ascent_pass:
            for p in self._params():
                p.grad = None
        torch.clear_autocast_cache()  # it holds the weights before the move

    def _finish_passes(self) -> None:
        """Restore the weights, and replace the gradient by the direction of the step."""
        params, nu = self._at, self._nu
        self._back()
        self._reached("pass over the batch")
        if nu is not None:
            self._combine(params, nu)
        self._turn = Turn.DUE

    def restore(self) -> None:
        """Discard the step in progress, if there is one, and restore the weights bit for bit."""
        self._back()
        self._clear()
        self._know()

    @torch.no_grad()
    def _back(self) -> None:
        """Restore the weights bit for bit, and all other state that the passes must not change."""
        if self._at:
            lists._foreach_copy_(local(self._at), self._x)
            torch.clear_autocast_cache()
        self._at = []
        while self._undo:
            self._undo.pop()()

    def _follow(self) -> None:
        """Move our own tensors to the device of the weights: the network may have been moved."""
        if self._place != self.device:
            self._place = self.device
            for name, value in list(vars(self).items()):
                if isinstance(value, Tensor | Means):
                    setattr(self, name, value.to(self.device))

    def _unit(self) -> Any:
        """Return the divisor for the loss of the ascent step's pass, which may be that of a micro-batch."""
        return self._scale() / self._micro if self.ascent_fraction < 1 else self._scale()

    def _scale(self) -> Any:
        return 1.0 if self._scaler is None else self._scaler.scale(torch.ones((), device=self.device))

    # -- errors and reports -----------------------------------------------------------------------------

    def _reached(self, where: str) -> list[Tensor]:
        """Return the parameters with a gradient."""
        params = [p for p in self._params() if p.grad is not None]
        if not params:
            self._fail(f"the {where} produced no gradient: call backward() on its loss")
        return params

    def _refuse_other(self) -> None:
        """Raise an error if another of our optimizers is in the middle of a step of the same network."""
        other = _under_way.get(self.model, lambda: self)() or self
        if other is not self and other._turn is not Turn.BETWEEN and other._scaler is None:
            raise RuntimeError(
                f"passes(): a {type(other).__name__} is in the middle of a step of the same network; take "
                f"that step first, or wrap both optimizers as one: {type(self).__name__}([a, b], model)"
            )
        _under_way[self.model] = weakref.ref(self)

    def _know(self) -> None:
        """Remember which gradients are of our own passes, or older than this optimizer."""
        grad = next(iter(grads_of(self._params())), None)
        if grad is not None:
            self._left = weakref.ref(grad), grad._version

    def _refuse_gradients(self) -> None:
        """Raise an error rather than drop gradients computed since the last step: they are accumulated."""
        grad, (left, version) = next(iter(grads_of(self._params())), None), self._left
        if grad is None or (grad is left() and grad._version == version) or not bool(grad.any()):
            return
        raise RuntimeError(
            "step(closure): there are gradients from a backward() outside of the closure, which would be "
            "dropped. Pass all micro-batches of a step to passes(); in Lightning add the callback "
            "steepen.integrations.lightning.AscentCallback(). If the gradients are not wanted, call "
            "zero_grad() first"
        )

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

    def _why(self) -> str:
        """Return the reason why no step had an ascent step."""
        return f"`when` contains none of the first {self.k} steps"


def grads_of(params: Iterable[Tensor]) -> list[Tensor]:
    """Return the gradients of parameters that have one."""
    return [p.grad for p in params if p.grad is not None]
