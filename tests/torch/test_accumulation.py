"""Gradients of many parts, and the order: accumulate, form d, clip d, step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, AdamW

from steepen.torch import CGD

torch.set_num_threads(1)  # the networks are tiny

X, Y = torch.randn(2, 24, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
FORMS = ["closure", "probe"]
FAMILY: dict[str, Any] = {"nu": 0.8, "r": 0.1, "probe_max": None}


class Run:
    """A network trained in `parts` equal parts of the batch."""

    def __init__(self, parts: int = 1, base: Any = None, **options: Any) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)).double()
        make = base or (lambda p: SGD(p, lr=0.1, momentum=0.9))
        self.opt = CGD(make(self.model.parameters()), **(FAMILY | options))
        self.parts, self.calls = parts, 0

    def backward(self) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        for x, y in zip(X.chunk(self.parts), Y.chunk(self.parts), strict=True):
            loss = (self.model(x) - y).square().mean() / self.parts
            loss.backward()
            total += loss.detach()
            self.calls += 1
        return total

    def closure(self) -> Tensor:
        self.opt.zero_grad()
        return self.backward()

    def step(self, form: str = "closure") -> Tensor:
        if form == "closure":
            return self.opt.step(self.closure)
        self.opt.zero_grad()
        loss = self.backward()
        if self.opt.probe():
            self.backward()
        self.opt.step()
        return loss

    def weights(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.model.parameters()]

    def gradient(self) -> list[Tensor]:
        """Give the gradient of the whole batch here, leaving no trace."""
        loss = (self.model(X) - Y).square().mean()
        return list(torch.autograd.grad(loss, list(self.model.parameters())))

    def d(self) -> list[Tensor]:
        """Give d as the formula reads."""
        x, g = self.weights(), self.gradient()
        with torch.no_grad():
            for p, slope in zip(self.model.parameters(), g, strict=True):
                p.add_(0.1 * slope)
        plus = self.gradient()
        with torch.no_grad():
            for p, before in zip(self.model.parameters(), x, strict=True):
                p.copy_(before)
        return [a + 0.8 * (b - a) for a, b in zip(g, plus, strict=True)]


def norm(tensors: list[Tensor]) -> Tensor:
    return torch.stack([t.square().sum() for t in tensors]).sum().sqrt()


@pytest.mark.parametrize("parts", [2, 3, 8])
@pytest.mark.parametrize("form", FORMS)
def test_parts_equal_the_whole(form: str, parts: int) -> None:
    whole, split = Run(), Run(parts)
    for _ in range(4):
        torch.testing.assert_close(split.step(form), whole.step(form))
    assert split.calls == 4 * 2 * parts
    torch.testing.assert_close(split.weights(), whole.weights(), rtol=1e-11, atol=1e-12)


def test_both_forms_are_equal_bit_for_bit_in_parts() -> None:
    closed, probed = Run(3), Run(3)
    for _ in range(4):
        closed.step("closure")
        probed.step("probe")
    assert all(torch.equal(a, b) for a, b in zip(closed.weights(), probed.weights(), strict=True))


@pytest.mark.parametrize("max_norm", [1e-3, 0.1, 1e3])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize(
    "base", [lambda p: SGD(p, lr=0.1, momentum=0.9), lambda p: AdamW(p, lr=0.01)], ids=["sgd", "adamw"]
)
def test_d_is_clipped_and_not_g(base: Any, parts: int, form: str, max_norm: float) -> None:
    ours, literal = Run(parts, base, max_norm=max_norm), Run(1, base)
    for _ in range(4):
        ours.step(form)
        for p, d in zip(literal.model.parameters(), literal.d(), strict=True):
            p.grad = d
        clip_grad_norm_(literal.model.parameters(), max_norm)
        literal.opt.base.step()
        torch.testing.assert_close(ours.weights(), literal.weights(), rtol=1e-9, atol=1e-11)


def test_what_the_base_gets_has_the_norm_asked_for_and_the_probe_is_not_shortened() -> None:
    run = Run(base=lambda p: SGD(p, lr=1.0), max_norm=0.01)
    before, d = run.weights(), run.d()
    run.step()
    moved = [b - a for a, b in zip(run.weights(), before, strict=True)]
    torch.testing.assert_close(norm(moved), torch.tensor(0.01).double(), rtol=1e-4, atol=0)
    length = norm(d)
    torch.testing.assert_close(moved, [0.01 * part / length for part in d], rtol=1e-4, atol=1e-9)
    torch.testing.assert_close(run.opt.diagnostics.gradient_norm, norm(Run().gradient()))


@pytest.mark.parametrize("form", FORMS)
def test_while_off_g_is_clipped_as_the_base_alone_would_be(form: str) -> None:
    ours, plain = Run(max_norm=0.01, from_=9), Run()
    for _ in range(3):
        loss = ours.step(form)
        assert torch.equal(loss, plain.closure())
        clip_grad_norm_(plain.model.parameters(), 0.01)
        plain.opt.base.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.weights(), plain.weights(), strict=True))


@pytest.mark.parametrize("form", FORMS)
def test_where_the_guard_says_g_it_is_g_that_is_clipped(form: str) -> None:
    ours, plain = Run(max_norm=0.01, nu=-1e6, nu_max=None), Run()
    ours.step(form)
    plain.closure()
    clip_grad_norm_(plain.model.parameters(), 0.01)
    plain.opt.base.step()
    assert ours.opt.diagnostics.guard_rate == 1
    assert all(torch.equal(a, b) for a, b in zip(ours.weights(), plain.weights(), strict=True))


def test_clipping_is_over_all_groups_at_once() -> None:
    run = Run(max_norm=0.01, base=lambda p: SGD([{"params": [q]} for q in p], lr=1.0))
    before = run.weights()
    run.step()
    moved = [b - a for a, b in zip(run.weights(), before, strict=True)]
    torch.testing.assert_close(norm(moved), torch.tensor(0.01).double(), rtol=1e-4, atol=0)
