"""SAM, its variants and MSAM, for training loops: length and direction of the ascent step, and its weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .._tools.check import is_number, number
from ..schedules import ScheduleLike
from ._ascent import AscentOptimizer, When
from ._tensors import lists, norm
from ._wrapper import Base, strength_of


class SAM(AscentOptimizer):
    """Sharpness-aware minimisation: the base uses the gradient at x + ρ·g/‖g‖ (Foret et al., 2021).

    Three settings make it ASAM (Kwon et al., 2021), GNP (Zhao et al., 2022) and USAM (Andriushchenko and
    Flammarion, 2022). They may be combined.

    Parameters
    ----------
    rho : number, schedule or callable of the step
        ρ, the length of the ascent step.
    alpha : number, schedule or callable of the step
        GNP's α, the weight of the ascent: d = (1 − α)·g + α·g⁺. Other values than 1 need the whole batch for
        the ascent step.
    adaptive : bool
        ASAM: s = ρ·T²g/‖Tg‖ with T = |x| + η, so that the ascent step of a weight is relative to its size. It
        needs a ρ about ten times as large. `report().length` is then ‖T⁻¹s‖.
    eta : float, optional
        ASAM's η, 0.01 by default.
    normalized : bool
        With False, USAM: s = ρ·g.
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
    >>> asam = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=0.5, adaptive=True)
    >>> gnp = SAM(torch.optim.SGD(model.parameters(), lr=0.1), model, rho=0.05, alpha=0.8)
    """

    def __init__(
        self,
        base: Base,
        model: nn.Module,
        rho: ScheduleLike = 0.05,
        *,
        alpha: ScheduleLike = 1.0,
        adaptive: bool = False,
        eta: float | None = None,
        normalized: bool = True,
        ascent_fraction: float = 1.0,
        when: When = None,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(base, model, ascent_fraction=ascent_fraction, when=when, max_norm=max_norm)
        self.rho = strength_of("rho", rho, least=0)
        self.alpha = None if is_number(alpha) and alpha == 1 else strength_of("alpha", alpha, least=0)
        if self.alpha is not None and self.ascent_fraction < 1:
            raise ValueError(
                f"alpha: expected 1, as other values need two gradients of one batch and ascent_fraction is "
                f"{self.ascent_fraction:g}; got {alpha!r}"
            )
        for name, value in (("adaptive", adaptive), ("normalized", normalized)):
            if not isinstance(value, bool):
                raise TypeError(f"{name}: expected True or False, got {value!r}")
        if eta is not None and not adaptive:
            raise ValueError(f"eta: expected None, as only adaptive=True uses it; got {eta!r}")
        self.eta = 0.01 if eta is None else eta
        number("eta", self.eta, "a number, 0 or more", least=0)
        self.adaptive, self.normalized = adaptive, normalized

    def _ascent(self) -> tuple[list[Tensor], list[Tensor], Tensor]:
        params, grads, n = super()._ascent()
        if not self.adaptive:
            return params, grads, n
        scale: Any = lists._foreach_abs(params)
        lists._foreach_add_(scale, self.eta)
        along = lists._foreach_mul(scale, grads)
        n = norm(along)
        lists._foreach_mul_(along, scale)
        return params, along, n

    def _perturbation(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        rho = self.rho(self.k)  # where g is 0 there is no direction: c is not finite, and no move
        nu = None if self.alpha is None else torch.full_like(n, self.alpha(self.k))
        return rho / n if self.normalized else torch.full_like(n, rho), nu


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
