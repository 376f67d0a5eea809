"""Pitfalls of training loops and of torch itself, each with what should come of it."""

from __future__ import annotations

import copy
import math
import pickle
import threading
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.optim import SGD, Optimizer

from steepen.schedules import Cosine, Table
from steepen.torch import ASAM, CGD, GNP, MSAM, SAM, When, _private
from steepen.torch._tensors import norm

torch.set_num_threads(1)  # the networks are tiny


class Remembering(nn.Module):
    """A network with dropout, which remembers its masks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.masks = nn.Linear(3, 8), []

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.functional.dropout(torch.ones(len(x), 8))
        self.masks.append(mask)
        return self.linear(x) * mask


def bare() -> SGD:
    return SGD([nn.Parameter(torch.ones(2))], lr=0.1)


# --- both passes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 3])
def test_the_masks_are_the_same_where_the_loop_clears_after_the_step_and_the_loader_draws(parts: int) -> None:
    """The loop of docs/from-sam.md, with augmentation."""
    model = Remembering()
    opt = SAM(SGD(model.parameters(), lr=0.1), rho=0.05, model=model)
    for _ in range(4):
        batches = [torch.randn(4, 3) + 0.1 * torch.rand(4, 3) for _ in range(parts)]  # the loader's numbers
        for x in batches:
            model(x).square().mean().backward()
        after = torch.get_rng_state()
        opt.probe()
        for x in batches:
            model(x).square().mean().backward()
        opt.step()
        assert torch.equal(torch.get_rng_state(), after)
        opt.zero_grad()
    masks = [model.masks[i : i + 2 * parts] for i in range(0, len(model.masks), 2 * parts)]
    assert len(masks) == 4
    for step in masks:
        assert all(torch.equal(a, b) for a, b in zip(step[:parts], step[parts:], strict=True))
    assert not torch.equal(masks[0][0], masks[1][0])


def test_one_optimizer_left_in_mid_step_does_not_turn_replay_off_for_others() -> None:
    left, model = Remembering(), Remembering()
    pending = CGD(SGD(left.parameters(), lr=0.1), lam=0.05, model=left)
    left(torch.ones(2, 3)).square().mean().backward()
    assert pending.probe()
    opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.05, model=model)
    opt.step(lambda: (opt.zero_grad(), model(torch.ones(2, 3)).square().mean().backward()))
    assert torch.equal(*model.masks)


def test_nor_does_one_in_another_thread() -> None:
    model, there = Remembering(), Remembering()
    opts = [CGD(SGD(m.parameters(), lr=0.1), lam=0.05, model=m) for m in (model, there)]
    there(torch.ones(2, 3)).square().mean().backward()
    thread = threading.Thread(target=opts[1].probe)
    thread.start()
    thread.join()
    opts[0].step(lambda: (opts[0].zero_grad(), model(torch.ones(2, 3)).square().mean().backward()))
    assert torch.equal(*model.masks)


class Averaging(nn.Module):
    """Keeps a mean of its inputs in a buffer that it makes anew, and a count in one that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.count += 1
        return x - self.mean


@pytest.mark.parametrize("options", [{"lam": 0.05}, {"rho": 0.1, "share": 0.25}], ids=["difference", "share"])
@pytest.mark.parametrize("form", ["closure", "loop"])
def test_all_buffers_count_one_pass(form: str, options: dict[str, Any]) -> None:
    def network() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(Averaging(), spectral_norm(nn.Linear(3, 4)), nn.BatchNorm1d(4), nn.Linear(4, 1))

    model, once = network(), network()
    opt = CGD(SGD(model.parameters(), lr=0.0), model=model, **options)
    for k in range(6):
        x = torch.randn(8, 3, generator=torch.Generator().manual_seed(k))

        def backward(x: Tensor) -> None:
            model(x).square().mean().backward()

        if form == "closure":
            opt.step(lambda x=x: (opt.zero_grad(), backward(opt.part(x))))
        else:
            opt.zero_grad()
            backward(opt.part(x))
            assert opt.probe()
            backward(x)
            opt.step()
        once(x)
        for (name, one), other in zip(model.named_buffers(), once.buffers(), strict=True):
            assert ("share" in options and name[0] != "0") or torch.equal(one, other), name
    assert int(model[0].count) == int(model[2].num_batches_tracked) == 6


