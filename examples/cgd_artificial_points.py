"""Artificial points (Lemma 1): where EGR and CGD stop although ∇f is not 0, and what another λ does.

Run with `python examples/cgd_artificial_points.py`. Change `f`, `df` and `d2f` to your function of one
variable.
"""

import numpy as np

import steepen as st


def f(x):
    """Return a bowl with a pit in the middle, elementwise."""
    return x**2 / 10 + np.tanh(x**2 / 2 - 2)


def df(x):
    """Return f'."""
    return x / 5 + x / np.cosh(x**2 / 2 - 2) ** 2


def d2f(x):
    """Return f''."""
    u = x**2 / 2 - 2
    return 0.2 + (1 - 2 * x**2 * np.tanh(u)) / np.cosh(u) ** 2


def main() -> dict[str, st.Result]:
    """Find the artificial points, and start GD, EGR and CGD above them."""
    lam, start, interval = 0.3, 3.5, (-4.0, 4.0)
    points = st.theory.artificial_points(df, d2f, lam, interval)
    print(f"λ = {lam}: artificial points at {points.round(2)}")

    def value(x):  # minimize gives and takes vectors
        return f(x)[0]

    def g(x):
        return (f(x) + lam * df(x) ** 2)[0]

    def dg(x):
        return (1 + 2 * lam * d2f(x)) * df(x)

    settings = {"step": 0.1, "budget": st.Budget(iters=1000)}
    cgd = settings | {"jac": df, "hvp": lambda x, v: d2f(x) * v, "method": "cgd"}
    runs = {
        "GD": st.minimize(value, [start], jac=df, method="gd", **settings),
        "EGR": st.minimize(g, [start], jac=dg, method="gd", **settings),
        "CGD": st.minimize(value, [start], lam=lam, **cgd),
        "CGD, λ/4": st.minimize(value, [start], lam=lam / 4, **cgd),
        "CGD, Perturbed(λ)": st.minimize(value, [start], lam=st.schedules.Perturbed(lam), **cgd),
    }
    for name, run in runs.items():
        x = float(run.x[0])
        print(
            f"{name:18} {run.status!s:10} x = {x:.2f}: f = {f(x):.2f}, f' = {df(x):.2f}, f'' = {d2f(x):.2f}"
        )
    return runs


if __name__ == "__main__":
    main()
