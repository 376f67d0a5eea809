"""A step of CGD: which passes it takes, in what order, and by whom they are run."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from ._auto import Steering
from ._difference import Difference, Stage
from ._exact import curve
from ._family import Family, Probe
from ._guard import Guard
from ._passes import Passes, momentum, refuse_unscaled, unscale
from ._private import hooks, step_with_hooks
from ._replay import Listener, Replay
from ._share import first_of
from ._when import When
from ._wrapper import Wrapper

__all__ = ["Steps"]

Closure: TypeAlias = Callable[[], Any]


class Steps(Wrapper):
    """The steps of `CGD`: with a closure, in a loop with `probe`, or on a batch with `step_on`."""

    to: Probe
    when: When
    family: Family
    guard: Guard
    kind: str  # where s comes from: "difference", "share", "momentum"; or "exact"
    exact: bool
    key: str  # by which a group has its own strength
    eta_key: str
    max_norm: float | None
    model: nn.Module | None
    k: int
    _local: Any  # the DDP module whose ranks probe along their own gradients, if any
    _passes: Passes
    _replay: Replay
    _difference: Difference
    _steering: Steering | None
    _heard: list[Any]  # what removes the hooks on the network
    _told: set[str]  # what was warned of
    _asked: bool  # the closure has asked for its part of the batch
    _seen: tuple[Tensor, bool] | None

    @property
    def active(self) -> bool:
        """Whether the next step is penalised."""
        return (
            self.when.covers(self.k)
            and self.family.reaches(self.k)
            and not self.guard.poll()
            and any(self._strengths())
            and (self._steering is None or self._steering.wants(self.k))
            and (self.kind != "momentum" or self._has_momentum())
        )

    def _strengths(self) -> list[float]:
        """Return λ, or what stands for it, of each group at this step."""
        own: list[Any] = [group.get(self.key) for group in self.param_groups]
        for one in own:
            if one is not None and not (isinstance(one, int | float) and math.isfinite(one)):
                raise ValueError(f"{self.key}: expected a finite number for the group, got {one!r}")
        return [self.family.strength(self.k) if one is None else one for one in own]

    def _has_momentum(self) -> bool:
        if any(momentum(self.state, p) is not None for p in self._params()):
            return True
        if self.state:
            raise ValueError(f"base: probe='momentum' finds no momentum buffer in {type(self.base).__name__}")
        return False  # before the first step

    @property
    def share(self) -> float:
        """The part of the batch that the next pass is to use: that of the probe, or 1."""
        self._asked = True
        first = self._difference.stage in (Stage.READY, Stage.FIRST)
        return self.to.share if self.kind == "share" and first and self.active else 1.0

    def part(self, batch: Any) -> Any:
        """Return the part of a batch that the next pass is to use: its first examples, or all of them.

        Parameters
        ----------
        batch : tensor, tuple, list or dict of tensors, or of these
            Of n examples, max(1, round(share·n)) are taken, along the first axis of every tensor.

        Examples
        --------
        >>> from steepen.torch import CGD
        >>> p = torch.nn.Parameter(torch.ones(2))
        >>> opt = CGD(torch.optim.SGD([p], lr=0.1), rho=0.05, share=1 / 4)
        >>> opt.part((torch.arange(8), {"y": torch.arange(8)}))
        (tensor([0, 1]), {'y': tensor([0, 1])})
        """
        share = self.share
        return batch if share == 1 else first_of(batch, share)

    def step(self, closure: Closure | None = None, *, scaler: Any = None) -> Any:  # pyright: ignore
        """Take one step, and return the loss of the first pass.

        Parameters
        ----------
        closure : callable
            Clears the gradients, computes the loss of one batch (with `share`, of its `part`), calls
            `backward` and returns the loss. It is called twice in a penalised step, at other weights; all it
            does must be repeatable. Without one, the gradients are those of a `probe()` and a second pass.
        scaler : torch.amp.GradScaler, optional
            The scaler whose scale the losses carry; it takes the step, and `update` is left to the caller.
        """
        if hooks(self, "step_pre") or hooks(self, "step_post"):
            return self._hooked_step(closure, scaler=scaler)
        return self._step(closure, scaler=scaler)

    step.hooked = True  # pyright: ignore  # for torch: no wrapper, whose record costs more than all of the above

    def step_on(self, loss_of: Callable[..., Tensor], *batch: Any, scaler: Any = None) -> Tensor:
        """Take one step on a batch: clear, cut it, go forwards and backwards, as often as is needed.

        Parameters
        ----------
        loss_of : callable
            Returns the mean loss of a batch, or of a part of one.
        *batch
            What it is called with; with `share`, cut as `part` does.
        scaler : torch.amp.GradScaler, optional
            As for `step`; the loss is scaled here.

        Examples
        --------
        >>> from steepen.torch import CGD
        >>> model = torch.nn.Linear(2, 1)
        >>> opt = CGD(torch.optim.SGD(model.parameters(), lr=0.1), rho=0.05, share=1 / 4, model=model)
        >>> loss = opt.step_on(lambda x: model(x).square().mean(), torch.ones(8, 2))
        """

        def closure() -> Tensor:
            self.zero_grad()
            loss = loss_of(*self.part(batch))
            scaled: Any = loss if scaler is None else scaler.scale(loss)
            scaled.backward(create_graph=self.exact and self.active)
            return loss

        return self.step(closure, scaler=scaler)

    @torch.no_grad()
    def _step(self, closure: Closure | None = None, *, scaler: Any = None) -> Any:
        stage, loss = self._difference.stage, None
        if stage is Stage.READY and closure is None and self._makes_room():
            return self.base.step()
        active = stage is not Stage.READY or self.active
        if not active:
            self._pause(closure)
            if closure is not None and scaler is None and self.max_norm is None:
                loss = self.base.step(closure)
                self._done(loss)
                return loss
        if closure is not None:
            if stage is not Stage.READY:
                if self.kind != "momentum":
                    raise RuntimeError("step(closure) after probe(): the second gradient is due, then step()")
                self.restore()
            loss = self._both(closure, scaler) if active else self._call(closure, Stage.READY)
        elif stage is not Stage.READY:
            self._refuse_other(scaler)
            self._finish()
        elif active and self.exact:
            self._curve(scaler)
        elif active:
            late = "before the pass" if self.kind == "momentum" else "after backward(), then backward() again"
            raise RuntimeError(
                f"step() needs a gradient at x + s here: pass a closure, or call probe() {late}"
            )
        self._take(scaler, unscaled=active and self.kind in ("difference", "exact"))
        self._done(loss)
        return loss

    _hooked_step = step_with_hooks(_step)

    def _makes_room(self) -> bool:
        """Whether this is torch.distributed.checkpoint: it has a base make its state by an empty step."""
        rates = [group.get("lr") for group in self.param_groups]
        return not self.state and not self._passes.count and all(lr is not None and lr == 0 for lr in rates)

    def _pause(self, closure: Closure | None) -> None:
        """Prepare a step that is not penalised."""
        if not self.when.pauses(self.k):
            self._difference.release()
        if self.k >= self.when.end:
            self._ignore()
        if self.k >= self.family.length and self.when.covers(self.k):
            self._warn(f"a schedule has ended at step {int(self.family.length)}: the base goes on alone", 6)
        if closure is not None:
            self._passes.before_closure(self._params())  # a closure need not clear, on or off

    def _warn(self, text: str, level: int) -> None:
        if text not in self._told:
            self._told.add(text)
            warnings.warn(text, stacklevel=level)

    def probe(self, *, scaler: Any = None) -> bool:
        """Move the weights to x + s, for loops that cannot pass a closure; then a second pass, then `step()`.

        A probe along the momentum comes before the only pass; with `model` it is made by itself.

        Parameters
        ----------
        scaler : torch.amp.GradScaler, optional
            The scaler whose scale the losses carry.

        Returns
        -------
        bool
            Whether a second pass is wanted: False while the penalty is off, and nothing is moved.
        """
        if self.exact:
            raise RuntimeError("probe() in the exact mode: call backward(create_graph=True), then step()")
        if self._local is not None:
            raise RuntimeError(
                "probe() with perturbation='local': pass step() a closure, whose first pass is kept local"
            )
        if self._difference.moved and self.kind == "momentum":
            return True
        if not self._difference.moved and not self.active:
            return False
        self._probe(scaler, closure=False)
        return True

    @torch.no_grad()
    def _probe(self, scaler: Any, *, closure: bool) -> None:
        if self.model is None and self.kind != "momentum":
            self._warn(
                "CGD was not given the network, model=...: buffers such as the statistics of BatchNorm count "
                "both passes, and a loop without a closure has other dropout masks in the second",
                8 if closure else 5,
            )
        self._difference.probe(self, self._strengths(), scaler, closure=closure)

    def restore(self) -> None:
        """Put the weights back to where they were before `probe()`, bit for bit, and the first gradient too.

        With `share` that gradient was not kept, and is gone.
        """
        self._difference.restore()

    def _forward(self) -> None:
        """Hear that the network is about to run; the passes of a closure are known without."""
        stage, learns = self._difference.stage, torch.is_grad_enabled()
        if stage in (Stage.FIRST, Stage.SECOND):
            return
        if self.kind == "momentum":
            if not (learns and cast(nn.Module, self.model).training):
                self.restore()
            elif stage is Stage.READY and self.active:
                self._probe(None, closure=False)
        elif learns and (stage is Stage.PROBED or self.active):
            self._replay.forward(self._device())

    def _both(self, closure: Closure, scaler: Any) -> Any:
        """Run the passes of a penalised step; d is then in the place of the gradient."""
        params = list(self._params())
        self._passes.before_closure(params)
        if self.kind == "momentum":
            self._probe(scaler, closure=True)
            try:
                loss = self._call(closure, Stage.SECOND)
                self._finish()
            finally:
                self.restore()
            return loss
        if not self.exact:
            self._replay.first(self._device())
        self._asked = False
        with nullcontext() if self._local is None else self._local.no_sync():
            loss = self._call(closure, Stage.FIRST)
        self._passes.refuse_old(params)
        if all(p.grad is None for p in params):
            return loss  # nothing went backwards: as with the base, nothing happens
        if self.kind == "share" and not self._asked:
            raise RuntimeError("share: the closure must ask for its part of the batch: opt.part(batch)")
        if self.exact:
            self._curve(scaler)
            return loss
        try:
            self._probe(scaler, closure=True)
            again = self._call(closure, Stage.SECOND)
            if isinstance(loss, Tensor) and loss.grad_fn is not None and again is loss:
                raise RuntimeError(
                    "the second pass has gone backwards through the graph of the first: let the closure "
                    "compute its loss anew"
                )
            self._finish()
        except BaseException:
            self.restore()
            self._passes.taken(params)  # the next step may drop it
            raise
        return loss

    def _call(self, closure: Closure, stage: Stage) -> Any:
        before, self._difference.stage = self._difference.stage, stage
        try:
            with torch.enable_grad(), warnings.catch_warnings() if self.exact else nullcontext():
                if self.exact:  # torch warns of a cycle, which we break
                    warnings.filterwarnings("ignore", "Using backward\\(\\) with create_graph=True")
                return closure()
        finally:
            self._difference.stage = before

    def _finish(self) -> None:
        self._difference.finish(list(self._params()))
        self._seen = self._difference.numbers.told, self._difference.along_g

    def _curve(self, scaler: Any) -> None:
        self._passes.refuse_old(self._params())
        self._seen = curve(self.param_groups, self._strengths(), self.guard, scaler, self)

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """For torch: after a probe, let a `GradScaler` call `step` whatever the gradients are."""
        return self._difference.moved and self.kind != "momentum"

    def _refuse_other(self, scaler: Any) -> None:
        """Refuse a scaler at the second gradient that was not there at the first, or calls us itself."""
        if self.kind == "momentum":
            return
        calls = "found_inf" in self.__dict__
        for name in ("found_inf", "grad_scale"):
            self.__dict__.pop(name, None)
        if calls or scaler is not self._difference.scaler:
            self.restore()
            raise RuntimeError(
                "a GradScaler belongs to both halves of a step: probe(scaler=scaler), then "
                "step(scaler=scaler), which calls scaler.step() itself"
            )

    def _done(self, loss: object) -> None:
        torch.clear_autocast_cache()  # it holds the weights before the step
        self._passes.taken(self._params())
        self._replay.forget()
        self.k += 1
        if self._steering is not None:
            self._steer(self._steering, loss)

    def _steer(self, steering: Steering, loss: object) -> None:
        """Let what steers the strength take note of the loss that a closure has returned."""
        raise NotImplementedError

    def _take(self, scaler: Any, *, unscaled: bool) -> None:
        refuse_unscaled(scaler, self)
        if self.max_norm is not None:
            if not unscaled:
                unscale(scaler, self)
            clip_grad_norm_(self._params(), self.max_norm, foreach=True)
        if scaler is None:
            self.base.step()
        else:
            scaler.step(self.base)

    def _listen(self) -> None:
        """Have the parameters tell of gradients, and the network of forward passes."""
        self._ignore()
        self._passes.watch(list(self._params()))
        if self.model is None or self.exact or (self.kind == "difference" and not self._replay.which):
            return
        model: Any = self.model
        handles = [
            model.register_forward_pre_hook(Listener(self._forward), prepend=True)
        ]  # before FSDP's own
        if self.kind == "momentum":
            handles.append(model.register_state_dict_pre_hook(Listener(self.restore)))
        for handle in handles:
            remove = weakref.finalize(self, handle.remove)
            remove.atexit = False
            self._heard.append(remove)

    def _ignore(self) -> None:
        """Listen no more, since no step is penalised from here on."""
        for remove in self._heard:
            remove()
        self._heard.clear()
        self._passes.ignore()
