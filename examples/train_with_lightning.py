"""Train a LightningModule: CGD is asked for the part of the batch, and told the loss of the validation.

Run it with `python examples/train_with_lightning.py`.
"""

from __future__ import annotations

from typing import Any

import pytorch_lightning as lightning
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from steepen.torch import CGD


class Digits(lightning.LightningModule):
    """A classifier of 8 × 8 images."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        """Give the loss. This runs twice in a penalised step: what it counts or logs, it does twice."""
        x, y = self.cgd.part(batch)  # a sixteenth of it in the first of these passes
        return nn.functional.cross_entropy(self.net(x), y)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        """Tell CGD the loss on held-out images, which sets the strength of the penalty."""
        x, y = batch
        if not self.trainer.sanity_checking:
            self.cgd.report(nn.functional.cross_entropy(self.net(x), y))

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None
    ) -> None:
        """Log here, where the loss is that of the first pass."""
        self.log("loss", optimizer.step(closure=optimizer_closure), prog_bar=True)

    def configure_optimizers(self) -> dict[str, Any]:
        """Wrap the optimizer; the scheduler is given CGD, whose learning rate is that of the base.

        Clip with `max_norm` here: the Trainer's `gradient_clip_val` would clip the two gradients before CGD
        takes their difference.
        """
        if self.trainer.accumulate_grad_batches != 1:  # the closure of a step has the last batch alone
            raise ValueError("accumulate_grad_batches: expected 1, as the second pass needs the whole batch")
        base = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        self.cgd = CGD(base, steps=self.steps, max_norm=1.0, model=self)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(self.cgd, max_lr=0.2, total_steps=self.steps)
        return {"optimizer": self.cgd, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def main(epochs: int = 8) -> float:
    """Train, and give the accuracy on images that were held out."""
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    loader = DataLoader(TensorDataset(x[:1300], y[:1300]), batch_size=64, shuffle=True)
    validation = DataLoader(TensorDataset(x[1300:1500], y[1300:1500]), batch_size=200)

    model = Digits(epochs * len(loader))
    quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", **quiet)
    trainer.fit(model, loader, validation)

    model.eval()
    with torch.no_grad():
        accuracy = (model.net(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    print(f"accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
