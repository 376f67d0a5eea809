"""Several optimizers as one: each steps its own parameters of a network, such as Muon and AdamW."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

__all__ = ["Base", "Joined"]

Base = Optimizer | Sequence[Optimizer]


class Joined(Optimizer):
    """The parts share their groups and their state with it, so a schedule or a checkpoint is of all."""

    def __init__(self, parts: Sequence[Optimizer]) -> None:
        self.parts: Sequence[Optimizer] = ()
        super().__init__([group for part in parts for group in part.param_groups], {})
        for part in parts:
            self.state.update(part.state)
        self.parts = parts
        self._share()

    def _share(self) -> None:
        at = 0
        for part in self.parts:
            many = len(part.param_groups)
            part.param_groups = self.param_groups[at : at + many]
            part.state = self.state
            at += many

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self.parts and all(param_group is not one for part in self.parts for one in part.param_groups):
            raise TypeError("add_param_group: several optimizers are wrapped here; make them with all groups")
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._share()

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # pyright: ignore
        for part in self.parts:
            part.step()
