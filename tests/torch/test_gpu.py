"""What only a GPU can show: no waits, CUDA graphs, memory, and its own random numbers.

The tests are plain functions without fixtures, so that a machine without pytest can run them in a loop.
"""

from __future__ import annotations

import copy
import gc
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import SGD, AdamW, Optimizer

from steepen.torch import ASAM, CGD, MSAM, SAM, ByGap, Sharpness, sharpness

try:
    import pytest
except ImportError:
    pytestmark: Any = []
else:
    pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

DEVICE = "cuda"
torch.backends.cudnn.deterministic = True  # some tests compare to the bit
BASES: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "sgd, fused": lambda p: SGD(p, lr=0.1, momentum=0.9, fused=True),
    "adamw": lambda p: AdamW(p, lr=0.01, foreach=True),
    "adamw, fused": lambda p: AdamW(p, lr=0.01, fused=True),
}


class Net(nn.Module):
    """A small convolutional network with norms and dropout; it remembers its masks."""

    def __init__(self, *, norm: bool = True, drop: float = 0.3, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(3, 8, 3, bias=False)
        self.norm = nn.BatchNorm2d(8) if norm else nn.Identity()
        self.drop, self.head = nn.Dropout(drop), nn.Linear(8, 4)
        self.masks: list[Tensor] = []
        self.to(DEVICE)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.norm(self.conv(x))).mean((2, 3))
        mask = self.drop(torch.ones_like(hidden))
        if not torch.compiler.is_compiling():
            self.masks.append(mask.detach())
        return self.head(hidden * mask)


