"""The exact mode: d = g + 2λHg, with H from torch.func; and the odd cases of a double backward pass."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from steepen.torch import CGD, EGR

pytestmark = [
    # the exact mode asks for such a backward pass; torch.func.jvp calls what torch itself deprecates
    pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True"),
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),
]
torch.set_num_threads(1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.out, self.norm = nn.Linear(6, 18), nn.Linear(6, 3), nn.LayerNorm(6)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(self.norm(x)).chunk(3, dim=-1)
        return self.out((x + (q @ k.mT / 6**0.5).softmax(-1) @ v).mean(1))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3)), (9, 5)),
    "relu": (lambda: nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3, bias=False)), (9, 5)),
    "conv": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.GroupNorm(3, 3), nn.SiLU(), nn.Flatten(), nn.Linear(48, 3)
        ),
        (4, 2, 6, 6),
    ),
    "batchnorm": (lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)), (9, 5)),
    "attention": (Attention, (4, 5, 6)),
}


def build(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    make, shape = MODELS[name]
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return make().double(), torch.randn(shape, dtype=torch.float64), torch.randint(3, shape[:1])


def curvature(
    model: nn.Module, x: Tensor, y: Tensor, weight: Callable[[str], float]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Give g and HΛg by forward over reverse, on a copy of the parameters."""
    point = {name: p.detach().clone() for name, p in model.named_parameters()}
    buffers = {name: b.clone() for name, b in model.named_buffers()}

    def loss(at: dict[str, Tensor]) -> Tensor:
        kept = {name: b.clone() for name, b in buffers.items()}
        return nn.functional.cross_entropy(torch.func.functional_call(model, (at, kept), (x,)), y)

    slope = torch.func.grad(loss)
    g = slope(point)
    along = {name: weight(name) * value for name, value in g.items()}
    return torch.func.jvp(slope, (point,), (along,))


def closure_of(opt: CGD, loss: Callable[[], Tensor], scaler: Any = None) -> Callable[[], Tensor]:
    def closure() -> Tensor:
        opt.zero_grad()
        value = loss()
        (value if scaler is None else scaler.scale(value)).backward(create_graph=True)
        return value

    return closure


# --- against torch.func ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("lam", [0.1, -0.07])
def test_d_is_g_and_twice_lam_hg(name: str, lam: float) -> None:
    model, x, y = build(name)
    opt = EGR(SGD(model.parameters(), lr=0.1), lam=lam)
    for _ in range(3):
        g, Hg = curvature(model, x, y, lambda _: 1.0)
        before = {key: p.detach().clone() for key, p in model.named_parameters()}
        opt.step(closure_of(opt, lambda: nn.functional.cross_entropy(model(x), y)))
        for key, p in model.named_parameters():
            d = g[key] + 2 * lam * Hg[key]
            torch.testing.assert_close(p.grad, d, rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(p.detach(), before[key] - 0.1 * d, rtol=1e-9, atol=1e-12)
            assert not p.grad.requires_grad


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(any))
@settings(max_examples=25, deadline=None)
def test_a_lam_for_each_group(lams: list[float]) -> None:
    model, x, y = build("mlp")
    names = [name for name, _ in model.named_parameters()]
    groups = [{"params": [p], "lam": lam} for p, lam in zip(model.parameters(), lams, strict=True)]
    opt = CGD(SGD(groups, lr=0.1), lam=0.5, mode="exact", on_guard="off")
    g, Hg = curvature(model, x, y, lambda name: lams[names.index(name)])
    opt.step(closure_of(opt, lambda: nn.functional.cross_entropy(model(x), y)))
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.grad, g[name] + 2 * Hg[name], rtol=1e-9, atol=1e-12)


def test_each_lam_is_that_of_its_step_and_zero_is_the_base() -> None:
    p = nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))
    a = torch.tensor([1.0, 3.0], dtype=torch.float64)
    opt = CGD(SGD([p], lr=0.1), lam=lambda k: [0.1, 0.0, -0.05][k], mode="exact")
    for lam in (0.1, 0.0, -0.05):
        expected = p.detach() - 0.1 * (a * p.detach() + 2 * lam * a * a * p.detach())
        opt.step(closure_of(opt, lambda: (a * p.square()).sum() / 2))
        torch.testing.assert_close(p.detach(), expected, rtol=1e-12, atol=0)


def test_without_a_closure_and_over_micro_batches() -> None:
    (model, x, y), (other, _, _) = build("mlp"), build("mlp")
    whole = EGR(AdamW(model.parameters(), lr=0.01), lam=0.1)
    parts = EGR(AdamW(other.parameters(), lr=0.01), lam=0.1)
    for _ in range(3):
        whole.step(closure_of(whole, lambda: nn.functional.cross_entropy(model(x), y)))
        parts.zero_grad()
        for i in range(3):
            batch = slice(3 * i, 3 * i + 3)
            (nn.functional.cross_entropy(other(x[batch]), y[batch]) / 3).backward(create_graph=True)
        parts.step()
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-12)


# --- odd graphs -----------------------------------------------------------------------------------------


