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


def network(between=torch.nn.ReLU):
    layers = torch.nn.Linear(4, 16), between(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 2)
    return torch.nn.Sequential(*layers)


def adam(params, lr, weight_decay):
    return torch.optim.Adam(params, lr=lr, weight_decay=weight_decay, betas=(0.8, 0.9))


GIVEN = {
    "make_model": network, "loss": F.cross_entropy, "train": TRAIN, "test": TEST, "methods": ["sam"],
    "budget": 1, "seeds": 1, "lr": 0.1, "weight_decay": 0.0, "batch": 16,
}  # fmt: skip


def few(**options):
    return compare(**GIVEN | options)


def run(out=None, **options):
    methods, rates = ["sam", "share4-late"], {"lr": (0.05, 0.2), "weight_decay": (1e-4, 1e-3)}
    return few(**{"methods": methods, "budget": 2, "seeds": 2, "out": out, **rates} | options)


def without_time(found):
    return [row[:-1] for row in found.rows()]


def test_every_method_has_as_many_trials_and_gradients():
    found = run()
    assert [line.optimizer for line in found.summary()] == ["base", "sam", "share4-late"]
    for name in found.methods:
        assert sum(trial.method == name for trial in found.trials) == 4
        runs = [one for one in found.runs if one.optimizer == name]
        assert [one.seed for one in runs] == [0, 1]
        for one in runs:
            assert 18 - 2 < one.gradients <= 18  # 2 passes over 144 examples in batches of 16
    steps = {one.optimizer: (one.perturbed, one.steps) for one in found.runs}
    assert steps["base"] == (0, 18)
    assert steps["sam"] == (9, 9)
    assert steps["share4-late"] == (8, 15)  # 15 + 9 · 4/16 < 18, with the pass of step 0; 16 + 9 · 4/16 > 18
    assert [row[4] for row in found.rows()] == ["perturbed steps", "0 of 18", "9 of 9", "8 of 15"]


@pytest.mark.filterwarnings("ignore:no gap in half of the run")
def test_the_part_that_is_held_out_does_not_depend_on_the_test_part():
    other = (-TEST[0], 1 - TEST[1])
    given = {"methods": ["gap"], "lr": (0.1, 0.3), "budget": 5, "batch": 32}
    one, two = (few(test=test, **given) for test in (TEST, other))
    assert (one.trials, one.choices) == (two.trials, two.choices)
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
    data = {"train": (X[:160], targets[:160]), "test": (X[160:], targets[160:]), "loss": F.mse_loss}
    found = few(
        make_model=lambda: torch.nn.Linear(4, 1), methods=[], lr=(0.01, 0.3), weight_decay=(0, 1), **data
    )
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

    data = (X[:160][order], Y[:160][order])
    few(make_model=lambda: Shown(4, 2), loss=loss, train=data, methods=[], lr=(0.1, 0.2), batch=20)
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


OTHERS = {
    "budget 1, not 3": {"budget": 3},
    "validation 0.1, not 0.2": {"validation": 0.2},
    "base with lr, weight decay and strength": {"lr": 0.2},
    "trials 1, not 4": {"lr": (0.1, 0.2)},
    "sam with lr": {"strengths": {"sam": 0.5}},
    r"data 160\+80:": {"train": TEST, "test": TRAIN},
    r"with first loss 0\.\d+, not 0\.\d+": {"make_model": lambda: network(torch.nn.GELU)},  # same weights
    "first loss": {"augment": lambda x, _: 2 * x},
    r"with base SGD\(momentum=0.9\), not Adam\(betas=\(0.8, 0.9\)\)\. ": {"base": adam},
}


def test_a_file_of_another_task_or_settings_is_refused_by_name_and_left_alone(tmp_path, monkeypatch):
    first = few(out=tmp_path)
    monkeypatch.setattr(module, "fit", lambda *_, **__: pytest.fail("it trained"))
    assert few(out=tmp_path).runs == first.runs
    before = (tmp_path / "results.json").read_bytes()
    for message, change in OTHERS.items():
        with pytest.raises(ValueError, match=f"out: .*{message}"):
            few(out=tmp_path, **change)
    assert (tmp_path / "results.json").read_bytes() == before
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(ValueError, match="is not a file of results"):
        few(out=tmp_path)
    with pytest.raises(ValueError, match="out: there is no folder"):
        few(out=tmp_path / "nowhere")


def test_weights_that_do_not_follow_from_the_seed_are_refused():
    def restless():
        model = torch.nn.Linear(4, 2)
        with torch.no_grad():
            model.bias.fill_(float(np.random.default_rng().normal()))
        return model

    with pytest.raises(ValueError, match="make_model: expected the same weights for the same seed of torch"):
        few(make_model=restless)


