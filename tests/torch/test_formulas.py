"""Each optimizer, over several steps, against its formula written out in plain torch."""

import itertools
import re
from functools import partial

import pytest
import torch
from torch import nn, optim
from torch.optim import SGD

from steepen.schedules import L
from steepen.torch import CGD, EGR, MSAM, SAM

from .. import ratio_rule
from ..public import ROOT
from .nets import BASES, LOOPS, Net, X, Y, mse, same

STEPS = 5
LONG = 20
TEN = BASES | {
    "sgd": lambda ps: SGD(ps, lr=0.1),
    "adam": lambda ps: optim.Adam(ps, lr=0.01, amsgrad=True),
    "rmsprop": lambda ps: optim.RMSprop(ps, lr=0.01, momentum=0.5),
    "adagrad": lambda ps: optim.Adagrad(ps, lr=0.05),
    "adadelta": lambda ps: optim.Adadelta(ps, lr=1.0),
    "adamax": lambda ps: optim.Adamax(ps, lr=0.01),
    "nadam": lambda ps: optim.NAdam(ps, lr=0.01),
    "radam": lambda ps: optim.RAdam(ps, lr=0.01),
}


def loss(xs, x=X, y=Y):
    a, b, c, d = xs
    return (torch.tanh(x @ a.T + b) @ c.T + d - y).square().mean() * 3


def gradient(xs, rows=16):
    leaves = [x.detach().requires_grad_() for x in xs]
    return list(torch.autograd.grad(loss(leaves, X[:rows], Y[:rows]), leaves))


def norm(xs):
    return sum(value**2 for x in xs for value in x.flatten().tolist()) ** 0.5


def moved(xs, c, along):
    return [x + c * one for x, one in zip(xs, along, strict=True)]


def mixed(g, nu, plus):
    return [gi + nu * (pi - gi) for gi, pi in zip(g, plus, strict=True)]


def guarded(xs, d):
    """What descends f, and if d does not, the gradient."""
    g = gradient(xs)
    return d if sum((gi * di).sum().item() for gi, di in zip(g, d, strict=True)) > 0 else g


def sam(xs, rho, rows=16):
    g = gradient(xs, rows)
    return gradient(moved(xs, rho / norm(g), g))


def usam(xs, rho):
    return gradient(moved(xs, rho, gradient(xs)))


def asam(xs, rho, eta, alpha=1.0):
    g, scale = gradient(xs), [x.abs() + eta for x in xs]
    n = norm([t * gi for t, gi in zip(scale, g, strict=True)])
    plus = gradient([x + rho * t * t * gi / n for x, t, gi in zip(xs, scale, g, strict=True)])
    return [(1 - alpha) * gi + alpha * pi for gi, pi in zip(g, plus, strict=True)]


def gnp(xs, rho, alpha):
    return [(1 - alpha) * gi + alpha * pi for gi, pi in zip(gradient(xs), sam(xs, rho), strict=True)]


def fgr(xs, eps, gamma):
    g = gradient(xs)
    return mixed(g, gamma / eps, gradient(moved(xs, eps, g)))


def egr(xs, lam):
    leaves = [x.detach().requires_grad_() for x in xs]
    g = torch.autograd.grad(loss(leaves), leaves, create_graph=True)
    return list(torch.autograd.grad(loss(leaves) + lam * sum(gi.square().sum() for gi in g), leaves))


def cgdfd(xs, lam, r):
    g = gradient(xs)
    return mixed(g, 2 * lam / r, gradient(moved(xs, r, g)))


def cgd(xs, lam):
    """CGD as it comes: c = 2λ, no shorter than is accurate, no longer than a tenth of ‖x‖."""
    g = gradient(xs)
    unit = norm(xs) / norm(g)
    c = min(max(2 * abs(lam), 1e-6 * unit), 0.1 * unit)
    return guarded(xs, mixed(g, max(-1.0, min(2 * lam / c, 1.0)), gradient(moved(xs, c, g))))