def test_a_parameter_that_enters_linearly_has_a_gradient_without_a_graph() -> None:
    # such as the last bias of a critic; its row of H is zero, and that is no fault of the caller
    a, b = (nn.Parameter(torch.tensor(v, dtype=torch.float64)) for v in ([1.0, 2.0], [3.0]))
    opt = CGD(SGD([a, b], lr=0.1), lam=0.01, mode="exact")
    opt.step(closure_of(opt, lambda: a.sum() + b.pow(4).sum()))
    assert a.grad.tolist() == [1.0, 1.0]
    assert b.grad.item() == pytest.approx(108 + 0.02 * 108 * 108)


def test_parameters_that_the_loss_does_not_reach() -> None:
    a, b = (nn.Parameter(torch.tensor([v], dtype=torch.float64)) for v in (1.0, 2.0))
    opt = CGD(SGD([a, b], lr=0.1), lam=0.1, mode="exact")
    opt.step(closure_of(opt, lambda: a.pow(3).sum()))
    assert a.grad.item() == pytest.approx(3 + 0.2 * 6 * 3)
    assert b.grad is None
    assert b.item() == 2


SHARED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "one row for two": lambda a, b: (a + b).pow(4).sum(),  # as of the two biases of an LSTM
    "a row of one number": lambda a, b: a.sum().pow(4) + b.sum().pow(2),
    "apart": lambda a, b: a.pow(4).sum() + b.pow(3).sum(),
}


@pytest.mark.parametrize("loss", SHARED)
@pytest.mark.parametrize("scale", [None, 1.0, 2.0**10])
def test_rows_of_h_that_share_memory(loss: str, scale: float | None) -> None:
    start = [torch.tensor([1.0, 0.5]), torch.tensor([0.25, 2.0])]
    a, b = (nn.Parameter(x.clone()) for x in start)
    opt = CGD(SGD([a, b], lr=0.01), lam=0.05, mode="exact")
    scaler = None if scale is None else torch.amp.GradScaler("cpu", init_scale=scale)
    opt.step(closure_of(opt, lambda: SHARED[loss](a, b), scaler), scaler=scaler)

    def slope(x: Tensor) -> Tensor:
        return torch.func.grad(lambda at: SHARED[loss](at[:2], at[2:]))(x)

    x = torch.cat(start)
    g, Hg = torch.func.jvp(slope, (x,), (slope(x),))
    torch.testing.assert_close(torch.cat([a.grad, b.grad]), g + 0.1 * Hg, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("enclosed", [False, True])
def test_no_memory_is_left_in_cycles(enclosed: bool) -> None:
    """What `create_graph` warns of: a gradient that holds its graph, which holds the parameter."""
    model, x, y = build("mlp")
    opt = EGR(SGD(model.parameters(), lr=0.1, momentum=0.9), lam=0.1)
    counts: list[int] = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            if enclosed:
                opt.step(closure_of(opt, lambda: nn.functional.cross_entropy(model(x), y)))
            else:
                opt.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward(create_graph=True)
                opt.step()
            counts.append(sum(issubclass(type(t), Tensor) for t in gc.get_objects()))
    finally:
        gc.enable()
    assert len(set(counts[1:])) == 1


# --- the guard ------------------------------------------------------------------------------------------


def dot(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
    return sum((x.double() * y.double()).sum().item() for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("on_guard", ["fallback", "stop", "off"])
def test_trips_just_where_d_does_not_descend(name: str, on_guard: Any) -> None:
    model, x, y = build(name)
    g, Hg = curvature(model, x, y, lambda _: 1.0)
    border = -dot(list(g.values()), list(g.values())) / (2 * dot(list(g.values()), list(Hg.values())))
    for factor, trips in ((0.9, False), (1.1, True)):  # of the λ at which ⟨g, d⟩ = 0
        lam = factor * border
        opt = CGD(SGD(model.parameters(), lr=0.0), lam=lam, mode="exact", on_guard=on_guard)
        opt.step(closure_of(opt, lambda: nn.functional.cross_entropy(model(x), y)))
        falls = trips and on_guard != "off"
        assert opt.diagnostics is not None
        assert opt.diagnostics.read()["guard_rate"] == falls
        assert opt.active == (not falls or on_guard == "fallback")
        for key, p in model.named_parameters():
            expected = g[key] if falls else g[key] + 2 * lam * Hg[key]
            torch.testing.assert_close(p.grad, expected, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("size", [1e-5, 1.0])
def test_the_guard_is_as_sharp_in_short_precision(dtype: torch.dtype, size: float) -> None:
    # g·Hg of fp16 gradients of 1e-5 is below the smallest number of fp16; the guard must see it
    p = nn.Parameter(torch.full((8,), size / 50).to(dtype))
    opt = CGD(SGD([p], lr=0.0), lam=1.0, mode="exact")
    opt.step(closure_of(opt, lambda: -25 * p.square().sum()))
    assert opt.diagnostics is not None
    assert opt.diagnostics.read()["guard_rate"] == 1
    assert torch.equal(p.grad, -50 * p.detach())


@pytest.mark.parametrize("on_guard", ["fallback", "stop", "off"])
def test_a_curvature_that_is_not_finite_leads_to_g(on_guard: Any) -> None:
    p = nn.Parameter(torch.tensor([0.0, 4.0], dtype=torch.float64))
    opt = CGD(SGD([p], lr=0.1), lam=0.1, mode="exact", on_guard=on_guard, patience=5)
    opt.step(closure_of(opt, lambda: p.pow(1.5).sum()))  # f'' = ¾/√p
    assert p.grad.tolist() == [0.0, 3.0]
    assert p.tolist() == pytest.approx([0.0, 3.7])