def test_the_rates_to_choose_from_fit_the_base():
    def rmsprop(params, lr, weight_decay):
        return torch.optim.RMSprop(params, lr=lr, weight_decay=weight_decay)

    tried = {}
    for base in ("sgd", "adamw", rmsprop):
        trials = few(lr=None, weight_decay=None, methods=[], base=base).trials
        tried[base] = [{trial.choice[i] for trial in trials} for i in range(2)]
    assert tried["sgd"] == [{0.03, 0.1, 0.3}, {1e-4, 1e-3, 1e-2}]
    assert tried["adamw"] == [{3e-4, 1e-3, 3e-3}, {0.01, 0.1, 0.3}]
    assert tried[rmsprop] == [{3e-3, 0.01, 0.03}, {1e-4, 1e-3, 1e-2}]


def test_the_choice_does_not_depend_on_the_order_in_which_trials_ended(tmp_path):
    """Of equals the first is taken; and the file is plain JSON, also of a trial that diverged."""
    given = {"methods": [], "lr": (1e-9, 1e30), "weight_decay": (0.0, 1e-9), "out": tmp_path}
    chosen = few(**given).choices
    path = tmp_path / "results.json"
    document = json.loads(path.read_text("utf-8"), parse_constant=pytest.fail)
    assert None in [score for *_, score in document["trials"]]  # lr 1e30 diverges
    document["trials"].reverse()
    path.write_text(json.dumps(document))
    assert few(**given).choices == chosen


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


NET = torch.nn.Linear(1, 1)
REFUSED = {
    "loss: expected a finite number at the initial weights": {"loss": lambda a, y: a.sum() * math.nan},
    "budget: expected a number of passes over the training data, 1 or more": {"budget": 0.5},
    "methods: expected a list of names, got 'sam'": {"methods": "sam"},
    "methods: 'samm' is not known; did you mean 'sam'": {"methods": ["samm"]},
    "methods: 'adamw' is a base; say base='adamw'": {"methods": ["adamw"]},
    "base: expected 'sgd', 'adamw' or a callable, got 3": {"base": 3},
    "base: expected to be given an optimizer of torch, got 3": {"base": lambda *_: 3},
    "lr: expected positive numbers, got -1": {"lr": (0.1, -1)},
    "weight_decay: expected 2 values, as many as of lr": {"weight_decay": (1, 2, 3)},
    "strengths: 'gnp' is not one of the methods": {"strengths": {"gnp": 1}},
    "batch: expected at most the 144 examples to train on": {"batch": 1000},
    "optimizer: GapSAM needs 20 steps or more": {"methods": ["gap"], "budget": 2},
    "fraction: 0.25 of . steps is less": {"batch": 80, "methods": ["sam-late"]},
    "validation: ": {"validation": 1},
    "train: expected examples and targets, a dataset or a loader": {"train": X},
    "test: expected examples and targets, a dataset or a loader, got dict": {"test": {"x": X, "y": Y}},
    "make_model: expected a new network in each call, got the same": {"make_model": lambda m=NET: m},
    "make_model: expected a function that returns a new network, got Linear": {"make_model": NET},
    "test: expected as many targets as examples, got 5 and 240": {"test": (X, Y[:5])},
    "make_model: expected to be given a torch.nn.Module": {"make_model": lambda: 3},
    "'smooth' needs a": {"methods": ["smooth"], "loss": lambda s, y: F.cross_entropy(s, y)},
}


@pytest.mark.parametrize("words", REFUSED)
def test_wrong_arguments_are_refused_before_any_training(monkeypatch, words):
    monkeypatch.setattr(module, "fit", lambda *_, **__: pytest.fail("it trained"))
    with pytest.raises((TypeError, ValueError), match=words):
        few(**{"lr": (0.1, 0.2)} | REFUSED[words])


def test_datasets_and_arrays_are_taken_as_tensors_are():
    sets = [torch.utils.data.TensorDataset(*part) for part in (TRAIN, TEST)]
    arrays = [tuple(one.numpy() for one in part) for part in (TRAIN, TEST)]
    loaders = [torch.utils.data.DataLoader(one, batch_size=7) for one in sets]
    forms = ((TRAIN, TEST), sets, arrays, loaders)
    given = [{"train": train, "test": test, "methods": []} for train, test in forms]
    ends = [few(**options).runs[0].losses for options in given]
    assert ends[0] == ends[1] == ends[2] == ends[3]
