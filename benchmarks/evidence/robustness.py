"""Does a minimum survive? The loss after its weights are rounded, disturbed or pruned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from steepen._tools.check import number, whole
from steepen.torch._means import mean_of
from steepen.torch._tensors import judging

from .sharpness import Batches

__all__ = ["Robustness", "robustness"]


@dataclass(frozen=True)
class Robustness:
    """What `robustness` has found: mean losses over the same examples, in eval mode.

    - `loss`: with the weights as they are.
    - `rounded`: with rounded weights, by the number of bits.
    - `noisy`: with Gaussian noise, by its size: the mean over the draws, and its standard error.
    - `pruned`: without the smallest weights, by the part that is gone.
    - `examples`: how many examples these are means over.

    Examples
    --------
    >>> Robustness(0.5, {8: 0.5, 4: 0.75}, {0.1: (0.6, 0.01)}, {0.5: 1.25}, 64)
    Robustness(loss=0.5; 8 bits 0.5, 4 bits 0.75; noise 0.1: 0.6 ± 0.01; pruned 0.5: 1.25; 64 examples)
    """

    loss: float
    rounded: dict[int, float]
    noisy: dict[float, tuple[float, float]]
    pruned: dict[float, float]
    examples: int

    def __repr__(self) -> str:
        parts = [
            ", ".join(f"{bits} bits {loss:.5g}" for bits, loss in self.rounded.items()),
            ", ".join(f"noise {size:g}: {m:.5g} ± {error:.2g}" for size, (m, error) in self.noisy.items()),
            ", ".join(f"pruned {part:g}: {loss:.5g}" for part, loss in self.pruned.items()),
        ]
        return f"Robustness(loss={self.loss:.5g}; {'; '.join(filter(None, parts))}; {self.examples} examples)"


def robustness(
    model: nn.Module,
    loss: Callable[[Any, Any], Tensor],
    data: Iterable[tuple[Any, Any]] | tuple[Any, Any],
    *,
    bits: Sequence[int] = (8, 4, 3),
    noise: Sequence[float] = (0.1,),
    prune: Sequence[float] = (0.5,),
    draws: int = 4,
    seed: int = 0,
) -> Robustness:
    """Measure the loss after the weights of a network are rounded, disturbed or pruned.

    Only weights with two axes or more are touched, as is usual: matrices, kernels, embeddings. The network is
    in eval mode meanwhile. Weights, buffers, gradients and random numbers are left bit for bit as they were.

    Parameters
    ----------
    model : Module
        The network.
    loss : callable
        `loss(output, target)`, a mean over the batch.
    data : batch, or iterable of batches
        One batch (x, y) or several; they are kept in memory, and each is brought to the model's device when
        it is needed. If x is a dict, it is handed to the model by name.
    bits : sequence of int
        Round to so many bits: the nearest of 2ᵇ − 1 evenly spaced values, zero in the middle, with the
        largest weight of each channel (of the first axis) at the end.
    noise : sequence of float
        Add Gaussian noise whose standard deviation is this part of the weights' root mean square, tensor by
        tensor.
    prune : sequence of float
        Set this part of each tensor's weights to zero, the smallest.
    draws : int
        How often noise is drawn.
    seed : int
        Of the noise.

    Examples
    --------
    >>> model = nn.Linear(3, 1, bias=False)
    >>> with torch.no_grad():
    ...     _ = model.weight.copy_(torch.tensor([[7.0, 3.4, 0.2]]))  # 7, 3 and 0 in four bits
    >>> data = torch.eye(3), torch.tensor([[7.0], [3.4], [0.2]])
    >>> found = robustness(model, nn.MSELoss(reduction="sum"), data, bits=[4], prune=[0.34])
    >>> round(found.loss, 4), round(found.rounded[4], 4), round(found.pruned[0.34], 4)
    (0.0, 0.2, 0.04)
    """
    for b in bits:
        whole("bits", b, 2)
    for size in noise:
        number("noise", size, "positive numbers, parts of the weights' root mean square", above=0)
    for part in prune:
        number("prune", part, "parts of the weights, above 0 and below 1", above=0, below=1)
    whole("draws", draws, 2)
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {model!r}")
    batches = Batches(model, loss, data)
    named = [(name, p) for name, p in model.named_parameters() if p.ndim > 1 and p.is_floating_point()]
    if not named:
        raise ValueError("model: expected some weights with two axes or more, got none")
    for name, p in named:
        if not p.isfinite().all():
            raise ValueError(f"model: expected finite weights, got some in {name} that are not")
    generator = torch.Generator(batches.device)

    def after(change: Callable[[Tensor], Tensor]) -> float:
        """Return the mean loss with changed weights."""
        for (_, p), old in zip(named, kept, strict=True):
            p.copy_(change(old.to(torch.promote_types(old.dtype, torch.float32))))
        torch.clear_autocast_cache()  # it holds the weights before
        return mean_of([float(value) for value in batches.each()], batches.counts)[0]

    def disturbed(size: float, draw: int) -> float:
        generator.manual_seed(seed + draw)

        def change(w: Tensor) -> Tensor:
            drawn = torch.randn(w.shape, generator=generator, dtype=w.dtype, device=w.device)
            return w + drawn * (size * w.square().mean().sqrt())

        return after(change)

    with torch.inference_mode(False), judging(model):
        value = mean_of(batches.losses(), batches.counts)[0]
        kept = [p.clone() for _, p in named]
        try:
            rounded = {b: after(lambda w, b=b: _rounded(w, b)) for b in bits}
            noisy = {
                size: mean_of([disturbed(size, draw) for draw in range(draws)], [1.0] * draws)
                for size in noise
            }
            pruned = {part: after(lambda w, part=part: _pruned(w, part)) for part in prune}
        finally:
            for (_, p), old in zip(named, kept, strict=True):
                p.copy_(old)
            torch.clear_autocast_cache()
    return Robustness(value, rounded, noisy, pruned, round(sum(batches.counts)))


def _rounded(w: Tensor, bits: int) -> Tensor:
    step = w.abs().flatten(1).amax(1) / (2 ** (bits - 1) - 1)
    step = step.view(-1, *[1] * (w.ndim - 1))
    return torch.where(step > 0, (w / step).round() * step, w)


def _pruned(w: Tensor, part: float) -> Tensor:
    smallest = w.abs().flatten().argsort(stable=True)[: round(part * w.numel())]
    return w.flatten().index_fill(0, smallest, 0).view(w.shape)
