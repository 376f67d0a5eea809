"""The strength that sets itself: the controller alone, and in a step against a literal transcription."""

from __future__ import annotations

import copy
import io
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import SGD, AdamW

from steepen import schedules
from steepen.torch import CGD, MSAM, SAM, ByGap, Probe
from steepen.torch._auto import steered

torch.set_num_threads(1)  # the networks are tiny

X, Y = torch.randn(2, 32, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
FORMS = ["part", "step_on", "loop"]


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = (nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 4))
    return nn.Sequential(*layers).double()


def sgd(model: nn.Module) -> SGD:
    return SGD(model.parameters(), lr=0.1, momentum=0.9)


def mse(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return (model(x) - y).square().mean()


def take(model: nn.Module, opt: CGD, form: str = "step_on", scaler: Any = None, parts: int = 1) -> Any:
    """Take a step in one of the three styles."""

    def backward(cut: Callable[[Any], Any]) -> Tensor:
        losses: list[Tensor] = []
        for batch in zip(X.chunk(parts), Y.chunk(parts), strict=True):
            loss = mse(model, *cut(batch)) / parts
            (loss if scaler is None else scaler.scale(loss)).backward()
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def closure() -> Tensor:
        opt.zero_grad()
        return backward(opt.part)

    if form == "step_on":
        return opt.step_on(lambda x, y: mse(model, x, y), X, Y, scaler=scaler)
    if form == "part":
        return opt.step(closure, scaler=scaler)
    opt.zero_grad()
    loss = backward(opt.part)
    if opt.probe(scaler=scaler):
        backward(lambda batch: batch)
    opt.step(scaler=scaler)
    return loss


# --- the controller alone --------------------------------------------------------------------------


def simulate(
    rise: Callable[[float], float], target: float, steps: int, noise: float = 0.0
) -> tuple[list[float], float]:
    """Steer a length on a curve of rises; return the lengths, and the last running mean."""
    gain, mean = torch.tensor(1.0, dtype=torch.float64), torch.tensor(math.nan, dtype=torch.float64)
    generator, gains = torch.Generator().manual_seed(0), []
    for _ in range(steps):
        seen = rise(gain.item()) + noise * torch.randn((), generator=generator, dtype=torch.float64)
        gain, mean = steered(gain, mean, seen, torch.tensor(target, dtype=torch.float64))
        gains.append(gain.item())
    return gains, mean.item()


CURVES: dict[str, tuple[Callable[[float], float], float]] = {  # and the length at which the rise is 0.1
    "quadratic": (lambda c: 0.001 * c * c, 10.0),
    "short": (lambda c: 40 * c * c, 0.05),
    "linear": (lambda c: 0.02 * c, 5.0),
    "a slope and a curvature": (lambda c: 0.01 * c + 0.01 * c * c, (math.sqrt(41) - 1) / 2),
}


@pytest.mark.parametrize("name", CURVES)
def test_the_steering_finds_the_length_of_a_known_rise(name: str) -> None:
    rise, expected = CURVES[name]
    gains, mean = simulate(rise, 0.1, 1500)
    assert gains[-1] == pytest.approx(expected, rel=1e-3)
    assert mean == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize("name", CURVES)
def test_the_length_is_calm_under_noise_as_large_as_the_rise(name: str) -> None:
    rise, expected = CURVES[name]
    gains, _ = simulate(rise, 0.1, 4000, noise=0.1)
    settled = torch.tensor(gains[1000:]) / expected
    assert settled.log().std() < 0.15
    assert settled.log().mean().abs() < 0.1


FINITE = st.floats(-1e6, 1e6)


@given(gain=st.floats(1e-3, 1e3), mean=FINITE | st.just(math.nan), rise=FINITE, target=st.floats(1e-3, 1e3))
def test_the_length_goes_towards_the_target_by_two_per_cent_at_most(
    gain: float, mean: float, rise: float, target: float
) -> None:
    numbers = (torch.tensor(one, dtype=torch.float64) for one in (gain, mean, rise, target))
    new, seen = (one.item() for one in steered(*numbers))
    assert abs(math.log(new / gain)) <= 0.02 * (1 + 1e-9)
    assert (new >= gain) == (seen <= target) or new == gain
    low, high = sorted((rise, rise if math.isnan(mean) else mean))
    assert low - 1e-9 * abs(low) <= seen <= high + 1e-9 * abs(high)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("before", [0.05, math.nan])
def test_a_rise_that_is_not_finite_changes_nothing(bad: float, before: float) -> None:
    gain, mean = steered(*map(torch.tensor, (2.0, before, bad, 0.1)))
    assert gain == 2
    torch.testing.assert_close(mean, torch.tensor(before), equal_nan=True)


def test_a_negative_rise_makes_the_probe_longer() -> None:
    gain, _ = steered(*map(torch.tensor, (1.0, math.nan, -3.0, 0.1)))
    assert gain == pytest.approx(math.exp(0.02))


# --- in a step -------------------------------------------------------------------------------------


class Literal:
    """The rule as it is written, with floats, on the steps of a bare optimizer."""

    def __init__(self, share: float, part: Callable[[int], float]) -> None:
        self.model = network()
        self.base = sgd(self.model)
        self.share, self.part = share, part
        self.gap = self.loss = self.rise = math.nan
        self.heard: list[tuple[int, float]] = []
        self.length, self.k = 1e-3, 0

    def report(self, held_out: float) -> None:
        new = held_out - self.loss
        self.gap = new if math.isnan(self.gap) else 0.7 * self.gap + 0.3 * new
        self.heard.append((self.k + 2, self.gap))

    @property
    def target(self) -> float:
        due = [gap for at, gap in self.heard if at <= self.k]
        return self.part(self.k) * due[-1] if due else 0.0

    def step(self, parts: int = 1) -> bool:
        params, target = list(self.model.parameters()), self.target
        batches = list(zip(X.chunk(parts), Y.chunk(parts), strict=True))
        small = [
            (x[: round(self.share * len(x))], y[: round(self.share * len(y))]) if target >= 0.02 else (x, y)
            for x, y in batches
        ]
        buffers, state = [b.clone() for b in self.model.buffers()], torch.get_rng_state()
        loss = sum(mse(self.model, *batch) / parts for batch in small)
        d = torch.autograd.grad(loss, params)
        self.loss = loss.item() if math.isnan(self.loss) else 0.97 * self.loss + 0.03 * loss.item()
        if target >= 0.02:
            for buffer, old in zip(self.model.buffers(), buffers, strict=True):
                buffer.copy_(old)
            torch.set_rng_state(state)
            old = [p.detach().clone() for p in params]
            size, n = (torch.cat([t.flatten() for t in ts]).norm() for ts in (old, d))
            s = [self.length * size / n * g for g in d]
            with torch.no_grad():
                for p, move in zip(params, s, strict=True):
                    p.add_(move)
            d = torch.autograd.grad(sum(mse(self.model, *batch) / parts for batch in batches), params)
            with torch.no_grad():
                for p, before in zip(params, old, strict=True):
                    p.copy_(before)
            rise = sum((a * b).sum().item() for a, b in zip(s, d, strict=True)) / 2
            self.rise = rise if math.isnan(self.rise) else 0.97 * self.rise + 0.03 * rise
            move = max(-1.0, min(1.0, (target - self.rise) / target))
            self.length = min(self.length * math.exp(0.02 * move), 0.1)
        for p, slope in zip(params, d, strict=True):
            p.grad = slope
        self.base.step()
        self.k += 1
        return target >= 0.02


def same(one: nn.Module, two: nn.Module) -> None:
    for (name, a), b in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("scale", [None, 2.0**10])
@pytest.mark.parametrize("form", FORMS)
def test_the_step_is_the_rule_as_it_is_written(form: str, scale: float | None, parts: int) -> None:
    if form == "step_on" and parts == 2:
        pytest.skip("step_on takes one batch")
    theirs, model = Literal(1 / 4, lambda k: 1 / 3), network()
    opt = CGD(sgd(model), share=1 / 4, model=model)
    scaler = None if scale is None else GradScaler("cpu", init_scale=scale)
    active: list[bool] = []
    for k in range(60):
        torch.manual_seed(k)
        active.append(opt.active)
        loss = take(model, opt, form, scaler, parts)
        if scaler is not None:
            scaler.update()
        torch.manual_seed(k)
        assert theirs.step(parts) == active[-1]
        if k % 5 == 4:
            held_out = 1.1 + math.sin(k)  # so that it goes on and off
            theirs.report(held_out)
            if form == "loop":
                opt.report(torch.tensor(held_out), theirs.loss)
            else:
                opt.report(held_out)
        assert loss.isfinite()
    same(model, theirs.model)
    assert 10 < sum(active) < 50
    assert opt.rise.item() == pytest.approx(theirs.rise, rel=1e-4)
    assert opt.gap == pytest.approx([gap for at, gap in theirs.heard if at <= 59][-1], abs=1e-6)


def test_with_the_number_of_steps_the_part_rises_from_zero_to_a_half() -> None:
    theirs, model = Literal(1 / 4, lambda k: 0.5 * k / 39), network()
    opt = CGD(sgd(model), share=1 / 4, steps=40, model=model)
    active: list[bool] = []
    for k in range(45):  # it may go on for longer
        torch.manual_seed(k)
        active.append(opt.active)
        take(model, opt)
        torch.manual_seed(k)
        theirs.part = lambda k: 0.5 * min(k / 39, 1)
        theirs.step()
        if k == 1:
            theirs.report(theirs.loss + 0.4)
            opt.report(theirs.loss + 0.4, theirs.loss)
    same(model, theirs.model)
    assert active == [k >= 4 for k in range(45)]  # 0.5·4/39·0.4 is above the floor of 0.02


@pytest.mark.parametrize("part", [0.6, schedules.Piecewise([0.6, 0.2], [20]), lambda k: 0.6 - k / 100])
def test_the_part_is_a_number_a_schedule_or_a_function(part: Any) -> None:
    at = part if callable(part) else lambda k: part
    theirs, model = Literal(1 / 4, at), network()
    opt = CGD(sgd(model), strength=ByGap(part=part), share=1 / 4, model=model)
    for k in range(40):
        torch.manual_seed(k)
        take(model, opt)
        torch.manual_seed(k)
        theirs.step()
        if k == 1:
            theirs.report(theirs.loss + 0.4)
            opt.report(theirs.loss + 0.4, theirs.loss)
    same(model, theirs.model)


def test_without_a_gap_it_is_the_base() -> None:
    one, two = network(), network()
    opt, base = CGD(sgd(one), gauge=lambda: 0.0, strength=ByGap(every=3), model=one), sgd(two)
    for k in range(20):
        torch.manual_seed(k)
        take(one, opt)
        torch.manual_seed(k)
        base.zero_grad()
        mse(two, X, Y).backward()
        base.step()
        assert not opt.active
    assert all(
        torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True)
    )
    assert opt.gap < 0


