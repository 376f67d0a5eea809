"""The networks, two hidden layers or ResNet-18, and crops and flips."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steepen.train.training import drawing

__all__ = ["ResNet18", "mlp"]


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
