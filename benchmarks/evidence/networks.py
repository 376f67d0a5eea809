"""The networks of the evidence, and crops and flips of pictures."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steepen.train.training import drawing


def mlp(inputs: int, hidden: int, seed: int, classes: int = 10) -> nn.Sequential:
    """Build a perceptron with two hidden layers of rectifiers; its weights are drawn from the seed alone."""
    with drawing(seed):
        sizes = (inputs, hidden), (hidden, hidden), (hidden, classes)
        first, second, last = (nn.Linear(*size) for size in sizes)
        return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)


class _Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        same = stride == 1 and before == after
        convolution = nn.Conv2d(before, after, 1, stride, bias=False)
        self.around = nn.Identity() if same else nn.Sequential(convolution, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(inner + self.around(x))


class ResNet18(nn.Sequential):
    """The form used on CIFAR: no stride and no pooling before the blocks."""

    def __init__(self, classes: int, width: int = 64) -> None:
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        before = width
        for factor, stride in ((1, 1), (2, 2), (4, 2), (8, 2)):
            layers += [_Block(before, width * factor, stride), _Block(width * factor, width * factor, 1)]
            before = width * factor
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def crops_and_flips(x: Tensor, generator: torch.Generator) -> Tensor:
    """Move each picture by up to 4 pixels, and mirror half of them."""
    n, device = len(x), x.device
    places = torch.randint(0, 9, (2, n, 1), generator=generator, device=device)
    mirrored = torch.rand(n, 1, generator=generator, device=device) < 0.5
    along = torch.arange(32, device=device)
    rows = (places[0] + along)[:, :, None]
    columns = (places[1] + torch.where(mirrored, 31 - along, along))[:, None, :]
    padded = F.pad(x, (4, 4, 4, 4))
    return padded[torch.arange(n, device=device)[:, None, None], :, rows, columns].permute(0, 3, 1, 2)


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
