"""A base that is wrapped: its groups and their values, its state, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from steepen.torch import CGD, FGR, SAM

torch.set_num_threads(1)  # the networks are tiny


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def closure_of(opt: CGD, model: nn.Module) -> Any:
    x = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(8, 3)

    def closure() -> Tensor:
        opt.zero_grad()
        loss = (model(x) - 0.3).square().mean()
        loss.backward()
        return loss

    return closure


@pytest.mark.parametrize("make", [CGD, SAM])
def test_a_base_wrapped_again_has_the_new_value(make: Any) -> None:
    model = network()
    base = SGD(model.parameters(), lr=0.1)
    key = "lam" if make is CGD else "rho"
    make(base, **{key: 0.01})
    assert make(base, **{key: 0.02}).param_groups[0][key] == 0.02


def test_a_group_has_its_own_value_also_when_wrapped_again() -> None:
    model = network()
    base = SGD([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lam": 0.3}], lr=0.1)
    CGD(base, lam=0.01)
    assert [group["lam"] for group in CGD(base, lam=0.02).param_groups] == [0.02, 0.3]


@pytest.mark.parametrize("wrong", [{"lam": "much"}, {"params": [nn.Parameter(torch.ones(1) * 1j)]}])
def test_a_base_that_is_refused_keeps_all_its_groups(wrong: dict[str, Any]) -> None:
    model = network()
    base = SGD([{"params": model[0].parameters()}, {"params": model[2].parameters()} | wrong], lr=0.1)
    with pytest.raises((TypeError, ValueError)):
        CGD(base, lam=0.05)
    assert len(base.param_groups) == 2


def test_a_preset_can_be_pickled() -> None:
    pickle.dumps(FGR(SGD(network().parameters(), lr=0.1)))


def test_a_learning_rate_may_be_a_tensor() -> None:
    model = network()
    opt = CGD(Adam(model.parameters(), lr=torch.tensor([0.01])), lam=0.05)
    opt.step(closure_of(opt, model))
    assert opt.diagnostics.read()["lam_over_implicit"] > 0


def test_a_state_that_is_not_ours_is_refused() -> None:
    opt = CGD(SGD(network().parameters(), lr=0.1), lam=0.05)
    for state in ({}, {"cgd": {}}, {"cgd": 5}):
        with pytest.raises(ValueError, match="state_dict: expected one of CGD"):
            opt.load_state_dict(state)
    with pytest.raises(TypeError, match="state_dict: expected what state_dict"):
        opt.load_state_dict(None)


def test_a_value_of_a_group_that_becomes_nan_is_refused() -> None:
    model = network()
    opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.05)
    opt.param_groups[0]["lam"] = float("nan")
    with pytest.raises(ValueError, match="lam: expected a finite number for the group, got nan"):
        opt.step(closure_of(opt, model))


def test_parameters_without_memory_are_refused() -> None:
    bare = CGD(SGD(nn.Linear(2, 2, device="meta").parameters(), lr=0.1), lam=0.05)
    with pytest.raises(ValueError, match=r"base: .*meta"):
        bare.step(lambda: None)
