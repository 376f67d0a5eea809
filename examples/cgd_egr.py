"""Fig. 5 of the paper: EGR passes a sharp minimum and is trapped at maxima; the guard and b are the remedies.

Run with `python examples/cgd_egr.py`. EGR is CGD without the guard. Change the two landscapes, each with its
first and second derivative, to functions of your own of one variable.
"""

from collections import Counter

import numpy as np

import steepen as st


class Wells:
    """A flat minimum at 2 and a sharp one near 0, which is higher."""

    lam, alpha, starts = 0.05, 0.1, np.linspace(-1.2, -0.1, 50)

    def __call__(self, x):
        return ((x - 2) ** 2 / 2 - 1.2 * np.exp(-8 * x**2))[0]

    def slope(self, x):
        """Return f'."""
        return x - 2 + 19.2 * x * np.exp(-8 * x**2)

    def curvature(self, x):
        """Return f''."""
        return 1 + (19.2 - 307.2 * x**2) * np.exp(-8 * x**2)


class Waves:
    """A bowl with waves: between its minima there are maxima, which a penalty turns into minima of g."""

    lam, alpha, starts = 0.2, 0.01, np.linspace(-6, 6, 120)

    def __call__(self, x):
        return (x**2 / 20 + np.cos(3 * x))[0]

    def slope(self, x):
        """Return f'."""
        return x / 10 - 3 * np.sin(3 * x)

    def curvature(self, x):
        """Return f''."""
        return 0.1 - 9 * np.cos(3 * x)


WAYS = {
    "GD": {"method": "gd"},
    "EGR": {"method": "cgd", "guard": False},
    "CGD": {"method": "cgd"},
    "EGR, b = 5": {"method": "cgd", "guard": False, "b": 5},
}


def kind(f, x):
    """Say what a run has ended at: a minimum or a maximum of f, or an artificial point."""
    if abs(f.slope(x)[0]) > 1e-3:
        return "artificial"
    return "minimum" if f.curvature(x)[0] > 0 else "maximum"


def main() -> dict[str, dict[str, tuple[Counter[str], float, float]]]:
    """Run each way from each start: where the runs end, the mean of f there, and the gradients per run."""
    found = {}
    for f in (Wells(), Waves()):
        name = type(f).__name__
        print(f"{name}: λ = {f.lam}, α = {f.alpha}, {len(f.starts)} starts")
        found[name] = {}
        for way, settings in WAYS.items():
            lam = {} if way == "GD" else {"lam": f.lam, "hvp": lambda x, v, f=f: f.curvature(x) * v}
            settings = settings | lam | {"jac": f.slope, "step": f.alpha, "budget": st.Budget(grads=2000)}
            runs = [st.minimize(f, [start], **settings) for start in f.starts]
            ends = Counter(kind(f, run.x) for run in runs)
            mean, cost = np.mean([run.fun for run in runs]), np.mean([run.njev + run.nhvp for run in runs])
            found[name][way] = ends, mean, cost
            print(f"  {way:11} mean of f {mean:6.3f}, {cost:5.0f} gradients, ends: {dict(ends)}")
    return found


if __name__ == "__main__":
    main()
