"""Sharpness and robustness, against the whole Hessian and NumPy, and what must be left alone."""

import math
import random

import numpy as np
import pytest
import torch
from benchmarks.evidence.robustness import robustness
from benchmarks.evidence.sharpness import sharpness
from torch import nn
from torch.func import functional_call, hessian

from ..torch.nets import same, state, weights

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script")  # torch.func, when first used

X, Y = torch.randn(2, 24, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
BATCHES = [(X[:16], Y[:16]), (X[16:], Y[16:])]  # of different sizes: means are over examples
mse = nn.MSELoss()
both = pytest.mark.parametrize("look", [sharpness, robustness])


def network(*more):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), *more, nn.Linear(5, 4)).double().eval()


def whole(model):
    named = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def loss(flat):
        parts = flat.split([p.numel() for p in named.values()])
        values = {name: part.view(p.shape) for (name, p), part in zip(named.items(), parts, strict=True)}
        return mse(functional_call(model, values, X), Y)

    return hessian(loss)(torch.cat([p.flatten() for p in named.values()]))


@pytest.mark.parametrize("frozen", [False, True])
def test_the_largest_eigenvalue_is_that_of_the_whole_hessian(frozen):
    model = network()
    model[0].weight.requires_grad_(not frozen)
    expected = torch.linalg.eigvalsh(whole(model))[-1].item()
    found = sharpness(model, mse, BATCHES, tol=1e-9)
    assert found.largest == pytest.approx(expected, rel=1e-7)
    assert found.largest_error <= 1e-9 * expected
    assert found.products - 20 < 30  # of 49 parameters: it stops by its error
    assert repr(found).startswith("Sharpness(largest=")
    assert "24 examples, eval mode" in repr(found)


def test_an_eigenvalue_is_as_near_as_the_error_says_however_early_it_stops():
    for most in (2, 5):
        found = sharpness(network(), mse, BATCHES, tol=1e-12, most=most)
        nearest = (torch.linalg.eigvalsh(whole(network())) - found.largest).abs().min()
        assert nearest <= found.largest_error * (1 + 1e-9)
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
    model = nn.Linear(4, 4)  # four eigenvalues and zero, each many times
    found = sharpness(model, mse, (X.float(), Y.float()), tol=1e-12, most=200)
    assert found.products - 20 <= 20
    expected = torch.linalg.eigvalsh(whole(model.double()))[-1].item()
    assert found.largest == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_is_linear_has_no_curvature():
    found = sharpness(nn.Linear(4, 1).double(), lambda out, _: out.mean(), (X, None))
    assert (found.largest, found.largest_error, found.trace, found.trace_error) == (0, 0, 0, 0)
    assert found.rise > 0


class Attention(nn.Linear):
    def forward(self, x):
        q, k, v = super().forward(x)[None, None].chunk(3, dim=-1)
        return nn.functional.scaled_dot_product_attention(q, k, v)[0, 0]


def test_attention_by_fused_kernels_is_looked_at_through_the_plain_one():
    torch.manual_seed(0)
    model, cuda = Attention(4, 12).double(), torch.backends.cuda
    before = cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled()
    found = sharpness(model, mse, (X, Y), tol=1e-9)
    assert (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled()) == before
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert found.largest == pytest.approx(torch.linalg.eigvalsh(whole(model))[-1].item())


class Named(nn.Sequential):
    def forward(self, *, inputs, scale):
        return {"scores": self[0](inputs) * scale}


def test_a_model_that_takes_its_inputs_by_name_and_returns_more_than_scores():
    named = [({"inputs": x, "scale": 1.0}, y) for x, y in BATCHES]
    found = sharpness(Named(network()).eval(), lambda out, y: mse(out["scores"], y), named)
    assert found == sharpness(network(), mse, BATCHES)


@pytest.mark.slow
def test_a_compiled_model_is_looked_at_uncompiled():
    assert sharpness(torch.compile(network()), mse, BATCHES) == sharpness(network(), mse, BATCHES)


def test_what_the_caller_has_switched_on_does_not_matter():
    model, batch = network().float(), [(x.float(), y.float()) for x, y in BATCHES]
    expected = sharpness(model, mse, batch)
    for mode in (torch.no_grad(), torch.inference_mode(), torch.autocast("cpu", torch.bfloat16)):
        with mode:
            assert sharpness(model, mse, batch) == expected


def test_in_training_mode_the_statistics_are_those_of_each_batch_and_the_masks_stay():
    model = network(nn.BatchNorm1d(5), nn.Dropout(0.5))
    before = sharpness(model, mse, BATCHES)
    found = sharpness(model.train(), mse, BATCHES, tol=1e-9)
    assert (before.training, found.training) == (False, True)
    assert found.loss != before.loss
    assert found == sharpness(model, mse, BATCHES, tol=1e-9)  # drawn anew, H·v would be of no one function


def changed(model, change):
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.copy_(torch.from_numpy(change(p.flatten(1).numpy().copy())).view(p.shape))
    return model


def nearest(w, bits):
    """Round weight by weight: the nearest value of the grid of its row."""
    most = 2 ** (bits - 1) - 1
    grids = [np.abs(row).max() * np.arange(-most, most + 1) / most for row in w]
    return np.array([[g[np.abs(g - one).argmin()] for one in row] for g, row in zip(grids, w, strict=True)])


