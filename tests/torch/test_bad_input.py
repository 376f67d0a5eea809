"""The first step tells all: what cannot work is refused at construction or at step 0, weights untouched."""

import copy
import inspect
import math
import pickle
import subprocess
import sys
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence
from torch.optim import LBFGS, SGD
from torch.utils.checkpoint import checkpoint

from steepen.schedules import Signed
from steepen.torch import CGD, EGR, MSAM, SAM, GapSAM

from .nets import LOOPS, Net, X, Y, built, make, mse, same, weights

MODEL = Net()
BASE = SGD(MODEL.parameters(), lr=0.1)


def other(**group):
    return SGD([{"params": [MODEL.unused], **group}, {"params": MODEL.first.parameters()}])


REFUSED = {
    "'model'": lambda: SAM(BASE),
    "model: expected the network": lambda: SAM(BASE, 0.05),
    "base: expected an instance of an optimizer": lambda: SAM(SGD, MODEL),
    r"got generator; SAM\(params, SGD, lr=…\) is SAM\(SGD": lambda: SAM(MODEL.parameters(), SGD, lr=0.1),
    r"got NoneType; SAM\(params, SGD, lr=…\) is": lambda: SAM(params=MODEL.parameters(), base_optimizer=SGD),
    "when: expected a container of steps": lambda: SAM(BASE, MODEL, when="late"),
    "base: expected parameters, each once; got 8, 5 different": lambda: SAM([BASE, other()], MODEL),
    r"got generator; MSAM\(params, SGD, lr=…\) is": lambda: MSAM(MODEL.parameters(), lr=0.1),
    "model: expected the network that base trains": lambda: SAM(SGD(Net().parameters()), MODEL),
    "base: LBFGS runs its own passes": lambda: CGD(LBFGS([MODEL.unused]), MODEL, 0.1),
    "base: SAM runs its own passes": lambda: SAM(SAM(BASE, MODEL), MODEL),
    "base: expected an optimizer with momentum": lambda: MSAM(BASE, MODEL),
    "base: expected an optimizer that minimises": lambda: SAM(other(maximize=True), MODEL),
    "rho: expected a number, 0 or more, at step 0": lambda: SAM(BASE, MODEL, rho=lambda k: -1.0),
    "meta device": lambda: SAM(SGD(nn.Linear(1, 1, device="meta").parameters()), MODEL),
    "base: expected real .*complex64": lambda: SAM(SGD([nn.Parameter(1j * torch.ones(1))]), MODEL),
    "rho: expected a number, 0 or more.*-0.1": lambda: SAM(BASE, MODEL, rho=-0.1),
    "lam: expected a number.*got nan": lambda: CGD(BASE, MODEL, lam=math.nan),
    "lam, ratio: expected one of them": lambda: CGD(BASE, MODEL),
    "lam, ratio: expected one of them.*0.1 and ratio=0.3": lambda: CGD(BASE, MODEL, 0.1, ratio=0.3),
    "ratio: expected a number, 0 or more.*-1": lambda: CGD(BASE, MODEL, ratio=-1),
    "lam: a schedule by the curvature": lambda: CGD(BASE, MODEL, lam=Signed(0.1)),
    "lam: expected a number.*got inf": lambda: EGR(BASE, MODEL, lam=math.inf),
    "missing 1 required positional argument: 'lam'": lambda: EGR(BASE, MODEL),
    "r: expected None with exact products, got 0.1": lambda: CGD(BASE, MODEL, 0.1, r=0.1, exact=True),
    "ratio: expected None with exact products, got 0.3": lambda: CGD(BASE, MODEL, ratio=0.3, exact=True),
    "dtype: expected None with exact": lambda: CGD(BASE, MODEL, 1.0, exact=True, dtype=torch.bfloat16),
    "alpha: expected a number, 0 or more, at step 0, got -0.5": lambda: SAM(BASE, MODEL, alpha=-0.5),
    "alpha: expected 1, as .* ascent_fraction is 0.25; got 0.5": lambda: SAM(
        BASE, MODEL, alpha=0.5, ascent_fraction=1 / 4
    ),
    "eta: expected a number, 0 or more, got -1": lambda: SAM(BASE, MODEL, adaptive=True, eta=-1),
    "eta: expected None, as only adaptive=True uses it; got 0.1": lambda: SAM(BASE, MODEL, eta=0.1),
    "adaptive: expected True or False, got 0.5": lambda: SAM(BASE, MODEL, adaptive=0.5),
    "normalized: expected True or False, got None": lambda: SAM(BASE, MODEL, normalized=None),
    "rho: a parameter group has rho=0.2, which would .*; expected an argument of SAM": lambda: SAM(
        other(rho=0.2), MODEL
    ),
    "lam: a parameter group has lam=0.2": lambda: CGD(other(lam=0.2), MODEL, 0.1),
    "alpha: a parameter group has alpha=1": lambda: SAM(BASE, MODEL).add_param_group({"alpha": 1}),
    "ascent_fraction: expected a part of the batch.*got 0": lambda: SAM(BASE, MODEL, ascent_fraction=0),
    "dtype: expected a precision": lambda: CGD(BASE, MODEL, 0.1, dtype=torch.int8),
    "gate: expected two rising numbers": lambda: GapSAM(BASE, MODEL, None, 50, gate=(0.3, 0.2)),
    "reduction: expected 'mean' or 'sum', got 'none'": lambda: GapSAM(
        BASE, MODEL, None, 50, reduction="none"
    ),
    "every: expected a whole number, 2 or more": lambda: GapSAM(BASE, MODEL, None, 50, every=1),
    "validation: .* read again": lambda: GapSAM(BASE, MODEL, iter([(X, Y)]), 50),
    "a copy of SAM would train": lambda: copy.deepcopy(SAM(BASE, MODEL)),
    "a copy of SAM would train the old network": lambda: pickle.dumps(SAM(BASE, MODEL)),
    r"step_on\(loss_of, \*batch\).*opt.own": lambda: SAM(BASE, MODEL).step(),
    "passes: expected a batch": lambda: list(SAM(BASE, MODEL).passes()),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refused_at_once(words):
    with pytest.raises((TypeError, ValueError, RuntimeError), match=words):
        REFUSED[words]()


def share(model, ascent_fraction=1 / 4, **options):
    return SAM(SGD(model.parameters(), lr=0.1), model, ascent_fraction=ascent_fraction, **options)


def plain(model, **options):
    return share(model, 1.0, **options)


def gap(model, held_out=None):
    return GapSAM(SGD(model.parameters(), lr=0.1), model, held_out, 50, ascent_fraction=1 / 4)


def watch(model, held_out):
    return gap(model, held_out).step_on(lambda x, y: mse(model, x, y), X, Y)


def by_passes(opt, body):
    for part in opt.passes((X, Y)):
        body(mse(opt.model, *part))
    opt.step()


def twice(opt):
    return lambda loss: (loss.backward(), opt.record_loss(loss), opt.record_loss(loss))


def uncut(model):
    return lambda: (loss := mse(model), loss.backward())[0]


def sparse(model):
    table = nn.Embedding(16, 2, sparse=True).double()
    both = nn.ModuleList([model, table])
    opt = SAM(SGD(both.parameters(), lr=0.1), both, ascent_fraction=1 / 4)
    opt.step_on(lambda x: mse(model, x, table(torch.arange(len(x)))), X)


def cleared(model):
    opt = plain(model)
    for part in opt.passes((X, Y)):
        mse(model, *part).backward()
    model.zero_grad()  # as the optimizer's
    opt.step()


def exact(model, loss_of=mse, x=X):
    opt = EGR(SGD(model.parameters(), lr=0.1), model, lam=0.1)
    opt.step_on(lambda x: loss_of(model, x), x)


def forgotten(model):
    opt = EGR(SGD(model.parameters(), lr=0.1), model, lam=0.1)
    by_passes(opt, lambda loss: loss.backward())


def attended(model, x):
    out = model.first(x).view(1, 1, -1, 5)
    return nn.functional.scaled_dot_product_attention(out, out, out).square().mean()


def compiled(model, x):
    return mse(torch.compile(model, backend="aot_eager"), x)


def checkpointed(model, x):
    first = checkpoint(model.first, x.clone().requires_grad_(), use_reentrant=True)
    return model.last(first).square().mean()


def set_later(model):
    opt = plain(model)
    opt.param_groups[0]["rho"] = 0.3
    opt.step_on(lambda x, y: mse(model, x, y), X, Y)


def nested(model, *, inside):
    """Two wrappers of disjoint parts of a network: the second makes a pass within a step of the first."""
    first, second = (SAM(SGD(part.parameters()), part) for part in (model.first, model.last))
    for part in first.passes((X, Y)):
        mse(model, *part).backward()
        if inside:
            second.step_on(lambda x, y: mse(model, x, y), X, Y)
    second.step_on(lambda x, y: mse(model, x, y), X, Y)


STEP = {
    r"the passes' gradients are gone; call zero_grad\(\) after step\(\)": cleared,
    r"gradients of a SAM that is in the middle of a step; .*SAM\(\[a": partial(nested, inside=True),
    r"gradients of a SAM that is in the middle.*SAM\(\[a, b\], model\)": partial(nested, inside=False),
    r"exact: call opt.penalised\(loss\).backward\(\) in each pass": forgotten,
    r"(?s)exact: an operation .*sdpa_kernel\(SDPBackend.MATH\).*differences, CGD\(base, model, lam\)":
        lambda m: exact(m, attended),
    "(?s)exact: an operation of the network has no second derivative.*compile.*leave torch.compile out":
        lambda m: exact(m, compiled),
    "exact: 2 of 4 parameters have a gradient by backward.*use_reentrant=False":
        lambda m: exact(m, checkpointed),
    "rho: a parameter group has rho=0.3": set_later,
    r"base: expected dense gradients.*\(16, 2\).*sparse=False": sparse,
    "batch: found no tensor in .*; pass a tensor, or": lambda m: share(m).step_on(lambda _: mse(m), None),
    "found tensors with 5 and 16 rows": lambda m: share(m).step_on(lambda x, y: mse(m, x, y), X, Y[:5]),
    "batch: cannot slice a ragged PackedS": lambda m: next(share(m).passes(pack_sequence([X[0], X[1]]))),
    "batch: cannot slice a ragged Tensor": lambda m: next(share(m).passes(X.to_sparse())),
    r"loss: expected one number in a tensor, the mean over the batch; got a tensor of shape \(16, 2\)":
        lambda m: plain(m).step_on(lambda x, y: (m(x) - y).square(), X, Y),
    "loss: .*got 1.0": lambda m: plain(m).step_on(lambda x, y: 1.0, X, Y),
    r"loss: .*shape \(16, 2\)": lambda m: plain(m).step(lambda: (mse(m).backward(), m(X))[1]),
    "record_loss: expected one loss per pass, got two": lambda m: by_passes(opt := plain(m), twice(opt)),
    r"the closure must select its part of the batch: x, y = opt.part\(\(x, y\)\)":
        lambda m: share(m).step(uncut(m)),
    r"produced no gradient: call backward\(\)": lambda m: by_passes(plain(m), lambda loss: None),
    r"call opt.record_loss\(loss\) for each pass":
        lambda m: by_passes(gap(m), lambda loss: loss.backward()),
    "validation: expected a few hundred examples, got 0": lambda m: watch(m, []),
    "validation: expected a few hundred examples, got 1": lambda m: watch(m, (X[:1], Y[:1])),
    "validation: expected a finite loss": lambda m: watch(m, (X * math.nan, Y)),
    "validation: expected a callable, a batch, or an iterable of batches; got 0.7": lambda m: watch(m, 0.7),
    r"validation: expected the mean loss, or a loss for each.*\(16, 2\)": lambda m: watch(m, lambda: m(X)),
    "ndarray\nvalidation: expected batches that loss_of accepts": lambda m: watch(m, (X.numpy(), Y.numpy())),
    "(?s)'y'.*\nvalidation: expected batches that loss_of accepts": lambda m: watch(m, ({"x": X}, {"y": Y})),
    "(?s)meta.*\nvalidation: expected batches": lambda m: watch(m, (X.to("meta"), Y.to("meta"))),
}  # fmt: skip


@pytest.mark.parametrize("words", STEP)
def test_refused_at_step_0_before_the_weights_change(words):
    model = Net()
    before = weights(model)
    with pytest.raises((TypeError, ValueError, RuntimeError), match=words):
        STEP[words](model)
    assert same(weights(model), before)


def test_a_step_within_a_step_of_another_network_is_the_step():
    inner, outer, alone = Net(), Net(), Net()
    first, second, third = (SAM(SGD(model.parameters(), lr=0.1), model) for model in (outer, inner, alone))
    for part in first.passes((X, Y)):
        second.step_on(lambda x, y: mse(inner, x, y), X, Y)
        mse(outer, *part).backward()
    first.step()
    third.step_on(lambda x, y: mse(alone, x, y), X, Y)
    assert same(weights(outer), weights(alone))
    third.step_on(lambda x, y: mse(alone, x, y), X, Y)  # the inner network took two
    assert same(weights(inner), weights(alone))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_share_of_one_example_is_two_and_one_is_told(loop):
    """BatchNorm cannot take one example."""
    model = Net(norm=True)
    opt = SAM(SGD(model.parameters(), lr=0.1), model, ascent_fraction=1 / 16)
    with pytest.warns(UserWarning, match=r"ascent_fraction: 0\.0625 of 16 examples is 1; using 2"):
        LOOPS[loop](opt, model)
    for _ in range(2):  # it is said once: another warning would be an error here
        LOOPS[loop](opt, model)
    assert opt.report().gradients == 3 * (1 + 2 / 16)
    with pytest.warns(UserWarning, match="using 2"):
        make("share", model).step_on(lambda x: mse(model, x, Y[: len(x)]), X[:4])


class Pair(NamedTuple):
    x: Tensor
    y: Tensor


@dataclass
class Batch:
    x: Tensor
    words: list[str]
    size: int = 16
    rows: int = field(init=False)

    def __post_init__(self):
        self.rows = len(self.x)


@pytest.mark.parametrize(
    ("batch", "check"),
    [
        (X, lambda p: p.shape == (4, 3)),
        ((X, Y), lambda p: isinstance(p, tuple) and p[1].shape == (4, 2)),
        ([X, Y], lambda p: isinstance(p, list) and len(p[0]) == 4),
        ({"x": X, "deep": {"y": Y}, "scale": 2.0}, lambda p: len(p["deep"]["y"]) == 4 and p["scale"] == 2.0),
        (Pair(X, Y), lambda p: isinstance(p, Pair) and len(p.y) == 4),
        (Batch(X, list("abcdefghijklmnop")), lambda p: (p.rows, p.words, p.size) == (4, list("abcd"), 16)),
        (defaultdict(list, x=X), lambda p: (len(p["x"]), p["y"]) == (4, [])),
        ((X, np.arange(16)), lambda p: p[1].tolist() == [0, 1, 2, 3]),
        ((X, torch.tensor(3.0), "all"), lambda p: p[1].item() == 3.0 and p[2] == "all"),
    ],
    ids=["tensor", "tuple", "list", "dict", "named", "dataclass", "default", "numpy", "others"],
)
def test_a_part_keeps_the_form_of_its_batch(batch, check):
    model = Net()
    opt = share(model)
    passes = opt.passes(batch)
    part = next(passes)
    assert check(part)
    assert opt.part(batch) is not batch
    mse(model).backward()
    assert next(passes) is batch


def test_a_network_that_lacks_some_of_the_parameters_is_told():
    other = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="model: 2 of base.s parameters are not in it"):
        SAM(SGD([*MODEL.parameters(), *other.parameters()]), MODEL)


