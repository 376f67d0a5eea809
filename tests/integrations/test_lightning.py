"""Lightning with an ascent step takes the steps that a loop written by hand takes."""

import warnings

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from steepen.torch import CGD, EGR, SAM, GapSAM

from ..by_hand import by_passes, egr, failing, flat, sam

with warnings.catch_warnings(action="ignore"):  # what other libraries say while they are imported
    lightning = pytest.importorskip("pytorch_lightning")
    from pytorch_lightning.plugins import MixedPrecision

    from steepen.integrations.lightning import AscentCallback

pytestmark = pytest.mark.filterwarnings("ignore:the ascent step is cut to its limit")
RHO, LR, CLIP = 0.3, 0.1, 0.2
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
QUIET["enable_checkpointing"] = False


class Module(lightning.LightningModule):
    """Made with what makes its optimizer; keeps the validation losses."""

    def __init__(self, make, *, manual=False, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))
        self.net, self.make, self.automatic_optimization = net.double(), make, not manual
        self.told = []

    def loss_of(self, batch):
        return nn.functional.mse_loss(self.net(batch[0])[:, 0], batch[1])

    def training_step(self, batch, batch_idx):
        if self.automatic_optimization:
            loss = self.loss_of(batch)
            self.log("loss", loss, on_step=True, on_epoch=True)
            return {"loss": self.optimizers().penalised(loss)}
        opt = self.optimizers()
        for part in opt.passes(batch):
            loss = self.loss_of(part)
            self.manual_backward(opt.penalised(loss))
            opt.record_loss(loss)
        self.clip_gradients(opt, CLIP, "norm")
        opt.step()
        return None

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss_of(batch))

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            self.told.append(self.trainer.callback_metrics["val_loss"].item())

    def configure_optimizers(self):
        return self.make(self)


def batches(count=44, shift=0.0):
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    return DataLoader(TensorDataset(x, x.sum(1).sin() + shift), batch_size=4)


@pytest.fixture
def fit(tmp_path):
    """Train for two epochs of eleven batches; return the trainer."""

    def fit(module, micro=1, loader=None, path=None, **settings):
        options = {"max_epochs": 2, "callbacks": [AscentCallback()], "accelerator": "cpu", **settings}
        if module.automatic_optimization:
            options |= {"accumulate_grad_batches": micro, "gradient_clip_val": CLIP}
        trainer = lightning.Trainer(default_root_dir=tmp_path, devices=1, **QUIET, **options)
        loader = batches() if loader is None else loader
        trainer.fit(module, loader, batches(16, 2.0), ckpt_path=path)  # with a gap
        return trainer

    return fit


def base(model):
    return SGD(model.parameters(), lr=LR)


@pytest.mark.parametrize(("share", "micro"), [(1.0, 3), (0.5, 1), (0.5, 3)])
def test_equals_a_loop_by_hand(fit, share, micro):
    """With Lightning's clipping, and micro-batches: the last step of eleven has two of three."""
    module, plain = Module(lambda m: SAM(base(m), m, rho=RHO, ascent_fraction=share)), Module(SAM)
    trainer = fit(module, micro)
    report = trainer.optimizers[0].report()
    assert report.perturbed == report.steps == trainer.global_step == (8 if micro == 3 else 22)
    for step in steps_of(micro) * 2:
        whole = [lambda b=batch: plain.loss_of(b) / micro for batch in step]  # so does Lightning
        some = [part[: min(4, max(2, round(share * 4 * len(step))))] for part in step[0]]
        first = whole if share == 1 else [lambda b=some: plain.loss_of(b)]
        sam(plain, whole, first, rho=RHO, lr=LR, clip=CLIP)
    torch.testing.assert_close(flat(module).cpu(), flat(plain), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("micro", "manual"), [(1, False), (3, False), (1, True)])
def test_exact_products_equal_a_loop_by_hand(fit, micro, manual):
    module, plain = Module(lambda m: EGR(base(m), m, lam=0.05), manual=manual), Module(SAM)
    fit(module, micro)
    for step in steps_of(micro) * 2:
        egr(plain, [lambda b=b: plain.loss_of(b) / micro for b in step], lam=0.05, lr=LR, clip=CLIP)
    torch.testing.assert_close(flat(module).cpu(), flat(plain), rtol=1e-12, atol=1e-12)


class Stream(IterableDataset):
    def __iter__(self):
        return (row for batch in batches() for row in zip(*batch, strict=True))


def test_a_loader_of_unknown_length(fit):
    module, known = (Module(lambda m: SAM(base(m), m, rho=RHO)) for _ in range(2))
    fit(module, 3, DataLoader(Stream(), batch_size=4))
    fit(known, 3)
    assert torch.equal(flat(module), flat(known))