def batch(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.randn(16, 3, 8, 8, generator=generator), torch.randn(16, 4, generator=generator)
    return x.to(DEVICE), y.to(DEVICE)


def take(opt: CGD, loss: Callable[[], Tensor], form: str = "closure", scaler: Any = None) -> Any:
    """Take one step."""

    def backward() -> Tensor:
        value = loss()
        (value if scaler is None else scaler.scale(value)).backward()
        return value

    if form == "closure":
        return opt.step(lambda: (opt.zero_grad(), backward())[1], scaler=scaler)
    opt.zero_grad()
    value = backward()
    if opt.probe(scaler=scaler):
        backward()
    opt.step(scaler=scaler)
    return value


def loss_of(net: Net, seed: int = 0) -> Callable[[], Tensor]:
    x, y = batch(seed)
    return lambda: (net(x) - y).square().mean()


def state(module: nn.Module) -> list[Tensor]:
    return [value.detach().clone() for value in module.state_dict().values()]


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@contextmanager
def no_waits() -> Iterator[None]:
    """Make every wait for the device an error."""
    torch.cuda.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls it a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


# --- no waits --------------------------------------------------------------------------------------


def test_a_step_never_waits_for_the_device() -> None:
    for name, make in BASES.items():
        for on_guard in ("fallback", "stop", "off"):
            for form in ("closure", "probe"):
                net = Net()
                opt = CGD(make(net.parameters()), lam=0.05, on_guard=on_guard, patience=2, until=6)
                loss = loss_of(net)
                take(opt, loss, form)
                with no_waits():
                    for _ in range(7):  # two of them while off
                        take(opt, loss, form)
                assert opt.k == 8, (name, on_guard, form)


def test_nor_with_any_of_the_options() -> None:
    options: list[dict[str, Any]] = [
        {"lam": 0.05, "max_norm": 0.1},
        {"lam": 0.05, "nu_max": None, "probe_max": None},
        {"nu": 0.8, "rho": 0.05},
        {"nu": 0.8, "r": 0.1},
        {"nu": 1.0, "rho": 0.5, "eta": 0.01},
        {"lam": lambda k: 0.01 * (k + 1), "every": 2},
    ]
    for given in options:
        for with_model in (True, False):
            net = Net()
            opt = CGD(SGD(net.parameters(), lr=0.1), model=net if with_model else None, **given)
            loss = loss_of(net)
            take(opt, loss)
            with no_waits():
                for _ in range(4):
                    take(opt, loss)


def test_nor_in_the_exact_mode() -> None:
    net = Net()
    opt = CGD(SGD(net.parameters(), lr=0.1), lam=0.05, mode="exact")
    loss = loss_of(net)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using backward.. with create_graph=True")

        def closure() -> None:
            opt.zero_grad()
            loss().backward(create_graph=True)

        opt.step(closure)
        with no_waits():
            opt.step(closure)
            opt.step(closure)


def test_nor_with_a_scaler_where_the_base_is_fused() -> None:
    net, scaler = Net(), GradScaler(DEVICE)
    opt = CGD(AdamW(net.parameters(), lr=0.01, fused=True), lam=0.05, max_norm=1.0)
    loss = loss_of(net)
    take(opt, loss, scaler=scaler)
    scaler.update()
    with no_waits():
        for form in ("closure", "probe"):
            take(opt, loss, form, scaler)
            scaler.update()


def test_diagnostics_are_free_until_they_are_read() -> None:
    for options in ({"lam": 0.05}, {"nu": 0.8, "r": 0.1}, {"nu": 1.0, "rho": 0.05, "on_guard": "off"}):
        net = Net()
        opt = CGD(SGD(net.parameters(), lr=0.1), **options)
        take(opt, loss_of(net))
        with no_waits():
            seen = opt.diagnostics
        assert seen.read()["gradient_norm"] > 0


# --- CUDA graphs -----------------------------------------------------------------------------------


def test_a_whole_step_captured_in_a_graph_equals_eager() -> None:
    makes: dict[str, Callable[[Any], Optimizer]] = {
        "sgd": BASES["sgd"],
        "sgd, fused": BASES["sgd, fused"],
        "adamw": lambda p: AdamW(p, lr=0.01, foreach=True, capturable=True),
        "adamw, fused": lambda p: AdamW(p, lr=0.01, fused=True, capturable=True),
    }
    for name, make in makes.items():
        for on_guard in ("fallback", "stop", "off"):
            runs: list[tuple[Net, CGD]] = []
            for _ in range(2):
                net = Net(drop=0.0)
                opt = CGD(
                    make(net.parameters()), lam=0.05, on_guard=on_guard, max_norm=5.0, replay=False, model=net
                )
                runs.append((net, opt))
            (eager, opt), (captured, other) = runs
            for seed in range(8):
                take(opt, loss_of(eager, seed))

            x, y = batch()
            loss = lambda net=captured, x=x, y=y: (net(x) - y).square().mean()  # noqa: E731
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for seed in range(3):
                    for kept, new in zip((x, y), batch(seed), strict=True):
                        kept.copy_(new)
                    take(other, loss)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                take(other, loss)
            for seed in range(3, 8):
                for kept, new in zip((x, y), batch(seed), strict=True):
                    kept.copy_(new)
                graph.replay()
            torch.testing.assert_close(
                state(captured), state(eager), rtol=1e-4, atol=1e-5, msg=f"{name}, {on_guard}"
            )
            assert other.guard.counts[0] == 8


def test_random_numbers_are_not_replayed_in_a_graph_and_one_is_told() -> None:
    net = Net()
    opt = CGD(SGD(net.parameters(), lr=0.1), lam=0.05)
    loss = loss_of(net)
    take(opt, loss)
    before, message = state(net), ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the graph is empty
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                take(opt, loss)
        except RuntimeError as error:
            message = str(error)
    assert "pass replay=False" in message
    assert same(before, state(net))
    take(opt, loss)


# --- shares and momentum ---------------------------------------------------------------------------


@cache
def kept(seed: int) -> tuple[Tensor, Tensor]:
    """Return a batch that nobody changes: to bring one to the device is a wait."""
    return batch(seed)


def parts(net: Net, opt: CGD, form: str, seed: int = 0, scaler: Any = None) -> None:
    """Take a step with a share of the batch, in one of the three styles; or with a momentum probe."""
    x, y = kept(seed)
    loss = lambda x, y: (net(x) - y).square().mean()  # noqa: E731
    scaled = lambda x, y: loss(x, y) if scaler is None else scaler.scale(loss(x, y))  # noqa: E731
    if form == "step_on":
        opt.step_on(loss, x, y, scaler=scaler)
    elif form == "closure":
        opt.step(lambda: (opt.zero_grad(), scaled(*opt.part((x, y))).backward()), scaler=scaler)
    else:
        opt.zero_grad()
        scaled(*opt.part((x, y))).backward()
        if opt.kind == "share" and opt.probe(scaler=scaler):
            scaled(x, y).backward()
        opt.step(scaler=scaler)
    if scaler is not None:
        scaler.update()


def cheap(kind: str, net: Net, base: Optimizer, **options: Any) -> CGD:
    if kind == "momentum":
        return MSAM(base, rho=0.1, model=net, **options)
    return CGD(base, rho=0.1, share=0.25, on_guard=kind, patience=99, model=net, **options)


def test_shares_and_momentum_probes_never_wait_for_the_device() -> None:
    for kind in ("off", "stop", "momentum"):
        for name, make in BASES.items():
            for form in ("closure", "step_on", "loop"):
                net = Net()
                opt = cheap(kind, net, make(net.parameters()))
                for _ in range(2):
                    parts(net, opt, form)
                with no_waits():
                    for _ in range(5):
                        parts(net, opt, form)
                assert opt.k == 7, (kind, name, form)


def test_a_share_on_the_device_equals_the_step_written_out() -> None:
    for form in ("closure", "step_on", "loop"):
        for scaler in (None, GradScaler(DEVICE, init_scale=256.0)):
            net, plain = Net(drop=0.0), Net(drop=0.0)
            opt = cheap("off", net, SGD(net.parameters(), lr=0.1, momentum=0.9))
            base, params = SGD(plain.parameters(), lr=0.1, momentum=0.9), list(plain.parameters())
            for seed in range(6):  # from the second on, as CUDA graphs
                parts(net, opt, form, seed, scaler)
                x, y = batch(seed)
                buffers, x0 = [b.clone() for b in plain.buffers()], [p.detach().clone() for p in params]
                g = torch.autograd.grad((plain(x[:4]) - y[:4]).square().mean(), params)
                n = torch.stack([s.norm() for s in g]).norm()
                with torch.no_grad():
                    for b, old in zip(plain.buffers(), buffers, strict=True):
                        b.copy_(old)
                    for p, s in zip(params, g, strict=True):
                        p.add_(0.1 * s / n)
                d = torch.autograd.grad((plain(x) - y).square().mean(), params)
                with torch.no_grad():
                    for p, old, s in zip(params, x0, d, strict=True):
                        p.copy_(old)
                        p.grad = s
                base.step()
            torch.testing.assert_close(state(net), state(plain), rtol=1e-4, atol=1e-5)


def test_the_rule_never_waits_for_the_device_nor_does_a_report_or_the_gauge() -> None:
    for form in ("closure", "step_on", "loop"):
        for gauge in (True, False):
            net, (x, y) = Net(), kept(1)
            rule = ByGap(every=2 if gauge else 100)
            read = lambda net=net, x=x, y=y: (net(x) - y).square().mean() + 1  # noqa: E731
            opt = CGD(BASES["sgd"](net.parameters()), strength=rule, gauge=read, share=0.25, model=net)
            one = torch.ones((), device=DEVICE)
            opt.report(1.0, 0.5)
            opt._steering.saw(one)  # a closure of `parts` returns no loss
            for _ in range(4):
                parts(net, opt, form)
            with no_waits():
                for k in range(8):
                    if not gauge:
                        opt.report(2 * one if k % 2 else 2.0, one if k % 3 else None)
                    assert opt.active
                    parts(net, opt, form)


def test_the_rule_on_the_device_equals_that_on_the_cpu() -> None:
    runs: list[tuple[list[bool], list[Tensor], float]] = []
    for device in ("cpu", DEVICE):
        net = Net(drop=0.0).to(device)
        opt = CGD(SGD(net.parameters(), lr=0.05, momentum=0.9), share=0.25, steps=60, model=net)
        active: list[bool] = []
        for k in range(60):
            x, y = (one.to(device) for one in kept(k % 4))
            active.append(opt.active)
            opt.step_on(lambda x, y, net=net: (net(x) - y).square().mean(), x, y)
            if k % 7 == 6:
                opt.report(1.5 if k < 45 else 0.0)
        runs.append((active, [one.cpu() for one in state(net)], opt.rise.item()))
    (here, mine, rise), (there, theirs, other) = runs
    assert here == there
    assert 20 < sum(here) < 55
    torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)
    assert abs(rise - other) < 1e-3 * abs(rise)


