"""Each published method, over several steps, against its formula written out in plain torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer, RMSprop

from steepen.torch import ASAM, CGD, EGR, FGR, GNP, SAM, USAM, WSAM

pytestmark = [
    # the exact mode asks for such a backward pass; torch.func.jvp calls what torch itself deprecates
    pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True"),
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated"),
]

torch.set_num_threads(1)
Tensors = Sequence[Tensor]
X = torch.randn(16, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.randn(16, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

BASES: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda ps: SGD(ps, lr=0.1),
    "momentum": lambda ps: SGD(ps, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01, foreach=False),
    "momentum-foreach": lambda ps: SGD(ps, lr=0.05, momentum=0.9, dampening=0.1, foreach=True),
    "momentum-fused": lambda ps: SGD(ps, lr=0.05, momentum=0.9, fused=True),
    "adamw": lambda ps: AdamW(ps, lr=0.01, foreach=False),
    "adamw-foreach": lambda ps: AdamW(ps, lr=0.01, amsgrad=True, foreach=True),
    "adamw-fused": lambda ps: AdamW(ps, lr=0.01, fused=True),
    "rmsprop": lambda ps: RMSprop(ps, lr=0.01, momentum=0.5),
}


def weights() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 5), (5,), (5, 2), (2,)]
    return [
        nn.Parameter(torch.randn(shape, dtype=torch.float64, generator=generator) / 2) for shape in shapes
    ]


def loss(xs: Tensors) -> Tensor:
    a, b, c, d = xs
    return (torch.tanh(X @ a + b) @ c + d - Y).square().mean() * 3


def gradient(xs: Tensors) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in xs]
    return list(torch.autograd.grad(loss(leaves), leaves))


def norm(xs: Tensors) -> float:
    total = 0.0
    for x in xs:
        for value in x.flatten().tolist():
            total += value**2
    return total**0.5


# --- the formulas, as published -------------------------------------------------------------------------


def sam(xs: Tensors, rho: float) -> list[Tensor]:
    g = gradient(xs)
    n = norm(g)
    return gradient([x + rho * gi / n for x, gi in zip(xs, g, strict=True)])


def usam(xs: Tensors, rho: float) -> list[Tensor]:
    return gradient([x + rho * gi for x, gi in zip(xs, gradient(xs), strict=True)])


def gnp(xs: Tensors, rho: float, alpha: float) -> list[Tensor]:
    g, away = gradient(xs), sam(xs, rho)
    return [(1 - alpha) * gi + alpha * ai for gi, ai in zip(g, away, strict=True)]


def wsam(xs: Tensors, rho: float, gamma: float) -> list[Tensor]:
    g, away = gradient(xs), sam(xs, rho)
    pairs = zip(g, away, strict=True)
    return [(1 - 2 * gamma) / (1 - gamma) * gi + gamma / (1 - gamma) * ai for gi, ai in pairs]


def asam(xs: Tensors, rho: float, eta: float) -> list[Tensor]:
    g = gradient(xs)
    T = [x.abs() + eta for x in xs]
    n = norm([t * gi for t, gi in zip(T, g, strict=True)])
    return gradient([x + rho * t * t * gi / n for x, t, gi in zip(xs, T, g, strict=True)])


def fgr(xs: Tensors, eps: float, gamma: float) -> list[Tensor]:
    g = gradient(xs)
    ahead = gradient([x + eps * gi for x, gi in zip(xs, g, strict=True)])
    return [gi + gamma * (ai - gi) / eps for gi, ai in zip(g, ahead, strict=True)]


def egr(xs: Tensors, lam: float) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in xs]
    g = torch.autograd.grad(loss(leaves), leaves, create_graph=True)
    penalised = loss(leaves) + lam * sum(gi.square().sum() for gi in g)
    return list(torch.autograd.grad(penalised, leaves))


def egr_func(xs: Tensors, lam: float) -> list[Tensor]:
    """The same by forward over reverse, which shares no code with a double backward pass."""
    point = tuple(x.detach() for x in xs)
    slope = torch.func.grad(lambda *at: loss(at), argnums=(0, 1, 2, 3))
    g, Hg = torch.func.jvp(slope, point, slope(*point))
    return [gi + 2 * lam * hi for gi, hi in zip(g, Hg, strict=True)]


def cgd_fd(xs: Tensors, lam: float, r: float) -> list[Tensor]:
    """The paper's CGD-FD: g + 2λ·(∇f(x + r·g) − g)/r."""
    return fgr(xs, r, 2 * lam)


def cgd(xs: Tensors, lam: float) -> list[Tensor]:
    """Ours as it comes: the probe as short as is accurate, unless ν had to pass 1; never above a tenth."""
    g = gradient(xs)
    relative = norm(xs) / norm(g)
    c = min(max(1e-6 * relative, 2 * abs(lam)), 0.1 * relative)
    nu = max(-1.0, min(2 * lam / c, 1.0))
    ahead = gradient([x + c * gi for x, gi in zip(xs, g, strict=True)])
    return guarded(g, [gi + nu * (ai - gi) for gi, ai in zip(g, ahead, strict=True)])


