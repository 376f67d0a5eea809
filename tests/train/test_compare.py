"""`compare`: equal budgets, equal trials, a choice that never sees the test part, going on from a file."""

import json
import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from steepen.train import _compare as module
from steepen.train import compare

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(240, 4, generator=GENERATOR)
Y = (X[:, 0] * X[:, 1] > 0).long()
TRAIN, TEST = (X[:160], Y[:160]), (X[160:], Y[160:])


def network():
    layers = torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 2)
    return torch.nn.Sequential(*layers)


def gelu():
    layers = torch.nn.Linear(4, 16), torch.nn.GELU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 2)
    return torch.nn.Sequential(*layers)


def adam(params, lr, weight_decay):
    return torch.optim.Adam(params, lr=lr, weight_decay=weight_decay, betas=(0.8, 0.9))


def rmsprop(params, lr, weight_decay):
    return torch.optim.RMSprop(params, lr=lr, weight_decay=weight_decay)


def run(out=None, **options):
    given = {
        "methods": ["sam", "share4-late"], "budget": 2, "seeds": 2, "lr": (0.05, 0.2),
        "weight_decay": (1e-4, 1e-3), "batch": 16,
    }  # fmt: skip
    return compare(network, F.cross_entropy, TRAIN, TEST, out=out, **given | options)


def without_time(found):
    rows = found.rows()
    return "\n".join(" ".join(row[:-1]) for row in rows)


def test_every_method_has_as_many_trials_and_gradients():
    found = run()
    assert [line.optimizer for line in found.summary()] == ["base", "sam", "share4-late"]
    for name in found.methods:
        assert sum(trial.method == name for trial in found.trials) == 4
        runs = [one for one in found.runs if one.optimizer == name]
        assert [one.seed for one in runs] == [0, 1]
        for one in runs:
            assert 18 - 2 < one.gradients <= 18  # 2 passes over 144 examples in batches of 16
    steps = {one.optimizer: (one.probed, one.steps) for one in found.runs}
    assert steps["base"] == (0, 18)
    assert steps["sam"] == (9, 9)
    assert steps["share4-late"] == (8, 15)  # 15 + 9 · 4/16 < 18, with the pass of step 0; 16 + 9 · 4/16 > 18
    assert [row[4] for row in found.rows()] == ["probed steps", "0 of 18", "9 of 9", "8 of 15"]


@pytest.mark.filterwarnings("ignore:no gap in half of the run")
def test_the_part_that_is_held_out_does_not_depend_on_the_test_part():
    """Early stopping is by its loss, and the choice by its accuracy: neither sees the test part."""
    other = (-TEST[0], 1 - TEST[1])
    given = {"methods": ["gap"], "lr": (0.1, 0.3), "weight_decay": 0.0, "budget": 5, "seeds": 1, "batch": 32}
    one, two = (compare(network, F.cross_entropy, TRAIN, test, **given) for test in (TEST, other))
    assert one.trials == two.trials
    assert one.choices == two.choices
    for a, b in zip(one.runs, two.runs, strict=True):
        assert a.held_out == b.held_out
        assert a.losses != b.losses
    for line, run in zip(one.summary(), one.runs, strict=True):
        assert line.stopped_loss.value == run.losses[int(np.argmin(run.held_out))]


def test_the_best_trial_is_chosen_by_accuracy_and_by_loss_where_there_are_no_classes():
    found = run()
    for name, choice in found.choices.items():
        own = [trial for trial in found.trials if trial.method == name]
        assert max(own, key=lambda trial: trial.score).choice == choice
    targets = X[:, :1] ** 2
    found = compare(
        lambda: torch.nn.Linear(4, 1), F.mse_loss, (X[:160], targets[:160]), (X[160:], targets[160:]),
        methods=[], budget=2, seeds=1, lr=(0.01, 0.3), weight_decay=(0, 1), batch=16,
    )  # fmt: skip
    assert max(found.trials, key=lambda trial: trial.score).choice == found.choices["base"]
    assert math.isnan(found.runs[0].accuracy)
    assert found.rows()[1][5] == "–"


def test_one_value_of_each_needs_no_trial():
    found = run(lr=0.1, weight_decay=1e-3, strengths={"sam": 0.07})
    assert found.trials == []
    assert found.choices["sam"] == (0.1, 1e-3, 0.07)
    assert {one.strength for one in found.runs if one.optimizer == "sam"} == {0.07}


def test_data_sorted_by_class_are_held_out_at_random_with_their_targets():
    order = Y[:160].argsort()
    held = []
    inputs = []

    class Shown(torch.nn.Linear):
        def forward(self, x):
            inputs.append(x)
            return super().forward(x)

    def loss(scores, y):
        assert torch.equal(y, (inputs[-1][:, 0] * inputs[-1][:, 1] > 0).long())
        if not torch.is_grad_enabled() and len(y) == 16:  # a tenth of 160
            held.append(y.float().mean().item())
        return F.cross_entropy(scores, y)

    options = {"methods": [], "budget": 1, "seeds": 1, "lr": (0.1, 0.2), "weight_decay": 0.0, "batch": 20}
    compare(lambda: Shown(4, 2), loss, (X[:160][order], Y[:160][order]), TEST, **options)
    assert held
    assert all(0 < mean < 1 for mean in held)


