"""Train with Hugging Face Accelerate and micro-batches, in a loop that owns the backward pass.

Run it with `python examples/train_with_accelerate.py`, or on several processes with `accelerate launch`.
"""

from __future__ import annotations

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from steepen.torch import GapSAM


def main(epochs: int = 60, micro: int = 2, *, closures: bool = False) -> tuple[GapSAM, float]:
    """Train, and return the optimizer, and the accuracy on images that were held out."""
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    loader = DataLoader(TensorDataset(x[:320], y[:320]), batch_size=32 * micro, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(x), y)

    base = torch.optim.AdamW(model.parameters(), lr=0.01)
    opt = GapSAM(base, model, lambda: loss_of(x[1000:1500], y[1000:1500]), epochs * len(loader))
    # `prepared` wraps `opt`: it takes the steps, with a scaler where one is needed. The micro-batches of a
    # step are a list here, and not Accelerate's accumulate(), because a second pass needs them again.
    model, prepared, loader = accelerator.prepare(model, opt, loader)

    for _ in range(epochs):
        for batch in loader:
            if closures:

                def closure(batch: list[Tensor] = batch) -> Tensor:
                    loss = loss_of(*opt.part(batch))
                    accelerator.backward(loss)
                    return loss

                prepared.step(closure)
                continue
            for part in opt.passes(*zip(*(half.chunk(micro) for half in batch), strict=True)):
                loss = loss_of(*part) / micro
                accelerator.backward(loss)
                opt.record_loss(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            prepared.step()

    accuracy = (model.eval()(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    accelerator.print(f"{opt.report()}\naccuracy {accuracy:.3f}")
    return opt, accuracy


if __name__ == "__main__":
    main()
