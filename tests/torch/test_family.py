"""One family, d = g + ν(g⁺ − g): closed forms on quadratics, schedules, groups, limits and extremes.

All is read off from outside: the closure writes down where each pass was and what gradient it gave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from steepen.schedules import Auto, Cosine, L, Piecewise, Signed, Table
from steepen.torch import ASAM, CGD, FGR, GNP, PROBE, SAM, USAM

torch.set_num_threads(1)
FREE: dict[str, Any] = {"nu_max": None, "probe_max": None, "on_guard": "off"}
Loss = Callable[[], Tensor]


@dataclass
class Pass:
    x: Tensor
    g: Tensor


def flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([t.detach().double().flatten() for t in tensors])


def take(opt: CGD, loss: Loss) -> tuple[list[Pass], Tensor]:
    """Take one step; give what each pass saw, and d, which stays in the place of the gradient."""
    params = [p for group in opt.param_groups for p in group["params"]]
    passes: list[Pass] = []

    def closure() -> Tensor:
        opt.zero_grad()
        value = loss()
        value.backward()
        passes.append(Pass(flat(params), flat([p.grad for p in params])))
        return value

    opt.step(closure)
    return passes, flat([p.grad for p in params])


def c_and_nu(passes: list[Pass], d: Tensor) -> tuple[float, float]:
    """Read c and ν off a step."""
    first, second = passes
    s, u = second.x - first.x, second.g - first.g
    return (s @ first.g / (first.g @ first.g)).item(), ((d - first.g) @ u / (u @ u)).item()


def quadratic(n: int, seed: int, parts: int = 1) -> tuple[list[nn.Parameter], Tensor, Loss]:
    """A quadratic with curvature of both signs."""
    rng = torch.Generator().manual_seed(seed)
    a, b, x = (torch.randn(shape, dtype=torch.float64, generator=rng) for shape in ((n, n), (n,), (n,)))
    A = (a + a.T) / 2
    params = [nn.Parameter(part.clone()) for part in x.tensor_split(parts)]

    def loss() -> Tensor:
        at = torch.cat(list(params))
        return at @ A @ at / 2 + b @ at

    return params, A, loss


def close(got: Tensor, expected: Tensor, scale: Tensor, tol: float = 1e-9) -> None:
    assert ((got - expected).norm() <= tol * scale.norm()).item(), (got, expected)


# --- closed forms on quadratics -------------------------------------------------------------------------


@given(st.integers(1, 7), st.integers(0, 10**6), st.floats(-4, 4), st.floats(1e-3, 1e3))
@settings(max_examples=60, deadline=None)
def test_both_passes_and_d_of_a_quadratic(n: int, seed: int, nu: float, r: float) -> None:
    (p,), A, loss = quadratic(n, seed)
    (first, second), d = take(CGD(SGD([p], lr=0.1), nu=nu or 1.0, r=r, **FREE), loss)
    Hg = A @ first.g
    close(second.x, first.x + r * first.g, first.x.abs() + r * first.g.abs(), 1e-14)
    close(second.g, first.g + r * Hg, first.g.abs() + r * Hg.abs(), 1e-12)
    close(d, first.g + (nu or 1.0) * r * Hg, first.g.abs() + abs(nu or 1.0) * (first.g + r * Hg.abs()).abs())


@given(
    st.integers(0, 10**6),
    st.floats(-1, 1).filter(lambda lam: abs(lam) > 1e-3),
    st.sampled_from(["r", "rho", "probe"]),
    st.floats(1e-3, 1e2),
)
@settings(max_examples=80, deadline=None)
def test_the_difference_is_exact_on_a_quadratic_at_any_length(
    seed: int, lam: float, length: str, value: float
) -> None:
    (p,), A, loss = quadratic(5, seed)
    options: dict[str, Any] = {length: value}
    (first, second), d = take(CGD(SGD([p], lr=0.1), lam=lam, **options, **FREE), loss)
    s = (second.x - first.x).norm()
    measured = {"r": s / first.g.norm(), "rho": s, "probe": s / first.x.norm()}
    assert measured[length].item() == pytest.approx(value, rel=1e-9)
    rounding = 1e-13 * (abs(lam) * second.g.norm() * first.g.norm() / s).item()
    close(d, first.g + 2 * lam * A @ first.g, first.g, 1e-9 + rounding)


@given(st.integers(0, 10**6), st.lists(st.floats(-1, 1), min_size=3, max_size=3).filter(any))
@settings(max_examples=60, deadline=None)
def test_a_lam_for_each_group_weighs_the_groups_penalty(seed: int, lams: list[float]) -> None:
    params, A, loss = quadratic(7, seed, parts=3)
    groups = [{"params": [p], "lam": lam} for p, lam in zip(params, lams, strict=True)]
    (first, _), d = take(CGD(SGD(groups, lr=0.1), lam=0.3, r=0.5, **FREE), loss)
    weights = torch.cat([torch.full_like(p.detach(), lam) for p, lam in zip(params, lams, strict=True)])
    close(d, first.g + 2 * A @ (weights * first.g), first.g.abs() + (A @ first.g).abs())


def test_groups_follow_the_penalty_to_first_order_on_any_function() -> None:
    lams = [0.3, -0.1, 0.0]
    start = [torch.linspace(-1, 1, n, dtype=torch.float64) for n in (3, 4, 2)]

    def f(xs: Sequence[Tensor]) -> Tensor:
        at = torch.cat(list(xs))
        return (at.sin() * at.roll(1)).sum() + at.pow(4).sum() + at.prod()

    leaves = [x.clone().requires_grad_() for x in start]
    g = torch.autograd.grad(f(leaves), leaves, create_graph=True)
    penalty = sum((lam * gi.square().sum() for lam, gi in zip(lams, g, strict=True)), torch.zeros(()))
    exact = flat(g) + flat(torch.autograd.grad(penalty, leaves))
    errors: list[float] = []
    for r in (1e-3, 1e-4):
        params = [nn.Parameter(x.clone()) for x in start]
        groups = [{"params": [p], "lam": lam} for p, lam in zip(params, lams, strict=True)]
        _, d = take(CGD(SGD(groups, lr=0.1), lam=0.0, r=r, **FREE), lambda at=params: f(at))
        errors.append((d - exact).norm().item())
    assert errors[0] < 0.01 * exact.norm().item()
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize("make", [SAM, ASAM])
def test_a_rho_for_each_group_is_a_share_of_one_probe(make: type[CGD]) -> None:
    p, q = (nn.Parameter(torch.randn(3, generator=torch.Generator().manual_seed(i)).double()) for i in (0, 1))
    opt = make(SGD([{"params": [p], "rho": 0.2}, {"params": [q], "rho": 0.05}], lr=0.1), rho=0.1)
    (first, second), _ = take(opt, lambda: (p.square() * q.exp()).sum())
    rho = torch.tensor([0.2] * 3 + [0.05] * 3, dtype=torch.float64)
    T = first.x.abs() + 0.01 if make is ASAM else torch.ones(6, dtype=torch.float64)
    close(second.x - first.x, rho * T.square() * first.g / (T * first.g).norm(), rho)


def test_parameters_of_any_shape() -> None:
    shapes: list[tuple[int, ...]] = [(), (1,), (0,), (2, 3), (1, 1, 4), (3, 0, 2), (17,)]
    params = [nn.Parameter(torch.full(shape, 0.5 + i, dtype=torch.float64)) for i, shape in enumerate(shapes)]
    opt = CGD(SGD(params, lr=0.1), nu=0.5, r=0.1, **FREE)
    for _ in range(2):
        (first, second), d = take(opt, lambda: sum((p.pow(3).sum() for p in params), torch.zeros(())))
        assert torch.allclose(second.x, first.x + 0.1 * 3 * first.x**2, rtol=1e-14)
        assert torch.allclose(d, (first.g + second.g) / 2, rtol=1e-14)
    assert [p.shape for p in params] == [p.grad.shape for p in params if p.grad is not None]


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "copied": lambda x: x.clone(),
    "transposed in place": lambda x: x.t(),  # at the same address, with other strides
    "other strides": lambda x: x.t().contiguous().t(),  # as `to(memory_format=torch.channels_last)` does
    "other dtype": lambda x: x.float(),
    "other shape": lambda x: x[:2],
}


@pytest.mark.parametrize("change", CHANGES)
def test_parameters_whose_data_are_exchanged_between_steps(change: str) -> None:
    weights = torch.arange(1.0, 17).reshape(4, 4).double()
    p = nn.Parameter(torch.linspace(-1, 1, 16, dtype=torch.float64).reshape(4, 4))
    opt = USAM(SGD([p], lr=0.1), rho=0.01)
    for _ in range(2):
        take(opt, lambda: (weights * p.square()).sum())
    p.grad = None
    p.data = CHANGES[change](p.data)
    for _ in range(2):
        (first, second), d = take(opt, lambda: (weights[: len(p)].to(p.dtype) * p.square()).sum())
        a = 2 * weights[: len(p)].flatten()
        assert torch.allclose(second.x, first.x + 0.01 * a * first.x, rtol=1e-6)
        assert torch.allclose(d, a * (1 + 0.01 * a) * first.x, rtol=1e-5)


# --- limits ---------------------------------------------------------------------------------------------


@given(
    st.integers(0, 10**6),
    st.floats(-6, 6),
    st.one_of(st.none(), st.tuples(st.sampled_from(["r", "rho", "probe"]), st.floats(1e-3, 10))),
    st.floats(1e-4, 10),
    st.booleans(),
    st.one_of(st.none(), st.floats(0.1, 5)),
    st.one_of(st.none(), st.floats(0.01, 1)),
)
@settings(max_examples=150, deadline=None)
def test_c_and_nu_are_what_the_documentation_says(
    seed: int,
    power: float,
    length: tuple[str, float] | None,
    lam: float,
    negative: bool,
    nu_max: float | None,
    probe_max: float | None,
) -> None:
    (p,), _, loss = quadratic(4, seed)
    lam = -lam if negative else lam
    name, value = length or ("", 0.0)
    options: dict[str, Any] = {name: value} if length else {}
    opt = CGD(SGD([p], lr=0.0), lam=lam, nu_max=nu_max, probe_max=probe_max, on_guard="off", **options)
    passes, d = take(opt, lambda: loss() * 10**power)
    n, x = passes[0].g.norm().item(), passes[0].x.norm().item()
    top, far = nu_max or math.inf, probe_max or math.inf
    c = {"r": value, "rho": value / n, "probe": value * x / n}.get(name)
    if c is None:  # the shortest that is accurate and asks for no ν above the limit
        c = max(PROBE[torch.float64] * x / n, 2 * abs(lam) / top)
    c = min(c, far * x / n)
    nu = math.copysign(min(2 * abs(lam) / c, top), lam)
    measured = c_and_nu(passes, d)
    # both are seen through rounding, where they are small beside x and g; 1e-12 is what keeps n from zero
    small = 1e-14 * (1 + x / (c * n)), 1e-14 * n / (nu * (passes[1].g - passes[0].g)).norm().item()
    assert measured[0] == pytest.approx(c, rel=1e-9 + 1e-12 / n + small[0])
    assert measured[1] == pytest.approx(nu, rel=1e-9 + 1e-12 / n + small[1])


@pytest.mark.parametrize(
    "options", [{"lam": 0.5}, {"lam": 0.5, "r": 1.0}, {"nu": 1.0, "rho": 50.0}, {"nu": 1.0}]
)
def test_a_spike_cannot_throw_the_weights(options: dict[str, Any]) -> None:
    p = nn.Parameter(torch.tensor([1.0, -1.0]))
    opt = CGD(SGD([p], lr=1e-8), **options)
    (first, second), d = take(opt, lambda: 2.5e5 * p.pow(4).sum())  # a gradient of a million
    assert first.g.abs().max().item() == pytest.approx(1e6)
    assert ((second.x - first.x).norm() <= 0.1 * first.x.norm() * (1 + 1e-6)).item()
    assert (d.abs() <= 1.1**3 * first.g.abs() * (1 + 1e-5)).all()  # the gradient of a quartic, a tenth on
    assert (p.detach() - torch.tensor([1.0, -1.0])).norm().item() < 0.03


# --- numbers, schedules, callables ----------------------------------------------------------------------

SCHEDULES: dict[str, tuple[Any, list[float]]] = {
    "number": (0.3, [0.3] * 5),
    "L": (L(0.1, 0.5), [0.1, 0.2, 0.3, 0.4, 0.5]),
    "L with T": (L(0.4, 0.1, T=7), [0.4, 0.35, 0.3, 0.25, 0.2]),
    "Cosine": (Cosine(0.2, 0.6), [0.4 - 0.2 * math.cos(math.pi * k / 4) for k in range(5)]),
    "Table": (Table([0.5, 0.1, 0.4, 0.2, 0.3]), [0.5, 0.1, 0.4, 0.2, 0.3]),
    "Piecewise": (Piecewise([0.5, 0.2, 0.1], boundaries=[1, 3]), [0.5, 0.2, 0.2, 0.1, 0.1]),
    "callable": (lambda k: 1 / (k + 2), [1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6]),
}


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize("name", ["lam", "nu", "r", "rho", "probe"])
def test_values_of_each_step(name: str, kind: str) -> None:
    schedule, values = SCHEDULES[kind]
    (p,), _, loss = quadratic(4, 3)
    rest: dict[str, Any] = {"r": 0.2} if name in ("lam", "nu") else {"nu": 0.7}
    opt = CGD(SGD([p], lr=0.05), **{name: schedule}, **rest, **FREE, steps=5)
    for value in values:
        passes, d = take(opt, loss)
        c, nu = c_and_nu(passes, d)
        s = c * passes[0].g.norm().item()
        measured = {"lam": nu * c / 2, "nu": nu, "r": c, "rho": s, "probe": s / passes[0].x.norm().item()}
        assert measured[name] == pytest.approx(value, rel=1e-6)


def test_the_schedules_of_presets() -> None:
    (p,), _, loss = quadratic(4, 3)
    opt: CGD = GNP(SGD([p], lr=0.05), rho=L(0.1, 0.3, T=3), alpha=Table([0.2, 0.9, 0.5]))
    for rho, alpha in ((0.1, 0.2), (0.2, 0.9), (0.3, 0.5)):
        passes, d = take(opt, loss)
        c, nu = c_and_nu(passes, d)
        assert (c * passes[0].g.norm().item(), nu) == pytest.approx((rho, alpha), rel=1e-6)
    opt = FGR(SGD([p], lr=0.05), eps=lambda k: 0.1 * (k + 1), gamma=L(0.4, 0.2), steps=3)
    for eps, gamma in ((0.1, 0.4), (0.2, 0.3), (0.3, 0.2)):
        passes, d = take(opt, loss)
        c, nu = c_and_nu(passes, d)
        assert (c, nu * c) == pytest.approx((eps, gamma), rel=1e-6)


@pytest.mark.parametrize("schedule", [Signed(0.4), Auto()])
def test_a_lam_that_waits_for_the_curvature_is_refused(schedule: Any) -> None:
    # their values alone, 0.4 and 1.0, are not the λ they stand for
    with pytest.raises((TypeError, ValueError), match="lam"):
        CGD(SGD([nn.Parameter(torch.ones(2))], lr=0.1), lam=schedule)


@pytest.mark.parametrize("name", ["r", "rho", "probe"])
def test_a_length_that_falls_to_zero_is_refused_by_name_or_does_no_harm(name: str) -> None:
    (p,), _, loss = quadratic(3, 0)
    opt = CGD(SGD([p], lr=0.01), lam=0.1, **{name: L(0.1, 0.0, T=3)}, **FREE)
    refusals: list[str] = []
    try:
        for _ in range(3):
            take(opt, loss)
    except ValueError as error:
        refusals.append(str(error))
    assert all(text.startswith(name) for text in refusals)
    assert p.isfinite().all()


# --- λ = 0 and groups edited in mid-run -----------------------------------------------------------------


@pytest.mark.parametrize("lam", [0, 0.0, -0.0, lambda k: 0.0, Table([0.0] * 5)])
@pytest.mark.parametrize("make", [lambda ps: SGD(ps, lr=0.1, momentum=0.9), lambda ps: AdamW(ps, fused=True)])
def test_a_lam_of_zero_is_the_base(lam: Any, make: Callable[[Any], Optimizer]) -> None:
    (p,), _, loss = quadratic(4, 5)
    (q,), _, bare = quadratic(4, 5)
    opt, base = CGD(make([p]), lam=lam), make([q])
    for _ in range(5):
        passes, _ = take(opt, loss)
        base.zero_grad()
        bare().backward()
        base.step()
        assert len(passes) == 1
        assert torch.equal(p, q)


def test_lam_may_be_edited_in_mid_run() -> None:
    params, A, loss = quadratic(6, 2, parts=2)
    opt = CGD(SGD([{"params": [p]} for p in params], lr=0.01), lam=0.1, r=0.5, **FREE)
    seen: list[int] = []
    for lams in ([0.1, 0.1], [0.1, 0.0], [0.4, -0.2], [0, 0], [1, 2], [0.05, 0.05]):
        for group, lam in zip(opt.param_groups, lams, strict=True):
            group["lam"] = lam
        passes, d = take(opt, loss)
        g, weights = passes[0].g, torch.tensor(lams, dtype=torch.float64).repeat_interleave(3)
        close(d, g + 2 * A @ (weights * g), g.abs() + (A @ g).abs())
        seen.append(len(passes))
    assert seen == [2, 2, 2, 1, 2, 2]


@pytest.mark.parametrize("key", ["r", "rho", "probe"])
def test_a_length_may_be_edited_to_a_whole_number(key: str) -> None:
    (p,), _, loss = quadratic(4, 2)
    opt = CGD(SGD([p], lr=0.01), nu=1.0, **{key: 0.01}, probe_max=50.0)
    opt.param_groups[0][key] = 1
    (first, second), _ = take(opt, loss)
    s = (second.x - first.x).norm()
    measured = {"r": s / first.g.norm(), "rho": s, "probe": s / first.x.norm()}
    assert measured[key].item() == pytest.approx(1, rel=1e-9)


def test_a_group_may_depart_from_a_schedule() -> None:
    params, A, loss = quadratic(6, 4, parts=2)
    groups = [{"params": [params[0]]}, {"params": [params[1]], "lam": 0.4}]
    opt = CGD(SGD(groups, lr=0.01), lam=L(0.1, 0.3, T=3), r=0.5, **FREE)
    for lam in (0.1, 0.2, 0.3):
        passes, d = take(opt, loss)
        g = passes[0].g
        lams = torch.tensor([lam, 0.4], dtype=torch.float64).repeat_interleave(3)
        close(d, g + 2 * A @ (lams * g), g.abs() + (A @ g).abs())


# --- extremes -------------------------------------------------------------------------------------------

MAKES: dict[str, Callable[[Optimizer], CGD]] = {
    "sam": SAM,
    "usam": USAM,
    "gnp": GNP,
    "asam": ASAM,
    "fgr": FGR,
    "cgd": lambda base: CGD(base, lam=0.05),
    "cgd, rho": lambda base: CGD(base, lam=0.05, rho=0.1),
    "cgd, off": lambda base: CGD(base, lam=-0.05, on_guard="off"),
    "cgd, no limit on nu": lambda base: CGD(base, lam=0.05, nu_max=None),
    "cgd, no limits": lambda base: CGD(base, lam=0.05, **FREE),
    "cgd, rho, no limits": lambda base: CGD(base, lam=0.05, rho=0.1, **FREE),
}


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_huge_and_tiny_gradients_give_no_nan(make: str, dtype: torch.dtype) -> None:
    for power in (-30, -25, -18, -12, -6, 6, 12, 18, 25, 30):
        start = torch.linspace(0.5, 2, 40, dtype=dtype)
        p = nn.Parameter(start.clone())
        _, d = take(MAKES[make](SGD([p], lr=0.0)), lambda p=p, k=power: 10.0**k * p.square().sum())
        assert d.isfinite().all(), power
        assert torch.equal(p.detach(), start)


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("where", [0.0, 1.0])
def test_a_gradient_of_zero_moves_nothing(make: str, where: float) -> None:
    p = nn.Parameter(torch.full((5,), where))
    opt = MAKES[make](SGD([p], lr=0.1))
    for _ in range(2):
        (_, second), d = take(opt, lambda: (p - where).square().sum())
        assert torch.equal(second.x, torch.full((5,), where).double())
        assert not d.any()
    assert torch.equal(p.detach(), torch.full((5,), where))


@pytest.mark.parametrize("make", MAKES)
def test_weights_of_zero_are_a_start_like_any_other(make: str) -> None:
    for seed in range(8):
        p = nn.Parameter(torch.zeros(20))
        opt = MAKES[make](SGD([p], lr=0.1))
        target = torch.randn(20, generator=torch.Generator().manual_seed(seed))
        distances = [target.norm().item()]
        for _ in range(3):
            take(opt, lambda p=p, to=target: (p - to).square().sum())
            distances.append((p.detach() - target).norm().item())
        assert all(b < 0.95 * a for a, b in pairwise(distances)), distances
