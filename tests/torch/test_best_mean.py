"""`BestMean`: the mean of the weights with the lowest validation loss in the second half of a run."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from steepen.torch import SAM, BestMean, GapSAM

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # a network so small overfits at once
STEPS = 60
torch.manual_seed(0)
X, HELD = torch.randn(128, 6), torch.randn(64, 6)
Y, HELD_Y = ((part[:, 0] + torch.randn(len(part)) > 0).long() for part in (X, HELD))


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


def optimizer(model, validation=(HELD, HELD_Y), lr=0.3):
    return GapSAM(SGD(model.parameters(), lr=lr, momentum=0.9), model, validation, STEPS, gate=None)


def train(model, opt, first, last, after=None):
    for k in range(first, last):
        rows = torch.randperm(128, generator=torch.Generator().manual_seed(k))[:32]
        torch.manual_seed(k)  # of dropout
        opt.step_on(lambda x, y: cross_entropy(model(x), y), X[rows], Y[rows])
        if after is not None:
            after(k + 1)


def values(model):
    return [t.detach().clone() for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]


@pytest.mark.parametrize("beta", [0.5, 0.99])
def test_it_is_torchs_mean_where_its_validation_loss_is_lowest_in_the_second_half(beta):
    model = network()
    opt, found = optimizer(model), []
    best, mean = BestMean(opt, beta), None
    ema = get_ema_multi_avg_fn

    def average(averages, current, n):
        taken = max(1, round(int(n) / 1))
        ema(min(beta, taken / (taken + 1)))(averages, current, n)

    mean = AveragedModel(model, multi_avg_fn=average, use_buffers=True)
    mean.n_averaged += 1  # the weights at the start are the first of the mean
    mean.module.load_state_dict(model.state_dict())

    def after(k):
        taken, share = k, min(beta, k / (k + 1))
        with torch.no_grad():
            for own, new in zip(values_of(mean.module), values_of(model), strict=True):
                own.mul_(share).add_(new, alpha=1 - share)
        assert taken == opt.k
        if k >= STEPS / 2:
            judged = copy.deepcopy(mean.module).eval()
            found.append((float(cross_entropy(judged(HELD), HELD_Y).detach()), k, values(judged)))

    train(model, opt, 0, STEPS, after)
    loss, step, wanted = min(found, key=lambda one: one[0])
    assert (best.loss, best.step) == (pytest.approx(loss, abs=1e-6), step)
    best.load()
    for own, other in zip(values(model), wanted, strict=True):
        assert torch.allclose(own, other, atol=1e-6)


def values_of(model):
    return [t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()]


def test_a_run_beside_it_takes_the_steps_of_a_run_without():
    ends = []
    for beside in (False, True):
        model = network()
        opt = optimizer(model)
        best = BestMean(opt) if beside else None
        train(model, opt, 0, STEPS)
        ends.append(values(model))
        assert best is None or best.step is not None
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_it_resumes_bit_for_bit():
    model = network()
    opt = optimizer(model)
    best = BestMean(opt)
    train(model, opt, 0, 40)
    states = [copy.deepcopy(one.state_dict()) for one in (model, opt, best)]
    train(model, opt, 40, STEPS)
    other = network()
    again = optimizer(other)
    resumed = BestMean(again)
    for one, state in zip((other, again, resumed), states, strict=True):
        one.load_state_dict(state)
    train(other, again, 40, STEPS)
    assert (best.loss, best.step) == (resumed.loss, resumed.step)
    best.load()
    resumed.load()
    assert all(torch.equal(a, b) for a, b in zip(values(model), values(other), strict=True))


def test_an_error_of_the_validation_function_leaves_the_weights_of_the_run():
    model, failing = network(), []

    def validation():
        if failing:
            raise RuntimeError("no")
        return cross_entropy(model(HELD), HELD_Y)

    opt = optimizer(model, validation)
    best = BestMean(opt)
    train(model, opt, 0, STEPS // 2 - 1)
    opt._begin = lambda: failing.append(True)  # GapSAM's own reading is not what fails
    before = network()
    before.load_state_dict(model.state_dict())
    with pytest.raises(RuntimeError, match="no"):
        train(model, opt, STEPS // 2 - 1, STEPS)
    assert opt.k == STEPS // 2
    assert math.isinf(best.loss)
    gone = [float((a - b).abs().max()) for a, b in zip(values(model), values(before), strict=True)]
    lr = 0.3
    assert 0 < max(gone) < 10 * lr  # a step away, not at the mean's
    mean = [float((a - b).abs().max()) for a, b in zip(values(model), best._mean, strict=True)]
    assert max(mean) > 0


def test_wrong_calls_say_what_to_write():
    model = network()
    opt = optimizer(model)
    with pytest.raises(TypeError, match="opt: expected a GapSAM"):
        BestMean(SAM(SGD(model.parameters(), lr=0.1), model, rho=0.05))
    with pytest.raises(ValueError, match="opt: expected validation data or a function"):
        BestMean(optimizer(network(), None))
    with pytest.raises(ValueError, match="beta"):
        BestMean(opt, 1.0)
    with pytest.raises(RuntimeError, match="begins with step 30, 0 were taken"):
        BestMean(opt).load()
    state = BestMean(opt).state_dict()
    small = nn.Linear(6, 2)
    with pytest.raises(ValueError, match="state: expected that of a network of the same shapes"):
        BestMean(optimizer(small)).load_state_dict(state)
