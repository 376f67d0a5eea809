"""Hugging Face's Trainer with an ascent step takes the steps that a loop written by hand takes."""

import re
import warnings

import pytest
import torch
from torch import nn
from torch.optim import SGD

from steepen.integrations._ascent_loop import checked
from steepen.torch import CGD, EGR, SAM, GapSAM

from ..by_hand import by_passes, egr, failing, flat, sam
from ..examples import load
from ..pairs import pairs

with warnings.catch_warnings(action="ignore"):  # what other libraries say while they are imported
    transformers = pytest.importorskip("transformers")
    from steepen.integrations.transformers import AscentTrainer

pytestmark = pytest.mark.filterwarnings("ignore:the ascent step is cut to its limit")
RHO, LR, CLIP = 0.3, 0.1, 0.2


class Mean(nn.Module):
    """Its loss is the mean over a micro-batch, so that the Trainer divides by their number."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1)).double()

    def squares(self, x, labels):
        return (self.net(x.to(self.net[0].weight))[:, 0] - labels) ** 2

    def forward(self, x, labels):
        return {"loss": self.squares(x, labels).mean()}


class Items(Mean):
    """Its loss is a sum over a micro-batch, divided by the items of the step that the Trainer counts."""

    def forward(self, x, labels, num_items_in_batch=None, **_):
        items = len(labels) if num_items_in_batch is None else num_items_in_batch
        return {"loss": self.squares(x, labels).sum() / items}


class Ignores(Mean):
    """It takes the items of the step, and its loss is the mean over a micro-batch all the same."""

    def forward(self, x, labels, **_):
        return super().forward(x, labels)


class Recording(AscentTrainer):
    """Keeps the micro-batches of each step."""

    def get_batch_samples(self, *args, **kwargs):
        found = super().get_batch_samples(*args, **kwargs)
        self.steps = [*getattr(self, "steps", []), found[0]]
        return found


def data(count, shift):
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(0))
    return [{"x": row, "labels": row.sum().sin() + shift} for row in x]


def network(kind=Mean, **options):
    torch.manual_seed(0)
    return kind(**options)


@pytest.fixture
def trainer(tmp_path):
    def trainer(model, opt, micro=1, kind=Recording, **settings):
        given = {
            "per_device_train_batch_size": 4, "gradient_accumulation_steps": micro, "num_train_epochs": 2,
            "lr_scheduler_type": "constant", "max_grad_norm": CLIP, "save_strategy": "no", "use_cpu": True,
            "logging_strategy": "no", "report_to": "none", "disable_tqdm": True,
        }  # fmt: skip
        arguments = transformers.TrainingArguments(tmp_path, **given | settings)
        sets = {"train_dataset": data(44, 0.0), "eval_dataset": data(16, 2.0)}  # so there is a gap
        return kind(model, arguments, optimizers=(opt, None), **sets)

    return trainer


def base(model):
    return SGD(model.parameters(), lr=LR)


@pairs(kind=[Mean, Items, Ignores], micro=[1, 3], share=[1.0, 0.5])
def test_equals_a_loop_by_hand(trainer, kind, micro, share):
    """With the Trainer's clipping, and micro-batches: the last step of eleven has two of three."""
    model, plain = network(kind), network(kind)
    opt = SAM(base(model), model, rho=RHO, ascent_fraction=share)
    run = trainer(model, opt, micro)
    run.train()
    assert [len(step) for step in run.steps[:4]] == ([3, 3, 3, 2] if micro == 3 else [1] * 4)
    for step in run.steps:
        rows = sum(len(batch["x"]) for batch in step)
        whole = [lambda b=batch, n=rows: len(b["x"]) / n * plain(**b)["loss"] for batch in step]
        some = {key: part[: min(4, max(2, round(share * rows)))] for key, part in step[0].items()}
        first = whole if share == 1 else [lambda b=some: plain(**b)["loss"]]
        sam(plain, whole, first, rho=RHO, lr=LR, clip=CLIP)
    assert opt.report().perturbed == opt.report().steps == len(run.steps)
    torch.testing.assert_close(flat(model), flat(plain), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kind", "micro"), [(Mean, 1), (Mean, 3), (Items, 3)])
def test_exact_products_equal_a_loop_by_hand(trainer, kind, micro):
    model, plain = network(kind), network(kind)
    run = trainer(model, EGR(base(model), model, lam=0.05), micro, logging_strategy="steps", logging_steps=1)
    run.train()
    logged = [row["loss"] for row in run.state.log_history if "loss" in row]
    for step, said in zip(run.steps, logged, strict=True):
        rows = sum(len(batch["x"]) for batch in step)
        losses = [lambda b=b, n=rows: len(b["x"]) / n * plain(**b)["loss"] for b in step]
        assert said == pytest.approx(sum(one().item() for one in losses), rel=1e-4)  # without the penalty
        egr(plain, losses, lam=0.05, lr=LR, clip=CLIP)
    torch.testing.assert_close(flat(model), flat(plain), rtol=1e-12, atol=1e-12)


def test_a_compute_loss_that_forgets_exact_products_is_told(trainer):
    class Own(Recording):
        def compute_loss(self, model, inputs, **_):
            return model(**inputs)["loss"]

    model = network()
    with pytest.raises(RuntimeError, match=r"exact: call opt.penalised\(loss\)"):
        trainer(model, EGR(base(model), model, lam=0.05), kind=Own).train()


def test_the_rule_is_told_the_mean_whatever_a_model_does_with_the_items(trainer):
    found = []
    for kind in (Mean, Items, Ignores):
        model = network(kind)
        opt = GapSAM(
            SGD(model.parameters(), lr=0.0), model, lambda: 9.0, 20, ascent_fraction=0.5, strength=0.1
        )
        trainer(model, opt, micro=2, max_steps=20).train()
        found.append((opt.report().training, opt.report().length))
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert found[2] == pytest.approx(found[0], rel=1e-5)
    assert 0 < found[0][0] < 9


@pairs(kind=[Items, Ignores])
def test_a_micro_batch_whose_loss_is_zero_does_not_tell_what_it_is_divided_by(trainer, kind):
    """As one without labels."""
    model = network(kind)
    run, x = trainer(model, SAM(base(model), model), micro=2), torch.randn(4, 4)
    with torch.no_grad():
        solved = {"x": x, "labels": model.net(x.double())[:, 0]}
    assert run._divides(solved, 4) is None
    assert run._divides({"x": x, "labels": x[:, 0]}, 4) is (kind is Items)


def test_cgd_is_clipped_after_its_direction_is_formed(trainer):
    model, plain = network(), network()
    run = trainer(model, CGD(base(model), model, lam=0.05), micro=3)
    run.train()
    opt = CGD(base(plain), plain, lam=0.05)
    by_passes(opt, run.steps, lambda batch: plain(**batch)["loss"], clip=CLIP)
    torch.testing.assert_close(flat(model), flat(plain), rtol=1e-10, atol=1e-12)


def test_evaluation_sets_the_probe(trainer):
    model, plain = network(), network()
    opt = GapSAM(base(model), model, None, total_steps=22, ascent_fraction=0.5)
    run = trainer(model, opt, eval_strategy="steps", eval_steps=2)
    run.train()
    logged = {row["step"]: row["eval_loss"] for row in run.state.log_history if "eval_loss" in row}
    assert list(logged) == list(range(2, 23, 2))
    told = GapSAM(base(plain), plain, None, total_steps=22, ascent_fraction=0.5)
    losses = {"clip": CLIP, "told": lambda k: logged.get(k + 1)}
    by_passes(told, run.steps, lambda batch: plain(**batch)["loss"], **losses)
    assert opt.report().validation == pytest.approx(told.report().validation)
    assert opt.report().perturbed == told.report().perturbed > 5
    torch.testing.assert_close(flat(model), flat(plain), rtol=1e-6, atol=1e-8)
    before = opt.report().validation
    run.evaluate()  # after the run it sets nothing
    assert opt.report().validation == before


def test_resume(trainer, tmp_path):
    def run(**settings):
        model = network(dropout=0.5)
        opt = GapSAM(base(model), model, None, total_steps=20, ascent_fraction=0.5)
        return trainer(model, opt, micro=2, max_steps=20, eval_strategy="steps", eval_steps=2, **settings)

    unbroken, resumed = run(save_strategy="steps", save_steps=8), run()
    unbroken.train()
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-8"))
    assert str(resumed.ascent.report()) == str(unbroken.ascent.report())
    assert unbroken.ascent.report().length > 0
    assert resumed.ascent.k == 20
    assert torch.equal(flat(resumed.model), flat(unbroken.model))


def test_the_logged_loss_is_that_at_the_weights(trainer):
    """With a share of 1 it is; with a smaller one only the loss at x + s is known."""
    losses = {}
    for share in (1.0, 0.5):
        model = network()
        opt = SAM(base(model), model, rho=3.0, ascent_fraction=share)
        run = trainer(model, opt, micro=3, max_steps=1, logging_strategy="steps", logging_steps=1)
        run.train()
        plain = network()
        at_x = sum(plain(**batch)["loss"].item() for batch in run.steps[0]) / 3
        losses[share] = run.state.log_history[0]["loss"] / at_x
    assert losses[1.0] == pytest.approx(1, rel=1e-3)  # it is logged to a few digits
    assert losses[0.5] > 1.2


@pytest.mark.parametrize(("kind", "steps"), [("cgd", 4), ("rule", 20)])
def test_a_scaler_leaves_no_trace(trainer, kind, steps):
    """As in fp16, which the Trainer has on GPUs only."""
    ends, options = [], {"total_steps": 20, "ascent_fraction": 0.5, "strength": 0.1}
    for scaler in (torch.amp.GradScaler("cpu", init_scale=2.0**12), None):
        model = network()
        given = base(model), model
        opt = GapSAM(*given, lambda: 9.0, **options) if kind == "rule" else CGD(*given, lam=0.05)
        run = trainer(model, opt, micro=2, max_steps=steps, max_grad_norm=0)
        run.accelerator.scaler = scaler
        run.train()
        assert run.ascent.k == steps
        assert run.ascent.report().length > 0
        ends.append(flat(model))
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-6, atol=1e-8)


