"""Train a LightningModule; its validation sets the length of the ascent step.

Run it with `python examples/train_with_lightning.py`.
"""

from __future__ import annotations

from typing import Any

import pytorch_lightning as lightning
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from steepen.integrations.lightning import AscentCallback
from steepen.torch import GapSAM


class Digits(lightning.LightningModule):
    """A classifier of 8 × 8 images. All that is of ours is in `configure_optimizers`."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """Return the loss."""
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        """Log the loss that the callback monitors."""
        self.log("val_loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        """Wrap the optimizer; the scheduler is given the wrapper, whose learning rate is the base's."""
        steps = int(self.trainer.estimated_stepping_batches)
        opt = GapSAM(torch.optim.AdamW(self.parameters(), lr=0.01), self, None, steps)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
        return [opt], [{"scheduler": scheduler, "interval": "step"}]


def main(epochs: int = 60) -> tuple[GapSAM, float]:
    """Train, and return the optimizer, and the accuracy on images that were held out."""
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    loader = DataLoader(TensorDataset(x[:160], y[:160]), batch_size=16, shuffle=True)
    validation = DataLoader(TensorDataset(x[1000:1500], y[1000:1500]), batch_size=500)
    model = Digits()
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        val_check_interval=10,
        callbacks=[AscentCallback(monitor="val_loss")],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(model, loader, validation)
    opt, accuracy = (
        trainer.optimizers[0],
        (model.eval().net(x[1500:]).argmax(1) == y[1500:]).float().mean().item(),
    )
    print(f"{opt.report()}\naccuracy {accuracy:.3f}")
    return opt, accuracy


if __name__ == "__main__":
    main()