def test_with_dropout_too_a_comparison_goes_on_from_its_file_and_makes_nothing_twice(tmp_path, monkeypatch):
    whole = run()
    real, calls = module.fit, 0

    def broken(*arguments, **options):
        nonlocal calls
        calls += 1
        if calls == 8:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(module, "fit", broken)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    second = run(tmp_path)
    assert calls == 8 + 12 + 6 - 7
    assert without_time(second) == without_time(whole)
    calls = 8
    assert without_time(run(tmp_path)) == without_time(whole)
    assert calls == 8
    more = run(tmp_path, methods=["sam", "share4-late", "msam"], seeds=3)
    assert calls == 8 + 4 + 4 * 3 - 3 * 2
    assert [one.optimizer for one in more.summary()] == ["base", "sam", "share4-late", "msam"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 3}, "budget 1, not 3"),
        ({"validation": 0.2}, "validation 0.1, not 0.2"),
        ({"lr": 0.2}, "base with lr, weight decay and strength"),
        ({"lr": (0.1, 0.2)}, "trials 1, not 4"),
        ({"strengths": {"sam": 0.5}}, "sam with lr"),
        ({"train": TEST, "test": TRAIN}, r"data 160\+80:"),
        ({"make_model": gelu}, r"with first loss 0\.\d+, not 0\.\d+"),  # the same weights
        ({"augment": lambda x, _: 2 * x}, "first loss"),
        ({"base": adam}, r"with base SGD\(momentum=0.9\), not Adam\(betas=\(0.8, 0.9\)\)\. "),
    ],
)
def test_a_file_of_another_task_or_settings_is_refused_by_name_and_left_alone(
    tmp_path, monkeypatch, change, message
):
    given = {
        "make_model": network,
        "loss": F.cross_entropy,
        "lr": 0.1,
        "weight_decay": 0.0,
        "methods": ["sam"],
    }
    given |= {"budget": 1, "seeds": 1, "batch": 16, "out": tmp_path, "train": TRAIN, "test": TEST}
    first = compare(**given)
    monkeypatch.setattr(module, "fit", lambda *_, **__: pytest.fail("it trained"))
    assert compare(**given).runs == first.runs
    before = (tmp_path / "results.json").read_bytes()
    with pytest.raises(ValueError, match=f"out: .*{message}"):
        compare(**given | change)
    assert (tmp_path / "results.json").read_bytes() == before


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(ValueError, match="is not a file of results"):
        run(tmp_path)
    with pytest.raises(ValueError, match="out: there is no folder"):
        run(tmp_path / "nowhere")


def test_weights_that_do_not_follow_from_the_seed_are_refused():
    def restless():
        model = torch.nn.Linear(4, 2)
        with torch.no_grad():
            model.bias.fill_(float(np.random.default_rng().normal()))
        return model

    with pytest.raises(ValueError, match="make_model: expected the same weights for the same seed of torch"):
        compare(restless, F.cross_entropy, TRAIN, TEST, methods=[], batch=16)


@pytest.mark.parametrize(
    ("base", "rates", "decays"),
    [
        ("sgd", {0.03, 0.1, 0.3}, {1e-4, 1e-3, 1e-2}),
        ("adamw", {3e-4, 1e-3, 3e-3}, {0.01, 0.1, 0.3}),
        (rmsprop, {3e-3, 0.01, 0.03}, {1e-4, 1e-3, 1e-2}),
    ],
)
def test_the_rates_to_choose_from_fit_the_base(base, rates, decays):
    given = {"lr": None, "weight_decay": None, "methods": [], "budget": 1, "seeds": 1, "base": base}
    tried = [trial.choice for trial in run(**given).trials]
    assert {choice.lr for choice in tried} == rates
    assert {choice.decay for choice in tried} == decays


def test_the_choice_does_not_depend_on_the_order_in_which_trials_ended(tmp_path):
    """Of equals the first is taken; and the file is plain JSON, also of a trial that diverged."""
    flat = {"make_model": network, "train": TRAIN, "test": (X[160:], Y[160:]), "methods": [], "batch": 16}
    flat |= {"loss": lambda a, b: F.cross_entropy(a, b) + 0 * a.sum(), "lr": (1e-9, 1e30), "seeds": 1}
    flat |= {"weight_decay": (0.0, 1e-9), "budget": 1, "out": tmp_path}
    chosen = compare(**flat).choices
    path = tmp_path / "results.json"
    document = json.loads(
        path.read_text("utf-8"), parse_constant=lambda word: pytest.fail(f"{word} is not JSON")
    )
    assert None in [score for *_, score in document["trials"]]  # lr 1e30 diverges
    document["trials"].reverse()
    path.write_text(json.dumps(document))
    assert compare(**flat).choices == chosen


