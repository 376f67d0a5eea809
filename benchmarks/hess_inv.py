"""How good standard errors are by `covariance` and by `hess_inv`, and SciPy's: the table in docs/guide.md.

Regressions on 200 observations, eight of each kind; printed is the median over them of the largest relative
error of a standard error, against the exact Hessian at the estimate.
"""

from __future__ import annotations

import numpy as np
import scipy.optimize as so

import steepen as st

OURS, THEIRS = ["cgd-auto", "bfgs", "dfp"], ["BFGS", "L-BFGS-B"]


def least_squares(rng, n):
    X = rng.standard_normal((200, n)) * np.exp(rng.uniform(-1, 1, n))
    y = X @ rng.standard_normal(n) + rng.standard_normal(200)
    return lambda b: 0.5 * ((X @ b - y) ** 2).sum(), lambda b: X.T @ (X @ b - y), lambda b: X.T @ X


def logistic(rng, n):
    X = rng.standard_normal((200, n))
    Z = X * np.where(X @ rng.standard_normal(n) + 2 * rng.logistic(size=200) > 0, 1.0, -1.0)[:, None]

    def against(b):
        return 0.5 * (1 - np.tanh(Z @ b / 2))

    def hess(b):
        return Z.T @ (Z * (against(b) * (1 - against(b)))[:, None])

    return lambda b: np.logaddexp(0, -Z @ b).sum(), lambda b: -Z.T @ against(b), hess


def worst(res, inverse, hess):
    inverse = inverse if isinstance(inverse, np.ndarray) else inverse.todense()
    return np.abs(np.sqrt(np.diag(inverse) / np.diag(np.linalg.inv(hess(res.x)))) - 1).max()


def main():
    for model, n in [
        (least_squares, 5),
        (least_squares, 20),
        (least_squares, 40),
        (logistic, 5),
        (logistic, 20),
    ]:
        measured = ["covariance, by gradients", "covariance, by values"]
        errors = {name: [] for name in measured + OURS + THEIRS}
        for seed in range(8):
            fun, grad, hess = model(np.random.default_rng(100 * n + seed), n)
            for name, jac in zip(measured, (grad, None), strict=True):
                res = st.minimize(fun, np.zeros(n), jac=jac)
                errors[name].append(worst(res, res.covariance(), hess))
            for name in OURS:
                res = st.minimize(fun, np.zeros(n), jac=grad, method=name, gtol=1e-7)
                errors[name].append(worst(res, res.hess_inv, hess))
            for name in THEIRS:
                res = so.minimize(fun, np.zeros(n), jac=grad, method=name, tol=1e-7)
                errors[name].append(worst(res, res.hess_inv, hess))
        line = ", ".join(f"{name} {np.median(found):.1g}" for name, found in errors.items())
        print(f"{model.__name__:>13} n = {n:2}: {line}")


if __name__ == "__main__":
    main()