def test_the_floor_is_the_least_rise_that_is_worth_a_probe() -> None:
    for floor, expected in ((0.12, True), (0.13, False), (0.0, True)):
        model = network()
        opt = CGD(sgd(model), strength=ByGap(part=0.25, floor=floor), share=1 / 4, model=model)
        opt.report(1.5, 1.0)
        for _ in range(2):
            assert not opt.active  # it takes two steps to be heard
            take(model, opt)
        assert opt.active == expected


def test_the_probe_is_no_longer_than_probe_max() -> None:
    model = network()
    opt = CGD(sgd(model), share=1 / 4, probe_max=0.002, model=model)
    opt.report(1e6, 0.0)
    for _ in range(100):
        size = torch.cat([p.detach().flatten() for p in model.parameters()]).norm().item()
        take(model, opt)
    assert opt.diagnostics.read()["probe_norm"] == pytest.approx(0.002 * size, rel=1e-6)
    opt.report(-1e9, 0.0)
    for _ in range(3):
        take(model, opt)
    assert not opt.active


def test_a_group_of_length_zero_is_left_out() -> None:
    model = network()
    body = [*model[0].parameters(), *model[1].parameters()]
    groups = [{"params": body}, {"params": model[4].parameters(), "probe": 0.0}]
    opt = CGD(SGD(groups, lr=0.1), share=1 / 4, model=model)
    opt.report(2.0, 0.0)
    take(model, opt)
    take(model, opt)
    opt.zero_grad()
    mse(model, *opt.part((X, Y))).backward()
    before = [p.detach().clone() for p in model.parameters()]
    assert opt.probe()
    moved = [not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True)]
    assert moved == [True, True, True, False, False]