def test_without_the_network_there_is_one_warning_at_the_line_of_the_user() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    for form in ("closure", "loop"):
        opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.05)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                if form == "closure":
                    opt.step(
                        lambda opt=opt: (opt.zero_grad(), model(torch.randn(4, 3)).square().mean().backward())
                    )
                else:
                    opt.zero_grad()
                    model(torch.randn(4, 3)).square().mean().backward()
                    opt.probe()
                    model(torch.randn(4, 3)).square().mean().backward()
                    opt.step()
        (warning,) = caught
        assert "CGD was not given the network, model=" in str(warning.message)
        assert warning.filename == __file__


def test_a_copy_of_the_network_tells_nobody_and_can_be_saved_whole() -> None:
    model = Remembering()
    opt = MSAM(SGD(model.parameters(), lr=0.1, momentum=0.9), rho=0.5, model=model)
    for _ in range(2):
        opt.zero_grad()
        model(torch.ones(2, 3)).square().mean().backward()
        opt.step()
    model.masks.clear()
    before = [p.detach().clone() for p in model.parameters()]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        twin(torch.ones(2, 3))
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
        assert all(torch.equal(a, b) for a, b in zip(before, twin.parameters(), strict=True))


# --- gradients --------------------------------------------------------------------------------------


def test_two_micro_batches_before_the_probe_and_one_after_are_refused() -> None:
    model = nn.Linear(3, 1)
    opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.05, model=model)
    before = [p.detach().clone() for p in model.parameters()]
    for _ in range(2):
        model(torch.randn(4, 3)).square().mean().backward()
    opt.probe()
    model(torch.randn(4, 3)).square().mean().backward()
    with pytest.raises(RuntimeError, match="2 backward passes before the probe, and 1 after it"):
        opt.step()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_graph_kept_from_the_first_pass_is_refused_on_one_layer_too() -> None:
    model = nn.Linear(3, 1)
    opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.05, model=model)
    loss = model(torch.ones(2, 3)).square().mean()

    def closure() -> Tensor:
        opt.zero_grad()
        loss.backward(retain_graph=True)
        return loss

    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(RuntimeError, match="backwards through the graph of the first"):
        opt.step(closure)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_parameter_that_is_thawed_on_the_way_is_counted_too() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    model[0].requires_grad_(False)
    opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.05, model=model)
    for k in range(3):
        model.requires_grad_(k > 0)
        model[1].requires_grad_(k == 0)  # then the other alone
        opt.step(lambda: (opt.zero_grad(), model(torch.ones(2, 3)).square().mean().backward()))
    opt.zero_grad()
    for _ in range(2):
        model(torch.ones(2, 3)).square().mean().backward()
    opt.probe()
    model(torch.ones(2, 3)).square().mean().backward()
    with pytest.raises(RuntimeError, match="2 backward passes before the probe, and 1 after it"):
        opt.step()


@pytest.mark.parametrize(("n", "dtype"), [(11_000_000, torch.float32), (50_000_000, torch.bfloat16)])
def test_the_norm_of_a_long_vector_on_a_cpu_is_right(n: int, dtype: torch.dtype) -> None:
    x = torch.full((n,), 0.01, dtype=dtype)
    exact = float(x[0]) * math.sqrt(n)
    assert norm([([x], ())], torch.float32).item() == pytest.approx(exact, rel=1e-6)