def test_sharpness_on_the_device_equals_that_on_the_cpu() -> None:
    found: list[Sharpness] = []
    for device in ("cpu", DEVICE):
        net = Net(drop=0.0).to(device).eval()
        found.append(sharpness(net, nn.MSELoss(), [kept(0), kept(1)], tol=1e-4))  # it moves the batches
    one, two = found
    assert abs(one.largest - two.largest) < 1e-3 * one.largest
    assert abs(one.trace - two.trace) < 3 * (one.trace_error + two.trace_error)  # of other random numbers
    assert abs(one.rise - two.rise) < 1e-3 * one.rise


def test_sharpness_of_attention_and_of_recurrent_layers_on_the_device() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.lstm, self.attend = (
                nn.LSTM(4, 8, batch_first=True),
                nn.MultiheadAttention(8, 2, batch_first=True),
            )

        def forward(self, x: Tensor) -> Tensor:
            hidden, _ = self.lstm(x)
            return self.attend(hidden, hidden, hidden, need_weights=False)[0]

    x, y = torch.randn(2, 16, 5, 8, generator=torch.Generator().manual_seed(0))
    one, two = (
        sharpness(Both().to(device).eval(), nn.MSELoss(), (x[..., :4], y), tol=1e-4)
        for device in ("cpu", DEVICE)
    )
    assert abs(one.largest - two.largest) < 1e-3 * one.largest


