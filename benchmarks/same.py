"""Whether a change to the core changed a bit of any run: record before it, compare after it.

    python benchmarks/same.py record before.json
    python benchmarks/same.py compare before.json

Some fifteen hundred short runs, two minutes: every method, alone and as a batch, with every kind of step, λ,
penalty, switch, bound, precision, array library, gradient and end. Of each, x, f, ∇f, the counts, the status
and the whole trace are kept as digests. Last bits belong to one machine: record and compare on the same one.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))


import steepen as st
from steepen import penalties, schedules, steps, switches

METHODS = ("gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto")
PENALISED = METHODS[4:8]
SHORT = st.Budget(iters=60, grads=400)

STARTS: dict[str, Any] = {
    "branin": [[4.0, 5.0], [-2.0, 11.0], [9.0, 1.0]],
    "booth": [[8.0, -8.0], [0.0, 0.0], [1.0, 3.0]],
    "matyas": [[1.4, 6.9], [-5.0, 5.0], [0.0, 0.0]],
    "beale": [[1.0, 1.0], [-2.0, 3.0], [3.0, 0.5]],
    "six-hump-camel": [[1.0, 1.0], [0.0, 0.0], [-2.0, -1.0]],
    "goldstein-price": [[0.5, 0.5], [-1.0, 1.0], [1.5, -1.5]],
    "rosenbrock": [[-1.2, 1.0], [2.0, 2.0], [0.0, 0.0]],
    "levy": [[-9.4, -5.3], [3.0, 3.0], [1.0, 1.0]],
    "colville": [[-3.0, -1.0, -3.0, -1.0], [0.0] * 4, [2.0, 2.0, 1.0, 1.0]],
    "hartmann-6": [[0.5] * 6, [0.1] * 6, [0.9, 0.1, 0.9, 0.1, 0.9, 0.1]],
}


def function(name: str) -> Any:
    f = st.functions[name]
    return f.at(n=len(STARTS[name][0])) if name in ("rosenbrock", "levy") else f


def chain(n: int, rows: int | None = None) -> tuple[Callable[[Any], Any], Callable[[Any], Any], Any]:
    """Return a long valley in n variables whose scales differ: values, gradients, start points."""
    scale = np.logspace(0, 2, n)

    def f(x):
        a, b = x[..., :-1], x[..., 1:]
        return (scale[:-1] * (b - a * a) ** 2 + (1 - a) ** 2).sum(axis=-1)

    def g(x):
        a, b = x[..., :-1], x[..., 1:]
        rest = scale[:-1] * (b - a * a)
        out = np.zeros_like(x)
        out[..., :-1] = -4 * a * rest - 2 * (1 - a)
        out[..., 1:] += 2 * rest
        return out

    x0 = np.random.default_rng(n).uniform(-1.5, 1.5, (rows or 1, n))
    return f, g, x0 if rows else x0[0]


def runs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield every run by name."""

    def run(name: str, f: Any, x0: Any, **more: Any) -> tuple[str, Callable[[], Any]]:
        more.setdefault("budget", SHORT)
        return name, lambda: st.minimize(f, np.array(x0) if isinstance(x0, list) else x0, trace="x", **more)

    def alone_and_batch(name: str, f: Any, starts: Any, **more: Any) -> Iterator[Any]:
        yield run(f"{name}/one", f, starts[0], **more)
        yield run(f"{name}/many", f, starts, **more)

    for name, method, (kind, step) in itertools.product(STARTS, METHODS, (("armijo", None), ("fixed", 1e-3))):
        yield from alone_and_batch(
            f"{name}/{method}/{kind}", function(name), STARTS[name], method=method, step=step
        )
    lams = {
        "constant": 0.05,
        "L": schedules.L(0.01, 0.1),
        "table": np.linspace(0.1, 0.01, 400).tolist().__getitem__,
        "callable": lambda k: 0.1 / (k + 1),
        "signed": schedules.Signed(0.05),
        "signed-L": schedules.Signed(schedules.L(0.01, 0.1)),
        "negative": -0.02,
    }
    for (lam_name, lam), method, name, (kind, step) in itertools.product(
        lams.items(),
        PENALISED,
        ("branin", "levy"),
        (("armijo", None), ("ramp", schedules.L(2e-3, 1e-4))),
    ):
        yield from alone_and_batch(
            f"lam/{lam_name}/{method}/{name}/{kind}",
            function(name),
            STARTS[name],
            method=method,
            lam=lam,
            step=step,
        )
    yield run("lam/rows", function("branin"), STARTS["branin"], method="cgd", lam=[0.1, 0.0, -0.1], step=0.01)
    yield run("r/rows", function("branin"), STARTS["branin"], method="cgd-fd", r=[0.1, 0.2, 0.3], step=0.01)
    hs = (penalties.L2(), penalties.Huber(0.5), penalties.L1(), penalties.PNorm(3.0))
    for h, method in itertools.product(hs, PENALISED):
        yield from alone_and_batch(
            f"penalty/{h}/{method}", function("branin"), STARTS["branin"], method=method, penalty=h, lam=0.05
        )
    offs = (
        switches.Never(), switches.After(5), switches.FirstGuard(), switches.SmallImprovement(0.05),
        switches.After(20) | switches.SmallImprovement(0.01),
    )  # fmt: skip
    for off, method, lam in itertools.product(offs, PENALISED, (0.05, 5.0)):
        yield from alone_and_batch(
            f"switch/{off}/{method}/{lam}",
            function("levy"),
            STARTS["levy"],
            method=method,
            lam=lam,
            switch=off,
            step=1e-2,
        )
    rules = {
        "armijo-c": steps.Armijo(c=0.3, trials=7),
        "initial": steps.Armijo(initial=0.01, grow=3.0),
    }  # fmt: skip
    for (rule_name, rule), method in itertools.product(rules.items(), METHODS):
        yield from alone_and_batch(
            f"step/{rule_name}/{method}", function("beale"), STARTS["beale"], method=method, step=rule
        )
    for method, (kind, step), name in itertools.product(
        METHODS, (("armijo", None), ("fixed", 1e-3)), ("branin", "goldstein-price", "colville")
    ):
        n = len(STARTS[name][0])
        bounds = [(-1.0, 2.5)] * (n - 1) + [(0.5, None)]
        yield from alone_and_batch(
            f"bounds/{method}/{kind}/{name}",
            function(name),
            STARTS[name],
            method=method,
            step=step,
            bounds=bounds,
        )
    for method, (kind, step) in itertools.product(METHODS, (("armijo", None), ("fixed", 1e-3))):
        x0 = np.array(STARTS["beale"], dtype=np.float32)
        yield from alone_and_batch(
            f"float32/{method}/{kind}", function("beale"), x0, method=method, step=step
        )
    for method, ends in itertools.product(
        METHODS, ({"ftol": 1e-4}, {"xtol": 1e-3}, {"gtol": 1e-2}, {"gtol": 0.0})
    ):
        yield from alone_and_batch(
            f"ends/{method}/{ends}", function("levy"), STARTS["levy"], method=method, **ends
        )
    for method, budget in itertools.product(
        METHODS, (st.Budget(grads=9), st.Budget(evals=12), st.Budget(iters=3), st.Budget(evals=31, grads=17))
    ):
        yield from alone_and_batch(
            f"budget/{method}/{budget}", function("branin"), STARTS["branin"], method=method, budget=budget
        )
    for jac, method in itertools.product(("2-point", "3-point", "cs"), METHODS):
        if jac == "cs" and method in ("newton", "cgd"):
            continue
        yield from alone_and_batch(
            f"differences/{jac}/{method}", rosen, STARTS["rosenbrock"], method=method, jac=jac
        )
    for dtype, jac in itertools.product((np.float32, np.float64), ("2-point", "3-point")):
        x0 = np.array(STARTS["rosenbrock"], dtype=dtype)
        yield from alone_and_batch(f"differences/{np.dtype(dtype)}/{jac}", rosen, x0, jac=jac)
        yield from alone_and_batch(
            f"differences/bounds/{np.dtype(dtype)}/{jac}", rosen, x0, jac=jac, bounds=[(-1, 0.5), (0, 2)]
        )
    for noise in (1e-12, 1e-9, 1e-6):
        noisy = lambda x, a=noise: rosen(x) * (1 + a * np.sin(1e9 * x.sum(axis=-1)))  # noqa: E731
        for method in ("cgd-auto", "bfgs", "gd"):
            yield from alone_and_batch(
                f"noise/{noise}/{method}", noisy, STARTS["rosenbrock"], jac=rosen_grad, method=method
            )
    long = st.Budget(iters=400)
    for n, memory in itertools.product((2, 20, 200), (None, 5, 10, 200)):
        f, g, x0 = chain(n)
        yield run(f"auto/{n}/{memory}/one", f, x0, jac=g, memory=memory, budget=long)
        f, g, x0 = chain(n, 5)
        yield run(f"auto/{n}/{memory}/many", f, x0, jac=g, memory=memory, budget=st.Budget(iters=150))
        x32 = x0.astype(np.float32)
        yield from alone_and_batch(
            f"auto/{n}/{memory}/float32", f, x32, jac=g, memory=memory, budget=st.Budget(iters=80)
        )
        box = [(-1.0, 0.8)] * n
        yield from alone_and_batch(
            f"auto/{n}/{memory}/bounds", f, x0, jac=g, memory=memory, bounds=box, budget=st.Budget(iters=80)
        )
    for n, method in itertools.product((20, 40), METHODS):
        f, g, x0 = chain(n, 3)
        yield from alone_and_batch(f"chain/{n}/{method}", f, x0, jac=g, method=method)
    saddle, slope = (lambda x: x[..., 0] ** 2 - x[..., 1] ** 2 + x[..., 1] ** 4), None
    slope = lambda x: np.stack([2 * x[..., 0], -2 * x[..., 1] + 4 * x[..., 1] ** 3], axis=-1)  # noqa: E731
    for method in ("cgd-auto", "gd", "bfgs"):
        yield from alone_and_batch(
            f"saddle/{method}", saddle, [[0.0, 0.0], [1.0, 0.0], [0.0, 0.3]], jac=slope, method=method
        )
    yield from alone_and_batch(
        "saddle/bounds", saddle, [[0.0, 0.0], [1.0, 0.0]], jac=slope, bounds=[(-1, 1), (-0.5, 0.4)]
    )
    for name, f, g in BROKEN:
        for method, step in itertools.product(("cgd-auto", "gd", "cgd", "bfgs"), (None, 0.3)):
            yield from alone_and_batch(
                f"broken/{name}/{method}/{step}",
                f,
                [[0.7, 0.2], [-0.5, 2.0], [3.0, 3.0]],
                jac=g,
                method=method,
                step=step,
            )
    pair = lambda x: (rosen(x), rosen_grad(x))  # noqa: E731
    for method in METHODS:
        yield from alone_and_batch(f"jac=True/{method}", pair, STARTS["rosenbrock"], jac=True, method=method)
    stop = lambda s: s.k >= 5 if s.rows is None else (s.fun < 1.0)  # noqa: E731
    for method in ("cgd-auto", "gd"):
        yield from alone_and_batch(
            f"callback/{method}", rosen, STARTS["rosenbrock"], jac=rosen_grad, method=method, callback=stop
        )
    yield from elsewhere(run)
    for method, rows, name in itertools.product(
        ("cgd-auto", "cgd-fd", "bfgs", "gd"), (None, 3), ("rosenbrock", "branin")
    ):
        yield f"resumed/{method}/{rows}/{name}", lambda m=method, r=rows, f=name: resumed(m, r, f)


