"""When the penalty is on, what that costs, and that an off step is the base's own, bit for bit."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from steepen.torch import CGD, SAM

torch.set_num_threads(1)
STEPS = 12


class Counting(nn.Linear):
    """A model that counts its evaluations."""

    def __init__(self) -> None:
        super().__init__(3, 2)
        self.calls = 0

    def forward(self, input: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(input)


def train(model: nn.Module, opt: Optimizer, steps: int = STEPS, start: int = 0) -> list[Tensor]:
    """Take steps, each on its own batch; give all the weights on the way."""
    weights: list[Tensor] = []
    for k in range(start, start + steps):
        rng = torch.Generator().manual_seed(k)
        x, y = torch.randn(8, 3, generator=rng), torch.randn(8, 2, generator=rng)

        def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        opt.step(closure)
        weights.append(nn.utils.parameters_to_vector(model.parameters()).detach().clone())
    return weights


def network() -> Counting:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Counting()


def covered(**options: Any) -> list[int]:
    """Give the steps that took two evaluations."""
    model = network()
    opt = CGD(SGD(model.parameters(), lr=0.01), lam=0.05, **options)
    active: list[int] = []
    for k in range(STEPS):
        said, before = opt.active, model.calls
        train(model, opt, 1, k)
        assert model.calls - before == (2 if said else 1)
        if said:
            active.append(k)
    assert model.calls == STEPS + len(active)
    return active


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, range(12)),
        ({"phase": "full"}, range(12)),
        ({"phase": "full", "warmup": 3}, range(3, 12)),
        ({"phase": "early", "steps": 12}, range(3)),
        ({"phase": "early", "steps": 12, "fraction": 0.5}, range(6)),
        ({"phase": "early", "steps": 12, "fraction": 1.0}, range(12)),
        ({"phase": "early", "steps": 12, "warmup": 4}, range(4, 6)),
        ({"phase": "late", "steps": 12}, range(9, 12)),
        ({"phase": "late", "steps": 12, "fraction": 0.5}, range(6, 12)),
        ({"phase": "late", "steps": 12, "fraction": 1}, range(12)),
        ({"phase": "late", "steps": 12, "fraction": 0.5, "warmup": 8}, range(8, 12)),
        ({"phase": "late", "steps": 10, "fraction": 0.2}, range(8, 12)),  # and on, in a longer training
        ({"from_": 5}, range(5, 12)),
        ({"until": 5}, range(5)),
        ({"from_": 2, "until": 7}, range(2, 7)),
        ({"from_": 2, "until": 7, "warmup": 4}, range(4, 7)),
        ({"from_": 0, "until": 1}, range(1)),
        ({"every": 4}, range(0, 12, 4)),
        ({"every": 4, "warmup": 2}, range(2, 12, 4)),
        ({"from_": 1, "until": 9, "every": 3}, range(1, 9, 3)),
        ({"phase": "late", "steps": 12, "fraction": 0.5, "every": 2}, range(6, 12, 2)),
        ({"phase": "early", "steps": 12, "fraction": 0.75, "every": 5}, range(0, 9, 5)),
    ],
)
def test_the_steps_with_two_evaluations(options: dict[str, Any], steps: range) -> None:
    assert covered(**options) == list(steps)


@given(
    st.sampled_from(["full", "early", "late", "range"]),
    st.floats(0.01, 1),
    st.integers(1, 60),
    st.integers(0, 30),
    st.integers(1, 7),
    st.one_of(st.none(), st.integers(0, 60)),
    st.one_of(st.none(), st.integers(1, 60)),
)
@settings(max_examples=150, deadline=None)
def test_any_setting_covers_what_it_says(
    kind: Any, fraction: float, steps: int, warmup: int, every: int, from_: int | None, until: int | None
) -> None:
    assume(warmup < steps)
    options: dict[str, Any] = {"every": every, "warmup": warmup, "steps": steps}
    if kind == "range":
        assume(until is None or until > max(from_ or 0, warmup))
        assume((from_ or 0) < steps or (from_ is None and until is None))
        options |= {"from_": from_, "until": until}
        wanted = [k for k in range(steps) if (from_ or 0) <= k and (until is None or k < until)]
    else:
        options |= {"phase": kind, "fraction": fraction}
        share = {"full": steps, "early": fraction * (steps - warmup), "late": fraction * steps}[kind]
        assume(abs(share % 1 - 0.5) > 1e-9)  # a half may go either way
        assume(share > 0.5)  # less than a step is refused
        wanted = list(range(steps))
        if kind == "early":
            wanted = wanted[warmup:][: int(share + 0.5)]
        elif kind == "late":
            wanted = wanted[steps - int(share + 0.5) :]
    wanted = [k for k in wanted if k >= warmup][::every]
    opt = CGD(SGD([nn.Parameter(torch.ones(1))], lr=0.1), lam=0.1, **options)
    active: list[int] = []
    for k in range(steps):
        opt.k = k
        if opt.active:
            active.append(k)
    assert active == wanted


BASES: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda ps: SGD(ps, lr=0.05),
    "momentum": lambda ps: SGD(ps, lr=0.05, momentum=0.9, weight_decay=0.1, foreach=True),
    "momentum-fused": lambda ps: SGD(ps, lr=0.05, momentum=0.9, fused=True),
    "adamw": lambda ps: AdamW(ps, lr=0.05, foreach=True),
    "adamw-fused": lambda ps: AdamW(ps, lr=0.05, fused=True),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("make", [lambda b, **o: CGD(b, lam=0.05, **o), SAM])
def test_off_steps_are_the_base_alone(base: str, make: Callable[..., CGD]) -> None:
    model, bare = network(), network()
    opt = make(BASES[base](model.parameters()), from_=4, until=7)
    alone = BASES[base](bare.parameters())
    before, expected = train(model, opt, 4), train(bare, alone, 4)
    assert all(torch.equal(a, b) for a, b in zip(before, expected, strict=True))  # before it begins
    during, expected = train(model, opt, 3, 4), train(bare, alone, 3, 4)
    assert not any(torch.equal(a, b) for a, b in zip(during, expected, strict=True))
    bare.load_state_dict(model.state_dict())
    alone.load_state_dict(copy.deepcopy(opt.base.state_dict()))  # torch would share the buffers
    after, expected = train(model, opt, 5, 7), train(bare, alone, 5, 7)
    assert all(torch.equal(a, b) for a, b in zip(after, expected, strict=True))  # and once it is over


@pytest.mark.parametrize("options", [{"lam": 0.0}, {"lam": 0.1, "from_": 99}, {"lam": 0.1, "warmup": 99}])
def test_off_from_beginning_to_end(options: dict[str, Any]) -> None:
    model, bare = network(), network()
    ours = train(model, CGD(BASES["adamw"](model.parameters()), **options))
    theirs = train(bare, BASES["adamw"](bare.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert model.calls == bare.calls == STEPS


def test_every_other_step_is_a_step_of_the_base() -> None:
    model, bare = network(), network()
    opt, alone = CGD(SGD(model.parameters(), lr=0.05), lam=0.05, every=2), SGD(bare.parameters(), lr=0.05)
    for k in range(6):
        bare.load_state_dict(model.state_dict())
        (ours,), (theirs,) = train(model, opt, 1, k), train(bare, alone, 1, k)
        assert torch.equal(ours, theirs) == (k % 2 == 1)


# --- memory ---------------------------------------------------------------------------------------------

SIDE = 300


def live() -> float:
    """Give the memory of all tensors there are, in copies of the weights."""
    storages = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
        for t in gc.get_objects()
        if type(t) in (Tensor, nn.Parameter) and t.layout is torch.strided
    }
    return sum(storages.values()) / (2 * SIDE * SIDE * 4)


@pytest.mark.parametrize("options", [{"until": 3}, {"on_guard": "stop"}, {"lam": lambda k: 0.05 * (k < 3)}])
def test_at_most_two_copies_while_on_and_none_once_off(options: dict[str, Any]) -> None:
    model = nn.Sequential(nn.Linear(SIDE, SIDE, bias=False), nn.Linear(SIDE, SIDE, bias=False))
    opt = CGD(SGD(model.parameters(), lr=1e-3), **{"lam": 0.05} | options)
    x = torch.randn(4, SIDE, generator=torch.Generator().manual_seed(0))
    sign = [1.0]
    inside: list[float] = []

    def closure() -> Tensor:
        opt.zero_grad()
        loss = sign[0] * model(x).square().mean()
        loss.backward()
        grads = [p.grad for p in model.parameters()]  # Python must hold them to see them
        inside.append(live() - start)
        assert len(grads) == 2
        return loss

    gc.collect()
    start = live()  # the weights and little else
    for _ in range(3):
        assert opt.active
        opt.step(closure)
    assert max(inside) < 1 + 2 + 0.1  # the gradient, and at most two copies
    assert live() - start < 1 + 2 + 0.1
    if options.get("on_guard") == "stop":
        sign[0] = -1e6  # all curvature is negative now
        opt.step(closure)
    assert not opt.active
    opt.step(closure)
    assert live() - start < 1 + 0.01  # the gradient alone
    assert inside[-1] < 1 + 0.01


def test_a_copy_of_the_optimizer_keeps_its_place() -> None:
    model = network()
    opt = CGD(SGD(model.parameters(), lr=0.05), lam=0.05, from_=2, until=5)
    train(model, opt, 3)
    twin_model, twin = copy.deepcopy((model, opt))
    for ours, theirs in zip(train(model, opt, 4, 3), train(twin_model, twin, 4, 3), strict=True):
        assert torch.equal(ours, theirs)
    assert opt.k == twin.k == 7


def test_after_the_last_penalised_step_nothing_listens() -> None:
    """Hooks cost more than all else in a step that is off; a state of before brings them back."""
    net = torch.nn.Linear(3, 1)
    x = torch.ones(4, 3)
    opt = CGD(torch.optim.SGD(net.parameters(), lr=0.1), lam=0.1, until=2, model=net)
    early = copy.deepcopy(opt.state_dict())

    def closure() -> torch.Tensor:
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    def hooks() -> int:
        return len(net._forward_pre_hooks) + sum(
            len(p._post_accumulate_grad_hooks or ()) for p in net.parameters()
        )

    before = hooks()
    assert before == 3
    for _ in range(3):
        opt.step(closure)
    assert hooks() == 0
    opt.load_state_dict(early)
    assert hooks() == before
    opt.step(closure)
    assert opt.diagnostics is not None