def test_a_momentum_probe_on_the_device_equals_the_step_written_out() -> None:
    net, plain = Net(drop=0.0), Net(drop=0.0)
    opt = cheap("momentum", net, SGD(net.parameters(), lr=0.1, momentum=0.9))
    base, params = SGD(plain.parameters(), lr=0.1, momentum=0.9), list(plain.parameters())
    for seed in range(6):
        parts(net, opt, "loop", seed)
        x, y = batch(seed)
        x0 = [p.detach().clone() for p in params]
        if seed:
            vs = [base.state[p]["momentum_buffer"] for p in params]
            n = torch.stack([v.norm() for v in vs]).norm()
            with torch.no_grad():
                for p, v in zip(params, vs, strict=True):
                    p.sub_(0.1 * v / n)
        base.zero_grad()
        (plain(x) - y).square().mean().backward()
        with torch.no_grad():
            for p, old in zip(params, x0, strict=True):
                p.copy_(old)
        base.step()
    torch.testing.assert_close(state(net), state(plain), rtol=1e-4, atol=1e-5)


def test_a_whole_step_with_a_share_captured_in_a_graph_equals_eager() -> None:
    runs: list[tuple[Net, CGD]] = []
    for _ in range(2):
        net = Net(drop=0.0)
        runs.append((net, cheap("off", net, BASES["sgd"](net.parameters()), replay=False)))
    (eager, opt), (captured, other) = runs
    for _ in range(8):
        parts(eager, opt, "step_on")
    x, y = batch()
    take_one = lambda: other.step_on(lambda x, y: (captured(x) - y).square().mean(), x, y)  # noqa: E731
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            take_one()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        take_one()
    for _ in range(5):
        graph.replay()
    torch.testing.assert_close(state(captured), state(eager), rtol=1e-4, atol=1e-5)


