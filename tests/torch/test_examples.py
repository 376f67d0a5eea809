"""The examples run; and what Lightning, Accelerate and the Trainer make of a closure, or of `probe()`."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.utils.data import DataLoader, TensorDataset

from steepen.torch import CGD

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str, needs: str | None = None) -> Any:
    """Import an example, or a library, if what it needs is there."""
    with warnings.catch_warnings(action="ignore"):  # what other libraries say while they are imported
        if needs is not None:
            pytest.importorskip(needs)
        path = EXAMPLES / f"{name}.py"
        if not path.exists():
            return importlib.import_module(name)
        spec: Any = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# -- torchrun and torch.compile ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["train_with_ddp", "train_with_fsdp"])
@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_torchrun(name: str) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    # FSDP2 warns of every module that ends in a Linear
    strict = {"PYTHONWARNINGS": "error,ignore:FSDP2-wrapped module", "OMP_NUM_THREADS": "1"}
    for _ in range(2):
        path = EXAMPLES / f"{name}.py"
        done = subprocess.run(
            [*command, path], capture_output=True, text=True, env={**os.environ, **strict}, timeout=150
        )
        # a thread of gloo may abort a process that has done its work (pytorch/pytorch#190489)
        if "terminate called without an active exception" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"2 processes, accuracy (.*)\n", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) > 0.8


def test_compile() -> None:
    import torch._dynamo as dynamo

    dynamo.reset()
    dynamo.utils.counters.clear()
    try:
        assert load("train_with_compile").main(epochs=3, backend="aot_eager") > 0.8
        # one with running statistics and one without, for 75 steps
        assert dynamo.utils.counters["stats"]["unique_graphs"] == 1
    finally:
        dynamo.reset()
        dynamo.utils.counters.clear()  # CGD asks them whether anything is compiled


# -- a small problem, and a loop by hand to compare with --------------------------------------------------


def net(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1)).double()


def batches(size: int = 8) -> DataLoader[Any]:
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    return DataLoader(TensorDataset(x, x[:, :1].sin()), batch_size=size)


def square(model: nn.Module, batch: Any) -> Tensor:
    return nn.functional.mse_loss(model(batch[0]), batch[1])


def cgd(model: nn.Module, **options: Any) -> CGD:
    base = SGD(model.parameters(), lr=0.1, momentum=0.9)
    return CGD(base, **({"lam": 0.05, "model": model} | options))


def loop(
    model: nn.Module, opt: CGD, epochs: int, *, rate: bool = False, loss_of: Any = square
) -> tuple[list[float], list[float]]:
    """Train by hand; give the losses of the first passes, and of the second."""
    losses: tuple[list[float], list[float]] = [], []
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9) if rate else None
    for _ in range(epochs):
        for batch in batches():
            seen: list[float] = []

            def closure(batch: Any = batch, seen: list[float] = seen) -> Tensor:
                opt.zero_grad()
                loss = loss_of(model, batch)
                loss.backward()
                seen.append(loss.item())
                return loss

            opt.step(closure)
            losses[0].append(seen[0])
            losses[1].extend(seen[1:])
            if scheduler is not None:
                scheduler.step()
    return losses


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


# -- Lightning --------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated")  # Lightning uses what torch has deprecated,
@pytest.mark.filterwarnings("ignore:.*does not have many workers")  # and advises on speed
@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
class TestLightning:
    @pytest.fixture
    def lightning(self) -> Any:
        return load("pytorch_lightning", "pytorch_lightning")

    @pytest.fixture
    def fit(self, lightning: Any, tmp_path: Path) -> Callable[..., Any]:
        """Train a LightningModule around `net`, and give it back with its CGD and the losses it saw."""

        class Module(lightning.LightningModule):
            def __init__(self, dropout: float, skip: bool = False, **options: Any) -> None:
                super().__init__()
                self.net, self.skip = net(dropout), skip
                self.cgd = cgd(self.net, **options)
                self.losses: list[float] = []
                self.first: list[float] = []

            def training_step(self, batch: Any, batch_idx: int) -> Tensor | None:
                loss = square(self.net, self.cgd.part(batch))
                if self.skip:
                    return None
                self.losses.append(loss.item())
                self.log("inside", loss, on_step=True, on_epoch=True)
                return loss

            def optimizer_step(
                self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any
            ) -> None:
                loss = optimizer.step(closure=optimizer_closure)
                if loss is None:
                    return
                self.first.append(loss.item())
                self.log("around", loss, on_step=True, on_epoch=True)

            def configure_optimizers(self) -> Any:
                scheduler = torch.optim.lr_scheduler.ExponentialLR(self.cgd, 0.9)
                return [self.cgd], [{"scheduler": scheduler, "interval": "step"}]

        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}

        def fit(
            epochs: int, trainer: dict[str, Any] | None = None, dropout: float = 0.0, **options: Any
        ) -> Any:
            module = Module(dropout, **options)
            given = dict(trainer or {})
            path, save = given.pop("ckpt_path", None), given.pop("save", None)
            run = lightning.Trainer(
                max_epochs=epochs,
                accelerator="cpu",
                default_root_dir=tmp_path,
                enable_checkpointing=False,
                **quiet,
                **given,
            )
            run.fit(module, batches(), ckpt_path=path)
            if save is not None:
                run.save_checkpoint(save)
            return module

        return fit

    def test_example(self, lightning: Any, capsys: pytest.CaptureFixture[str]) -> None:
        assert load("train_with_lightning").main(epochs=3) > 0.8

    def test_equals_a_loop_by_hand(self, fit: Any) -> None:
        """Bit for bit, with dropout, a scheduler and clipping; two passes in five steps, then one."""
        options = {"until": 5, "max_norm": 0.1}
        module = fit(2, dropout=0.5, **options)
        model = net(dropout=0.5)
        first, second = loop(model, cgd(model, **options), 2, rate=True)
        assert len(second) == 5
        assert len(module.losses) == 8 + 5
        assert torch.equal(flat(module.net), flat(model))
        assert module.first == first

    @pytest.mark.filterwarnings("ignore:`training_step` returned `None`")
    def test_a_share_and_a_step_without_a_loss(self, fit: Any) -> None:
        """The module asks for its part; a training_step that returns None is a step that does nothing."""
        module = fit(1, lam=None, rho=0.1, share=0.5)
        model = net()
        opt = cgd(model, lam=None, rho=0.1, share=0.5)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
        for batch in batches():
            opt.step_on(lambda x, y: square(model, (x, y)), *batch)
            scheduler.step()
        assert torch.equal(flat(module.net), flat(model))
        assert fit(1, skip=True).cgd.k == 4

    def test_resume(self, fit: Any, tmp_path: Path) -> None:
        path = tmp_path / "half.ckpt"
        unbroken = fit(4, until=10)
        fit(2, {"save": path}, until=10)
        resumed = fit(4, {"ckpt_path": path}, until=10)
        assert torch.load(path)["optimizer_states"][0]["param_groups"][0]["cgd"]["k"] == 8
        assert resumed.cgd.k == 16
        assert len(resumed.losses) == 8 + 2  # two more penalised steps
        assert torch.equal(flat(resumed.net), flat(unbroken.net))

    def test_what_is_logged(self, fit: Any) -> None:
        """`self.log` in training_step sees both passes; around the step, it sees the loss of the first."""
        module = fit(1)
        metrics = {name: value.item() for name, value in module.trainer.callback_metrics.items()}
        mean = lambda values: pytest.approx(sum(values) / len(values))  # noqa: E731
        assert module.losses[::2] == module.first
        assert metrics["inside_step"] == pytest.approx(module.losses[-1])
        assert metrics["inside_epoch"] == mean(module.losses)
        assert metrics["around_step"] == pytest.approx(module.first[-1])
        assert metrics["around_epoch"] == mean(module.first)

    def test_gradient_clip_val_clips_before_the_difference(self, fit: Any) -> None:
        """So what is left of it is not d: `max_norm` is the way to clip."""
        clipped, right = fit(1, {"gradient_clip_val": 0.01}), fit(1, max_norm=0.01)
        assert clipped.cgd.diagnostics.gradient_norm.item() == pytest.approx(0.01, rel=1e-3)
        assert right.cgd.diagnostics.gradient_norm.item() > 0.1
        assert not torch.allclose(flat(clipped.net), flat(right.net), rtol=1e-3)

    def test_accumulation_is_refused(self, fit: Any) -> None:
        """The closure that CGD is given is of the last batch alone; without a word, the others are lost."""
        with pytest.raises(RuntimeError, match="accumulat"):
            fit(1, {"accumulate_grad_batches": 2})

    @pytest.mark.filterwarnings("ignore:You defined a `validation_step`")
    def test_accumulation_is_refused_by_the_example(self, lightning: Any) -> None:
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        quiet["enable_checkpointing"] = False
        trainer = lightning.Trainer(accelerator="cpu", accumulate_grad_batches=2, max_epochs=1, **quiet)
        with pytest.raises(ValueError, match="accumulate_grad_batches: expected 1"):
            trainer.fit(load("train_with_lightning").Digits(10), batches())

    def test_manual_optimization(self, lightning: Any, tmp_path: Path) -> None:
        """By a closure. Lightning's own step always passes one, so `probe()` cannot go before it."""

        class Manual(lightning.LightningModule):
            def __init__(self, probe: bool) -> None:
                super().__init__()
                self.automatic_optimization = False
                self.net, self.probe = net(), probe

            def training_step(self, batch: Any, batch_idx: int) -> None:
                opt = self.optimizers()

                def closure() -> Tensor:
                    opt.zero_grad()
                    loss = square(self.net, batch)
                    self.manual_backward(loss)
                    return loss

                if not self.probe:
                    opt.step(closure=closure)
                    return
                closure()
                opt.probe()
                self.manual_backward(square(self.net, batch))
                opt.step()

            def configure_optimizers(self) -> Any:
                return cgd(self.net)

        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        options = {"accelerator": "cpu", "enable_checkpointing": False, "default_root_dir": tmp_path, **quiet}
        module, model = Manual(probe=False), net()
        lightning.Trainer(max_epochs=2, **options).fit(module, batches())
        loop(model, cgd(model), 2)
        assert torch.equal(flat(module.net), flat(model))
        with pytest.raises(RuntimeError, match=r"step\(closure\) after probe\(\)"):
            lightning.Trainer(max_epochs=1, **options).fit(Manual(probe=True), batches())


