"""The steps of SAM and EGR written out, with micro-batches and clipping: a referee for other loops."""

import torch
from torch import nn


def sam(model, losses, first, *, rho, lr, clip):
    """Take one step of SGD by the gradient at x + s, and return the loss there.

    The losses of micro-batches add up; `first` are those that the ascent step's gradient is of.
    """
    params = list(model.parameters())
    g = torch.autograd.grad(torch.stack([loss() for loss in first]).sum(), params)
    x = [p.detach().clone() for p in params]
    norm = torch.cat([part.flatten() for part in g]).norm()
    with torch.no_grad():
        for p, part in zip(params, g, strict=True):
            p += rho * part / norm
    total = torch.stack([loss() for loss in losses]).sum()
    step(params, x, torch.autograd.grad(total, params), lr, clip)
    return total.detach()


def egr(model, losses, *, lam, lr, clip):
    """Take one step of SGD on f + λ‖∇f‖², f being the sum of the losses of micro-batches."""
    params = list(model.parameters())
    total = torch.stack([loss() for loss in losses]).sum()
    g = torch.autograd.grad(total, params, create_graph=True)
    d = torch.autograd.grad(total + lam * sum(part.square().sum() for part in g), params)
    step(params, [p.detach().clone() for p in params], d, lr, clip)


def step(params, x, d, lr, clip):
    size = torch.cat([part.flatten() for part in d]).norm()
    with torch.no_grad():
        for p, start, part in zip(params, x, d, strict=True):
            p.copy_(start - lr * part * min(1.0, clip / (size + 1e-6)))


def by_passes(opt, steps, loss_of, *, clip, divisor=len, told=lambda k: None):
    """Take steps, each a list of micro-batches; `told(k)` is the validation loss that is told after one."""
    for k, step in enumerate(steps):
        for batch in opt.passes(*step):
            loss = loss_of(batch) / divisor(step)
            loss.backward()
            opt.record_loss(loss)
        nn.utils.clip_grad_norm_(opt.model.parameters(), clip)
        opt.step()
        if told(k) is not None:
            opt.record_validation_loss(told(k))


def failing(kind, method, start):
    """Return a kind of network whose third pass raises: the second of two micro-batches at x + s."""
    calls = []

    def fails(self, *given, **named):
        calls.append(0)
        if len(calls) == 3:  # the first call is the ascent step's
            assert not torch.equal(flat(self).cpu(), start)
            raise KeyError("mine")
        return getattr(super(changed, self), method)(*given, **named)

    changed = type("Failing", (kind,), {method: fails})
    return changed


def flat(model):
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])
