"""Published methods, each a setting of the one family."""

from __future__ import annotations

from typing import Any

import torch

from .._tools.check import number
from ..schedules import Mapped, ScheduleLike, as_schedule
from ._optimizer import CGD

__all__ = ["ASAM", "EGR", "FGR", "GNP", "MSAM", "SAM", "USAM", "WSAM"]


def _half(value: float) -> float:
    return value / 2


_PUBLISHED: dict[str, Any] = {"on_guard": "off", "nu_max": None, "probe_max": None}


class SAM(CGD):
    """Sharpness-aware minimisation: the gradient at x + ρ·g/‖g‖ (Foret et al., 2021).

    Its penalty is ρ‖∇f‖, to first order. Options of `CGD` are taken too; as published there is no guard.

    Examples
    --------
    >>> SAM(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1), rho=0.05).active
    True
    """

    def __init__(self, base: torch.optim.Optimizer, rho: ScheduleLike = 0.05, **options: Any) -> None:
        super().__init__(base, nu=1.0, rho=rho, **_PUBLISHED | options)


class USAM(CGD):
    """Unnormalised SAM: the gradient at x + ρ·g (Andriushchenko and Flammarion, 2022); its λ is ρ/2.

    Examples
    --------
    >>> USAM(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1), rho=0.1).active
    True
    """

    def __init__(self, base: torch.optim.Optimizer, rho: ScheduleLike = 0.1, **options: Any) -> None:
        super().__init__(base, nu=1.0, r=rho, **_PUBLISHED | options)


class GNP(CGD):
    """Penalising the gradient norm: (1 − α)·g + α·g⁺ with g⁺ at x + ρ·g/‖g‖ (Zhao et al., 2022).

    Examples
    --------
    >>> GNP(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1), rho=0.05, alpha=0.8).active
    True
    """

    def __init__(
        self, base: torch.optim.Optimizer, rho: ScheduleLike = 0.05, alpha: ScheduleLike = 0.8, **options: Any
    ) -> None:
        super().__init__(base, nu=alpha, rho=rho, **_PUBLISHED | options)


class ASAM(CGD):
    """Adaptive SAM: the gradient at x + ρ·T²g/‖Tg‖, T = |x| + η (Kwon et al., 2021).

    Examples
    --------
    >>> ASAM(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1), rho=0.5).active
    True
    """

    def __init__(
        self, base: torch.optim.Optimizer, rho: ScheduleLike = 0.5, eta: float = 0.01, **options: Any
    ) -> None:
        super().__init__(base, nu=1.0, rho=rho, eta=eta, **_PUBLISHED | options)


class WSAM(CGD):
    """Weighted SAM: (1 − 2γ)/(1 − γ)·g + γ/(1 − γ)·g⁺ with g⁺ at x + ρ·g/‖g‖ (Yue et al., 2023).

    So ν = γ/(1 − γ). As published with `decouple=False`: the base is handed the sum. (Decoupled, it is
    handed g alone.)

    Examples
    --------
    >>> opt = WSAM(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1), rho=0.05, gamma=0.9)
    >>> round(opt.family.strength(0), 2), round(opt.family.nu(0), 2)
    (0.05, 9.0)
    """

    def __init__(
        self, base: torch.optim.Optimizer, rho: ScheduleLike = 0.05, gamma: float = 0.9, **options: Any
    ) -> None:
        number("gamma", gamma, "a number, 0 or more and below 1", least=0, below=1)
        super().__init__(base, nu=gamma / (1 - gamma), rho=rho, **_PUBLISHED | options)


class MSAM(CGD):
    """Momentum SAM: the gradient at x − ρ·v/‖v‖, v the momentum buffer of the base (Becker et al., 2024).

    One gradient a step. With `model` the loop is the base's own; without, a closure or `probe()` is needed.
    Steps before the base has a buffer, and those of the `warmup`, are the base's.

    Examples
    --------
    >>> base = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9)
    >>> MSAM(base, rho=0.3).active
    False
    """

    def __init__(self, base: torch.optim.Optimizer, rho: ScheduleLike = 0.3, **options: Any) -> None:
        super().__init__(base, probe="momentum", rho=rho, **_PUBLISHED | options)


class FGR(CGD):
    """Gradient regularisation by a forward difference (Karakida et al., 2023).

    The direction is g + (γ/ε)(g⁺ − g), with g⁺ at x + ε·g; its penalty is (γ/2)‖∇f‖².

    Examples
    --------
    >>> FGR(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1), eps=0.05, gamma=0.1).active
    True
    """

    def __init__(
        self,
        base: torch.optim.Optimizer,
        eps: ScheduleLike = 0.05,
        gamma: ScheduleLike = 0.05,
        **options: Any,
    ) -> None:
        lam = Mapped(_half, as_schedule(gamma, "gamma"))
        super().__init__(base, lam=lam, r=eps, **_PUBLISHED | options)


class EGR(CGD):
    """Explicit gradient regularisation: g + 2λHg, with the exact Hg (Barrett and Dherin, 2021).

    The closure must call `backward(create_graph=True)`.

    Examples
    --------
    >>> EGR(torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1), lam=0.01).exact
    True
    """

    def __init__(self, base: torch.optim.Optimizer, lam: ScheduleLike = 0.01, **options: Any) -> None:
        super().__init__(base, lam=lam, mode="exact", **_PUBLISHED | options)
