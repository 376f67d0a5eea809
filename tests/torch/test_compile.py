"""`torch.compile` around the network: the same numbers, one graph, and not a word with `model`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.optim import SGD, AdamW

from steepen.torch import CGD

torch.set_num_threads(1)  # the networks are tiny

X, Y = torch.randn(2, 16, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
STEPS = 6


class Block(nn.Module):
    """Everything that the second pass must leave alone."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(4, 6), nn.Dropout(0.3)
        self.norm = nn.BatchNorm1d(6) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(torch.tanh(self.norm(self.linear(x))))


class Net(nn.Module):
    """A block and a head."""

    def __init__(self, norm: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.block, self.head = Block(norm), nn.Linear(6, 4)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(x))


def whole(net: Net) -> Callable[[Tensor], Tensor]:
    return torch.compile(net, backend="aot_eager")


def in_place(net: Net) -> Callable[[Tensor], Tensor]:
    net.compile(backend="aot_eager")
    return net


def function(net: Net) -> Callable[[Tensor], Tensor]:
    return torch.compile(lambda x: net(x), backend="aot_eager")


def block(net: Net) -> Callable[[Tensor], Tensor]:
    net.block.compile(backend="aot_eager")
    return net


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()
    counters.clear()


def train(
    net: Net, run: Callable[[Tensor], Tensor], form: str = "closure", base: Any = SGD, **options: Any
) -> list[int]:
    """Take the steps, and give how many graphs there were after each."""
    opt = CGD(base(net.parameters(), lr=0.05), **({"lam": 0.05} | options))
    torch.manual_seed(1)
    graphs: list[int] = []

    def backward() -> Tensor:
        loss = (run(X) - Y).square().mean()
        loss.backward()
        return loss

    for _ in range(STEPS):
        if form == "closure":
            opt.step(lambda: (opt.zero_grad(), backward())[1])
        else:
            opt.zero_grad()
            backward()
            if opt.probe():
                backward()
            opt.step()
        graphs.append(counters["stats"]["unique_graphs"])
    return graphs


def same(left: nn.Module, right: nn.Module) -> None:
    """Hold that weights and statistics are equal."""
    for (name, one), other in zip(left.state_dict().items(), right.state_dict().values(), strict=True):
        torch.testing.assert_close(
            one, other, rtol=1e-12, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize(
    ("how", "form"),
    [(whole, "closure"), (whole, "probe"), (in_place, "closure"), (function, "closure"), (block, "closure")],
)
def test_with_model_given_it_equals_eager_without_a_word(how: Any, form: str) -> None:
    eager, compiled = Net(), Net()
    train(eager, eager, form, model=eager)
    graphs = train(compiled, how(compiled), form, model=compiled)  # pytest takes warnings for errors
    same(eager, compiled)
    assert graphs == [1] * STEPS


def test_the_compiled_network_may_be_the_model_given() -> None:
    eager, compiled = Net(), Net()
    train(eager, eager, model=eager)
    run = whole(compiled)
    assert train(compiled, run, model=run) == [1] * STEPS
    same(eager, compiled)


@pytest.mark.parametrize("how", [whole, in_place, function, block])
def test_without_model_a_network_without_buffers_equals_eager(how: Any) -> None:
    eager, compiled = Net(norm=False), Net(norm=False)
    train(eager, eager)
    assert train(compiled, how(compiled)) == [1] * STEPS
    same(eager, compiled)


@pytest.mark.parametrize("base", [SGD, AdamW])
def test_a_network_without_norms_has_one_graph(base: Any) -> None:
    eager, compiled = Net(norm=False), Net(norm=False)
    options = {"until": 3}  # two steps while off are in it
    train(eager, eager, base=base, **options)
    graphs = train(compiled, whole(compiled), base=base, model=compiled, **options)
    same(eager, compiled)
    assert graphs == [1] * STEPS


def test_a_compiled_function_elsewhere_is_no_obstacle_to_a_closure_without_modules() -> None:
    torch.compile(torch.sin, backend="aot_eager")(torch.ones(2))
    assert counters["stats"]["unique_graphs"]
    p = nn.Parameter(torch.ones(2))
    opt = CGD(SGD([p], lr=0.1), lam=0.05)
    opt.step(lambda: (opt.zero_grad(), p.square().sum().backward()))
    assert opt.k == 1


def test_a_moved_weight_is_seen_by_a_graph_already_compiled() -> None:
    """The second pass must not run on weights that were folded into the graph."""
    net = Net(norm=False).eval()
    run = whole(net)
    opt = CGD(SGD(net.parameters(), lr=0.05), nu=0.5, r=0.5, probe_max=None, model=net)
    losses: list[Tensor] = []

    def closure() -> Tensor:
        opt.zero_grad()
        loss = (run(X) - Y).square().mean()
        loss.backward()
        losses.append(loss.detach())
        return loss

    opt.step(closure)
    opt.step(closure)
    assert losses[1] > losses[0]  # uphill
    assert losses[3] > losses[2]