def test_an_overflow_of_a_pass_leaves_the_rule_as_it_was() -> None:
    model = network()
    opt = CGD(sgd(model), share=1 / 4, model=model)
    scaler = GradScaler("cpu", init_scale=8.0)
    opt.report(2.0, 0.0)
    for _ in range(5):
        take(model, opt, scaler=scaler)
        scaler.update()
    before = opt.state_dict()["param_groups"][0]["cgd"]["steering"][:2]
    handle = model[4].bias.register_hook(lambda grad: grad * torch.inf)
    take(model, opt, scaler=scaler)
    handle.remove()
    assert torch.equal(opt.state_dict()["param_groups"][0]["cgd"]["steering"][:2], before)
    scaler.update()
    take(model, opt, scaler=scaler)
    assert all(p.isfinite().all() for p in model.parameters())


# --- the gauge and reports -------------------------------------------------------------------------


def test_the_gauge_is_read_after_every_so_many_steps_in_eval_mode_without_gradients() -> None:
    model, calls = network(), []
    model[1].eval()  # a module that its owner has frozen

    def gauge() -> Tensor:
        calls.append((opt.k, torch.is_grad_enabled(), [m.training for m in model.modules()]))
        return mse(model, X, Y)

    opt = CGD(sgd(model), gauge=gauge, strength=ByGap(every=4), model=model)
    for _ in range(13):
        take(model, opt)
        assert [m.training for m in model.modules()] == [True, True, False, True, True, True]
    assert calls == [(k, False, [False] * 6) for k in (4, 8, 12)]