def rosen(x: Any) -> Any:
    return 100 * (x[..., 1] - x[..., 0] ** 2) ** 2 + (1 - x[..., 0]) ** 2


def rosen_grad(x: Any) -> Any:
    rest = x[..., 1] - x[..., 0] ** 2
    return np.stack([-400 * x[..., 0] * rest - 2 * (1 - x[..., 0]), 200 * rest], axis=-1)


BROKEN = (
    ("kink", lambda x: np.abs(x).sum(axis=-1) + 0.1 * (x * x).sum(axis=-1), lambda x: np.sign(x) + 0.2 * x),
    ("downhill", lambda x: -(x**4).sum(axis=-1), lambda x: -4 * x**3),
    ("nan", lambda x: np.sqrt(x).sum(axis=-1), lambda x: 0.5 / np.sqrt(x)),
    ("wrong", lambda x: (x * x).sum(axis=-1), lambda x: -2 * x),
    ("flat", lambda x: 0 * x.sum(axis=-1) + 1, lambda x: 0 * x),
    ("huge", lambda x: 1e200 * (x * x).sum(axis=-1), lambda x: 2e200 * x),
    ("tiny", lambda x: 1e-200 * (x * x).sum(axis=-1), lambda x: 2e-200 * x),
)  # fmt: skip


