"""Train with the Trainer of Hugging Face Transformers, by a subclass of a few lines.

Run it with `python examples/train_with_trainer.py`. Nothing is downloaded: the model is small and new.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from steepen.torch import CGD


class CGDTrainer(Trainer):
    """A Trainer whose optimizer is CGD. The second pass goes over all micro-batches of the step."""

    # For accumulation: a classifier's loss is the mean of its micro-batch. (Not so of language models.)
    loss_is_scaled_for_ga = False

    def __init__(self, cgd: CGD, **options: Any) -> None:
        super().__init__(optimizers=(cgd, None), **options)
        if self.args.max_grad_norm:  # it would clip the second gradient, before CGD takes the difference
            raise ValueError("max_grad_norm: expected 0; clip with CGD(max_norm=...)")
        self.cgd = cgd  # self.optimizer will be Accelerate's wrapper around it
        self.parts: list[Any] = []

    def training_step(self, model: nn.Module, inputs: Any, *rest: Any) -> Tensor:
        """Run a micro-batch; after the last one of a step, probe and run all of them again."""
        loss = super().training_step(model, self.cgd.part(inputs), *rest)  # of it all, unless share= is set
        self.parts.append(inputs)
        if self.accelerator.sync_gradients:  # the last micro-batch
            if self.cgd.probe():
                for part in self.parts:
                    super().training_step(model, part, *rest)
            self.parts.clear()
        return loss  # of the first pass


def sequences(count: int, seed: int) -> list[dict[str, Tensor]]:
    """Make sequences with two marks, and labels that say which of them comes first."""
    rows = torch.randint(3, 20, (count, 8), generator=torch.Generator().manual_seed(seed))
    places = torch.rand(count, 8, generator=torch.Generator().manual_seed(seed)).argsort(1)[:, :2]
    rows.scatter_(1, places, torch.tensor([[1, 2]]).expand(count, 2))
    labels = (places[:, 0] < places[:, 1]).long()
    return [{"input_ids": row, "labels": label} for row, label in zip(rows, labels, strict=True)]


def main(epochs: int = 8, micro: int = 2) -> float:
    """Train, and give the accuracy on sequences that were held out."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertForSequenceClassification(BertConfig(vocab_size=20, max_position_embeddings=8, **sizes))
    cgd = CGD(torch.optim.AdamW(model.parameters(), lr=3e-3), lam=0.01, max_norm=1.0, model=model)
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=32 // micro,
            gradient_accumulation_steps=micro,
            max_grad_norm=0,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = CGDTrainer(cgd, model=model, args=settings, train_dataset=sequences(512, 0))
        trainer.train()
        guess = trainer.predict(sequences(256, 1))  # pyright: ignore
    accuracy = float((guess.predictions.argmax(1) == guess.label_ids).mean())
    print(f"accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
