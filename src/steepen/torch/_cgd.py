"""CGD and EGR, for training loops: p.grad becomes the gradient of f + λ‖∇f‖², by differences or exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .._core import ascent
from ..schedules import ScheduleLike
from ._ascent import AscentOptimizer, When
from ._means import Means
from ._products import differentiated, products, with_gradient
from ._step import Phase, Step
from ._tensors import buffers_of, copied, norm, processes
from ._wrapper import Base, strength_of

ACCURATE = {getattr(torch, name): length for name, length in ascent.ACCURATE.items()}
_LOOK = 16  # steps between two looks at what to warn of
_FIRST_LOOKS = (4, 8)  # a λ that is far too large has destroyed the network before the sixteenth step
_HEAVY = 10.0  # ‖ν(g⁺ − g)‖/‖g‖ from which on a step is all penalty


class CGD(AscentOptimizer):
    """Steps of any optimizer on the landscape f + λ‖∇f‖²: the paper's CGD-FD, for networks.

    The base gets d = g + (2λ/c)(g⁺ − g), or g where d is no descent direction of f. The ascent step has
    c = 2λ, or more where that would be too short for the precision of the passes. Its length is at most a
    tenth of ‖x‖; a larger λ then has no further effect, and a warning is issued. With `exact`, d = g + 2λHg
    by differentiating twice, without an ascent step.

    Parameters
    ----------
    lam : number, schedule or callable of the step
        λ. A negative value rewards a large gradient.
    ratio : number, schedule or callable of the step
        Instead of λ: ν such that ‖ν(g⁺ − g)‖ is this fraction of ‖g‖, by a running mean of ‖g⁺ − g‖/‖g‖.
    r : number, schedule or callable of the step, optional
        The paper's r: c = r, without limits.
    exact : bool
        Whether Hg is exact, as in the paper's CGD. `step_on` does all that this needs; in other loops call
        `opt.penalised(loss).backward()` in each pass. A step counts as two gradients, as three if there are
        several micro-batches or processes, and at step 0. It takes the memory of the graph of the gradient.
        The model may be neither compiled nor sharded, and fused attention has no second derivative.
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
        exact: bool = False,
        guard: bool = True,
        dtype: torch.dtype | None = None,
        when: When = None,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(base, model, when=when, max_norm=max_norm)
        if (lam is None) is (ratio is None):
            raise TypeError(f"lam, ratio: expected one of them, got lam={lam!r} and ratio={ratio!r}")
        for name, given in (("ratio", ratio), ("r", r), ("dtype", dtype)):
            if exact and given is not None:
                raise ValueError(f"{name}: expected None with exact products, got {given!r}")
        if exact and any(hasattr(p, "to_local") for p in self._params()):
            raise TypeError("exact: expected whole parameters, got sharded ones; take differences for these")
        self.lam = strength_of("lam", 0.0 if lam is None else lam)
        self.ratio = None if ratio is None else strength_of("ratio", ratio, least=0)
        self.r = None if r is None else strength_of("r", r, above=0)
        self.exact, self.guard = exact, guard
        self._products = 0  # passes of this step whose product was computed
        own = next(self._params()).dtype
        if (dtype or own) not in ACCURATE:
            raise ValueError(f"dtype: expected a precision, such as torch.bfloat16; got {dtype or own}")
        self.shortest = math.inf if exact else ACCURATE[dtype or own]
        wide = torch.promote_types(own, torch.float32)
        self._means = Means(
            {"bound": ascent.NEW, "change": ascent.SMOOTHING, "heavy": ascent.NEW}, self.device, wide
        )
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

    def _weight(self, nu: Tensor, after: Tensor, change: Tensor) -> Tensor:
        n = self._now.gnorm
        if self.ratio is not None:
            relative = change / n
            self._means.update(change=torch.where(relative > 0, relative, math.nan))
            nu = ascent.of_ratio(self.ratio(self.k), self._means.now()["change"], torch)
        elif self.exact or self.r is not None:  # else the length is limited
            self._means.update(heavy=nu.abs() * change > _HEAVY * n)
        if self.guard:
            n, after, change = torch.stack((n, after, change)).square()
            descends = torch.addcmul(n, nu, after - n - change, value=0.5) > 0  # ⟨g, d⟩, of three norms
            self._tripped += descends.logical_not()
            nu = torch.where(descends, nu, 0.0)
        return nu

    # -- exact products ---------------------------------------------------------------------------------

    def _ascent_passes(self, micro_batches: int) -> int:
        """Return the passes that compute g beforehand: none where one pass over the batch has it at hand.

        Step 0 has them always: it compares what they reach with what the products reach.
        """
        alone = self.exact and self.k > 0 and micro_batches == 1 and processes() == 1
        return 0 if alone else super()._ascent_passes(micro_batches)

    def _ascent_cost(self) -> float:
        return super()._ascent_cost() + self.exact

    @torch.no_grad()
    def _perturb(self, now: Step) -> None:
        if not self.exact:
            super()._perturb(now)
            return
        self._products = 0
        if not now.passes[Phase.ASCENT]:
            now.undo_all()
            return
        now.params, grads, now.gnorm = self._ascent()
        now.g = copied(grads)
        now.undo_all()
        now.undo.append(buffers_of(self.model))
        for p in self._params():
            p.grad = None

    def penalised(self, loss: Tensor) -> Tensor:
        self = getattr(self, "_optimizer", self)  # Lightning's wrapper has our methods, but not our state
        now = self._now
        due = self.exact and now.phase is Phase.BATCH and (now.perturbed or self.k == 0)
        if not due or not torch.is_grad_enabled():
            return loss
        self._products += 1
        own = [p for p in self._params() if p.requires_grad]
        params = [*own, *(p for p in self.model.parameters() if p.requires_grad and p not in set(own))]
        scaled = now.scaler is not None  # gradients are then of the loss times its scale, as p.grad are
        unscaled: Callable[[list[Any]], list[Any]] = lambda them: (  # noqa: E731
            [None if one is None else one / self._scale() for one in them] if scaled else them
        )
        graphs = differentiated(loss * self._scale() if scaled else loss, params)
        gradient: list[Any] = [None if graph is None else graph.detach() for graph in graphs]
        if not now.passes[Phase.ASCENT]:  # this pass has the gradient of the whole batch
            known = [(p, g) for p, g in zip(own, gradient, strict=False) if g is not None]
            now.params, now.g = [p for p, _ in known], [g for _, g in known]
            now.gnorm = norm(now.g or [loss.detach()])
        v = dict(zip(now.params, unscaled(list(now.g)), strict=True))
        found = products(graphs[: len(own)], own, [v.get(p) for p in own])
        if now.perturbed:  # else step 0 has only looked whether all is well
            weight, now.nu = 2 * self.lam(self.k), torch.ones_like(now.gnorm)
            for i, (g, product) in enumerate(zip(gradient, found, strict=False)):
                if product is not None:
                    gradient[i] = product * weight if g is None else g.add(product, alpha=weight)
        return with_gradient(loss, unscaled(gradient), params)

    def _finish_passes(self) -> None:
        now = self._now
        if self.exact and (now.perturbed or self.k == 0):
            if self._products < now.passes[Phase.BATCH]:
                self._fail("exact: call opt.penalised(loss).backward() in each pass, or use step_on")
            if lost := sum(p.grad is None for p in now.params):
                self._fail(
                    f"exact: {lost} of {len(now.params)} parameters have a gradient by backward(), but none "
                    "by torch.autograd.grad(); write checkpoint(..., use_reentrant=False)"
                )
        super()._finish_passes()

    # -- warnings and reports ---------------------------------------------------------------------------

    def _begin(self) -> None:
        if self.k % _LOOK and self.k not in _FIRST_LOOKS:
            return
        now = self._means.arrived()
        self._warn(
            "bound",
            f"lam: the ascent step is cut to its limit, {ascent.LONGEST:g} of the weights' norm, in most "
            "steps: a larger λ changes nothing, and a smaller one may",
            when=self.k >= 2 * _LOOK and bool(now["bound"] > 0.5),
        )
        self._warn(
            "heavy",
            f"lam: the penalty's gradient is more than {_HEAVY:g} times as long as the loss's in most steps: "
            "they reduce ‖∇f‖ and hardly f; choose a smaller λ",
            when=bool(now["heavy"] > 0.5),
        )
        self._means.send()

    def _found(self) -> dict[str, Any]:
        tripped = {"tripped": float(self._tripped)} if self.guard else {}
        return super()._found() | tripped | {"bound": float(self._means.now()["bound"])}


class EGR(CGD):
    """Explicit gradient regularisation: g + 2λHg, the gradient of f + λ‖∇f‖² (Barrett and Dherin, 2021).

    The paper trains networks with it: CGD with exact products and without the guard.
    `CGD(base, model, lam, exact=True)` has the guard, which keeps a run from ascending f.

    Parameters
    ----------
    lam : number, schedule or callable of the step
        λ; Barrett and Dherin's μ divided by the number of parameters.
    base, model, when, max_norm
        As in `AscentOptimizer`. In loops of your own call `opt.penalised(loss).backward()`, as for `CGD`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    >>> opt = EGR(torch.optim.SGD(model.parameters(), lr=0.1), model, lam=0.01, when=range(1_000))
    >>> loss = opt.step_on(lambda x: model(x).square().mean(), torch.randn(32, 4))
    >>> opt.report().perturbed
    1
    """

    def __init__(
        self, base: Base, model: nn.Module, lam: ScheduleLike, *,
        when: When = None, max_norm: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(base, model, lam, exact=True, guard=False, when=when, max_norm=max_norm)