# --- arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "key"), [(SAM, "lam"), (SAM, "nu"), (lambda b: CGD(b, lam=0.1), "rho")])
def test_a_value_of_a_group_that_nobody_reads_is_refused(make: Any, key: str) -> None:
    base = SGD([{"params": [nn.Parameter(torch.ones(2))], key: 0.3}], lr=0.1)
    with pytest.raises(ValueError, match=f"^{key}: the groups of this optimizer are told apart by "):
        make(base)


def test_a_checkpoint_of_a_constant_does_not_turn_a_schedule_off() -> None:
    groups = [
        {"params": [nn.Parameter(torch.ones(2))]},
        {"params": [nn.Parameter(torch.ones(2))], "lam": 0.4},
    ]
    constant = CGD(SGD(groups, lr=0.1), lam=0.1)
    scheduled = CGD(
        SGD([{"params": [nn.Parameter(torch.ones(2))]} for _ in range(2)], lr=0.1),
        lam=Cosine(0.2, 0.0),
        steps=10,
    )
    scheduled.load_state_dict(constant.state_dict())
    scheduled.k = 5
    assert scheduled._strengths() == [scheduled.family.strength(5), 0.4]
    assert scheduled.family.strength(5) != 0.1
    again = CGD(SGD([{"params": [nn.Parameter(torch.ones(2))]} for _ in range(2)], lr=0.1), lam=0.3)
    again.load_state_dict(constant.state_dict())
    assert again._strengths() == [0.1, 0.4]  # as with lr, the checkpoint's


@pytest.mark.parametrize("nu", [0.0, Table([0.0, 1.0])])
def test_a_weight_of_zero_takes_one_pass(nu: Any) -> None:
    p, calls = nn.Parameter(torch.ones(2)), []
    opt = GNP(SGD([p], lr=0.1), rho=0.1, alpha=nu)
    opt.step(lambda: (opt.zero_grad(), calls.append(0), p.square().sum().backward()))
    assert len(calls) == 1


def test_a_base_without_lr_has_diagnostics() -> None:
    class Sign(Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {})

        def step(self, closure: Any = None) -> None:
            for p in self.param_groups[0]["params"]:
                p.data -= 0.1 * p.grad.sign()

    p = nn.Parameter(torch.ones(2))
    opt = CGD(Sign([p]), lam=0.05)
    opt.step(lambda: (opt.zero_grad(), p.square().sum().backward()))
    seen = opt.diagnostics.read()
    assert seen["lam"] > 0
    assert math.isnan(seen["lam_over_implicit"])


def test_the_calls_of_other_libraries_are_refused_with_ours() -> None:
    params = [nn.Parameter(torch.ones(2))]
    with pytest.raises(TypeError, match=r"SAM\(params, SGD, lr=0.1\) is SAM\(SGD\(params, lr=0.1\)\) here"):
        SAM(params, SGD, rho=0.05, adaptive=True)
    with pytest.raises(TypeError, match=r"adaptive: not an option here; use ASAM\(base, rho, eta=0\)"):
        SAM(bare(), rho=0.05, adaptive=True)
    opt = SAM(bare())
    for name, ours in (("first_step", "probe()"), ("second_step", "step()"), ("base_optimizer", "base")):
        with pytest.raises(AttributeError, match=name) as error:
            getattr(opt, name)
        assert ours in str(error.value)
    with pytest.raises(AttributeError, match="'SAM' object has no attribute 'other'"):
        _ = opt.other


def test_when_and_its_fields_are_not_both_given() -> None:
    assert not CGD(bare(), lam=0.1, when=When(warmup=2)).active
    with pytest.raises(ValueError, match=r"^every: it belongs into when=When\(...\), which is given"):
        CGD(bare(), lam=0.1, when=When(warmup=2), every=2)
    with pytest.raises(TypeError, match=r"^when: expected a When, got 3"):
        CGD(bare(), lam=0.1, when=3)


# --- ASAM -------------------------------------------------------------------------------------------


def loss_of(w: Tensor, b: Tensor) -> Tensor:
    return (w.pow(4).sum() / 4 + (b * w).sin().sum()) * (1 + b.square().sum())