def elsewhere(run: Any) -> Iterator[Any]:
    """Yield runs on arrays of torch and JAX, by their own gradients."""
    import jax
    import torch

    jax.config.update("jax_enable_x64", True)
    libraries = (("torch", lambda a: torch.tensor(a)), ("jax", lambda a: jax.numpy.asarray(a)))
    for (name, array), method, (kind, step) in itertools.product(
        libraries, METHODS, (("armijo", None), ("fixed", 1e-3))
    ):
        for x0 in (STARTS["rosenbrock"][0], STARTS["rosenbrock"]):
            yield run(
                f"{name}/{method}/{kind}/{np.ndim(x0)}", rosen, array(np.array(x0)), method=method, step=step,
                budget=st.Budget(iters=25), bounds=[(-2, 2), (-2, 0.9)] if kind == "fixed" else None,
            )  # fmt: skip


def resumed(method: str, rows: int | None, name: str) -> Any:
    f, x0 = function(name), np.array(STARTS[name])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.npz"
        for iters in (4, 9, 30):
            more: Any = {"b": 12} if method == "cgd-fd" else {}
            result = st.minimize(
                f, x0 if rows else x0[0], method=method, budget=st.Budget(iters=iters), checkpoint=file,
                trace="x", **more,
            )  # fmt: skip
    return result


