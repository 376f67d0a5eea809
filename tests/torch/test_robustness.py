"""Robustness, against rounding, pruning and noise written down by hand, and what must be left alone."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from steepen.torch import robustness

torch.set_num_threads(1)  # the networks are tiny

X, Y = torch.randn(2, 24, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
BATCHES = [(X[:16], Y[:16]), (X[16:], Y[16:])]  # of different sizes: means are over examples
mse = nn.MSELoss()


def network(*more):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), *more, nn.Linear(5, 4)).double().eval()


def loss_with(model, change):
    """Return the loss of `network()`, computed with NumPy, with changed matrices."""
    first, second = model[0], model[-1]
    w, v = (change(layer.weight.detach().numpy()) for layer in (first, second))
    hidden = np.tanh(X.numpy() @ w.T + first.bias.detach().numpy())
    out = hidden @ v.T + second.bias.detach().numpy()
    return float(np.mean((out - Y.numpy()) ** 2))


def by_hand(w, bits):
    """Round weight by weight: the nearest value of the grid of its row."""
    rounded = np.empty_like(w)
    for i, row in enumerate(w):
        most = 2 ** (bits - 1) - 1
        grid = np.abs(row).max() * np.arange(-most, most + 1) / most
        rounded[i] = [grid[np.abs(grid - one).argmin()] for one in row]
    return rounded


# --- the numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [2, 4])
def test_rounding_is_to_the_nearest_value_of_each_row(bits):
    """A row of zeros is no special case, and a loss that overflows with rounded weights is a finding."""
    model = network()
    with torch.no_grad():
        model[0].weight[2] = 0
    kept = model[0].weight.detach().clone()
    found = robustness(model, mse, BATCHES, bits=[bits])
    assert found.loss == pytest.approx(loss_with(model, lambda w: w))
    assert found.rounded[bits] == pytest.approx(loss_with(model, lambda w: by_hand(w, bits)))
    assert repr(found).endswith("; 24 examples)")

    def loss(out, y):
        return mse(out, y) * (1.0 if torch.equal(model[0].weight, kept) else torch.inf)

    assert math.isinf(robustness(model, loss, BATCHES).rounded[4])


@pytest.mark.parametrize("part", [0.25, 0.9])
def test_pruning_takes_the_smallest_weights_of_each_tensor(part):
    def pruned(w):
        limit = np.sort(np.abs(w), axis=None)[round(part * w.size) - 1]
        return np.where(np.abs(w) <= limit, 0, w)

    model = network()
    found = robustness(model, mse, BATCHES, prune=[part])
    assert found.pruned[part] == pytest.approx(loss_with(model, pruned))


def test_noise_raises_a_square_by_its_variance():
    model = nn.Linear(50, 1, bias=False).double()
    with torch.no_grad():
        model.weight.fill_(2.0)  # root mean square 2, so a deviation of .6: 50 · .36 in the mean
    data = torch.eye(50, dtype=torch.float64), torch.full((50, 1), 2.0, dtype=torch.float64)
    found = robustness(model, nn.MSELoss(reduction="sum"), data, noise=[0.3], draws=200)
    mean, error = found.noisy[0.3]
    assert error == pytest.approx(0.36 * math.sqrt(2 * 50 / 200), rel=0.3)
    assert abs(mean - 18) < 4 * error


def test_the_same_call_gives_the_same_numbers():
    found = robustness(network(), mse, iter(BATCHES))
    assert found == robustness(network(), mse, BATCHES)
    assert found.noisy != robustness(network(), mse, BATCHES, seed=1).noisy


# --- what is left alone ------------------------------------------------------------------------------


def test_nothing_is_left_behind_and_dropout_is_off():
    model = network(nn.BatchNorm1d(5), nn.Dropout(0.5)).train()
    mse(model(X), Y).backward()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    grads, rng = [p.grad.clone() for p in model.parameters()], torch.get_rng_state()
    found = robustness(model, mse, BATCHES)
    assert found == robustness(model.eval(), mse, BATCHES)
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), grads, strict=True))
    assert torch.equal(torch.get_rng_state(), rng)
    assert not model.training  # as we left it
    robustness(model.train(), mse, BATCHES)
    assert all(module.training for module in model.modules())


def test_a_loss_that_raises_half_way_leaves_the_weights_as_they_were():
    model, calls = network(), []
    before = [p.detach().clone() for p in model.parameters()]

    def loss(out, y):
        calls.append(0)
        if len(calls) == 3:
            raise KeyError("mine")
        return mse(out, y)

    with pytest.raises(KeyError, match="mine"):
        robustness(model, loss, (X, Y))
    assert all(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))


# --- refused -----------------------------------------------------------------------------------------


def broken(value):
    model = network()
    with torch.no_grad():
        model[-1].weight[1, 2] = value
    return model


REFUSED = {
    "no matrix": (nn.LayerNorm(4).double(), {}, "model: expected some weights with two axes"),
    "nan": (broken(math.nan), {}, r"finite weights, got some in 2\.weight that are not"),
    "bits": (network(), {"bits": [1]}, "bits: expected a whole number"),
    "noise": (network(), {"noise": [-0.1]}, "noise: expected positive numbers"),
    "prune": (network(), {"prune": [1.0]}, "prune: expected parts of the weights"),
    "draws": (network(), {"draws": 1}, "draws: expected a whole number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_by_name(name):
    """Model, loss and data are those of `sharpness`."""
    model, options, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        robustness(model, mse, BATCHES, **options)
