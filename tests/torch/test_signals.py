"""Interrupts and warnings as errors at any moment of a step: the weights are at x after the next one."""

import random
import signal
import time

import pytest
import torch
from torch import nn
from torch.optim import SGD

from steepen.torch import CGD, EGR, MSAM, SAM, GapSAM

from .nets import Net, X, Y, same, weights

MAKE = {
    "SAM": lambda base, model: SAM(base, model, rho=0.1),
    "share": lambda base, model: SAM(base, model, rho=0.1, ascent_fraction=1 / 4),
    "CGD": lambda base, model: CGD(base, model, lam=0.05),
    "EGR": lambda base, model: EGR(base, model, lam=0.05),
    "MSAM": lambda base, model: MSAM(base, model, rho=0.1),
    "GapSAM": lambda base, model: GapSAM(base, model, None, 10_000, ascent_fraction=1 / 4, gate=None),
}


class Words(nn.Module):
    """A network whose move takes as long as its passes: an embedding of many rows."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.last = nn.Embedding(100_000, 32), nn.Linear(32, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.table(x)))


@pytest.fixture(autouse=True)
def gradients_are_on_again():
    """An interrupt as torch enters `no_grad` leaves gradients off; tests after this one need them."""
    yield
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    torch.set_grad_enabled(True)


SIZES = {"small": (Net, X, Y), "large": (Words, torch.arange(16), Y.float())}


def interrupted(name, size, times):
    """Interrupt steps at random moments; count those that were, and how often weights were not at x after."""
    kind, x, y = SIZES[size]
    model = kind()
    opt = MAKE[name](SGD(model.parameters(), lr=0.0, momentum=0.9), model)  # so that x stays what it is
    at_x = weights(model)
    if name == "GapSAM":
        opt.k = 5_000
        opt.record_validation_loss(9.0)

    def step():
        return opt.step_on(lambda x, y: (model(x) - y).square().mean(), x, y)

    for _ in range(4):  # until GapSAM knows that there is a gap
        step()
        opt._look_at_numbers() if name == "GapSAM" else None
        if name == "GapSAM":
            opt._means.send()
            opt._means.send()
            opt._look_at_numbers()
    start = time.perf_counter()
    for _ in range(4):
        step()
    seconds = (time.perf_counter() - start) / 4
    came = displaced = perturbed = 0
    draw = random.Random(0)
    for i in range(times):
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-5, draw.uniform(0, 1.5) * seconds))
            while True:
                step()
        except KeyboardInterrupt:
            came += 1
        perturbed += not same(weights(model), at_x)
        if i % 2:
            opt.restore()
        else:
            step()
        displaced += not same(weights(model), at_x)
    assert opt.perturbed > 4
    return came, displaced, perturbed


@pytest.fixture
def interrupts():
    """Alarms as Ctrl-C."""

    def handler(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


POSIX = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs alarms")


@POSIX
@pytest.mark.parametrize(("name", "size"), [("SAM", "small"), ("share", "large"), ("CGD", "small")])
def test_thirty_interrupts_displace_nothing(name, size, interrupts):
    assert interrupted(name, size, 30)[:2] == (30, 0)


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MAKE)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of losses that nobody records here
def test_three_hundred_interrupts_displace_nothing(name, size, interrupts):
    assert interrupted(name, size, 300)[:2] == (300, 0)
