"""What `CGD` is told: sorted into a `Probe` and a `When`, and refused where it does not fit."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal, TypeAlias, TypedDict, get_args

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import LBFGS, Optimizer

from .._tools.check import number
from ..schedules import ScheduleLike
from ._auto import SHARE, START, ByGap
from ._family import Perturbation, Probe
from ._replay import Which
from ._when import Phase, When

__all__ = ["Flat", "Mode", "Strength", "check", "rule_of", "sort"]

Mode: TypeAlias = Literal["difference", "exact"]
Strength: TypeAlias = Literal["auto"] | ByGap | None


class Flat(TypedDict, total=False):
    """What may be said without a `Probe` and a `When`: their fields, by name."""

    r: ScheduleLike | None
    rho: ScheduleLike | None
    share: float
    eta: float | None
    probe_max: float | None
    perturbation: Perturbation
    dtype: torch.dtype | None
    phase: Phase | None
    fraction: float
    steps: int | None
    from_: int | None
    until: int | None
    every: int
    warmup: int


_WHEN = {field.name for field in fields(When) if field.init}
_ELSEWHERE = {  # what others call it
    "adaptive": "use ASAM(base, rho, eta=0)",
    "base_optimizer": "pass an instance as the first argument, SAM(SGD(params, lr=0.1), rho=0.05)",
    "lr": "it belongs to the base, SGD(params, lr=0.1)",
    "momentum": "it belongs to the base, SGD(params, lr=0.1, momentum=0.9)",
    "weight_decay": "it belongs to the base",
}


def rule_of(strength: object, gauge: object, probe: object, given: dict[str, Any]) -> ByGap | None:
    """Return the rule that sets the strength, which is the default; None where a strength is given."""
    named = [name for name in ("lam", "nu", "r", "rho") if given.get(name) is not None]
    open_ = isinstance(probe, Probe) and not probe.lengths and probe.along == "gradient"
    if probe is not None and not open_:
        named.append("probe")
    if given["mode"] == "exact":
        named.append("mode")
    if not (strength is None or strength == "auto" or isinstance(strength, ByGap)):
        raise TypeError(
            f"strength: expected 'auto' or a ByGap, got {strength!r}; a number is lam=, rho= or probe="
        )
    if strength is not None and named:
        raise ValueError(f"{named[0]}: strength={strength!r} sets the probe by itself; give one of them")
    if gauge is not None and named:
        raise ValueError(f"gauge: it is read where strength='auto', and here {named[0]}= is given")
    if gauge is not None and not callable(gauge):
        raise TypeError(f"gauge: expected a callable that returns the loss on held-out data, got {gauge!r}")
    return None if named else strength if isinstance(strength, ByGap) else ByGap()


def sort(
    probe: Any, when: When | None, flat: dict[str, Any], *, exact: bool, auto: bool
) -> tuple[Probe, When]:
    """Make a `Probe` and a `When` of what was given one by one."""
    for name in flat:
        if name not in Flat.__annotations__:
            hint = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            raise TypeError(f"{name}: not an option here{hint}")
    times = {name: value for name, value in flat.items() if name in _WHEN}
    places: dict[str, Any] = {name: value for name, value in flat.items() if name not in _WHEN}
    given: object = when
    if given is not None and not isinstance(given, When):
        raise TypeError(f"when: expected a When, got {given!r}")
    for whole, parts in ((when, times), (probe, places)):
        if parts and isinstance(whole, When | Probe):
            name = type(whole).__name__
            raise ValueError(
                f"{next(iter(parts))}: it belongs into {name.lower()}={name}(...), which is given"
            )
    if isinstance(probe, str):
        if probe != "momentum":
            raise TypeError(f"probe: expected a length, 'momentum' or a Probe, got {probe!r}")
        places["along"] = probe
    elif not isinstance(probe, Probe):
        places["relative"] = probe
    if exact:
        places = {"probe_max": None} | places
    if auto:
        places = {"share": SHARE} | places | {"relative": START}
    where = probe if isinstance(probe, Probe) else Probe(**places)
    if auto and isinstance(probe, Probe):
        where = replace(probe, relative=START)
    if auto and where.kind != "share":
        raise ValueError("share: strength='auto' takes the probe from a part of the batch; expected below 1")
    return where, When(**times) if when is None else when


def check(
    base: object,
    lam: object,
    nu: object,
    probe: Probe,
    mode: str,
    on_guard: str,
    max_norm: float | None,
    model: object,
    replay: Which,
) -> None:
    """Refuse what does not fit, by the argument's name."""
    if not isinstance(base, Optimizer):
        raise TypeError(
            f"base: expected an instance of an optimizer of torch.optim, got {base!r}; such as "
            "SGD(params, lr=0.1)"
        )
    if isinstance(base, LBFGS) or hasattr(base, "base"):
        raise TypeError(f"base: expected an optimizer of one gradient a step, got {type(base).__name__}")
    if mode not in get_args(Mode):
        raise ValueError(f"mode: expected 'difference' or 'exact', got {mode!r}")
    if mode == "exact":
        numbers = {"nu": nu, "eta": probe.eta, **probe.lengths}
        given = [name for name, value in numbers.items() if value is not None]
        given += ["share" if probe.kind == "share" else "probe"] * probe.alone
        if lam is None or given:
            name = given[0] if given else "lam"
            raise ValueError(f"{name}: the exact mode has no probe and is set by lam alone")
    if max_norm is not None:
        number("max_norm", max_norm, "a positive number", above=0)
    if model is not None and not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {model!r}")
    if replay not in (True, False, "all"):
        raise ValueError(f"replay: expected True, False or 'all', got {replay!r}")
    if probe.kind == "share" and on_guard == "fallback":
        raise ValueError(
            "on_guard: with share= there is no gradient of the whole batch to fall back to; expected 'stop' "
            "or 'off'"
        )
    if probe.kind == "momentum":
        if on_guard != "off":
            raise ValueError(f"on_guard: a probe along the momentum is not judged; got {on_guard!r}")
        if all(group.get("momentum", 1) == 0 for group in base.param_groups):
            name = type(base).__name__
            raise ValueError(f"base: probe='momentum' needs a base with momentum, got {name} with momentum=0")
    wrapped = isinstance(model, DistributedDataParallel)
    if probe.perturbation == "local" and not wrapped:
        came = "no model" if model is None else f"a {type(model).__name__}"
        raise ValueError(f"model: perturbation='local' needs one in DistributedDataParallel, got {came}")
    for flag in ("find_unused_parameters", "static_graph"):
        if probe.perturbation == "local" and getattr(model, flag, False):
            raise ValueError(f"model: perturbation='local' does not go with {flag}=True of its DDP")
    if mode == "exact" and wrapped:
        raise ValueError("mode: DistributedDataParallel has no second derivative; use mode='difference'")