# --- memory ----------------------------------------------------------------------------------------


def peak(run: Callable[[], Any]) -> int:
    """Give the most memory that was allocated while it ran."""
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def test_memory_is_two_copies_while_on_one_with_a_share_and_none_once_off() -> None:
    kinds: dict[str, Callable[[Optimizer], CGD]] = {
        "cgd": lambda base: CGD(base, lam=0.05, until=3),
        "clipped": lambda base: CGD(base, lam=0.05, until=3, max_norm=1.0),
        "sam": lambda base: SAM(base, until=3),
        "asam": lambda base: ASAM(base, until=3),
        "share": lambda base: CGD(base, rho=0.05, share=0.25, until=3),
    }
    for kind, wrap in kinds.items():
        for name, make in BASES.items():
            dtype = torch.bfloat16 if "fused" in name and kind == "cgd" else torch.float32
            net = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(12)]).to(DEVICE, dtype)
            size = sum(p.numel() * p.element_size() for p in net.parameters())
            x = torch.randn(4, 1024, device=DEVICE, dtype=dtype)
            base = make(net.parameters())

            def backward(part: Any = lambda x: x, net: nn.Module = net, x: Tensor = x) -> Tensor:
                loss = net(part(x)).square().mean()
                loss.backward()
                return loss

            def two_passes(base: Optimizer = base, backward: Callable[[], Tensor] = backward) -> None:
                for _ in range(2):
                    base.zero_grad()
                    backward()
                base.step()

            two_passes()  # the state of the base, and what libraries keep, is there from now on
            plain = peak(two_passes)
            opt = wrap(base)
            closure = lambda opt=opt, backward=backward: (opt.zero_grad(), backward(opt.part))[1]  # noqa: E731
            opt.step(closure)
            on = peak(lambda opt=opt, closure=closure: opt.step(closure))
            opt.step(closure)
            assert not opt.active
            opt.step(closure)
            off = peak(lambda opt=opt, closure=closure: opt.step(closure))
            most = 1.05 if kind == "share" else 2.05
            assert on - plain <= most * size, f"{kind}, {name}: {(on - plain) / size:.2f} copies"
            assert off - plain <= 0.01 * size, f"{kind}, {name}: {(off - plain) / size:.2f} copies once off"


# --- precision -------------------------------------------------------------------------------------


def test_under_bf16_autocast_the_second_pass_sees_the_moved_weights() -> None:
    x, y = batch()
    for outer in (False, True):  # whether one autocast holds both passes, and so one cache of weights
        net, literal = Net(drop=0.0), Net(drop=0.0)

        def loss(net: Net) -> Tensor:
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                return (net(x).float() - y).square().mean()

        params = list(literal.parameters())
        g = torch.autograd.grad(loss(literal), params)
        kept = [b.clone() for b in literal.buffers()]
        with torch.no_grad():
            for p, slope in zip(params, g, strict=True):
                p.add_(0.5 * slope)
        plus = torch.autograd.grad(loss(literal), params)
        opt = CGD(SGD(net.parameters(), lr=0.0), nu=1.0, r=0.5, probe_max=None, on_guard="off", model=net)
        before = [p.detach().clone() for p in net.parameters()]
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=outer):
            take(opt, lambda net=net, loss=loss: loss(net))
        assert same(before, list(net.parameters()))
        assert same(kept, list(net.buffers()))
        d = torch.cat([p.grad.flatten() for p in net.parameters()])
        first, second = (torch.cat([part.flatten() for part in parts]) for parts in (g, plus))
        assert (d - second).norm() < 0.05 * (second - first).norm()  # ν = 1: d is the second gradient


