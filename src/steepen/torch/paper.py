"""The paper's methods with all their parameters, and published methods of the same family.

With s = c·g and g⁺ = ∇f(x + s) each passes d = g + ν(g⁺ − g) to the base, to first order the gradient of
f + λ‖∇f‖² with λ = νc/2. More published methods are settings of these: FGR (Karakida et al., 2023) is
`CGDFD(lam=γ/2, r=ε, guard=False)`, USAM (Andriushchenko and Flammarion, 2022) `CGDFD(lam=ρ/2, r=ρ,
guard=False)`, WSAM (Yue et al., 2023, with `decouple=False`) `GNP(rho=ρ, alpha=γ/(1 − γ))`.
For everyday use there are `steepen.torch.CGD`, `SAM` and `GapSAM`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from .._tools.check import number
from ..schedules import ScheduleLike as Value
from ._ascent import When
from ._cgd import Weighted
from ._sam import SAM
from ._tensors import norm
from ._wrapper import Base, strength_of

__all__ = ["ASAM", "CGDFD", "GNP", "MSAM"]


class CGDFD(Weighted):
    """CGD-FD with a given r: d = g + (2λ/r)(g⁺ − g) with g⁺ at x + r·g, and the paper's guard.

    ν = 2λ/r and the length r‖g‖ are not limited. `guard=False` uses d even if it is no descent direction.

    Examples
    --------
    >>> model = torch.nn.Linear(2, 1)
    >>> opt = CGDFD(torch.optim.SGD(model.parameters(), lr=0.1), model, lam=0.01, r=0.05)
    """

    def __init__(
        self, base: Base, model: Module, lam: Value, r: Value, *, guard: bool = True, when: When = None
    ) -> None:
        super().__init__(base, model, guard=guard, when=when)
        self.lam, self.r = strength_of("lam", lam), strength_of("r", r, above=0)

    def _perturbation(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        r = torch.full_like(n, self.r(self.k))
        return r, 2 * self.lam(self.k) / r


class GNP(Weighted):
    """Penalising the gradient norm: (1 − α)·g + α·g⁺ with g⁺ at x + ρ·g/‖g‖ (Zhao et al., 2022).

    Examples
    --------
    >>> model = torch.nn.Linear(2, 1)
    >>> opt = GNP(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=0.05, alpha=0.8)
    """

    def __init__(
        self, base: Base, model: Module, rho: Value = 0.05, alpha: Value = 0.8, *, when: When = None
    ) -> None:
        super().__init__(base, model, guard=False, when=when)
        self.rho, self.alpha = strength_of("rho", rho, least=0), strength_of("alpha", alpha)

    def _perturbation(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        return self.rho(self.k) / n, torch.full_like(n, self.alpha(self.k))


class ASAM(SAM):
    """Adaptive SAM: the gradient at x + ρ·T²g/‖Tg‖, T = |x| + η (Kwon et al., 2021).

    Examples
    --------
    >>> model = torch.nn.Linear(2, 1)
    >>> opt = ASAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=0.5)
    """

    def __init__(
        self, base: Base, model: Module, rho: Value = 0.5, eta: float = 0.01, *, when: When = None
    ) -> None:
        super().__init__(base, model, rho, when=when)
        number("eta", eta, "a number, 0 or more", least=0)
        self.eta = eta

    def _ascent(self) -> tuple[list[Tensor], list[Tensor], Tensor]:
        params, grads, _ = super()._ascent()
        scales = [p.abs() + self.eta for p in params]
        scaled = [t * g for t, g in zip(scales, grads, strict=True)]
        return params, [t * one for t, one in zip(scales, scaled, strict=True)], norm(scaled)


class MSAM(SAM):
    """Momentum SAM: the gradient at x − ρ·v/‖v‖, v the momentum buffer of the base (Becker et al., 2024).

    One gradient per step. Until the base has a buffer, steps are plain steps of the base.

    Examples
    --------
    >>> model = torch.nn.Linear(2, 1)
    >>> opt = MSAM(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model, rho=0.3)
    """

    needs_ascent_pass = False

    def __init__(self, base: Base, model: Module, rho: Value = 0.3, *, when: When = None) -> None:
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