def test_memory_that_runs_out_in_one_method_marks_its_row(monkeypatch):
    real = module.fit

    def short(task, name, *arguments, **options):
        if name == "sam":
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return real(task, name, *arguments, **options)

    monkeypatch.setattr(module, "fit", short)
    found = run()
    assert found.failures == {"sam": "out of memory"}
    assert [line.optimizer for line in found.summary()] == ["base", "share4-late"]
    assert next(row for row in found.rows() if row[0] == "sam")[4] == "out of memory"


def test_a_method_whose_trials_all_diverge_has_a_row_that_says_so():
    found = run(lr=(1e30, 1e35))
    assert set(found.failures.values()) == {"every trial diverged"}
    assert found.runs == []
    assert "every trial diverged" in str(found)


def nan_loss(scores, y):
    return F.cross_entropy(scores, y) * math.nan


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"loss": nan_loss}, ValueError, "loss: expected a finite number at the initial weights, got nan"),
        ({"loss": lambda a, b: 1.0}, TypeError, "loss: expected a tensor of one number, got 1.0"),
        (
            {"budget": 0.5},
            ValueError,
            "budget: expected a number of passes over the training data, 1 or more",
        ),
        ({"tuning": 0}, ValueError, "tuning: expected"),
        ({"methods": "sam"}, TypeError, "methods: expected a list of names, got 'sam'"),
        ({"methods": ["samm"]}, ValueError, "methods: 'samm' is not known; did you mean 'sam'"),
        ({"methods": ["adamw"]}, ValueError, "methods: 'adamw' is a base; say base='adamw'"),
        ({"methods": ["sam", "sam"]}, ValueError, "methods: expected each once"),
        ({"base": "adam"}, ValueError, "base: 'adam' is not known"),
        ({"base": 3}, TypeError, "base: expected 'sgd', 'adamw' or a callable, got 3"),
        ({"lr": (0.1, -1)}, ValueError, "lr: expected positive numbers, got -1"),
        ({"weight_decay": (1, 2, 3)}, ValueError, "weight_decay: expected 2 values, as many as of lr"),
        ({"strengths": {"gnp": 1}}, ValueError, "strengths: 'gnp' is not one of the methods"),
        ({"batch": 1000}, ValueError, "batch: expected at most the 144 examples to train on, got 1000"),
        ({"methods": ["gap"], "budget": 2}, ValueError, "optimizer: GapSAM needs 20 steps or more"),
        ({"base": lambda *_: 3}, TypeError, "base: expected to be given an optimizer of torch, got 3"),
        (
            {"batch": 80, "methods": ["sam-late"], "budget": 1},
            ValueError,
            "fraction: 0.25 of . steps is less",
        ),
        ({"seeds": 0}, ValueError, "seeds: "),
        ({"validation": 1}, ValueError, "validation: "),
        ({"device": "tpu"}, ValueError, "device: expected cpu, cuda or mps, got 'tpu'"),
        ({"train": X}, TypeError, "train: expected examples and targets, or a dataset"),
        ({"test": (X, Y[:5])}, ValueError, "test: expected as many targets as examples, got 5 and 240"),
        ({"make_model": lambda: 3}, TypeError, "make_model: expected to be given a torch.nn.Module, got int"),
        ({"methods": ["smooth"], "loss": lambda s, y: F.cross_entropy(s, y)}, ValueError, "'smooth' needs a"),
    ],
)
def test_wrong_arguments_are_refused_before_any_training(monkeypatch, options, error, message):
    monkeypatch.setattr(module, "fit", lambda *_, **__: pytest.fail("it trained"))
    given = {
        "make_model": network, "loss": F.cross_entropy, "train": TRAIN, "test": TEST, "methods": ["sam"],
        "lr": (0.1, 0.2), "weight_decay": 0.0, "batch": 16,
    }  # fmt: skip
    given |= options
    with pytest.raises(error, match=message):
        compare(given.pop("make_model"), given.pop("loss"), given.pop("train"), given.pop("test"), **given)


def test_datasets_and_arrays_are_taken_as_tensors_are():
    sets = [torch.utils.data.TensorDataset(*part) for part in (TRAIN, TEST)]
    arrays = [tuple(one.numpy() for one in part) for part in (TRAIN, TEST)]
    options = {"methods": [], "budget": 1, "seeds": 1, "lr": 0.1, "weight_decay": 0.0, "batch": 16}
    ends = [
        compare(network, F.cross_entropy, *both, **options).runs[0].losses
        for both in ((TRAIN, TEST), sets, arrays)
    ]
    assert ends[0] == ends[1] == ends[2]


def test_the_callers_random_numbers_are_left_alone():
    before = torch.get_rng_state()
    run(seeds=1, methods=["sam"])
    assert torch.equal(before, torch.get_rng_state())
