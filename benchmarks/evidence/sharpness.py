"""How sharp a minimum is: the largest eigenvalue and the trace of the Hessian, and the loss near by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

from steepen._core.lanczos import lanczos
from steepen._tools.check import number, whole
from steepen.torch._batch import examples, mapped
from steepen.torch._means import mean_of
from steepen.torch._tensors import buffers_of, random_of

__all__ = ["Batches", "Sharpness", "sharpness"]

_torch: Any = torch  # its linalg, backends and autocast have no types


@dataclass(frozen=True)
class Sharpness:
    """What `sharpness` has found. The errors are one standard error, or a bound where that is said.

    - `largest`: the largest eigenvalue of the Hessian H; an eigenvalue of H is within `largest_error` of it.
    - `trace`: the sum of all eigenvalues, with the standard error over the random vectors.
    - `loss`: the mean loss at the weights x.
    - `rise`: how much higher the loss is at x + ρ·g/‖g‖, with the standard error over the batches; NaN of
      one batch.
    - `rho`: that ρ.
    - `examples`: how many examples these are means over.
    - `products`: how many products H·v it took.
    - `training`: whether the model was in training mode.

    Examples
    --------
    >>> Sharpness(4.0, 0.1, 9.5, 0.2, 1.5, 0.1, 0.02, 0.05, 64, 40, False)
    Sharpness(largest=4 ± 0.1, trace=9.5 ± 0.2, loss=1.5, rise=0.1 ± 0.02 at rho=0.05; 64 examples, eval mode)
    """

    largest: float
    largest_error: float
    trace: float
    trace_error: float
    loss: float
    rise: float
    rise_error: float
    rho: float
    examples: int
    products: int
    training: bool

    def __repr__(self) -> str:
        mode = "training" if self.training else "eval"
        return (
            f"Sharpness(largest={self.largest:.5g} ± {self.largest_error:.2g}, "
            f"trace={self.trace:.5g} ± {self.trace_error:.2g}, loss={self.loss:.5g}, "
            f"rise={self.rise:.5g} ± {self.rise_error:.2g} at rho={self.rho:g}; "
            f"{self.examples} examples, {mode} mode)"
        )


def sharpness(
    model: nn.Module,
    loss: Callable[[Any, Any], Tensor],
    data: Iterable[tuple[Any, Any]] | tuple[Any, Any],
    *,
    rho: float = 0.05,
    tol: float = 0.01,
    most: int = 50,
    draws: int = 20,
    seed: int = 0,
) -> Sharpness:
    """Return the sharpness of the mean loss over some data, at the weights that the model has.

    The largest eigenvalue is found by Lanczos' method, the trace by Hutchinson's, both with exact products
    H·v. Parameters with `requires_grad=False` are left out. The model is taken in the mode it is in (call
    `model.eval()` first, unless you mean the other); its weights, gradients and buffers are left as they
    were, and so are torch's random numbers. Autocast and compilation are off, and attention has torch's plain
    kernel, as the others have no second derivative.

    Parameters
    ----------
    model : Module
        The network. One in `DistributedDataParallel` is looked at on this rank alone.
    loss : callable
        `loss(model(x), y)` is the mean loss of a batch.
    data : tuple (x, y), or an iterable of these
        One batch or several; they are kept in memory, and each is brought to the model's device when it is
        needed. If x is a dict, it is handed to the model by name.
    rho : float
        How far up the gradient to look for `rise`.
    tol : float
        The error to reach in the largest eigenvalue, as a part of it.
    most : int
        The most products for that; each keeps a vector as large as the parameters.
    draws : int
        How many random vectors the trace is estimated from.
    seed : int
        Of the random vectors.

    Examples
    --------
    >>> model = torch.nn.Linear(3, 1, bias=False)
    >>> x = torch.diag(torch.tensor([3.0, 2.0, 1.0]))  # the Hessian of the mean square is 2xᵀx/3
    >>> found = sharpness(model, torch.nn.MSELoss(), (x, torch.zeros(3, 1)))
    >>> round(found.largest, 4), round(found.trace, 4)
    (6.0, 9.3333)
    """
    number("rho", rho, "a positive number", above=0)
    number("tol", tol, "a positive number", above=0)
    whole("most", most, 1)
    whole("draws", draws, 2)
    with _twice_differentiable(model) as bare:
        mean = _Mean(bare, loss, data)
        generator = torch.Generator(mean.device).manual_seed(seed)

        def draw() -> Tensor:
            signs = torch.randint(2, (mean.size,), generator=generator, device=mean.device)
            return signs.to(mean.dtype).mul_(2).sub_(1)

        try:
            losses, higher = mean.losses(), mean.losses_at(rho)
            eps = torch.finfo(mean.dtype).eps
            top, products, error, _ = lanczos(mean.product, draw(), tol=tol, most=most, norm=_length, eps=eps)
            traces = [float(v @ mean.product(v)) for v in (draw() for _ in range(draws))]
        finally:
            mean.rewind()
    trace, trace_error = mean_of(traces, [1.0] * draws)
    rises = [after - before for before, after in zip(losses, higher, strict=True)]
    rise, rise_error = mean_of(rises, mean.counts)
    value, _ = mean_of(losses, mean.counts)
    return Sharpness(
        top, error, trace, trace_error, value, rise, rise_error, rho, round(sum(mean.counts)),
        products + draws, model.training,
    )  # fmt: skip


def _length(v: Tensor) -> float:
    return float(_torch.linalg.vector_norm(v, dtype=torch.float64))


class Batches:
    """The losses of a network on some batches (x, y), which are kept: the same at every call."""

    def __init__(self, model: nn.Module, loss: Callable[[Any, Any], Tensor], data: Any) -> None:
        self.model, self.loss = model, loss
        first = next(model.parameters(), None)
        if first is None:
            raise ValueError("model: expected some parameters, got none")
        if any(hasattr(p, "to_local") for p in model.parameters()):
            raise ValueError("model: expected whole parameters, got sharded ones: gather them first")
        self.device, self.dtype = first.device, first.dtype
        self.undo = [buffers_of(model), random_of(self.device)]
        self.batches: list[Any] = [data] if _is_batch(data) else list(data)
        for i, batch in enumerate(self.batches):
            if not _is_batch(batch):
                raise TypeError(f"data: expected batches (x, y), got {type(batch).__name__} at {i}")
        if not self.batches:
            raise ValueError("data: expected at least one batch (x, y), got none")
        self.counts = [float(examples(x)) for x, _ in self.batches]

    def rewind(self) -> None:
        """Put the random numbers and the buffers back to where they were."""
        for undo in self.undo:
            undo()

    def each(self, *, graph: bool = False) -> Iterator[Tensor]:
        """Return the loss of each batch, with its graph if that is wanted."""
        self.rewind()
        for x, y in self.batches:
            x, y = mapped(lambda one: one.to(self.device) if isinstance(one, Tensor) else one, (x, y))
            with torch.set_grad_enabled(graph):
                out = self.model(**x) if isinstance(x, Mapping) else self.model(x)
                value: object = self.loss(out, y)
            if not isinstance(value, Tensor) or value.ndim:
                raise TypeError(f"loss: expected a mean, a tensor without axes; got {value!r}")
            yield value

    def losses(self) -> list[float]:
        """Return the loss of each batch; refuse one that is not finite."""
        values = [float(value) for value in self.each()]
        for i, value in enumerate(values):
            if not math.isfinite(value):
                raise ValueError(f"loss: expected a finite mean, got {value} of batch {i}")
        return values


class _Mean(Batches):
    """The mean loss over all examples, with its gradient and its products H·v; vectors are flat."""

    def __init__(self, model: nn.Module, loss: Callable[[Any, Any], Tensor], data: Any) -> None:
        super().__init__(model, loss, data)
        self.params = [p for p in model.parameters() if p.requires_grad]
        if not self.params:
            raise ValueError("model: expected some parameters that require a gradient, got none")
        self.size = sum(p.numel() for p in self.params)

    def losses_at(self, rho: float) -> list[float]:
        """Return the loss of each batch at ρ up the gradient."""
        old = [p.clone() for p in self.params]
        g = self._sum(lambda value: self._grads(value, graph=False))
        n = _length(g)
        for p, s in zip(self.params, self._split(g * (rho / n if n > 0 else 0.0)), strict=True):
            p.add_(s)
        try:
            return self.losses()
        finally:
            for p, before in zip(self.params, old, strict=True):
                p.copy_(before)

    def product(self, v: Tensor) -> Tensor:
        """Return H·v."""
        parts = self._split(v)
        return self._sum(lambda value: _curvature(self._grads(value, graph=True), self.params, parts))

    def _grads(self, value: Tensor, *, graph: bool) -> Sequence[Tensor]:
        if not value.requires_grad:
            raise ValueError("loss: expected one that depends on the parameters of the model")
        with torch.enable_grad():
            return torch.autograd.grad(
                value, self.params, create_graph=graph, allow_unused=True, materialize_grads=True
            )

    def _sum(self, of: Callable[[Tensor], Sequence[Tensor]]) -> Tensor:
        total = torch.zeros(self.size, dtype=self.dtype, device=self.device)
        for count, value in zip(self.counts, self.each(graph=True), strict=True):
            found = torch.cat([one.reshape(-1).to(self.dtype) for one in of(value)])
            total.add_(found, alpha=count / sum(self.counts))
        return total

    def _split(self, v: Tensor) -> list[Tensor]:
        parts: list[Tensor] = _torch.split(v, [p.numel() for p in self.params])
        return [part.view(p.shape).to(p.dtype) for part, p in zip(parts, self.params, strict=True)]


@contextmanager
def _twice_differentiable(model: object) -> Iterator[nn.Module]:
    """Return the bare model, and choose what of torch has a second derivative for as long."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {model!r}")
    inner = cast(nn.Module, getattr(model, "_orig_mod", model))  # of a compiled one
    bare = cast(nn.Module, getattr(inner, "module")) if isinstance(inner, DistributedDataParallel) else inner  # noqa: B009
    recurrent = any(isinstance(module, nn.RNNBase) for module in bare.modules())
    device = next((p.device.type for p in bare.parameters()), "cpu")
    with (
        torch.inference_mode(False),
        torch.no_grad(),
        _torch.autocast(device, enabled=False),
        _torch.compiler.set_stance("force_eager"),
        cast(Any, sdpa_kernel(SDPBackend.MATH)),
        _torch.backends.cudnn.flags(enabled=False) if recurrent else nullcontext(),
    ):
        yield bare


def _is_batch(data: object) -> bool:
    """Say whether this is one batch, and not several: a tuple or list of x and y."""
    pair = cast(Sequence[object], data) if isinstance(data, tuple | list) else ()
    return len(pair) == 2 and isinstance(pair[0], Tensor | Mapping)


def _curvature(graphs: Sequence[Tensor], params: Sequence[Tensor], along: Sequence[Tensor]) -> list[Tensor]:
    """Return H·v from gradients that carry their graph; where f is linear in a parameter, there is none."""
    pairs = [(graph, v) for graph, v in zip(graphs, along, strict=True) if graph.requires_grad]
    if not pairs:
        return [torch.zeros_like(p) for p in params]
    with torch.enable_grad():
        of, with_ = [graph for graph, _ in pairs], [v for _, v in pairs]
        found = torch.autograd.grad(of, params, with_, allow_unused=True, materialize_grads=True)
    return [product.detach() for product in found]