def test_cgd_is_clipped_after_its_direction_is_formed(fit):
    module, plain = Module(lambda m: CGD(base(m), m, lam=0.05)), Module(CGD)
    fit(module, 3)
    opt = CGD(base(plain), plain, lam=0.05)
    by_passes(opt, steps_of(3) * 2, plain.loss_of, clip=CLIP, divisor=lambda step: 3)
    torch.testing.assert_close(flat(module).cpu(), flat(plain), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("manual", [False, True])
def test_validation_sets_the_probe(fit, manual):
    module = Module(lambda m: GapSAM(base(m), m, None, total_steps=22, ascent_fraction=0.5), manual=manual)
    trainer = fit(module, callbacks=[AscentCallback(monitor="val_loss")], val_check_interval=2)
    report = trainer.optimizers[0].report()
    assert len(module.told) == 10
    plain = Module(GapSAM)
    told = GapSAM(base(plain), plain, None, total_steps=22, ascent_fraction=0.5)
    # every second step of eleven, in both epochs
    readings = dict(zip([k for k in range(22) if k % 11 % 2], module.told, strict=True))
    by_passes(told, steps_of(1) * 2, plain.loss_of, clip=CLIP, told=readings.get)
    assert report.perturbed == told.report().perturbed > 5
    assert report.validation == pytest.approx(told.report().validation)
    torch.testing.assert_close(flat(module).cpu(), flat(plain), rtol=1e-6, atol=1e-8)


class ByStepOn(Module):
    """Steps by `step_on` in manual optimisation, and takes the validation data away after an epoch."""

    def training_step(self, batch, batch_idx):
        self.optimizers().step_on(lambda x, y: self.loss_of((x, y)), *batch)

    def on_train_epoch_end(self):
        self.optimizers().validation = None


def test_lightnings_object_sets_what_is_the_optimizers(fit):
    module = ByStepOn(
        lambda m: GapSAM(base(m), m, batches(16, 2.0), total_steps=22, ascent_fraction=0.5), manual=True
    )
    (opt,) = fit(module, callbacks=[]).optimizers
    assert opt.validation is None
    assert (opt.k, opt._read, opt.report().perturbed) == (22, 10, 7)


def test_without_the_callback_micro_batches_are_not_dropped_unsaid(fit):
    module = Module(lambda m: SAM(base(m), m, rho=RHO))
    start = flat(module)
    with pytest.raises(RuntimeError, match=r"would be dropped.*AscentCallback\(\)"):
        fit(module, 3, callbacks=[])
    assert torch.equal(flat(module).cpu(), start)
    known = Module(module.make)
    fit(module, callbacks=[], max_epochs=1)
    fit(known, max_epochs=1)
    torch.testing.assert_close(flat(module), flat(known), rtol=1e-9, atol=1e-11)


def test_the_rule_is_told_the_mean_of_a_short_last_step(fit):
    module = Module(lambda m: GapSAM(SGD(m.parameters(), lr=0.0), m, lambda: 9.0, 20, ascent_fraction=0.5))
    plain = Module(SAM)
    with pytest.warns(UserWarning, match="total_steps: GapSAM expects 20, but this run has 4"):
        trainer = fit(module, 3, max_epochs=1)
    means = [sum(plain.loss_of(b).item() for b in step) / len(step) for step in steps_of(3)]
    told = [(1 - 0.5) ** i for i in range(4)]
    expected = sum(w * mean for w, mean in zip(told, reversed(means), strict=True)) / sum(told)
    assert trainer.optimizers[0].report().training == pytest.approx(expected, rel=1e-5)


def steps_of(micro):
    every = list(batches())
    return [every[i : i + micro] for i in range(0, len(every), micro)]


def test_a_run_that_ends_before_its_first_probe_is_told(fit):
    module = Module(lambda m: SAM(base(m), m, when=range(50, 60)))
    with pytest.warns(UserWarning, match="when: contains none of the 11 steps of this run: no ascent step"):
        fit(module, max_epochs=1)


@pytest.mark.filterwarnings("ignore:total_steps")
@pytest.mark.parametrize("manual", [False, True])
def test_resume(fit, tmp_path, manual):
    def run(epochs, path=None):
        module = Module(
            lambda m: GapSAM(base(m), m, None, 44, ascent_fraction=0.5), manual=manual, dropout=0.5
        )
        return fit(module, path=path, max_epochs=epochs, callbacks=[Seeded(), AscentCallback("val_loss")])

    half = run(2)
    half.save_checkpoint(tmp_path / "half.ckpt")
    unbroken, resumed = run(4), run(4, tmp_path / "half.ckpt")
    assert resumed.optimizers[0].k == 44
    assert str(resumed.optimizers[0].report()) == str(unbroken.optimizers[0].report())
    assert unbroken.optimizers[0].report().length > 0
    assert torch.equal(flat(resumed.lightning_module), flat(unbroken.lightning_module))


class Seeded(lightning.Callback):
    """The same random numbers in a step, whether the run was resumed or not: Lightning saves none."""

    def on_train_batch_start(self, trainer, *_):
        torch.manual_seed(trainer.global_step)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_step_is_logged_once(fit, share):
    """With a share of 1 the loss at the weights is logged; with a smaller one that at x + s."""
    module = Module(lambda m: SAM(base(m), m, rho=3.0, ascent_fraction=share))
    trainer = fit(module, max_epochs=1, limit_train_batches=1)
    logged = trainer.callback_metrics["loss_epoch"].item()
    at_x = Module(SAM).loss_of(next(iter(batches()))).item()
    assert (logged == pytest.approx(at_x)) is (share == 1)
    assert trainer.callback_metrics["loss_step"].item() == logged
    assert "log" not in vars(module)


@pytest.mark.parametrize("kind", ["cgd", "rule"])
def test_a_scaler_leaves_no_trace(fit, kind):
    """As in fp16; autocast leaves float64 as it is, so the steps are the same."""

    def make(m):
        if kind == "cgd":
            return CGD(base(m), m, lam=0.05, dtype=torch.float16)
        return GapSAM(base(m), m, lambda: 9.0, total_steps=24, ascent_fraction=0.5, strength=0.1)

    modules = [Module(make), Module(make)]
    half = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=2.0**12))
    for module, plugins in zip(modules, ([half], None), strict=True):
        trainer = fit(module, 2, max_epochs=4 if kind == "rule" else 1, limit_val_batches=0, plugins=plugins)
    assert trainer.optimizers[0].report().length > 0
    torch.testing.assert_close(flat(modules[0]), flat(modules[1]), rtol=1e-6, atol=1e-8)