def taken(opt, steps, rate=None):
    said = []
    for _ in range(steps):
        if rate is not None:
            opt.param_groups[0]["lr"] = rate(opt.k)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            LOOPS["step_on"](opt, opt.model)
        said += [str(one.message) for one in caught]
    return said, str(opt.report())


def test_a_run_without_an_ascent_step_says_why():
    """In its report, and before: a learning rate near 0 suggests that it ends."""
    late = (
        "at step 18 the learning rate is below a hundredth of its maximum, but there was no ascent step yet"
    )
    for rate, words in ((None, []), (lambda k: 0.1 * (k < 18), [late])):
        model = Net()
        opt = GapSAM(SGD(model.parameters(), lr=0.1), model, lambda: 9.0, 200, ascent_fraction=1 / 4)
        said, report = taken(opt, 20, rate)
        assert [one.partition(":")[0] for one in said] == words
        assert "steps planned" in report
        assert "no ascent step: they begin after a third of the 200 steps" in report
        assert [one.partition(":")[0] for one in taken(plain(Net(), when=range(9, 99)), 8, rate)[0]] == []
        said, _ = taken(plain(Net(), when=range(90, 99)), 20, rate)
        assert [one.partition(":")[0] for one in said] == words
    for held_out, words in ((4.0, "the gate is closed, as the gap is 0"), (0.1, "there was no gap")):
        model = Net()
        opt = GapSAM(SGD(model.parameters(), lr=0.0), model, lambda m=held_out: m, 30, ascent_fraction=1 / 4)
        assert f"no ascent step: {words}" in taken(opt, 20)[1]
    assert "`when` contains none of the first 5 steps" in taken(plain(Net(), when=range(9, 99)), 5)[1]
    assert "no ascent step" not in taken(plain(Net()), 5)[1]


