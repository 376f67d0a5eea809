"""`compare`: equal budgets, equal trials, a choice that never sees the test part, going on from a file."""

import contextlib
import math
import sqlite3
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from steepen import load_results
from steepen.train import METHODS, Comparison, Method, Run, compare
from steepen.train import _compare as module
from steepen.train.training import CONTROLS, last

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
    "controls": False, "budget": 1, "seeds": 1, "lr": 0.1, "weight_decay": 0.0, "batch": 16,
}  # fmt: skip


SHARES = {"sam": METHODS["sam"], "share4-late": replace(METHODS["sam16-late"], ascent_fraction=1 / 4)}


def few(**options):
    return compare(**GIVEN | options)


def run(out=None, **options):
    methods, rates = SHARES, {"lr": (0.05, 0.2), "weight_decay": (1e-4, 1e-3)}
    return few(**{"methods": methods, "budget": 2, "seeds": 2, "out": out, **rates} | options)


def without_time(found):
    return [row[:-1] for row in found.rows()]


def test_every_method_has_as_many_trials_and_gradients():
    found = run()
    assert found.methods == ["base", "sam", "share4-late"]
    for name in found.methods:
        assert sum(method == name for method, _ in found.trials) == 4
        assert [one.seed for one in found.of(name)] == [0, 1]
        for one in found.of(name):
            assert 18 - 2 < one.gradients <= 18  # 2 passes over 144 examples in batches of 16
    steps = {one.optimizer: (one.perturbed, one.steps) for one in found.runs}
    assert steps["base"] == (0, 18)
    assert steps["sam"] == (9, 9)
    assert steps["share4-late"] == (8, 15)  # 15 + 9 · 4/16 < 18, with the pass of step 0; 16 + 9 · 4/16 > 18
    assert [row[4] for row in found.rows()] == ["ascent steps", "0 of 18", "9 of 9", "8 of 15"]


def test_what_a_practitioner_would_try_first_has_the_settings_of_the_base_and_no_trials():
    found = few(controls=True, budget=4, lr=(0.05, 0.2), methods={})
    assert found.methods == ["base", *found.controls] == ["base", *CONTROLS]
    assert {name for name, _ in found.trials} == {"base"}
    assert set(found.choices.values()) == {found.choices["base"]}
    steps = {run.optimizer: run.steps for run in found.runs}
    parts = {
        "base-0.75": 27,
        "base-0.5": 18,
        "base-0.375": 13,
        "base-0.25": 9,
        "base-returned": 36,
        "ema": 36,
    }
    assert steps == {"base": 36, **parts}
    (back,) = found.of("base-returned")
    assert np.isnan(back.held_out).tolist() == [at > 27 for at in back.at]
    assert found.of("ema")[0].losses != found.of("base")[0].losses


def test_the_verdict_compares_with_the_best_of_the_base_stopped_early():
    curves = {  # held-out and test losses of a run, at four evaluations
        "base": ((2.0, 1.0, 1.5, 2.0), (2.0, 1.1, 1.4, 1.9)),
        "ema": ((2.0, 0.9, 1.2, 1.8), (2.0, 1.0, 1.3, 1.7)),
        "base-returned": ((2.0, 0.5, 0.5, math.nan), (2.0, 0.4, 0.4, 0.4)),  # not read to the end
        "gap": ((2.0, 1.2, 1.0, 0.85), (2.0, 1.3, 1.1, 0.95)),
    }
    runs = [
        Run(
            name, seed, 9, 9, (0, 3, 6, 9), (0.5,) * 4, tuple(x + 0.01 * seed for x in test),
            held_out=tuple(x + 0.01 * seed for x in held), perturbed=3 * (name == "gap"),
        )
        for name, (held, test) in curves.items() for seed in range(3)
    ]  # fmt: skip
    found = Comparison({}, list(curves), runs=runs, controls=["ema", "base-returned"])
    assert found.rival == "ema"
    *_, last = found.verdict().splitlines()
    end = (
        "gap: ahead in loss (-0.950 ± 0.000), level in accuracy (+0.00 ± 0.00 points), with 9 gradients of 9."
    )
    early = " Both stopped early, against ema: ahead in loss (-0.050 ± 0.000), level in accuracy"
    assert last.startswith(end + early)
    assert "Both" not in found.verdict().splitlines()[0]  # of the control itself
    assert Comparison({}, ["base"], runs=[replace(run, held_out=()) for run in runs[:3]]).rival is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"length": 0.0}, "length: expected a part of the budget"),
        ({"mean": 1.0}, "mean: expected β"),
        ({"returned": -0.1}, "returned: expected a part of the run"),
    ],
)
def test_a_method_refuses_parts_that_are_none(given, words):
    with pytest.raises(ValueError, match=words):
        Method(**given)