def test_a_gauge_that_raises_leaves_the_modes_as_they_were() -> None:
    model = network()

    def gauge() -> Tensor:
        raise KeyError("mine")

    opt = CGD(sgd(model), gauge=gauge, strength=ByGap(every=1), model=model)
    with pytest.raises(KeyError, match="mine"):
        take(model, opt)
    assert all(m.training for m in model.modules())


def test_a_report_that_is_not_finite_is_passed_over() -> None:
    model = network()
    opt = CGD(sgd(model), share=1 / 4, model=model)
    opt.report(1.5, 1.0)
    for bad in (math.nan, math.inf):
        opt.report(bad, 1.0)
    for _ in range(3):
        take(model, opt)
    assert opt.gap == 0.5


def test_reports_of_every_step_are_heard() -> None:
    model = network()
    opt = CGD(sgd(model), share=1 / 4, model=model)
    for _ in range(6):
        take(model, opt)
        opt.report(1.5, 1.0)
    assert opt.gap == 0.5


def test_a_loss_that_is_not_finite_is_left_out_of_the_mean() -> None:
    model = network()
    opt = CGD(sgd(model), model=model)
    for loss in (1.0, math.nan, math.inf, 1.0):
        opt.step(lambda loss=loss: loss)
    opt.report(1.5)
    for _ in range(3):
        opt.step(lambda: 1.0)
    assert opt.gap == pytest.approx(0.5)


def test_silence_is_warned_of_once() -> None:
    p = nn.Parameter(torch.ones(2))
    opt = CGD(SGD([p], lr=0.1))

    def go(steps: int) -> None:
        for _ in range(steps):
            p.grad = torch.zeros(2)
            opt.step()

    go(1999)
    with pytest.warns(UserWarning, match="no loss on held-out data in 2000 steps"):
        go(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        go(10)


# --- kept ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "at", [7, 9, 10, 11, 12, 15]
)  # before, at and after a report, heard and not yet heard
@pytest.mark.parametrize("way", ["file", "deepcopy"])
def test_a_run_resumed_is_the_run_unbroken(at: int, way: str) -> None:
    def start() -> tuple[nn.Module, CGD]:
        model = network()
        return model, CGD(AdamW(model.parameters(), lr=0.01), share=1 / 4, steps=30, model=model)

    def go(model: nn.Module, opt: CGD, until: int) -> None:
        while opt.k < until:
            torch.manual_seed(opt.k)
            take(model, opt)
            if opt.k % 5 == 0:
                opt.report(2.0)

    model, opt = start()
    go(model, opt, at)
    if way == "file":
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
        file.seek(0)
        kept = torch.load(file, weights_only=True)
        other, again = start()
        other.load_state_dict(kept["model"])
        again.load_state_dict(kept["opt"])
    else:
        other, again = copy.deepcopy((model, opt))
    go(model, opt, 30)
    go(other, again, 30)
    assert opt.diagnostics is not None
    assert opt.gap == again.gap
    for one, two in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(one, two)


def test_the_state_of_a_run_of_another_kind_is_refused() -> None:
    model = network()
    plain, opt = CGD(sgd(model), probe=0.01, nu=1.0, share=1 / 4), CGD(sgd(model), share=1 / 4)
    with pytest.raises(ValueError, match="expected key 'auto', as here; got 'probe'"):
        opt.load_state_dict(plain.state_dict())
    with pytest.raises(ValueError, match="expected key 'probe', as here; got 'auto'"):
        plain.load_state_dict(opt.state_dict())


