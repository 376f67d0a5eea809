"""The networks of the evidence beside ResNet-18: small convolutions, a small ViT, a character transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Conv1d(nn.Sequential):
    """Three convolutions over a signal of 40 numbers, as in MNIST-1D's own example."""

    def __init__(self, width: int = 25, classes: int = 10) -> None:
        super().__init__(
            nn.Unflatten(1, (1, 40)),
            nn.Conv1d(1, width, 5, 2, 1), nn.ReLU(),
            nn.Conv1d(width, width, 3, 2, 1), nn.ReLU(),
            nn.Conv1d(width, width, 3, 2, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(5 * width, classes),
        )  # fmt: skip


class Conv2d(nn.Sequential):
    """Two convolutions over 28 × 28 pictures and a hidden layer."""

    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__(
            nn.Unflatten(1, (1, 28, 28)),
            nn.Conv2d(1, width, 5, 2, 2), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(98 * width, 100), nn.ReLU(), nn.Linear(100, classes),
        )  # fmt: skip


class Layer(nn.Module):
    """One layer of a transformer, with the norms before."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(seen.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def _small(module: nn.Module) -> None:
    """Draw weights as GPT-2 does."""
    for p in module.parameters():
        if p.ndim > 1:
            nn.init.normal_(p, std=0.02)


class ViT(nn.Module):
    """Patches of 4 × 4, 64 of them, and their mean at the end."""

    def __init__(self, classes: int, width: int = 256, depth: int = 6, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.places = nn.Parameter(0.02 * torch.randn(64, width))
        self.layers = nn.Sequential(*(Layer(width, heads, causal=False) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)
        _small(self.layers)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.layers(tokens)).mean(1))


class Characters(nn.Module):
    """Predicts the next character at every place of a line of text."""

    def __init__(
        self, characters: int, length: int, width: int = 256, depth: int = 4, heads: int = 4
    ) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(characters, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, heads, causal=True) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters)
        _small(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.layers(self.tokens(x) + self.places.weight[: x.shape[1]])))