@pytest.mark.filterwarnings("ignore:no gap in half of the run")
def test_the_part_that_is_held_out_does_not_depend_on_the_test_part():
    other = (-TEST[0], 1 - TEST[1])
    given = {"methods": ["gap"], "lr": (0.1, 0.3), "budget": 5, "batch": 32}
    one, two = (few(test=test, **given) for test in (TEST, other))
    assert (one.trials, one.choices) == (two.trials, two.choices)
    for a, b in zip(one.runs, two.runs, strict=True):
        assert a.held_out == b.held_out
        assert a.losses != b.losses
    for run in one.runs:
        assert one.mean(run.optimizer, "stopped_loss").value == run.losses[int(np.argmin(run.held_out))]


def test_the_best_trial_is_chosen_by_accuracy_and_by_loss_where_there_are_no_classes():
    found = run()
    for name, choice in found.choices.items():
        own = {one: score for (method, one), score in found.trials.items() if method == name}
        assert max(own, key=own.get) == choice
    targets = X[:, :1] ** 2
    data = {"train": (X[:160], targets[:160]), "test": (X[160:], targets[160:]), "loss": F.mse_loss}
    found = few(
        make_model=lambda: torch.nn.Linear(4, 1), methods=[], lr=(0.01, 0.3), weight_decay=(0, 1), **data
    )
    assert max(found.trials, key=found.trials.get)[1] == found.choices["base"]
    assert math.isnan(found.runs[0].accuracy)
    assert found.rows()[1][5] == "–"


def test_one_value_of_each_needs_no_trial():
    found = run(lr=0.1, weight_decay=1e-3, methods={"sam": replace(METHODS["sam"], ladder=(0.07,))})
    assert found.trials == {}
    assert found.choices["sam"] == (0.1, 1e-3, 0.07)
    assert {one.strength for one in found.runs if one.optimizer == "sam"} == {0.07}


def test_with_one_weight_decay_too_every_method_has_as_many_trials():
    found = few(lr=(0.05, 0.1, 0.2), weight_decay=1e-3, methods=["sam", "cgd"])
    tried = {name: [one for method, one in found.trials if method == name] for name in found.methods}
    assert {name: len(own) for name, own in tried.items()} == {"base": 3, "sam": 3, "cgd": 3}
    for own in tried.values():
        assert {one.lr for one in own} == {0.05, 0.1, 0.2}
    assert {one.strength for one in tried["sam"]} == set(METHODS["sam"].ladder)


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
    file = tmp_path / "found.sqlite"
    with pytest.raises(KeyboardInterrupt):
        run(file)
    second = run(file)
    assert calls == 8 + 12 + 6 - 7
    assert without_time(second) == without_time(whole)
    calls = 8
    assert without_time(run(file)) == without_time(whole)
    assert calls == 8
    more = run(file, methods=SHARES | {"cgd": METHODS["cgd"]}, seeds=3)
    assert calls == 8 + 4 + 4 * 3 - 3 * 2
    assert [row[0] for row in more.rows()[1:]] == ["base", "sam", "share4-late", "cgd"]
    kept = load_results(file)
    assert kept.attrs["about"]["budget"] == 2
    assert (kept.stage == "final").sum() == len(more.runs) == 12
    assert len(few(out=tmp_path / "few.sqlite", lr=0.1, weight_decay=1e-3, seeds=2).runs) == 4
    assert few(out=tmp_path / "few.sqlite", lr=0.2).choices["sam"].lr == 0.2  # beside those of another lr