# -- Accelerate -------------------------------------------------------------------------------------------


class TestAccelerate:
    @pytest.fixture
    def accelerate(self) -> Any:
        return load("accelerate", "accelerate")

    def test_example(self, accelerate: Any) -> None:
        main = load("train_with_accelerate").main
        by_closure, by_probe = (main(epochs=3, closures=closures) for closures in (True, False))
        assert by_closure == by_probe > 0.8

    @pytest.mark.parametrize("closures", [True, False])
    def test_equals_a_loop_by_hand(self, accelerate: Any, closures: bool) -> None:
        model, plain = net(dropout=0.5), net(dropout=0.5)
        torch.manual_seed(1)
        opt = cgd(model)
        prepared, wrapped, loader = accelerate.Accelerator(cpu=True).prepare(model, opt, batches())
        for _ in range(2):
            for batch in loader:

                def closure(batch: Any = batch) -> Tensor:
                    wrapped.zero_grad()
                    loss = square(prepared, batch)
                    loss.backward()
                    return loss

                if closures:
                    wrapped.step(closure)
                    continue
                closure()
                assert opt.probe()
                square(prepared, batch).backward()
                wrapped.step()
        torch.manual_seed(1)
        loop(plain, cgd(plain), 2)
        torch.testing.assert_close(flat(model), flat(plain), rtol=1e-12, atol=1e-12)
        assert wrapped.state_dict()["param_groups"][0]["cgd"]["k"] == 8

    def test_accumulate(self, accelerate: Any) -> None:
        """Its own accumulation: probe after the last micro-batch, and run all of them again."""
        model, plain = net(), net()
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        opt = cgd(model)
        prepared, wrapped, loader = accelerator.prepare(model, opt, batches(4))
        parts: list[Any] = []
        for batch in loader:
            with accelerator.accumulate(prepared):
                accelerator.backward(square(prepared, batch))
                parts.append(batch)
                if accelerator.sync_gradients:
                    if opt.probe():
                        for part in parts:
                            accelerator.backward(square(prepared, part))
                    parts.clear()
                wrapped.step()
                wrapped.zero_grad()
        loop(plain, cgd(plain), 1)
        assert opt.k == 4
        torch.testing.assert_close(flat(model), flat(plain), rtol=1e-12, atol=1e-12)

    def test_a_probe_in_the_middle_of_an_accumulation_is_noticed(self, accelerate: Any) -> None:
        model = net()
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        opt = cgd(model)
        prepared, wrapped, loader = accelerator.prepare(model, opt, batches(4))
        first, second, *_ = loader
        for batch in (first, second):
            with accelerator.accumulate(prepared):
                accelerator.backward(square(prepared, batch))
                if batch is second:
                    with pytest.raises(RuntimeError, match=r"probe\(\) twice"):
                        opt.probe()
                    break
                assert opt.probe()  # one too early: the gradient is of one micro-batch of two
                accelerator.backward(square(prepared, batch))
                wrapped.step()
                wrapped.zero_grad()

    def test_fewer_micro_batches_after_the_probe_than_before_are_refused(self, accelerate: Any) -> None:
        model = net()
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        opt = cgd(model)
        prepared, wrapped, loader = accelerator.prepare(model, opt, batches(4))
        first, second, *_ = loader
        for batch in (first, second):
            with accelerator.accumulate(prepared):
                accelerator.backward(square(prepared, batch))
        assert opt.probe()
        accelerator.backward(square(prepared, second))
        with pytest.raises(RuntimeError, match="2 backward passes before the probe, and 1 after it"):
            wrapped.step()


