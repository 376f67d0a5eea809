"""Sharpness, against the whole Hessian of torch.func, closed forms, and what must be left alone."""

import math
import random

import pytest
import torch
from torch import nn
from torch.func import functional_call, hessian

from steepen.torch import sharpness

torch.set_num_threads(1)  # the networks are tiny
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script")  # torch.func, when first used

X, Y = torch.randn(2, 24, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
BATCHES = [(X[:16], Y[:16]), (X[16:], Y[16:])]  # of different sizes: means are over examples
mse = nn.MSELoss()


def network(*more):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), *more, nn.Linear(5, 4)).double().eval()


def whole(model, x=X, y=Y):
    """Return the Hessian of the mean loss, by torch.func."""
    named = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    flat = torch.cat([p.flatten() for p in named.values()])

    def loss(flat):
        parts = flat.split([p.numel() for p in named.values()])
        values = {name: part.view(p.shape) for (name, p), part in zip(named.items(), parts, strict=True)}
        return mse(functional_call(model, values, x), y)

    return hessian(loss)(flat)


# --- the numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [False, True])
def test_the_largest_eigenvalue_is_that_of_the_whole_hessian(frozen):
    """Of the parameters that are not frozen; the same call gives the same numbers."""
    model = network()
    model[0].weight.requires_grad_(not frozen)
    expected = torch.linalg.eigvalsh(whole(model))[-1].item()
    found = sharpness(model, mse, BATCHES, tol=1e-9)
    assert found.largest == pytest.approx(expected, rel=1e-7)
    assert found.largest_error <= 1e-9 * expected
    assert found.products - 20 < 30  # of 49 parameters: it stops by its error
    assert found == sharpness(model, mse, iter(BATCHES), tol=1e-9)
    assert found.trace != sharpness(model, mse, BATCHES, seed=1).trace
    assert repr(found).startswith("Sharpness(largest=")
    assert "24 examples, eval mode" in repr(found)


@pytest.mark.parametrize("most", [2, 5])
def test_an_eigenvalue_is_as_near_as_the_error_says_however_early_it_stops(most):
    model = network()
    values = torch.linalg.eigvalsh(whole(model))
    found = sharpness(model, mse, BATCHES, tol=1e-12, most=most)
    assert (values - found.largest).abs().min() <= found.largest_error * (1 + 1e-9)
    assert found.products == most + 20


def test_the_standard_error_of_the_trace_is_that_of_the_formula():
    model = network()
    H = whole(model)
    variance = 2 * (H.square().sum() - H.diagonal().square().sum()).item()  # of one draw of random signs
    found = sharpness(model, mse, BATCHES, draws=200)
    assert found.trace_error == pytest.approx(math.sqrt(variance / 200), rel=0.2)
    assert abs(found.trace - H.trace().item()) < 4 * found.trace_error


def test_the_error_of_the_rise_is_the_standard_error_over_the_batches():
    model = network()
    parts = [(X[i : i + 6], Y[i : i + 6]) for i in range(0, 24, 6)]
    found = sharpness(model, mse, parts)
    g = torch.autograd.grad(mse(model(X), Y), list(model.parameters()))
    n = torch.cat([one.flatten() for one in g]).norm()
    before = torch.tensor([mse(model(x), y).item() for x, y in parts])
    with torch.no_grad():
        for p, one in zip(model.parameters(), g, strict=True):
            p.add_(0.05 * one / n)
    rises = torch.tensor([mse(model(x), y).item() for x, y in parts]) - before
    assert found.rise == pytest.approx(rises.mean().item(), rel=1e-4)
    assert found.rise_error == pytest.approx((rises.std() / 2).item(), rel=1e-4)
    assert found.loss == pytest.approx(before.mean().item())
    assert math.isnan(sharpness(model, mse, (X, Y)).rise_error)


def test_many_iterations_find_no_eigenvalue_again():
    dtype = torch.float32
    model = nn.Linear(4, 4).to(dtype)  # four eigenvalues and zero, each many times
    found = sharpness(model, mse, (X.to(dtype), Y.to(dtype)), tol=1e-12, most=200)
    expected = torch.linalg.eigvalsh(whole(model.double()))[-1].item()
    assert found.products - 20 <= 20
    assert found.largest == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_is_linear_has_no_curvature():
    model = nn.Linear(4, 1).double()
    found = sharpness(model, lambda out, _: out.mean(), (X, None))
    assert (found.largest, found.largest_error, found.trace, found.trace_error) == (0, 0, 0, 0)
    assert found.rise > 0