@pytest.mark.parametrize(("lam", "bound"), [(1e-4, 0.0), (10.0, 1.0), (-1e3, 1.0)])
def test_a_lam_beyond_the_limit_is_told(lam, bound):
    model = Net()
    opt = CGD(SGD(model.parameters(), lr=1e-3), model, lam)
    said, _ = taken(opt, 40)
    assert [one[:32] for one in said] == ["lam: the ascent step is cut to its limi"[:32]] * (bound > 0)
    assert opt.report().bound == bound


@pytest.mark.parametrize(("options", "heavy"), [({"exact": True}, True), ({"r": 0.1}, True), ({}, False)])
def test_a_lam_that_makes_the_step_all_penalty_is_told_once(options, heavy):
    """By default the length of the ascent step limits the penalty, and another warning says so."""
    for lam in (0.01, 1e3):
        model = Net()
        opt = CGD(SGD(model.parameters(), lr=1e-6), model, lam, guard=False, **options)
        said = [one for one in taken(opt, 40)[0] if "times as long as the loss's in most steps" in one]
        assert len(said) == (heavy and lam > 1)


@pytest.mark.parametrize("options", [{"exact": True}, {"r": 0.1}])
def test_a_lam_that_destroys_the_network_at_once_is_told_all_the_same(options):
    """Where the network is saturated the penalty is short again, so that it is no longer so in most steps."""
    model = Net()
    opt = CGD(SGD(model.parameters(), lr=0.1), model, lam=1e3, guard=False, **options)
    said, _ = taken(opt, 12)
    assert ["times as long as the loss's in most steps" in one for one in said] == [True]


