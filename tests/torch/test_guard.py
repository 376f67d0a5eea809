"""The guard: it trips where ⟨g, d⟩ ≤ 0 and nowhere else, and what a trip leads to."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from steepen.torch import CGD, SAM

torch.set_num_threads(1)
FREE: dict[str, Any] = {"nu_max": None, "probe_max": None}
MODES = ["fallback", "stop", "off"]


def step(opt: CGD, loss: Callable[[], Tensor]) -> list[list[Tensor]]:
    """Take a step; give the gradients of its passes, and d at the end."""
    params = [p for group in opt.param_groups for p in group["params"]]
    grads: list[list[Tensor]] = []

    def closure() -> Tensor:
        opt.zero_grad()
        value = loss()
        value.backward()
        grads.append([p.grad.clone() for p in params])
        return value

    opt.step(closure)
    return [*grads, [p.grad.clone() for p in params]]


def rate(opt: CGD) -> float:
    assert opt.diagnostics is not None
    return opt.diagnostics.read()["guard_rate"]


def flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([t.double().flatten() for t in tensors])


def same(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def network(seed: int, dtype: torch.dtype) -> tuple[nn.Module, Callable[[], Tensor]]:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4)).to(dtype)
        x, y = 2 * torch.randn(12, 3, dtype=dtype), torch.randint(4, (12,))
    return model, lambda: nn.functional.cross_entropy(4 * model(x), y)


# --- when it trips --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "slack"), [(torch.float64, 1e-11), (torch.float32, 1e-5)])
@given(seed=st.integers(0, 10**6), nu=st.floats(-30, 30), r=st.floats(0.01, 5))
@settings(max_examples=100, deadline=None)
def test_trips_just_where_d_does_not_descend(
    dtype: torch.dtype, slack: float, seed: int, nu: float, r: float
) -> None:
    assume(abs(nu) > 1e-3)
    model, loss = network(seed, dtype)
    opt = CGD(SGD(model.parameters(), lr=0.1), nu=nu, r=r, **FREE)
    first, second, taken = step(opt, loss)
    g, u = flat(first), flat(second) - flat(first)
    product = math.fsum((g * (g + nu * u)).tolist())
    assume(abs(product) > slack * (g @ g + abs(nu) * (g @ g + u @ u)).item())
    assert rate(opt) == (product <= 0)
    if product <= 0:
        assert same(taken, first)
    else:
        assert torch.allclose(flat(taken), g + nu * u, rtol=10 * slack, atol=slack * g.abs().max().item())
        assert not same(taken, first)


def bend(curvature: float, nu: float = 1.0, **options: Any) -> tuple[CGD, Callable[[], Tensor]]:
    """½·a·p² at p = 1 with c = 1: g = a, g⁺ = a + a², ⟨g, d⟩ = a²(1 + νa)."""
    p = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    return CGD(SGD([p], lr=0.1), nu=nu, r=1.0, **FREE, **options), lambda: curvature * p.square().sum() / 2


@pytest.mark.parametrize(
    ("curvature", "nu", "trips"),
    [
        (1.0, 1.0, False),
        (-0.5, 1.0, False),
        (-1.0, 1.0, True),  # ⟨g, d⟩ = 0 in every bit
        (math.nextafter(-1.0, 0), 1.0, False),  # and above by one bit
        (math.nextafter(-1.0, -2), 1.0, True),
        (-2.0, 0.5, True),
        (-2.0, 0.25, False),
        (-2.0, -1.0, False),  # λ < 0 where f bends down descends
        (2.0, -0.5, True),
        (2.0, -0.25, False),
    ],
)
def test_constructed_curvature(curvature: float, nu: float, trips: bool) -> None:
    opt, loss = bend(curvature, nu)
    first, second, d = step(opt, loss)
    assert second[0].item() == pytest.approx(curvature + curvature**2, rel=1e-15)
    assert rate(opt) == trips
    assert d[0].item() == (first[0].item() if trips else pytest.approx(curvature * (1 + nu * curvature)))


@pytest.mark.parametrize("power", [-15, -8, 0, 8, 15])
@pytest.mark.parametrize("trips", [False, True])
def test_does_not_depend_on_the_scale_of_the_gradient(power: int, trips: bool) -> None:
    p = nn.Parameter(torch.linspace(1, 2, 30))
    scale = 10.0**power
    opt = CGD(SGD([p], lr=0.0), nu=1.0, r=(2.0 if trips else 0.5) / scale, **FREE)
    step(opt, lambda: -scale * p.square().sum() / 2)
    assert rate(opt) == trips


@pytest.mark.parametrize(
    ("dtype", "size"), [(torch.float32, 1e3), (torch.float64, 1e6), (torch.float64, 1e9)]
)
def test_sees_a_small_difference_with_a_large_weight(dtype: torch.dtype, size: float) -> None:
    # u is only a thousandth of g, or less: the sign of ⟨g, g + νu⟩ must survive beside ‖g‖²
    p = nn.Parameter(torch.ones(8, dtype=dtype))
    for a, trips in ((-1.01, True), (-0.99, False)):
        opt = CGD(SGD([p], lr=0.0), nu=size, r=1 / size, **FREE)
        step(opt, lambda a=a: a * p.square().sum() / 2)
        assert rate(opt) == trips


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("nu", [0.5, 4.0])
def test_is_not_confused_by_short_gradients(dtype: torch.dtype, nu: float) -> None:
    for seed in range(20):
        rng = torch.Generator().manual_seed(seed)
        g, u = (torch.randn(200, generator=rng, dtype=torch.float64).to(dtype).double() for _ in range(2))
        u -= (u @ g / (g @ g) + (1 + (0.02 if seed % 2 else -0.02)) / nu) * g  # within 2 % of the border
        plus = (g + u).to(dtype)
        p = nn.Parameter(torch.ones(200, dtype=dtype))
        opt = CGD(SGD([p], lr=0.0), nu=nu, r=0.1, **FREE)
        p.grad = g.to(dtype)
        assert opt.probe()
        p.grad = plus.clone()
        opt.step()
        assert rate(opt) == (g @ (g + nu * (plus.double() - g)) <= 0).item() == bool(seed % 2)


def test_all_groups_count_together() -> None:
    # q alone climbs; p and q together descend
    p, q = (nn.Parameter(torch.tensor([v], dtype=torch.float64)) for v in (4.0, 1.0))
    opt = CGD(SGD([{"params": [p]}, {"params": [q]}], lr=0.1), nu=1.0, r=1.0, **FREE)
    *_, d = step(opt, lambda: (p.square().sum() - 3 * q.square().sum()) / 2)
    assert rate(opt) == 0
    assert [t.item() for t in d] == pytest.approx([4 + 4, -3 + 9])


# --- what it does ---------------------------------------------------------------------------------------

BASES: dict[str, Callable[[Any], Optimizer]] = {
    "momentum": lambda ps: SGD(ps, lr=0.1, momentum=0.9),
    "foreach": lambda ps: SGD(ps, lr=0.1, foreach=True),
    "fused": lambda ps: AdamW(ps, lr=0.1, fused=True),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("on_guard", ["fallback", "stop"])
def test_a_trip_leads_to_the_bases_own_step(base: str, on_guard: Any) -> None:
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 40)) for _ in range(2))
    opt = CGD(BASES[base]([ours]), nu=1.0, r=3.0, on_guard=on_guard, patience=9, **FREE)
    bare = BASES[base]([theirs])
    for _ in range(4):
        first, _, d = step(opt, lambda: -ours.square().sum() / 2)
        assert same(first, d)
        bare.zero_grad()
        (-theirs.square().sum() / 2).backward()
        bare.step()
        assert torch.equal(ours, theirs)
    assert rate(opt) == 1


def test_off_takes_d_all_the_same() -> None:
    opt, loss = bend(-3.0, on_guard="off")
    _, second, d = step(opt, loss)
    assert d[0].item() == second[0].item() == 6.0


@given(
    st.lists(st.booleans(), min_size=1, max_size=14),
    st.integers(1, 4),
    st.one_of(st.none(), st.integers(0, 13)),
)
@settings(max_examples=100, deadline=None)
def test_stops_after_so_many_trips_in_a_row(trips: list[bool], patience: int, save_at: int | None) -> None:
    stop, row = len(trips), 0
    for k, trip in enumerate(trips):
        row = row + 1 if trip else 0
        if row == patience:
            stop = k + 1
            break
    p = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))

    def fresh() -> CGD:
        return CGD(SGD([p], lr=0.01), nu=1.0, r=1.0, on_guard="stop", patience=patience, **FREE)

    opt = fresh()
    for k, trip in enumerate(trips):
        if k == save_at:  # what the guard has counted survives
            file = io.BytesIO()
            torch.save(opt.state_dict(), file)
            file.seek(0)
            opt = fresh()
            opt.load_state_dict(torch.load(file, weights_only=True))
        assert opt.active == (k < stop)
        with torch.no_grad():
            p.fill_(1.0)
        passes = len(step(opt, lambda a=-2.0 if trip else 1.0: a * p.square().sum() / 2)) - 1
        assert passes == (2 if k < stop else 1)
        assert p.item() == pytest.approx(1 - 0.01 * (-2.0 if trip else 2.0 if k < stop else 1.0))
    assert opt.active == (stop == len(trips) and row < patience)


def test_a_stop_outlives_a_reload_and_more_steps() -> None:
    opt, loss = bend(-2.0, on_guard="stop")
    step(opt, loss)
    assert not opt.active
    again, _ = bend(-2.0, on_guard="stop")
    again.load_state_dict(opt.state_dict())
    assert not again.active
    fallback, _ = bend(-2.0, on_guard="fallback")  # who does not stop goes on
    fallback.load_state_dict(opt.state_dict())
    assert fallback.active


def test_fallback_counts_and_goes_on() -> None:
    p = nn.Parameter(torch.tensor([1.0]))
    opt = CGD(SGD([p], lr=0.01), nu=1.0, r=1.0, **FREE)
    for k in range(8):
        assert len(step(opt, lambda a=-2.0 if k % 4 else 1.0: a * p.square().sum() / 2)) == 3
    assert rate(opt) == 6 / 8


# --- a second pass that is not finite -------------------------------------------------------------------


@pytest.mark.parametrize("on_guard", MODES)
@pytest.mark.parametrize("nu", [1.0, -1.0, 0.3])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_second_pass_that_is_not_finite_leads_to_g(
    on_guard: Any, nu: float, bad: float, dtype: torch.dtype
) -> None:
    p, q = (nn.Parameter(torch.linspace(-1, 1, n).to(dtype)) for n in (40, 3))
    opt = CGD(SGD([p, q], lr=0.1), nu=nu, r=0.1, on_guard=on_guard, patience=2, **FREE)
    calls: list[int] = []

    def loss() -> Tensor:
        calls.append(1)
        if len(calls) == 2:
            q.register_hook(lambda grad: torch.where(torch.arange(3) == 1, bad, grad))  # one number of 43
        return p.square().sum() + q.square().sum()

    start = [p.detach().clone(), q.detach().clone()]
    first, second, d = step(opt, loss)
    assert not flat(second).isfinite().all()
    assert same(d, first)
    assert same([p.detach(), q.detach()], [x - 0.1 * g for x, g in zip(start, first, strict=True)])
    assert rate(opt) == 1
    assert opt.active


@pytest.mark.parametrize("make", [SAM, lambda base, **o: CGD(base, lam=0.5, r=1.0, probe_max=None, **o)])
@pytest.mark.parametrize("on_guard", MODES)
def test_a_probe_over_the_edge_of_the_domain(make: Callable[..., CGD], on_guard: Any) -> None:
    p = nn.Parameter(torch.tensor([0.99, 0.5]))
    opt = make(SGD([p], lr=0.01), on_guard=on_guard)
    first, second, d = step(opt, lambda: -(1 - p).sqrt().sum())
    assert second[0].isnan().any()
    assert same(d, first)
    assert torch.equal(p.detach(), torch.tensor([0.99, 0.5]) - 0.01 * first[0])


def test_patience_counts_passes_that_are_not_finite() -> None:
    p = nn.Parameter(torch.tensor([0.99]))
    opt = CGD(SGD([p], lr=0.0), nu=1.0, r=1.0, on_guard="stop", patience=2, **FREE)
    for _ in range(2):
        assert opt.active
        step(opt, lambda: -(1 - p).sqrt().sum())
    assert not opt.active
