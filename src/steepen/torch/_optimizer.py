"""CGD around any optimizer of torch.optim."""

from __future__ import annotations

import math
from typing import Any, Literal, Unpack, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from .._tools.check import number
from ..schedules import Constant, ScheduleLike
from ._arguments import Flat, Mode, Strength, check, rule_of, sort
from ._auto import START, Gauge, Steering, is_loss, judging, ranks_of
from ._difference import Difference, Stage
from ._family import Family, Probe
from ._guard import Guard, OnGuard
from ._numbers import Diagnostics, diagnose
from ._passes import Passes
from ._replay import Replay, Which
from ._steps import Steps
from ._when import When

__all__ = ["CGD"]

_COMMON = "_steepen_common"  # set on a base: the values that its groups have from us
_SILENT = 2000  # steps without a report, after which there is a warning
_KEYS = ("lam", "nu", "r", "rho", "probe")
_GONE = {  # what others have
    "first_step": "probe(), after the first backward pass",
    "second_step": "step(), after the second backward pass; then zero_grad()",
    "base_optimizer": "base",
}


class CGD(Steps):
    """Steps of any optimizer of `torch.optim`, on the landscape f + λ‖∇f‖².

    A penalised step takes two gradients: g at the weights x, g⁺ at x + s with s = c·g. The base optimizer is
    then handed d = g + ν(g⁺ − g) in the place of g. With `share`, s comes from a part of the batch, and the
    base is handed g⁺ of all of it. Steps that are not penalised are the base's own.

    Parameters
    ----------
    base : torch.optim.Optimizer
        The optimizer to take the steps, such as `SGD` or `AdamW`, of any implementation (foreach, fused).
    strength : "auto" or ByGap
        Let the probe, from a sixteenth of the batch, raise the loss by a part of the generalisation gap: the
        default where none of `lam`, `nu`, `r`, `rho` and `probe` is given. It needs a `gauge` or `report`.
    gauge : callable
        Returns the mean loss on held-out data. It is called after every hundredth step, without gradients
        and with `model` in eval mode.
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
        strength: Strength = None,
        gauge: Gauge | None = None,
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
        given = {**flat, "lam": lam, "nu": nu, "mode": mode}
        rule = rule_of(strength, gauge, probe, given)
        self.to, self.when = sort(
            probe, when, cast(dict[str, Any], flat), exact=self.exact, auto=rule is not None
        )
        self.kind = "exact" if self.exact else self.to.kind
        on_guard = on_guard or ("off" if self.to.alone else "fallback")
        check(base, lam, nu, self.to, mode, on_guard, max_norm, model, replay)
        steps = self.when.steps
        self.family = Family.of(
            None if steps is None else int(min(self.when.end, steps)),
            self.to,
            lam=lam,
            nu=nu if rule is None else 1.0,
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
        most = (self.to.probe_max or math.inf) / START
        self._steering = None if rule is None else Steering(rule, gauge, steps, most)
        self._difference = Difference(
            self.to, self.family, self.guard, self._replay, self._passes, ranks, self._steering
        )
        self._heard, self._told, self._asked, self._seen = [], set(), False, None
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
        key = self.family.key if self._steering is None else "auto"
        return {"base": type(self.base).__name__, "key": key, "exact": self.exact}

    def _save(self) -> dict[str, Any]:
        common = getattr(self.base, _COMMON, {}).get(self.key)
        steering = {} if self._steering is None else self._steering.state_dict()
        return {"k": self.k, "common": common, **self.guard.state_dict(), **steering}

    def _load(self, own: dict[str, Any]) -> None:
        self.k = int(own["k"])
        self.guard.load_state_dict(own, self._device())
        if self._steering is not None:
            self._steering.start(self._device())
            self._steering.load_state_dict(own)
        self._difference.release()
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

    # -- the gap ----------------------------------------------------------------------------------------

    def _steer(self, steering: Steering, loss: object) -> None:
        """Take note of the loss, and read the gauge when it is time."""
        steering.start(self._device())
        steering.saw(loss)
        if steering.gauge is not None and self.k % steering.rule.every == 0:
            with judging(self.model):
                held_out = steering.gauge()
            self.report(held_out)
        if self.k == _SILENT and not steering.told:
            self._warn(
                f"strength='auto' has heard of no loss on held-out data in {_SILENT} steps, and the base "
                "goes on alone: give gauge=, or call report()",
                7,
            )

    def report(self, held_out: Any, training: Any = None) -> None:
        """Tell the loss on held-out data, between two steps; `strength="auto"` sets the probe by it.

        It takes two steps to be heard. With several processes each must call it, with a loss of its own or
        with the same; the mean counts.

        Parameters
        ----------
        held_out : number or tensor
            The mean loss on data that is not trained on, with `model` in eval mode.
        training : number or tensor, optional
            The mean loss on training data; by default a running mean of what closures, or `step_on`, have
            returned. Loops without a closure must give it.

        Examples
        --------
        >>> model = torch.nn.Linear(2, 1)
        >>> opt = CGD(torch.optim.SGD(model.parameters(), lr=0.1), model=model)
        >>> loss = opt.step_on(lambda x: model(x).square().mean(), torch.ones(32, 2))
        >>> opt.report(loss + 0.3)
        """
        if self._steering is None:
            raise RuntimeError(f"report() with {self.key}=: only strength='auto' makes use of it")
        if self._difference.moved:
            raise RuntimeError("report() between probe() and step(): call it after the step")
        for name, value in (("held_out", held_out), ("training", training)):
            if not (is_loss(value) or (name == "training" and value is None)):
                raise TypeError(f"{name}: expected a mean loss, one number; got {value!r}")
        if training is None and not self._steering.saw_loss:
            raise ValueError(
                "training: expected the mean loss on training data, as no closure has returned one"
            )
        self._steering.start(self._device())
        ranks = ranks_of(self.model, next(self._params()))
        with torch.no_grad():
            self._steering.report(held_out, training, self.k, ranks)

    @property
    def gap(self) -> float:
        """The generalisation gap as `strength="auto"` has heard of it; NaN before a report, or without."""
        return math.nan if self._steering is None else self._steering.gap

    @property
    def rise(self) -> Tensor:
        """How much the probe raises the loss, a running mean on the device; NaN before, or without, a gap."""
        return torch.tensor(math.nan) if self._steering is None else self._steering.rise.clone()

    # -- what was seen ----------------------------------------------------------------------------------

    @property
    def diagnostics(self) -> Diagnostics | None:
        """What the last penalised step was like, as tensors on the device; None before there was one."""
        if self._seen is None or self.guard.counts is None:
            return None
        told, along_g = self._seen
        return diagnose(told, self.guard.counts, self.param_groups[0].get("lr"), self.kind, along_g=along_g)

    def log(self, writer: Any, step: int | None = None, prefix: str = "cgd/") -> None:
        """Write the diagnostics, and `gap` and `rise`, to TensorBoard or anything else with `add_scalar`."""
        seen = self.diagnostics
        told = {} if seen is None else seen.read()
        if self._steering is not None:
            told |= {"gap": self.gap, "rise": float(self.rise)}
        for name, value in told.items():
            writer.add_scalar(prefix + name, value, self.k if step is None else step)
