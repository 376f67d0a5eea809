"""The inverse Hessian that pairs make, as a matrix: by dense updates, and as the pairs apply it."""

import numpy as np

from steepen._core.kits import kit_for


def spd(n, rng, spread=30.0):
    """Return a symmetric matrix with eigenvalues from 1 to `spread`."""
    basis = np.linalg.qr(rng.standard_normal((n, n)))[0]
    H = basis @ np.diag(np.geomspace(1.0, spread, n)) @ basis.T
    return (H + H.T) / 2


def bfgs(G, s, y):
    """Return the textbook's product form of the inverse update."""
    rho, eye = 1 / (s @ y), np.eye(len(s))
    return (eye - rho * np.outer(s, y)) @ G @ (eye - rho * np.outer(y, s)) + rho * np.outer(s, s)


def dense(pairs, row=None):
    """Return G from the pairs in the memory, one rank-two update after the other, the oldest first."""

    def own(name):
        value = np.asarray(getattr(pairs, name), dtype=float)
        return value if row is None else value[row]

    count, capacity = int(own("count")), pairs.capacity
    G = float(own("gamma")) * np.diag(own("D"))
    for i in range(max(0, count - capacity), count):
        G = bfgs(G, own("S")[i % capacity], own("Y")[i % capacity])
    return G


def matrix(pairs, n, like):
    """Return G, column by column, as the pairs apply it; of a batch all rows at once."""
    kit = kit_for(like)
    zero = kit.xp.asarray(like * 0)
    columns = [pairs.product(kit, zero + kit.xp.asarray(unit, dtype=like.dtype)) for unit in np.eye(n)]
    return np.stack([np.asarray(c, dtype=float) for c in columns], axis=-1)
