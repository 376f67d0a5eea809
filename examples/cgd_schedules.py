"""Schedules of λ, the length r, the threshold b and switches, on a non-convex function of your own.

Run with `python examples/cgd_schedules.py`. Change `f` and `grad` to your function.
"""

import numpy as np

import steepen as st


def f(x):
    """Return a bowl with waves on it."""
    return x @ x / 2 + np.cos(3 * x).sum()


def grad(x):
    """Return its gradient."""
    return x - 3 * np.sin(3 * x)


def main() -> dict[str, st.Result]:
    """Run CGD-FD with each setting in turn, and print where the penalty ended and what was reached."""
    T = 40
    settings = {"jac": grad, "method": "cgd-fd", "step": 0.005, "budget": st.Budget(grads=T)}
    plain = {"lam": 0.1, "r": 0.01}
    cases = {
        "constant λ, b = T/4": plain,
        "λ = L(0.02, 0.2)": plain | {"lam": st.L(0.02, 0.2)},
        "λ falls by a fifth": plain | {"lam": lambda k: 0.1 * 0.8**k},
        "λ with the sign of the curvature": plain | {"lam": st.schedules.Signed(0.1)},
        "r = 0.5": plain | {"r": 0.5},
        "b = 3": plain | {"b": 3},
        "until f has fallen by half of |f₀|": plain | {"switch": st.switches.GoodDrop(0.5)},
        "until a step gains less than 1 %": plain | {"switch": st.switches.SmallImprovement(0.01)},
        "for the whole run": plain | {"switch": st.switches.Never()},
    }
    runs = {name: st.minimize(f, [4.0, -3.5], **settings, **case) for name, case in cases.items()}
    for name, run in runs.items():
        steps = run.trace.penalised.sum()
        print(f"{name:34}  {steps:2} of {run.nit} steps penalised: f = {run.fun:.3f}")
    return runs


if __name__ == "__main__":
    main()
