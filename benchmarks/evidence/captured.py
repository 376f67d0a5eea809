"""A forward and backward pass as one CUDA graph for each number of examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Captured:
    """The passes of one network, whose weights are then changed in place only.

    The compiled forward and backward pass over n examples is captured once; a pass is then a copy of the
    batch and a replay. The ε of label smoothing is a number on the device: one graph serves all runs.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[..., Tensor],
        x: Tensor,
        y: Tensor,
        sizes: Sequence[int],
        *,
        compiled: bool,
        mixed: bool = True,  # in bf16 where that will do
    ) -> None:
        self.model, self.loss, self.mixed = model, loss, mixed
        self.run: Any = torch.compile(model, dynamic=False) if compiled else model
        self.smoothing = torch.zeros((), device=x.device)
        self.graphs: dict[int, tuple[Any, Tensor, Tensor, Tensor, list[Tensor | None]]] = {}
        kept = [buffer.clone() for buffer in model.buffers()]
        for size in sorted(set(sizes), reverse=True):
            self.graphs[size] = self._capture(x[:size].clone(), y[:size].clone())
        for buffer, before in zip(model.buffers(), kept, strict=True):
            buffer.copy_(before)  # the statistics of BatchNorm

    def _pass(self, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, enabled=self.mixed):
            out = self.run(x)
        loss = self.loss(out.float(), y, self.smoothing)
        loss.backward()
        return loss

    def _capture(self, x: Tensor, y: Tensor) -> tuple[Any, Tensor, Tensor, Tensor, list[Tensor | None]]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model.zero_grad()
                self._pass(x, y)
            self.model.zero_grad()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = self._pass(x, y)
        grads = [p.grad for p in self.model.parameters()]
        self.model.zero_grad()
        return graph, x, y, loss.detach(), grads

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, smoothing: float) -> Tensor:
        """Run the pass; the gradients are then on the parameters."""
        graph, static_x, static_y, loss, grads = self.graphs[len(x)]
        static_x.copy_(x)
        static_y.copy_(y)
        self.smoothing.fill_(smoothing)
        graph.replay()
        for p, grad in zip(model.parameters(), grads, strict=True):
            p.grad = grad
        return loss
