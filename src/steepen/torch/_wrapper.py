"""Base class of the optimizer with an ascent step: shares the base's groups and state; checks arguments."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NoReturn, Self, cast

import torch
from torch import Tensor, nn
from torch.optim import LBFGS, Optimizer

from .._tools.check import number
from ..schedules import ByCurvature, ScheduleLike, as_schedule
from ._means import Means

Base = Optimizer | Sequence[Optimizer]
_KEY = "steepen"  # of our own numbers in a state
_SETTINGS = frozenset({"rho", "adaptive", "alpha", "lam"})  # that others look for in parameter groups


def _of_base(name: str, doc: str) -> Any:
    return property(attrgetter(f"base.{name}"), lambda self, it: setattr(self.base, name, it), None, doc)


class Wrapper(Optimizer):
    """The parts common to all wrappers around an optimizer; `AscentOptimizer` adds the step."""

    saved: tuple[str, ...] = ("k", "perturbed", "gradients")  # what a resumed run needs, beside the base's
    param_groups = _of_base("param_groups", "The base's parameter groups.")
    state = _of_base("state", "The base's state of each parameter.")

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Catch the signature of other libraries, SAM(params, SGD, lr=0.1), with a helpful error."""
        if cls.__module__.startswith("steepen."):  # a subclass may have a signature of its own
            _optimizers(cls.__name__, args[0] if args else options.get("base"))
        return super().__new__(cls)

    def __init__(self, base: Base, model: nn.Module) -> None:
        parts = _optimizers(type(self).__name__, base)
        outside = _check([p for part in parts for group in part.param_groups for p in group["params"]], model)
        self.base: Optimizer = parts[0] if len(parts) == 1 else _Joined(parts)
        super().__setstate__({"defaults": self.base.defaults})  # what torch's __init__ does, but for groups
        self.model = model
        self.k: int = 0  # steps taken
        self.perturbed: int = 0  # those of them with an ascent step
        self.gradients: float = 0.0  # passes over a batch, the ascent step's counted by their examples
        self._warned: set[str] = set()  # what has been warned of
        if any(group.get("maximize") for group in self.param_groups):
            raise ValueError("base: expected an optimizer that minimises, got maximize=True; negate the loss")
        self._foreign = _SETTINGS.difference(*(part.defaults for part in parts))
        self._check_groups()
        self._device = self.device  # where our own tensors are
        text = f"model: {outside} of base's parameters are not in it; pass a Module with all networks trained"
        self._warn("outside", text, when=outside > 0)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters to the base."""
        self._check_groups(param_group)
        self.base.add_param_group(param_group)

    def _check_groups(self, *groups: dict[str, Any]) -> None:
        """Refuse a setting of ours in a parameter group, where it would have no effect."""
        for group in groups or self.param_groups:
            for name in self._foreign & group.keys():
                raise ValueError(
                    f"{name}: a parameter group has {name}={group[name]!r}, which would have no effect; "
                    f"expected an argument of {type(self).__name__}, the same for all groups"
                )

    def __setattr__(self, name: str, value: Any) -> None:
        """Set it on the optimizer itself: Lightning's objects have our class, but none of our attributes."""
        inner = vars(self).get("_optimizer", self)
        object.__setattr__(inner if hasattr(inner, name) else self, name, value)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self._params()).device

    def _move_to_device(self) -> None:
        """Move our own tensors to the device of the weights: the network may have been moved."""
        if self._device != self.device:
            self._device = self.device
            for name, value in list(vars(self).items()):
                if isinstance(value, Tensor | Means):
                    setattr(self, name, value.to(self.device))

    def _params(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]

    @property
    def own(self) -> Any:
        """The wrapper's own state, with `state_dict` and `load_state_dict`: for distributed checkpoints."""
        return SimpleNamespace(state_dict=self._own_state, load_state_dict=self._load_own_state)

    def _own_state(self) -> dict[str, Any]:
        """Return what a resumed run needs besides the base's state, by name, and the class it belongs to."""
        values = {name: getattr(self, name) for name in self.saved}
        return {"kind": type(self).__name__} | {
            name.lstrip("_"): value.cpu().clone() if isinstance(value, Tensor)
            else value.state_dict() if isinstance(value, Means) else value
            for name, value in values.items()
        }  # fmt: skip

    def _load_own_state(self, state: dict[str, Any]) -> None:
        """Load the result of `_own_state`."""
        kind, expected = state.get("kind"), type(self).__name__
        if kind != expected:
            raise ValueError(f"state_dict: expected that of {expected}, got that of {kind!r}")
        for name in self.saved:
            old, new = getattr(self, name), state[name.lstrip("_")]
            if isinstance(old, Means):
                old.load_state_dict(new)
            else:
                setattr(self, name, new.to(old) if isinstance(new, Tensor) else new)

    def state_dict(self) -> dict[str, Any]:
        """Return the base's state, with the wrapper's own added."""
        return {**self.base.state_dict(), _KEY: self._own_state()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state that `state_dict` returned; a run resumes bit for bit."""
        if _KEY not in state_dict:
            raise ValueError(
                "state_dict: expected one of this class, with an entry 'steepen', got another one; load the "
                "state of the bare optimizer into .base, the wrapper's own into .own"
            )
        own = self._own_state()
        self._load_own_state(state_dict[_KEY])
        try:
            self.base.load_state_dict({name: part for name, part in state_dict.items() if name != _KEY})
        except Exception:
            self._load_own_state(own)  # all or nothing
            raise

    def __reduce_ex__(self, protocol: Any) -> NoReturn:  # of copies and of pickle
        name = type(self).__name__
        raise TypeError(f"a copy of {name} would train the old network: create a new one, load_state_dict()")

    def _warn(self, what: str, text: str, *, when: bool = True) -> None:
        """Warn of something only once, even if the numbers in the text differ the next time."""
        if when and what not in self._warned:
            self._warned.add(what)
            warnings.warn(text, stacklevel=2)


class _Joined(Optimizer):
    """Several optimizers as one, such as Muon and AdamW: each steps its own parameters of a network.

    Groups and state are those that the parts have at the time: a part may be changed, saved and loaded.
    """

    param_groups: Any = property(lambda self: [g for part in self.parts for g in part.param_groups])
    state: Any = property(lambda self: {p: s for part in self.parts for p, s in part.state.items()})

    def __init__(self, parts: Sequence[Optimizer]) -> None:
        self.parts = parts
        common = set[str].intersection(*(set(part.defaults) for part in parts))
        super().__setstate__({"defaults": {name: parts[0].defaults[name] for name in common}})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        raise TypeError("add_param_group: several optimizers are wrapped; add the group to one of them")

    def __setstate__(self, state: dict[str, Any]) -> None:  # by load_state_dict, which has checked it
        groups = iter(state["param_groups"])
        for part in self.parts:
            own = [next(groups) for _ in part.param_groups]
            states = {p: state["state"][p] for g in own for p in g["params"] if p in state["state"]}
            part.__setstate__({"param_groups": own, "state": defaultdict(dict, states)})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore
        for part in self.parts:
            part.step()


def _optimizers(name: str, base: Any) -> list[Optimizer]:
    """Return the optimizers to wrap; raise an error for anything else, as in calls of other libraries."""
    parts: list[Any] = list(cast(Any, base)) if isinstance(base, list | tuple) else [base]
    for part in parts:
        if not isinstance(part, Optimizer):
            raise TypeError(
                "base: expected an instance of an optimizer of torch.optim, or a list of these, got "
                f"{type(part).__name__}; {name}(params, SGD, lr=…) is {name}(SGD(params, lr=…), model) here"
            )
        if isinstance(part, LBFGS | Wrapper):
            raise TypeError(f"base: {type(part).__name__} runs its own passes; use SGD, AdamW or similar")
    return parts


def _check(params: list[Any], model: Any) -> int:
    """Check that parameters can be perturbed and model is a network; count parameters not in it."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected the network, a torch.nn.Module; got {model!r}")
    if not 0 < (different := len(set(params))) == len(params):
        raise ValueError(f"base: expected parameters, each once; got {len(params)}, {different} different")
    for p in params:
        if hasattr(p, "_fsdp_flattened"):  # hides that it is a shard: norms would be wrong
            raise TypeError("base: expected parameters of fully_shard, got FullyShardedDataParallel's")
        if p.is_complex() or p.is_meta:
            kind = "on the meta device" if p.is_meta else f"of {p.dtype}"
            raise TypeError(f"base: expected real parameters with values, got one {kind}")
    outside = len(set(params) - set(model.parameters()))
    if outside == len(params):
        raise ValueError(
            "model: expected the network that base trains, got one with none of base's parameters; if "
            "a network is copied, sharded or moved, create base after that"
        )
    return outside


def strength_of(
    name: str, value: ScheduleLike, *, least: float = -math.inf, above: float = -math.inf
) -> Callable[[int], float]:
    """Return λ, ratio or r of `CGD`, or ρ of `SAM`, as a function of the step that checks the value."""
    what = "a number, 0 or more" if least == 0 else "a positive number" if above == 0 else "a finite number"
    schedule = as_schedule(value, name)
    if isinstance(schedule, ByCurvature):
        raise ValueError(f"{name}: a schedule by the curvature needs the Hessian, which is not available")

    def at(k: int) -> float:
        strength = float(schedule(k))
        number(name, strength, f"{what}, at step {k}", least=least, above=above)
        return strength

    at(0)  # raises an error for what is wrong from the start
    return at
