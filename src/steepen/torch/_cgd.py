"""CGD, for training loops: p.grad becomes the gradient of f + λ‖∇f‖², by a difference of gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._core import ascent
from ..schedules import ScheduleLike
from ._ascent import AscentOptimizer, When
from ._means import Means
from ._tensors import grads_of, lists, local, norm
from ._wrapper import Base, strength_of

ACCURATE = {getattr(torch, name): length for name, length in ascent.ACCURATE.items()}
_LOOK = 16  # steps between two looks at what to warn of


class CGD(AscentOptimizer):
    """Steps of any optimizer on the landscape f + λ‖∇f‖²: the paper's CGD-FD, for networks.

    The base gets d = g + (2λ/c)(g⁺ − g), or g where d is no descent direction of f. The ascent step has
    c = 2λ, or more where that would be too short for the precision of the passes. Its length is at most a
    tenth of ‖x‖; a larger λ then has no further effect, and a warning is issued.

    Parameters
    ----------
    lam : number, schedule or callable of the step
        λ. A negative value rewards a large gradient.
    ratio : number, schedule or callable of the step
        Instead of λ: ν such that ‖ν(g⁺ − g)‖ is this fraction of ‖g‖, by a running mean of ‖g⁺ − g‖/‖g‖.
    r : number, schedule or callable of the step, optional
        The paper's r: c = r, without limits.
    guard : bool
        Whether g replaces a d that is no descent direction, ⟨g, d⟩ ≤ 0, before momentum or Adam.
    dtype : torch.dtype, optional
        The precision of the passes, if it is not that of the parameters: `torch.bfloat16` under autocast.
    base, model, when, max_norm
        As in `AscentOptimizer`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(4, 1)
    >>> opt = CGD(torch.optim.SGD(model.parameters(), lr=0.1), model, lam=0.05)
    >>> loss = opt.step_on(lambda x: model(x).square().mean(), torch.randn(32, 4))
    >>> opt.report().gradients
    2.0
    """

    saved = (*AscentOptimizer.saved, "_tripped", "_means")

    def __init__(
        self,
        base: Base,
        model: nn.Module,
        lam: ScheduleLike | None = None,
        *,
        ratio: ScheduleLike | None = None,
        r: ScheduleLike | None = None,
        guard: bool = True,
        dtype: torch.dtype | None = None,
        when: When = None,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(base, model, when=when, max_norm=max_norm)
        if (lam is None) is (ratio is None):
            raise TypeError(f"lam, ratio: expected one of them, got lam={lam!r} and ratio={ratio!r}")
        self.lam = strength_of("lam", 0.0 if lam is None else lam)
        self.ratio = None if ratio is None else strength_of("ratio", ratio, least=0)
        self.r = None if r is None else strength_of("r", r, above=0)
        self.guard = guard
        own = next(self._params()).dtype
        if (dtype or own) not in ACCURATE:
            raise ValueError(f"dtype: expected a precision, such as torch.bfloat16; got {dtype or own}")
        self.shortest = ACCURATE[dtype or own]
        wide = torch.promote_types(own, torch.float32)
        self._means = Means({"bound": ascent.NEW, "change": ascent.SMOOTHING}, self.device, wide)
        self._tripped = torch.zeros((), device=self.device)

    def _perturbation(self, n: Tensor, x: Callable[[], Tensor]) -> tuple[Tensor, Tensor | None]:
        lam = self.lam(self.k)
        if self.r is not None:
            r = torch.full_like(n, self.r(self.k))
            return r, 2 * lam / r
        c, nu = ascent.of_lam(lam, n, x(), self.shortest)
        if lam and self._now.perturbed:
            self._means.update(bound=abs(2 * lam) > (1 + 1e-6) * c)
        return c, nu

    def _combine(self, params: Sequence[Tensor], nu: Tensor) -> None:
        known = set(params)
        for p in params:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        grads = grads_of(params)
        after = norm(grads)
        plus, g = local(grads), self._now.g
        lists._foreach_sub_(plus, g)  # before ν: the difference is small, and ν may be large
        change = norm(grads)
        if self.ratio is not None:
            relative = change / self._now.gnorm
            self._means.update(change=torch.where(relative > 0, relative, math.nan))
            nu = ascent.of_ratio(self.ratio(self.k), self._means.now()["change"], torch)
        if self.guard:
            n, after, change = torch.stack((self._now.gnorm, after, change)).square()
            descends = torch.addcmul(n, nu, after - n - change, value=0.5) > 0  # ⟨g, d⟩, of three norms
            self._tripped += descends.logical_not()
            nu = torch.where(descends, nu, 0.0)
        lists._foreach_mul_(plus, nu)
        lists._foreach_add_(plus, g)
        for p in self._params():  # that only the pass over the batch came by: their g is 0
            if p.grad is not None and p not in known:
                p.grad.mul_(nu)

    def _begin(self) -> None:
        if self.k % _LOOK == 0:
            self._warn(
                "bound",
                f"lam: the ascent step is cut to its limit, {ascent.LONGEST:g} of the weights' norm, in most "
                "steps: a larger λ changes nothing, and a smaller one may",
                when=bool(self._means.arrived()["bound"] > 0.5),
            )
            self._means.send()

    def _found(self) -> dict[str, Any]:
        tripped = {"tripped": float(self._tripped)} if self.guard else {}
        return super()._found() | tripped | {"bound": float(self._means.now()["bound"])}
