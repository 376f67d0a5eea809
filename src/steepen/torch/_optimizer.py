"""CGD around any optimizer of torch.optim."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from .._check import number
from ..schedules import Constant, ScheduleLike
from ._arguments import Mode, Perturbation, check
from ._diagnostics import Diagnostics, Seen, Writer
from ._difference import Difference
from ._exact import curve
from ._family import Family
from ._gradients import LeftOver, refuse_unscaled, renew, spend, unscale
from ._guard import Guard, OnGuard
from ._replay import Replay
from ._when import Phase, when
from ._wrapper import Wrapper

__all__ = ["CGD"]

_COMMON = "_steepen_common"  # set on a base: the value that its groups have from us
Closure: TypeAlias = Callable[[], Any]


class CGD(Wrapper):
    """Steps of any optimizer of `torch.optim`, on the landscape f + λ‖∇f‖².

    A penalised step takes two gradients: g at the weights x, g⁺ at x + s with s = c·g. The base optimizer is
    then handed d = g + ν(g⁺ − g) in the place of g. Steps that are not penalised are the base's own.

    Parameters
    ----------
    base : torch.optim.Optimizer
        The optimizer to take the steps, such as `SGD` or `AdamW`, of any implementation (foreach, fused).
    lam : number, schedule or callable of the step
        λ. Below zero it rewards a large gradient; a parameter group may have its own `"lam"`.
    nu : number, schedule or callable
        The weight ν of the difference, in the place of `lam`.
    r, rho, probe : number, schedule or callable
        The probe's length: s = r·g, ‖s‖ = ρ, or ‖s‖ = probe·‖x‖. By default the shortest at which the
        difference is accurate (`PROBE`, by `dtype`) and at which ν need not be cut to `nu_max`.
    mode : "difference" or "exact"
        Exact takes 2λ·Hg by a second backward pass; the closure must call `backward(create_graph=True)`.
    nu_max, probe_max : float or None
        Limits on the |ν| that a λ leads to and on ‖s‖/‖x‖: a large gradient cannot throw the weights.
    phase : "full", "early" or "late"
        Penalise all steps (the default), or only the first or last `fraction` of the `steps`.
    fraction, steps
        Of a phase; and the length of the training.
    from_, until, every
        In the place of a phase: the first step to penalise, the first not to, and the distance between two.
    warmup : int
        Steps at the beginning that are never penalised.
    on_guard : "fallback", "stop" or "off"
        Where d would not descend f, ⟨g, d⟩ ≤ 0: take g for that step; or that, and end the penalty after
        `patience` such steps in a row; or take d all the same. A second pass that is not finite always leads
        to g. Under momentum or Adam the guard speaks of d, not of the step.
    patience : int
        See `on_guard`.
    max_norm : float, optional
        Clip d, and g in the other steps, to this norm just before the base takes it.
    model : Module, optional
        The network. It is needed for `perturbation="local"`; it makes the second pass cheaper and
        `torch.compile` quieter where there is normalisation with running statistics.
    perturbation : "global" or "local"
        With `DistributedDataParallel`: probe along the gradient of all ranks, or of each its own.
    eta : float, optional
        ASAM's η: probe along T²g, T = |x| + η, instead of g, with ‖s‖ measured as ‖s/T‖.
    replay : bool
        Let the second pass draw the random numbers of the first.
    dtype : torch.dtype, optional
        The precision of the passes, where it is not that of the parameters: `torch.bfloat16` under autocast.

    Examples
    --------
    >>> import torch
    >>> from steepen.torch import CGD
    >>> model = torch.nn.Linear(4, 1)
    >>> opt = CGD(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), lam=0.05)
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

    def __init__(
        self,
        base: Optimizer,
        lam: ScheduleLike | None = None,
        *,
        nu: ScheduleLike | None = None,
        r: ScheduleLike | None = None,
        rho: ScheduleLike | None = None,
        probe: ScheduleLike | None = None,
        mode: Mode = "difference",
        nu_max: float | None = 1.0,
        probe_max: float | None = 0.1,
        phase: Phase | None = None,
        fraction: float = 0.25,
        steps: int | None = None,
        from_: int | None = None,
        until: int | None = None,
        every: int = 1,
        warmup: int = 0,
        on_guard: OnGuard = "fallback",
        patience: int = 1,
        max_norm: float | None = None,
        model: nn.Module | None = None,
        perturbation: Perturbation = "global",
        eta: float | None = None,
        replay: bool = True,
        dtype: torch.dtype | None = None,
    ) -> None:
        lengths: dict[str, Any] = {"r": r, "rho": rho, "probe": probe}
        check(base, lam, nu, lengths, mode, max_norm, model, perturbation, eta, dtype)
        self.when = when(phase, fraction, steps, from_, until, every, warmup)
        self.exact = mode == "exact"
        self.family = Family.of(
            None if steps is None else int(min(self.when.end, steps)),
            lam=lam,
            nu=nu,
            **lengths,
            nu_max=None if self.exact else nu_max,
            probe_max=None if self.exact else probe_max,
        )
        # the groups' own values; Adadelta, for one, has a rho already
        self.key = self.family.key if self.family.key not in base.defaults else f"cgd_{self.family.key}"
        self.guard = Guard(on_guard, patience)
        self.max_norm = max_norm
        self.k = 0
        ddp: Any = model if isinstance(model, DistributedDataParallel) and perturbation == "local" else None
        self._local = ddp
        self._replay = Replay(model, rng=replay)
        self._difference = Difference(
            self.family, self.guard, self._replay, eta, dtype, None if ddp is None else ddp.process_group
        )
        self._loops = False  # the last step had no closure
        self._told = False  # that a schedule has ended
        self._inside = False  # a closure that we call is running
        self._cleared = False  # and has called zero_grad
        self._seen: Seen | None = None
        super().__init__(base)
        common = getattr(self.family, self.family.key)
        setattr(base, _COMMON, (self.key, common(0)) if isinstance(common, Constant) else None)
        if next(self._params(), None) is None:
            raise ValueError("base: expected an optimizer of at least one parameter, got one of none")

    # -- groups and state -------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, to the base too; `"lam"` (or what stands for it) may differ from the others'.

        Examples
        --------
        >>> p, q = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
        >>> opt = CGD(torch.optim.SGD([p], lr=0.1), lam=0.1)
        >>> opt.add_param_group({"params": [q], "lam": 0.0})
        >>> [group["lam"] for group in opt.param_groups]
        [0.1, 0.0]
        """
        params = param_group["params"]
        params = param_group["params"] = [params] if isinstance(params, Tensor) else list(params)
        for p in params:
            if isinstance(p, Tensor) and p.is_complex():
                shape = tuple(p.shape)
                raise TypeError(f"base: expected real parameters, got one of {p.dtype} and shape {shape}")
            if hasattr(p, "_fsdp_flattened"):  # hides that it is a shard: norms would be wrong
                raise TypeError("base: expected parameters of fully_shard, got FullyShardedDataParallel's")
        key, common = self.key, getattr(self.family, self.family.key)
        own = param_group.get(key)
        if own is not None and self.base.__dict__.get(_COMMON) == (key, own):
            own = None  # it was put there by a CGD that was around this base before
        if own is not None and self.family.key in ("lam", "nu"):
            number(key, own, "a finite number for the group", above=-float("inf"))
        elif own is not None:
            number(key, own, "a number for the group, 0 or more", least=0)
        elif isinstance(common, Constant):
            own = common(0)
        self.base.add_param_group(param_group)
        param_group[key] = None if own is None else float(own)  # None: as the schedule says

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients. Called before a first pass, it also marks the random numbers to be replayed.

        After a second pass whose step was left out, as a `GradScaler` may do, it puts the weights back.

        Examples
        --------
        >>> p = torch.nn.Parameter(torch.ones(2))
        >>> CGD(torch.optim.SGD([p]), lam=0.1).zero_grad()
        """
        if not self._inside:
            if self._difference.pending and any(p.grad is not None for p in self._params()):
                self.restore()
            if not self._difference.pending and self.active and not self.exact:
                self._replay.mark(self._device())
        self._cleared = True
        if self._loops:
            renew(self._params())
        super().zero_grad(set_to_none)

    def _kind(self) -> dict[str, Any]:
        return {"base": type(self.base).__name__, "key": self.family.key, "exact": self.exact}

    def _save(self) -> dict[str, Any]:
        return {"k": self.k, **self.guard.state_dict()}

    def _load(self, own: dict[str, Any]) -> None:
        self.k = int(own["k"])
        self.guard.load_state_dict(own, self._device())
        self._difference.free()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up a state that `state_dict` gave; that of another optimizer is refused.

        Examples
        --------
        >>> p = torch.nn.Parameter(torch.ones(2))
        >>> CGD(torch.optim.SGD([p]), lam=0.1).load_state_dict(torch.optim.SGD([p]).state_dict())
        Traceback (most recent call last):
        ValueError: state_dict: expected one of CGD, which has a 'cgd' entry; got 'param_groups', 'state'. ...
        """
        if self._difference.pending:
            raise RuntimeError("load_state_dict() between probe() and step(): call restore() first")
        super().load_state_dict(state_dict)

    # -- the step ---------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether the next step is penalised, and so takes two gradients.

        Examples
        --------
        >>> p = torch.nn.Parameter(torch.ones(2))
        >>> CGD(torch.optim.SGD([p]), lam=0.1, warmup=5).active
        False
        """
        return (
            self.when.covers(self.k)
            and self.family.reaches(self.k)
            and not self.guard.poll()
            and any(self._strengths())
        )

    def _strengths(self) -> list[float]:
        """Give λ, or what stands for it, of each group at this step."""
        own = [group.get(self.key) for group in self.param_groups]
        for one in own:
            if one is not None and not (isinstance(one, int | float) and math.isfinite(one)):
                raise ValueError(f"{self.key}: expected a finite number for the group, got {one!r}")
        if None in own:
            value = self.family.strength(self.k)
            own = [value if one is None else one for one in own]
        return cast(list[float], own)

    def step(self, closure: Closure | None = None, *, scaler: Any = None) -> Any:  # pyright: ignore
        """Take one step, and give the loss of the first pass.

        Parameters
        ----------
        closure : callable
            Clears the gradients, computes the loss of one batch, calls `backward` and returns the loss. It is
            called twice in a penalised step, at other weights; all it does must be repeatable. Without one,
            the gradients are those of a `probe()` and a second backward pass.
        scaler : torch.amp.GradScaler, optional
            The scaler whose scale the losses carry; it takes the step, and `update` is left to the caller.

        Examples
        --------
        >>> p = torch.nn.Parameter(torch.tensor([1.0]))
        >>> opt = CGD(torch.optim.SGD([p], lr=0.1), lam=0.05)
        >>> def closure():
        ...     opt.zero_grad()
        ...     loss = p.square().sum()
        ...     loss.backward()
        ...     return loss
        >>> opt.step(closure).item()
        1.0
        """
        if self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks:
            return self._hooked_step(closure, scaler=scaler)
        return self._step(closure, scaler=scaler)

    step.hooked = True  # pyright: ignore  # for torch: no wrapper, whose record costs more than all of the above

    @torch.no_grad()
    def _step(self, closure: Closure | None = None, *, scaler: Any = None) -> Any:
        pending = self._difference.pending
        if pending and closure is None:
            self._refuse_other(scaler)
        active = pending or self.active
        if not active:
            if not self.when.pauses(self.k):
                self._difference.free()
            if not self._told and self.k >= self.family.length and self.when.covers(self.k):
                self._told = True
                end = int(self.family.length)
                warnings.warn(f"a schedule has ended at step {end}: the base goes on alone", stacklevel=4)
            if closure is not None:
                LeftOver(self._params())  # a closure need not clear, on or off
            if closure is not None and scaler is None and self.max_norm is None:
                loss = self.base.step(closure)
                self._done(closure)
                return loss
        loss = None
        if closure is not None:
            if pending:
                raise RuntimeError("step(closure) after probe(): the second gradient is due, then step()")
            loss = self._passes(closure, scaler) if active else self._call(closure)
        elif pending:
            self._seen = self._difference.finish(self.param_groups)
        elif active and self.exact:
            self._seen = curve(self.param_groups, self._strengths(), self.guard, scaler, self)
        elif active:
            raise RuntimeError(
                "step() needs a second gradient here: pass a closure, or call probe() after backward(), then "
                "backward() once more"
            )
        self._take(scaler, unscaled=active)
        self._done(closure)
        return loss

    _hooked_step = Optimizer.profile_hook_step(_step)

    @torch.no_grad()
    def probe(self, *, scaler: Any = None) -> bool:
        """Move the weights to x + s, for loops that cannot pass a closure; then a second pass, then `step()`.

        Parameters
        ----------
        scaler : torch.amp.GradScaler, optional
            The scaler whose scale the losses carry.

        Returns
        -------
        bool
            Whether a second pass is wanted: False while the penalty is off, and nothing is moved.

        Examples
        --------
        >>> p = torch.nn.Parameter(torch.ones(2))
        >>> opt = CGD(torch.optim.SGD([p], lr=0.1), lam=0.05)
        >>> for _ in range(3):
        ...     opt.zero_grad()
        ...     p.square().sum().backward()
        ...     if opt.probe():
        ...         p.square().sum().backward()
        ...     opt.step()
        """
        if self.exact:
            raise RuntimeError("probe() in the exact mode: call backward(create_graph=True), then step()")
        if self._local is not None and not self._inside:
            raise RuntimeError(
                "probe() with perturbation='local': pass step() a closure, whose first pass is kept local"
            )
        if not self._difference.pending and not self.active:
            return False
        self._difference.probe(self.param_groups, self._strengths(), self.k, scaler, self, fresh=False)
        return True

    def restore(self) -> None:
        """Put the weights back to where they were before `probe()`, bit for bit, and the first gradient too.

        Examples
        --------
        >>> p = torch.nn.Parameter(torch.tensor([0.1]))
        >>> opt = CGD(torch.optim.SGD([p], lr=0.1), lam=0.05)
        >>> p.square().sum().backward()
        >>> _ = opt.probe()
        >>> opt.restore()
        >>> p.item() == torch.tensor(0.1).item()
        True
        """
        self._difference.restore()

    def _passes(self, closure: Closure, scaler: Any) -> Any:
        """Run the passes of a penalised step; d is then in the place of the gradient."""
        old = LeftOver(self._params())
        if self.exact:
            loss = self._call(closure)
            old.refuse(self._params(), cleared=self._cleared)
            self._seen = curve(self.param_groups, self._strengths(), self.guard, scaler, self)
            return loss
        self._replay.mark(self._device())
        if self._local is None:
            loss = self._call(closure)
        else:
            with self._local.no_sync():
                loss = self._call(closure)
        old.refuse(self._params(), cleared=self._cleared)
        try:
            self._difference.probe(self.param_groups, self._strengths(), self.k, scaler, self, fresh=True)
            self._call(closure)
            self._seen = self._difference.finish(self.param_groups)
        except BaseException:
            self.restore()
            spend(self._params(), one=True)  # the next step may drop it
            raise
        return loss

    def _call(self, closure: Closure) -> Any:
        self._inside, self._cleared = True, False
        try:
            with torch.enable_grad():
                if not self.exact:
                    return closure()
                with warnings.catch_warnings():  # torch warns of a cycle, which we break
                    warnings.filterwarnings("ignore", "Using backward\\(\\) with create_graph=True")
                    return closure()
        finally:
            self._inside = False

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """For torch: after a probe, let a `GradScaler` call `step` whatever the gradients are."""
        return self._difference.pending

    def _refuse_other(self, scaler: Any) -> None:
        """Refuse a scaler at the second gradient that was not there at the first, or calls us itself."""
        calls = "found_inf" in self.__dict__
        for name in ("found_inf", "grad_scale"):
            self.__dict__.pop(name, None)
        if calls or scaler is not self._difference.scaler:
            self.restore()
            raise RuntimeError(
                "a GradScaler belongs to both halves of a step: probe(scaler=scaler), then "
                "step(scaler=scaler), which calls scaler.step() itself"
            )

    def _done(self, closure: Closure | None) -> None:
        torch.clear_autocast_cache()  # it holds the weights before the step
        # a loop may bring some gradients and not others; a closure brings all of them anew, or none
        spend(self._params(), one=closure is not None)
        self._loops = closure is None
        self.k += 1
        if (
            self._loops and self.active and not self.exact
        ):  # a loop may clear in another way than by zero_grad
            self._replay.mark(self._device())

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
        """What the last penalised step was like, as tensors on the device; None before there was one.

        Examples
        --------
        >>> p = torch.nn.Parameter(torch.tensor([2.0]))
        >>> opt = CGD(torch.optim.SGD([p], lr=0.1), lam=0.05)
        >>> p.square().sum().backward()
        >>> _ = opt.probe()
        >>> p.square().sum().backward()
        >>> opt.step()
        >>> round(opt.diagnostics.read()["curvature"], 3)
        2.0
        """
        if self._seen is None or self.guard.counts is None:
            return None
        lr = self.param_groups[0]["lr"]
        lr = lr.reshape(()) if isinstance(lr, Tensor) else lr
        return self._seen.diagnostics(self.guard.counts, lr, exact=self.exact)

    def log(self, writer: Writer, step: int | None = None, prefix: str = "cgd/") -> None:
        """Write the diagnostics to TensorBoard, or to anything else with `add_scalar`.

        Examples
        --------
        >>> class Lines:
        ...     def add_scalar(self, tag, scalar_value, global_step=None):
        ...         print(tag, scalar_value, global_step)
        >>> CGD(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))]), lam=0.1).log(Lines())
        """
        seen = self.diagnostics
        if seen is not None:
            for name, value in seen.read().items():
                writer.add_scalar(prefix + name, value, self.k if step is None else step)
