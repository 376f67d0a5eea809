"""191 held-out problems, with gradients; no constant of the library was chosen on them.

They are test functions in 2, 10 and 40 variables from two random starts each, logistic regressions that can
and cannot be separated, Lennard-Jones clusters, matrix completions and small networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import special

from steepen.functions import functions

from ._case import Case


def _case(name: str, both: Callable[[Any], Any], x0: Any) -> Case:
    def quiet(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return both(x)

    return Case(name, lambda x: quiet(x)[0], x0, quiet)


def cases() -> Iterator[Case]:
    for key, f in sorted(functions.items()):
        sizes = (4, 40) if key == "powell" else (2, 10, 40)  # Powell's variables come in fours
        for n in sizes if f.any_n else (0,):
            h = f.at(n=n) if n else f
            for seed in range(2):
                low, high = h.bounds.T
                x0 = np.random.default_rng([seed, n, len(key)]).uniform(low, high)
                case = _case(f"{key}-{n}-{seed}", lambda x, h=h: (h(x), h.grad(x)), x0)
                if all(np.isfinite(part).all() for part in case.both(x0)):
                    yield case
    rng = np.random.default_rng(7)
    for n in (5, 20, 100):
        for noise in (0, 2):
            X, w = rng.standard_normal((3 * n, n)), rng.standard_normal(n)
            y = np.sign(X @ w + noise * rng.standard_normal(3 * n))
            yield _case(f"logistic-{n}-{noise}", lambda w, X=X, y=y: logistic(w, X, y), np.zeros(n))
    for atoms in (7, 13, 19):
        for seed in range(2):
            box = 1.3 * 1.4 * (atoms / 13) ** (1 / 3)
            start = np.random.default_rng([atoms, seed]).uniform(-box, box, 3 * atoms)
            yield _case(f"lennard-jones-{atoms}-{seed}", lennard_jones, start)
    for seed, (a, b, r) in enumerate(((20, 15, 2), (40, 30, 3))):
        rng = np.random.default_rng(seed)
        T, seen = rng.standard_normal((a, r)) @ rng.standard_normal((r, b)), rng.uniform(size=(a, b)) < 0.5
        both = lambda x, T=T, seen=seen, r=r: completion(x, T, seen, r)  # noqa: E731
        yield _case(f"completion-{seed}", both, 0.1 * rng.standard_normal((a + b) * r))
    for seed in range(3):
        rng = np.random.default_rng(50 + seed)
        X = rng.standard_normal((40, 3))
        both = lambda x, X=X: network(x, X, np.sin(X).sum(axis=1))  # noqa: E731
        yield _case(f"network-{seed}", both, 0.5 * rng.standard_normal(40))


def logistic(w: Any, X: Any, y: Any) -> Any:
    z = y * (X @ w)
    return float(np.logaddexp(0, -z).sum()), X.T @ (-y * special.expit(-z))


def lennard_jones(x: Any) -> Any:
    d = x.reshape(-1, 1, 3) - x.reshape(1, -1, 3)
    square = (d**2).sum(axis=-1)
    np.fill_diagonal(square, 1.0)
    sixth = square**-3
    np.fill_diagonal(sixth, 0.0)
    pull = 4 * (-12 * sixth**2 + 6 * sixth) / square
    return float(2 * (sixth**2 - sixth).sum()), (pull[..., None] * d).sum(axis=1).ravel()


def completion(x: Any, T: Any, seen: Any, r: int) -> Any:
    a, b = T.shape
    U, V = x[: a * r].reshape(a, r), x[a * r :].reshape(r, b)
    E = seen * (U @ V - T)
    return float(0.5 * (E**2).sum()), np.concatenate([(E @ V.T).ravel(), (U.T @ E).ravel()])


def network(x: Any, X: Any, y: Any) -> Any:
    W, c, v = x[:24].reshape(3, 8), x[24:32], x[32:]
    H = np.tanh(X @ W + c)
    e = H @ v - y
    D = np.outer(e, v) * (1 - H * H)
    return float(0.5 * e @ e), np.concatenate([(X.T @ D).ravel(), D.sum(axis=0), H.T @ e])