# -- Transformers -----------------------------------------------------------------------------------------


class TestTrainer:
    @pytest.fixture
    def example(self) -> Any:
        return load("train_with_trainer", "transformers")

    @pytest.fixture
    def train(self, example: Any, tmp_path: Path) -> Callable[..., Any]:
        """Train a small network, in float64 and without dropout unless told, and give the trainer."""

        def train(
            micro: int = 1,
            dropout: float = 0.0,
            resume: str | None = None,
            cgd_options: Any = (),
            **settings: Any,
        ) -> Any:
            torch.manual_seed(0)
            sizes = {
                "hidden_size": 8,
                "intermediate_size": 8,
                "num_hidden_layers": 1,
                "num_attention_heads": 1,
            }
            off = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": 0.0}
            config = example.BertConfig(vocab_size=20, max_position_embeddings=8, **sizes, **off)
            model = example.BertForSequenceClassification(config).double()
            arguments = example.TrainingArguments(
                tmp_path,
                per_device_train_batch_size=16 // micro,
                gradient_accumulation_steps=micro,
                use_cpu=True,
                report_to="none",
                disable_tqdm=True,
                **{"max_grad_norm": 0, "num_train_epochs": 2, "save_strategy": "no", **settings},
            )
            data = example.sequences(64, 0)
            trainer = example.CGDTrainer(
                cgd(model, max_norm=1.0, **dict(cgd_options)), model=model, args=arguments, train_dataset=data
            )
            trainer.train(resume_from_checkpoint=resume)
            return trainer

        return train

    def test_example(self, example: Any) -> None:
        assert example.main(epochs=6) > 0.8

    def test_clipping_by_the_trainer_is_refused(self, train: Any) -> None:
        with pytest.raises(ValueError, match="max_grad_norm: expected 0; clip with CGD"):
            train(max_grad_norm=1.0)

    def test_a_share_of_every_micro_batch(self, train: Any) -> None:
        trainer = train(micro=2, cgd_options={"lam": None, "rho": 0.1, "share": 0.5})
        assert trainer.cgd.k == 8
        assert trainer.cgd.diagnostics.read()["probe_norm"] == pytest.approx(0.1)

    def test_micro_batches(self, train: Any) -> None:
        """Two halves give what the whole gives, in both passes."""
        whole, halves = train(micro=1), train(micro=2)
        assert whole.cgd.k == halves.cgd.k == 8
        torch.testing.assert_close(flat(halves.model), flat(whole.model), rtol=1e-9, atol=1e-9)
        seen = halves.cgd.diagnostics.read()
        assert seen["nu"] > 0
        assert 0.9 < seen["cosine"] < 1 - 1e-9  # a second gradient, at other weights

    def test_dropout_is_replayed(self, train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        masks: list[Tensor] = []
        dropout = nn.Dropout.forward

        def forward(self: nn.Dropout, x: Tensor) -> Tensor:
            y = dropout(self, x)
            masks.append(y == 0)
            return y

        monkeypatch.setattr(nn.Dropout, "forward", forward)
        trainer = train(micro=2, dropout=0.5, num_train_epochs=1)
        each = len(masks) // trainer.cgd.k // 2  # masks of a step, in one of its passes
        steps = [masks[i : i + 2 * each] for i in range(0, len(masks), 2 * each)]
        for step in steps:
            assert all(torch.equal(a, b) for a, b in zip(step[:each], step[each:], strict=True))
        assert not torch.equal(steps[0][0], steps[1][0])

    def test_resume(self, train: Any, tmp_path: Path) -> None:
        unbroken = train(save_strategy="epoch")
        resumed = train(resume=str(tmp_path / "checkpoint-4"))
        assert resumed.cgd.k == 8
        torch.testing.assert_close(flat(resumed.model), flat(unbroken.model), rtol=1e-12, atol=1e-12)
