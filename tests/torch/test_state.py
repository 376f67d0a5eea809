"""A run resumed is the run unbroken, bit for bit; schedulers around ours and around the base."""

import io

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, OneCycleLR, SequentialLR

from steepen.torch import GapSAM

from ..pairs import pairs
from .nets import ALL, LOOPS, Net, X, Y, built, data, make, mse, same, state

pytestmark = pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")


def through_a_file(thing):
    """Save and load as users do: no class of ours is in the file."""
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


WAYS = {
    "state_dict": lambda old, new: new.load_state_dict(through_a_file(old.state_dict())),
    "base and own": lambda old, new: (
        new.base.load_state_dict(through_a_file(old.base.state_dict())),
        new.own.load_state_dict(through_a_file(old.own.state_dict())),
    ),
}


@pairs(name=ALL, at=[1, 8], way=WAYS)  # at 8, numbers are under way that decide on a probe
def test_a_run_resumed_is_the_run_unbroken(name, at, way):
    base = "adamw" if name in ("GapSAM", "MSAM") else "momentum"
    model = Net(dropout=0.2, norm=True)
    opt = make(name, model, base)
    torch.manual_seed(3)
    for k in range(at):
        LOOPS["step_on"](opt, model, *data(k))
    other = Net(dropout=0.2, norm=True)
    other.load_state_dict(model.state_dict())
    resumed = make(name, other, base)
    WAYS[way](opt, resumed)
    random = torch.get_rng_state()
    for one, net in ((opt, model), (resumed, other)):
        torch.set_rng_state(random)
        for k in range(at, at + (9 if name == "GapSAM" else 3)):
            LOOPS["step_on"](one, net, *data(k))
    assert same(state(model), state(other))
    assert str(opt.report()) == str(resumed.report())
    assert opt.report().length > 0 or name in ("ExactCGD", "EGR")


def stepped(opt, model, losses, k):
    """Take a step in which GapSAM is told a held-out and a training loss."""
    held_out, training = losses(k)
    opt.saw_held_out(held_out)
    for part in opt.passes((X, Y)):
        mse(model, *part).backward()
        opt.saw(torch.tensor(training))
    opt.step()


def closing(k):
    """The gap closes and opens with every reading: a decision by another reading shows."""
    return 8.0 + (3.0 if k % 2 else -3.0), 8.0


def waiting(k):
    """The held-out loss falls as the training loss does, then not at all, and at the end faster."""
    return 99.0 - 0.05 * (min(k, 15) + 9 * max(k - 27, 0)), 8.0 - 0.05 * k


@pytest.mark.parametrize(
    ("losses", "stop"), [(closing, 25), (closing, 26), (waiting, 15), (waiting, 34)]
)  # while it waits, and after that
def test_a_resumed_rule_decides_as_the_unbroken_one_does(losses, stop):
    model = Net()

    def made():
        base = torch.optim.SGD(model.parameters(), lr=0.0)
        options = {"share": 1.0, "strength": 1e-3, "wait": losses is waiting, "every": 1}
        return GapSAM(base, model, None, 45, **options)

    probed = []
    for resumed in (False, True):
        opt, counts = made(), list[int]()
        for k in range(45):
            if resumed and k == stop:
                saved, opt = through_a_file(opt.state_dict()), made()
                opt.load_state_dict(saved)
            stepped(opt, model, losses, k)
            counts.append(opt.probed)
        probed.append(counts)
    assert probed[0] == probed[1]
    assert probed[0][-1] > 5


def test_a_resumed_rule_goes_on_with_a_sum():
    """That the loss is a sum was found out at step 0, which a resumed run does not see."""
    runs = []
    for stop in (None, 4):
        model, opt = Net(), None
        for k in range(10):
            if k in (0, stop):
                saved = through_a_file(opt.state_dict()) if k else None
                base = torch.optim.SGD(model.parameters(), lr=1e-3)
                opt = GapSAM(base, model, (X, Y + 1), 30, share=1 / 4)
                if saved:
                    opt.load_state_dict(saved)
            opt.step_on(lambda x, y, model=model: (model(x) - y).square().sum(), *data(k))
        runs.append((str(opt.report()), state(model)))
    assert runs[0][0] == runs[1][0]
    assert same(runs[0][1], runs[1][1])


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


SCHEDULERS = {
    "one cycle": lambda opt: OneCycleLR(opt, 0.1, total_steps=20),
    "sequence": lambda opt: SequentialLR(
        opt, [LinearLR(opt, 0.1, total_iters=2), CosineAnnealingLR(opt, 8)], milestones=[2]
    ),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_schedulers_around_ours_and_around_the_base(scheduler):
    runs = []
    for around in ("ours", "base"):
        model, opt = built("share")
        schedule = SCHEDULERS[scheduler](opt if around == "ours" else opt.base)
        rates = []
        for k in range(6):
            LOOPS["passes" if k % 2 else "closure"](opt, model)
            schedule.step()
            rates.append(opt.param_groups[0]["lr"])
        runs.append((rates, state(model)))
        other = Net()
        other.load_state_dict(model.state_dict())
        resumed = make("share", other)
        again = SCHEDULERS[scheduler](resumed if around == "ours" else resumed.base)
        resumed.load_state_dict(through_a_file(opt.state_dict()))
        again.load_state_dict(through_a_file(schedule.state_dict()))
        for one, plan, net in ((opt, schedule, model), (resumed, again, other)):
            for _ in range(3):
                LOOPS["step_on"](one, net)
                plan.step()
        assert same(state(model), state(other))
    assert runs[0][0] == runs[1][0]
    assert len(set(runs[0][0])) == 6
    assert same(runs[0][1], runs[1][1])


def test_the_state_is_the_base_s_with_a_few_numbers_beside_it():
    model, opt = built("CGD", "adamw")
    LOOPS["step_on"](opt, model)
    saved = opt.state_dict()
    assert saved.keys() == {"state", "param_groups", "steepen"}
    assert saved["steepen"]["kind"] == "CGD"
    assert opt.state is opt.base.state
    assert opt.param_groups is opt.base.param_groups
    bare = torch.optim.AdamW(Net().parameters())
    bare.load_state_dict({key: saved[key] for key in ("state", "param_groups")})  # the base's, as it is
