"""One run: its budget, what it costs, what it repeats, and against a loop written out by hand."""

import math
import random
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from benchmarks.evidence import networks
from benchmarks.evidence.bench import SmoothingTask
from benchmarks.evidence.data import load_data
from benchmarks.evidence.methods import ROWS, first, last_rows
from benchmarks.evidence.networks import mlp

from steepen.train import training
from steepen.train.results import Choice
from steepen.train.training import BASE, BASES, EVALUATIONS, Data, Method, fit, judge, last, steps_of
from steepen.train.training import METHODS as NAMED

from ..pairs import WHOLE, pairs, sample

METHODS = {
    **{name: row.method for name, row in ROWS.items() if not row.method.by_gap and row.method.length == 1},
    "gap": NAMED["gap"],
    "sam-early": replace(NAMED["sam"], when=first(0.25)),
    "fgr": Method("CGD", "λ", options={"r": 0.05, "guard": False}),
}
STRENGTHS = {"cgd-early": 0.05, "cgd-late": 0.05, "fgr": 0.005, "msam": 0.3, "ema": 0.99}  # of the rest 0.2
NAMES = [name for name in METHODS if name != "gap"]
COST = {  # gradients a step, over a run
    **dict.fromkeys(("base", "base-less", "base-returned", "ema", "ema-stopped", "smooth", "msam"), 1.0),
    **dict.fromkeys(("cgd-early", "cgd-late", "sam-early", "sam-late", "share4"), 1.25),
    "share4-late": 1.125, "share16": 1.0625, "share16-ema": 1.0625, "share16-late": 1.03125,
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
    made = []

    def build(*arguments):
        made.append(Watched(mlp(*arguments)))
        return made[-1]

    monkeypatch.setattr(networks, "mlp", build)
    return made


def without_time(run):
    return replace(run, seconds=0.0, times=())


def rows_of(*batches):
    return {tuple(row) for x in batches for row in x.tolist()}


def digits(seed):
    return networks.mlp(64, 64, seed)


def task_of(make=digits, loss=torch.nn.functional.cross_entropy, batch=32, name="base"):
    held_out = last_rows(898) if name == "gap" else None
    return SmoothingTask(make, loss, load_data("digits"), batch, BASES["sgd"].build, held_out=held_out)


def train(name, seed, grads=24, lr=0.1, batch=32):
    choice = Choice(lr, 5e-4, STRENGTHS.get(name, 0.2))
    task = replace(task_of(batch=batch, name=name), smoothing=0.1 if name == "smooth" else 0.0)
    return fit(task, name, METHODS[name], choice, seed=seed, grads=grads)


def test_gradients_are_counted_honestly_and_all_start_alike_and_see_the_same_batches(watched):
    grads, batch = 21 if WHOLE else 20, 32
    names = sample(NAMES, 8, always=["fgr", "share4-late"])
    runs = [train(name, 3, grads) for name in names]
    assert len({(run.accuracies[0], run.losses[0]) for run in runs}) == 1
    assert len({run.loss for run in runs}) > 4  # and yet they differ
    for name, run, model in zip(names, runs, watched, strict=True):
        assert run.at[-1] == run.gradients == model.examples / batch, name
        assert grads - 1.25 <= run.gradients <= grads, name
        assert run.steps == pytest.approx(grads / COST.get(name, 2.0), abs=1), name
        full = [x for x in model.seen if len(x) == batch]  # not the ascent steps from a share
        distinct = [x for i, x in enumerate(full) if i == 0 or not torch.equal(x, full[i - 1])]
        assert len(distinct) == run.steps
        for x, y in zip(distinct, watched[0].seen, strict=False):
            assert torch.equal(x, y)


@pytest.mark.parametrize("name", ["sam-late", "fgr"])
def test_the_same_seed_gives_the_same_numbers_and_the_callers_are_left_alone(name):
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1]  # noqa: NPY002
    first, second, other = (without_time(train(name, seed)) for seed in (1, 1, 2))
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
    for name, seed in (("base", 0), ("share4", 0), ("sam", 0), ("base", 1)):
        drawn = []
        fit(task, name, METHODS[name], Choice(0.1, 5e-4, 0.1), seed=seed, grads=8)
        masks[name, seed] = drawn
    assert len(set(masks["base", 0])) == 8
    for name, steps in (("share4", 6), ("sam", 4)):
        assert masks[name, 0] == [mask for mask in masks["base", 0][:steps] for _ in range(2)]
    assert not set(masks["base", 1]) & set(masks["base", 0])


