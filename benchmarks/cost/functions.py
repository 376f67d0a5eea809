"""Functions that cost little, so that what is timed is mostly what each library adds; and loops by hand."""

from __future__ import annotations

import numpy as np

PI = np.pi


def branin(x):
    x1, x2 = x[..., 0], x[..., 1]
    q = x2 - 5.1 / (4 * PI**2) * x1 * x1 + 5 / PI * x1 - 6
    return q * q + 10 * (1 - 1 / (8 * PI)) * np.cos(x1) + 10


def branin_grad(x):
    x1, x2 = x[..., 0], x[..., 1]
    q = x2 - 5.1 / (4 * PI**2) * x1 * x1 + 5 / PI * x1 - 6
    g = np.empty_like(x)
    g[..., 0] = 2 * q * (5 / PI - 5.1 / (2 * PI**2) * x1) - 10 * (1 - 1 / (8 * PI)) * np.sin(x1)
    g[..., 1] = 2 * q
    return g


def hand_gd(f, grad, x, step, iters):
    """Steepest descent as one writes it, tracing x, f and ‖∇f‖."""
    xs, fs, norms = [], [], []
    for _ in range(iters):
        g = grad(x)
        xs.append(x.copy())
        fs.append(f(x))
        norms.append(np.linalg.norm(g))
        x = x - step * g
    return x


def hand_cgd_fd(f, grad, x, step, lam, r, iters):
    """CGD-FD as one writes it, with the guard, tracing x, f and ‖∇f‖."""
    xs, fs, norms = [], [], []
    nu = 2 * lam / r
    for _ in range(iters):
        g = grad(x)
        p = -(1 - nu) * g - nu * grad(x + r * g)
        if not g @ p < 0:
            p = -g
        xs.append(x.copy())
        fs.append(f(x))
        norms.append(np.linalg.norm(g))
        x = x + step * p
    return x


def hand_batch(f, grad, x, step, iters, keep_x):
    """Many starts at once, tracing f and ‖∇f‖ (and x)."""
    xs, fs, norms = [], [], []
    for _ in range(iters):
        g = grad(x)
        fs.append(f(x))
        norms.append(np.sqrt((g * g).sum(axis=-1)))
        if keep_x:
            xs.append(x)
        x = x - step * g
    return x, np.stack(fs), np.stack(norms), np.stack(xs) if keep_x else None


def own_rosenbrock(x):
    bend, rest = x[1:] - x[:-1] ** 2, 1 - x[:-1]
    return float(100 * bend.dot(bend) + rest.dot(rest))


def own_slope(x):
    g, bend = np.empty_like(x), x[1:] - x[:-1] ** 2
    g[-1] = 0.0
    g[:-1] = -400 * x[:-1] * bend - 2 * (1 - x[:-1])
    g[1:] += 200 * bend
    return g