def ramp(k):
    return 0.02 + 0.03 * k


METHODS = {
    "SAM": (partial(SAM, rho=0.3), lambda xs, k: sam(xs, 0.3)),
    "SAM, as it comes": (SAM, lambda xs, k: sam(xs, 0.05)),
    "SAM, share": (partial(SAM, rho=0.3, ascent_fraction=1 / 4), lambda xs, k: sam(xs, 0.3, rows=4)),
    "SAM, schedule": (partial(SAM, rho=ramp), lambda xs, k: sam(xs, ramp(k))),
    "CGD": (partial(CGD, lam=0.05), lambda xs, k: cgd(xs, 0.05)),
    "CGD, negative": (partial(CGD, lam=-0.05), lambda xs, k: cgd(xs, -0.05)),
    "CGD, at its limit": (partial(CGD, lam=0.6), lambda xs, k: cgd(xs, 0.6)),
    "CGD, short": (partial(CGD, lam=1e-8), lambda xs, k: cgd(xs, 1e-8)),
    "CGD, schedule": (partial(CGD, lam=ramp), lambda xs, k: cgd(xs, ramp(k))),
    "CGD, r": (partial(CGD, lam=0.2, r=0.1), lambda xs, k: guarded(xs, cgdfd(xs, 0.2, 0.1))),
    "CGD, r, tripping": (partial(CGD, lam=-0.1, r=0.05), lambda xs, k: guarded(xs, cgdfd(xs, -0.1, 0.05))),
    "CGD, r, unguarded": (
        partial(CGD, lam=-0.01, r=ramp, guard=False), lambda xs, k: cgdfd(xs, -0.01, ramp(k))),
    "USAM as CGD": (partial(CGD, lam=0.1, r=0.2, guard=False), lambda xs, k: usam(xs, 0.2)),
    "USAM": (partial(SAM, rho=0.2, normalized=False), lambda xs, k: usam(xs, 0.2)),
    "ASAM": (partial(SAM, rho=0.5, adaptive=True), lambda xs, k: asam(xs, 0.5, 0.01)),
    "ASAM, schedules": (
        partial(SAM, rho=ramp, adaptive=True, eta=0.1, alpha=L(0.1, 0.9, T=9)),
        lambda xs, k: asam(xs, ramp(k), 0.1, 0.1 + 0.1 * min(k, 8))),
    "WSAM": (
        partial(SAM, rho=0.1, alpha=0.7 / 0.3),
        lambda xs, k: [(1 - 1.4) / 0.3 * g + 0.7 / 0.3 * p
                       for g, p in zip(gradient(xs), sam(xs, 0.1), strict=True)]),
    "GNP": (partial(SAM, rho=0.3, alpha=0.6), lambda xs, k: gnp(xs, 0.3, 0.6)),
    "FGR": (partial(CGD, lam=0.125, r=0.1, guard=False), lambda xs, k: fgr(xs, 0.1, 0.25)),
    "EGR": (partial(EGR, lam=0.06), lambda xs, k: egr(xs, 0.06)),
    "EGR, schedule": (partial(EGR, lam=lambda k: ramp(k) / 10), lambda xs, k: egr(xs, ramp(k) / 10)),
    "exact": (partial(CGD, lam=L(0.01, 0.1, T=12), exact=True),
              lambda xs, k: guarded(xs, egr(xs, 0.01 + 0.09 * min(k, 11) / 11))),
    "exact, tripping": (partial(CGD, lam=-0.1, exact=True), lambda xs, k: guarded(xs, egr(xs, -0.1))),
}  # fmt: skip


