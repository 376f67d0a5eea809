"""Train a LightningModule by manual optimisation, where the passes are written out.

Run it with `python examples/train_with_lightning_manual.py`.
"""

from __future__ import annotations

import pytorch_lightning as lightning
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from steepen.torch import SAM


class Digits(lightning.LightningModule):
    """A classifier of 8 × 8 images."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        """Take a step: first the ascent step's quarter of the batch, then all of it, a little uphill."""
        opt = self.optimizers()
        for x, y in opt.passes(batch):
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.manual_backward(loss)
            opt.record_loss(loss)
        self.clip_gradients(opt, gradient_clip_val=1.0)
        opt.step()

    def configure_optimizers(self) -> SAM:
        """Wrap the optimizer."""
        return SAM(
            torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9), self, rho=0.2, ascent_fraction=1 / 4
        )


def main(epochs: int = 8) -> tuple[SAM, float]:
    """Train, and return the optimizer, and the accuracy on images that were held out."""
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    model = Digits()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", **quiet)
    trainer.fit(model, DataLoader(TensorDataset(x[:1500], y[:1500]), batch_size=64, shuffle=True))
    opt, accuracy = (
        trainer.optimizers[0],
        (model.eval().net(x[1500:]).argmax(1) == y[1500:]).float().mean().item(),
    )
    print(f"{opt.report()}\naccuracy {accuracy:.3f}")
    return opt, accuracy


if __name__ == "__main__":
    main()