def test_weights_are_put_back_after_an_error_and_where_a_run_is_stopped_within_a_step(trainer):
    start = flat(network())
    model = network(failing(Mean, "squares", start))
    opt = SAM(base(model), model, rho=RHO, ascent_fraction=0.5)
    run = trainer(model, opt, micro=2, max_steps=2)
    with pytest.raises(KeyError, match="mine"):
        run.train()
    assert torch.equal(flat(model).cpu(), start)
    stop = transformers.TrainerCallback()  # after a micro-batch, within a step
    stop.on_substep_end = lambda args, state, control, **_: setattr(control, "should_training_stop", True)
    run.add_callback(stop)
    run.train()
    assert torch.equal(flat(model).cpu(), start)
    run.remove_callback(stop)
    run.train()  # and it can go on
    assert opt.report().perturbed == 2


def test_what_cannot_work_is_refused(trainer):
    class DeepSpeed(transformers.Trainer):
        def create_accelerator_and_postprocess(self):
            super().create_accelerator_and_postprocess()
            self.is_deepspeed_enabled = True

    model = network().float()
    with pytest.raises(TypeError, match="optimizers: expected an optimizer of steepen"):
        trainer(model, base(model))
    with pytest.raises(ValueError, match=r"dtype: the passes are in torch.bfloat16 here; set CGD"):
        trainer(model, CGD(base(model), model, lam=0.1), bf16=True)
    trainer(model, CGD(base(model), model, lam=0.1, dtype=torch.bfloat16), bf16=True)
    for precision in ("fp16", "16-mixed"):  # as Accelerate and Lightning call it, on GPUs
        with pytest.raises(ValueError, match=r"dtype: the passes are in torch.float16 here"):
            checked(CGD(base(model), model, lam=0.1), "optimizers", precision)
    with pytest.raises(ValueError, match="deepspeed"):
        trainer(model, SAM(base(model), model), kind=type("Mixed", (AscentTrainer, DeepSpeed), {}))