def digest(result: Any) -> dict[str, str]:
    """Return what a run has shown, part by part."""
    trace = result.trace
    parts: dict[str, Any] = {
        "status": np.asarray(result.status, dtype=np.int64),
        "counts": [np.asarray(getattr(result, name)) for name in ("nit", "nfev", "njev", "nhvp", "nhev")],
        "x": [host(result.x), host(result.jac), np.asarray(result.fun)],
        "best": [host(result.best.x), np.asarray(result.best.fun), np.asarray(result.best.k)],
        "message": str(result.message),
        "source": str(result.hvp_source),
        "trace": [
            np.asarray(getattr(trace, name))
            for name in ("f", "gnorm", "lam", "step", "nfev", "njev", "nhvp", "penalised", "guarded", "x")
        ],
    }
    return {name: mark(part) for name, part in parts.items()}


def host(a: Any) -> Any:
    return a.detach().numpy() if hasattr(a, "detach") else np.asarray(a)


def mark(part: Any) -> str:
    if isinstance(part, list):
        return " ".join(map(mark, part))
    if isinstance(part, str):
        return hashlib.sha256(part.encode()).hexdigest()[:8]
    a = np.ascontiguousarray(part)
    if a.dtype == object:
        return repr(part)
    a = np.where(a == 0, np.zeros_like(a), a) if a.dtype.kind == "f" else a  # −0 is 0
    return hashlib.sha256(a.tobytes()).hexdigest()[:8] if a.size > 3 else str(a.tolist())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="", help="runs whose name contains this")
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    for name, make in runs():
        if chosen.only in name:
            try:
                found[name] = digest(make())
            except Exception as error:
                found[name] = {"error": repr(error)}
    if chosen.what == "record":
        chosen.file.write_text(json.dumps(found, indent=1))
        print(f"{len(found)} runs recorded, {sum('error' in d for d in found.values())} of them errors")
        return 0
    before = json.loads(chosen.file.read_text())
    changed = {
        name: [part for part in after if before.get(name, {}).get(part) != after[part]]
        for name, after in found.items()
        if before.get(name) != after
    }
    for name, parts in changed.items():
        print(f"{name}: {', '.join(parts)}", found[name].get("error", ""))
    print(f"{len(found)} runs compared, {len(changed)} changed")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
