"""Precision: autocast, weights of bfloat16 and float16, and float64 to its last digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW

from steepen.torch import ASAM, CGD, GNP, PROBE, SAM, USAM

torch.set_num_threads(1)
FREE: dict[str, Any] = {"nu_max": None, "probe_max": None, "on_guard": "off"}
SHORT = [torch.bfloat16, torch.float16]
Passes = list[tuple[list[Tensor], list[Tensor]]]


def autocast() -> AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def network() -> tuple[nn.Module, Tensor, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
        return model, torch.randn(24, 8), torch.randint(3, (24,))


def backward(model: nn.Module, x: Tensor, y: Tensor, *, graph: bool = False) -> Tensor:
    with autocast():
        loss = nn.functional.cross_entropy(model(x).float(), y)
    loss.backward(create_graph=graph)
    return loss


def step(opt: CGD, loss: Callable[[], Tensor]) -> Passes:
    """Take a step; give the weights and the gradients of each pass."""
    params = [p for group in opt.param_groups for p in group["params"]]
    passes: Passes = []

    def closure() -> Tensor:
        opt.zero_grad()
        value = loss()
        passes.append(([p.detach().clone() for p in params], [p.grad.detach().clone() for p in params]))
        return value

    opt.step(closure)
    return passes


def same(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


# --- autocast -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outer", [nullcontext, autocast])
@pytest.mark.parametrize("options", [{"nu": 1.0, "rho": 0.5}, {"nu": 1.0, "rho": 0.5, "every": 2}])
@pytest.mark.parametrize("make", [lambda ps: SGD(ps, lr=0.5), lambda ps: AdamW(ps, lr=0.05, fused=True)])
def test_every_pass_of_a_penalised_step_sees_the_weights_as_they_are(
    outer: Callable[[], AbstractContextManager[Any]], options: dict[str, Any], make: Callable[[Any], Any]
) -> None:
    """In an autocast around the whole loop, torch would go on with the weights it has cast before."""
    model, x, y = network()
    opt = CGD(make(model.parameters()), **options, dtype=torch.bfloat16)
    steps: list[Passes] = []
    with outer():
        for _ in range(5):
            steps.append(step(opt, lambda: backward(model, x, y)))
    assert [len(passes) for passes in steps] == ([2] * 5 if "every" not in options else [2, 1, 2, 1, 2])
    fresh, _, _ = network()
    for passes in steps:
        for weights, grads in passes if len(passes) == 2 else []:
            with torch.no_grad():
                for p, value in zip(fresh.parameters(), weights, strict=True):
                    p.copy_(value)
            fresh.zero_grad()
            backward(fresh, x, y)
            assert same([p.grad for p in fresh.parameters() if p.grad is not None], grads)
        assert len(passes) == 1 or not same(passes[0][1], passes[1][1])


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_the_exact_mode_in_an_outer_autocast() -> None:
    ends: list[list[Tensor]] = []
    for outer in (nullcontext, autocast):
        model, x, y = network()
        opt = CGD(SGD(model.parameters(), lr=0.5), lam=0.05, mode="exact")
        with outer():
            for _ in range(4):
                step(opt, lambda m=model, x=x, y=y: backward(m, x, y, graph=True))
        ends.append([p.detach() for p in model.parameters()])
    assert same(*ends)


@pytest.mark.parametrize("outer", [nullcontext, autocast])
def test_probe_and_step_in_an_outer_autocast(outer: Any) -> None:
    (model, x, y), (other, _, _) = network(), network()
    opt = CGD(SGD(model.parameters(), lr=0.5), nu=1.0, rho=0.5)
    loop = CGD(SGD(other.parameters(), lr=0.5), nu=1.0, rho=0.5)
    with outer():
        for _ in range(4):
            step(opt, lambda: backward(model, x, y))
            loop.zero_grad()
            backward(other, x, y)
            assert loop.probe()
            backward(other, x, y)
            loop.step()
    assert same(list(model.parameters()), list(other.parameters()))


def relative(passes: Passes) -> float:
    (x, _), (moved, _) = passes
    s = torch.cat([(b.double() - a.double()).flatten() for a, b in zip(x, moved, strict=True)])
    return (s.norm() / torch.cat([a.double().flatten() for a in x]).norm()).item()


@pytest.mark.parametrize(
    ("dtype", "said", "outer", "probe"),
    [
        (torch.float64, None, nullcontext, PROBE[torch.float64]),
        (torch.float32, None, nullcontext, PROBE[torch.float32]),
        (torch.float32, torch.bfloat16, nullcontext, PROBE[torch.bfloat16]),
        (torch.float32, torch.float16, nullcontext, PROBE[torch.float16]),
        (torch.float32, None, autocast, PROBE[torch.bfloat16]),
        (torch.bfloat16, None, nullcontext, PROBE[torch.bfloat16]),
        (torch.float16, None, nullcontext, PROBE[torch.float16]),
    ],
)
def test_the_probe_is_as_long_as_the_precision_of_the_passes_asks(
    dtype: torch.dtype, said: torch.dtype | None, outer: Any, probe: float
) -> None:
    p = nn.Parameter(torch.linspace(-1, 2, 200).to(dtype))
    opt = CGD(SGD([p], lr=0.0), lam=1e-7, dtype=said)

    def loss() -> Tensor:
        value = p.square().sum()
        value.backward()
        return value

    with outer():
        assert relative(step(opt, loss)) == pytest.approx(probe, rel=0.05 if dtype in SHORT else 1e-3)


def test_the_difference_is_accurate_as_it_comes() -> None:
    """In float32 the difference is within a per cent of the exact Hg."""
    for dtype, tolerance in ((torch.float64, 1e-5), (torch.float32, 0.01)):
        model, x, y = network()
        model, x = model.to(dtype), x.to(dtype)
        params = list(model.parameters())
        wide = [p.detach().double().requires_grad_() for p in params]
        names = [name for name, _ in model.named_parameters()]
        at = torch.func.functional_call(model, dict(zip(names, wide, strict=True)), (x.double(),))
        g = torch.autograd.grad(nn.functional.cross_entropy(at, y), wide, create_graph=True)
        Hg = torch.autograd.grad(g, wide, [gi.detach() for gi in g])
        opt = CGD(SGD(params, lr=0.0), lam=1e-6)

        def loss(model: nn.Module = model, x: Tensor = x, y: Tensor = y) -> Tensor:
            value = nn.functional.cross_entropy(model(x), y)
            value.backward()
            return value

        (x0, g0), (x1, g1) = step(opt, loss)
        i = max(range(len(params)), key=lambda i: params[i].numel())
        c = ((x1[i] - x0[i]).double().norm() / g0[i].double().norm()).item()
        u = torch.cat([(b.double() - a.double()).flatten() / c for a, b in zip(g0, g1, strict=True)])
        exact = torch.cat([h.flatten() for h in Hg])
        assert ((u - exact).norm() < tolerance * exact.norm()).item()


# --- short weights --------------------------------------------------------------------------------------


def short(dtype: torch.dtype, n: int = 1003, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(n, generator=rng).to(dtype), torch.randn(n, generator=rng).to(dtype)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("n", [1, 7, 8, 64, 1003])
@pytest.mark.parametrize("r", [0.1, 0.0371, 1e-3])
def test_short_weights_move_through_float32_and_come_back(dtype: torch.dtype, n: int, r: float) -> None:
    x, g = short(dtype, n)
    p = nn.Parameter(x.clone())
    opt = USAM(SGD([p], lr=0.1), rho=r)
    p.grad = g.clone()
    assert opt.probe()
    assert torch.equal(p.detach(), (x.float() + r * g.float()).to(dtype))
    opt.restore()
    assert torch.equal(p.detach(), x)
    assert p.grad is not None
    assert torch.equal(p.grad, g)


@pytest.mark.parametrize("dtype", SHORT)
@pytest.mark.parametrize("n", [7, 64, 1003])
@pytest.mark.parametrize("nu", [1.0, 0.3, -2.5])
def test_d_of_short_weights_is_formed_in_float32(dtype: torch.dtype, n: int, nu: float) -> None:
    x, g = short(dtype, n)
    _, plus = short(dtype, n, seed=1)
    p = nn.Parameter(x.clone())
    opt = CGD(SGD([p], lr=0.1), nu=nu, r=0.1, **FREE)
    p.grad = g.clone()
    assert opt.probe()
    p.grad = plus.clone()
    opt.step()
    u = plus.double() - g.double()
    rounding = torch.finfo(dtype).eps * ((g + nu * u).abs() + (nu * u).abs())  # of d, and of u at most
    assert ((p.grad - (g + nu * u)).abs() <= rounding).all()
    assert torch.equal(p.detach(), torch.add(x, p.grad, alpha=-0.1))


@pytest.mark.parametrize("dtype", SHORT)
def test_short_and_long_weights_side_by_side(dtype: torch.dtype) -> None:
    (x, g), (w, h) = short(dtype), short(torch.float32, 40)
    p, q = nn.Parameter(x.clone()), nn.Parameter(w.clone())
    opt = SAM(SGD([p, q], lr=0.1), rho=0.5)
    p.grad, q.grad = g.clone(), h.clone()
    assert opt.probe()
    n = torch.cat([g.float(), h]).norm()
    assert torch.equal(p.detach(), (x.float() + 0.5 / n * g.float()).to(dtype))
    assert torch.allclose(q.detach(), w + 0.5 / n * h, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", SHORT)
def test_asam_of_short_weights_goes_through_float32(dtype: torch.dtype) -> None:
    x, g = short(dtype)
    p = nn.Parameter(x.clone())
    opt = ASAM(SGD([p], lr=0.1), rho=0.5, eta=0.01)
    p.grad = g.clone()
    assert opt.probe()
    T = x.double().abs() + 0.01
    s = 0.5 * T.square() * g.double() / (T * g.double()).norm()
    moved = (x.double() + s).to(dtype)
    assert (p.detach() != moved).float().mean() < 2e-3  # float32 may round the other way at a tie
    assert torch.allclose(p.detach().double(), moved.double(), rtol=2 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", SHORT)
def test_asam_of_small_short_gradients(dtype: torch.dtype) -> None:
    # T·g is 1e-7 and less: of float16 hardly a digit is left, of its square none
    x, g = torch.full((64,), 1e-3), torch.full((64,), 1e-5)
    x[0], g[0] = 0.5, 1e-6
    x, g = x.to(dtype), g.to(dtype)
    p = nn.Parameter(x.clone())
    opt = ASAM(SGD([p], lr=0.1), rho=0.05)
    p.grad = g.clone()
    assert opt.probe()
    T = x.double().abs() + 0.01
    s = 0.05 * T.square() * g.double() / (T * g.double()).norm()
    assert torch.allclose(p.detach().double(), (x.double() + s).to(dtype).double(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dtype", SHORT)
def test_norms_of_short_gradients_neither_overflow_nor_stall(dtype: torch.dtype) -> None:
    for size in (1e-6, 1.0, 300.0):  # the squares of 1e-6 and their sum of 300² × 4096 are beyond float16
        x, g = torch.ones(4096, dtype=dtype), torch.full((4096,), size, dtype=dtype)
        p = nn.Parameter(x.clone())
        opt = SAM(SGD([p], lr=0.1), rho=8.0)
        p.grad = g.clone()
        assert opt.probe()
        assert torch.allclose(p.detach().float(), torch.full((4096,), 1 + 8.0 / 64), rtol=4e-3)


def test_training_of_bfloat16_weights_is_not_the_base_alone() -> None:
    ends: list[list[Tensor]] = []
    for wrap in (lambda base: base, lambda base: SAM(base, rho=1.0), lambda base: GNP(base, rho=1.0)):
        model, x, y = network()
        model, x = model.bfloat16(), x.bfloat16()
        opt = wrap(SGD(model.parameters(), lr=0.5, momentum=0.9))

        def closure(opt: Any = opt, model: nn.Module = model, x: Tensor = x, y: Tensor = y) -> Tensor:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x).float(), y)
            loss.backward()
            return loss

        for _ in range(3):
            opt.step(closure)
        ends.append([p.detach() for p in model.parameters()])
    assert not same(ends[0], ends[1])
    assert not same(ends[1], ends[2])


# --- float64 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"nu": 0.7, "r": 0.3}, {"nu": 0.7, "rho": 0.3}, {"lam": 0.15, "probe": 0.1}]
)
def test_float64_to_its_last_digits(options: dict[str, Any]) -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(500, dtype=torch.float64, generator=rng)
    p = nn.Parameter(x.clone())
    opt = CGD(SGD([p], lr=0.1), **options, **FREE)

    def loss() -> Tensor:
        value = p.pow(4).sum() / 4
        value.backward()
        return value

    (_, (g,)), ((moved,), (plus,)) = step(opt, loss)
    n = g.norm()
    c = options.get("r", options.get("rho", 0) / n if "rho" in options else 0.1 * x.norm() / n)
    nu = options.get("nu", 2 * 0.15 / c)
    assert torch.allclose(moved, x + c * g, rtol=1e-14, atol=1e-15)
    assert torch.allclose(p.grad, g + nu * (plus - g), rtol=1e-13, atol=1e-13)
    assert torch.allclose(p.detach(), x - 0.1 * (g + nu * (plus - g)), rtol=1e-13, atol=1e-13)
