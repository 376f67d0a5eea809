"""A probe along the momentum: one gradient a step, at x − ρ·v/‖v‖, where nobody else sees the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import SGD, Adagrad, AdamW, Optimizer

from steepen.torch import CGD, MSAM

torch.set_num_threads(1)  # the networks are tiny

X, Y = torch.randn(2, 16, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
BASES: dict[str, tuple[Callable[[Any], Optimizer], str]] = {
    "sgd": (lambda p: SGD(p, lr=0.1, momentum=0.9), "momentum_buffer"),
    "nesterov": (lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=True), "momentum_buffer"),
    "adamw": (lambda p: AdamW(p, lr=0.01), "exp_avg"),
    "adamw-fused": (lambda p: AdamW(p, lr=0.01, fused=True), "exp_avg"),
}
FORMS = ["plain", "plain, cleared after the forward", "closure", "probe", "parts", "scaler"]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = (nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.3), nn.Linear(6, 4))
    return nn.Sequential(*layers).double()


def mse(model: nn.Module, x: Tensor = X, y: Tensor = Y) -> Tensor:
    return (model(x) - y).square().mean()


def ours(model: nn.Module, opt: CGD, form: str) -> None:
    if form == "closure":
        opt.step(lambda: (opt.zero_grad(), mse(model).backward()))
        return
    if form == "scaler":
        scaler = GradScaler("cpu", init_scale=1024.0)
        opt.zero_grad()
        scaler.scale(mse(model)).backward()
        scaler.step(opt)
        return
    if form == "plain, cleared after the forward":
        loss = mse(model)
        opt.zero_grad()
        loss.backward()
    else:
        opt.zero_grad()
        if form == "probe":
            assert opt.probe() == opt.active
        for x, y in zip(X.chunk(2), Y.chunk(2), strict=True) if form == "parts" else [(X, Y)]:
            (mse(model, x, y) / (2 if form == "parts" else 1)).backward()
    opt.step()


def literal(model: nn.Module, base: Optimizer, name: str, rho: float, form: str) -> None:
    """As published: away along the buffer, the gradient there, back, and the base's step."""
    params, x0 = list(model.parameters()), [p.detach().clone() for p in model.parameters()]
    buffers = [base.state[p][name] for p in params if name in base.state[p]]
    if buffers:
        n = torch.cat([v.flatten() for v in buffers]).norm()
        with torch.no_grad():
            for p, v in zip(params, buffers, strict=True):
                p.sub_(rho * v / n)
    base.zero_grad()
    for x, y in zip(X.chunk(2), Y.chunk(2), strict=True) if form == "parts" else [(X, Y)]:
        (mse(model, x, y) / (2 if form == "parts" else 1)).backward()
    with torch.no_grad():
        for p, x in zip(params, x0, strict=True):
            p.copy_(x)
    base.step()


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("form", FORMS)
def test_msam_equals_the_published_formula_in_every_loop(form: str, base: str) -> None:
    make, name = BASES[base]
    model, other = network(), network()
    opt, theirs = MSAM(make(model.parameters()), rho=0.3, model=model), make(other.parameters())
    for k in range(5):
        torch.manual_seed(k)
        ours(model, opt, form)
        torch.manual_seed(k)
        literal(other, theirs, name, 0.3, form)
        torch.testing.assert_close(model.state_dict(), other.state_dict(), rtol=1e-9, atol=1e-11)
    assert opt.k == 5
    assert opt.diagnostics.read()["probe_norm"] == pytest.approx(0.3)


def weights(model: nn.Module) -> list[Tensor]:
    return [p.detach().clone() for p in model.parameters()]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def trained() -> tuple[nn.Module, CGD]:
    model = network()
    opt = MSAM(SGD(model.parameters(), lr=0.1, momentum=0.9), rho=0.3, model=model)
    for _ in range(2):
        ours(model, opt, "plain")
    return model, opt


def evaluate(model: nn.Module, opt: CGD) -> None:
    model.eval()
    with torch.no_grad():
        mse(model)


def save(model: nn.Module, opt: CGD) -> None:
    model.state_dict()


def restore(model: nn.Module, opt: CGD) -> None:
    opt.restore()


