"""SAM's step written out, with micro-batches, a share and clipping: a referee for other libraries' loops."""

import torch


def sam(model, losses, first, *, rho, lr, clip):
    """Take one step of SGD by the gradient at x + s, and return the loss there.

    The losses of micro-batches add up; `first` are those that the probe's gradient is of.
    """
    params = list(model.parameters())
    g = torch.autograd.grad(torch.stack([loss() for loss in first]).sum(), params)
    x = [p.detach().clone() for p in params]
    norm = torch.cat([part.flatten() for part in g]).norm()
    with torch.no_grad():
        for p, part in zip(params, g, strict=True):
            p += rho * part / norm
    total = torch.stack([loss() for loss in losses]).sum()
    d = torch.autograd.grad(total, params)
    size = torch.cat([part.flatten() for part in d]).norm()
    with torch.no_grad():
        for p, start, part in zip(params, x, d, strict=True):
            p.copy_(start - lr * part * min(1.0, clip / (size + 1e-6)))
    return total.detach()


def flat(model):
    """Return all parameters in one vector."""
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])
