"""What a step tells of itself, against the Hessian of torch.func; and TensorBoard, read back."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW
from torch.utils.tensorboard import SummaryWriter

from steepen.schedules import Table
from steepen.torch import ASAM, CGD, EGR, SAM, Diagnostics

pytestmark = pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")  # of the exact mode
torch.set_num_threads(1)
FREE: dict[str, Any] = {"nu_max": None, "probe_max": None}
NAMES = {
    "gradient_norm",
    "curvature",
    "cosine",
    "guard_rate",
    "lam",
    "lam_over_implicit",
    "nu",
    "probe_norm",
}


def f(x: Tensor) -> Tensor:
    return (x.sin() * x.roll(1)).sum() + x.pow(4).sum() / 4 - 2 * x.square().sum()


def start(dtype: torch.dtype = torch.float64) -> nn.Parameter:
    return nn.Parameter(torch.linspace(-1, 1.5, 9, dtype=torch.float64).to(dtype))


def truth(x: Tensor) -> tuple[Tensor, Tensor]:
    """Give g and H."""
    x = x.detach().double()
    return torch.func.grad(f)(x), torch.func.jacrev(torch.func.grad(f))(x)


def step(opt: CGD, loss: Callable[[], Tensor]) -> tuple[list[tuple[Tensor, Tensor]], dict[str, float]]:
    """Take a step; give the weights and the gradient of each pass, and what the step told."""
    params = [p for group in opt.param_groups for p in group["params"]]
    passes: list[tuple[Tensor, Tensor]] = []

    def closure() -> Tensor:
        opt.zero_grad()
        value = loss()
        value.backward(create_graph=opt.exact)
        grads = [p.grad.detach() for p in params]
        passes.append(tuple(torch.cat([t.detach().double() for t in ts]) for ts in (params, grads)))
        return value

    opt.step(closure)
    return passes, told(opt)


def told(opt: CGD) -> dict[str, float]:
    seen = opt.diagnostics
    assert isinstance(seen, Diagnostics)
    return seen.read()


def cosine(a: Tensor, b: Tensor) -> float:
    return (a @ b / (a.norm() * b.norm())).item()


# --- the numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_guard", ["fallback", "stop", "off"])
@pytest.mark.parametrize("lam", [0.01, -0.01])
def test_of_the_difference(on_guard: Any, lam: float) -> None:
    p = start()
    opt = CGD(SGD([p], lr=0.02), lam=lam, r=1e-5, on_guard=on_guard, patience=99, **FREE)
    for _ in range(4):
        g, H = truth(p)
        ((x, first), (moved, second)), seen = step(opt, lambda: f(p))
        assert seen["gradient_norm"] == pytest.approx(g.norm().item(), rel=1e-12)
        assert seen["curvature"] == pytest.approx((g @ H @ g / (g @ g)).item(), rel=1e-3)
        assert seen["cosine"] == pytest.approx(cosine(first, second), abs=1e-12)
        assert seen["cosine"] <= 1 + 1e-12
        assert seen["probe_norm"] == pytest.approx((moved - x).norm().item(), rel=1e-9)
        assert seen["nu"] == pytest.approx(2 * lam / 1e-5, rel=1e-12)
        assert seen["lam"] == pytest.approx(lam, rel=1e-12)
        assert seen["lam_over_implicit"] == pytest.approx(lam / (0.02 / 4), rel=1e-12)
        assert set(seen) == NAMES


def test_curvature_of_a_quadratic_is_exact_at_any_length() -> None:
    a = torch.tensor([3.0, -1.0, 0.5], dtype=torch.float64)
    for rho in (1e-3, 1.0, 1e3):
        p = nn.Parameter(torch.tensor([1.0, 2.0, -3.0], dtype=torch.float64))
        (_, g), seen = step(SAM(SGD([p], lr=0.1), rho=rho), lambda p=p: (a * p.square()).sum() / 2)
        g = a * torch.tensor([1.0, 2.0, -3.0])
        assert seen["curvature"] == pytest.approx((a @ g.square() / (g @ g)).item(), rel=1e-9)


def test_the_cosine_tells_how_far_the_gradient_turns() -> None:
    p = nn.Parameter(torch.tensor([1.0, 1.0], dtype=torch.float64))
    a = torch.tensor([1.0, -4.0], dtype=torch.float64)
    passes, seen = step(CGD(SGD([p], lr=0.1), nu=1.0, r=2.0, **FREE), lambda: (a * p.square()).sum() / 2)
    assert seen["cosine"] == pytest.approx(cosine(passes[0][1], passes[1][1]), rel=1e-12)
    assert seen["cosine"] < -0.9
    assert seen["guard_rate"] == 1


@pytest.mark.parametrize("lam", [0.2, 0.01, -0.03])
def test_of_the_exact_mode(lam: float) -> None:
    p = start()
    opt = EGR(SGD([p], lr=0.02), lam=lam)
    for _ in range(3):
        g, H = truth(p)
        _, seen = step(opt, lambda: f(p))
        assert seen["gradient_norm"] == pytest.approx(g.norm().item(), rel=1e-12)
        assert seen["curvature"] == pytest.approx((g @ H @ g / (g @ g)).item(), rel=1e-9)
        assert seen["cosine"] == pytest.approx(cosine(g, g + 2 * lam * H @ g), rel=1e-9)
        assert seen["lam"] == pytest.approx(lam, rel=1e-12)
        assert seen["lam_over_implicit"] == pytest.approx(200 * lam, rel=1e-12)


def test_the_exact_mode_has_no_probe() -> None:
    p = start()
    _, seen = step(EGR(SGD([p], lr=0.02), lam=0.1), lambda: f(p))
    assert seen["probe_norm"] == 0 or math.isnan(seen["probe_norm"])


@pytest.mark.parametrize("exact", [False, True])
def test_curvature_along_g_where_groups_are_weighted(exact: bool) -> None:
    """A product with the weighted gradient is not gᵀHg: better nothing than a wrong number."""
    p, q = (nn.Parameter(part.clone()) for part in start().detach().split([4, 5]))
    groups = [{"params": [p], "lam": 0.05}, {"params": [q], "lam": 0.0}]
    options: dict[str, Any] = {"mode": "exact"} if exact else {"r": 1e-5, **FREE}
    opt = CGD(SGD(groups, lr=0.02), lam=0.1, **options)
    g, H = truth(torch.cat([p, q]))
    _, seen = step(opt, lambda: f(torch.cat([p, q])))
    along = (g @ H @ g / (g @ g)).item()
    assert math.isnan(seen["curvature"]) or seen["curvature"] == pytest.approx(along, rel=1e-3)


def test_the_probe_of_asam_is_not_along_g() -> None:
    p = start()
    passes, seen = step(ASAM(SGD([p], lr=0.02), rho=0.1, eta=0.01), lambda: f(p))
    s = (passes[1][0] - passes[0][0]).norm().item()
    assert math.isnan(seen["probe_norm"]) or seen["probe_norm"] == pytest.approx(s, rel=1e-6)
    g, H = truth(passes[0][0])
    along, scale = (g @ H @ g / (g @ g)).item(), ((H @ g).norm() / g.norm()).item()
    assert math.isnan(seen["curvature"]) or seen["curvature"] == pytest.approx(along, abs=0.05 * scale)


def test_the_limits_show() -> None:
    p = start()
    passes, seen = step(CGD(SGD([p], lr=0.02), lam=50.0), lambda: f(p))
    assert seen["nu"] == 1
    assert seen["probe_norm"] == pytest.approx(0.1 * passes[0][0].norm().item(), rel=1e-9)
    assert seen["lam"] == pytest.approx(seen["nu"] * seen["probe_norm"] / seen["gradient_norm"] / 2, rel=1e-9)
    assert seen["lam"] < 1  # what the step amounts to, not what was asked for


def test_in_float32_as_it_comes() -> None:
    p = start(torch.float32)
    g, H = truth(p)
    passes, seen = step(CGD(SGD([p], lr=0.02), lam=1e-4), lambda: f(p))
    assert seen["gradient_norm"] == pytest.approx(g.norm().item(), rel=1e-5)
    scale = ((H @ g).norm() / g.norm()).item()
    assert seen["curvature"] == pytest.approx((g @ H @ g / (g @ g)).item(), abs=0.01 * scale)
    assert seen["cosine"] == pytest.approx(cosine(passes[0][1], passes[1][1]), abs=1e-5)


# --- when they speak, and of what -----------------------------------------------------------------------


def test_none_before_the_first_penalised_step_and_kept_while_off() -> None:
    p = start()
    opt = CGD(SGD([p], lr=0.02), lam=0.05, from_=2, until=3)
    seen: list[Diagnostics | None] = []
    for _ in range(5):
        opt.zero_grad()
        f(p).backward()
        if opt.probe():
            f(p).backward()
        opt.step()
        seen.append(opt.diagnostics)
    assert seen[:2] == [None, None]
    assert all(one is not None for one in seen[2:])
    assert seen[2].read() == seen[4].read()


def test_what_was_told_does_not_change_afterwards() -> None:
    p = start()
    opt = CGD(SGD([p], lr=0.02), nu=Table([0.3, 0.6, 0.9]), r=0.1)
    step(opt, lambda: f(p))
    first = opt.diagnostics
    assert first is not None
    before = first.read()
    opt.zero_grad()
    f(p).backward()
    opt.probe()
    assert told(opt) == before  # of the last step, while the next is under way
    f(p).backward()
    opt.step()
    assert first.read() == before
    assert (before["nu"], told(opt)["nu"]) == pytest.approx((0.3, 0.6), rel=1e-6)


def test_the_guard_rate_is_a_share_of_the_penalised_steps() -> None:
    p = nn.Parameter(torch.tensor([1.0]))
    opt = CGD(SGD([p], lr=0.001), nu=1.0, r=1.0, every=2, **FREE)
    rates: list[float] = []
    for k in range(8):  # penalised: 0, 2, 4, 6; of these 2 and 6 climb
        opt.zero_grad()
        sign = -2.0 if k in (2, 3, 6) else 1.0
        (sign * p.square().sum() / 2).backward()
        if opt.probe():
            (sign * p.square().sum() / 2).backward()
        opt.step()
        rates.append(told(opt)["guard_rate"])
    assert rates == pytest.approx([0, 0, 1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 2, 1 / 2])


@pytest.mark.parametrize("tensor", [False, True])
def test_lam_over_implicit_follows_the_learning_rate(tensor: bool) -> None:
    p = start()
    lr: Any = torch.tensor(0.1) if tensor else 0.1
    opt = CGD(AdamW([p], lr=lr, foreach=False), lam=0.01, r=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.5)
    for k in range(3):
        rate = 0.1 * 0.5**k
        _, seen = step(opt, lambda: f(p))
        assert seen["lam_over_implicit"] == pytest.approx(0.01 / (rate / 4), rel=1e-6)
        schedule.step()


def test_tensors_that_cost_nothing_until_read() -> None:
    p = start()
    opt = CGD(SGD([p], lr=0.02), lam=0.05)
    step(opt, lambda: f(p))
    seen = opt.diagnostics
    assert seen is not None
    for name in NAMES:
        value = getattr(seen, name)
        assert isinstance(value, Tensor)
        assert (value.shape, value.device, value.requires_grad) == ((), p.device, False)
    assert all(type(value) is float for value in seen.read().values())


@pytest.mark.parametrize("where", [0.0, 1.0])
def test_a_gradient_of_zero_is_told_without_an_error(where: float) -> None:
    p = nn.Parameter(torch.full((3,), where))
    _, seen = step(CGD(SGD([p], lr=0.02), lam=0.05), lambda: (p - where).square().sum())
    assert seen["gradient_norm"] == 0


# --- TensorBoard ----------------------------------------------------------------------------------------


def test_log_to_tensorboard_and_back(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    p = start()
    opt = CGD(SGD([p], lr=0.02), lam=0.05, warmup=1)
    expected: list[dict[str, float]] = []
    with SummaryWriter(str(tmp_path)) as writer:
        opt.log(writer)  # nothing to say yet
        for _ in range(4):
            opt.zero_grad()
            f(p).backward()
            if opt.probe():
                f(p).backward()
            opt.step()
            opt.log(writer)
            if opt.diagnostics is not None:
                expected.append(told(opt))
        opt.log(writer, step=1000, prefix="other/")
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        f"{prefix}/{name}" for name in NAMES for prefix in ("cgd", "other")
    }
    for name in NAMES:
        scalars = events.Scalars(f"cgd/{name}")
        assert [event.step for event in scalars] == [2, 3, 4]  # steps taken
        values = [seen[name] for seen in expected]
        assert [event.value for event in scalars] == pytest.approx(values, rel=1e-6)
        (last,) = events.Scalars(f"other/{name}")
        assert (last.step, last.value) == (1000, pytest.approx(values[-1], rel=1e-6))


def test_log_to_anything_with_add_scalar() -> None:
    class Lines:
        def __init__(self) -> None:
            self.lines: list[tuple[str, float, int | None]] = []

        def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None) -> None:
            self.lines.append((tag, scalar_value, global_step))

    p = start()
    opt = CGD(SGD([p], lr=0.02), lam=0.05)
    step(opt, lambda: f(p))
    writer = Lines()
    opt.log(writer, prefix="")
    assert {tag: value for tag, value, _ in writer.lines} == told(opt)
    assert {at for *_, at in writer.lines} == {1}