@pytest.mark.parametrize("look", [evaluate, save, restore])
def test_who_evaluates_or_saves_sees_the_weights_themselves(look: Callable[..., None]) -> None:
    model, opt = trained()
    before = weights(model)
    mse(model)  # a training pass whose step never comes
    assert not same(before, weights(model))
    look(model, opt)
    assert same(before, weights(model))
    model.train()
    mse(model).backward()
    opt.step()
    assert opt.k == 3


def test_between_steps_the_weights_are_where_the_base_left_them() -> None:
    model, opt = trained()
    before = weights(model)
    evaluate(model, opt)
    assert same(before, weights(model))


def test_a_step_that_a_scaler_leaves_out_moves_nothing() -> None:
    model, opt = trained()
    before, scaler = weights(model), GradScaler("cpu", init_scale=4.0)
    opt.zero_grad()
    (scaler.scale(mse(model)) * torch.inf).backward()
    scaler.step(opt)
    scaler.update()
    evaluate(model, opt)
    assert same(before, weights(model))
    assert scaler.get_scale() == 2.0


def test_the_warm_up_and_the_first_step_are_the_bases_own() -> None:
    model = network()
    opt = MSAM(SGD(model.parameters(), lr=0.1, momentum=0.9), rho=0.3, warmup=3, model=model)
    active: list[bool] = []
    for _ in range(5):
        active.append(opt.active)
        ours(model, opt, "plain")
    assert active == [False, False, False, True, True]
    fresh = MSAM(SGD(network().parameters(), lr=0.1, momentum=0.9))
    assert not fresh.active


def test_without_the_network_a_plain_loop_is_refused() -> None:
    model = network()
    opt = MSAM(SGD(model.parameters(), lr=0.1, momentum=0.9), rho=0.3)
    ours(model, opt, "plain")
    with pytest.raises(RuntimeError, match=r"pass a closure, or call probe\(\) before the pass"):
        ours(model, opt, "plain")


def test_bases_without_momentum_are_refused() -> None:
    p = nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match=r"^base: probe='momentum' needs a base with momentum, got SGD"):
        MSAM(SGD([p], lr=0.1))
    opt = MSAM(Adagrad([p], lr=0.1))
    with pytest.raises(ValueError, match=r"^base: probe='momentum' finds no momentum buffer in Adagrad"):
        opt.step(lambda: p.square().sum().backward())


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"share": 0.5}, "share"),
        ({"eta": 0.1}, "eta"),
        ({"nu": 0.5}, "nu"),
        ({"on_guard": "stop"}, "on_guard"),
    ],
)
def test_what_does_not_go_with_it(options: dict[str, Any], name: str) -> None:
    base = SGD([nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9)
    with pytest.raises(ValueError, match=f"^{name}: "):
        CGD(base, **({"rho": 0.1, "probe": "momentum"} | options))


def test_an_exception_in_the_closure_puts_the_weights_back() -> None:
    model, opt = trained()
    before = weights(model)

    def closure() -> None:
        opt.zero_grad()
        mse(model).backward()
        raise ValueError("told to")

    with pytest.raises(ValueError, match="told to"):
        opt.step(closure)
    assert same(before, weights(model))
    ours(model, opt, "closure")


def test_resumed_it_is_the_run_unbroken() -> None:
    (one, a), (two, b) = trained(), trained()
    fresh = network()
    opt = MSAM(SGD(fresh.parameters(), lr=0.1, momentum=0.9), rho=0.3, model=fresh)
    fresh.load_state_dict(two.state_dict())
    opt.load_state_dict(b.state_dict())
    for k in range(3):
        for model, each in ((one, a), (fresh, opt)):
            torch.manual_seed(k)
            ours(model, each, "plain")
    assert same(weights(one), weights(fresh))


def test_compiled_it_equals_eager() -> None:
    torch._dynamo.reset()
    eager, inner = network(), network()
    compiled: Any = torch.compile(inner, backend="aot_eager")
    for model, run in ((eager, eager), (inner, compiled)):
        opt = MSAM(SGD(model.parameters(), lr=0.1, momentum=0.9), rho=0.3, model=model)
        for k in range(4):
            torch.manual_seed(k)
            ours(run, opt, "plain")
    torch.testing.assert_close(inner.state_dict(), eager.state_dict(), rtol=1e-10, atol=1e-12)
    torch._dynamo.reset()
