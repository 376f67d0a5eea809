"""SAM and MSAM, for training loops: the ascent step's length and direction; all else is in the base class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..schedules import ScheduleLike
from ._ascent import AscentOptimizer, When
from ._tensors import norm
from ._wrapper import Base, strength_of


class SAM(AscentOptimizer):
    """Sharpness-aware minimisation: the base uses the gradient at x + ρ·g/‖g‖ (Foret et al., 2021).

    Parameters
    ----------
    rho : number, schedule or callable of the step
        ρ, the length of the ascent step.
    base, model, ascent_fraction, when, max_norm
        As in `AscentOptimizer`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(4, 1)
    >>> opt = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=0.05, ascent_fraction=1 / 16)
    >>> loss = opt.step_on(lambda x: model(x).square().mean(), torch.randn(64, 4))
    >>> opt.report().gradients
    1.0625
    """

    def __init__(
        self,
        base: Base,
        model: nn.Module,
        rho: ScheduleLike = 0.05,
        *,
        ascent_fraction: float = 1.0,
        when: When = None,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(base, model, ascent_fraction=ascent_fraction, when=when, max_norm=max_norm)
        self.rho = strength_of("rho", rho, least=0)

    def _perturbation(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        return self.rho(self.k) / n, None  # where g is 0 there is no direction: c is not finite, and no move


class MSAM(SAM):
    """Momentum SAM: the gradient at x − ρ·v/‖v‖, v the momentum buffer of the base (Becker et al., 2024).

    One gradient per step. Until the base has a buffer, steps are plain steps of the base.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1)
    >>> opt = MSAM(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model, rho=0.3)
    """

    needs_ascent_pass = False

    def __init__(self, base: Base, model: nn.Module, rho: ScheduleLike = 0.3, *, when: When = None) -> None:
        super().__init__(base, model, rho, when=when)
        names = ("momentum", "betas", "beta1")
        if not any(group.get(name) for group in self.param_groups for name in names):
            raise ValueError(f"base: expected an optimizer with momentum, got {type(base).__name__} without")

    def _ascent(self) -> tuple[list[Tensor], list[Tensor], Tensor]:
        states: list[tuple[Tensor, dict[str, Any]]] = [(p, self.state.get(p, {})) for p in self._params()]
        found = [(p, state.get("momentum_buffer", state.get("exp_avg"))) for p, state in states]
        along = [buffer.clone() for _, buffer in found if buffer is not None]
        return [p for p, buffer in found if buffer is not None], along, norm(along or [torch.zeros(())])

    def _unit(self) -> Any:
        return 1.0  # the buffer is not scaled as the loss is

    def _perturbation(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        return -self.rho(self.k) / n, None
