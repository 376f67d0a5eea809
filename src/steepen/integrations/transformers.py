"""Hugging Face's Trainer with ascent steps, for users to create or subclass; moves weights within a step."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

from .._tools.optional import load

_host: Any = load("transformers", "steepen.integrations.transformers", extra="transformers")

from torch import Tensor, nn  # noqa: E402

from ..torch._tensors import judging  # noqa: E402
from ._ascent_loop import check_length, checked, is_told  # noqa: E402

__all__ = ["AscentTrainer"]


class AscentTrainer(_host.Trainer):
    """Hugging Face's Trainer for the optimizers of `steepen.torch`, to be used directly or as a mixin.

    Pass the optimizer in `optimizers=(opt, scheduler)`; all else is as in Trainer. For another trainer write
    `class MyTrainer(AscentTrainer, Seq2SeqTrainer): pass`.

    With `ascent_fraction` < 1 the ascent step uses a part of the first micro-batch of a step, and the logged
    loss is that at x + s; with 1 both passes use all of them, and it is that at x. For a `GapSAM` without
    validation data, the loss of each evaluation during training is recorded. The loss of a step is the mean
    over its micro-batches: losses of models that ignore `num_items_in_batch` are divided by their number
    (`loss_is_scaled_for_ga`, unless you have set it). DeepSpeed is refused. For `EGR` a `compute_loss` of
    your own that does not call this one must return `self.ascent.penalised(loss)`.

    Examples
    --------
    >>> import tempfile, torch
    >>> from transformers import BertConfig, BertForSequenceClassification, TrainingArguments
    >>> from steepen.torch import SAM
    >>> sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    >>> model = BertForSequenceClassification(BertConfig(vocab_size=9, **sizes))
    >>> opt = SAM(torch.optim.AdamW(model.parameters(), lr=1e-3), model, rho=0.05, ascent_fraction=1 / 4)
    >>> data = [{"input_ids": torch.arange(4) + i, "labels": i % 2} for i in range(4)] * 4
    >>> quiet = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     args = TrainingArguments(folder, max_steps=3, gradient_accumulation_steps=2, **quiet)
    ...     trainer = AscentTrainer(model, args, train_dataset=data, optimizers=(opt, None))
    ...     _ = trainer.train()
    {'train_runtime': ...}
    >>> opt.report().perturbed
    3
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._plain.__init__(*args, **kwargs)
        if self.is_deepspeed_enabled:
            raise ValueError("deepspeed: it computes gradients and steps itself; use fsdp, or no sharding")
        # `self.optimizer` will be Accelerate's wrapper
        self.ascent: Any = checked(self.optimizer, "optimizers", str(self.accelerator.mixed_precision))
        self._samples: list[Any] = []
        self._items: Any = None
        self._by_items: bool | None = None  # whether the loss is divided by them
        self._passes: Iterator[Any] = iter(())
        self._at_x: list[Tensor] = []
        self.add_callback(_Hooks(self))

    @property
    def _plain(self) -> Any:
        """The methods of the underlying Trainer."""
        return super()

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train; the weights are restored if an error interrupts a step."""
        try:
            return self._plain.train(*args, **kwargs)
        finally:
            self._leave()

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate; during training, record the loss for a `GapSAM` without validation data."""
        metrics = self._plain.evaluate(*args, **kwargs)
        if is_told(self.ascent) and self.is_in_train and "eval_loss" in metrics:
            self.ascent.record_validation_loss(metrics["eval_loss"])
        return metrics

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the loss; within a step with exact products, one with the gradient of f + λ‖∇f‖²."""
        found = self._plain.compute_loss(*args, **kwargs)
        if isinstance(found, tuple):
            return self.ascent.penalised(found[0]), *found[1:]
        return self.ascent.penalised(found)

    def _look(self) -> None:
        """Warn of missing settings before the first step."""
        self._leave()
        check_length(self.ascent, self.state.max_steps)
        if is_told(self.ascent) and (self.args.eval_strategy == "no" or isinstance(self.eval_dataset, dict)):
            warnings.warn("validation: GapSAM gets no loss: set eval_strategy and eval_dataset", stacklevel=2)

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> Any:
        """Fetch the micro-batches of a step, and keep them for both passes."""
        self._samples, self._items = self._plain.get_batch_samples(*args, **kwargs)
        if getattr(self, "loss_is_scaled_for_ga", None) is None and self._items is not None:
            if self._by_items is None and len(self._samples) > 1:
                told = (self._divides(one, self._items) for one in self._samples)
                self._by_items = next((one for one in told if one is not None), None)
            if self._by_items is False:
                self._items, self.loss_is_scaled_for_ga = None, False
        return self._samples, self._items

    def _divides(self, batch: Any, items: Any) -> bool | None:
        """Return whether the loss is divided by the items of a step: it is halved for twice as many.

        None if that cannot be told, as of a batch without labels.
        """
        losses: list[float] = []
        with judging(self.model):
            for many in (items, 2 * items):
                inputs = self._prepare_inputs(dict(batch))
                with self.compute_loss_context_manager():
                    loss = self.compute_loss(self.model_wrapped, inputs, num_items_in_batch=many)
                losses.append(float(loss.mean()))
        if not math.isfinite(sum(losses)) or losses[0] == 0:
            return None
        return abs(losses[1] - losses[0] / 2) < abs(losses[1] - losses[0])

    def _begin(self) -> None:
        """Run the ascent step's passes, before the Trainer's own over the micro-batches."""
        opt = self.ascent
        self._passes, self._at_x = opt.passes(*self._samples, scaler=self.accelerator.scaler), []
        whole, last = opt.ascent_fraction == 1, len(self._samples) - 1 if opt.ascent_fraction == 1 else 0
        part = next(self._passes)
        while opt.ascending:
            synced = len(self._at_x) == last  # among processes, once for all micro-batches
            with nullcontext() if synced else self.accelerator.no_sync(self.model_wrapped):
                items = self._items if whole else self._items_of(part)
                self._at_x.append(self._plain.training_step(self.model_wrapped, part, items))
            opt.record_loss(self._at_x[-1])
            part = next(self._passes)
        if not whole:
            self._at_x = []

    def _items_of(self, part: Any) -> Any:
        """Return the item count that makes the loss of a part its mean over the number of micro-batches."""
        if self._items is None:
            return None
        _, items = self._plain.get_batch_samples(iter([part]), 1, self.args.device)
        return items * len(self._samples)

    def training_step(self, model: nn.Module, inputs: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Run a micro-batch, at x + s in a perturbed step; after the last, the weights are at x again."""
        loss = self._plain.training_step(model, inputs, *args, **kwargs)
        self.ascent.record_loss(loss)
        next(self._passes, None)
        return self._at_x.pop(0) if self._at_x else loss

    def _leave(self) -> None:
        """Restore the weights if a step was interrupted."""
        self._passes = iter(())
        self.ascent.restore()


class _Hooks(_host.TrainerCallback):
    """Callbacks for the events of a run that the Trainer has no method for."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._trainer._look()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._trainer._begin()

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        self._trainer._leave()
