"""Three loops, the same bits, with micro-batches, clipping, scalers, autocast and Accelerate, and resumed."""

import copy
import io
import math

import pytest
import torch
from torch.amp.grad_scaler import GradScaler
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, OneCycleLR, SequentialLR

from steepen.torch import CGD, SAM, GapSAM

from ..pairs import pairs
from .nets import ALL, BASES, LOOPS, Net, X, Y, built, data, make, mse, same, several, state, weights


@pytest.mark.parametrize("name", ALL)
def test_three_loops_give_the_same_bits(name):
    runs = []
    for loop in LOOPS.values():
        model = Net(dropout=0.3, norm=True)
        opt = make(name, model, "adamw" if name in ("CGD", "GapSAM") else "momentum")
        torch.manual_seed(1)
        losses = [loop(opt, model, *data(k)) for k in range(14 if name == "GapSAM" else 4)]
        runs.append(([*state(model), torch.stack(losses)], opt.report()))
    assert same(runs[0][0], runs[1][0])
    assert same(runs[0][0], runs[2][0])
    assert str(runs[0][1]) == str(runs[1][1]) == str(runs[2][1])
    assert runs[0][1].perturbed == (3 if name == "GapSAM" else 4)


def micro(opt, model, parts, scaler=None, clip=math.inf):
    sizes = []
    for x, y in opt.passes(*zip(X.chunk(parts), Y.chunk(parts), strict=True), scaler=scaler):
        loss = mse(model, x, y) / parts
        both = opt.penalised(loss)
        (both if scaler is None else scaler.scale(both)).backward()
        opt.record_loss(loss)
        sizes.append(len(x))
    if scaler is None:
        clip_grad_norm_(model.parameters(), clip)
    opt.step(scaler=scaler)
    return sizes


@pytest.mark.parametrize(
    ("name", "parts"),
    [("SAM", 2), ("CGD", 4), ("MSAM", 4), ("EGR", 2), ("exact", 4), ("ASAM", 2), ("GNP", 2)],
)
def test_micro_batches_equal_the_whole(name, parts):
    whole, split = Net(), Net()
    opts = make(name, whole), make(name, split)
    for _ in range(4):
        LOOPS["passes"](opts[0], whole)
        assert len(micro(opts[1], split, parts)) == (parts if name == "MSAM" else 2 * parts)
    torch.testing.assert_close(weights(split), weights(whole), rtol=1e-11, atol=1e-12)
    more = 3 if name in ("exact", "EGR") else 0  # a pass for g in every step, not at step 0 alone
    assert opts[0].report().gradients + more == opts[1].report().gradients


