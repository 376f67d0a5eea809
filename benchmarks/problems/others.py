"""70 held-out problems without gradients: test functions from two starts each, and fits, n = 2 … 20."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import steepen as st

from ._case import Case

SIZES = {
    "booth": 2, "matyas": 2, "mccormick": 2, "zakharov": 6, "three-hump-camel": 2, "six-hump-camel": 2,
    "dixon-price": 8, "rosenbrock": 5, "branin": 2, "colville": 4, "goldstein-price": 2, "hartmann-3": 3,
    "hartmann-6": 6, "powell": 16, "styblinski-tang": 5, "trid": 12, "sum-squares": 20, "levy": 4,
    "rotated-hyper-ellipsoid": 10, "perm-d": 3, "bohachevsky-1": 2,
}  # fmt: skip


def cases() -> Iterator[Case]:
    """Functions from two starts each, and fits of made-up data; the dimensions are 2 to 20."""
    for name, n in SIZES.items():
        f = st.functions[name]
        f = f.at(n=n) if f.any_n else f
        for seed in range(2):
            low, high = f.bounds.T
            x0 = np.random.default_rng([seed, n]).uniform(low, high)
            yield Case(f"{name}-{seed}", lambda x, f=f: f(x), x0, known=f.fmin)
    for seed in range(4):
        rng = np.random.default_rng(100 + seed)
        n = (3, 6, 10, 20)[seed]
        X = rng.standard_normal((60, n)) * np.logspace(-1, 1, n)
        y = np.sign(X @ rng.standard_normal(n) + rng.standard_normal(60))
        yield Case(
            f"logistic-{n}",
            lambda w, X=X, y=y: np.logaddexp(0, -y * (X @ w)).sum() + 0.1 * w @ w,
            np.zeros(n),
        )
        counts = rng.poisson(np.exp(0.3 * X[:, : n // 2 + 1] @ np.ones(n // 2 + 1) / 10))
        Z = X[:, : n // 2 + 1] / 10
        yield Case(
            f"poisson-{n}",
            lambda w, Z=Z, c=counts: (np.exp(Z @ w) - c * (Z @ w)).sum(),
            np.zeros(Z.shape[1]),
        )
        yield Case(
            f"robust-{n}",
            lambda w, X=X, y=y: np.log1p((X @ w - 3 * y) ** 2).sum() + 0.01 * w @ w,
            np.full(n, 0.1),
        )
        t = np.linspace(0, 5, 40)
        data = 3 * np.exp(-0.7 * t) + 2 * np.exp(-2.5 * t) + 0.01 * rng.standard_normal(40)
        start = np.array([1.0, 0.3, 1.0, 1.0 + seed])
        yield Case(
            f"exponentials-{seed}",
            lambda b, t=t, d=data: ((b[0] * np.exp(-b[1] * t) + b[2] * np.exp(-b[3] * t) - d) ** 2).sum(),
            start,
        )
        scales = 10.0 ** rng.uniform(-4, 4, n)
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        A = Q @ np.diag(np.logspace(0, 2, n)) @ Q.T
        yield Case(
            f"scaled-{n}",
            lambda x, A=A, s=scales: 1 + 0.5 * (x / s - 1) @ A @ (x / s - 1) + ((x / s) ** 4).sum(),
            3.0 * scales,
        )
        P = rng.uniform(size=(25, 2))
        v = np.sin(4 * P[:, 0]) + P[:, 1] ** 2 + 0.1 * rng.standard_normal(25)

        def likelihood(h: Any, P: Any = P, v: Any = v) -> float:
            with np.errstate(all="ignore"):
                d = ((P[:, None] - P[None]) ** 2 * np.exp(-2 * h[1:3])).sum(axis=-1)
                K = np.exp(2 * h[0]) * np.exp(-0.5 * d) + (np.exp(2 * h[3]) + 1e-8) * np.eye(len(v))
            if not np.isfinite(K).all():
                return np.inf
            return float(0.5 * v @ np.linalg.solve(K, v) + 0.5 * np.linalg.slogdet(K)[1])

        yield Case(f"process-{seed}", likelihood, np.array([0.0, -0.5, -0.5, -1.5]))
        L = rng.standard_normal((n, n)) / np.sqrt(n) + np.eye(n)
        yield Case(
            f"chained-{n}",
            lambda x, L=L: (np.cosh(L @ x) - 1).sum() + 0.1 * (x - 1) @ (x - 1),
            np.full(n, 2.0),
        )
