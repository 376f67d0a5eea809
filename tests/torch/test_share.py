"""A probe from a share of the batch, d = ∇f_B(x + s), against a literal transcription."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.utils.rnn import pack_sequence
from torch.optim import SGD, AdamW, Optimizer

from steepen.torch import ASAM, CGD, FGR, GNP, SAM, Probe

torch.set_num_threads(1)  # the networks are tiny

X, Y = torch.randn(2, 32, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
FORMS = ["part", "step_on", "loop"]
BASES: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adamw-fused": lambda p: AdamW(p, lr=0.01, fused=True),
}


def network(dropout: float = 0.3, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = (nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(dropout), nn.Linear(6, 4))
    return nn.Sequential(*layers).double()


def mse(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return (model(x) - y).square().mean()


def ours(model: nn.Module, opt: CGD, form: str, parts: int = 1, scaler: Any = None) -> Any:
    """Take a step in one of the three styles."""
    batches = list(zip(X.chunk(parts), Y.chunk(parts), strict=True))

    def backward(cut: Callable[[Any], Any]) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for batch in batches:
            loss = mse(model, *cut(batch)) / parts
            (loss if scaler is None else scaler.scale(loss)).backward()
            total += loss.detach()
        return total

    def closure() -> Tensor:
        opt.zero_grad()
        return backward(opt.part)

    if form == "part":
        return opt.step(closure, scaler=scaler)
    if form == "step_on":
        assert parts == 1
        return opt.step_on(lambda x, y: mse(model, x, y), X, Y, scaler=scaler)
    opt.zero_grad()
    loss = backward(opt.part)
    if opt.probe(scaler=scaler):
        backward(lambda batch: batch)
    opt.step(scaler=scaler)
    return loss


def literal(
    model: nn.Module,
    base: Optimizer,
    share: float,
    length: Callable[[float], float],
    parts: int = 1,
    eta: float | None = None,
) -> float:
    """Take the step as it is written: c = length(‖g_b‖), and all that the small pass did undone."""
    params, x0 = list(model.parameters()), [p.detach().clone() for p in model.parameters()]
    buffers, state = [b.clone() for b in model.buffers()], torch.get_rng_state()
    batches = list(zip(X.chunk(parts), Y.chunk(parts), strict=True))
    small = [
        mse(model, x[: max(1, round(share * len(x)))], y[: max(1, round(share * len(y)))]) / parts
        for x, y in batches
    ]
    g = torch.autograd.grad(sum(small), params)
    for buffer, old in zip(model.buffers(), buffers, strict=True):
        buffer.copy_(old)
    torch.set_rng_state(state)
    T = [torch.ones_like(x) if eta is None else x.abs() + eta for x in x0]
    n = torch.cat([(t * s).flatten() for t, s in zip(T, g, strict=True)]).norm().item()
    with torch.no_grad():
        for p, x, t, slope in zip(params, x0, T, g, strict=True):
            p.copy_(x + length(n) * t * t * slope)
    d = torch.autograd.grad(sum(mse(model, x, y) / parts for x, y in batches), params)
    with torch.no_grad():
        for p, x, slope in zip(params, x0, d, strict=True):
            p.copy_(x)
            p.grad = slope
    base.step()
    return sum(loss.item() for loss in small)


def run(
    form: str,
    base: str = "sgd",
    parts: int = 1,
    share: float = 1 / 8,
    length: Callable[[float], float] = lambda n: 0.2 / n,
    eta: float | None = None,
    scale: float | None = None,
    make: Callable[[Optimizer, nn.Module], CGD] | None = None,
) -> CGD:
    """Hold that weights, buffers and losses are the literal ones, over four steps."""
    model, other = network(), network()
    make = make or (lambda base, model: CGD(base, rho=0.2, share=share, model=model))
    opt, theirs = make(BASES[base](model.parameters()), model), BASES[base](other.parameters())
    scaler = None if scale is None else GradScaler("cpu", init_scale=scale)
    for k in range(4):
        torch.manual_seed(k)
        loss = ours(model, opt, form, parts, scaler)
        if scaler is not None:
            scaler.update()
        torch.manual_seed(k)
        assert loss.item() == pytest.approx(literal(other, theirs, share, length, parts, eta), rel=1e-9)
        for (name, one), two in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
            torch.testing.assert_close(
                one, two, rtol=1e-9, atol=1e-11, msg=lambda m, name=name: f"{name}: {m}"
            )
    return opt


# --- the step --------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("form", FORMS)
def test_equals_the_formula_in_all_three_styles(form: str, base: str) -> None:
    run(form, base)


@pytest.mark.parametrize("form", ["part", "loop"])
@pytest.mark.parametrize("parts", [2, 4])
def test_of_every_micro_batch_its_share_is_taken(form: str, parts: int) -> None:
    run(form, parts=parts, share=1 / 4, make=lambda b, m: CGD(b, rho=0.2, share=1 / 4, model=m))


@pytest.mark.parametrize("share", [1 / 16, 1 / 5, 0.03, 1e-9, 0.99])
def test_shares_that_do_not_divide_the_batch_are_rounded_to_one_example_or_more(share: float) -> None:
    if round(share * 32) < 2:  # a batch of one has no statistics
        with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
            run("part", share=share)
    else:
        run("part", share=share)


LENGTHS: dict[str, tuple[Callable[..., CGD], Callable[[float], float], float | None]] = {
    "lam": (lambda b, m: CGD(b, lam=0.05, share=1 / 8, probe_max=None, model=m), lambda n: 0.1, None),
    "lam < 0": (lambda b, m: CGD(b, lam=-0.05, share=1 / 8, probe_max=None, model=m), lambda n: -0.1, None),
    "r": (lambda b, m: CGD(b, r=0.1, share=1 / 8, probe_max=None, model=m), lambda n: 0.1, None),
    "sam": (lambda b, m: SAM(b, rho=0.3, share=1 / 8, model=m), lambda n: 0.3 / n, None),
    "asam": (lambda b, m: ASAM(b, rho=0.3, eta=0.1, share=1 / 8, model=m), lambda n: 0.3 / n, 0.1),
    "probe object": (
        lambda b, m: CGD(b, probe=Probe(rho=0.1, share=1 / 8), model=m),
        lambda n: 0.1 / n,
        None,
    ),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_every_way_to_set_the_length(name: str) -> None:
    make, length, eta = LENGTHS[name]
    run("part", length=length, eta=eta, make=make)


def test_lam_is_limited_by_probe_max() -> None:
    model = network(dropout=0.0)
    opt = CGD(SGD(model.parameters(), lr=0.1), lam=100.0, share=1 / 8, probe_max=0.01, model=model)
    ours(model, opt, "part")
    size = math.sqrt(sum(p.square().sum().item() for p in network(0.0).parameters()))
    assert opt.diagnostics.read()["probe_norm"] == pytest.approx(0.01 * size, rel=1e-9)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [2.0**10, 2.0**-6])
def test_a_scaler_changes_nothing(form: str, scale: float) -> None:
    run(form, scale=scale, length=lambda n: 0.1, make=LENGTHS["lam"][0])


@pytest.mark.parametrize("form", ["part", "loop"])
@pytest.mark.parametrize("bad", [0, 1])
def test_an_overflow_of_the_full_pass_skips_the_step_and_one_of_the_share_does_not(
    form: str, bad: int
) -> None:
    model = network(dropout=0.0)
    opt = CGD(SGD(model.parameters(), lr=0.1), rho=0.2, share=1 / 8, model=model)
    scaler, before = GradScaler("cpu", init_scale=8.0), [p.detach().clone() for p in model.parameters()]
    calls: list[int] = []

    def spoil(grad: Tensor) -> Tensor:
        calls.append(0)
        return grad * torch.inf if len(calls) == bad + 1 else grad

    model[4].bias.register_hook(spoil)
    ours(model, opt, form, scaler=scaler)
    scaler.update()
    same = all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert same == (bad == 1)
    assert scaler.get_scale() == (4.0 if bad else 8.0)
    assert len(calls) == 2
    assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("form", FORMS)
def test_under_autocast_to_bf16_the_weights_move_in_float32(form: str) -> None:
    model, other = network(0.0).float(), network(0.0).float()
    opt = CGD(SGD(model.parameters(), lr=0.1), rho=0.2, share=1 / 8, model=model)
    x, y = X.float(), Y.float()

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (model(x) - y).square().mean()

    params = list(other.parameters())
    g = torch.autograd.grad(loss(other, x[:4], y[:4]), params)
    other.load_state_dict(network(0.0).float().state_dict())  # the small pass leaves no trace
    n = torch.cat([s.flatten() for s in g]).norm()
    with torch.no_grad():
        for p, s in zip(params, g, strict=True):
            p.add_(0.2 * s / n)
    d = torch.autograd.grad(loss(other, x, y), params)
    if form == "step_on":
        opt.step_on(lambda x, y: loss(model, x, y), x, y)
    elif form == "part":
        opt.step(lambda: (opt.zero_grad(), loss(model, *opt.part((x, y))).backward()))
    else:
        loss(model, *opt.part((x, y))).backward()
        assert opt.probe()
        loss(model, x, y).backward()
        opt.step()
    torch.testing.assert_close([p.grad for p in model.parameters()], list(d), rtol=0.02, atol=2e-3)
    torch.testing.assert_close(list(model.buffers()), list(other.buffers()), rtol=0.02, atol=2e-3)


@pytest.mark.parametrize("form", FORMS)
def test_compiled_it_equals_eager(form: str) -> None:
    torch._dynamo.reset()
    eager, inner = network(0.0), network(0.0)
    compiled: Any = torch.compile(inner, backend="aot_eager")
    for model, run in ((eager, eager), (inner, compiled)):
        opt = CGD(SGD(model.parameters(), lr=0.1), rho=0.2, share=1 / 8, model=model)
        for _ in range(3):
            ours(run, opt, form)
    torch.testing.assert_close(inner.state_dict(), eager.state_dict(), rtol=1e-10, atol=1e-12)
    torch._dynamo.reset()


def test_a_share_that_is_not_finite_leaves_the_plain_step() -> None:
    model, plain = network(0.0), network(0.0)
    opt = CGD(SGD(model.parameters(), lr=0.1), rho=0.2, share=1 / 8, model=model)
    calls: list[int] = []
    model[4].bias.register_hook(lambda g: (calls.append(0), g * torch.nan if len(calls) == 1 else g)[1])
    ours(model, opt, "part")
    mse(plain, X, Y).backward()
    SGD(plain.parameters(), lr=0.1).step()
    torch.testing.assert_close(model.state_dict(), plain.state_dict())


def test_off_it_is_the_base_with_the_whole_batch() -> None:
    model, plain = network(), network()
    opt, base = CGD(BASES["sgd"](model.parameters()), rho=0.2, share=1 / 8, from_=9, model=model), None
    base = BASES["sgd"](plain.parameters())
    for k, form in enumerate(FORMS):
        torch.manual_seed(k)
        ours(model, opt, form)
        torch.manual_seed(k)
        base.zero_grad()
        mse(plain, X, Y).backward()
        base.step()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters(), strict=True))


@pytest.mark.parametrize("form", FORMS)
def test_one_copy_of_the_parameters_is_kept(form: str) -> None:
    model = network()
    opt = CGD(SGD(model.parameters(), lr=0.1), rho=0.2, share=1 / 8, model=model)
    ours(model, opt, form)
    (bucket,) = opt._difference._plan.buckets
    assert bucket.held.numel() == 0
    assert bucket.kept.numel() >= sum(p.numel() for p in model.parameters())


# --- the guard -------------------------------------------------------------------------------------


def test_stop_ends_the_penalty_where_d_turns_against_the_share() -> None:
    p, q = nn.Parameter(torch.tensor([1.0, 0.5])), nn.Parameter(torch.tensor([1.0, 0.5]))
    opt = CGD(SGD([p], lr=0.1), rho=0.01, share=0.5, on_guard="stop", patience=2)
    base, signs = SGD([q], lr=0.1), torch.tensor([1.0, -3.0])
    active: list[bool] = []
    for _ in range(4):
        active.append(opt.active)
        opt.step_on(
            lambda sign: (sign * p.square().sum()).mean(), signs
        )  # the share's slope is the other way
        with torch.no_grad():
            s = 0.01 * q / q.norm() if active[-1] else torch.zeros(2)
            q.grad = 2 * signs.mean() * (q + s)
        base.step()
    assert active == [True, True, False, False]
    torch.testing.assert_close(p.detach(), q.detach())
    assert opt.guard.counts.tolist() == [2, 2]
    seen = opt.diagnostics.read()
    assert seen["cosine"] == pytest.approx(-1, abs=1e-3)
    assert seen["guard_rate"] == 1


def test_a_share_that_points_the_same_way_trips_nothing() -> None:
    opt = run("part", make=lambda b, m: CGD(b, rho=0.2, share=1 / 8, on_guard="stop", model=m))
    assert opt.guard.counts.tolist() == [4, 0]
    assert 0 < opt.diagnostics.read()["cosine"] < 1


def test_diagnostics_tell_what_is_known() -> None:
    seen = run("part").diagnostics.read()
    assert seen["probe_norm"] == pytest.approx(0.2)
    assert seen["lam"] == pytest.approx(0.1 / seen["gradient_norm"])
    assert math.isnan(seen["curvature"])
    assert math.isnan(seen["cosine"])


# --- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"rho": 0.1, "share": 0.0}, "share"),
        ({"rho": 0.1, "share": 1.5}, "share"),
        ({"rho": 0.1, "share": "1/16"}, "share"),
        ({"rho": 0.1, "nu": 0.5, "share": 0.5}, "nu"),
        ({"lam": 0.1, "r": 0.1, "share": 0.5}, "lam"),
        ({"lam": 0.1, "rho": 0.1, "share": 0.5}, "lam"),
        ({"rho": 0.1, "share": 0.5, "on_guard": "fallback"}, "on_guard"),
        ({"lam": 0.1, "share": 0.5, "mode": "exact"}, "share"),
        ({"rho": 0.1, "probe": Probe(share=0.5)}, "rho"),
    ],
)
def test_what_does_not_go_with_a_share(options: dict[str, Any], name: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{name}: "):
        CGD(SGD([nn.Parameter(torch.ones(2))], lr=0.1), **options)


@pytest.mark.parametrize(
    "make", [lambda b: GNP(b, share=0.5), lambda b: FGR(b, share=0.5)], ids=["gnp", "fgr"]
)
def test_presets_that_mix_two_gradients_take_no_share(make: Any) -> None:
    with pytest.raises(ValueError, match=r"^(nu|lam): with share="):
        make(SGD([nn.Parameter(torch.ones(2))], lr=0.1))


def test_a_closure_that_does_not_ask_for_its_part_is_refused() -> None:
    model = network()
    opt = CGD(SGD(model.parameters(), lr=0.1), rho=0.2, share=1 / 8, model=model)
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(RuntimeError, match=r"must ask for its part of the batch: opt.part\(batch\)"):
        opt.step(lambda: (opt.zero_grad(), mse(model, X, Y).backward()))
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_shares_of_one_micro_batch_and_passes_over_two_are_refused() -> None:
    model = network()
    opt = CGD(SGD(model.parameters(), lr=0.1), rho=0.2, share=1 / 8, model=model)
    mse(model, X[:4], Y[:4]).backward()
    assert opt.probe()
    for x, y in zip(X.chunk(2), Y.chunk(2), strict=True):
        mse(model, x, y).backward()
    with pytest.raises(RuntimeError, match="1 backward passes before the probe, and 2 after it"):
        opt.step()


# --- batches ---------------------------------------------------------------------------------------


def cut(batch: Any, share: float = 0.25) -> Any:
    return CGD(SGD([nn.Parameter(torch.ones(2))], lr=0.1), rho=0.1, share=share).part(batch)


Pair = namedtuple("Pair", "x y")


def test_a_batch_keeps_its_form() -> None:
    x, y = torch.arange(16).reshape(8, 2), torch.arange(8)
    batch = {
        "in": (x, [y]),
        "pair": Pair(x, y),
        "words": list("abcdefgh"),
        "mean": "yes",
        "t": torch.tensor(3),
    }
    small = cut(batch)
    assert torch.equal(small["in"][0], x[:2])
    assert torch.equal(small["in"][1][0], y[:2])
    assert type(small["pair"]) is Pair
    assert torch.equal(small["pair"].y, y[:2])
    assert small["words"] == ["a", "b"]
    assert (small["mean"], small["t"]) == ("yes", torch.tensor(3))
    off = CGD(SGD([nn.Parameter(torch.ones(2))], lr=0.1), rho=0.1, share=0.25, from_=3)
    assert off.part(batch) is batch


@given(st.integers(1, 300), st.floats(1e-6, 1, exclude_max=True))
def test_the_part_is_as_near_the_share_as_whole_examples_go_and_never_empty(n: int, share: float) -> None:
    rows = len(cut(torch.zeros(n), share))
    assert rows >= 1
    assert rows == 1 or abs(rows - share * n) <= 0.5 + 1e-9


@pytest.mark.parametrize(
    ("batch", "match"),
    [
        ((torch.ones(8), torch.ones(5)), "got 5 and 8; cut such a batch yourself, by opt.share"),
        ("words", "got no tensor"),
        (pack_sequence([torch.ones(3), torch.ones(2)]), "ragged PackedSequence"),
        (torch.ones(4, 2).to_sparse(), "ragged Tensor"),
    ],
    ids=["ragged", "none", "packed", "sparse"],
)
def test_batches_that_cannot_be_cut_are_refused(batch: Any, match: str) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        cut(batch)


def test_packed_data_is_cut_by_the_share_that_is_told() -> None:
    """Two sequences in one row of tokens: the user knows where the first ends."""
    p = nn.Parameter(torch.tensor([1.0]))
    opt = CGD(SGD([p], lr=0.1), rho=0.1, share=0.5)
    shares: list[float] = []

    def closure() -> None:
        opt.zero_grad()
        shares.append(opt.share)
        tokens = torch.ones(10)[: 4 if opt.share < 1 else 10]
        (tokens * p.square()).mean().backward()

    opt.step(closure)
    assert shares == [0.5, 1.0]