@pytest.mark.parametrize("name", ["CGD", "GapSAM"])
def test_after_a_warning_as_an_error_the_run_goes_on(name):
    model = Net()
    base = SGD(model.parameters(), lr=1e-3)
    opt = CGD(base, model, 10.0) if name == "CGD" else gap(model, lambda: 9.0)
    raised = 0
    for _ in range(60):
        before = weights(model)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                LOOPS["step_on"](opt, model)
            except UserWarning:
                raised += 1
                assert same(weights(model), before)
    assert raised >= 1
    assert opt.k == 60 - raised


def test_a_step_interrupted_in_the_base_is_dropped():
    """As by Ctrl-C in a cell of a notebook, which is then run again."""
    model = Net()
    opt = plain(model)
    calls = iter([True, False, False])
    step = opt.base.step
    opt.base.step = lambda: (_ for _ in ()).throw(KeyboardInterrupt) if next(calls) else step()
    with pytest.raises(KeyboardInterrupt):
        LOOPS["step_on"](opt, model)
    before = weights(model)
    for loop in ("step_on", "passes"):
        LOOPS[loop](opt, model)
    assert not same(weights(model), before)
    assert opt.report().steps == 2


def test_states_of_others_are_refused_by_name():
    model, opt = built("SAM")
    LOOPS["step_on"](opt, model)
    state = opt.base.state_dict()
    with pytest.raises(
        ValueError, match=r"state_dict: expected one of this class.*another one.*\.base.*\.own"
    ):
        opt.load_state_dict(state)
    with pytest.raises(ValueError, match="state_dict: expected that of SAM, got that of 'CGD'"):
        opt.load_state_dict(make("CGD", model).state_dict())
    assert opt.report().steps == 1
    state = gap(model).state_dict()
    assert set(state["steepen"]["means"]) >= {"training", "validation", "rise"}
    with pytest.warns(UserWarning, match="the state is of a run of 50 steps, but this one has 60"):
        GapSAM(SGD(model.parameters()), model, None, 60).load_state_dict(state)