@pytest.mark.parametrize(("scale", "clip"), [(None, None), (1024.0, None), (None, 0.05)])
def test_with_a_share_the_probe_comes_from_the_first_micro_batch(scale, clip):
    models = [Net(), Net(), Net()]
    bases = [BASES["momentum"](model.parameters()) for model in models]
    opt, own = (
        SAM(base, model, rho=0.3, ascent_fraction=1 / 4, max_norm=most)
        for base, model, most in zip(bases, models, (None, clip), strict=False)
    )
    scaler = None if scale is None else GradScaler("cpu", init_scale=scale)
    for _ in range(3):
        assert micro(opt, models[0], 2, scaler, clip or math.inf) == [4, 8, 8]
        if scaler is not None:
            scaler.update()
        micro(own, models[1], 2)
        literal_share(models[2], bases[2:], clip or math.inf)
    torch.testing.assert_close(weights(models[0]), weights(models[2]), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(weights(models[1]), weights(models[2]), rtol=1e-9, atol=1e-11)
    assert (opt.report().gradients, opt.report().length) == (3 * 1.25, pytest.approx(0.3))


def literal_share(model, bases, max_norm=math.inf):
    params, x = [p for p in model.parameters() if p is not model.unused], weights(model)
    g = torch.autograd.grad(mse(model, X[:4], Y[:4]), params)
    n = sum(one.square().sum() for one in g) ** 0.5
    with torch.no_grad():
        torch._foreach_add_(params, g, alpha=0.3 / n.item())
    model.zero_grad()
    mse(model).backward()
    with torch.no_grad():
        torch._foreach_copy_(list(model.parameters()), x)
    clip_grad_norm_(params, max_norm)
    for base in bases:
        base.step()


def test_the_rule_sees_the_mean_over_micro_batches():
    reports = []
    for parts in (1, 2):
        model = Net()
        base = SGD(model.parameters(), lr=0.1)
        held_out = lambda model=model: mse(model, X, Y) + 0.6  # noqa: E731
        opt = GapSAM(base, model, held_out, total_steps=20, ascent_fraction=1 / 4, gate=None)
        for _ in range(12):
            micro(opt, model, parts)
        reports.append(opt.report())
    for name in ("training", "validation", "length", "rise", "target", "gradients"):
        assert getattr(reports[1], name) == pytest.approx(getattr(reports[0], name), rel=1e-4), name


@pairs(name=["SAM", "share", "CGD", "MSAM", "GapSAM", "exact", "EGR", "ASAM", "GNP"], clip=[None, 0.05])
def test_a_scaler_does_not_change_the_step(name, clip):
    for loop in LOOPS.values():
        scaled, plain = Net(), Net()
        scaler = GradScaler("cpu", init_scale=2.0**14)
        opts = make(name, scaled, "adamw"), make(name, plain, "adamw")
        opts[0].max_norm = opts[1].max_norm = clip  # of the gradient unscaled
        for k in range(10 if name == "GapSAM" else 3):
            one = loop(opts[0], scaled, *data(k), scaler=scaler)
            scaler.update()
            two = loop(opts[1], plain, *data(k))
            assert one.item() == pytest.approx(two.item(), rel=1e-6)
        torch.testing.assert_close(weights(scaled), weights(plain), rtol=1e-6, atol=1e-8)
        assert opts[0].report().length == pytest.approx(opts[1].report().length, rel=1e-5, nan_ok=True)


@pairs(name=["SAM", "share", "CGD", "GapSAM", "EGR"], loop=LOOPS, where=["probe", "batch"])
def test_an_overflow_skips_the_step_and_the_next_one_works(name, loop, where):
    model, opt = built(name)
    scaler = GradScaler("cpu", init_scale=2.0**10)
    for _ in range(8 if name == "GapSAM" else 1):  # so that the next step has an ascent step
        LOOPS[loop](opt, model, scaler=scaler)
        scaler.update()
    before, k = weights(model), opt.report().steps
    calls = iter(range(10))

    def overflowing(x):
        return model(x) * (torch.inf if next(calls) == (where == "batch" and name != "EGR") else 1.0)

    LOOPS[loop](opt, overflowing, scaler=scaler)
    assert same(weights(model), before)
    assert opt.report().steps == k
    scaler.update()
    assert scaler.get_scale() == 2.0**9
    LOOPS[loop](opt, model, scaler=scaler)
    assert not same(weights(model), before)
    assert opt.report().steps == k + 1
    assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("loop", LOOPS)
def test_under_autocast_the_second_pass_sees_the_moved_weights(loop):
    model = Net(dtype=torch.float32)
    opt = SAM(SGD(model.parameters(), lr=0.1), model, rho=1.0)
    seen = []

    def cast(x):
        seen.append(model(x.float()))
        return seen[-1]

    with torch.autocast("cpu", torch.bfloat16):  # around the step, so that its cache lives through it
        LOOPS[loop](opt, cast)
    assert len(seen) == 2
    assert not torch.equal(*seen)
    assert opt.report().length == pytest.approx(1.0, rel=1e-3)


def test_cgd_under_autocast_probes_as_far_as_bf16_needs():
    model = Net(dtype=torch.float32)
    opt = CGD(SGD(model.parameters(), lr=0.1), model, lam=1e-9, dtype=torch.bfloat16)
    norm = sum(p.detach().square().sum().item() for p in model.parameters() if p is not model.unused) ** 0.5

    def loss_of(x, y):
        with torch.autocast("cpu", torch.bfloat16):
            return mse(model, x.float(), y.float())

    opt.step_on(loss_of, X, Y)
    assert opt.report().length == pytest.approx(1e-2 * norm, rel=1e-3)


PREPARED = [("share", "optimizer"), ("CGD", "base"), ("GapSAM", "optimizer"), ("GapSAM", "none")]


@pytest.mark.parametrize(("name", "prepared"), PREPARED)
def test_accelerate_with_accumulation(name, prepared):
    accelerate = pytest.importorskip("accelerate")
    accelerate.state.AcceleratorState._reset_state(True)
    accelerate.state.GradientState._reset_state()
    acc = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    plain, opt = built(name)
    for _ in range(10):
        micro(opt, plain, 2)
    model = Net()
    base = BASES["momentum"](model.parameters())
    net, base = acc.prepare(model, base) if prepared == "base" else (acc.prepare(model), base)
    ours = ALL[name](base, model)
    outer = acc.prepare(ours) if prepared == "optimizer" else ours
    for _ in range(10):
        for x, y in ours.passes(*zip(X.chunk(2), Y.chunk(2), strict=True)):
            loss = mse(net, x, y)
            acc.backward(loss)
            ours.record_loss(loss / 2)
        acc.clip_grad_norm_(model.parameters(), 1e6)
        outer.step()
    torch.testing.assert_close(weights(model), weights(plain), rtol=1e-9, atol=1e-11)
    assert ours.report().perturbed == opt.report().perturbed > 0


def test_several_optimizers_are_wrapped_as_one():
    models = [Net(), Net()]
    muons = [torch.optim.Muon([model.first.weight, model.last.weight], lr=0.01) for model in models]
    rest = [AdamW([model.first.bias, model.last.bias], lr=0.05) for model in models]
    both = list(zip(muons, rest, strict=True))
    opt = SAM(both[0], models[0], rho=0.3, ascent_fraction=1 / 4)
    schedules = [torch.optim.lr_scheduler.ExponentialLR(one, 0.5) for one in (opt, *both[1])]

    for _ in range(3):
        LOOPS["closure"](opt, models[0])
        literal_share(models[1], both[1])
        for schedule in schedules:
            schedule.step()
    torch.testing.assert_close(weights(models[0]), weights(models[1]), rtol=1e-9, atol=1e-11)
    with pytest.raises(TypeError, match="add_param_group: several optimizers"):
        opt.add_param_group({"params": [models[0].unused]})
    with pytest.raises(ValueError, match="expected parameters, each once"):
        SAM([both[0][0], SGD(models[0].parameters(), lr=0.1)], models[0])


def test_a_part_of_several_optimizers_may_be_changed_saved_and_loaded():
    model = Net()
    parts = [
        SGD([model.first.weight, model.first.bias], lr=0.1, momentum=0.9),
        SGD([model.last.bias], lr=0.1),
    ]
    opt = SAM(parts, model, rho=0.3)
    LOOPS["step_on"](opt, model)
    saved = [copy.deepcopy(part.state_dict()) for part in parts]
    assert len(saved[0]["state"]) == 2
    wanted = []
    for _ in range(2):  # from the same point
        old = copy.deepcopy(model.state_dict())
        LOOPS["step_on"](opt, model)
        wanted.append(weights(model))
        model.load_state_dict(old)
        for part, one in zip(parts, saved, strict=True):
            part.load_state_dict(one)
    assert same(*wanted)
    torch.optim.lr_scheduler.LambdaLR(opt, lambda _: 0.0)
    assert [part.param_groups[0]["lr"] for part in parts] == [0, 0]
    parts[1].add_param_group({"params": [model.last.weight], "lr": 0.0})
    norms = []
    for _ in range(2):
        LOOPS["step_on"](opt, model)
        norms.append(model.last.weight.grad.norm())
    assert norms[0] == norms[1]  # not the sum
    assert len(opt.state_dict()["param_groups"]) == 3


def test_several_optimizers_have_a_schedule_of_the_momentum_that_all_have():
    model = Net()
    parts = several(SGD(model.parameters(), lr=0.1))
    opt = SAM([AdamW(part.param_groups[0]["params"]) for part in parts], model, rho=0.1)
    torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=5)
    assert {group["betas"][0] for group in opt.param_groups} == {0.95}