def test_pure_bf16_weights_are_moved_through_float32_and_come_back() -> None:
    net = Net(norm=False, drop=0.0).bfloat16()
    x, y = (part.bfloat16() for part in batch())
    opt = CGD(SGD(net.parameters(), lr=0.1), nu=1.0, r=0.5, probe_max=None)
    (net(x) - y).square().mean().backward()
    before = [p.detach().clone() for p in net.parameters()]
    gradient = [p.grad.clone() for p in net.parameters()]
    opt.probe()
    for p, start, g in zip(net.parameters(), before, gradient, strict=True):
        assert torch.equal(p, (start.float() + 0.5 * g.float()).bfloat16())
    opt.restore()
    assert same(before, list(net.parameters()))


def test_a_scaler_does_not_change_the_step() -> None:
    for name, make in BASES.items():
        for form in ("closure", "probe"):
            nets: list[Net] = []
            for scale in (None, 2.0**10, 2.0**-6):
                net = Net(norm=False, drop=0.0)
                opt = CGD(make(net.parameters()), lam=0.05, max_norm=1.0)
                scaler = None if scale is None else GradScaler(DEVICE, init_scale=scale)
                loss = loss_of(net)
                for _ in range(3):
                    take(opt, loss, form, scaler)
                    if scaler is not None:
                        scaler.update()
                nets.append(net)
            for net in nets[1:]:
                torch.testing.assert_close(
                    state(net), state(nets[0]), rtol=1e-5, atol=1e-6, msg=f"{name}, {form}"
                )


def test_fp16_with_a_scaler_skips_what_overflows_and_then_learns() -> None:
    for name, make in BASES.items():
        if (
            name == "sgd, fused"
        ):  # torch itself leaves its momentum uninitialised where the first step is skipped
            continue
        net, scaler = Net(), GradScaler(DEVICE, init_scale=2.0**28)
        opt = CGD(make(net.parameters()), lam=0.01, max_norm=1.0)
        x, y = batch()

        def loss(net: Net = net, x: Tensor = x, y: Tensor = y) -> Tensor:
            with torch.autocast(DEVICE, dtype=torch.float16):
                return (net(x).float() - y).square().mean()

        before = [p.detach().clone() for p in net.parameters()]
        take(opt, loss, scaler=scaler)
        scaler.update()
        assert scaler.get_scale() == 2.0**27, name
        assert same(before, list(net.parameters())), name
        losses: list[float] = []
        for step in range(60):
            losses.append(take(opt, loss, ("closure", "probe")[step % 2], scaler).item())
            scaler.update()
        assert all(p.isfinite().all() for p in net.parameters()), name
        assert scaler.get_scale() > 1, name
        assert sum(losses[-5:]) < sum(losses[:5]), name


# --- the same network in both passes ---------------------------------------------------------------


def test_dropout_is_replayed_from_the_device_and_the_stream_goes_on() -> None:
    for form in ("closure", "probe"):
        net, plain = Net(), Net()
        opt = CGD(SGD(net.parameters(), lr=0.0), lam=0.05, model=net)
        torch.manual_seed(7)
        loss_of(plain)().backward()
        after = torch.get_rng_state(), torch.cuda.get_rng_state()
        torch.manual_seed(7)
        take(opt, loss_of(net), form)
        assert torch.equal(net.masks[0], net.masks[1])
        assert torch.equal(net.masks[0], plain.masks[0])
        assert torch.equal(torch.get_rng_state(), after[0])
        assert torch.equal(torch.cuda.get_rng_state(), after[1])
        take(opt, loss_of(net), form)
        assert not torch.equal(net.masks[0], net.masks[2])
        assert torch.equal(net.masks[2], net.masks[3])