VALUES = {"lam": 0.06, "r": 0.1, "γ": 0.25, "ε": 0.1, "rho": 0.3, "η": 0.05, "α": 0.6}
ROWS = {
    "CGD": lambda xs: guarded(xs, egr(xs, 0.06)),
    "CGD-FD": lambda xs: guarded(xs, cgdfd(xs, 0.06, 0.1)),
    "EGR": lambda xs: egr(xs, 0.06),
    "F-GR": lambda xs: fgr(xs, 0.1, 0.25),
    "SAM": lambda xs: sam(xs, 0.3),
    "ASAM": lambda xs: asam(xs, 0.3, 0.05),
    "GNP": lambda xs: gnp(xs, 0.3, 0.6),
    "WSAM": lambda xs: mixed(gradient(xs), 0.25 / 0.75, sam(xs, 0.3)),
    "USAM": lambda xs: usam(xs, 0.3),
    "MSAM": gradient,  # in its first step
}
"""The papers of the page's table, and their steps with these values."""


class Task:
    """The network of `nets`, trained by ours, beside its weights as plain tensors, trained by a formula."""

    def __init__(self, method, base="momentum"):
        base = TEN[base]
        self.model = Net()
        self.used = [p for name, p in self.model.named_parameters() if name != "unused"]
        self.theirs = [nn.Parameter(p.detach().clone()) for p in self.used]
        own, self.reference = base(self.model.parameters()), base(self.theirs)
        self.opt = method(own, self.model)

    def step(self, d, rough=1e-12):
        before = loss(self.theirs).item()
        for p, one in zip(self.theirs, d, strict=True):
            p.grad = one
        self.reference.step()
        found = self.opt.step_on(lambda x, y: mse(self.model, x, y), X, Y)
        size = max(1.0, *(p.detach().abs().max().item() for p in self.theirs))  # a run may diverge
        torch.testing.assert_close(self.used, self.theirs, rtol=0, atol=rough * size)
        return found.item(), before


EVERY = [
    pytest.param(method, base, marks=pytest.mark.slow if (i + j) % 5 else ())  # two bases of ten are fast
    for i, method in enumerate(METHODS) for j, base in enumerate(TEN)
]  # fmt: skip


@pytest.mark.parametrize(("method", "base"), EVERY)
def test_twenty_steps_equal_the_formula(method, base):
    ours, formula = METHODS[method]
    task, trips = Task(ours, base), 0
    for k in range(LONG):
        d = formula(task.theirs, k)
        trips += same(d, gradient(task.theirs))
        found, before = task.step(d)
        if "share" not in method:  # else it is the loss at x + s
            assert found == pytest.approx(before, rel=1e-12)
    if "tripping" in method:
        assert task.opt.report().tripped == trips
    if "tripping" in method and base == "momentum":
        assert 0 < trips < LONG  # else the case is not the one it says it is


def test_the_rows_of_the_page_on_training_are_the_steps_of_their_papers():
    section = (
        (ROOT / "docs/training.md").read_text("utf-8").partition("## One family")[2].partition("\n## ")[0]
    )
    rows = re.findall(r"^\| ([A-Z-]+)\W.*\| `(.+?)` \|$", section, re.MULTILINE)
    assert [name for name, _ in rows] == list(ROWS)
    kinds = {"CGD": CGD, "EGR": EGR, "SAM": SAM, "MSAM": MSAM} | VALUES
    for name, written in rows:
        make = partial(eval, written, kinds)
        task = Task(lambda base, model, make=make: make({"base": base, "model": model}))
        task.step(ROWS[name](task.theirs))


def test_the_loss_of_a_step_is_that_of_the_whole_batch():
    """NaN in a row that the ascent step does not use shows."""
    task = Task(partial(SAM, rho=0.3, ascent_fraction=1 / 4))
    xs = task.theirs
    g = gradient(xs, 4)
    found, _ = task.step(sam(xs, 0.3, rows=4))
    assert found == pytest.approx(
        loss(moved([p.detach() for p in Task(SAM).theirs], 0.3 / norm(g), g)).item()
    )
    spoilt = torch.where(torch.arange(16)[:, None] == 5, torch.nan, X)
    assert LOOPS["step_on"](task.opt, task.model, spoilt).isnan()
    for loop in ("closure", "passes"):
        task = Task(partial(SAM, ascent_fraction=1 / 4))
        assert LOOPS[loop](task.opt, task.model, spoilt).isnan()