def test_base_and_model_come_first_and_no_signature_has_more_than_ten_arguments_all_named():
    kinds = [SAM, MSAM, CGD, EGR, GapSAM]
    public = set(kinds)
    for kind in kinds:
        assert list(inspect.signature(kind).parameters)[:2] == ["base", "model"], kind
        named = inspect.getmembers(kind, inspect.isfunction)
        public |= {f for name, f in named if name[0] != "_" and f.__module__.startswith("steepen")}
    for thing in public:
        arguments = inspect.signature(thing).parameters
        assert len(arguments) <= 10 + ("self" in arguments), thing
        if thing.__name__ not in ("step_on", "passes"):
            assert not any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in arguments.values())


def test_a_state_that_does_not_fit_changes_nothing():
    wide, narrow = nn.Linear(3, 2), nn.Linear(3, 2, bias=False)
    opt, other = (SAM(SGD(net.parameters(), lr=0.1), net) for net in (wide, narrow))
    for _ in range(3):
        other.step_on(lambda x, y: (narrow(x) - y).square().mean(), X.float(), Y.float())
    with pytest.raises(ValueError, match="group"):
        opt.load_state_dict(other.state_dict())
    assert opt.k == 0


def test_a_reading_that_fails_may_be_repeated():
    net = nn.Linear(2, 1)
    wrong = torch.ones(8, 3), torch.ones(8, 1)
    opt = GapSAM(SGD(net.parameters(), lr=0.1), net, wrong, 100, ascent_fraction=1 / 4)

    def loss(x, y):
        return (net(x) - y).square().mean()

    batch = torch.ones(8, 2), torch.zeros(8, 1)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="shapes"):
            opt.step_on(loss, *batch)
    opt.validation = batch
    opt.step_on(loss, *batch)


