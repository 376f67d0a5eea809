"""What the last penalised step was like, at no cost: tensors that are there anyway, read when asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

__all__ = ["Diagnostics", "Seen", "Writer"]


class Writer(Protocol):
    """What `log` writes to, such as TensorBoard's SummaryWriter.

    Examples
    --------
    >>> class Lines:
    ...     def add_scalar(self, tag, scalar_value, global_step=None):
    ...         print(tag, scalar_value, global_step)
    >>> writer: Writer = Lines()
    """

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None) -> Any:
        """Write one number."""
        ...


@dataclass(frozen=True)
class Diagnostics:
    """Of the last penalised step, as tensors on the device; `read()` brings them all to the host at once.

    Attributes
    ----------
    gradient_norm : Tensor
        ‖g‖.
    curvature : Tensor
        gᵀHg/‖g‖², the curvature of f along the gradient.
    cosine : Tensor
        The cosine between g and g⁺; between g and g + 2λHg in the exact mode.
    guard_rate : Tensor
        The share of the penalised steps in which the guard took the plain gradient.
    lam : Tensor
        The λ that the step amounts to, νc/2.
    lam_over_implicit : Tensor
        λ over lr/4, which plain gradient descent carries by itself: far below 1, the penalty does nothing.
    nu : Tensor
        The weight ν of the difference.
    probe_norm : Tensor
        ‖s‖, the length of the probe, where no group is weighted.

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
        """Give the numbers, with one wait for the device.

        Examples
        --------
        >>> zero = torch.tensor(0.0)
        >>> sorted(Diagnostics(zero, zero, zero, zero, zero, zero, zero, zero).read())[:2]
        ['cosine', 'curvature']
        """
        names = list(self.__dataclass_fields__)
        stacked: Any = torch.stack([getattr(self, name) for name in names])
        return dict(zip(names, stacked.tolist(), strict=True))


@dataclass(frozen=True)
class Seen:
    """What a penalised step computes anyway: ‖g‖, c, ν, 2⟨g, u⟩ and ‖u‖, where d = g + νu and u ≈ c·Hg.

    The product is None where the guard is off.
    """

    n: Tensor
    c: Tensor | float
    nu: Tensor | float
    product: Tensor | None
    size: Tensor

    def diagnostics(self, counts: Tensor, lr: Tensor | float) -> Diagnostics:
        """Derive what is of interest, from the penalised steps and trips so far and the learning rate.

        Examples
        --------
        >>> one = torch.tensor(1.0)
        >>> Seen(one, 0.1, 1.0, 0.4 * one, 0.2 * one).diagnostics(torch.tensor([4.0, 1.0]), 0.2).curvature
        tensor(2.)
        """
        n = self.n
        c, nu = (torch.as_tensor(value, dtype=n.dtype, device=n.device) for value in (self.c, self.nu))
        lam = nu * c / 2
        along = torch.full_like(n, torch.nan) if self.product is None else self.product / 2
        after = (n * n + 2 * along + self.size**2).clamp(min=0).sqrt()
        return Diagnostics(
            gradient_norm=n,
            curvature=along / (c * n * n),
            cosine=(n * n + along) / (n * after),
            guard_rate=counts[1] / counts[0],
            lam=lam,
            lam_over_implicit=4 * lam / lr,
            nu=nu,
            probe_norm=c * n,
        )
