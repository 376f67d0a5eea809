"""One run: its budget, what it costs, what it repeats, and against a loop written out by hand."""

import math
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from steepen.train import OPTIMIZERS, Settings, models, training
from steepen.train.data import SIZES, load_data
from steepen.train.models import mlp
from steepen.train.optimizers import base_of, steps_of, strength_of, wrap
from steepen.train.settings import BASES
from steepen.train.training import EVALUATIONS, Task, check_device, fit, judge, train
from steepen.train.tuning import Choice

from ..pairs import WHOLE, pairs, sample

WITH_SGD = [name for name in OPTIMIZERS if name not in ("adamw", "gap")]
COST = {  # gradients a step, over a run
    **dict.fromkeys(("sgd", "ema", "smooth", "msam"), 1.0),
    **dict.fromkeys(("cgd-early", "cgd-late", "sam-early", "sam-late", "share4"), 1.25),
    "share4-late": 1.125, "share16": 1.0625, "share16-late": 1.03125,
}  # fmt: skip


class Passed(torch.autograd.Function):
    """The identity; tells of every backward pass, also of one through a backward pass."""

    @staticmethod
    def forward(ctx, x, tell):
        ctx.tell = tell
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.tell()
        return grad, None


class Watched(torch.nn.Module):
    """A network that counts the examples of its backward passes and keeps what it is trained on."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.examples = 0
        self.seen = []

    def forward(self, x):
        if torch.is_grad_enabled():
            self.seen.append(x)
        return Passed.apply(self.inner(x), partial(self.tell, len(x)))

    def tell(self, examples):
        self.examples += examples


@pytest.fixture
def watched(monkeypatch):
    models = []

    def build(*arguments):
        models.append(Watched(mlp(*arguments)))
        return models[-1]

    monkeypatch.setattr("steepen.train.models.mlp", build)
    return models


def without_time(run):
    return replace(run, seconds=0.0, times=())


def rows_of(*batches):
    return {tuple(row) for x in batches for row in x.tolist()}


def task_of(make, loss=torch.nn.functional.cross_entropy):
    return Task(make, loss, load_data("digits"), 32, base_of("sgd"))


def test_gradients_are_counted_honestly_and_all_start_alike_and_see_the_same_batches(watched):
    grads, data = 21 if WHOLE else 20, load_data("digits")
    settings, names = Settings.of("digits", grads=grads), sample(WITH_SGD, 8, always=["egr", "share4-late"])
    runs = [train(name, 3, settings, data) for name in names]
    assert len({(run.accuracies[0], run.losses[0]) for run in runs}) == 1
    assert len({run.loss for run in runs}) > 4  # and yet they differ
    for name, run, model in zip(names, runs, watched, strict=True):
        assert run.at[-1] == run.gradients == model.examples / settings.batch, name
        assert grads - 1.25 <= run.gradients <= grads, name
        assert run.steps == pytest.approx(grads / COST.get(name, 2.0), abs=1), name
        full = [x for x in model.seen if len(x) == settings.batch]  # not the ascent steps from a share
        distinct = [x for i, x in enumerate(full) if i == 0 or not torch.equal(x, full[i - 1])]
        assert len(distinct) == run.steps
        for x, y in zip(distinct, watched[0].seen, strict=False):
            assert torch.equal(x, y)


@pytest.mark.parametrize("name", ["sam-late", "cgd-exact"])
def test_the_same_seed_gives_the_same_numbers_and_the_callers_are_left_alone(short, name):
    data = load_data("digits")
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1]  # noqa: NPY002
    first, second, other = (without_time(train(name, seed, short, data)) for seed in (1, 1, 2))
    assert first == second
    assert first.losses != other.losses
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    assert np.array_equal(before[2], np.random.get_state()[1])  # noqa: NPY002


def test_what_a_network_draws_in_a_step_depends_on_the_seed_alone():
    """Masks are paired: those of step k are the same with every optimizer. Looks draw none."""

    class Drawing(torch.nn.Linear):
        def forward(self, x):
            mask = torch.rand(1)
            if self.training:
                drawn.append(mask.item())
            return super().forward(x) * mask

    masks, task = {}, task_of(lambda seed: Drawing(64, 10))
    for name, seed in (("sgd", 0), ("share4", 0), ("sam", 0), ("sgd", 1)):
        drawn = []
        fit(task, name, OPTIMIZERS[name], Choice(0.1, 5e-4, 0.1), seed=seed, grads=8)
        masks[name, seed] = drawn
    assert len(set(masks["sgd", 0])) == 8
    for name, steps in (("share4", 6), ("sam", 4)):
        assert masks[name, 0] == [mask for mask in masks["sgd", 0][:steps] for _ in range(2)]
    assert not set(masks["sgd", 1]) & set(masks["sgd", 0])


def test_against_a_loop_by_hand():
    data, model = load_data("digits"), mlp(64, 64, 5)
    run = train("sgd", 5, Settings.of("digits", grads=60, batch=50, lr=0.2), data)
    opt = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=5e-4)
    generator, order = torch.Generator().manual_seed(5), []
    for k in range(60):
        if len(order) < 50:  # 898 examples: what is left of a pass is left out
            order = torch.randperm(898, generator=generator).tolist()
        rows, order = order[:50], order[50:]
        rise_and_fall = (k + 1) / 3 if k < 3 else (1 + math.cos(math.pi * (k - 3) / 57)) / 2
        opt.param_groups[0]["lr"] = 0.2 * rise_and_fall
        opt.zero_grad()
        torch.nn.functional.cross_entropy(model(data.x[rows]), data.y[rows]).backward()
        opt.step()
    scores = model(data.x_test)
    expected = torch.nn.functional.cross_entropy(scores, data.y_test).item()
    assert run.loss == pytest.approx(expected, rel=1e-3)
    right = (scores.argmax(1) == data.y_test).double().mean().item()
    assert run.accuracy == pytest.approx(right, abs=0.003)


@pytest.mark.parametrize("base", ["sgd", pytest.param("adamw", marks=pytest.mark.slow)])
def test_the_test_part_is_looked_at_evenly(base):
    settings = Settings.of("digits", grads=400, base=base)
    run = train("cgd-late", 0, settings, load_data("digits"))
    assert len(run.accuracies) == len(run.losses) == EVALUATIONS + 1
    np.testing.assert_allclose(run.at, np.linspace(0, 400, EVALUATIONS + 1), atol=1)
    assert run.accuracy > 0.85


def test_a_diverged_run_ends_and_says_so():
    run = train("sgd", 0, Settings.of("digits", grads=400, lr=1e8), load_data("digits"))
    assert run.diverged
    assert run.gradients < 400
    assert all(math.isfinite(loss) for loss in run.losses[:-1])


def normed(seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = torch.nn.Linear(64, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
        return torch.nn.Sequential(*layers)


def test_a_mean_of_the_weights_is_judged_in_their_place():
    """The weights and BatchNorm's statistics: the mean of all, then m ← βm + (1 − β)x."""
    data, states = load_data("digits"), []

    class Kept(torch.optim.SGD):
        def step(self, closure=None):
            loss = super().step(closure)
            states.append({k: v.clone().double() for k, v in model.state_dict().items()})
            return loss

    def base(params, lr, decay):
        return Kept(params, lr=lr, momentum=0.9, weight_decay=decay)

    model = normed(0)
    task = replace(task_of(lambda seed: model), base=base)
    run = fit(task, "ema", OPTIMIZERS["ema"], Choice(0.1, 5e-4, 0.8), seed=0, grads=10)
    mean = states[0]
    for n, state in enumerate(states[1:], 1):
        beta = 0.8 if n >= 4 else n / (n + 1)
        mean = {k: v if "tracked" in k else beta * mean[k] + (1 - beta) * v for k, v in state.items()}
    other = normed(1)
    other.load_state_dict({k: v.to(other.state_dict()[k].dtype) for k, v in mean.items()})
    assert run.loss == pytest.approx(judge(other, data, task)[1], rel=1e-4)
    assert run.loss != pytest.approx(judge(model, data, task)[1], rel=1e-2)


