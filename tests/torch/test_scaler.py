"""A GradScaler: the scale is taken out before the probe, and its verdict is heard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import SGD, AdamW, Optimizer

from steepen.torch import CGD

torch.set_num_threads(1)  # the networks are tiny

X, Y = torch.randn(2, 16, 4, generator=torch.Generator().manual_seed(5))
FORMS = ["closure", "probe"]
BASES: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: SGD(p, lr=0.1, momentum=0.9),
    "sgd-fused": lambda p: SGD(p, lr=0.1, momentum=0.9, fused=True),
    "adamw": lambda p: AdamW(p, lr=0.01, foreach=True),
    "adamw-fused": lambda p: AdamW(p, lr=0.01, fused=True),
}

pytestmark = pytest.mark.filterwarnings(
    "ignore:Using backward.. with create_graph=True"  # what the exact mode asks for
)


class Run:
    """A float32 network, its optimizer and a scaler of the given scale; None for no scaler."""

    def __init__(self, scale: float | None = 2.0**10, base: str = "sgd", **options: Any) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4))
        self.opt = CGD(BASES[base](self.model.parameters()), **({"lam": 0.05} | options))
        self.scaler = None if scale is None else GradScaler("cpu", init_scale=scale, growth_interval=1000)
        self.factor: Callable[[int], float] = lambda pass_: 1.0  # what the loss of each pass is multiplied by
        self.passes = 0

    def backward(self) -> Tensor:
        loss = (self.model(X) - Y).square().mean()
        scaled = (loss if self.scaler is None else self.scaler.scale(loss)) * self.factor(self.passes)
        scaled.backward(create_graph=self.opt.exact)
        self.passes += 1
        return loss.detach()

    def step(self, form: str = "closure") -> None:
        self.passes = 0
        if form == "closure":
            self.opt.step(lambda: (self.opt.zero_grad(), self.backward())[1], scaler=self.scaler)
        else:
            self.opt.zero_grad()
            self.backward()
            if not self.opt.exact and self.opt.probe(scaler=self.scaler):
                self.backward()
            self.opt.step(scaler=self.scaler)
        if self.scaler is not None:
            self.scaler.update()

    def weights(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.model.parameters()]


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


OPTIONS: dict[str, dict[str, Any]] = {
    "lam": {},
    "sam": {"lam": None, "nu": 1.0, "rho": 0.05},
    "off": {"from_": 9},
    "clipped": {"max_norm": 0.05},
    "off, clipped": {"from_": 9, "max_norm": 0.05},
    "exact": {"mode": "exact"},
    "exact, clipped": {"mode": "exact", "max_norm": 0.05},
    "asam": {"lam": None, "nu": 1.0, "rho": 0.5, "eta": 0.01},
    "every other": {"every": 2},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("base", BASES)
def test_the_step_does_not_depend_on_the_scale(base: str, options: str, form: str) -> None:
    plain = Run(None, base, **OPTIONS[options])
    runs = [Run(2.0**k, base, **OPTIONS[options]) for k in (0, 10, -6)]
    for _ in range(3):
        for run in (plain, *runs):
            run.step(form)
    for run in runs:
        assert same(plain.weights(), run.weights())  # powers of two: to the bit
        assert run.opt.k == 3


@pytest.mark.parametrize("form", FORMS)
def test_nor_on_one_that_is_no_power_of_two_but_by_rounding(form: str) -> None:
    plain, scaled = Run(None), Run(1000.1)
    for _ in range(5):
        plain.step(form)
        scaled.step(form)
    torch.testing.assert_close(scaled.weights(), plain.weights(), rtol=1e-5, atol=1e-6)


def test_a_scaler_turned_off_is_none() -> None:
    plain, off = Run(None), Run()
    off.scaler = GradScaler("cpu", enabled=False)
    for form in FORMS:
        plain.step(form)
        off.step(form)
    assert same(plain.weights(), off.weights())


def test_the_loss_is_that_of_the_closure() -> None:
    run = Run()
    loss = run.opt.step(run.backward, scaler=run.scaler)
    assert loss == (Run().model(X) - Y).square().mean()


# --- overflow --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("base", BASES)
def test_an_overflow_of_the_first_pass_skips_the_step_and_halves_the_scale(
    base: str, options: str, form: str
) -> None:
    run, calm = Run(base=base, **OPTIONS[options]), Run(base=base, **OPTIONS[options])
    run.step(form)
    calm.step(form)
    before = run.weights()
    run.factor = lambda pass_: torch.inf if pass_ == 0 else 1.0
    run.step(form)
    assert same(before, run.weights())
    assert run.scaler.get_scale() == 2.0**9
    assert run.opt.k == 2
    run.factor = lambda pass_: 1.0
    calm.opt.k = 2  # one step later, as where the other has skipped one
    for each in (run, calm):
        each.step(form)
    assert same(run.weights(), calm.weights())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("on_guard", ["fallback", "stop", "off"])
@pytest.mark.parametrize("base", BASES)
def test_an_overflow_of_the_second_pass_alone_leads_to_the_step_of_the_base(
    base: str, on_guard: str, form: str
) -> None:
    run, plain = Run(base=base, on_guard=on_guard, patience=2), Run(None, base, from_=9)
    run.factor = lambda pass_: torch.inf if pass_ == 1 else 1.0
    run.step(form)
    plain.step(form)
    assert same(run.weights(), plain.weights())
    assert run.scaler.get_scale() == 2.0**10


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mode", ["difference", "exact"])
def test_a_skipped_step_is_no_trip_of_the_guard(mode: str, form: str) -> None:
    run = Run(mode=mode, on_guard="stop", patience=1)
    run.factor = lambda pass_: torch.inf  # as in the first steps of any run, while the scale is too large
    run.step(form)
    assert run.opt.active


# --- what a user may do wrong ----------------------------------------------------------------------


@pytest.mark.parametrize("options", ["lam", "off", "clipped", "off, clipped", "exact"])
@pytest.mark.parametrize("form", FORMS)
def test_a_scale_taken_out_already_is_refused(form: str, options: str) -> None:
    run = Run(**OPTIONS[options])
    before, backward = run.weights(), run.backward

    def unscaled() -> Tensor:
        loss = backward()
        if run.passes == 1:
            run.scaler.unscale_(run.opt)
        return loss

    run.backward = unscaled
    with pytest.raises(
        RuntimeError, match=r"scaler.unscale_\(\) has been called on this optimizer: leave that"
    ):
        run.step(form)
    assert same(before, run.weights())


def by_scaler(run: Run) -> None:
    """Step as one steps any other optimizer."""
    run.opt.probe(scaler=run.scaler)
    run.backward()
    run.scaler.step(run.opt)


def all_by_scaler(run: Run) -> None:
    run.scaler.unscale_(run.opt)
    run.opt.probe()
    run.backward()
    run.scaler.step(run.opt)


def probe_without(run: Run) -> None:
    run.opt.probe()
    run.backward()
    run.opt.step(scaler=run.scaler)


def step_without(run: Run) -> None:
    run.opt.probe(scaler=run.scaler)
    run.backward()
    run.opt.step()


@pytest.mark.parametrize("factor", [1.0, torch.inf], ids=["finite", "overflow"])
@pytest.mark.parametrize("finish", [by_scaler, all_by_scaler, probe_without, step_without])
def test_a_scaler_half_used_is_refused_or_does_what_it_should(
    finish: Callable[[Run], None], factor: float
) -> None:
    run, right = Run(), Run()
    for each in (run, right):
        each.factor = lambda pass_: factor
    before = run.weights()
    right.step("probe")
    run.opt.zero_grad()
    run.backward()
    message = ""
    try:
        finish(run)
    except RuntimeError as error:
        message = str(error)
        run.opt.restore()
    if message:
        assert "scaler" in message
        assert same(before, run.weights())
    else:
        run.opt.zero_grad()  # puts back what a step that was left out did not
        assert same(right.weights(), run.weights())


def test_while_off_the_scaler_may_step_it_as_any_optimizer() -> None:
    run, plain = Run(from_=9), Run(None, from_=9)
    for _ in range(2):
        run.opt.zero_grad()
        run.backward()
        run.scaler.step(run.opt)
        run.scaler.update()
        plain.step()
    assert same(run.weights(), plain.weights())
    assert run.opt.k == 2
