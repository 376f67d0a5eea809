"""CGD around any optimizer of torch.optim."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Literal, TypeAlias, Unpack, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from .._tools.check import number
from ..schedules import Constant, ScheduleLike
from ._arguments import Flat, Mode, check, sort
from ._difference import Difference, Stage
from ._exact import curve
from ._family import Family, Probe
from ._guard import Guard, OnGuard
from ._numbers import Diagnostics, diagnose
from ._passes import Passes, momentum, refuse_unscaled, unscale
from ._private import hooks, step_with_hooks
from ._replay import Listener, Replay, Which
from ._share import first_of
from ._when import When
from ._wrapper import Wrapper

__all__ = ["CGD"]

_COMMON = "_steepen_common"  # set on a base: the values that its groups have from us
_KEYS = ("lam", "nu", "r", "rho", "probe")
_GONE = {  # what others have
    "first_step": "probe(), after the first backward pass",
    "second_step": "step(), after the second backward pass; then zero_grad()",
    "base_optimizer": "base",
}
Closure: TypeAlias = Callable[[], Any]


class CGD(Wrapper):
    """Steps of any optimizer of `torch.optim`, on the landscape f + λ‖∇f‖².

    A penalised step takes two gradients: g at the weights x, g⁺ at x + s with s = c·g. The base optimizer is
    then handed d = g + ν(g⁺ − g) in the place of g. With `share`, s comes from a part of the batch, and the
    base is handed g⁺ of all of it. Steps that are not penalised are the base's own.

    Parameters
    ----------
    base : torch.optim.Optimizer
        The optimizer to take the steps, such as `SGD` or `AdamW`, of any implementation (foreach, fused).
    lam : number, schedule or callable of the step
        λ. Below zero it rewards a large gradient; a parameter group may have its own `"lam"`.
    nu : number, schedule or callable
        The weight ν of the difference, in the place of `lam`.
    nu_max : float or None
        The limit on the |ν| that a λ leads to.
    probe : Probe, number, schedule, callable or "momentum"
        Where the weights go for the second gradient. A number is the length ‖s‖/‖x‖; "momentum" is a probe
        against the base's momentum buffer, at one gradient a step. By default the probe is as short as the
        difference is accurate (`PROBE`, by `dtype`) and as ν need not be cut to `nu_max`.
    when : When
        Which steps are penalised; all by default.
    mode : "difference" or "exact"
        Exact takes 2λ·Hg by a second backward pass; the closure must call `backward(create_graph=True)`.
    on_guard : "fallback", "stop" or "off"
        Where d would not descend f, ⟨g, d⟩ ≤ 0: take g for that step (the default); or that, and end the
        penalty after `patience` such steps in a row; or take d all the same. A second pass that is not finite
        always leads to g. With `share` there is no g to fall back to: "off" is the default, and "stop" takes
        d, counts, and ends the penalty. Under momentum or Adam the guard speaks of d, not of the step.
    patience : int
        See `on_guard`.
    max_norm : float, optional
        Clip d, and g in the other steps, to this norm just before the base takes it.
    model : Module, optional
        The network. Its buffers, such as the running statistics of BatchNorm, are then left as one pass
        leaves them, and loops without a closure have the same dropout masks in both passes.
    replay : bool or "all"
        Let the second pass draw the random numbers of the first: torch's; "all": Python's and NumPy's too.
    **flat
        The fields of `Probe` (`r`, `rho`, `share`, `eta`, `probe_max`, `perturbation`, `dtype`) and of `When`
        (`phase`, `fraction`, `steps`, `from_`, `until`, `every`, `warmup`), in the place of these.

    Examples
    --------
    >>> import torch
    >>> from steepen.torch import CGD
    >>> model = torch.nn.Linear(4, 1)
    >>> opt = CGD(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), lam=0.05, model=model)
    >>> x, y = torch.randn(32, 4), torch.randn(32, 1)
    >>> def closure():
    ...     opt.zero_grad()
    ...     loss = torch.nn.functional.mse_loss(model(x), y)
    ...     loss.backward()
    ...     return loss
    >>> losses = [opt.step(closure).item() for _ in range(20)]
    >>> losses[-1] < losses[0]
    True
    """

    def __new__(cls, *given: Any, **_: Any) -> CGD:
        """Refuse the call of other libraries, before it fails for a lesser reason."""
        if given and not isinstance(given[0], Optimizer):
            raise TypeError(
                f"base: expected an instance of an optimizer of torch.optim, got {given[0]!r}; "
                f"{cls.__name__}(params, SGD, lr=0.1) is {cls.__name__}(SGD(params, lr=0.1)) here"
            )
        return super().__new__(cls)

    def __init__(
        self,
        base: Optimizer,
        lam: ScheduleLike | None = None,
        *,
        nu: ScheduleLike | None = None,
        nu_max: float | None = 1.0,
        probe: Probe | ScheduleLike | Literal["momentum"] | None = None,
        when: When | None = None,
        mode: Mode = "difference",
        on_guard: OnGuard | None = None,
        patience: int = 1,
        max_norm: float | None = None,
        model: nn.Module | None = None,
        replay: Which = True,
        **flat: Unpack[Flat],
    ) -> None:
        self.exact = mode == "exact"
        self.to, self.when = sort(probe, when, cast(dict[str, Any], flat), exact=self.exact)
        self.kind = "exact" if self.exact else self.to.kind
        on_guard = on_guard or ("off" if self.to.alone else "fallback")
        check(base, lam, nu, self.to, mode, on_guard, max_norm, model, replay)
        steps = self.when.steps
        self.family = Family.of(
            None if steps is None else int(min(self.when.end, steps)),
            self.to,
            lam=lam,
            nu=nu,
            nu_max=None if self.exact else nu_max,
        )
        # the groups' own values; Adadelta, for one, has a rho already
        self.key, self.eta_key = (
            name if name not in base.defaults else f"cgd_{name}" for name in (self.family.key, "eta")
        )
        self.guard = Guard(on_guard, patience)
        self.max_norm = max_norm
        self.model = model
        self.k = 0
        ddp: Any = model if isinstance(model, DistributedDataParallel) else None
        self._local = ddp if self.to.perturbation == "local" else None
        self._passes = Passes()
        self._replay = Replay(model, replay, shared=self.kind == "share")
        ranks = None if self._local is None else self._local.process_group
        self._difference = Difference(self.to, self.family, self.guard, self._replay, self._passes, ranks)
        self._heard: list[Any] = []  # what removes the hooks on the network
        self._told: set[str] = set()  # what was warned of
        self._asked = False  # the closure has asked for its part of the batch
        self._seen: tuple[Tensor, bool] | None = None
        super().__init__(base)
        common = getattr(self.family, self.family.key)
        ours = {self.key: common(0) if isinstance(common, Constant) else None, self.eta_key: self.to.eta}
        setattr(base, _COMMON, ours)
        if next(self._params(), None) is None:
            raise ValueError("base: expected an optimizer of at least one parameter, got one of none")
        self._listen()

    def __getattr__(self, name: str) -> Any:
        if name in _GONE:
            raise AttributeError(f"{name}: here it is {_GONE[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_heard": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._listen()

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

    # -- groups and state -------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, to the base too; `"lam"` (or what stands for it) and `"eta"` may be their own."""
        params = param_group["params"]
        params = param_group["params"] = [params] if isinstance(params, Tensor) else list(params)
        for p in params:
            if isinstance(p, Tensor) and p.is_complex():
                shape = tuple(p.shape)
                raise TypeError(f"base: expected real parameters, got one of {p.dtype} and shape {shape}")
            if hasattr(p, "_fsdp_flattened"):  # hides that it is a shard: norms would be wrong
                raise TypeError("base: expected parameters of fully_shard, got FullyShardedDataParallel's")
        for name, ours in self.base.__dict__.get(_COMMON, {}).items():
            if name in param_group and param_group[name] == ours:
                del param_group[name]  # put there by a CGD that was around this base before
        own = self._own(param_group)
        eta = param_group.get(self.eta_key, self.to.eta)
        if eta is not None:
            number(self.eta_key, eta, "a number for the group, 0 or more, or None", least=0)
        self.base.add_param_group(param_group)
        param_group[self.key] = own  # None: as the schedule says
        if eta is not None or self.to.eta is not None:
            param_group[self.eta_key] = eta
        self._passes.watch(params)

    def _own(self, group: dict[str, Any]) -> float | None:
        """Return the value that a group has for itself, or the common one if that is constant."""
        for name in _KEYS:
            if name in group and name not in (self.key, *self.base.defaults):
                raise ValueError(f"{name}: the groups of this optimizer are told apart by {self.key!r} alone")
        own, common = group.get(self.key), getattr(self.family, self.family.key)
        if own is None:
            return float(common(0)) if isinstance(common, Constant) else None
        if self.family.key in ("lam", "nu"):
            number(self.key, own, "a finite number for the group", above=-float("inf"))
        else:
            number(self.key, own, "a number for the group, 0 or more", least=0)
        return float(own)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients.

        After a second pass whose step was left out, as a `GradScaler` may do, it puts the weights back.
        """
        left_out = self._difference.stage is Stage.PROBED and self.kind != "momentum"
        if left_out and any(p.grad is not None for p in self._params()):
            self.restore()
            self._replay.forget()
        self._passes.clear()
        super().zero_grad(set_to_none)

    def _kind(self) -> dict[str, Any]:
        return {"base": type(self.base).__name__, "key": self.family.key, "exact": self.exact}

    def _save(self) -> dict[str, Any]:
        common = getattr(self.base, _COMMON, {}).get(self.key)
        return {"k": self.k, "common": common, **self.guard.state_dict()}

    def _load(self, own: dict[str, Any]) -> None:
        self.k = int(own["k"])
        self.guard.load_state_dict(own, self._device())
        self._difference.free()
        self._listen()
        if not isinstance(getattr(self.family, self.family.key), Constant):
            for group in self.param_groups:  # what was the common value then is the schedule's now
                if own["common"] is not None and group.get(self.key) == own["common"]:
                    group[self.key] = None

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up a state that `state_dict` gave; that of another optimizer is refused."""
        if self._difference.moved:
            raise RuntimeError("load_state_dict() between probe() and step(): call restore() first")
        super().load_state_dict(state_dict)

    # -- the step ---------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether the next step is penalised."""
        return (
            self.when.covers(self.k)
            and self.family.reaches(self.k)
            and not self.guard.poll()
            and any(self._strengths())
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
                self._done()
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
        self._done()
        return loss

    _hooked_step = step_with_hooks(_step)

    def _makes_room(self) -> bool:
        """Whether this is torch.distributed.checkpoint: it has a base make its state by an empty step."""
        rates = [group.get("lr") for group in self.param_groups]
        return not self.state and not self._passes.count and all(lr is not None and lr == 0 for lr in rates)

    def _pause(self, closure: Closure | None) -> None:
        """Prepare a step that is not penalised."""
        if not self.when.pauses(self.k):
            self._difference.free()
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

    def _done(self) -> None:
        torch.clear_autocast_cache()  # it holds the weights before the step
        self._passes.taken(self._params())
        self._replay.forget()
        self.k += 1

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

    # -- what was seen ----------------------------------------------------------------------------------

    @property
    def diagnostics(self) -> Diagnostics | None:
        """What the last penalised step was like, as tensors on the device; None before there was one."""
        if self._seen is None or self.guard.counts is None:
            return None
        told, along_g = self._seen
        return diagnose(told, self.guard.counts, self.param_groups[0].get("lr"), self.kind, along_g=along_g)

    def log(self, writer: Any, step: int | None = None, prefix: str = "cgd/") -> None:
        """Write the diagnostics to TensorBoard, or to anything else with `add_scalar`."""
        seen = self.diagnostics
        if seen is not None:
            for name, value in seen.read().items():
                writer.add_scalar(prefix + name, value, self.k if step is None else step)
