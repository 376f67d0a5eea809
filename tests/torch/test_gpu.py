"""What only a GPU can show: no waits, memory, precision, graphs, its own random numbers, runs on its arrays.

The tests are plain functions without fixtures, so that a machine without pytest can run them in a loop.
"""

import copy
import gc
import itertools
import warnings
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import steepen as st
from steepen.torch import CGD, EGR, MSAM, SAM, GapSAM

try:
    import pytest
except ImportError:
    pytestmark = []
else:
    pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

MAKERS = {
    "CGD": lambda base, model: CGD(base, model, lam=0.01),
    "SAM": lambda base, model: SAM(base, model, rho=0.05),
    "share": lambda base, model: SAM(base, model, rho=0.05, ascent_fraction=1 / 4),
    "clipped": lambda base, model: SAM(base, model, rho=0.05, ascent_fraction=1 / 4, max_norm=1.0),
    "off": lambda base, model: SAM(base, model, rho=0.05, when=range(1)),
    "rule": lambda base, model: GapSAM(base, model, unlike(), 20, ascent_fraction=1 / 4, strength=0.1),
    "told": lambda base, model: GapSAM(base, model, None, 20, ascent_fraction=1 / 4, strength=0.1),
    "CGD, r": lambda base, model: CGD(base, model, lam=0.01, r=0.1),
    "MSAM": lambda base, model: MSAM(base, model),
    "ASAM": lambda base, model: SAM(base, model, rho=0.5, adaptive=True),
    "GNP": lambda base, model: SAM(base, model, rho=0.05, alpha=0.8),
    "EGR": lambda base, model: EGR(base, model, lam=0.01),
    "exact": lambda base, model: CGD(base, model, lam=0.01, exact=True),
}


def data(seed=0, n=64):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 20, generator=generator)
    return x.cuda(), (x[:, 0] + torch.randn(n, generator=generator) > 0).long().cuda()


def unlike():
    x, y = data(1)
    return 4 * x, 1 - y


def network():
    torch.manual_seed(0)
    layers = [nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 2)]
    return nn.Sequential(*layers).cuda()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def loss_of(model):
    return lambda x, y: cross_entropy(model(x), y)


@contextmanager
def no_waits():
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_no_step_waits_for_the_device():
    for name, make in MAKERS.items():
        model = network()
        opt, batch = make(sgd(model), model), data()
        opt.step_on(loss_of(model), *batch)  # step 0 looks at everything
        with no_waits():
            for _ in range(10):
                opt.step_on(loss_of(model), *batch)
                if name == "told":
                    opt.record_validation_loss(batch[0].abs().mean() + 1)
        assert opt.k == 11, name
        assert opt.perturbed == {"off": 1, "rule": 2, "told": 2}.get(name, 11), name


