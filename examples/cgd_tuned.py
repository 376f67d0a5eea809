"""Is my λ any good? GD and CGD-FD tuned with the same number of trials, and judged on other starts.

Run with `python examples/cgd_tuned.py`. Change `f`, `grad` and the box to your function. Both must accept an
array of points, one along the last axis: all trials from all starts are one call of `minimize`.
"""

import numpy as np

import steepen as st

LOW, HIGH, BUDGET = -2.0, 2.0, st.Budget(grads=40)


def f(x):
    """Return Rosenbrock's function with a milder valley, for points along the last axis."""
    u, v = x[..., 0], x[..., 1]
    return (1 - u) ** 2 + 5 * (v - u**2) ** 2


def grad(x):
    """Return its gradient."""
    u, v = x[..., 0], x[..., 1]
    return np.stack([-2 * (1 - u) - 20 * u * (v - u**2), 10 * (v - u**2)], axis=-1)


def ends(starts, method, step, **lam):
    """Return f at the end of the runs: one row per setting, one column per start."""
    rows = {name: np.repeat(value, len(starts)) for name, value in {"step": step, **lam}.items()}
    many = np.tile(starts, (len(step), 1))
    with np.errstate(over="ignore", invalid="ignore"):  # step sizes that are too long diverge
        runs = st.minimize(f, many, jac=grad, method=method, budget=BUDGET, trace=False, **rows)
    return np.nan_to_num(runs.fun, nan=np.inf).reshape(len(step), len(starts))


def main() -> dict[str, np.ndarray]:
    """Choose the settings on 40 starts, compare on 200 others, and print who is lower."""
    rng = np.random.default_rng(0)
    tuning, judged = (rng.uniform(LOW, HIGH, (count, 2)) for count in (40, 200))
    coarse, factor = np.meshgrid(np.geomspace(0.001, 0.2, 12), [0.03, 0.1, 0.3, 1.0])
    trials = {
        "gd": {"step": np.geomspace(0.001, 0.2, 48)},
        "cgd-fd": {"step": coarse.ravel(), "lam": (factor * coarse).ravel()},  # also 48 settings
    }
    found = {}
    for method, settings in trials.items():
        best = np.median(ends(tuning, method, **settings), axis=1).argmin()
        chosen = {name: values[[best]] for name, values in settings.items()}
        found[method] = ends(judged, method, **chosen)[0]
        words = ", ".join(f"{name} = {values[0]:.3g}" for name, values in chosen.items())
        print(f"{method:6}  {words}: median {np.median(found[method]):.1e} after {BUDGET.grads} gradients")
    lower = (found["cgd-fd"] < found["gd"]).mean()
    print(f"CGD-FD is lower from {lower:.0%} of the starts")
    return found


if __name__ == "__main__":
    main()
