"""GapSAM: against GapSAM written out in plain numbers, whatever the scale, and what it says of itself."""

import math
import re
import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from steepen._core import ascent
from steepen.integrations._ascent_loop import is_told
from steepen.torch import SAM, GapSAM
from steepen.torch._tensors import move, values_of

from ..gap_rule import Rule
from .nets import LOOPS, Net, X, Y, mse, same, state, weights

STEPS = 60


def drawn(n, seed, noisy):
    generator = torch.Generator().manual_seed(seed)
    x, noise = (torch.randn(n, size, dtype=torch.float64, generator=generator) for size in (3, 2))
    return x, torch.stack((x[:, 0] - x[:, 1], 0.5 * x[:, 2]), 1) + noisy * noise


TRAIN, (HELD, HELD_Y) = drawn(24, 1, 0.3), drawn(40, 2, 0.9)


def gap(model, validation, steps, lr=0.05, momentum=0.0, ascent_fraction=1 / 4, **options):
    base = SGD(model.parameters(), lr=lr, momentum=momentum)
    return GapSAM(base, model, validation, steps, ascent_fraction=ascent_fraction, **options)


def data(k):
    rows = torch.randint(24, (16,), generator=torch.Generator().manual_seed(k))
    return TRAIN[0][rows], TRAIN[1][rows]