def test_without_replay_the_masks_differ() -> None:
    net = Net()
    take(CGD(SGD(net.parameters(), lr=0.0), lam=0.05, replay=False), loss_of(net))
    assert not torch.equal(net.masks[0], net.masks[1])


def test_statistics_are_those_of_the_first_pass_alone() -> None:
    for layout in (torch.contiguous_format, torch.channels_last):
        net = Net(drop=0.0).to(memory_format=layout)
        once = copy.deepcopy(net)
        loss_of(once)()
        opt = CGD(SGD(net.parameters(), lr=0.1), lam=0.05, model=net)
        take(opt, loss_of(net))
        assert same(list(once.buffers()), list(net.buffers()))
        assert net.norm.num_batches_tracked == 1


# --- the guard, state and copies -------------------------------------------------------------------


def broken(net: Net) -> Callable[[], Tensor]:
    """Give a loss that is not a number in every second pass."""
    loss, calls = loss_of(net), [0]

    def value() -> Tensor:
        calls[0] += 1
        return loss() * (torch.nan if calls[0] % 2 == 0 else 1.0)

    return value


def test_a_stop_holds_on_the_device_at_once_and_the_host_hears_of_it_soon() -> None:
    net, plain = Net(drop=0.0), Net(drop=0.0)
    base = SGD(net.parameters(), lr=0.1, momentum=0.9)
    opt = CGD(base, lam=0.05, on_guard="stop", patience=1, model=net)
    base = SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for step in range(6):
        take(opt, broken(net) if step == 0 else loss_of(net))
        base.zero_grad()
        loss_of(plain)().backward()
        base.step()
        assert same(state(net), state(plain)), step
    assert not opt.active
    passes = len(net.masks)
    take(opt, loss_of(net))
    assert len(net.masks) == passes + 1


def test_a_run_resumed_from_a_file_is_the_run_unbroken() -> None:
    for make in (BASES["sgd"], BASES["adamw, fused"]):
        runs = [Net(drop=0.0, seed=seed) for seed in (0, 0, 1)]
        opts = [CGD(make(net.parameters()), lam=0.05, on_guard="stop", patience=3) for net in runs]
        for net, opt in zip(runs[:2], opts[:2], strict=True):
            for seed in range(3):
                take(opt, loss_of(net, seed))
        file = io.BytesIO()
        torch.save({"net": runs[1].state_dict(), "opt": opts[1].state_dict()}, file)
        file.seek(0)
        saved = torch.load(file, weights_only=True, map_location="cpu")
        runs[2].load_state_dict(saved["net"])
        opts[2].load_state_dict(saved["opt"])
        for seed in range(3, 6):
            take(opts[0], loss_of(runs[0], seed))
            take(opts[2], loss_of(runs[2], seed))
        torch.testing.assert_close(state(runs[2]), state(runs[0]), rtol=1e-6, atol=1e-7)
        assert torch.equal(opts[0].guard.counts, opts[2].guard.counts)


def test_a_deep_copy_goes_on_by_itself() -> None:
    net = Net(drop=0.0)
    opt = CGD(SGD(net.parameters(), lr=0.1), lam=0.05, on_guard="stop", patience=3)
    for _ in range(3):
        take(opt, loss_of(net))
    before = state(net)
    net.masks.clear()
    twin, copied = copy.deepcopy((net, opt))
    for _ in range(3):
        take(copied, loss_of(twin))
    assert same(before, state(net))
    assert not same(before, state(twin))


def test_parameters_on_two_devices_are_refused() -> None:
    here, there = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, device=DEVICE))
    opt = CGD(SGD([here, there], lr=0.1), lam=0.1)
    message = ""
    try:
        take(opt, lambda: here.square().sum() + there.cpu().square().sum())
    except ValueError as error:
        message = str(error)
    assert message.startswith("base: expected parameters on one device, got cpu, cuda")
    assert torch.equal(here, torch.ones(2))