def through_a_file(thing):
    """Save and load as users do: no class of ours is in the file."""
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def load_all(old, new):
    new.load_state_dict(through_a_file(old.state_dict()))


def load_parts(old, new):
    new.base.load_state_dict(through_a_file(old.base.state_dict()))
    new.own.load_state_dict(through_a_file(old.own.state_dict()))


def resumed(stop, steps, make, step, load=load_all):
    """Take steps with what is made, made anew before step `stop` from a file; return it with every report."""
    model, reports = Net(dropout=0.2, norm=True), []
    opt = make(model)
    for k in range(steps):
        if k == stop:
            old, opt = opt, make(model)
            load(old, opt)
        torch.manual_seed(k)
        step(opt, k)
        reports.append(str(opt.report()))
    return opt, reports


@pairs(
    name=ALL, at=[1, 8], load=[load_all, load_parts]
)  # at 8, numbers are under way that decide on an ascent step
def test_a_run_resumed_is_the_run_unbroken(name, at, load):
    def made(model):
        return make(name, model, "adamw" if name in ("GapSAM", "MSAM") else "momentum")

    def step(opt, k):
        LOOPS["step_on"](opt, opt.model, *data(k))

    (opt, found), (other, again) = (resumed(stop, at + 9, made, step, load) for stop in (None, at))
    assert found == again
    assert same(state(opt.model), state(other.model))
    assert opt.report().length > 0 or name in ("exact", "EGR")


