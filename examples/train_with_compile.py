"""Train a network that went through `torch.compile`.

Run it with `python examples/train_with_compile.py`. The first step takes some seconds: it compiles.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from steepen.torch import SAM


def main(epochs: int = 8, backend: str = "inductor") -> tuple[SAM, float]:
    """Train, and return the optimizer, and the accuracy on images that were held out."""
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    model = torch.compile(net, backend=backend, fullgraph=True)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(x), y)

    opt = SAM(torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), net, rho=0.1, ascent_fraction=1 / 4)
    for _ in range(epochs):
        for rows in torch.randperm(1500).split(60):  # of equal sizes, and so is the share: two graphs in all
            opt.step_on(loss_of, x[rows], y[rows])

    accuracy = (net.eval()(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    print(f"{opt.report()}\naccuracy {accuracy:.3f}")
    return opt, accuracy


if __name__ == "__main__":
    main()