class ByHand(Rule):
    """The rule around a bare optimizer."""

    def __init__(self, model, rows, **settings):
        super().__init__(**settings)
        self.model, self.rows, self.targets = model, rows, list[float]()  # at each reading
        self.params = [p for name, p in model.named_parameters() if name != "unused"]
        self.base = SGD(self.params, lr=0.05, momentum=0.9)

    def step(self, x, y):
        each = max(1, self.steps // 50)
        if self.k % each == 0 and (self.k == 0 or self.k >= self.steps / 3 - 4 * each):
            self.open = len(self.targets) > 1 and self.targets[-2] > 0  # as it was two readings ago
            if self.open or self.k % (2 * each) == 0:
                with torch.no_grad():
                    self.tell("validation", mse(self.model, HELD, HELD_Y).item(), 0.5)
            self.targets.append(self.target() if self.k else 0.0)
        s, before = [], weights(self.model)
        if self.due() and self.open:
            g = torch.autograd.grad(mse(self.model, x[: self.rows], y[: self.rows]), self.params)
            n, size = (
                torch.cat([one.detach().flatten() for one in of]).norm().item() for of in (g, self.params)
            )
            c = self.length(n, size) / n
            s = [c * one for one in g]
        with torch.no_grad():
            for p, one in zip(self.params, s, strict=bool(s)):
                p.add_(one)
        loss = mse(self.model, x, y)
        self.base.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p, old in zip(self.model.parameters(), before, strict=True):
                p.copy_(old)
        self.ended(loss.item(), bool(s))
        self.base.step()


@pytest.mark.parametrize(
    ("loop", "every", "strength", "share", "gate"),
    [
        ("step_on", 2, 0.3, 1 / 4, (0.2, 0.3)), ("closure", 2, 0.15, 1 / 4, None),
        ("passes", 3, 0.2, 1.0, (0.5, 1.2)), ("step_on", 2, 60.0, 1 / 4, (0.2, 0.3)),
        ("closure", 2, 0.3, 1 / 4, (0.4, 0.9)),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:the ascent step is cut to its limit", "ignore:total_steps")
def test_the_step_is_gap_sam_as_it_is_written(loop, every, strength, share, gate):
    model, plain = Net(), Net()
    options = {"every": every, "strength": strength, "gate": gate}
    held_out = lambda: mse(model, HELD, HELD_Y)  # noqa: E731
    opt = gap(model, held_out, STEPS, momentum=0.9, ascent_fraction=share, **options)
    rule = ByHand(plain, round(16 * share), steps=STEPS, **options)
    for k in range(STEPS + 6):
        LOOPS[loop](opt, model, *data(k))
        rule.step(*data(k))
        torch.testing.assert_close(weights(model), weights(plain), rtol=1e-4, atol=1e-6)
    report = opt.report()
    for name in ("training", "validation", "rise", "target", "length", "bound"):
        assert getattr(report, name) == pytest.approx(rule.mean(name), rel=1e-3, abs=1e-6), name
    assert report.gap == pytest.approx(report.validation - report.training)
    assert (report.steps, report.perturbed) == (STEPS + 6, rule.perturbed)
    assert 0 < report.perturbed <= len(range(20, STEPS + 6, every))
    assert report.gradients == STEPS + 6 + share * (report.perturbed + 1)  # and both passes of step 0
    assert abs(math.log(rule.gain)) > 0.02  # it was learnt
    assert (report.bound > 0.5) is (strength > 10), report
    assert report.length > 0
    if gate is not None:
        ratio = (report.gap / report.validation - gate[0]) / (gate[1] - gate[0])
        assert report.opening == pytest.approx(min(max(ratio, 0), 1), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    ("training", "validation", "opening"), [(0.81, 1.0, 0), (0.75, 1.0, 0.5), (0.7, 1.0, 1), (0.1, 0.0, 0),
                                          (-2.0, -1.0, 1), (-2.0, 1.0, 1)],
)  # fmt: skip
def test_the_gate_opens_where_training_no_longer_has_a_fifth_of_the_loss(training, validation, opening):
    """Of a loss without a floor at zero there is no such part: it is open, and that is said."""
    opt = gap(Net(), None, 100, lr=0.0, strength=1e-3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(100):
            opt.record_validation_loss(validation)
            for part in opt.passes((X, Y)):
                mse(opt.model, *part).backward()
                opt.record_loss(torch.tensor(training))
            opt.step()
    assert opt.report().opening * (opt.report().gap > 0) == pytest.approx(opening, abs=1e-5)
    assert opt.perturbed == (33 if opening else 0)
    said = [str(one.message) for one in caught]
    assert any("gate: it needs positive losses" in one for one in said) is (min(training, validation) <= 0), (
        said
    )
    assert any("no gap in half" in one for one in said) is (training > validation), said


def trained(loss_of, lr, start=1.0, **options):
    torch.manual_seed(0)
    model = nn.Linear(3, 2, bias=False).double()
    with torch.no_grad():
        model.weight.mul_(start)
    opt = gap(model, (HELD, HELD_Y), STEPS, lr=lr, strength=0.1, **options)
    lengths = []
    for k in range(STEPS - 5):
        opt.step_on(lambda x, y: loss_of(model(x), y), *data(k))
        lengths.append(opt.report().length)
    return torch.tensor(lengths).nan_to_num(0.0), model.weight.detach()


def test_probes_do_not_depend_on_the_scale_of_the_loss():
    def mean(out, y):
        return (out - y).square().mean()

    lengths, weight = trained(mean, 0.05)
    assert lengths[-1] > 0.01
    found = trained(lambda out, y: 1e3 * mean(out, y), 0.05 / 1e3)
    torch.testing.assert_close(found, (lengths, weight), rtol=1e-4, atol=1e-7)
    found = trained(lambda out, y: (out - y).square().sum() / 2, 0.05 / 16, reduction="sum")
    torch.testing.assert_close(found, (lengths, weight), rtol=1e-4, atol=1e-7)
    small, small_weight = trained(lambda out, y: mean(out, 1e-3 * y), 0.05, start=1e-3)
    torch.testing.assert_close((small * 1e3, small_weight * 1e3), (lengths, weight), rtol=1e-4, atol=1e-7)


@pytest.mark.filterwarnings("ignore:no gap in half")
def test_without_a_gap_the_steps_are_those_of_the_base():
    model, plain = Net(), Net()
    opt = gap(model, lambda: 1e-9, 20, momentum=0.9)
    base = SGD(plain.parameters(), lr=0.05, momentum=0.9)
    for k in range(20):
        LOOPS["step_on"](opt, model, *data(k))
        base.zero_grad()
        mse(plain, *data(k)).backward()
        base.step()
    assert same(weights(model), weights(plain))
    assert (opt.report().perturbed, opt.report().gradients) == (0, 20.25)  # both passes of step 0


@pytest.mark.parametrize(("rise", "move"), [(0.0, 0.03), (1e3, -4 * 0.03), (math.nan, 0.0)])
def test_a_rise_above_the_target_shortens_the_probe_faster_than_one_below_lengthens_it(rise, move):
    given = map(torch.tensor, (rise, rise**2, 1.0))
    assert ascent.gain_factor(*given, 0.1, torch).item() == pytest.approx(math.exp(move), rel=1e-5)


ROWS = TensorDataset(HELD, HELD_Y)
FORMS = {
    "callable": lambda model: lambda: mse(model, HELD, HELD_Y),
    "callable, number": lambda model: lambda: mse(model, HELD, HELD_Y).item(),
    "callable, losses": lambda model: lambda: (model(HELD) - HELD_Y).square().mean(1) * 3,
    "list": lambda model: [HELD, HELD_Y],
    "list of batches": lambda model: [(HELD[:10], HELD_Y[:10]), (HELD[10:], HELD_Y[10:])],
    "loader, shuffled": lambda model: DataLoader(ROWS, batch_size=7, shuffle=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_validation_data_in_any_form(form):
    model = Net(norm=True)
    opt = gap(model, FORMS[form](model), 30)
    model.eval()
    expected, each = mse(model, HELD, HELD_Y).item(), (model(HELD) - HELD_Y).square().mean(1) * 3
    model.train()
    LOOPS["step_on"](opt, model)
    report = opt.report()
    assert report.validation == pytest.approx(expected, rel=1e-6)
    if form in ("callable", "callable, number"):
        assert math.isnan(report.error)
    else:  # by a few parts it is known to a third or so
        exact = form == "callable, losses"
        assert report.error == pytest.approx((each.std() / 40**0.5).item(), rel=1e-5 if exact else 0.4)


@pytest.mark.filterwarnings("ignore:validation", "ignore:no gap")
def test_a_reading_has_dropout_as_training_has():
    """On the training data themselves there is no gap, whatever dropout adds to their loss."""
    gaps = {}
    for way in (True, False):  # a callable that reads in eval mode, as once all did
        model = Net(dropout=0.5)
        torch.nn.init.constant_(model.last.weight, 2.0)  # dropout matters
        validation = (X.repeat(200, 1), Y.repeat(200, 1)) if way else lambda m=model: mse(m.eval())
        opt = gap(model, validation, 400, lr=0.0, gate=None, strength=1e-6)
        for _ in range(400):
            LOOPS["step_on"](opt, model.train())
        gaps[way] = opt.report().gap / opt.report().training
    assert abs(gaps[True]) < 0.1 < 0.4 < -gaps[False], gaps


@pytest.mark.parametrize("loop", ["closure", "passes"])
def test_loops_without_a_loss_need_a_callable(loop):
    model = Net()
    with pytest.raises(TypeError, match="validation: expected a callable that returns the mean loss"):
        LOOPS[loop](gap(model, (HELD, HELD_Y), 30), model)


def test_validation_dicts():
    model = Net()
    dicts = [{"x": HELD[:10], "y": HELD_Y[:10]}, {"x": HELD[10:], "y": HELD_Y[10:]}]
    opt = gap(model, dicts, 30)
    expected = mse(model, HELD, HELD_Y).item()
    opt.step_on(lambda batch: mse(model, batch["x"], batch["y"]), {"x": X, "y": Y})
    assert opt.report().validation == pytest.approx(expected, rel=1e-6)


def test_readings_are_spread_over_the_run_and_leave_no_trace():
    model = Net(dropout=0.5, norm=True)
    model.norm.eval()  # a mode of its own
    read = []

    def validation():
        read.append(opt.k)
        assert model.drop.training
        assert not model.norm.training
        assert not torch.is_grad_enabled()
        torch.rand(5)
        if opt.k == 88:
            raise KeyError("mine")
        return mse(model, HELD, HELD_Y)

    opt = gap(model, validation, 200)
    for k in range(90):
        before, random = state(model), torch.get_rng_state()
        with pytest.raises(KeyError, match="mine") if k == 88 else nullcontext():
            opt._begin()  # what is read is read here
        assert same(state(model), before)
        assert torch.equal(torch.get_rng_state(), random)
        assert [m.training for m in (model, model.drop, model.norm)] == [True, True, False]
        opt.k += 1
        if k == 70:
            opt._means.update(training=torch.zeros(()), last=torch.zeros(()))  # two readings later it is open
    assert read == [0, *range(56, 80, 8), 80, 84, 88]  # from shortly before the first ascent step on


@pytest.mark.parametrize("bad", [math.nan, torch.tensor(math.inf)], ids=str)
def test_a_validation_loss_that_is_not_finite(bad):
    model = Net()
    values = iter([1.0, 1.0, bad, *[1.0] * 30])
    opt = gap(model, lambda: next(values), 30, lr=0.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(11):
            LOOPS["step_on"](opt, model)
    assert [str(one.message) for one in caught] == ["validation: a loss that is not finite was ignored"]
    assert opt.report().validation == 1.0


def test_a_told_loss_counts_as_the_mean_of_all_processes_and_nonsense_is_refused(monkeypatch):
    opt = gap(Net(), None, 30)
    opt.record_validation_loss(2.0)
    opt.record_validation_loss(torch.tensor([4.0]))
    assert opt.report().validation == pytest.approx((2.0 + 2 * 4.0) / 3)
    for nonsense in ("2", None, torch.ones(2)):
        with pytest.raises(ValueError, match="validation: expected the mean loss, one number"):
            opt.record_validation_loss(nonsense)
    yes, two = (
        lambda: True,
        {"get_world_size": lambda group: 2, "all_reduce": lambda value, group: value.add_(3.0)},
    )
    two = SimpleNamespace(is_available=yes, is_initialized=yes, **two)  # the other process has told 3.0
    monkeypatch.setattr("steepen.torch._tensors.distributed", two)
    opt = gap(Net(), None, 30)
    opt.record_validation_loss(1.0)
    assert opt.report().validation == 2.0


def said(validation, steps, run, **options):
    model = Net()
    opt = gap(model, validation, steps, lr=0.01, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(run):
            LOOPS["step_on"](opt, model)
    return [str(one.message) for one in caught]


def test_what_is_amiss_is_said_once():
    assert said(lambda: 9.0, 60, 60, strength=0.01) == []
    (text,) = said(None, 60, 60)
    assert "no loss was recorded yet" in text
    assert "record_validation_loss" in text
    (text,) = said(lambda: 1e-9, 60, 60)
    assert re.search(
        r"no gap in half of the run, so no ascent step yet: validation loss 1e-09, training loss \d", text
    )
    (text,) = said(lambda: 1e6, 60, 60)
    assert "the ascent step is cut to its limit, 0.1 of the weights' norm, in most steps" in text
    (text,) = said(lambda: 9.0, 20, 60, strength=0.01)
    assert "total_steps: the run continues after its 20 steps" in text
    wide = torch.tensor([0.1, 30.0, 1.0, 6.0])
    (text,) = said(lambda: wide, 60, 60, strength=0.01)
    assert re.search(r"known to ± 7.*, more than a third of the gap \d.*; hold out more", text)


def test_losses_of_micro_batches_that_are_not_divided_are_told():
    opt = gap(Net(), lambda: 1.2 * mse(opt.model), 40, lr=0.0)

    def step():
        for part in opt.passes((X[:8], Y[:8]), (X[8:], Y[8:])):
            loss = mse(opt.model, *part)
            loss.backward()
            opt.record_loss(loss)
        opt.step()

    with pytest.warns(
        UserWarning, match="first training loss is 1.7 times .* divide the loss of each micro-batch"
    ):
        step()
    for _ in range(19):
        step()
    with pytest.warns(UserWarning, match="so no ascent step.*micro-batches divided by their number"):
        step()


@pytest.mark.parametrize(("held", "times"), [(1000, 0.77), (400, 1.9), (96 * 8, None)])
def test_sums_that_are_not_declared_are_told_where_they_matter(held, times):
    """Validation is read in eight parts. As large as the batch, these have sums that can be compared."""
    torch.manual_seed(0)
    x, y = torch.randn(held, 20), torch.randint(2, (held,))
    for declared in ("mean", "sum"):
        for kind in ("mean", "sum"):
            model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 2))
            opt = GapSAM(SGD(model.parameters(), lr=1e-3), model, (x, y), 600, reduction=declared)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                opt.step_on(lambda x, y: cross_entropy(model(x), y, reduction=kind), x[:96], y[:96])  # noqa: B023
            said = [str(one.message) for one in caught]
            wanted = kind == "sum" and declared == "mean" and times is not None
            assert len(said) == wanted, said
            if wanted:
                found = re.search(r"is (.*) times the validation loss; set reduction='sum'", said[0])
                assert float(found[1]) == pytest.approx(times, rel=0.1)


@pytest.mark.filterwarnings("ignore:the ascent step is cut to its limit")
def test_a_validation_loss_that_rises_above_its_start_makes_no_ascent_step_longer_than_its_limit():
    model = Net()
    opt = gap(model, lambda: 4.0 * 1.1**opt.k, 60, lr=0.0)
    for _ in range(60):
        LOOPS["step_on"](opt, model)
    used = torch.cat([p.detach().flatten() for p in model.parameters() if p is not model.unused])
    assert opt.report().perturbed == 20
    assert abs(float(opt._last[0] * opt._last[1])) == pytest.approx(0.1 * used.norm().item(), rel=1e-5)


def test_a_validation_loss_that_is_read_once_and_never_again_is_old():
    model = Net()
    opt = gap(model, None, 100, strength=0.01)
    opt.record_validation_loss(9.0)
    for _ in range(42):
        LOOPS["step_on"](opt, model)
    with pytest.warns(UserWarning, match="validation: at step 42 no loss was recorded since step 0"):
        LOOPS["step_on"](opt, model)


def test_validation_data_that_is_taken_away_before_the_first_ascent_step_is_old():
    model = Net()
    opt = gap(model, lambda: 9.0, 100, strength=0.01)
    for _ in range(42):
        LOOPS["step_on"](opt, model)
        opt.validation = None
    with pytest.warns(UserWarning, match="at step 42 no loss was recorded since step 0.*= None later"):
        LOOPS["step_on"](opt, model)


def test_validation_data_is_like_the_batch_of_step_on():
    """Also where the loss takes a batch as one tuple."""
    model, losses = Net(), []
    for loss_of, batch in ((lambda b: mse(model, *b), ((X, Y),)), (lambda x, y: mse(model, x, y), (X, Y))):
        opt = gap(model, DataLoader(TensorDataset(X, Y + 1), 5), 20, lr=0.0)
        opt.step_on(loss_of, *batch)
        losses.append(opt.report().validation)
    assert losses[0] == losses[1] > 0


@pytest.mark.filterwarnings("error")
def test_validation_data_that_is_taken_away_in_mid_run_is_no_forgotten_evaluation():
    model = Net()
    opt = gap(model, lambda: 9.0, 100, strength=0.01)
    for k in range(100):
        opt.validation = None if k == 50 else opt.validation
        LOOPS["step_on"](opt, model)
    assert opt._read == 48
    assert not is_told(opt)  # by the evaluations of a Trainer
    assert is_told(gap(model, None, 100))


def test_validation_data_that_is_trained_on_is_not_read_again_by_a_resumed_run():
    model = Net()
    opt = gap(model, lambda: 9.0, 100, strength=0.01)
    for k in range(60):
        opt.validation = None if k == 50 else opt.validation
        LOOPS["step_on"](opt, model)
    again = Net()
    other = gap(again, lambda: pytest.fail("it was read"), 100, strength=0.01)
    again.load_state_dict(model.state_dict())
    other.load_state_dict(opt.state_dict())
    for _ in range(40):
        LOOPS["step_on"](opt, model)
        LOOPS["step_on"](other, again)
    assert same(weights(model), weights(again))


@pytest.mark.parametrize("name", ["SAM", "GapSAM"])
def test_an_ascent_gradient_that_is_not_finite_makes_no_ascent_step(name):
    """As of a loss whose mean is over no target in the examples of the ascent step."""
    known = torch.ones(16, 1, dtype=torch.float64)
    known[:4] = 0.0

    def trained(build):
        model = Net()
        opt = build(model)
        for _ in range(30):
            loss_of = lambda x, y, k: ((model(x) - y).square() * k).sum() / k.sum()  # noqa: E731
            if isinstance(opt, SGD):
                opt.zero_grad()
                loss_of(X, Y, known).backward()
                opt.step()
            else:
                opt.step_on(loss_of, X, Y, known)
        return weights(model)

    wraps = {
        "SAM": lambda model: SAM(SGD(model.parameters(), lr=0.01), model, ascent_fraction=1 / 4),
        "GapSAM": lambda model: gap(model, lambda: 9.0, 30, lr=0.01),
    }
    assert same(trained(wraps[name]), trained(lambda model: SGD(model.parameters(), lr=0.01)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_length_of_zero_moves_nothing_in_any_direction(dtype):
    x, s = torch.arange(4.0, dtype=dtype), torch.tensor([1.5, -2.0, math.nan, -math.inf], dtype=dtype)
    undo = values_of([x])
    move([x], [s.clone()], torch.tensor(0.0), masked=True)
    assert torch.equal(x, torch.arange(4.0, dtype=dtype))
    move([x], [s[:2].repeat(2)], torch.tensor(0.5), masked=True)
    assert x.tolist() == [0.75, 0.0, 2.75, 2.0]
    undo()
    assert torch.equal(x, torch.arange(4.0, dtype=dtype))


def test_a_loader_without_a_length_is_validation_data():
    class Rows(IterableDataset):
        def __iter__(self):
            return iter(TensorDataset(X, Y))

    model = Net()
    opt = gap(model, DataLoader(Rows(), batch_size=4), 30)
    LOOPS["step_on"](opt, model)
    whole = gap(other := Net(), (X, Y), 30)
    LOOPS["step_on"](whole, other)
    assert opt.report().validation == pytest.approx(whole.report().validation)


def test_an_expanded_buffer_and_an_empty_batch():
    model = Net()
    model.register_buffer("mask", torch.ones(4, 4).tril().expand(2, 4, 4))
    opt = gap(model, lambda: 9.0, 30)
    LOOPS["step_on"](opt, model)
    with pytest.raises(RuntimeError, match="batch: expected at least one example, got none"):
        opt.step_on(lambda x, y: mse(model, x, y), X[:0], Y[:0])
    LOOPS["step_on"](opt, model)
    assert opt.report().steps == 2


def test_a_loss_that_the_next_pass_writes_over_was_told_in_time():
    """As a CUDA graph does."""
    model, static = Net(), torch.zeros((), dtype=torch.float64)
    opt = gap(model, lambda: 9.0, 20, lr=0.0, ascent_fraction=1.0, strength=0.1)
    for _ in range(10):
        for part in opt.passes((X[:8], Y[:8]), (X[8:], Y[8:])):
            loss = mse(model, *part) / 2
            loss.backward()
            opt.record_loss(static.copy_(loss.detach()))
        opt.step()
    assert opt.report().rise > 0
    assert opt.report().training == pytest.approx(mse(model).item(), rel=1e-6)
