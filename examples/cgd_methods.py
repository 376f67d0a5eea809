"""The paper's methods on a function of your own, at equal numbers of gradients.

Run with `python examples/cgd_methods.py`. Change `f`, `grad` and `hvp` to your function. CGD is Algorithm 1
of the paper, CGD-FD is Algorithm 2, and CGD-BFGS and CGD-DFP are Algorithm 3.
"""

import numpy as np

import steepen as st

TARGET = np.array([1.0, -2.0, 0.5])
SCALES = np.array([1.0, 3.0, 10.0])


def f(x):
    """Return a smooth function with one minimum, at TARGET."""
    return np.log1p(SCALES * (x - TARGET) ** 2).sum()


def grad(x):
    """Return its gradient; without jac= it is taken by finite differences."""
    return 2 * SCALES * (x - TARGET) / (1 + SCALES * (x - TARGET) ** 2)


def hvp(x, v):
    """Return H·v; without hvp= it is a difference of gradients, and costs one more."""
    square = SCALES * (x - TARGET) ** 2
    return 2 * SCALES * (1 - square) / (1 + square) ** 2 * v


def main() -> dict[str, st.Result]:
    """Run all methods with one step size α, λ and budget, and print what they reach."""
    start, alpha, lam, gradients = [1.5, -1.6, 0.3], 0.01, 0.1, 40
    settings = {"jac": grad, "step": alpha, "budget": st.Budget(grads=gradients)}
    runs = {
        "gd": st.minimize(f, start, method="gd", **settings),
        "cgd": st.minimize(f, start, method="cgd", lam=lam, hvp=hvp, **settings),
        "cgd-fd": st.minimize(f, start, method="cgd-fd", lam=lam, r=0.01, b=10, **settings),
        "cgd-bfgs": st.minimize(f, start, method="cgd-bfgs", lam=lam, **settings),
        "cgd-dfp": st.minimize(f, start, method="cgd-dfp", lam=lam, **settings),
    }
    print(f"α = {alpha}, λ = {lam}, {gradients} gradients; at the start f = {f(np.array(start)):.3f}")
    for name, run in runs.items():
        first = 1 - run.trace.f[1] / run.trace.f[0]
        print(
            f"{name:8}  first step −{first:4.0%}  f = {run.fun:.4f}  {run.nit} steps, {run.njev} gradients, "
            f"{run.nhvp} products H·v, guard {run.trace.guarded.sum()} times"
        )
    return runs


if __name__ == "__main__":
    main()