class When:
    """Its attribute is hidden."""

    def __init__(self, part):
        self._part = part

    def __call__(self, steps):
        return range(round(self._part * steps), steps)


def test_another_method_of_the_same_name_is_run(tmp_path):
    file, kept = tmp_path / "found.sqlite", {"lr": 0.1, "weight_decay": 1e-3, "seeds": 1}
    for when in (range, last(0.25), When(0.1), When(0.6)):
        given = kept | {"methods": {"mine": Method("SAM", "ρ", (0.1,), when)}}
        assert few(out=file, **given).runs[1].losses == few(**given).runs[1].losses


OTHERS = {
    "budget 1, not 3": {"budget": 3},
    "validation 0.1, not 0.2": {"validation": 0.2},
    'it has loss ".*, not "CrossEntropyLoss': {"loss": torch.nn.CrossEntropyLoss(label_smoothing=0.3)},
    "it has .*network": {"make_model": lambda: torch.nn.Sequential(network(), torch.nn.Linear(2, 2))},
    r'data "160\+80:': {"train": TEST, "test": TRAIN},
    'it has network "': {"make_model": lambda: network(torch.nn.GELU)},  # same weights
    'it has augment "None", not ".*lambda': {"augment": lambda x, _: 2 * x},
    r'base "SGD \(.*, not "Adam \(.* betas: \(0.8, 0.9\) ': {"base": adam},
}


def test_a_file_of_another_task_or_settings_is_refused_by_name_and_left_alone(tmp_path, monkeypatch):
    file = tmp_path / "found.sqlite"
    first = few(out=file)
    monkeypatch.setattr(module, "fit", lambda *_, **__: pytest.fail("it trained"))
    assert few(out=file).runs == first.runs
    before = file.read_bytes()
    for message, change in OTHERS.items():
        with pytest.raises(ValueError, match=f"out: .*{message}"):
            few(out=file, **change)
    assert file.read_bytes() == before
    file.write_text("[]")
    with pytest.raises(ValueError, match="is not a results file"):
        few(out=file)
    with pytest.raises(ValueError, match="out: there is no folder"):
        few(out=tmp_path / "nowhere" / "found.sqlite")


NOW = SimpleNamespace(other=False)  # read by functions; their fingerprints do not see it


def sgd(params, lr, decay, **options):
    return torch.optim.SGD(params, lr=lr, weight_decay=decay, **options)


class Headed(torch.nn.Module):
    """Its first loss does not depend on its activation: the head is 0."""

    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, x):
        return self.head((torch.tanh if NOW.other else torch.relu)(self.body(x)))


def normed():
    return torch.nn.Sequential(
        torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2, momentum=0.5 if NOW.other else 0.1)
    )


def weighted(weight):
    return lambda scores, y: F.cross_entropy(scores, y, weight=weight)