def gradient(w: Tensor, b: Tensor) -> list[Tensor]:
    xs = [x.detach().requires_grad_() for x in (w, b)]
    return list(torch.autograd.grad(loss_of(*xs), xs))


def test_an_eta_of_zero_is_the_usual_adaptive_sam() -> None:
    """davda54/sam with adaptive=True: e = p²·g·ρ/(‖|p|·g‖ + 1e-12)."""
    w, b = (torch.linspace(-1, n, 4, dtype=torch.float64) for n in (1, 2))
    params = [nn.Parameter(w.clone()), nn.Parameter(b.clone())]
    opt = ASAM(SGD(params, lr=0.1), rho=0.3, eta=0)
    opt.step(lambda: (opt.zero_grad(), loss_of(*params).backward()))
    g = gradient(w, b)
    n = torch.cat([x.abs() * s for x, s in zip((w, b), g, strict=True)]).norm()
    plus = gradient(*[x + x.square() * s * 0.3 / (n + 1e-12) for x, s in zip((w, b), g, strict=True)])
    torch.testing.assert_close([p.grad for p in params], plus)


def test_a_group_may_have_an_eta_of_its_own_or_none() -> None:
    """As in the code of ASAM's authors: T = |w| + η for weights, and T = 1 for biases."""
    w, b = (torch.linspace(-1, n, 4, dtype=torch.float64) for n in (1, 2))
    params = [nn.Parameter(w.clone()), nn.Parameter(b.clone())]
    opt = ASAM(
        SGD([{"params": params[:1], "eta": 0.2}, {"params": params[1:], "eta": None}], lr=0.1), rho=0.3
    )
    assert [group["eta"] for group in opt.param_groups] == [0.2, None]
    opt.step(lambda: (opt.zero_grad(), loss_of(*params).backward()))
    g, T = gradient(w, b), [w.abs() + 0.2, torch.ones_like(b)]
    n = torch.cat([t * s for t, s in zip(T, g, strict=True)]).norm()
    plus = gradient(*[x + 0.3 * t * t * s / n for x, t, s in zip((w, b), T, g, strict=True)])
    torch.testing.assert_close([p.grad for p in params], plus)
    with pytest.raises(ValueError, match=r"^eta: expected a number for the group, 0 or more, or None"):
        ASAM(SGD([{"params": [nn.Parameter(b)], "eta": -1.0}], lr=0.1))


def test_a_base_wrapped_again_by_sam_keeps_no_eta() -> None:
    base = bare()
    ASAM(base, rho=0.1)
    assert "eta" not in SAM(base, rho=0.1).param_groups[0]


# --- private names of torch --------------------------------------------------------------------------


@pytest.mark.parametrize("name", _private.NAMES)
def test_a_private_name_of_torch_is_still_there(name: str) -> None:
    """Where this fails, all still works by the plain way; `docs/design.md` says what is lost."""
    owner, attribute = name.rsplit(".", 1)
    owners: dict[str, Any] = {"torch": torch, "GradScaler": torch.amp.GradScaler("cpu"), "Optimizer": bare()}
    assert hasattr(owners[owner], attribute), f"{name} has gone from torch {torch.__version__}"


def test_a_step_is_the_same_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[list[Tensor]] = []
    for plain in (False, True):
        if plain:
            for name in ("_copy", "_norm"):
                monkeypatch.setattr(_private, name, None)
            monkeypatch.setattr("steepen.torch._tensors.fused_sgd", None)
        for options in ({"lam": 0.05}, {"rho": 0.1, "share": 0.5}):
            model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
            with torch.no_grad():
                for p in model.parameters():
                    p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
            opt = CGD(SGD(model.parameters(), lr=0.1, momentum=0.9), model=model, **options)
            for _ in range(3):
                opt.step_on(lambda x: model(x).square().mean(), torch.eye(3).double())  # noqa: B023
            runs.append([p.detach() for p in model.parameters()])
    torch.testing.assert_close(runs[:2], runs[2:])