def test_against_a_loop_by_hand():
    data, model = load_data("digits"), mlp(64, 64, 5)
    run = train("base", 5, 60, 0.2, 50)
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


def test_the_test_part_is_looked_at_evenly():
    run = train("cgd-late", 0, 400)
    assert len(run.accuracies) == len(run.losses) == EVALUATIONS + 1
    np.testing.assert_allclose(run.at, np.linspace(0, 400, EVALUATIONS + 1), atol=1)
    assert run.accuracy > 0.85


def test_a_diverged_run_ends_and_says_so():
    run = train("base", 0, 400, 1e8)
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
    run = fit(task, "ema", METHODS["ema"], Choice(0.1, 5e-4, 0.8), seed=0, grads=10)
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

    task = replace(task_of(normed, loss), smoothing=0.2)
    given = task, "smooth", METHODS["smooth"], Choice(0.1, 0.0)
    whole = fit(*given, seed=0, grads=3)
    assert {one for one in seen if one[0] == 32} == {(32, 0.2)}
    assert {one for one in seen if one[0] != 32} == {(899, 0.0)}
    monkeypatch.setattr(training, "_CHUNK", 500)
    parts = fit(*given, seed=0, grads=3)
    assert parts.losses == pytest.approx(whole.losses, rel=1e-5)
    assert parts.accuracies == pytest.approx(whole.accuracies)


@pytest.mark.filterwarnings("ignore:no gap in half of the run")
def test_the_rule_watches_examples_that_it_does_not_train_on(watched):
    data, batch = load_data("digits"), 32
    run = train("gap", 0)
    gauge = rows_of(data.x[-89:])  # a tenth of 898: 2 % would be few
    assert not gauge & rows_of(*watched[0].seen)
    assert run.gradients == run.steps + (run.perturbed + 1) * 2 / 32  # two of 32 examples; step 0 looks too
    assert 23 < run.gradients == watched[0].examples / batch <= 24  # whether or not the gate has opened
    method = replace(METHODS["gap"], returned=0.75)
    back = fit(task_of(name="gap"), "gap", method, Choice(0.1, 5e-4), seed=0, grads=128)
    assert gauge <= rows_of(*watched[1].seen)  # trained on in the end, and so not judged by any more
    assert np.isnan(back.held_out).tolist() == [at > 97 for at in back.at]


def test_rows_that_are_held_out_are_watched_and_not_trained_on(watched):
    data, rows = load_data("digits"), [3, 5, 800]
    task = replace(task_of(lambda seed: networks.mlp(64, 8, seed)), held_out=rows)
    run = fit(task, "base", BASE, Choice(0.1, 5e-4), seed=0, grads=56)  # two passes
    trained = rows_of(*watched[0].seen)
    assert len(trained) > 880
    assert not rows_of(data.x[rows]) & trained
    part = data._replace(x_test=data.x[rows], y_test=data.y[rows])
    assert run.held_out[-1] == pytest.approx(judge(watched[0], part, task)[1])
    assert run.stop == int(np.argmin(run.held_out))


PHASES = {"all": METHODS["sam"].when, "early": first, "late": last}


@pairs(
    rows=[1.0, 0.25, 1 / 16, 0.0], phase=list(PHASES), grads=[4, 41, 1000.5], batch=[2, 7, 100],
    part=[0.001, 0.25, 1.0],
)  # fmt: skip
def test_the_budget_is_spent_and_never_exceeded(rows, phase, grads, batch, part):
    """The most steps n with n·batch + (perturbed steps, and step 0)·(their examples) within the budget."""
    when = PHASES[phase] if phase == "all" else PHASES[phase](part)
    method = replace(METHODS["sam"], when=when, ascent_fraction=rows)
    each = min(batch, max(2, round(rows * batch))) if rows else 0

    def cost(steps):
        perturbed = steps if phase == "all" else round(part * steps)
        extra = not perturbed or (phase == "late" and perturbed < steps)  # step 0 makes its pass all the same
        return steps * batch + (perturbed + extra) * each

    most = max((n for n in range(int(grads) + 1) if n == 0 or cost(n) <= grads * batch), default=0)
    if not when(most):
        with pytest.raises(ValueError, match=r"budget: it allows \d+ steps, none of which has"):
            steps_of(method, grads, batch)
    else:
        assert steps_of(method, grads, batch) == most


