"""Train a network that went through `torch.compile`.

Run it with `python examples/train_with_compile.py`. The first step takes some seconds: it compiles.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

from steepen.torch import CGD


def main(epochs: int = 8, backend: str = "inductor") -> float:
    """Train, and give the accuracy on images that were held out."""
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)

    net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    model = torch.compile(net, backend=backend)

    # Say model=net: batch normalisation must not count the second pass, and inside compiled code CGD cannot
    # find it by itself. (The exact mode cannot be compiled: torch.compile has no second derivative.)
    opt = CGD(torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), lam=0.01, model=net)

    for _ in range(epochs):
        for rows in torch.randperm(1500).split(60):  # of equal sizes, so nothing is compiled again

            def closure(rows: torch.Tensor = rows) -> torch.Tensor:
                opt.zero_grad()
                loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
                loss.backward()
                return loss

            opt.step(closure)

    net.eval()
    with torch.no_grad():
        accuracy = (net(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    print(f"accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
