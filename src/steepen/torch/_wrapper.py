"""An optimizer around another: its groups and its state are the other's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

__all__ = ["Wrapper"]


class Wrapper(Optimizer):
    """What any optimizer around another needs; a subclass adds the step, and what it keeps itself.

    Parameters
    ----------
    base : torch.optim.Optimizer
        The other one. Whatever happens to its groups or its state, also behind our back, is seen here.
    """

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
        """Give the base's state and our own; a run that loads it goes on bit for bit."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        state: dict[str, Any] = dict(self.base.state_dict())
        state["cgd"] = self._kind() | self._save()
        for hook in self._optimizer_state_dict_post_hooks.values():
            state = hook(self, state) or state
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up a state that `state_dict` gave; that of another optimizer is refused."""
        given: Any = state_dict
        if not isinstance(given, dict):
            raise TypeError(f"state_dict: expected what state_dict() gave, got {given!r}")
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = hook(self, state_dict) or state_dict
        entry = state_dict.get("cgd")
        own = cast(dict[str, Any], entry if isinstance(entry, dict) else {})
        if not (self._kind() | self._save()).keys() <= own.keys():
            names = ", ".join(repr(name) for name in sorted(state_dict)) or "nothing"
            raise ValueError(
                f"state_dict: expected one of CGD, which has a 'cgd' entry; got {names}. That of a bare "
                "optimizer goes into .base"
            )
        for name, value in self._kind().items():
            if own[name] != value:
                raise ValueError(f"state_dict: expected {name} {value!r}, as here; got {own[name]!r}")
        self.base.load_state_dict({name: value for name, value in state_dict.items() if name != "cgd"})
        self._load(own)
        for hook in self._optimizer_load_state_dict_post_hooks.values():
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