@pytest.mark.filterwarnings("ignore:the ascent step is cut to its limit")
@pytest.mark.parametrize("name", [name for name, kind in METHODS.items() if kind.optimizer and name != "gap"])
def test_the_steps_with_a_probe_are_those_that_were_planned(name):
    steps, kind = 24, METHODS[name]
    torch.manual_seed(0)
    model, x = mlp(4, 3, seed=0), torch.randn(32, 4)
    opt = kind.wrap(BASES["sgd"].build(model.parameters(), 0.01, 0.0), model, 0.1, steps)
    perturbed = []
    for k in range(steps):
        before = opt.perturbed
        opt.step_on(lambda x: model(x).square().mean(), x)
        perturbed += [k] * (opt.perturbed - before)
    assert perturbed == list(kind.when(steps))
    expected = {"sam-early": range(6), "cgd-late": range(18, 24), "share4-late": range(12, 24)}.get(name)
    assert expected is None or perturbed == list(expected)


def test_ascent_steps_planned_for_after_the_run_cost_nothing():
    never_ends = Method("SAM", "ρ", when=lambda steps: range(10, 10**9))
    assert steps_of(never_ends, 27, 20) == 18  # 18 + 8, and the pass of step 0
    with pytest.raises(ValueError, match="budget: it allows 9 steps, none of which has"):
        steps_of(never_ends, 10, 20)


def test_the_rule_has_the_share_that_its_method_says():
    for share in (1.0, 0.25):
        model = mlp(4, 3, seed=0)
        base = BASES["sgd"].build(model.parameters(), 0.01, 0.0)
        method = Method("GapSAM", ascent_fraction=share)
        assert method.wrap(base, model, 0.0, 100, validation=None).ascent_fraction == share


def test_the_rule_needs_twenty_steps():
    assert steps_of(METHODS["gap"], 20.5, 32) == 20
    with pytest.raises(ValueError, match="budget: GapSAM needs 20 steps or more, but this allows 19"):
        steps_of(METHODS["gap"], 19.9, 32)


class Output(NamedTuple):
    logits: torch.Tensor


class Named(torch.nn.Module):
    """As a model of Hugging Face: takes its examples by name, and returns logits by name."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, pixels, mask):
        return Output(self.inner(pixels * mask))


@pytest.mark.filterwarnings("ignore:no gap in half of the run")
@pytest.mark.parametrize("name", ["base", "share16", "gap", "ema"])
def test_examples_by_name_are_trained_and_judged_as_tensors_are(name):
    """With a share, GapSAM's readings, a mean of the weights and augmentation."""
    plain = replace(task_of(name=name), augment=lambda x, generator: x + 0.1)
    data = plain.data

    def named(x):
        return {"pixels": x, "mask": torch.ones_like(x)}

    task = replace(
        plain,
        make=lambda seed: Named(digits(seed)),
        loss=lambda out, y: plain.loss(out.logits, y),
        data=Data(named(data.x), data.y, named(data.x_test), data.y_test),
        augment=lambda x, generator: x | {"pixels": x["pixels"] + 0.1},
    )
    given = name, METHODS[name], Choice(0.1, 5e-4, 0.9 if name == "ema" else 0.1)
    one, other = (without_time(fit(of, *given, seed=2, grads=24)) for of in (plain, task))
    assert one == other


