"""Bayesian optimisation with BoTorch's own minimisers and with ours, side by side.

    python benchmarks/botorch_loop.py acquisition [--seeds 20] [--device cuda]
    python benchmarks/botorch_loop.py fits [--seeds 20]
    python benchmarks/botorch_loop.py loop [--seeds 10] [--evaluations 50]
    python benchmarks/botorch_loop.py robust [--seeds 20] [--evaluations 30] [--picture docs/robust.svg]
    python benchmarks/botorch_loop.py branin [--rows 100000] [--device cuda]

Every run is a line of JSON, appended to --out as it ends, and is not made again if it is there; a summary is
printed at the end. Times are of the process, or of the wall with --device cuda; ours and the peers' are
measured in turn.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement, qLogExpectedImprovement
from botorch.acquisition.risk_measures import VaR
from botorch.fit import fit_gpytorch_mll
from botorch.generation.gen import gen_candidates_scipy
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputPerturbation
from botorch.optim import optimize_acqf
from botorch.optim.closures import get_loss_closure
from botorch.optim.initializers import gen_batch_initial_conditions
from botorch.sampling import SobolQMCNormalSampler
from botorch.test_functions import Ackley, Hartmann
from botorch.utils.sampling import draw_sobol_normal_samples
from gpytorch.mlls import ExactMarginalLogLikelihood

import steepen as st
from steepen.botorch import GradientPenalty, fit, gen_candidates, penalized

D = torch.float64


class Out:
    """Lines of results: in a file as they come, and in memory for the summary."""

    def __init__(self, path: str | None, what: str):
        self.path, self.lines = path, []
        if path and Path(path).exists():
            lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
            self.lines = [line for line in lines if line["what"] == what]

    def has(self, **line: Any) -> bool:
        """Return whether a run was made before."""
        return any(all(known[name] == value for name, value in line.items()) for known in self.lines)

    def add(self, **line: Any) -> None:
        self.lines.append(line)
        print(json.dumps(line), flush=True)
        if self.path:
            with Path(self.path).open("a") as file:
                file.write(json.dumps(line) + "\n")


class Counted(torch.nn.Module):
    """An acquisition function whose calls are counted."""

    def __init__(self, inner: Any):
        super().__init__()
        self.inner, self.model, self.calls, self.rows = inner, inner.model, 0, 0

    def forward(self, X: Any) -> Any:
        self.calls += 1
        self.rows += len(X)
        return self.inner(X)


def clock(device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def problem(name: str, device: str = "cpu") -> tuple[Any, float, int]:
    """Return a function to maximise on the unit cube, its greatest value, its dimension."""
    inner: Any = Hartmann(negate=True) if name == "Hartmann-6" else Ackley(10, negate=True)
    inner = inner.to(device=device, dtype=D)
    low, high = inner.bounds.to(device=device, dtype=D)
    return (lambda X: inner(low + (high - low) * X)[..., None]), inner.optimal_value, inner.dim


def fitted(X: Any, Y: Any, **given: Any) -> Any:
    model = SingleTaskGP(X, Y, **given)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model), optimizer=fit)
    return model


def warm(device: str) -> None:
    """Make each kind of call once: the first takes seconds that belong to nobody."""
    X = torch.rand(5, 2, dtype=D, device=device)
    box = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).to(X)
    for optimizer, generate in ((None, None), (fit, gen_candidates)):
        model = SingleTaskGP(X, X.sum(-1, True))
        mll = ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(mll, **({} if optimizer is None else {"optimizer": optimizer}))
        optimize_acqf(LogExpectedImprovement(model, X.max()), box, 1, 2, 16, gen_candidates=generate)


def acquisition(args: Any, out: Out) -> None:
    device = args.device
    warm(device)
    for name in ("Hartmann-6", "Ackley-10"):
        for seed in range(args.first, args.first + args.seeds):
            if out.has(device=device, problem=name, seed=seed, restarts=100):
                continue
            torch.manual_seed(seed)
            function, _, d = problem(name, device)
            X = torch.rand(100, d, dtype=D).to(device)
            Y = function(X)
            acquired = LogExpectedImprovement(fitted(X, Y), Y.max())
            box = torch.stack([torch.zeros(d), torch.ones(d)]).to(X)
            for restarts in (20, 100):
                starts = gen_batch_initial_conditions(acquired, box, 1, restarts, 512, options={"seed": seed})
                ways: Any = {
                    "L-BFGS-B, batched": lambda a, s, b: gen_candidates_scipy(s, a, b[0], b[1]),
                    "L-BFGS-B, summed": lambda a, s, b: gen_candidates_scipy(
                        s, a, b[0], b[1], use_parallel_mode=False
                    ),
                    "ours": lambda a, s, b: gen_candidates(s, a, b[0], b[1]),
                    "ours, race=False": lambda a, s, b: gen_candidates(
                        s, a, b[0], b[1], options={"race": False}
                    ),
                }
                best: dict[str, Any] = {}
                for _ in range(args.repeat):
                    for way, run in ways.items():
                        counted = Counted(acquired)
                        begun = clock(device)
                        _, values = run(counted, starts, box)
                        took = clock(device) - begun
                        before = best.get(way, {}).get("seconds", np.inf)
                        best[way] = {
                            "value": values.max().item(), "calls": counted.calls, "rows": counted.rows,
                            "seconds": min(before, took),
                        }  # fmt: skip
                for way, found in best.items():
                    out.add(
                        what="acquisition", device=device, problem=name, seed=seed, restarts=restarts,
                        way=way, **found,
                    )  # fmt: skip
    table = defaultdict(dict)
    for line in out.lines:
        table[line["problem"], line["restarts"], line["seed"]][line["way"]] = line
    for key in sorted({k[:2] for k in table}):
        rows = [ways for k, ways in table.items() if k[:2] == key]
        peers = [[w for n, w in ways.items() if not n.startswith("ours")] for ways in rows]
        top = [max(w["value"] for w in peer) for peer in peers]
        for way in ("ours", "ours, race=False"):
            ours = [ways[way] for ways in rows]
            behind = max((t - o["value"]) / abs(t) for t, o in zip(top, ours, strict=True))
            level = sum(o["value"] >= t - 1e-6 * abs(t) for t, o in zip(top, ours, strict=True))
            calls, times = (
                [o[kind] / min(w[kind] for w in p) for o, p in zip(ours, peers, strict=True)]
                for kind in ("calls", "seconds")
            )
            print(*key, way, f"value level or better {level}/{len(ours)}, most behind {behind:.1e}, ", end="")
            print(f"calls {mean(calls):.2f} x, time {mean(times):.2f} x the better peer")


def mean(ratios: Any) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(list(ratios)))))


def fits(args: Any, out: Out) -> None:
    warm("cpu")
    inner = ExactMarginalLogLikelihood.forward
    count = 0

    def counted(self: Any, *given: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        return inner(self, *given, **more)

    ExactMarginalLogLikelihood.forward = counted
    for name in ("Hartmann-6", "Ackley-10"):
        for points in (20, 100):
            for seed in range(args.first, args.first + args.seeds):
                if out.has(problem=name, points=points, seed=seed, way="ours, 8 starts"):
                    continue
                torch.manual_seed(seed)
                function, _, d = problem(name)
                X = torch.rand(points, d, dtype=D)
                Y = function(X)
                for way, given in {
                    "BoTorch": {}, "ours": {"optimizer": fit},
                    "ours, 8 starts": {"optimizer": fit, "optimizer_kwargs": {"restarts": 8}},
                }.items():  # fmt: skip
                    model = SingleTaskGP(X, Y)
                    mll = ExactMarginalLogLikelihood(model.likelihood, model)
                    count, begun = 0, time.process_time()
                    with warnings.catch_warnings(record=True) as said:
                        warnings.simplefilter("always")
                        fit_gpytorch_mll(mll, **given)
                    took, calls = time.process_time() - begun, count
                    mll.train()
                    out.add(
                        what="fits", problem=name, points=points, seed=seed, way=way, calls=calls,
                        seconds=took, likelihood=-get_loss_closure(mll)().item(), warnings=len(said),
                    )  # fmt: skip
    table = defaultdict(dict)
    for line in out.lines:
        table[line["problem"], line["points"], line["seed"]][line["way"]] = line
    for key in sorted({k[:2] for k in table}):
        rows = [ways for k, ways in table.items() if k[:2] == key]
        for way in ("ours", "ours, 8 starts"):
            calls = mean(r[way]["calls"] / r["BoTorch"]["calls"] for r in rows)
            seconds = mean(r[way]["seconds"] / r["BoTorch"]["seconds"] for r in rows)
            behind = max(r["BoTorch"]["likelihood"] - r[way]["likelihood"] for r in rows)
            print(
                *key,
                way,
                f"calls {calls:.2f} x, time {seconds:.2f} x, likelihood behind by at most {behind:.1e}",
            )


def loop(args: Any, out: Out) -> None:
    warm(args.device)
    for seed in range(args.first, args.first + args.seeds):
        for way in ("BoTorch", "ours"):
            if out.has(device=args.device, seed=seed, way=way):
                continue
            torch.manual_seed(seed)
            function, top, d = problem("Hartmann-6", args.device)
            box = torch.stack([torch.zeros(d), torch.ones(d)]).to(device=args.device, dtype=D)
            X = torch.rand(10, d, dtype=D).to(args.device)
            Y = function(X)
            begun = clock(args.device)
            ours = way == "ours"
            while len(X) < args.evaluations:
                model = SingleTaskGP(X, Y)
                mll = ExactMarginalLogLikelihood(model.likelihood, model)
                fit_gpytorch_mll(mll, **({"optimizer": fit} if ours else {}))
                x, _ = optimize_acqf(
                    LogExpectedImprovement(model, Y.max()), box, 1, 20, 256,
                    gen_candidates=gen_candidates if ours else None,
                )  # fmt: skip
                X, Y = torch.cat([X, x]), torch.cat([Y, function(x)])
            out.add(
                what="loop", device=args.device, seed=seed, way=way, seconds=clock(args.device) - begun,
                regret=top - Y.max().item(),
            )  # fmt: skip
    table = defaultdict(dict)
    for line in out.lines:
        table[line["seed"]][line["way"]] = line
    ratio = mean(r["ours"]["seconds"] / r["BoTorch"]["seconds"] for r in table.values())
    regrets = {w: [r[w]["regret"] for r in table.values()] for w in ("BoTorch", "ours")}
    print(f"time {ratio:.2f} x; regret, mean and median:", end=" ")
    print(", ".join(f"{w} {np.mean(v):.2e} {np.median(v):.2e}" for w, v in regrets.items()))


# --- a sharp and a flat optimum ---------------------------------------------------------------------------


def bumps(X: Any, *peaks: tuple[float, float, list[float]]) -> Any:
    """Return the sum of Gaussian bumps (height, width, centre)."""
    total = torch.zeros(X.shape[:-1]).to(X)
    for height, width, centre in peaks:
        total = total + height * (-((X - torch.tensor(centre).to(X)) ** 2).sum(-1) / (2 * width**2)).exp()
    return total[..., None]


ROBUST: dict[str, tuple[Any, int, float]] = {
    "two bumps, 1-D": (lambda X: bumps(X, (1.0, 0.03, [0.2]), (0.8, 0.15, [0.7])), 1, 0.05),
    "two bumps, 2-D": (lambda X: bumps(X, (1.2, 0.08, [0.25, 0.3]), (0.8, 0.25, [0.7, 0.7])), 2, 0.07),
    "ridge and dome, 2-D": (
        lambda X: (-((X[..., :1] - 0.2) ** 2) / 0.004).exp()
        + 0.8 * (-((X - 0.7) ** 2).sum(-1, True) / 0.15).exp(),
        2, 0.07,
    ),
    "waves on a slope, 2-D": (
        lambda X: 0.5 * (30 * X[..., :1]).sin() * (1 - X[..., :1]) ** 2
        + X[..., :1] - 0.5 * (X[..., 1:] - 0.4) ** 2,
        2, 0.06,
    ),
}  # fmt: skip
"""Functions on the unit cube, their dimension, and the deviation of the noise of x."""


def robust_value(function: Any, X: Any, sigma: float, lam: float = 1.0) -> Any:
    """Return the mean less the deviation of f under the noise of x, by the same draws at every point."""
    draws = draw_sobol_normal_samples(X.shape[-1], 256, dtype=D, seed=7) * sigma
    values = function((X[..., None, :] + draws).clamp(0, 1))[..., 0]
    return values.mean(-1) - lam * values.std(-1)


def chosen(model: Any, X: Any, way: str, sigma: float) -> Any:
    """Return the point that a way would recommend: the best by its own standard on the model."""
    grid = torch.quasirandom.SobolEngine(X.shape[-1], scramble=True, seed=3).draw(1024).to(D)
    places = torch.cat([X, grid])
    if way == "gradient penalty":
        with torch.no_grad():
            worth = model.posterior(places[:, None]).mean[:, 0, 0]
        return places[(worth - GradientPenalty(model, sigma**2)(places[:, None])).argmax()]
    if way == "perturbed inputs":
        with torch.no_grad():
            found = model.posterior(places[:, None]).mean[..., 0]
        return places[(found.mean(-1) - found.std(-1)).argmax()]
    with torch.no_grad():
        return places[model.posterior(places).mean[:, 0].argmax()]


def robust(args: Any, out: Out) -> None:
    warm("cpu")
    for name, (function, d, sigma) in ROBUST.items():
        grid = torch.quasirandom.SobolEngine(d, scramble=True, seed=1).draw(8192).to(D)
        top = robust_value(function, grid, sigma).max().item()
        box = torch.stack([torch.zeros(d), torch.ones(d)]).to(D)
        for seed in range(args.first, args.first + args.seeds):
            for way in ("plain", "gradient penalty", "perturbed inputs"):
                if out.has(problem=name, seed=seed, way=way):
                    continue
                torch.manual_seed(seed)
                X = torch.rand(4 + 2 * d, d, dtype=D)
                Y = function(X)
                begun, regrets = time.process_time(), []
                while True:
                    given: Any = {}
                    if way == "perturbed inputs":
                        draws = draw_sobol_normal_samples(d, 16, dtype=D, seed=seed) * sigma
                        given["input_transform"] = InputPerturbation(draws, bounds=box)
                    model = fitted(X, Y, **given)
                    at = chosen(model, X, way, sigma)
                    regrets.append(top - robust_value(function, at, sigma).item())
                    if len(X) >= args.evaluations:
                        break
                    sampler = SobolQMCNormalSampler(torch.Size([32]), seed=seed)
                    if way == "perturbed inputs":
                        risk = VaR(alpha=0.84, n_w=16)  # mean less deviation, were it normal
                        with torch.no_grad():
                            seen = risk(model.posterior(X).mean).max()
                        acquired: Any = qLogExpectedImprovement(model, seen, sampler, objective=risk)
                    else:
                        acquired = qLogExpectedImprovement(model, Y.max(), sampler)
                        if way == "gradient penalty":
                            lam = st.schedules.Constant(args.lam)
                            acquired = penalized(acquired, GradientPenalty(model, sigma**2), lam, len(X))
                    x, _ = optimize_acqf(acquired, box, 1, 8, 64, gen_candidates=gen_candidates)
                    X, Y = torch.cat([X, x]), torch.cat([Y, function(x)])
                out.add(
                    what="robust", problem=name, seed=seed, way=way, seconds=time.process_time() - begun,
                    regret=regrets[-1], regrets=regrets,
                )  # fmt: skip
    summary_of_robust(out.lines)


def summary_of_robust(lines: list[Any]) -> None:
    for name in ROBUST:
        for way in ("plain", "gradient penalty", "perturbed inputs"):
            rows = [line for line in lines if line["problem"] == name and line["way"] == way]
            if rows:
                regret = [line["regret"] for line in rows]
                seconds = np.mean([line["seconds"] for line in rows])
                print(
                    f"{name}: {way}: regret mean {np.mean(regret):.3f}, "
                    f"median {np.median(regret):.3f}, {seconds:.1f} s"
                )


def picture(args: Any, out: Out) -> None:
    """Draw the robust regret from the lines of a file, and what the penalty does."""
    import matplotlib.pyplot as plt

    lines = out.lines
    summary_of_robust(lines)
    figure, axes = plt.subplots(
        1, 1 + len(ROBUST), figsize=(3.2 * (1 + len(ROBUST)), 3), layout="constrained"
    )
    function, _, sigma = ROBUST["two bumps, 1-D"]
    torch.manual_seed(3)
    X = torch.cat([torch.rand(8, 1, dtype=D), torch.tensor([[0.2], [0.7]], dtype=D)])
    model = fitted(X, function(X))
    x = torch.linspace(0, 1, 201, dtype=D)[:, None]
    mean_ = model.posterior(x).mean.detach()[:, 0]
    penalty = GradientPenalty(model, sigma**2)(x[:, None])
    axes[0].plot(x[:, 0], mean_, label="μ")
    axes[0].plot(x[:, 0], mean_ - penalty, label="μ − √(∇μᵀΣ∇μ)")
    axes[0].plot(x[:, 0], robust_value(function, x, sigma), "k:", label="mean − deviation of f")
    axes[0].plot(X[:, 0], function(X)[:, 0], "k.", ms=4)
    axes[0].set_title("what the penalty does")
    axes[0].legend(fontsize=7)
    for ax, name in zip(axes[1:], ROBUST, strict=True):
        for way in ("plain", "gradient penalty", "perturbed inputs"):
            regrets = np.array(
                [line["regrets"] for line in lines if line["problem"] == name and line["way"] == way]
            )
            ax.plot(np.arange(regrets.shape[1]), regrets.mean(0), label=way)
        ax.set_title(name, fontsize=9)
        ax.set_xlabel("evaluations")
    axes[1].set_ylabel("robust regret, mean")
    axes[1].legend(fontsize=7)
    figure.savefig(args.picture)


def branin(args: Any, out: Out) -> None:
    """So many bounded runs on Branin, all in one batch of torch tensors."""
    device = args.device
    generator = torch.Generator().manual_seed(0)
    box = torch.tensor([[-5.0, 0.0], [10.0, 15.0]], dtype=D)
    x0 = (box[0] + (box[1] - box[0]) * torch.rand(args.rows, 2, dtype=D, generator=generator)).to(device)

    def f(x: Any) -> Any:
        a, b = x[..., 0], x[..., 1]
        return (
            (b - 0.12918450914398066 * a**2 + 1.5915494309189535 * a - 6) ** 2
            + 9.602112642270262 * a.cos()
            + 10
        )

    for turn in range(args.repeat):
        begun = clock(device) if device == "cuda" else time.perf_counter()
        result = st.minimize(f, x0, bounds=box.T.tolist(), trace=False, memory=4)
        took = (clock(device) if device == "cuda" else time.perf_counter()) - begun
        found = np.asarray(result.fun)
        out.add(
            what="branin", device=device, rows=args.rows, turn=turn, seconds=took,
            iterations=int(np.max(result.nit)), success=float(np.mean(np.asarray(result.success))),
            minimal=float((found < 0.398).mean()),
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["acquisition", "fits", "loop", "robust", "picture", "branin"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--evaluations", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--lam", type=float, default=1.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out")
    parser.add_argument("--picture", default="docs/robust.svg")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    globals()[args.what](args, Out(args.out, "robust" if args.what == "picture" else args.what))


if __name__ == "__main__":
    main()