# --- what is said, and refused ---------------------------------------------------------------------


def test_the_default_is_the_rule_with_a_sixteenth_of_the_batch() -> None:
    for options in ({}, {"strength": "auto"}, {"strength": ByGap()}, {"probe": Probe(share=1 / 16)}):
        model = network()
        opt = CGD(sgd(model), **options, model=model)
        opt.report(2.0, 0.0)
        opt.step(lambda: None)
        opt.step(lambda: None)
        assert opt.share == 1 / 16


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "share": ({"share": 1.0}, "^share: strength='auto' takes the probe from a part of the batch"),
    "probe's share": ({"probe": Probe()}, "^share: strength='auto' takes"),
    "lam": ({"lam": 0.1, "strength": "auto"}, "^lam: strength='auto' sets the probe by itself"),
    "nu": ({"nu": 1.0, "strength": "auto"}, "^nu: strength='auto'"),
    "rho": ({"rho": 0.1, "strength": ByGap()}, r"^rho: strength=ByGap\("),
    "probe": ({"probe": 0.1, "strength": "auto"}, "^probe: strength='auto'"),
    "momentum": ({"probe": "momentum", "strength": "auto"}, "^probe: strength='auto'"),
    "exact": ({"mode": "exact", "strength": "auto"}, "^mode: strength='auto'"),
    "gauge": ({"lam": 0.1, "gauge": lambda: 0.0}, "^gauge: it is read where strength='auto'"),
    "no gauge": ({"gauge": 0.3}, "^gauge: expected a callable"),
    "strength": ({"strength": 0.3}, "^strength: expected 'auto' or a ByGap, got 0.3"),
    "part": ({"strength": ByGap(part=-0.1)}, "^part: expected a positive number"),
    "ramp": ({"strength": ByGap(part=schedules.L(0, 1))}, "^part: .*steps="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_go_with_the_rule_is_refused_by_name(name: str) -> None:
    options, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        CGD(sgd(network()), **options)


@pytest.mark.parametrize(("name", "value"), [("floor", -1), ("floor", "x"), ("every", 0)])
def test_options_of_the_rule_are_checked(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{name}: "):
        ByGap(**{name: value})


def test_reports_that_cannot_be_used_are_refused() -> None:
    model = network()
    opt = CGD(sgd(model), share=1 / 4, model=model)
    with pytest.raises(ValueError, match=r"^training: expected the mean loss on training data"):
        opt.report(1.0)
    for bad in ("0.3", None, torch.ones(2), [1.0]):
        with pytest.raises(TypeError, match=r"^held_out: expected a mean loss"):
            opt.report(bad, 1.0)
    with pytest.raises(TypeError, match=r"^training: expected a mean loss"):
        opt.report(1.0, "0.3")
    for other in (SAM(sgd(model), 0.1), MSAM(sgd(model), 0.1), CGD(sgd(model), lam=0.1)):
        with pytest.raises(RuntimeError, match="only strength='auto' makes use of it"):
            other.report(1.0)
        assert math.isnan(other.gap)
    opt.report(2.0, 1.0)
    take(model, opt)
    take(model, opt)
    opt.zero_grad()
    mse(model, *opt.part((X, Y))).backward()
    opt.probe()
    with pytest.raises(RuntimeError, match=r"report\(\) between probe\(\) and step\(\)"):
        opt.report(1.0)


def test_a_closure_that_returns_no_loss_must_report_one() -> None:
    model = network()
    opt = CGD(sgd(model), share=1 / 4, model=model)

    def closure() -> None:
        opt.zero_grad()
        mse(model, *opt.part((X, Y))).backward()

    opt.step(closure)
    with pytest.raises(ValueError, match="as no closure has returned one"):
        opt.report(1.0)
    opt.report(1.0, 0.5)


def test_gap_and_rise_are_logged() -> None:
    class Lines(dict[str, float]):
        def add_scalar(self, tag: str, value: float, step: int) -> None:
            self[tag] = value

    model, lines = network(), Lines()
    opt = CGD(sgd(model), share=1 / 4, model=model)
    opt.report(2.0, 1.0)
    for _ in range(3):
        take(model, opt)
    opt.log(lines)
    assert (lines["cgd/gap"], lines["cgd/rise"]) == (1.0, opt.rise.item())
    assert lines["cgd/probe_norm"] > 0
