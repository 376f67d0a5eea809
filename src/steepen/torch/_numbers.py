"""The numbers of a step, in one record on the device, and what is told of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Diagnostics", "Numbers", "diagnose"]


@dataclass(frozen=True)
class Numbers:
    """One tensor, and a view of it for each number; all stay where they are from step to step."""

    all: Tensor
    length: Tensor  # what the family asks for: of the probe, by r, ρ or a share of ‖x‖
    least: Tensor  # the least c at which ν need not be cut
    limit: Tensor  # of ‖s‖/‖x‖
    weight: Tensor  # 2λ or ν
    n: Tensor  # ‖g‖, or of what the probe is along
    c: Tensor  # s = c·g
    nu: Tensor
    along: Tensor  # ⟨g, u⟩, where d = g + νu
    after: Tensor  # ‖g + u‖; in the exact mode ‖d‖
    skip: Tensor  # 1 where the guard said no
    told: Tensor  # n to after of the last step that ended

    @classmethod
    def make(cls, dtype: torch.dtype, device: torch.device) -> Numbers:
        """Make room for them."""
        table = torch.zeros(10, dtype=dtype, device=device)
        return cls(table, *table.unbind(), told=table[4:9].clone())

    def write(self, **values: Tensor) -> None:
        """Write some that are neighbours, in one copy."""
        first = _NAMES.index(next(iter(values)))
        self.all[first : first + len(values)].copy_(torch.stack(list(values.values())))

    def tell(self) -> None:
        """Keep those of this step for who may ask."""
        self.told.copy_(self.all[4:9])


_NAMES = list(Numbers.__dataclass_fields__)[1:11]  # as they lie in the tensor


@dataclass(frozen=True)
class Diagnostics:
    """Of the last penalised step, as tensors on the device; `read()` brings them all to the host at once.

    What is not known is NaN.

    - `gradient_norm`: ‖g‖; with `share` that of the share's gradient, with a momentum probe of the buffer.
    - `curvature`: gᵀHg/‖g‖², along the gradient; not known of weighted groups, ASAM, `share` and momentum.
    - `cosine`: between g and g⁺, or g + 2λHg; with `share` where `on_guard="stop"` asks for it.
    - `guard_rate`: the share of the penalised steps in which the guard tripped.
    - `lam`: the λ that the step amounts to, νc/2; not with a momentum probe.
    - `lam_over_implicit`: that over lr/4, which plain gradient descent has by itself.
    - `nu`: the weight ν of the difference.
    - `probe_norm`: ‖s‖, where s is along g; the exact mode has none.

    Examples
    --------
    >>> one = torch.tensor(1.0)
    >>> Diagnostics(one, one, one, one, one, one, one, one).read()["curvature"]
    1.0
    """

    gradient_norm: Tensor
    curvature: Tensor
    cosine: Tensor
    guard_rate: Tensor
    lam: Tensor
    lam_over_implicit: Tensor
    nu: Tensor
    probe_norm: Tensor

    def read(self) -> dict[str, float]:
        """Return the numbers, with one wait for the device."""
        names = list(self.__dataclass_fields__)
        stacked: Any = torch.stack([getattr(self, name) for name in names])
        return dict(zip(names, stacked.tolist(), strict=True))


def diagnose(told: Tensor, counts: Tensor, lr: Any, kind: str, *, along_g: bool) -> Diagnostics:
    """Derive what is of interest from ‖g‖, c, ν, ⟨g, u⟩ and ‖g + u‖, the guard's counts and the base's lr.

    `along_g` says whether s was along g, and not along a g that is weighted.
    """
    n, c, nu, along, after = told.clone().unbind()
    nan = torch.full_like(n, torch.nan)
    lam = nan if kind == "momentum" else nu * c / 2
    lr = nan if lr is None else lr.reshape(()) if isinstance(lr, Tensor) else lr
    return Diagnostics(
        gradient_norm=n,
        curvature=along / (c * n * n) if along_g and kind in ("difference", "exact") else nan,
        cosine=(n * n + (nu * along if kind == "exact" else along)) / (n * after),
        guard_rate=counts[1] / counts[0],
        lam=lam,
        lam_over_implicit=4 * lam / lr,
        nu=nu,
        probe_norm=c.abs() * n if along_g and kind != "exact" else nan,
    )
