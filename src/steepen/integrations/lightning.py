"""A callback that users give to Lightning's Trainer: runs the ascent step's passes, restores the weights."""

from __future__ import annotations

import importlib.util
import inspect
import warnings
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any, cast

from .._tools.optional import load

# one library under two names, each with its own Callback: ours is that of every one that is there
_names = {"lightning": "lightning.pytorch", "pytorch_lightning": "pytorch_lightning"}
_there = [name for package, name in _names.items() if importlib.util.find_spec(package)]
_hosts = [load(name, __name__, extra="lightning") for name in _there or ["pytorch_lightning"]]
_Callback: Any = type("_Callback", tuple(host.Callback for host in _hosts), {})

import torch  # noqa: E402
from torch import Tensor  # noqa: E402

from ._ascent_loop import check_length, checked, is_told  # noqa: E402

__all__ = ["AscentCallback"]


class AscentCallback(_Callback):
    """A callback for Lightning's Trainer, for a module whose optimizer is one of `steepen.torch`.

    It runs the ascent step's pass with the module's own `training_step`; Lightning runs the other. With
    `ascent_fraction` < 1 the ascent step uses a part of the first micro-batch of a step, and what
    `training_step` logs is that at x + s; with 1 both passes use all of them, and it is that at x. Other
    side effects, such as updates of metrics, happen in both passes. In manual optimisation run `passes`
    yourself, with `manual_backward`; the callback then only records the monitored loss. For `EGR` return
    `self.optimizers().penalised(loss)` from `training_step`.

    Parameters
    ----------
    monitor : str, optional
        The loss, logged in `validation_step`, to record for a `GapSAM` without validation data.

    Examples
    --------
    >>> import pytorch_lightning as lightning, torch
    >>> from torch.utils.data import DataLoader
    >>> from steepen.torch import SAM
    >>> class Module(lightning.LightningModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.net = torch.nn.Linear(2, 1)
    ...     def training_step(self, x):
    ...         return self.net(x).square().mean()
    ...     def configure_optimizers(self):
    ...         return SAM(torch.optim.SGD(self.parameters(), lr=0.1), self, rho=0.05, ascent_fraction=1 / 4)
    >>> quiet = dict.fromkeys(["logger", "enable_progress_bar", "enable_model_summary"], False)
    >>> quiet |= {"accelerator": "cpu", "enable_checkpointing": False}
    >>> trainer = lightning.Trainer(max_epochs=1, callbacks=[AscentCallback()], **quiet)
    >>> trainer.fit(Module(), DataLoader(torch.ones(32, 2), batch_size=8))
    >>> trainer.optimizers[0].report().perturbed
    4
    """

    def __init__(self, monitor: str | None = None) -> None:
        self.monitor = monitor
        self._passes: Iterator[Any] = iter(())
        self._micros: list[tuple[Any, int]] = []  # of the step in progress, with their indices
        self._count = 1  # micro-batches of this step
        self._ours = False  # whether the current pass is the callback's own

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Raise errors for unsupported settings before the first step."""
        if not pl_module.automatic_optimization:
            return
        if trainer.strategy.handles_gradient_accumulation:
            raise ValueError("strategy: DeepSpeed computes gradients and steps itself; use ddp or fsdp2")
        if "dataloader_iter" in inspect.signature(pl_module.training_step).parameters:
            raise ValueError("training_step: expected one that takes a batch, got dataloader_iter")
        opt = checked(trainer.optimizers[0], "configure_optimizers", str(trainer.precision))
        check_length(opt, trainer.estimated_stepping_batches)
        if is_told(opt) and self.monitor is None:
            warnings.warn("monitor: GapSAM gets no validation loss; set monitor='val_loss'", stacklevel=2)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Raise an error on validation in the middle of a step, when the weights are perturbed."""
        if self._micros and trainer.optimizers[0].moved:
            raise ValueError(
                "val_check_interval: expected a multiple of accumulate_grad_batches, "
                f"{trainer.accumulate_grad_batches}, as the weights are at x + s within a step"
            )

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the monitored loss for a `GapSAM`."""
        if self.monitor is None or trainer.state.fn != "fit":
            return
        if self.monitor not in trainer.callback_metrics:
            found = sorted(trainer.callback_metrics)
            raise ValueError(f"monitor: expected the name of a logged loss, of {found}; got {self.monitor!r}")
        if not trainer.sanity_checking and is_told(trainer.optimizers[0]):
            trainer.optimizers[0].record_validation_loss(trainer.callback_metrics[self.monitor])

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        """At the first micro-batch of a step, run the ascent step's pass over its part."""
        if not pl_module.automatic_optimization:
            return
        opt, first = trainer.optimizers[0], not self._micros
        self._micros.append((batch, batch_idx))
        if not first:
            return
        left = trainer.num_training_batches - batch_idx
        self._count = int(min(trainer.accumulate_grad_batches, left))
        self._passes = opt.passes(*[batch] * self._count, scaler=_scaler(trainer))
        part = next(self._passes)
        if opt.ascending and opt.ascent_fraction < 1:
            self._run(trainer, pl_module, part, batch_idx, self._count)
            next(self._passes)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Tensor) -> None:
        """Record the loss of a pass that Lightning runs."""
        if not self._micros or self._ours:
            return
        scaler = _scaler(trainer)
        scale = 1.0 if scaler is None else scaler.scale(torch.ones_like(loss))
        # Lightning divides by accumulate_grad_batches, at the end of an epoch too, where there may be fewer
        loss = loss.detach() / scale * (trainer.accumulate_grad_batches / self._count)
        trainer.optimizers[0].record_loss(loss)

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        """After the last micro-batch run the remaining passes, and restore the weights."""
        if not self._micros or self._ours:
            return
        opt, each = trainer.optimizers[0], trainer.accumulate_grad_batches
        done = self._micros[-1][1] + 1
        if done % each and done != trainer.num_training_batches and not trainer.is_last_batch:
            next(self._passes)
            return
        again = self._micros if opt.ascending else []
        unsynced = getattr(trainer.strategy, "block_backward_sync", nullcontext)
        while opt.ascending:
            next(self._passes)
        for batch, batch_idx in again:
            with unsynced() if batch_idx + 1 < done else nullcontext():  # until the last micro-batch
                self._run(trainer, pl_module, batch, batch_idx, each)
            next(self._passes, None)
        for _ in self._passes:  # of micro-batches that a loader of unknown length did not yield
            pass
        self._passes, self._micros = iter(()), []

    def _run(self, trainer: Any, module: Any, batch: Any, batch_idx: int, parts: int) -> None:
        """Run a forward and backward pass over a batch, as Lightning does."""
        opt: Any = trainer.optimizers[0]
        both = len(inspect.signature(module.training_step).parameters) > 1
        self._ours, module.log = True, lambda *_, **__: None  # pyright: ignore[reportUnknownLambdaType]
        try:
            loss = trainer.strategy.training_step(*((batch, batch_idx) if both else (batch,)))
            if isinstance(loss, Mapping):
                loss = cast(Mapping[str, Any], loss)["loss"]
            if loss is None:
                raise RuntimeError("training_step: expected a loss, got None; an ascent step needs one")
            trainer.strategy.backward(loss / parts, opt)
        finally:
            self._ours = False
            del module.log
        opt.record_loss(loss.detach() / self._count)

    def on_train_epoch_end(self, trainer: Any, *_: Any) -> None:
        """Restore the weights if the epoch, or an error, ended within a step."""
        if self._micros:
            self._passes, self._micros = iter(()), []
            trainer.optimizers[0].restore()

    on_exception = on_train_epoch_end


def _scaler(trainer: Any) -> Any:
    return getattr(trainer.precision_plugin, "scaler", None)
