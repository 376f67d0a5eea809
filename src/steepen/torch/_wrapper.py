"""An optimizer around another: its groups and its state are the other's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from ._private import hooks

__all__ = ["Wrapper"]


class Wrapper(Optimizer):
    """What any optimizer around another needs; a subclass adds the step, and what it keeps itself."""

    def __init__(self, base: Optimizer) -> None:
        self.base = base
        groups, state = base.param_groups, base.state
        try:
            super().__init__(groups, base.defaults)
        finally:
            base.param_groups, base.state = groups, state  # torch has made new ones for us

    def _kind(self) -> dict[str, Any]:
        """Give what must be the same where a state is loaded."""
        raise NotImplementedError

    def _save(self) -> dict[str, Any]:
        """Give what a resumed run needs beside the base's state."""
        raise NotImplementedError

    def _load(self, own: dict[str, Any]) -> None:
        """Take it up."""
        raise NotImplementedError

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The base's parameter groups."""
        return self.base.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:  # pyright: ignore  # torch has a variable
        self.base.param_groups = groups

    @property
    def state(self) -> Any:
        """The base's state of each parameter."""
        return self.base.state

    @state.setter
    def state(self, state: Any) -> None:  # pyright: ignore  # likewise
        self.base.state = state

    def state_dict(self) -> dict[str, Any]:
        """Return the base's state, with our own in its groups; a run that loads it goes on bit for bit.

        In the groups, as what saves the states of sharded models looks nowhere else.
        """
        for hook in hooks(self, "state_dict_pre"):
            hook(self)
        state: dict[str, Any] = dict(self.base.state_dict())
        own = self._kind() | self._save()
        state["param_groups"] = [{**group, "cgd": own} for group in state["param_groups"]]
        for hook in hooks(self, "state_dict_post"):
            state = hook(self, state) or state
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up a state that `state_dict` gave; that of another optimizer is refused."""
        given: Any = state_dict
        if not isinstance(given, dict):
            raise TypeError(f"state_dict: expected what state_dict() gave, got {given!r}")
        state_dict = state_dict.copy()
        for hook in hooks(self, "load_state_dict_pre"):
            state_dict = hook(self, state_dict) or state_dict
        groups: list[dict[str, Any]] = state_dict.get("param_groups", [])
        entry = groups[0].get("cgd") if groups else None
        own = cast(dict[str, Any], entry if isinstance(entry, dict) else {})
        for name, value in self._kind().items():
            if name in own and own[name] != value:
                raise ValueError(f"state_dict: expected {name} {value!r}, as here; got {own[name]!r}")
        if not (self._kind() | self._save()).keys() <= own.keys():
            names = ", ".join(repr(name) for name in sorted(state_dict)) or "nothing"
            raise ValueError(
                f"state_dict: expected one of CGD, whose groups have a 'cgd' entry; got {names}. That of a "
                "bare optimizer goes into .base"
            )
        bare = [{name: value for name, value in group.items() if name != "cgd"} for group in groups]
        self.base.load_state_dict({**state_dict, "param_groups": bare})
        self._load(own)
        for hook in hooks(self, "load_state_dict_post"):
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "step"}  # a scheduler's

    def _params(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]

    def _device(self) -> torch.device:
        device = next(self._params()).device
        if device.type == "meta":
            raise ValueError("base: expected parameters with values, got some on the meta device")
        return device
