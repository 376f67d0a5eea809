"""Theorem 1 on a logistic regression of your own: L, μ, the safe step, and the rate that it proves.

Run with `python examples/cgd_safe_step.py`. Put your data in place of `A` and `y`.
"""

import numpy as np
from scipy.special import expit

import steepen as st

rng = np.random.default_rng(0)
A = rng.standard_normal((80, 4))
y = np.where(A @ [1.0, -2.0, 0.5, 0.0] + rng.standard_normal(80) > 0, 1.0, -1.0)
RIDGE = 0.1


def f(w):
    """Return the mean logistic loss and a ridge."""
    return np.logaddexp(0, -y * (A @ w)).mean() + RIDGE / 2 * w @ w


def grad(w):
    """Return its gradient."""
    return -A.T @ (y * expit(-y * (A @ w))) / len(y) + RIDGE * w


def hvp(w, v):
    """Return H·v."""
    p = expit(A @ w)
    return A.T @ (p * (1 - p) * (A @ v)) / len(y) + RIDGE * v


def main() -> tuple[st.Result, float]:
    """Estimate L and μ, run CGD with the safe step, and compare each step with the theorem."""
    # p(1 − p) is at most 1/4, and is 1/4 at w = 0: there the largest curvature is L, over all w
    L = st.theory.largest_curvature(hvp, np.zeros(4)).value
    mu, lam = RIDGE, 0.1  # the ridge makes f strongly convex, so that the PL inequality holds with this μ
    alpha, rate = st.theory.safe_step(L, lam), st.theory.linear_rate(L, mu, lam)
    print(f"L = {L:.3f}, μ = {mu}, λ = {lam}: α = 1/(L(1 + 2λL)²) = {alpha:.3f}")

    best = st.minimize(f, np.zeros(4), jac=grad, gtol=1e-10).fun
    settings = {"jac": grad, "hvp": hvp, "method": "cgd", "lam": lam, "budget": st.Budget(iters=60)}
    start = 3 * np.ones(4)
    run = st.minimize(f, start, step=alpha, **settings)
    gaps = run.trace.f - best
    print(f"f falls in every step: {bool((np.diff(run.trace.f) < 0).all())}")
    factor = (gaps[1:] / gaps[:-1]).max()
    print(f"the largest factor of f − f* in a step is {factor:.3f}; the theorem says {rate:.3f}")
    for longer in (1.9, 5.0):  # the interval of the theorem ends at twice the safe step
        other = st.minimize(f, start, step=longer * alpha, **settings)
        rises = int((np.diff(other.trace.f) > 0).sum())
        print(f"{longer} times that step: f rises in {rises} of {other.nit} steps")
    return run, rate


if __name__ == "__main__":
    main()
