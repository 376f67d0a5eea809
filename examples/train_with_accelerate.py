"""Train with Hugging Face Accelerate, with micro-batches, in both forms of a step.

Run it with `python examples/train_with_accelerate.py`, or on several processes with `accelerate launch`.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from steepen.torch import CGD


def main(epochs: int = 8, micro: int = 2, *, closures: bool = True) -> float:
    """Train, and give the accuracy on images that were held out."""
    # Accelerate's own gradient_accumulation_steps would skip calls of step(), and with them the closure.
    # Here a step sees its micro-batches as a list instead: the second pass needs all of them again.
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    loader = DataLoader(TensorDataset(x[:1500], y[:1500]), batch_size=32 * micro, shuffle=True)

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))
    cgd = CGD(torch.optim.AdamW(model.parameters(), lr=0.01), lam=0.01, max_norm=1.0, model=model)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(cgd, epochs * len(loader))
    # `opt` is a wrapper around `cgd`. It has step() and zero_grad(); for probe() ask `cgd` itself.
    model, opt, loader, scheduler = accelerator.prepare(model, cgd, loader, scheduler)

    def passes(parts: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Run the micro-batches forwards and backwards, and give the mean of their losses."""
        total = torch.zeros(())
        for i, part in enumerate(parts):
            images, labels = cgd.part(part)  # all of it, unless share= is set
            last = i == len(parts) - 1  # on several processes: only then are gradients averaged
            with nullcontext() if last else accelerator.no_sync(model):
                loss = nn.functional.cross_entropy(model(images), labels) / len(parts)
                accelerator.backward(loss)
            total += loss.detach()
        return total

    for _ in range(epochs):
        for images, labels in loader:
            parts = list(zip(images.chunk(micro), labels.chunk(micro), strict=True))

            def closure(parts: list[tuple[Tensor, Tensor]] = parts) -> Tensor:
                opt.zero_grad()
                return passes(parts)

            if closures:
                opt.step(closure)
            else:  # the same, spelled out
                closure()
                if cgd.probe():
                    passes(parts)
                opt.step()
            scheduler.step()

    model.eval()
    with torch.no_grad():
        accuracy = (model(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    accelerator.print(f"accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
