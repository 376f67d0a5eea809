"""Parameters of every layout, tied, frozen, or reached by some passes only: the step is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from steepen.torch import CGD

from .test_bad_input import descend

torch.set_num_threads(1)  # the networks are tiny

FORMS = ["closure", "probe"]


def by_hand(
    model: nn.Module, base: Optimizer, loss: Callable[[], Tensor], r: float = 0.1, nu: float = 0.5
) -> None:
    """Take the step as the formula reads; a gradient of None is zero."""
    params = list(model.parameters())
    trained = [p for p in params if p.requires_grad]
    g = torch.autograd.grad(loss(), trained, allow_unused=True, materialize_grads=True)
    x = [p.detach().clone() for p in trained]
    with torch.no_grad():
        for p, slope in zip(trained, g, strict=True):
            p.add_(r * slope)
    plus = torch.autograd.grad(loss(), trained, allow_unused=True, materialize_grads=True)
    with torch.no_grad():
        for p, before, one, two in zip(trained, x, g, plus, strict=True):
            p.copy_(before)
            p.grad = one + nu * (two - one)
    base.step()


class Strided(nn.Module):
    """Weights of every layout; contiguous ones of the same numbers, where told so."""

    def __init__(self, plain: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        layouts = {
            "columns": torch.randn(4, 12).double()[:, ::2],
            "rows": torch.randn(12, 6).double()[::3],
            "transposed": torch.randn(6, 4).double().t(),
            "permuted": torch.randn(2, 4, 3).double().permute(1, 0, 2).reshape(4, 6),
            "offset": torch.randn(30).double()[6:].view(4, 6),
            "last": torch.randn(4, 3, 2, 2).double().contiguous(memory_format=torch.channels_last),
            "one": torch.randn(4, 3, 1, 1).double().contiguous(memory_format=torch.channels_last),
            "scalar": torch.randn(()).double(),
            "empty": torch.randn(0, 3).double(),
        }
        for name, value in layouts.items():
            setattr(
                self,
                name,
                nn.Parameter(value.clone(memory_format=torch.contiguous_format) if plain else value),
            )

    def loss(self) -> Tensor:
        mixed = torch.tanh(self.columns + self.rows * self.transposed) * self.permuted * self.offset
        image = torch.ones(2, 3, 4, 4).double()
        conv = torch.conv2d(image, self.last).square().mean() + torch.conv2d(image, self.one).tanh().mean()
        return mixed.square().sum() + conv + self.scalar.sin() + self.empty.sin().sum()


OPTIONS: dict[str, dict[str, Any]] = {
    "difference": {"r": 0.1, "nu": 0.5},
    "lam": {"lam": 0.05},
    "asam": {"rho": 0.1, "nu": 1.0, "eta": 0.01},
    "groups": {"lam": 0.05, "groups": True},
    "exact": {"lam": 0.05, "mode": "exact"},
}


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    "make",
    [lambda p: SGD(p, lr=0.1, momentum=0.9), lambda p: AdamW(p, lr=0.01)],
    ids=["sgd", "adamw"],
)
def test_the_layout_of_a_parameter_does_not_matter(make: Any, options: str) -> None:
    models = Strided(plain=True), Strided(plain=False)
    given = dict(OPTIONS[options])
    grouped = given.pop("groups", False)
    for model in models:
        params = list(model.parameters())
        groups = [{"params": [p], "lam": 0.01 * i} for i, p in enumerate(params)] if grouped else params
        opt = CGD(make(groups), **given)
        strides = [p.stride() for p in params]
        for _ in range(3):
            opt.step(lambda m=model, o=opt: (o.zero_grad(), m.loss().backward(create_graph=o.exact)))
        assert strides == [p.stride() for p in params]
    left, right = ([p.detach().contiguous() for p in model.parameters()] for model in models)
    torch.testing.assert_close(left, right, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("eta", [None, 0.01])
def test_the_layout_may_change_on_the_way(eta: float | None) -> None:
    models = [nn.Conv2d(3, 4, 3).double(), nn.Conv2d(3, 4, 3).double()]
    models[1].load_state_dict(models[0].state_dict())
    x = torch.randn(2, 3, 6, 6).double()
    for model in models:
        opt = CGD(SGD(model.parameters(), lr=0.1), r=0.1, nu=0.5, eta=eta)
        for k in range(6):
            if k == 2 and model is models[1]:
                model.to(memory_format=torch.channels_last)
            if k == 4 and model is models[1]:
                wide = torch.zeros(4, 3, 3, 6).double()
                wide[..., ::2] = model.weight.data
                model.weight.data = wide[..., ::2]
            descend(opt, lambda m=model: m(x).tanh().square().sum())
    torch.testing.assert_close(models[0].weight, models[1].weight.contiguous(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_a_restore_is_exact_whatever_the_layout(form: str) -> None:
    model = Strided(plain=False).float()
    before = [p.detach().clone() for p in model.parameters()]
    opt = CGD(SGD(model.parameters(), lr=0.0), r=0.3, nu=0.5)
    for p in model.parameters():
        p.requires_grad_(True)
    descend(opt, lambda: sum(p.square().sum() for p in model.parameters()), form)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


class Branches(nn.Module):
    """Four layers: one frozen, one tied, and a branch for each pass."""

    def __init__(self, reached: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.first, self.second, self.frozen, self.never = (
            nn.Linear(4, 4).double() for _ in range(5)
        )
        self.tied = nn.Linear(4, 4, bias=False).double()
        self.tied.weight = self.body.weight
        self.frozen.requires_grad_(False)
        self.reached, self.passes = reached, 0

    def loss(self) -> Tensor:
        x = self.tied(torch.tanh(self.frozen(self.body(torch.eye(4).double()))))
        self.passes += 1
        if self.reached in ("both", "first") and (self.reached == "both" or self.passes % 2):
            x = x + self.first(x)
        if self.reached == "both" or (self.reached == "second" and self.passes % 2 == 0):
            x = x + self.second(x)
        return x.square().sum()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reached", ["both", "first", "second", "none"])
def test_parameters_that_only_some_passes_reach(reached: str, form: str) -> None:
    ours, literal = Branches(reached), Branches(reached)
    opt = CGD(SGD(ours.parameters(), lr=0.01), r=0.1, nu=0.5, probe_max=None)
    base = SGD(literal.parameters(), lr=0.01)
    for _ in range(3):
        descend(opt, ours.loss, form)
        by_hand(literal, base, literal.loss)
    for (name, one), other in zip(ours.named_parameters(), literal.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12, msg=name)
    assert ours.never.weight.grad is None
    assert ours.frozen.weight.grad is None