@pytest.mark.parametrize("stop", [25, 26])
def test_a_resumed_rule_decides_as_the_unbroken_one_does(stop):
    """The gap closes and opens with every reading: a decision by another reading shows."""

    def made(model):
        return GapSAM(SGD(model.parameters(), lr=0.0), model, None, 45, ascent_fraction=1.0, strength=1e-3)

    def step(opt, k):
        opt.record_validation_loss((20.0, 20.0, 1.0, 20.0, 1.0)[k % 5])
        for part in opt.passes((X, Y)):
            mse(opt.model, *part).backward()
            opt.record_loss(torch.tensor(8.0))
        opt.step()

    (opt, found), (_, again) = (resumed(at, 45, made, step) for at in (None, stop))
    assert found == again
    assert 5 < opt.perturbed < 15


def test_a_state_loaded_in_the_middle_of_a_step_puts_the_weights_back():
    model, opt = built("SAM")
    LOOPS["step_on"](opt, model)
    saved, before = through_a_file(opt.state_dict()), state(model)
    passes = opt.passes((X, Y))
    mse(model, *next(passes)).backward()
    next(passes)
    assert not same(state(model), before)
    opt.load_state_dict(saved)
    assert same(state(model), before)
    del passes
    LOOPS["step_on"](opt, model)
    assert opt.report().steps == 2


def warm(opt):
    return SequentialLR(opt, [LinearLR(opt, 0.1, total_iters=2), CosineAnnealingLR(opt, 8)], milestones=[2])


SCHEDULERS = {"one cycle": lambda opt: OneCycleLR(opt, 0.1, total_steps=20), "sequence": warm}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers_around_ours_and_around_the_base_also_resumed(scheduler):
    runs = []
    for around, stop in (("ours", None), ("base", None), ("ours", 6), ("base", 6)):
        model, rates, made = Net(), [], []
        for k in range(9):
            if k in (0, stop):
                saved = [through_a_file(one.state_dict()) for one in made]
                opt = make("share", model)
                made = [opt, SCHEDULERS[scheduler](opt if around == "ours" else opt.base)]
                for one, its in zip(made, saved, strict=bool(saved)):
                    one.load_state_dict(its)
            LOOPS["passes" if k % 2 else "closure"](opt, model)
            made[1].step()
            rates.append(opt.param_groups[0]["lr"])
        runs.append((rates, state(model)))
    assert len(set(runs[0][0])) == 9
    for rates, end in runs[1:]:
        assert rates == runs[0][0]
        assert same(end, runs[0][1])


def test_the_state_is_the_base_s_with_a_few_numbers_beside_it():
    model, opt = built("CGD", "adamw")
    LOOPS["step_on"](opt, model)
    saved = opt.state_dict()
    assert (saved.keys(), saved["steepen"]["kind"]) == ({"state", "param_groups", "steepen"}, "CGD")
    assert opt.state is opt.base.state
    assert opt.param_groups is opt.base.param_groups
    bare = torch.optim.AdamW(Net().parameters())
    bare.load_state_dict({key: saved[key] for key in ("state", "param_groups")})  # the base's, as it is
