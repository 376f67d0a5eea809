"""The networks, bases and loops that the tests of `steepen.torch` share."""

import torch
from torch import nn
from torch.optim import SGD, AdamW

from steepen.torch import CGD, EGR, MSAM, SAM, GapSAM

torch.set_num_threads(1)  # the networks are tiny

X = torch.randn(16, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.randn(16, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

BASES = {
    "momentum": lambda ps: SGD(ps, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adamw": lambda ps: AdamW(ps, lr=0.01),
}


def several(base):
    """Return two optimizers in the place of one: for the matrices and for the rest."""
    params = [p for group in base.param_groups for p in group["params"]]
    rest = AdamW([p for p in params if p.ndim < 2], lr=0.01)
    return [SGD([p for p in params if p.ndim > 1], lr=0.05, momentum=0.9), rest]


ALL = {
    "CGD": lambda base, model: CGD(base, model, lam=0.05),
    "SAM": lambda base, model: SAM(base, model, rho=0.1),
    "share": lambda base, model: SAM(base, model, rho=0.1, ascent_fraction=1 / 4),
    "several": lambda base, model: SAM(several(base), model, rho=0.1),
    "GapSAM": lambda base, model: GapSAM(
        base, model, lambda: mse(model, X, Y + 1), total_steps=20, ascent_fraction=1 / 4, strength=0.1
    ),
    "CGD, r": lambda base, model: CGD(base, model, lam=0.05, r=0.1),
    "MSAM": lambda base, model: MSAM(base, model, rho=0.3),
    "FGR": lambda base, model: CGD(base, model, lam=0.125, r=0.1, guard=False),
    "exact": lambda base, model: CGD(base, model, lam=0.05, exact=True),
    "EGR": lambda base, model: EGR(base, model, lam=0.05),
    "ASAM": lambda base, model: SAM(base, model, rho=0.3, adaptive=True),
    "GNP": lambda base, model: SAM(base, model, rho=0.1, alpha=0.6),
    "USAM": lambda base, model: SAM(base, model, rho=0.1, normalized=False),
}
"""Every optimizer, with settings that a few steps show."""


class Net(nn.Module):
    """A small network with every trap in it: BatchNorm, dropout, a parameter without use."""

    def __init__(self, dropout=0.0, norm=False, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(3, 5), nn.Linear(5, 2)
        self.norm = nn.BatchNorm1d(5) if norm else nn.Identity()
        self.drop = nn.Dropout(dropout)
        self.unused = nn.Parameter(torch.ones(2))
        self.to(dtype)

    def forward(self, x):
        return self.last(self.drop(torch.tanh(self.norm(self.first(x)))))


def mse(model, x=X, y=Y):
    return (model(x) - y).square().mean() * 3


def data(k):
    order = torch.randperm(16, generator=torch.Generator().manual_seed(k))
    return X[order], Y[order]


def make(name, model, base="momentum"):
    return ALL[name](BASES[base](model.parameters()), model)


def built(name, base="momentum", **options):
    model = Net(**options)
    return model, make(name, model, base)


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


def state(model):
    return [value.detach().clone() for value in model.state_dict().values()]


def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def by_step_on(opt, model, x=X, y=Y, scaler=None):
    return opt.step_on(lambda x, y: mse(model, x, y), x, y, scaler=scaler)


def by_closure(opt, model, x=X, y=Y, scaler=None):
    def closure():
        loss = mse(model, *opt.part((x, y)))
        both = opt.penalised(loss)
        (both if scaler is None else scaler.scale(both)).backward()
        return loss

    return opt.step(closure, scaler=scaler)


def by_passes(opt, model, x=X, y=Y, scaler=None):
    losses = []
    for part in opt.passes((x, y), scaler=scaler):
        loss = mse(model, *part)
        both = opt.penalised(loss)
        (both if scaler is None else scaler.scale(both)).backward()
        opt.record_loss(loss)
        losses.append(loss.detach())
    if scaler is None:
        opt.step()
    else:
        if opt.max_norm is not None:
            scaler.unscale_(opt)
        scaler.step(opt)
    return losses[-1 if opt.ascent_fraction < 1 else 0]  # of the whole batch


LOOPS = {"step_on": by_step_on, "closure": by_closure, "passes": by_passes}