def test_what_is_missing_is_said_before_the_first_step(trainer):
    model = network()
    run = trainer(model, GapSAM(base(model), model, None, total_steps=100, ascent_fraction=0.5), max_steps=20)
    with (
        pytest.warns(UserWarning, match="total_steps: GapSAM expects 100, but this run has 20"),
        pytest.warns(UserWarning, match="validation: GapSAM gets no loss: set eval_strategy"),
    ):
        run.train()


def small():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = transformers.BertConfig(vocab_size=20, num_labels=8, **sizes)
    model = transformers.BertForSequenceClassification(config)

    def tokenizer(texts, **_):
        rows = [[min(len(word), 18) for word in (text.split() + ["."] * 12)[:12]] for text in texts]
        return {"input_ids": rows, "attention_mask": [[1] * 12 for _ in rows]}

    return model, tokenizer


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the Trainer, and of a gap that is none after so few steps
def test_both_runs_of_the_example_of_fine_tuning_are_made(capsys):
    example = load("finetune_minilm", "transformers")
    vars(example).update(load=small, TRAIN=5, HELD_OUT=2, TEST=3)
    found = example.compare(steps=24)
    assert set(found) == {"AdamW", "AdamW with GapSAM"}
    assert all(1.0 < loss < 4.0 and 0 <= accuracy <= 1 for loss, accuracy in found.values())
    said = capsys.readouterr().out
    assert re.search(r"steps taken +24\n", said)
    assert "AdamW with GapSAM: test loss" in said