# --- networks as they are ----------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.maps = nn.Linear(4, 12)

    def forward(self, x):
        q, k, v = self.maps(x)[None, None].chunk(3, dim=-1)
        return nn.functional.scaled_dot_product_attention(q, k, v)[0, 0]


def test_attention_by_fused_kernels_is_looked_at_through_the_plain_one():
    torch.manual_seed(0)
    model = Attention().double()
    before = torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()
    found = sharpness(model, mse, (X, Y), tol=1e-9)
    assert (
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
    ) == before
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = torch.linalg.eigvalsh(whole(model))[-1].item()
    assert found.largest == pytest.approx(expected)


def test_a_model_that_takes_its_inputs_by_name_and_returns_more_than_scores():
    inner = network()

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, *, inputs, scale):
            return {"scores": self.inner(inputs) * scale}

    named = [({"inputs": x, "scale": 1.0}, y) for x, y in BATCHES]
    found = sharpness(Named().eval(), lambda out, y: mse(out["scores"], y), named)
    assert found == sharpness(inner, mse, BATCHES)


@pytest.mark.slow
def test_a_compiled_model_is_looked_at_uncompiled():
    model = network()
    assert sharpness(torch.compile(model), mse, BATCHES) == sharpness(model, mse, BATCHES)


@pytest.mark.parametrize(
    "mode", [torch.no_grad(), torch.inference_mode(), torch.autocast("cpu", torch.bfloat16)]
)
def test_what_the_caller_has_switched_on_does_not_matter(mode):
    model = network().float()
    batch = [(x.float(), y.float()) for x, y in BATCHES]
    expected = sharpness(model, mse, batch)
    with mode:
        assert sharpness(model, mse, batch) == expected


def test_in_training_mode_the_statistics_are_those_of_each_batch_and_the_masks_stay():
    model = network(nn.BatchNorm1d(5), nn.Dropout(0.5))
    assert not sharpness(model, mse, BATCHES).training
    before = sharpness(model, mse, BATCHES)
    model.train()
    found = sharpness(model, mse, BATCHES, tol=1e-9)
    assert found.training
    assert found.loss != before.loss
    assert found == sharpness(model, mse, BATCHES, tol=1e-9)  # drawn anew, H·v would be of no one function


def test_nothing_is_left_behind():
    model = network(nn.BatchNorm1d(5), nn.Dropout(0.5)).train()
    mse(model(X), Y).backward()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    grads = [p.grad.clone() for p in model.parameters()]
    rng, python = torch.get_rng_state(), random.getstate()
    modes = [module.training for module in model.modules()]

    def data():  # a loader draws too
        for batch in BATCHES:
            torch.rand(1)
            yield batch

    sharpness(model, mse, data())
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), grads, strict=True))
    assert torch.equal(torch.get_rng_state(), rng)
    assert random.getstate() == python
    assert [module.training for module in model.modules()] == modes


def test_a_loss_that_raises_at_the_raised_weights_leaves_them_as_they_were():
    model, calls = network(), []
    before = [p.detach().clone() for p in model.parameters()]

    def loss(out, y):
        calls.append(0)
        if len(calls) == 3:  # the loss, its gradient, the loss up the gradient
            raise KeyError("mine")
        return mse(out, y)

    with pytest.raises(KeyError, match="mine"):
        sharpness(model, loss, (X, Y))
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


# --- refused -----------------------------------------------------------------------------------------

REFUSED = {
    "model": ((lambda x: x, mse, BATCHES), {}, "model: expected a torch.nn.Module"),
    "nothing to train": ((nn.Tanh(), mse, BATCHES), {}, "model: expected some parameters"),
    "no data": ((network(), mse, []), {}, "data: expected at least one batch"),
    "no targets": ((network(), mse, [X, Y, X]), {}, "data: expected batches"),
    "losses of each": ((network(), nn.MSELoss(reduction="none"), BATCHES), {}, "loss: expected a mean"),
    "a number": ((network(), lambda *_: 1.0, BATCHES), {}, "loss: expected a mean"),
    "nan": ((network(), lambda out, y: mse(out, y) * torch.nan, BATCHES), {}, "finite mean, got nan of"),
    "detached": ((network(), lambda out, y: mse(out.detach(), y), BATCHES), {}, "depends on the parameters"),
    "rho": ((network(), mse, BATCHES), {"rho": 0}, "rho: expected a positive number"),
    "tol": ((network(), mse, BATCHES), {"tol": -1}, "tol: expected a positive number"),
    "most": ((network(), mse, BATCHES), {"most": 0}, "most: expected a whole number"),
    "draws": ((network(), mse, BATCHES), {"draws": 1}, "draws: expected a whole number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_by_name(name):
    given, options, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        sharpness(*given, **options)