FLAT, STEEP = torch.ones(2), torch.tensor([1.0, 5.0])
CHANGED = {
    "without weight decay": lambda: {"base": lambda p, lr, wd: sgd(p, lr, 0.0 if NOW.other else wd)},
    "with its own lr": lambda: {"base": lambda p, lr, wd: sgd(p, 0.01 if NOW.other else lr, wd)},
    "only the last layer": lambda: {"base": lambda p, lr, wd: sgd(list(p)[-2 * NOW.other :], lr, wd)},
    "noise": lambda: {"augment": lambda x, g: x + 0.01 * NOW.other * torch.randn(x.shape, generator=g)},
    "dropout": lambda: {
        "make_model": lambda: torch.nn.Sequential(network(), torch.nn.Dropout(NOW.other / 9))
    },
    "momentum of BatchNorm": lambda: {"make_model": normed},
    "activation": lambda: {"make_model": Headed},
    "loss by a global": lambda: {
        "loss": lambda s, y: F.cross_entropy(s, y, label_smoothing=0.01 * NOW.other)
    },
    "weights of a Module": lambda: {"loss": torch.nn.CrossEntropyLoss(weight=STEEP if NOW.other else FLAT)},
    "weights in a closure": lambda: {"loss": weighted(STEEP if NOW.other else FLAT)},
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_file_is_refused_whose_task_differs_only_in_what_a_step_does(tmp_path, monkeypatch, what):
    given = {"methods": [], "out": tmp_path / "found.sqlite"}
    first = few(**given | CHANGED[what]())
    assert few(**given | CHANGED[what]()).runs == first.runs
    monkeypatch.setattr(NOW, "other", True)
    with pytest.raises(ValueError, match=r"out: .* holds other results"):
        few(**given | CHANGED[what]())


def test_weights_that_do_not_follow_from_the_seed_are_refused():
    def restless():
        model = torch.nn.Linear(4, 2)
        with torch.no_grad():
            model.bias.fill_(float(np.random.default_rng().normal()))
        return model

    with pytest.raises(ValueError, match="make_model: expected the same weights for the same seed of torch"):
        few(make_model=restless)


def test_the_rates_to_choose_from_fit_the_base():
    tried = {}
    for base in ("sgd", "adamw"):
        trials = few(lr=None, weight_decay=None, methods=[], base=base).trials
        tried[base] = [{choice[i] for _, choice in trials} for i in range(2)]
    assert tried["sgd"] == [{0.03, 0.1, 0.3}, {1e-4, 1e-3, 1e-2}]
    assert tried["adamw"] == [{3e-4, 1e-3, 3e-3}, {0.01, 0.1, 0.3}]


def test_the_choice_does_not_depend_on_the_order_in_which_trials_ended(tmp_path):
    """Of equals the first is taken."""
    file = tmp_path / "found.sqlite"
    given = {"methods": [], "lr": (1e-9, 1e30), "weight_decay": (0.0, 1e-9), "out": file}
    found = few(**given)
    assert any(map(math.isnan, found.trials.values()))  # lr 1e30 diverges
    with contextlib.closing(sqlite3.connect(file)) as database, database:  # the last one first
        database.execute("UPDATE jobs SET number = 1000 - number")
    again = few(**given)
    assert (again.choices, again.runs) == (found.choices, found.runs)


def test_a_method_whose_trials_all_diverge_has_a_row_that_says_so():
    found = run(lr=(1e30, 1e35))
    assert found.runs == []
    assert "every trial diverged" in str(found)


def LOADER(batches):
    return torch.utils.data.DataLoader(list(batches), batch_size=None)


NET = torch.nn.Linear(1, 1)
REFUSED = {
    "loss: expected a finite number at the initial weights": {"loss": lambda a, y: a.sum() * math.nan},
    "budget: expected a number of passes over the training data, 1 or more": {"budget": 0.5},
    "methods: expected a list of names, got 'sam'": {"methods": "sam"},
    "methods: 'samm' is not known; did you mean 'sam'": {"methods": ["samm"]},
    "device: expected an available one, such as 'cpu'; got 'abacus'": {"device": "abacus"},
    "base: expected 'sgd', 'adamw' or a callable, got 3": {"base": 3},
    "base: expected it to return a torch optimizer, got 3": {"base": lambda *_: 3},
    "lr: expected positive numbers, got -1": {"lr": (0.1, -1)},
    "lr: expected values to choose from, as base is a callable": {"base": adam, "lr": None},
    "weight_decay: expected 2 values, as many as for lr; got 3": {"weight_decay": (1, 2, 3)},
    "ladder of 'a': expected 2 values, as many as for lr; got 4": {
        "methods": {"a": Method("SAM", "ρ", (1, 2, 3, 4))}
    },
    "ladder of 'sam': expected 4 values, as many as for lr; got 3; methods .* up to 3": {
        "lr": (0.1, 0.2, 0.3, 0.4)
    },
    "weight_decay: expected 4 values, as many as for lr; got 3; methods .* up to 3": {
        "lr": (0.1, 0.2, 0.3, 0.4),
        "weight_decay": None,
    },
    "methods: expected a Method by a name other than 'base' and those of its controls, got 'base'": {
        "methods": {"base": METHODS["sam"]}
    },
    "methods: expected a Method .*, got 's': 'SAM'": {"methods": {"s": "SAM"}},
    "methods: 's': .*'sam' is not known; did you mean 'SAM'": {"methods": {"s": Method("sam", "ρ")}},
    "methods: 's': .* unexpected keyword argument 'lam'": {"methods": {"s": Method("SAM", "λ")}},
    "methods: 's': .* argument 'foo'": {"methods": {"s": Method("SAM", "ρ", options={"foo": 1})}},
    "methods: 's': when: GapSAM": {"methods": {"s": replace(METHODS["gap"], when=last(0.1))}, "budget": 5},
    "methods: 'never': budget: it allows 8 steps, none of which": {
        "methods": {"never": Method("SAM", "ρ", when=lambda n: range(10, 10000))}
    },
    "test: expected a finite loss at the initial weights, got nan": {"test": (math.nan * X, Y)},
    "test: mat1 and mat2": {"test": (X[:, :3], Y)},
    "test: Target 2 is out of bounds": {"test": (X, Y + 1)},
    "train: expected pairs of examples and targets": {"train": torch.utils.data.TensorDataset(X, X, Y)},
    "train: expected examples, got none": {"train": torch.utils.data.TensorDataset(X[:0], Y[:0])},
    "loss: expected a function, got None": {"loss": None},
    "augment: expected a function, got 3": {"augment": 3},
    "batch: expected at most the 144 examples to train on": {"batch": 1000},
    "budget: GapSAM needs 20 steps or more": {"methods": ["gap"], "budget": 2},
    "budget: it allows 0 steps, none of which": {"batch": 80, "methods": ["sam-late"]},
    "validation: ": {"validation": 1},
    "train: expected examples and targets, a dict, a dataset or a loader, got Tensor": {"train": X},
    "test: expected the targets under 'labels' in a dict, got x, y": {"test": {"x": X, "y": Y}},
    "train: expected examples of one shape": {"train": LOADER(((X[:, :3], Y), TRAIN))},
    "train: expected as many targets as examples, got 9 and \\[240": {"train": {"labels": Y[:9], "a": X}},
    "make_model: expected a new network in each call, got the same": {"make_model": lambda m=NET: m},
    "make_model: expected a function that returns a new network, got Linear": {"make_model": NET},
    "test: expected as many targets as examples, got 5 and \\[240": {"test": (X, Y[:5])},
    "make_model: expected it to return a torch Module": {"make_model": lambda: 3},
}


@pytest.mark.parametrize("words", REFUSED)
def test_wrong_arguments_are_refused_before_any_training(monkeypatch, words):
    monkeypatch.setattr(module, "fit", lambda *_, **__: pytest.fail("it trained"))
    with pytest.raises((TypeError, ValueError), match=words):
        few(**{"lr": (0.1, 0.2)} | REFUSED[words])


def built_on(part):
    """Return what builds networks on one and the same part."""
    return lambda: torch.nn.Sequential(part, torch.nn.Linear(4, 2))


def test_networks_that_would_train_each_other_are_refused():
    """Those with a part in common; one that is frozen and has no statistics stays as it is."""
    part = torch.nn.Linear(4, 4)
    before = part.weight.clone()
    for shared in (part, torch.nn.BatchNorm1d(4).requires_grad_(False)):
        with pytest.raises(ValueError, match="make_model: expected a new network in each call, got the same"):
            few(make_model=built_on(shared))
    tied = torch.ones(2, 4)

    class Tied(torch.nn.Linear):
        def __init__(self):
            super().__init__(4, 2)
            self.weight = torch.nn.Parameter(tied)

    with pytest.raises(ValueError, match="got the same weights or buffers"):
        few(make_model=Tied)
    assert few(make_model=built_on(part.requires_grad_(False))).runs
    assert torch.equal(part.weight, before)


class Shifted(torch.nn.Module):
    """Writes into its examples, or not."""

    def __init__(self, write):
        super().__init__()
        self.inner, self.write = network(), write

    def forward(self, x):
        return self.inner(x.sub_(0.5) if self.write else x - 0.5)


def test_what_writes_into_its_examples_leaves_the_data_alone():
    options = {
        "make_model": lambda write: lambda: Shifted(write),
        "augment": lambda write: lambda x, _: x.add_(1.0) if write else x + 1.0,
        "loss": lambda write: lambda s, y: F.cross_entropy(s, y.neg_().add_(1) if write else 1 - y),
    }
    for name, option in options.items():
        one, two = (few(methods=[], seeds=2, **{name: option(write)}) for write in (True, False))
        assert [run.losses for run in one.runs] == [run.losses for run in two.runs]


def test_numbers_of_numpy_a_device_of_torch_and_examples_with_a_graph_are_taken(tmp_path):
    plain = few(lr=(0.125, 0.25))
    for lr in (np.array([0.125, 0.25]), [np.float32(0.125), np.float32(0.25)]):
        given = {
            "lr": lr,
            "device": torch.device("cpu"),
            "out": tmp_path / "found.sqlite",
            "batch": np.int64(16),
        }
        assert without_time(few(**given)) == without_time(plain)
    graph = (2 * TRAIN[0].clone().requires_grad_() / 2, TRAIN[1])
    assert without_time(few(train=graph, lr=(0.125, 0.25))) == without_time(plain)


class Rows(torch.utils.data.Dataset):
    """Rows in dicts, as those of Hugging Face."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"inputs": self.x[i], "labels": self.y[i]}


class Output(NamedTuple):
    logits: torch.Tensor


class Named(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, inputs):
        return Output(self.inner(inputs))


def test_datasets_loaders_arrays_and_dicts_are_taken_as_tensors_are():
    load = torch.utils.data.DataLoader
    sets = [torch.utils.data.TensorDataset(*part) for part in (TRAIN, TEST)]
    arrays = [tuple(one.numpy() for one in part) for part in (TRAIN, TEST)]
    loaders = [load(one, batch_size=7) for one in sets]
    forms = [(TRAIN, TEST), sets, arrays, loaders]
    ends = [few(train=train, test=test).runs for train, test in forms]
    rows = [Rows(*part) for part in (TRAIN, TEST)]
    dicts = [{"inputs": x, "labels": y} for x, y in (TRAIN, TEST)]
    by_name = {"make_model": Named, "loss": lambda out, y: F.cross_entropy(out.logits, y)}
    for train, test in (dicts, rows, [load(one, batch_size=7) for one in rows]):
        ends.append(few(train=train, test=test, **by_name).runs)
    for runs in ends[1:]:
        assert [one.losses for one in runs] == [one.losses for one in ends[0]]
        assert [one.accuracies for one in runs] == [one.accuracies for one in ends[0]]


def test_a_loader_that_shuffles_is_the_same_data_in_the_next_call(tmp_path):
    """By torch's generator or by its own; both are left as they were."""
    generator = torch.Generator().manual_seed(7)
    for own in (None, generator):
        loader = torch.utils.data.DataLoader(Rows(*TRAIN), batch_size=7, shuffle=True, generator=own)
        states = torch.get_rng_state(), generator.get_state()
        given = {
            "make_model": Named, "loss": lambda out, y: F.cross_entropy(out.logits, y), "train": loader,
            "test": {"inputs": X, "labels": Y}, "out": tmp_path / f"{own is None}.sqlite",
        }  # fmt: skip
        assert few(**given).runs == few(**given).runs
        assert torch.equal(torch.get_rng_state(), states[0])
        assert torch.equal(generator.get_state(), states[1])


def test_a_method_of_the_users_own_has_its_strengths_and_options():
    method = Method("CGD", "λ", ladder=(0.3, 1.0, 3.0), options={"r": 0.1})
    found = few(methods={"wider": method}, lr=(0.1, 0.2))
    assert {choice.strength for name, choice in found.trials if name == "wider"} == {0.3, 1.0}
    assert found.of("wider")
