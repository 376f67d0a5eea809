"""The networks: two hidden layers, or ResNet-18; the same weights for the same seed."""

from __future__ import annotations

from typing import Any

from .._tools.optional import load

__all__ = ["mlp", "resnet18"]


def mlp(inputs: int, hidden: int, seed: int, classes: int = 10) -> Any:
    """Build a perceptron with two hidden layers of rectifiers; its weights are drawn from the seed alone.

    torch's own generator is left as it was.

    Examples
    --------
    >>> model = mlp(64, 32, seed=0)
    >>> sum(p.numel() for p in model.parameters())
    3466
    >>> bool((model[0].weight == mlp(64, 32, seed=0)[0].weight).all())
    True
    """
    torch = load("torch", "steepen train", extra="train")
    nn = torch.nn
    with torch.random.fork_rng(devices=[]):  # built on the CPU, so that the device makes no difference
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reach the GPUs too
        return nn.Sequential(
            nn.Linear(inputs, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )


def resnet18(classes: int, seed: int, width: int = 64) -> Any:
    """Build ResNet-18 for pictures of 32 × 32; its weights are drawn from the seed alone.

    Examples
    --------
    >>> sum(p.numel() for p in resnet18(10, seed=0).parameters())
    11173962
    """
    torch = load("torch", "steepen train", extra="train")
    from .resnet import ResNet18

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return ResNet18(classes, width)