def test_a_step_on_the_device_is_that_on_the_cpu():
    for name, make in MAKERS.items():
        ends = []
        for device in ("cuda", "cpu"):
            model = network().double().eval().to(device)  # no dropout: the generators differ
            batch = tuple(
                part.to(device, torch.float64 if part.is_floating_point() else None) for part in data()
            )
            opt = (
                make(sgd(model), model)
                if name != "rule"
                else SAM(sgd(model), model, rho=0.1, ascent_fraction=1 / 8)
            )
            for _ in range(4):
                opt.step_on(loss_of(model), *batch)
            ends.append([p.detach().cpu() for p in model.parameters()])
        for a, b in zip(*ends, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_memory_is_two_copies_one_and_none():
    torch.manual_seed(0)
    size = 16 * 2**20  # bytes of the weights

    def peak(make):
        gc.collect()
        torch.cuda.empty_cache()
        model = nn.Linear(1024, size // 4 // 1024, bias=False).cuda()
        base = torch.optim.SGD(model.parameters(), lr=1e-3)
        x = torch.randn(8, 1024, device="cuda")
        opt = None if make is None else make(base, model)
        for turn in range(24):
            if turn == 20:
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
            if opt is None:
                base.zero_grad()
                model(x).square().mean().backward()
                base.step()
            else:
                opt.step_on(lambda x: model(x).square().mean(), x)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() / size

    bare = peak(None)
    for name, most in (("CGD", 2), ("SAM", 1), ("share", 1), ("off", 0)):
        extra = peak(MAKERS[name]) - bare
        assert extra < most + 0.1, (name, extra)


def test_autocast_and_a_scaler():
    names, dtypes = ("CGD", "SAM", "share", "told", "EGR", "GNP"), (torch.bfloat16, torch.float16)
    for name, dtype in itertools.product(names, dtypes):
        model, batch = network(), data()
        opt = MAKERS[name](sgd(model), model)
        scaler = torch.amp.GradScaler("cuda", init_scale=2.0**24, enabled=dtype == torch.float16)

        def loss(x, y, model=model, dtype=dtype):
            with torch.autocast("cuda", dtype):
                return cross_entropy(model(x), y)

        losses = []
        for _ in range(40):  # the first of these overflow, and are left out
            losses.append(opt.step_on(loss, *batch, scaler=scaler if dtype == torch.float16 else None))
            scaler.update()
        first = next(
            loss for loss in losses if loss.isfinite()
        )  # where s overflows, the loss at x + s is NaN
        assert losses[-1] < first, (name, dtype)
        assert all(p.isfinite().all() for p in model.parameters()), (name, dtype)


def test_a_compiled_network_with_graphs():
    batch = data()
    ends = []
    for compiled in (False, True):
        model = network().eval()
        opt = SAM(sgd(model), model, rho=0.05, ascent_fraction=1 / 4)
        run = torch.compile(model, mode="reduce-overhead", fullgraph=True) if compiled else model
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(8):
                opt.step_on(lambda x, y, run=run: cross_entropy(run(x), y), *batch)
        ends.append([p.detach().clone() for p in model.parameters()])
    for a, b in zip(*ends, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_a_run_resumed_goes_on_bit_for_bit():
    for name, make in MAKERS.items():
        model, again, batch = network(), network(), data()
        opt, other = make(sgd(model), model), make(sgd(again), again)
        for _ in range(5):
            opt.step_on(loss_of(model), *batch)
        again.load_state_dict(model.state_dict())
        other.load_state_dict(copy.deepcopy(opt.state_dict()))
        for one, net in ((opt, model), (other, again)):
            torch.manual_seed(1)
            for _ in range(8):
                one.step_on(loss_of(net), *batch)
        for a, b in zip(model.parameters(), again.parameters(), strict=True):
            assert torch.equal(a, b), name


def test_random_numbers_and_statistics_count_one_pass():
    batch = data()
    for name in ("SAM", "share"):
        model, bare = network(), network()
        opt = MAKERS[name](sgd(model), model)
        torch.manual_seed(5)
        opt.step_on(loss_of(model), *batch)
        after = torch.cuda.get_rng_state()
        torch.manual_seed(5)
        loss_of(bare)(*batch)
        assert torch.equal(after, torch.cuda.get_rng_state()), name
        assert model[1].num_batches_tracked == 1, name


METHODS = ("gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto")


def bowl(x):
    """A valley that is bent a little: every method gets down, and none is chaotic."""
    return (x**2 * torch.arange(1, x.shape[-1] + 1, device=x.device)).sum(-1) + 0.1 * (x[..., 0] ** 4)


def check(x0, **given):
    """Run on both devices; hold that the runs end at the same place, to gtol."""
    given |= {"jac": "torch", "budget": st.Budget(grads=60)}
    there, here = (st.minimize(bowl, x0.to(device), **given) for device in ("cuda", "cpu"))
    assert there.x.device.type == "cuda"
    torch.testing.assert_close(there.x.cpu(), here.x, rtol=0.0, atol=1e-5)
    assert x0.ndim > 1 or there.status == here.status
    return there


def test_every_method_ends_where_it_does_on_a_cpu_and_bounds_hold():
    batch = torch.rand(200, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    for method in METHODS:
        check(batch[0], method=method)
        check(batch, method=method)
    assert bool((check(batch[0], bounds=[(0.25, 2.0)] * 6).x >= 0.25).all())