def test_to_first_order_the_step_is_on_the_landscape_of_f_and_its_squared_gradient():
    errors = []
    for r in (1e-3, 1e-4):
        task = Task(lambda base, model, r=r: CGD(SGD(model.parameters(), lr=1.0), model, lam=0.06, r=r))
        LOOPS["step_on"](task.opt, task.model)
        steps = [x.detach() - p.detach() for x, p in zip(task.theirs, task.used, strict=True)]
        errors.append(norm([a - b for a, b in zip(steps, egr(task.theirs, 0.06), strict=True)]))
    assert errors[1] == pytest.approx(errors[0] / 10, rel=0.02)
    assert errors[0] < 0.01 * norm(steps)


WITH_MOMENTUM = ("momentum", "adamw", "adam", "rmsprop", "adamax", "nadam", "radam")


@pytest.mark.parametrize("base", WITH_MOMENTUM)
def test_msam_probes_along_the_momentum(base):
    task = Task(partial(MSAM, rho=0.3), base)
    key = "momentum_buffer" if base in ("momentum", "rmsprop") else "exp_avg"
    for _ in range(LONG):
        xs, v = task.theirs, [task.reference.state[p].get(key) for p in task.theirs]
        task.step(gradient(xs if v[0] is None else moved(xs, -0.3 / norm(v), v)))
    report = task.opt.report()
    assert (report.perturbed, report.gradients, report.length) == (LONG, LONG, pytest.approx(0.3))


@pytest.mark.parametrize("base", BASES)
def test_the_ratio_sets_the_size_of_the_penalty_by_a_running_mean(base):
    task, seen = Task(partial(CGD, ratio=0.3), base), []
    for _ in range(STEPS):
        xs = task.theirs
        g = gradient(xs)
        plus = gradient(moved(xs, 1e-6 * norm(xs) / norm(g), g))
        seen.append(norm([b - a for a, b in zip(g, plus, strict=True)]) / norm(g))
        weights = [0.9**i for i in range(len(seen))]
        mean = sum(w * v for w, v in zip(weights, reversed(seen), strict=True)) / sum(weights)
        task.step(mixed(g, 0.3 / mean, plus), rough=1e-6)  # a difference over 1e-6 has few digits
    state = task.opt.state_dict()
    again = Task(partial(CGD, ratio=0.3), base).opt
    again.load_state_dict(state)
    assert torch.equal(again._means.now()["change"], task.opt._means.now()["change"])


def test_the_direction_of_a_ratio_is_that_of_optax_in_float32():
    """tests/optax/test_formulas.py holds optax's to the same numbers."""
    x, a, m = (torch.tensor(row) for row in (ratio_rule.X, ratio_rule.A, ratio_rule.M))
    model = nn.ParameterList([x.clone()])
    opt = CGD(SGD(model.parameters(), lr=2.0**30), model, ratio=0.3)  # so long that x is lost beside it
    opt.step_on(lambda _: 0.5 * (a * (model[0] - m) ** 2).sum(), torch.zeros(1))
    wanted = torch.tensor(ratio_rule.direction(0.3))
    torch.testing.assert_close((x - model[0].detach()) / 2**30, wanted, rtol=1e-6, atol=0)


def test_where_the_gradient_does_not_change_there_is_no_penalty():
    model = nn.Linear(2, 1, bias=False)
    opt = CGD(SGD(model.parameters(), lr=1.0), model, ratio=0.3)
    before = model.weight.detach().clone()
    opt.step_on(lambda x: model(x).mean(), torch.ones(4, 2))
    torch.testing.assert_close(model.weight.detach(), before - 1)


WHEN = [("SAM, share", range(1, 3)), ("SAM, share", {0, 2}), ("CGD", [3]), ("FGR", [])]


