"""Both passes see the same network: running statistics of the first alone, random numbers drawn again."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from steepen.torch import CGD

torch.set_num_threads(1)  # the networks are tiny

FORMS = ["closure", "probe"]


@pytest.fixture(autouse=True)
def seeds() -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002


def cgd(network: nn.Module, **options: Any) -> CGD:
    given = {"nu": 0.5, "r": 0.1, "model": network, "replay": "all"}
    return CGD(torch.optim.SGD(network.parameters(), lr=0.1), **(given | options))


def step(model: nn.Module, opt: CGD, x: Tensor, form: str = "closure", parts: int = 1) -> None:
    """Take one step on the batch, in so many parts."""

    def both() -> None:
        for part in x.chunk(parts):
            model(part).square().mean().backward()

    def closure() -> None:
        opt.zero_grad()
        both()

    if form == "closure":
        opt.step(closure)
        return
    opt.zero_grad()
    both()
    if opt.probe():
        both()
    opt.step()


# --- running statistics ----------------------------------------------------------------------------


class Doubled(nn.Module):
    """A norm used twice in one forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.linear(self.norm(x)))


class Checkpointed(nn.Module):
    """A norm that is run again by the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(lambda y: torch.tanh(self.linear(self.norm(y))), x, use_reentrant=False)


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 6), nn.BatchNorm1d(6))
    model[1].eval()  # as when a network is fine-tuned
    return model


IMAGE, VOLUME, ROWS = (8, 3, 5, 5), (4, 3, 4, 4, 4), (8, 6)
NORMS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "1d": (lambda: nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)), ROWS),
    "1d in half": (lambda: nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)).bfloat16(), ROWS),
    "2d": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), IMAGE),
    "3d": (lambda: nn.Sequential(nn.Conv3d(3, 4, 3), nn.BatchNorm3d(4)), VOLUME),
    "momentum 0.7": (lambda: nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, momentum=0.7)), ROWS),
    "plain average": (lambda: nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, momentum=None)), ROWS),
    "not affine": (lambda: nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, affine=False)), ROWS),
    "no statistics": (
        lambda: nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, track_running_stats=False)),
        ROWS,
    ),
    "instance": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4, track_running_stats=True)),
        IMAGE,
    ),
    "instance, none": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4, affine=True)), IMAGE),
    "one in eval mode": (frozen, ROWS),
    "used twice": (Doubled, ROWS),
    "checkpointed": (Checkpointed, ROWS),
    "nested": (lambda: nn.Sequential(nn.ModuleDict({"a": Doubled()})["a"], nn.Sequential(Doubled())), ROWS),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NORMS)
def test_statistics_are_those_of_the_first_pass_alone(name: str, form: str) -> None:
    make, shape = NORMS[name]
    model = make()
    opt = cgd(model)
    for _ in range(3):
        x = torch.randn(shape).to(next(model.parameters()).dtype) + 1
        once = copy.deepcopy(model)
        once(x).square().mean().backward()
        flags = [(m.training, getattr(m, "track_running_stats", None)) for m in model.modules()]
        step(model, opt, x, form)
        for (key, one), other in zip(model.named_buffers(), once.buffers(), strict=True):
            assert torch.equal(one, other), key
        assert flags == [(m.training, getattr(m, "track_running_stats", None)) for m in model.modules()]


@pytest.mark.parametrize("name", ["1d", "2d", "plain average", "instance", "one in eval mode"])
def test_the_second_pass_normalises_as_the_first_does(name: str) -> None:
    make, shape = NORMS[name]
    model = make().double()
    opt = cgd(model, probe_max=None)
    x = torch.randn(shape).double() + 1
    params = list(model.parameters())
    literal = copy.deepcopy(model)
    others = list(literal.parameters())
    g = torch.autograd.grad(literal(x).square().mean(), others)
    with torch.no_grad():
        for p, slope in zip(others, g, strict=True):
            p.add_(0.1 * slope)
    plus = torch.autograd.grad(literal(x).square().mean(), others)
    step(model, opt, x)
    for p, one, two in zip(params, g, plus, strict=True):
        torch.testing.assert_close(p.grad, one + 0.5 * (two - one))


def test_a_norm_built_by_the_first_pass_is_found() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 6), nn.LazyBatchNorm1d())
    opt = cgd(model)
    step(model, opt, torch.randn(8, 6))
    assert model[1].num_batches_tracked == 1
    assert model[1].weight.grad is not None


@pytest.mark.parametrize("form", FORMS)
def test_in_parts_each_part_counts_once(form: str) -> None:
    model = NORMS["2d"][0]()
    opt, once = cgd(model), copy.deepcopy(model)
    x = torch.randn(IMAGE)
    for part in x.chunk(4):
        once(part)
    step(model, opt, x, form, parts=4)
    assert model[1].num_batches_tracked == 4
    for one, other in zip(model.buffers(), once.buffers(), strict=True):
        assert torch.equal(one, other)


def test_a_network_in_eval_mode_stays_so() -> None:
    model = NORMS["1d"][0]().eval()
    before = [b.clone() for b in model.buffers()]
    step(model, cgd(model, model=model), torch.randn(8, 6))
    assert not model[1].training
    assert all(torch.equal(a, b) for a, b in zip(before, model.buffers(), strict=True))


def test_steps_while_off_leave_the_statistics_to_the_forward_pass() -> None:
    model = NORMS["1d"][0]()
    opt = cgd(model, from_=9, model=model)
    step(model, opt, torch.randn(8, 6))
    assert model[1].num_batches_tracked == 1


# --- random numbers --------------------------------------------------------------------------------


class Noisy(nn.Module):
    """Every kind of chance in one forward pass; it remembers what it drew."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(6, 6), nn.Dropout(0.5)
        self.drawn: list[tuple[Tensor, Tensor, float]] = []

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.bernoulli(torch.full_like(x, 0.5))
        coin = random.random() + np.random.rand()  # noqa: NPY002
        dropped = self.drop(torch.ones_like(x))
        self.drawn.append((mask, dropped, coin))
        return self.linear(x * mask) * dropped + coin


