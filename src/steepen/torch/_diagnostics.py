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
        gᵀHg/‖g‖², the curvature of f along the gradient; NaN where the probe is not along it (weighted
        groups, ASAM).
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
        ‖s‖, the length of the probe; NaN where it is not along g, and in the exact mode, which has none.

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
    """What a penalised step computes anyway, in one tensor: ‖g‖, c, ν, ⟨g, u⟩, and ‖g + u‖ (exact: ‖d‖).

    Here d = g + νu, and u ≈ c·Hg.
    """

    numbers: Tensor
    along_g: bool  # u is along H·g, and not along H times something else

    def diagnostics(self, counts: Tensor, lr: Tensor | float, *, exact: bool) -> Diagnostics:
        """Derive what is of interest, from the penalised steps and trips so far and the learning rate.

        Examples
        --------
        >>> seen = Seen(torch.tensor([1.0, 0.1, 1.0, 0.2, 1.2]), along_g=True)
        >>> seen.diagnostics(torch.tensor([4.0, 1.0]), 0.2, exact=False).curvature
        tensor(2.)
        """
        n, c, nu, along, after = self.numbers.clone().unbind()
        lam = nu * c / 2
        return Diagnostics(
            gradient_norm=n,
            curvature=along / (c * n * n) if self.along_g else torch.full_like(n, torch.nan),
            cosine=(n * n + (nu * along if exact else along)) / (n * after),
            guard_rate=counts[1] / counts[0],
            lam=lam,
            lam_over_implicit=4 * lam / lr,
            nu=nu,
            probe_norm=c * n if self.along_g and not exact else torch.full_like(n, torch.nan),
        )