def test_weights_are_put_back_after_an_error(fit):
    def make(model):
        return SAM(base(model), model, rho=RHO, ascent_fraction=0.5)

    start = flat(Module(make))
    module = failing(Module, "training_step", start)(make)
    with pytest.raises(KeyError, match="mine"):
        fit(module, 2)
    assert torch.equal(flat(module).cpu(), start)


def test_an_epoch_that_is_ended_by_the_module(fit):
    class Short(Module):
        def on_train_batch_start(self, batch, batch_idx):
            return -1 if batch_idx == 1 else None

    module = Short(lambda m: SAM(base(m), m, rho=RHO, ascent_fraction=0.5))
    trainer = fit(module)
    assert trainer.global_step == trainer.optimizers[0].k == 2


def test_what_cannot_work_is_refused(fit):
    class Skips(Module):
        def training_step(self, batch, batch_idx):
            return None

    class Fetches(Module):
        def training_step(self, dataloader_iter):
            return super().training_step(next(dataloader_iter)[0], 0)

    def share(model):
        return SAM(base(model), model, rho=RHO, ascent_fraction=0.5)

    with pytest.raises(TypeError, match="configure_optimizers: expected an optimizer of steepen"):
        fit(Module(base))
    with pytest.raises(ValueError, match="val_check_interval: expected a multiple"):
        fit(Module(share), 3, val_check_interval=4)
    fit(Module(lambda m: SAM(base(m), m, rho=RHO)), 3, val_check_interval=4)  # here the weights are at x
    with pytest.raises(RuntimeError, match="training_step: expected a loss, got None"):
        fit(Skips(share))
    with (
        pytest.warns(match="dataloader_iter"),
        pytest.raises(ValueError, match="training_step: expected one that takes a batch"),
    ):
        fit(Fetches(share))


def test_an_unknown_monitor_is_refused_before_the_first_step_and_a_missing_one_is_said(fit):
    module, other = (
        Module(lambda m: GapSAM(base(m), m, None, total_steps=22, ascent_fraction=0.5)) for _ in range(2)
    )
    with pytest.raises(ValueError, match=r"monitor: expected the name of a logged loss, of \['val_loss'\]"):
        fit(module, callbacks=[AscentCallback("valid_loss")])
    assert not module.told
    with (
        pytest.warns(UserWarning, match="monitor: GapSAM gets no validation loss"),
        pytest.warns(UserWarning, match="validation: .* no loss was recorded yet"),
    ):
        fit(other)
