"""The examples run, ascent step and learn."""

import sys

import pytest
import torch

from ..examples import EXAMPLES, load

torch.set_num_threads(1)
HERE = {  # what runs in this process: what it needs, and its arguments
    "train_with_trainer": ("transformers", {}),
    "train_with_lightning": ("pytorch_lightning", {}),
    "train_with_lightning_manual": ("pytorch_lightning", {"epochs": 3}),
    "train_with_accelerate": ("accelerate", {}),
    "train_with_accelerate, closures": ("accelerate", {"epochs": 40, "micro": 1, "closures": True}),
    "train_with_compile": ("torch", {"epochs": 3, "backend": "aot_eager"}),
}


@pytest.fixture(autouse=True)
def new_accelerator():
    """Accelerate has one state in a process, which an earlier run may have left within a step."""
    if "accelerate.state" in sys.modules:
        for name in ("GradientState", "AcceleratorState"):
            getattr(sys.modules["accelerate.state"], name)._reset_state()


def test_all_are_run():
    here = {name.partition(",")[0] for name in HERE}
    rest = {path.stem for path in EXAMPLES.glob("train_*.py")} - here
    assert rest == {"train_with_ddp", "train_with_fsdp"}  # those of optax and of RL have tests of their own


QUICK = "train_with_lightning_manual"


@pytest.mark.filterwarnings("ignore:the ascent step is cut to its limit")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name != QUICK)) for name in HERE]
)
def test_probes_and_learns(name, capsys):
    torch._dynamo.reset()
    graphs = torch._dynamo.utils.counters
    graphs.clear()
    needs, options = HERE[name]
    opt, accuracy = load(name.partition(",")[0], needs).main(**options)
    report = opt.report()
    assert accuracy > 0.75  # of ten digits
    assert report.perturbed >= report.steps // 3
    assert report.length > 0
    assert "with an ascent step" in capsys.readouterr().out
    if name == "train_with_compile":  # one graph for the share and one for the batch, for 75 steps
        assert graphs["stats"]["unique_graphs"] == 2


def test_sam_and_egr_stop_where_the_gradient_is_not_zero_and_the_guard_sees_it():
    example = load("hallucinated_minimum", "torch")
    found = {name: example.run(make) for name, make in example.METHODS.items()}
    for name, (x, slope, tripped) in found.items():
        stuck = name in ("EGR", "SAM")
        assert (x, slope) == (pytest.approx(2.70, abs=0.01), pytest.approx(0.27, abs=0.02)) or not stuck
        assert abs(x) + abs(slope) < 0.01 or stuck
        assert (tripped > 0) is ("guard" in name)
    x = torch.tensor(found["EGR"][0], dtype=torch.float64)
    slope, bend = (torch.func.grad(f)(x) for f in (example.loss_of, torch.func.grad(example.loss_of)))
    assert 1 + 2 * example.LAM * bend == pytest.approx(0, abs=1e-6)  # Lemma 1
    beyond = torch.tensor(found["SAM"][0] + example.RHO, dtype=torch.float64)
    assert torch.func.grad(example.loss_of)(beyond) == pytest.approx(0, abs=1e-6)
    assert slope > 0.2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:validation")
def test_where_labels_are_few_weight_decay_does_more_and_the_pages_say_so():
    found = load("fair_comparison", "sklearn").main().values()
    plain, more, stopped, gap_sam, decayed, _ = ((loss, right) for (loss, _), (right, _) in found)
    assert gap_sam[0] < plain[0] and gap_sam[1] > plain[1]  # noqa: PT018
    assert min(more[0], stopped[0]) < 1.1 * gap_sam[0]
    assert decayed[1] > gap_sam[1]
