"""An optimizer that takes its gradient at x + s, around any of `torch.optim`: one step, three loops."""

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
    """Where a step stands."""

    BETWEEN = "between two steps"
    ASCENT = "a pass at x, for the ascent step"
    BATCH = "the passes over the batch, at x + s where there is an ascent step"
    DUE = "all passes are made, and step() is due"


class AscentOptimizer(Wrapper):
    """What the optimizers with an ascent step share: `CGD`, `SAM`, `GapSAM`, those of `steepen.torch.paper`.

    A step with an ascent step makes two passes. The first, over the batch or a share of it, gives g at the
    weights x; the second, over the batch, gives g⁺ at x + s with s = c·g. The weights are put back bit for
    bit, and the base takes its step with g⁺, or with g + ν(g⁺ − g). Other steps are the base's own. Step 0
    always makes both passes, so that what can go wrong does so there. A subclass says how long the ascent
    step is (`_perturbation`).

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
        The steps with an ascent step, such as `range(5_000, 10_000)`; all by default.
    max_norm : float, optional
        Clip the gradient to this norm before the base takes it.

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
        """Whether the pass under way is one at x, for the ascent step."""
        return self._turn is Turn.ASCENT

    @property
    def moved(self) -> bool:
        """Whether the weights are at x + s."""
        return bool(self._at)

    # -- what a subclass may say ------------------------------------------------------------------------

    def _wants(self, k: int) -> bool:
        """Say whether step k has an ascent step."""
        return self.when is None or k in self.when

    def _perturbation(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        """Return c, and ν where the step needs it, from ‖g‖ and what computes ‖x‖."""
        raise NotImplementedError

    def _ascent(self) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Return the parameters that the ascent step moves, its direction and the norm of that."""
        params = self._reached("ascent step's pass")
        grads = grads_of(params)
        for grad in grads:
            if grad.is_sparse:
                self._fail(
                    f"base: expected dense gradients, got a sparse one of shape {tuple(grad.shape)}; make "
                    "the embedding with sparse=False"
                )
        return params, grads, norm(grads)

    def _combine(self, params: Sequence[Tensor], nu: Tensor) -> None:
        """Put d in the place of g⁺, where the step needs both gradients."""

    def _begin(self) -> None:
        """Do what is due before the passes of a step."""

    def _learn(self) -> None:
        """Take note of what the passes of a step have told."""

    # -- three loops ------------------------------------------------------------------------------------

    def step_on(self, loss_of: Callable[..., Tensor], *batch: Any, scaler: Any = None) -> Tensor:
        """Take one step on a batch: clear, cut, go forwards and backwards as often as needed.

        `loss_of(*batch)` returns the mean loss of a batch, or of a part of one. A `scaler` takes the step;
        `update` is left to you. Returns the loss of the first pass, at the weights before the step.
        """
        for part in self.passes(batch, scaler=scaler):
            loss = loss_of(*part)
            self.record_loss(loss)
            (loss if scaler is None else scaler.scale(loss)).backward()  # pyright: ignore
        told = (self._told[Turn.ASCENT] or self._told[Turn.BATCH])[0]
        self.step(scaler=scaler)
        return told

    def passes(self, *batches: Any, scaler: Any = None) -> Iterator[Any]:
        """Yield what to go forwards and backwards on, for a loop that owns the backward pass.

        For each part: compute the loss, go backwards, tell it with `record_loss(loss)`; after the loop, where
        the weights are at x again, call `step()`. Gradients are cleared for you. Several batches are
        micro-batches: divide their losses by their number, as always; the ascent step's share is taken from
        the first. If the losses carry the scale of a `GradScaler`, pass it.
        """
        self = getattr(self, "_optimizer", self)  # Lightning's wrapper has our methods, but not our state
        if not batches:
            raise TypeError("passes: expected a batch, or the micro-batches of a step; got none")
        total = sum(map(examples, batches)) if self._counts_rows else 0
        for i in self._turns(len(batches) if self.ascent_fraction == 1 else 1, len(batches), scaler):
            yield self._part(batches[i], total)

    def step(self, closure: Callable[[], Any] | None = None, *, scaler: Any = None) -> Any:  # pyright: ignore
        """Take the step that `passes` has prepared, or all of one with a closure.

        The closure, called once or twice, computes the loss of one batch (with a share, that of
        `opt.part(batch)`), calls `backward` and returns the loss. Where it scales its loss, pass the
        `scaler`, which takes the step. Returns the loss at the weights before the step.
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
            for _ in self._turns(1, 1, scaler):
                before = self._rows[self._turn]
                with torch.enable_grad():
                    told = closure()
                if self._counts_rows and self._rows[self._turn] == before:
                    self._fail(
                        "step: the closure must ask for its part of the batch: x, y = opt.part((x, y))"
                    )
                if told is not None:
                    self.record_loss(told)
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
        """Return what a closure is to use of a batch in this pass: the ascent step's share, or all of it."""
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
                few = f"{self.ascent_fraction:g} of {total or n} examples is {wanted}; it takes {rows}"
                self._warn("part", f"ascent_fraction: {few}")
        self._rows[self._turn] += rows
        return rows_of(batch, 0, rows)

    def record_loss(self, loss: Any) -> None:
        """Tell the loss of a pass: what was given to `backward`, before a scaler's scale."""
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            came = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else repr(loss)
            raise ValueError(f"loss: expected one number in a tensor, the mean over the batch; got {came}")
        if self._turn in self._told:
            most = self._micro if self.ascent_fraction == 1 or self._turn is Turn.BATCH else 1
            if len(self._told[self._turn]) == most:
                self._fail(
                    "record_loss: expected one loss a pass, got two; a step is by one loss, such as the sum"
                )
            self._told[self._turn].append(loss.detach().clone())  # a graph may write over it in the next pass

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients; between the passes and their step they are still needed."""
        if self._turn is Turn.DUE and self._scaler is None:
            self._fail("zero_grad() before step(): the passes' gradients would be lost; call step() first")
        super().zero_grad(set_to_none)

    # -- one step ---------------------------------------------------------------------------------------

    def _turns(self, firsts: int, batches: int, scaler: Any) -> Iterator[int]:
        """Go through the passes of a step, each by its place: for the ascent step, then over the batch."""
        if self._turn is not Turn.BETWEEN and scaler is None and self._scaler is None:
            raise RuntimeError("passes() before step(): the step of the last passes is due")
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
        """Put the weights back, and the direction of the step in the place of the gradient."""
        params, nu = self._at, self._nu
        self._back()
        self._reached("pass over the batch")
        if nu is not None:
            self._combine(params, nu)
        self._turn = Turn.DUE

    def restore(self) -> None:
        """Forget the step that is under way, if there is one, and put the weights back bit for bit."""
        self._back()
        self._clear()
        self._know()

    @torch.no_grad()
    def _back(self) -> None:
        """Put the weights back bit for bit, and what else the passes are not to leave behind."""
        if self._at:
            lists._foreach_copy_(local(self._at), self._x)
            torch.clear_autocast_cache()
        self._at = []
        while self._undo:
            self._undo.pop()()

    def _follow(self) -> None:
        """Have our own numbers where the weights are: the network may have been moved since."""
        if self._place != self.device:
            self._place = self.device
            for name, value in list(vars(self).items()):
                if isinstance(value, Tensor | Means):
                    setattr(self, name, value.to(self.device))

    def _unit(self) -> Any:
        """Return what the loss of the ascent step's pass is to be divided by: it may be of a micro-batch."""
        return self._scale() / self._micro if self.ascent_fraction < 1 else self._scale()

    def _scale(self) -> Any:
        return 1.0 if self._scaler is None else self._scaler.scale(torch.ones((), device=self.device))

    # -- what is refused, and told ----------------------------------------------------------------------

    def _reached(self, where: str) -> list[Tensor]:
        """Return the parameters with a gradient."""
        params = [p for p in self._params() if p.grad is not None]
        if not params:
            self._fail(f"the {where} gave no gradient: call backward() on its loss")
        return params

    def _refuse_other(self) -> None:
        """Refuse to begin where another optimizer of ours is in the middle of a step of the same network."""
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
        """Refuse to drop gradients that were taken since the last step: somebody accumulates them."""
        grad, (left, version) = next(iter(grads_of(self._params())), None), self._left
        if grad is None or (grad is left() and grad._version == version) or not bool(grad.any()):
            return
        raise RuntimeError(
            "step(closure): there are gradients of a backward() that was not the closure's, which would be "
            "dropped. Give all micro-batches of a step to passes(); in Lightning add the callback "
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
        """Return what the ascent step did so far; printed, it is a table. This waits for the device."""
        return Report(steps=self.k, perturbed=self.perturbed, gradients=self.gradients, **self._found())

    def _found(self) -> dict[str, Any]:
        """Return what else there is to report."""
        length = {} if self._last is None else {"length": abs(float(self._last[0] * self._last[1]))}
        return length | ({} if self.perturbed or not self.k else {"reason": self._why()})

    def _why(self) -> str:
        """Say why no step had an ascent step."""
        return f"`when` has none of the first {self.k} steps"


def grads_of(params: Iterable[Tensor]) -> list[Tensor]:
    """Return the gradients of parameters that have one."""
    return [p.grad for p in params if p.grad is not None]
