"""One step of an optimizer that takes its gradient at x + s: its passes, one after the other."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from ._joined import Base
from ._means import Means
from ._tensors import add_, copy_, local, norm
from ._trace import buffers_of, gradients_of, random_of
from ._wrapper import Wrapper

__all__ = ["Passes", "Turn", "grads_of"]

_under_way: weakref.WeakKeyDictionary[nn.Module, weakref.ref[Passes]] = weakref.WeakKeyDictionary()
_IDLE = 16  # steps without an ascent step after which its memory is given back


class Turn(Enum):
    """Where a step stands."""

    BETWEEN = "between two steps"
    ASCENT = "a pass at x, for the ascent step"
    BATCH = "the passes over the batch, at x + s where there is an ascent step"
    DUE = "all passes are made, and step() is due"


class Passes(Wrapper):
    """The passes of a step: at x, for the ascent step, then at x + s, over the batch.

    `AscentOptimizer` adds the loops that go through them. Between two steps the weights are at x.
    """

    needs_ascent_pass = True  # whether a pass at x comes before the pass over the batch
    may_overwrite = True  # whether the direction of the ascent step may be overwritten

    def __init__(self, base: Base, model: nn.Module, ascent_fraction: float) -> None:
        super().__init__(base, model)
        self.ascent_fraction = float(ascent_fraction)
        self._counts_rows = self.ascent_fraction < 1  # whether a pass must say how many examples it is over
        self._room: dict[str, list[Tensor]] = {}  # copies of the weights and of g
        self._idle = 0
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

    # -- what a subclass says ---------------------------------------------------------------------------

    def _wants(self, k: int) -> bool:
        """Say whether step k has an ascent step."""
        raise NotImplementedError

    def _perturbation(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        """Return c, and ν where the step needs it, from ‖g‖ and what computes ‖x‖."""
        raise NotImplementedError

    def _movable(self) -> list[Tensor]:
        """Return the parameters that the ascent step moves."""
        params = [p for p in self._params() if p.grad is not None]
        if not params:
            self._fail("the ascent step's pass gave no gradient: call backward() on its loss")
        sparse = next((p for p in params if p.grad is not None and p.grad.is_sparse), None)
        if sparse is not None:
            self._fail(
                f"base: expected dense gradients, got a sparse one of shape {tuple(sparse.shape)}; make the "
                "embedding with sparse=False"
            )
        return params

    def _ascent(self, params: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
        """Return the direction to ascent step along, and its length."""
        grads = grads_of(params)
        return grads, norm(grads)

    def _combine(self, params: Sequence[Tensor], nu: Tensor) -> None:
        """Put d in the place of g⁺, where the step needs both gradients."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Do what is due before the passes of a step."""

    # -- one step ---------------------------------------------------------------------------------------

    def _turns(self, firsts: int, batches: int, scaler: Any) -> Iterator[tuple[int, Turn]]:
        """Go through the passes of a step: for each, its place among its kind, and what it is."""
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
        self._idle = 0 if ascends else self._idle + 1
        if self._idle == _IDLE:
            self._room = {}
        try:
            self.zero_grad()
            if ascends:
                if self.needs_ascent_pass:  # a step leaves the trace of one pass over the batch
                    self._undo += [random_of(self.device), gradients_of(self._others())]
                if self.ascent_fraction < 1:
                    self._undo.append(buffers_of(self.model, self._memory))
                self._turn = Turn.ASCENT
                for i in range(firsts if self.needs_ascent_pass else 0):
                    yield i, Turn.ASCENT
                self._perturb()
            self._turn = Turn.BATCH
            for i in range(batches):
                yield i, Turn.BATCH
            if self._turn is Turn.BATCH:
                self._finish_passes()
        finally:
            if self._step is step and self._turn is not Turn.DUE:
                self.restore()

    def _refuse_other(self) -> None:
        """Refuse to begin where another optimizer of ours is in the middle of a step of the same network."""
        known = _under_way.get(self.model)
        other = self if known is None else known() or self
        if other is not self and other._turn is not Turn.BETWEEN and other._scaler is None:
            raise RuntimeError(
                f"passes(): a {type(other).__name__} is in the middle of a step of the same network; take "
                f"that step first, or wrap both optimizers as one: {type(self).__name__}([a, b], model)"
            )
        _under_way[self.model] = weakref.ref(self)

    def _follow(self) -> None:
        """Have our own numbers where the weights are: the network may have been moved since."""
        if self._place != self.device:
            self._place = self.device
            for name, value in list(vars(self).items()):
                if isinstance(value, Tensor | Means):
                    setattr(self, name, value.to(self.device))

    @torch.no_grad()
    def _perturb(self) -> None:
        """Move the weights to x + s."""
        params = self._movable()
        self._undone()
        if self.needs_ascent_pass and self.ascent_fraction == 1:
            self._undo.append(buffers_of(self.model, self._memory))
        if not params:
            return
        along, self._n = self._ascent(params)
        unit = self._unit() if self.needs_ascent_pass else 1.0
        n = self._n / unit
        c, nu = self._perturbation(n, lambda: norm(params))
        c = c.nan_to_num(0.0, 0.0, 0.0)  # where g is 0 or not finite there is no direction
        self._last = c, n
        if self._had_ascent:
            x = local(params)
            copy_(self._memory("x", x), x)
            self._at, self._nu = params, nu
            if nu is not None:
                grads = local(grads_of(params))
                copy_(self._memory("g", grads), grads)
            add_(x, c * (self._up / unit), local(along), may_overwrite=self.may_overwrite)
        if self.needs_ascent_pass:
            for p in self._params():
                p.grad = None
        torch.clear_autocast_cache()  # it holds the weights before the move

    @torch.no_grad()
    def _finish_passes(self) -> None:
        """Put the weights back, and the direction of the step in the place of the gradient."""
        params, nu = self._at, self._nu
        self._back()
        if all(p.grad is None for p in self._params()):
            self._fail("the pass over the batch gave no gradient: call backward() on its loss")
        if nu is not None:
            self._combine(params, nu)
        self._turn = Turn.DUE

    @torch.no_grad()
    def _back(self) -> None:
        """Put the weights back bit for bit, and what else the passes are not to leave behind."""
        if self._at:
            copy_(local(self._at), self._room["x"])
            torch.clear_autocast_cache()
        self._at = []
        self._undone()

    def _undone(self) -> None:
        while self._undo:
            self._undo.pop()()

    def restore(self) -> None:
        """Forget the step that is under way, if there is one, and put the weights back bit for bit."""
        self._back()
        self._clear()
        self._know()

    def _memory(self, name: str, like: list[Tensor]) -> list[Tensor]:
        """Return room for a copy of tensors, that of the last step if it fits."""
        room = self._room.get(name, [])
        if [(t.shape, t.dtype, t.device) for t in room] != [(t.shape, t.dtype, t.device) for t in like]:
            room = self._room[name] = [torch.empty_like(t) for t in like]
        return room

    def _unit(self) -> Any:
        """Return what the loss of the ascent step's pass is to be divided by: it may be of a micro-batch."""
        return self._scale() / self._micro if self.ascent_fraction < 1 else self._scale()

    def _scale(self) -> Any:
        return 1.0 if self._scaler is None else self._scaler.scale(torch.ones((), device=self.device))

    @property
    def _cost(self) -> float:
        """The passes of this step, in passes over its batch."""
        if not self.needs_ascent_pass or not (self._had_ascent or self.k == 0):
            return 1.0
        return 2.0 if self.ascent_fraction == 1 else 1.0 + self._rows[Turn.ASCENT] / self._rows[Turn.BATCH]

    def _gradient(self) -> Tensor | None:
        return next((p.grad for p in self._params() if p.grad is not None), None)

    def _know(self) -> None:
        """Remember which gradients are of our own passes, or older than this optimizer."""
        grad = self._gradient()
        if grad is not None:
            self._left = weakref.ref(grad), grad._version

    def _refuse_gradients(self) -> None:
        """Refuse to drop gradients that were taken since the last step: somebody accumulates them."""
        grad, (left, version) = self._gradient(), self._left
        if grad is None or (grad is left() and grad._version == version) or not bool(grad.any()):
            return
        raise RuntimeError(
            "step(closure): there are gradients of a backward() that was not the closure's, which would be "
            "dropped. Give all micro-batches of a step to passes(); in Lightning add the callback "
            "steepen.integrations.lightning.AscentCallback(). If the gradients are not wanted, call "
            "zero_grad() first"
        )

    def _load_own_state(self, state: dict[str, Any]) -> None:
        self.restore()
        super()._load_own_state(state)

    def _fail(self, text: str) -> NoReturn:
        self.restore()
        raise RuntimeError(text)


def grads_of(params: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of parameters that have one."""
    return [p.grad for p in params if p.grad is not None]
