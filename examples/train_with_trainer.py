"""Train with the Trainer of Hugging Face Transformers; its evaluations set the length of the ascent step.

Run it with `python examples/train_with_trainer.py`. Nothing is downloaded: the model is small and new.
"""

from __future__ import annotations

import tempfile

import torch
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments

from steepen.integrations.transformers import AscentTrainer
from steepen.torch import GapSAM


def sequences(count: int, seed: int) -> list[dict[str, Tensor]]:
    """Make sequences with two marks, and labels that say which of them comes first."""
    rows = torch.randint(3, 20, (count, 8), generator=torch.Generator().manual_seed(seed))
    places = torch.rand(count, 8, generator=torch.Generator().manual_seed(seed)).argsort(1)[:, :2]
    rows.scatter_(1, places, torch.tensor([[1, 2]]).expand(count, 2))
    labels = (places[:, 0] < places[:, 1]).long()
    return [{"input_ids": row, "labels": label} for row, label in zip(rows, labels, strict=True)]


def main(steps: int = 300) -> tuple[GapSAM, float]:
    """Train, and return the optimizer, and the accuracy on sequences that were held out."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = BertConfig(vocab_size=20, max_position_embeddings=8, **sizes, **dropout)
    model = BertForSequenceClassification(config)
    opt = GapSAM(torch.optim.AdamW(model.parameters(), lr=3e-3), model, None, steps)
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=16,
            gradient_accumulation_steps=2,  # the ascent step's share is cut from the first micro-batch
            max_grad_norm=1.0,  # clips what AdamW is about to take
            eval_strategy="steps",
            eval_steps=15,  # what sets the ascent step
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        sets = {"train_dataset": sequences(160, 0), "eval_dataset": sequences(256, 1)}
        trainer = AscentTrainer(model, settings, optimizers=(opt, None), **sets)
        trainer.train()
        guess = trainer.predict(sequences(256, 2))
    accuracy = float((guess.predictions.argmax(1) == guess.label_ids).mean())
    print(f"{opt.report()}\naccuracy {accuracy:.3f}")
    return opt, accuracy


if __name__ == "__main__":
    main()
