"""Two passes make one step: their gradients, buffers, random numbers and graphs."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.optim import SGD

from steepen.torch import CGD

torch.set_num_threads(1)  # the networks are tiny


def network(*more: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), *more, nn.Tanh(), nn.Linear(4, 1)).double()


def closure_of(opt: CGD, model: nn.Module, *, clears: bool = True) -> Any:
    x = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(8, 3)

    def closure() -> Tensor:
        if clears:
            opt.zero_grad()
        loss = (model(x) - 0.3).square().mean()
        loss.backward()
        return loss

    return closure


def test_a_gradient_added_to_the_last_one_is_refused() -> None:
    model = network()
    opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.05)
    closure = closure_of(opt, model, clears=False)
    closure()
    assert opt.probe()
    closure()
    opt.step()
    closure()  # on top of d
    with pytest.raises(RuntimeError, match="still has the gradient of the last step"):
        opt.probe()


def test_a_closure_that_never_clears_is_right_on_and_off() -> None:
    runs: list[list[Tensor]] = []
    for clears in (True, False):
        model = network()
        opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.05, until=2)
        for _ in range(5):
            opt.step(closure_of(opt, model, clears=clears))
        runs.append([p.detach() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_a_graph_of_the_first_pass_cannot_be_used_in_the_second() -> None:
    model = network()
    opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.05)
    loss = model(torch.ones(2, 3).double()).square().mean()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        opt.step(lambda: (opt.zero_grad(), loss.backward(retain_graph=True)))


def test_an_overflow_in_the_first_pass_spoils_no_buffer() -> None:
    model = nn.Sequential(spectral_norm(nn.Linear(3, 4)), nn.Tanh(), nn.Linear(4, 1)).double()
    opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    x, seen = torch.ones(4, 3, dtype=torch.float64), []

    def closure() -> Tensor:
        opt.zero_grad()
        loss = model(x).square().mean()
        seen.append(loss.item())
        factor = torch.inf if len(seen) <= 2 else 1.0
        (scaler.scale(loss) * factor).backward()
        return loss

    for _ in range(3):
        opt.step(closure, scaler=scaler)
        scaler.update()
    assert all(map(torch.isfinite, map(torch.tensor, seen)))


def test_two_optimizers_in_one_loop_turn_the_clock_back_once() -> None:
    torch.manual_seed(0)
    first, second = (nn.Sequential(nn.Linear(n, 4), nn.Dropout(0.5)).double() for n in (3, 4))
    a, b = (CGD(SGD(part.parameters(), lr=0.1), lam=0.05, model=part) for part in (first, second))
    masks: list[Tensor] = []

    def backward() -> None:
        inner = first(torch.ones(2, 3).double())
        outer = second(inner)
        masks.append(torch.cat([inner == 0, outer == 0]))
        outer.square().mean().backward()

    for _ in range(4):
        a.zero_grad()
        b.zero_grad()
        backward()
        assert a.probe()
        assert b.probe()
        backward()
        a.step()
        b.step()
    assert all(torch.equal(x, y) for x, y in zip(masks[::2], masks[1::2], strict=True))
    assert len({str(mask.tolist()) for mask in masks[::2]}) == 4


def test_a_second_pass_leaves_the_networks_of_other_threads_alone() -> None:
    mine, theirs = network(nn.BatchNorm1d(4)), network(nn.BatchNorm1d(4))
    opt = CGD(SGD(mine.parameters(), lr=0.1), lam=0.05, model=mine)
    x = torch.randn(8, 3, dtype=torch.float64)
    inner = closure_of(opt, mine)

    def closure() -> Tensor:
        thread = threading.Thread(target=theirs, args=(x,))
        thread.start()
        thread.join()
        return inner()

    for _ in range(3):
        opt.step(closure)
    assert (mine[1].num_batches_tracked.item(), theirs[1].num_batches_tracked.item()) == (3, 6)


def test_every_second_step_keeps_its_plan() -> None:
    model = network()
    opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.05, every=2, until=9)
    plans: list[Any] = []
    for _ in range(11):
        opt.step(closure_of(opt, model))
        plans.append(opt._difference._plan)
    assert len({id(plan) for plan in plans[:8]}) == 1
    assert plans[-1] is None