@pytest.mark.parametrize(("method", "when"), WHEN)
def test_only_the_steps_asked_for_have_a_probe(method, when):
    ours, formula = METHODS[method]
    task = Task(partial(ours, when=when))
    for k in range(4):
        task.step(formula(task.theirs, k) if k in when else gradient(task.theirs))
    perturbed = sum(k in when for k in range(4))
    extra = 0.25 if "share" in method else 1
    looked = perturbed + (0 not in when)  # step 0 always makes both passes
    report = task.opt.report()
    assert (report.steps, report.perturbed, report.gradients) == (4, perturbed, 4 + extra * looked)


@pytest.mark.parametrize("lam", [0.0, 0.05])
def test_where_there_is_no_direction_the_step_is_the_base_s(lam):
    kinds = {SAM: {"rho": lam}, CGD: {"lam": lam}}
    for (kind, options), slope in itertools.product(kinds.items(), (0.0, 1.0)):
        model = nn.Linear(2, 1, bias=False)
        nn.init.zeros_(model.weight)
        opt = kind(SGD(model.parameters(), lr=1.0), model, **options)
        opt.step_on(lambda x, model=model, slope=slope: slope * model(x).mean(), torch.ones(4, 2))
        assert torch.equal(model.weight, torch.full((1, 2), -slope)), kind


def test_parameters_that_only_one_pass_reaches():
    """Of a parameter that the pass at x does not reach, g is 0; of one that only it reaches, g⁺ is."""
    for first in (True, False):
        a, b = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(2.0))
        model = nn.ParameterList([a, b])
        opt = CGD(SGD(model.parameters(), lr=1.0), model, lam=0.0125, r=0.1, guard=False)  # ν is a quarter
        for i, _ in enumerate(opt.passes(X)):
            (a * a + b * b if (i == 0) is first else a * a).backward()
        opt.step()
        assert a.item() == pytest.approx(1 - (0.75 * 2 + 0.25 * 2 * (1 + 0.1 * 2)))
        assert b.item() == pytest.approx(2 - (0.75 * 4 if first else 0.25 * 4))


@pytest.mark.parametrize("kind", ["frozen", "tied", "transposed", "groups", "bf16"])
def test_layouts_of_parameters(kind):
    """SAM on a quadratic, where the formula is short: g⁺ = 2(x + ρ·x/‖x‖)."""
    torch.manual_seed(0)
    x, y = nn.Parameter(torch.randn(3, 2)), nn.Parameter(torch.randn(2))
    model = nn.ParameterList([x, y, *[y] * (kind == "tied")])
    if kind == "transposed":
        x.data = torch.randn(2, 3).T
    x.requires_grad_(kind != "frozen")
    if kind == "bf16":
        model.bfloat16()
    groups = [{"params": [x]}, {"params": [y], "lr": 0.05}] if kind == "groups" else model.parameters()
    opt = SAM(SGD(groups, lr=0.1), model, rho=0.5)
    before = [x.detach().clone().float(), y.detach().clone().float()]
    n = norm(before[1:] if kind == "frozen" else before)
    opt.step_on(lambda: sum((p.float().square().sum() for p in (x, y)), torch.zeros(())))
    assert opt.report().length == pytest.approx(0.5, rel=1e-2)
    rough = {"rtol": 2e-2, "atol": 1e-2} if kind == "bf16" else {"rtol": 1e-5, "atol": 1e-6}
    for p, old, lr in zip((x, y), before, (0.1, 0.05 if kind == "groups" else 0.1), strict=True):
        expected = old - lr * 2 * (old + 0.5 * old / n) if p.requires_grad else old
        torch.testing.assert_close(p.detach().float(), expected, **rough)


def test_norms_of_low_precision_are_taken_in_single():
    v = torch.randn(400, generator=torch.Generator().manual_seed(0)).bfloat16()
    model = nn.ParameterList([nn.Parameter(torch.zeros(400, dtype=torch.bfloat16))])
    opt = CGD(SGD(model.parameters(), lr=0.1), model, lam=0.1, r=0.5)
    opt.step_on(lambda: (model[0] * v).sum())
    assert opt.report().length == pytest.approx(0.5 * norm([v]), rel=1e-5)