def guarded(g: Tensors, d: Tensors) -> list[Tensor]:
    """What descends f, and if d does not, the gradient."""
    return list(d if sum((gi * di).sum().item() for gi, di in zip(g, d, strict=True)) > 0 else g)


METHODS: dict[str, tuple[Callable[[Optimizer], CGD], Callable[[Tensors], list[Tensor]]]] = {
    "sam": (lambda base: SAM(base, rho=0.3), lambda xs: sam(xs, 0.3)),
    "sam as it comes": (SAM, lambda xs: sam(xs, 0.05)),
    "usam": (lambda base: USAM(base, rho=0.2), lambda xs: usam(xs, 0.2)),
    "gnp": (lambda base: GNP(base, rho=0.3, alpha=0.6), lambda xs: gnp(xs, 0.3, 0.6)),
    "wsam": (lambda base: WSAM(base, rho=0.1, gamma=0.7), lambda xs: wsam(xs, 0.1, 0.7)),
    "asam as davda54 has it": (lambda base: ASAM(base, rho=0.7, eta=0), lambda xs: asam(xs, 0.7, 0.0)),
    "asam": (lambda base: ASAM(base, rho=0.7, eta=0.05), lambda xs: asam(xs, 0.7, 0.05)),
    "asam as it comes": (ASAM, lambda xs: asam(xs, 0.5, 0.01)),
    "fgr": (lambda base: FGR(base, eps=0.1, gamma=0.25), lambda xs: fgr(xs, 0.1, 0.25)),
    "egr": (lambda base: EGR(base, lam=0.06), lambda xs: egr(xs, 0.06)),
    "egr by torch.func": (lambda base: EGR(base, lam=0.06), lambda xs: egr_func(xs, 0.06)),
    "cgd-fd": (
        lambda base: CGD(base, lam=0.2, r=0.1, nu_max=None, probe_max=None, on_guard="off"),
        lambda xs: cgd_fd(xs, 0.2, 0.1),
    ),
    "cgd": (lambda base: CGD(base, lam=0.05), lambda xs: cgd(xs, 0.05)),
    "cgd, negative": (lambda base: CGD(base, lam=-0.05), lambda xs: cgd(xs, -0.05)),
    "cgd, probe at its limit": (lambda base: CGD(base, lam=0.6), lambda xs: cgd(xs, 0.6)),
    "cgd, guard tripping": (
        lambda base: CGD(base, lam=-0.1, r=0.05, nu_max=None, probe_max=None),
        lambda xs: guarded(gradient(xs), cgd_fd(xs, -0.1, 0.05)),
    ),
    "cgd, short probe": (lambda base: CGD(base, lam=1e-8), lambda xs: cgd(xs, 1e-8)),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("method", METHODS)
def test_equals_the_published_formula(method: str, base: str) -> None:
    make, formula = METHODS[method]
    ours, theirs = weights(), weights()
    opt, reference = make(BASES[base](ours)), BASES[base](theirs)

    def closure() -> Tensor:
        opt.zero_grad()
        value = loss(ours)
        value.backward(create_graph=opt.exact)
        return value

    for _ in range(5):
        before = loss(theirs).item()
        for p, d in zip(theirs, formula(theirs), strict=True):
            p.grad = d
        reference.step()
        assert opt.step(closure).item() == pytest.approx(before, rel=1e-9)
        for p, q in zip(ours, theirs, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)
    if "tripping" in method:
        assert opt.diagnostics is not None
        assert 0 < opt.diagnostics.guard_rate < 1  # else the case is not the one it says it is


@pytest.mark.parametrize("preset", [SAM, USAM, GNP, ASAM, FGR])
def test_differs_from_the_base_alone(preset: type[CGD]) -> None:
    ours, theirs = weights(), weights()
    opt, base = preset(SGD(ours, lr=0.1)), SGD(theirs, lr=0.1)

    def closure() -> Tensor:
        opt.zero_grad()
        value = loss(ours)
        value.backward()
        return value

    opt.step(closure)
    loss(theirs).backward()
    base.step()
    assert norm([p - q for p, q in zip(ours, theirs, strict=True)]) > 1e-4


def test_presets_take_the_options_of_cgd() -> None:
    p = nn.Parameter(torch.tensor([1.0]))
    opt = SAM(SGD([p], lr=0.1), rho=0.1, warmup=1, on_guard="stop", patience=3, probe_max=0.5)
    assert not opt.active
    assert (opt.guard.on_guard, opt.guard.patience, opt.family.probe_max) == ("stop", 3, 0.5)
    plain = SAM(SGD([p], lr=0.1))
    assert (plain.guard.on_guard, plain.family.probe_max) == ("off", torch.inf)