def test_a_part_of_the_budget_and_a_mean_of_the_weights_are_settings_of_a_method():
    task, choice = task_of(), Choice(0.1, 5e-4, 0.9)
    whole = fit(task, "base", BASE, choice, seed=0, grads=40)
    half = fit(task, "base", replace(BASE, length=0.5), choice, seed=0, grads=40)
    alone = fit(task, "base", BASE, choice, seed=0, grads=20)
    assert without_time(half) == without_time(alone)  # its learning rate falls within its own length
    means = [Method(mean=0.9), Method(symbol="β"), Method(mean=0.5, symbol="β")]  # a strength counts more
    one, *others = (without_time(fit(task, "base", method, choice, seed=0, grads=40)) for method in means)
    assert one.losses != whole.losses
    assert others == [one, one]


def test_held_out_examples_are_returned_to_training():
    rows = range(800, 898)
    task = replace(task_of(), held_out=rows)
    kept, back = (
        fit(task, "base", replace(BASE, returned=part), Choice(0.1, 5e-4), seed=0, grads=40)
        for part in (1.0, 0.5)
    )
    assert np.isfinite(kept.held_out).all()
    assert np.isnan(back.held_out).tolist() == [at > 20 for at in back.at]
    same = [at <= 20 for at in back.at]
    assert np.array(kept.losses)[same].tolist() == np.array(back.losses)[same].tolist()
    assert kept.loss != back.loss


def test_only_classes_have_an_accuracy():
    """Along the last axis or torch's second one; negative targets are ignored, one column has no classes."""
    scores = torch.zeros(4, 3, 6)
    wanted = torch.randint(0, 3, (4, 6), generator=torch.Generator().manual_seed(0))
    scores.scatter_(1, wanted[:, None], 1.0)
    some = wanted.masked_fill(torch.arange(6) > 0, -100)
    for out, y, expected in (
        (scores, wanted, 1.0), (scores, some, 1.0), (scores.transpose(1, 2), wanted, 1.0),
        (torch.zeros(4, 1), torch.zeros(4, dtype=torch.long), math.nan),
        (torch.zeros(3, 3, 3), torch.zeros(3, 3, dtype=torch.long), math.nan),  # either axis
    ):  # fmt: skip
        data = Data(out, y, out, y)
        task = training.Task(lambda seed: None, lambda out, y: out.sum(), data, 2, lambda *_: None)
        accuracy, _ = judge(torch.nn.Identity(), data, task)
        assert accuracy == pytest.approx(expected, nan_ok=True)


def judged(out, y, loss):
    """Return the loss of a network that returns its examples."""
    task = training.Task(lambda seed: None, loss, Data(out, y, out, y), 2, lambda *_: None)
    return judge(torch.nn.Identity(), task.data, task)[1]


def test_a_loss_that_ignores_targets_is_the_mean_over_the_others(monkeypatch):
    """In whatever order they come; of numbers that are not classes all count."""
    monkeypatch.setattr(training, "_CHUNK", 3)
    scores = torch.randn(7, 4, 3, generator=torch.Generator().manual_seed(0))
    y = torch.arange(28).view(7, 4) % 3
    y[3:6] = y[6, 1:] = -100
    loss = lambda out, y: torch.nn.functional.cross_entropy(out.transpose(1, 2), y)  # noqa: E731
    for rows in (torch.arange(7), torch.tensor([3, 0, 4, 1, 6, 5, 2])):
        assert judged(scores[rows], y[rows], loss) == pytest.approx(loss(scores, y).item())
    assert math.isnan(judged(scores[3:6], y[3:6], loss))  # none is known
    out, numbers = torch.randn(7, 1), torch.arange(7) - 4
    square = lambda out, y: (out.view(-1) - y).square().mean()  # noqa: E731
    assert judged(out, numbers, square) == pytest.approx(square(out, numbers).item())


def test_a_loss_is_judged_in_the_precision_of_the_outputs_and_in_float32_at_least():
    seen = []

    def loss(out, y):
        seen.append(out.dtype)
        return (out - y).abs().square().mean()

    for dtype in (torch.float64, torch.complex64):
        y = torch.ones(4, 1, dtype=dtype) * (1e4 if dtype is torch.float64 else 1j)
        assert judged(y + 1e-5, y, loss) == pytest.approx(1e-10, rel=1e-3)
    judged(torch.ones(4, 1, dtype=torch.bfloat16), torch.ones(4, 1), loss)
    assert seen == [torch.float64, torch.complex64, torch.float32]