def equal(one: tuple[Tensor, Tensor, float], other: tuple[Tensor, Tensor, float]) -> bool:
    return torch.equal(one[0], other[0]) and torch.equal(one[1], other[1]) and one[2] == other[2]


def stream() -> tuple[int, int, str]:
    """Give where the random numbers stand, in short."""
    numpy = np.random.get_state()  # noqa: NPY002
    return hash(torch.get_rng_state().numpy().tobytes()), hash(random.getstate()), str(numpy)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("form", FORMS)
def test_both_passes_draw_the_same_and_two_steps_do_not(form: str, parts: int) -> None:
    model = Noisy()
    opt = cgd(model)
    for _ in range(2):
        step(model, opt, torch.randn(8, 6), form, parts)
    drawn = model.drawn
    assert len(drawn) == 4 * parts
    assert all(equal(drawn[i], drawn[i + parts]) for i in range(parts))
    assert all(equal(drawn[i], drawn[i + parts]) for i in range(2 * parts, 3 * parts))
    assert not equal(drawn[0], drawn[2 * parts])


@pytest.mark.parametrize("form", FORMS)
def test_without_replay_they_differ(form: str) -> None:
    model = Noisy()
    step(model, cgd(model, replay=False), torch.randn(8, 6), form)
    assert not any(
        a == b if isinstance(a, float) else torch.equal(a, b) for a, b in zip(*model.drawn, strict=True)
    )


@pytest.mark.parametrize("form", FORMS)
def test_after_a_step_the_stream_is_where_one_pass_leaves_it(form: str) -> None:
    x = torch.randn(8, 6)
    model = Noisy()
    twin, before = copy.deepcopy(model), (torch.get_rng_state(), random.getstate(), np.random.get_state())  # noqa: NPY002
    twin(x)
    after = stream()
    for put, state in zip((torch.set_rng_state, random.setstate, np.random.set_state), before, strict=True):
        put(state)
    step(model, cgd(model), x, form)
    assert stream() == after


def test_a_mark_is_used_once() -> None:
    model = Noisy()
    opt = cgd(model)
    opt.zero_grad()  # the loop below clears by itself: an old mark must not turn the clock back
    x = torch.randn(8, 6)
    for _ in range(3):
        for again in (False, True):
            model.zero_grad()
            model(x).square().mean().backward()
            if not again:
                opt.probe()
        opt.step()
    firsts = model.drawn[::2]
    assert not equal(firsts[0], firsts[1])
    assert not equal(firsts[1], firsts[2])
    assert not equal(model.drawn[0], model.drawn[3])


def test_what_a_loop_draws_between_clearing_and_the_first_pass_is_not_drawn_again() -> None:
    model = Noisy()
    opt = cgd(model)
    batches: list[Tensor] = []
    opt.zero_grad()
    for _ in range(3):
        x = torch.randn(8, 6)  # data, drawn after the mark
        batches.append(x)
        model(x).square().mean().backward()
        after = stream()
        opt.probe()
        model(x).square().mean().backward()
        opt.step()
        assert stream() == after  # as after one plain pass
        opt.zero_grad()
    assert len({float(x.sum()) for x in batches}) == 3


def test_after_restore_the_stream_goes_on() -> None:
    model = Noisy()
    opt = cgd(model)
    opt.zero_grad()
    model(torch.randn(8, 6)).square().mean().backward()
    after = stream()
    opt.probe()
    opt.restore()
    assert stream() == after


def test_an_exception_in_the_second_pass_does_not_turn_the_clock_back() -> None:
    model = Noisy()
    opt = cgd(model)
    seen: list[Any] = []

    def closure() -> None:
        opt.zero_grad()
        if seen:
            raise ValueError("told to")
        model(torch.ones(8, 6)).square().mean().backward()
        seen.append(stream())

    with pytest.raises(ValueError, match="told to"):
        opt.step(closure)
    assert stream() == seen[0]


def test_steps_while_off_touch_no_random_state() -> None:
    x = torch.randn(8, 6)
    model = Noisy()
    opt = cgd(model, from_=9)
    for form in FORMS:
        step(model, opt, x, form)
    assert len(model.drawn) == 2
    assert not equal(*model.drawn)