@pytest.mark.parametrize("bits", [2, 4])
def test_rounding_is_to_the_nearest_value_of_each_row(bits):
    """A row of zeros is no special case, and a loss that overflows with rounded weights is a finding."""
    model = network()
    with torch.no_grad():
        model[0].weight[2] = 0
    kept = model[0].weight.detach().clone()
    found = robustness(model, mse, BATCHES, bits=[bits])
    assert found.loss == pytest.approx(mse(model(X), Y).item())
    assert repr(found).endswith("; 24 examples)")

    def loss(out, y):
        return mse(out, y) * (1.0 if torch.equal(model[0].weight, kept) else torch.inf)

    assert math.isinf(robustness(model, loss, BATCHES).rounded[4])
    expected = mse(changed(model, lambda w: nearest(w, bits))(X), Y)
    assert found.rounded[bits] == pytest.approx(expected.item())


def test_kernels_are_rounded_by_their_output_channel():
    model, x, y = nn.Conv1d(2, 3, 2).double(), X.view(12, 2, 4), torch.zeros(12, 3, 3, dtype=X.dtype)
    found = robustness(model, mse, (x, y), bits=[3])
    assert found.rounded[3] == pytest.approx(mse(changed(model, lambda w: nearest(w, 3))(x), y).item())


def test_within_autocast_robustness_sees_the_changed_weights_and_leaves_none_of_them_behind():
    model, other = network().float(), changed(network().float(), lambda w: nearest(w, 3).astype(w.dtype))
    x, y = X.float(), Y.float()
    with torch.autocast("cpu", torch.bfloat16):
        before, rounded = (mse(one(x).float(), y).item() for one in (model, other))
        found = robustness(model, lambda out, y: mse(out.float(), y), (x, y), bits=[3])
        assert mse(model(x).float(), y).item() == before
    assert [found.loss, found.rounded[3]] == pytest.approx([before, rounded], rel=1e-6)


@pytest.mark.parametrize("part", [0.25, 0.9])
def test_pruning_takes_the_smallest_weights_of_each_tensor(part):
    def pruned(w):
        return np.where(np.abs(w) <= np.sort(np.abs(w), axis=None)[round(part * w.size) - 1], 0, w)

    found = robustness(network(), mse, BATCHES, prune=[part])
    assert found.pruned[part] == pytest.approx(mse(changed(network(), pruned)(X), Y).item())


def test_noise_raises_a_square_by_its_variance():
    model = nn.Linear(50, 1, bias=False).double()
    nn.init.constant_(model.weight, 2.0)  # root mean square 2, so a deviation of .6: 50 · .36 in the mean
    data = torch.eye(50, dtype=torch.float64), torch.full((50, 1), 2.0, dtype=torch.float64)
    mean, error = robustness(model, nn.MSELoss(reduction="sum"), data, noise=[0.3], draws=200).noisy[0.3]
    assert error == pytest.approx(0.36 * math.sqrt(2 * 50 / 200), rel=0.3)
    assert abs(mean - 18) < 4 * error


@both
def test_the_same_call_gives_the_same_numbers_and_leaves_nothing_behind(look):
    model = network(nn.BatchNorm1d(5), nn.Dropout(0.5)).train()
    mse(model(X), Y).backward()
    before, grads = state(model), [p.grad.clone() for p in model.parameters()]
    rng, python = torch.get_rng_state(), random.getstate()

    def data():
        for batch in BATCHES:
            if look is sharpness:
                torch.rand(1)  # a loader draws too
            yield batch

    found = look(model, mse, data())
    assert same(state(model), before)
    assert same([p.grad for p in model.parameters()], grads)
    assert torch.equal(torch.get_rng_state(), rng)
    assert random.getstate() == python
    assert all(module.training for module in model.modules())
    assert found == look(model, mse, BATCHES)
    assert found != look(model, mse, BATCHES, seed=1)
    assert (found == look(model.eval(), mse, BATCHES)) is (look is robustness)
    assert not model.training


@both
def test_a_loss_that_raises_at_changed_weights_leaves_them_as_they_were(look):
    model, calls = network(), []

    def loss(out, y):
        calls.append(0)
        if len(calls) == 3:  # the loss, its gradient, the loss up the gradient
            raise KeyError("mine")
        return mse(out, y)

    with pytest.raises(KeyError, match="mine"):
        look(model, loss, (X, Y))
    assert same(weights(model), weights(network()))


COMMON = {  # what is said of a wrong argument
    "model: expected a torch.nn.Module": {"model": lambda x: x},
    "model: expected some parameters": {"model": nn.Tanh()},
    "data: expected at least one batch": {"data": []},
    "data: expected batches": {"data": [X, Y, X]},
    "loss: expected a mean": {"loss": nn.MSELoss(reduction="none")},
    "finite mean, got nan of": {"loss": lambda out, y: mse(out, y) * torch.nan},
    "draws: expected a whole number": {"draws": 1},
}
REFUSED = {
    sharpness: COMMON | {
        "depends on the parameters": {"loss": lambda out, y: mse(out.detach(), y)},
        "rho: expected a positive number": {"rho": 0},
        "most: expected a whole number": {"most": 0},
    },
    robustness: COMMON | {
        "model: expected some weights with two axes": {"model": nn.LayerNorm(4).double()},
        r"finite weights, got some in .\.weight": {"model": changed(network(), lambda w: w * np.inf)},
        "bits: expected a whole number": {"bits": [1]},
        "noise: expected positive numbers": {"noise": [-0.1]},
        "prune: expected parts of the weights": {"prune": [1.0]},
    },
}  # fmt: skip


@pytest.mark.parametrize(("look", "words"), [(look, words) for look in REFUSED for words in REFUSED[look]])
def test_what_does_not_fit_is_refused_by_name(look, words):
    with pytest.raises((TypeError, ValueError), match=words):
        look(**{"model": network(), "loss": mse, "data": BATCHES} | REFUSED[look][words])