def test_words_are_cut_with_their_labels():
    net, seen = nn.Linear(1, 1), []

    def loss(words, y):
        seen.append((len(words), len(y)))
        return (net(torch.tensor([[float(len(word))] for word in words])) - y).square().mean()

    for words in (("a", "bb") * 4, ["a", "bb"] * 4):
        SAM(SGD(net.parameters(), lr=0.01), net, ascent_fraction=0.25).step_on(loss, words, torch.ones(8, 1))
    assert seen == 2 * [(2, 2), (8, 8)]


ENDS = """
import torch
from steepen.torch import SAM, GapSAM
def run(make, steps):
    model = torch.nn.Linear(2, 1)
    opt = make(torch.optim.SGD(model.parameters(), lr=0.1), model)
    for _ in range(steps):
        opt.step_on(lambda x: model(x).square().mean(), torch.ones(64, 2))
    return opt
kept = [
    run(lambda base, model: GapSAM(base, model, torch.ones(64, 2), 2000), 9),
    run(lambda base, model: SAM(base, model, when=range(500, 1000)), 8),
    run(lambda base, model: SAM(base, model, when=range(5, 1000)), 7),
    run(lambda base, model: SAM(base, model, when=range(500, 1000)), 0),
]
"""


def test_a_run_that_ends_before_its_first_ascent_step_is_told_at_the_end():
    """A learning rate that stays high shows no end."""
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, check=True, timeout=100)
    said = sorted(line for line in done.stderr.decode().splitlines() if "UserWarning" in line)
    assert len(said) == 2, said
    assert "after 8 steps, without an ascent step: `when` contains none of the first 8 steps" in said[0]
    assert "after 9 steps, without an ascent step: they begin after a third of the 2000 steps" in said[1]


def test_gradients_of_others_are_seen_though_those_of_the_first_layer_vanish():
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    nn.init.constant_(model[0].bias, -100.0)  # no unit is active
    opt = SAM(SGD(model.parameters(), lr=0.1), model)
    (mse(model) / 2).backward()
    with pytest.raises(RuntimeError, match="there are gradients from a backward"):
        opt.step(lambda: mse(model))