def test_labels_are_smoothed_in_training_and_not_in_the_test(monkeypatch):
    seen = []

    def loss(scores, y, label_smoothing=0.0):
        seen.append((len(y), label_smoothing))
        return torch.nn.functional.cross_entropy(scores, y, label_smoothing=label_smoothing)

    given = task_of(normed, loss), "smooth", OPTIMIZERS["smooth"], Choice(0.1, 0.0, 0.2)
    whole = fit(*given, seed=0, grads=3)
    assert {one for one in seen if one[0] == 32} == {(32, 0.2)}
    assert {one for one in seen if one[0] != 32} == {(899, 0.0)}
    monkeypatch.setattr(training, "_CHUNK", 500)
    parts = fit(*given, seed=0, grads=3)
    assert parts.losses == pytest.approx(whole.losses, rel=1e-5)
    assert parts.accuracies == pytest.approx(whole.accuracies)


@pytest.mark.filterwarnings("ignore:no gap in half of the run")
def test_the_rule_watches_examples_that_it_does_not_train_on(watched, short):
    data = load_data("digits")
    run = train("gap", 0, short, data)
    gauge = rows_of(data.x[-89:])  # a tenth of 898: 2 % would be few
    assert not gauge & rows_of(*watched[0].seen)
    assert len(run.held_out) == len(run.losses)
    assert run.perturbed <= run.steps // 3 + 1
    assert run.gradients == run.steps + (run.perturbed + 1) * 2 / 32  # two of 32 examples; step 0 looks too
    assert run.gradients == watched[0].examples / short.batch <= short.grads


def test_rows_that_are_held_out_are_watched_and_not_trained_on(watched):
    data, rows = load_data("digits"), [3, 5, 800]
    task = replace(task_of(lambda seed: models.mlp(64, 8, seed)), held_out=rows)
    run = fit(task, "sgd", OPTIMIZERS["sgd"], Choice(0.1, 5e-4), seed=0, grads=56)  # two passes
    trained = rows_of(*watched[0].seen)
    assert len(trained) > 880
    assert not rows_of(data.x[rows]) & trained
    part = data._replace(x_test=data.x[rows], y_test=data.y[rows])
    assert run.held_out[-1] == pytest.approx(judge(watched[0], part, task)[1])
    assert run.stop == int(np.argmin(run.held_out))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one here")
def test_no_cuda_is_said():
    with pytest.raises(ValueError, match="device: there is no cuda here"):
        check_device("cuda")


@pairs(
    name=["cgd", "cgd-early", "sam-late", "share4", "share16-late", "msam"],
    grads=[4, 41, 1000.5], batch=[2, 7, 100], fraction=[0.001, 0.25, 1.0],
)  # fmt: skip
def test_the_budget_is_spent_and_never_exceeded(name, grads, batch, fraction):
    """The most steps n with n·batch + (perturbed steps, and step 0)·(their examples) within the budget."""
    kind = OPTIMIZERS[name]
    rows = 0 if name == "msam" else min(batch, max(2, round(kind.ascent_fraction * batch)))
    part = {"all": 1, "warm": 1, "last half": 0.5}.get(kind.phase, fraction)

    def cost(steps):
        perturbed = round(part * steps)
        late = kind.phase in ("late", "last half") and perturbed < steps
        return steps * batch + (perturbed + late) * rows

    def early(steps):  # without an ascent step, step 0 makes its pass all the same
        return cost(steps) + rows * (kind.phase == "early" and not round(part * steps))

    most = max((n for n in range(int(grads) + 1) if n == 0 or early(n) <= grads * batch), default=0)
    if not kind.when(most, fraction):
        with pytest.raises(ValueError, match=r"fraction: .* steps is less than one"):
            steps_of(kind, grads, batch, fraction)
    else:
        assert steps_of(kind, grads, batch, fraction) == most


@pytest.mark.filterwarnings("ignore:the ascent step is cut to its limit")
@pytest.mark.parametrize("name", [name for name, kind in OPTIMIZERS.items() if kind.door])
def test_the_steps_with_a_probe_are_those_that_were_planned(name):
    steps, kind = 24, OPTIMIZERS[name]
    torch.manual_seed(0)
    model, x = mlp(4, 3, seed=0), torch.randn(32, 4)
    held_out = {"validation": lambda: torch.tensor(9.0)} if kind.by_gap else {}
    opt = wrap(kind, base_of("sgd")(model.parameters(), 0.01, 0.0), model, 0.1, steps, 0.3, **held_out)
    perturbed = []
    for k in range(steps):
        before = opt.perturbed
        opt.step_on(lambda x: model(x).square().mean(), x)
        perturbed += [k] * (opt.perturbed - before)
    assert perturbed == list(kind.when(steps, 0.3))
    expected = {"early": range(7), "late": range(17, 24), "last half": range(12, 24)}.get(kind.phase)
    assert expected is None or perturbed == list(expected)


def test_the_rule_needs_twenty_steps():
    assert steps_of(OPTIMIZERS["gap"], 21, 32) == 20
    with pytest.raises(ValueError, match="optimizer: GapSAM needs 20 steps or more; the budget is for 19"):
        steps_of(OPTIMIZERS["gap"], 20, 32)


def test_weights_follow_from_lam_and_rho():
    """All of λ‖∇f‖² have the same λ, all of ρ‖∇f‖ the same ρ, by the family's λ = νc/2."""
    settings = Settings.of("digits", lam=0.3, rho=0.7)
    of = {name: kind.options(strength_of(name, settings)) for name, kind in OPTIMIZERS.items()}
    assert of["cgd"]["lam"] == of["egr"]["lam"] == of["cgd-exact"]["lam"] == 0.3
    assert of["usam"]["rho"] / 2 == 0.3  # ν = 1, c = r
    assert of["fgr"]["gamma"] / 2 == 0.3
    assert of["sam"]["rho"] == of["gnp"]["rho"] == of["sam-late"]["rho"] == of["asam"]["rho"] == 0.7
    assert of["sgd"] == of["adamw"] == {}


@pytest.mark.parametrize("data", SIZES)
def test_every_optimizer_has_a_default(data):
    settings = Settings.of(data)
    for name in OPTIMIZERS:
        assert (strength_of(name, settings) > 0) == (name not in (*BASES, "gap"))
    assert strength_of("cgd-late", settings) == strength_of("cgd", settings)
    other = Settings.of(data, rho=0.7, lam=0.3)  # strengths of another kind
    for name in ("ema", "smooth"):
        assert strength_of(name, other) == strength_of(name, settings)
