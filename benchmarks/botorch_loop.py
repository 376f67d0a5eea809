"""Bayesian optimisation with BoTorch's own minimisers and with ours, side by side.

    python benchmarks/botorch_loop.py acquisition [--seeds 20] [--device cuda]
    python benchmarks/botorch_loop.py fits [--seeds 20]
    python benchmarks/botorch_loop.py loop [--seeds 10] [--evaluations 50]
    python benchmarks/botorch_loop.py robust [--seeds 20] [--evaluations 20]
    python benchmarks/botorch_loop.py branin [--rows 1000,100000] [--device cuda]
    python benchmarks/botorch_loop.py pages

Every run is a line of JSON, appended to --out as it ends, and is not made again if it is there; a summary is
printed at the end. Times are of the process, or of the wall with --device cuda; ours and the peers' are
measured in turn. `pages` writes the tables and the picture of the docs from the lines in --out.
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
from botorch.acquisition.penalized import PenalizedAcquisitionFunction
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
from steepen import tensors
from steepen.integrations.botorch import GradientPenalty, fit, gen_candidates
from steepen.plot._canvas import blank, tidy

D = torch.float64
DEVICES = {"cpu": "one core", "cuda": "an H200"}


class Out:
    """Lines of results: in a file as they come, and in memory for the summary."""

    def __init__(self, path: str, what: str):
        self.path, self.lines = path, []
        if Path(path).exists():
            lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
            self.lines = [line for line in lines if line["what"] == what]

    def has(self, **line: Any) -> bool:
        """Return whether a run was made before."""
        return any(all(known[name] == value for name, value in line.items()) for known in self.lines)

    def add(self, **line: Any) -> None:
        self.lines.append(line)
        print(json.dumps(line), flush=True)
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
    print(acquisition_table(out.lines))


def paired(lines: list[Any], *key: str) -> dict[Any, list[dict[str, Any]]]:
    """Return by problem (and the like) the lines of each seed, by way."""
    table: Any = defaultdict(lambda: defaultdict(dict))
    for line in lines:
        table[tuple(line[name] for name in key)][line["seed"]][line["way"]] = line
    return {k: list(table[k].values()) for k in sorted(table)}


def acquisition_table(lines: list[Any]) -> str:
    """Return ours beside the better of the peers, seed by seed."""
    said = [
        "| a GP with 100 points | on | restarts | seeds | | tied or better | most behind | calls | time |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (device, name, restarts), rows in paired(lines, "device", "problem", "restarts").items():
        if not (rows := [ways for ways in rows if len(ways) == 4]):
            continue
        peers = [[w for n, w in ways.items() if not n.startswith("ours")] for ways in rows]
        top = [max(w["value"] for w in peer) for peer in peers]
        for way in ("ours", "ours, race=False"):
            ours = [ways[way] for ways in rows]
            behind = [(t - o["value"]) / abs(t) for t, o in zip(top, ours, strict=True)]
            calls, times = (
                mean(o[kind] / min(w[kind] for w in p) for o, p in zip(ours, peers, strict=True))
                for kind in ("calls", "seconds")
            )
            level = f"{sum(b <= 1e-6 for b in behind)} of {len(rows)}"
            worst = f"{max(behind):.0e}" if max(behind) > 1e-6 else "–"
            said.append(
                f"| {name} | {DEVICES[device]} | {restarts} | {len(rows)} | {way} | {level} | {worst} "
                f"| {calls:.2f} × | {times:.2f} × |"
            )
    return "\n".join(said)


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
                for way, given in {"BoTorch": {}, "ours": {"optimizer": fit}}.items():
                    if out.has(problem=name, points=points, seed=seed, way=way):
                        continue
                    torch.manual_seed(seed)
                    function, _, d = problem(name)
                    X = torch.rand(points, d, dtype=D)
                    Y = function(X)
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
    print(fits_table(out.lines))


def fits_table(lines: list[Any]) -> str:
    """Return our fits beside BoTorch's, seed by seed."""
    said = [
        "| a GP of | points | seeds | evaluations | time | behind by at most | warnings, BoTorch's |",
        "|---|---|---|---|---|---|---|",
    ]
    for (name, points), rows in paired(lines, "problem", "points").items():
        if not (rows := [ways for ways in rows if len(ways) == 2]):
            continue
        calls, times = (
            mean(r["ours"][kind] / r["BoTorch"][kind] for r in rows) for kind in ("calls", "seconds")
        )
        behind = max(r["BoTorch"]["likelihood"] - r["ours"]["likelihood"] for r in rows)
        warned = [sum(r[way]["warnings"] for r in rows) for way in ("ours", "BoTorch")]
        said.append(
            f"| {name} | {points} | {len(rows)} | {calls:.2f} × | {times:.2f} × | "
            f"{f'{behind:.0e}' if behind > 1e-6 else '–'} | {warned[0]}, {warned[1]} |"
        )
    return "\n".join(said)


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
    print(loop_table(out.lines))


def loop_table(lines: list[Any]) -> str:
    """Return the regret and the time of whole loops."""
    rows = [ways for ways in paired(lines, "what").get(("loop",), []) if len(ways) == 2]
    said = [
        "| 50 evaluations of Hartmann-6 | seeds | regret, mean | median | the mean's difference | time |",
        "|---|---|---|---|---|---|",
    ]
    for way in ("BoTorch", "ours") if rows else ():
        regret = np.array([r[way]["regret"] for r in rows])
        more = regret - [r["BoTorch"]["regret"] for r in rows]
        error = np.std(more, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.nan
        apart = "" if way == "BoTorch" else f"{more.mean():+.3f} ± {error:.3f}"
        times = mean(r[way]["seconds"] / r["BoTorch"]["seconds"] for r in rows)
        middle = f"{regret.mean():.3f} | {np.median(regret):.3f}"
        said.append(f"| {way} | {len(rows)} | {middle} | {apart} | {times:.2f} × |")
    return "\n".join(said)


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


PENALISED = {"gradient penalty": False, "with curvature": True}
WAYS = ("plain", *PENALISED, "perturbed inputs")


def robust_value(function: Any, X: Any, sigma: float, lam: float = 1.0) -> Any:
    """Return the mean less the deviation of f under the noise of x, by the same draws at every point."""
    draws = draw_sobol_normal_samples(X.shape[-1], 256, dtype=D, seed=7) * sigma
    values = function((X[..., None, :] + draws).clamp(0, 1))[..., 0]
    return values.mean(-1) - lam * values.std(-1)


def chosen(model: Any, X: Any, way: str, sigma: float) -> Any:
    """Return the point that a way would recommend: the best by its own standard on the model."""
    grid = torch.quasirandom.SobolEngine(X.shape[-1], scramble=True, seed=3).draw(1024).to(D)
    places = torch.cat([X, grid])
    if way in PENALISED:
        with torch.no_grad():
            worth = model.posterior(places[:, None]).mean[:, 0, 0]
        penalty = GradientPenalty(model, sigma**2, PENALISED[way])
        return places[(worth - penalty(places[:, None])).argmax()]
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
            for way in WAYS:
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
                        if way in PENALISED:
                            penalty = GradientPenalty(model, sigma**2, PENALISED[way])
                            acquired = PenalizedAcquisitionFunction(acquired, penalty, args.lam)
                    x, _ = optimize_acqf(acquired, box, 1, 8, 64, gen_candidates=gen_candidates)
                    X, Y = torch.cat([X, x]), torch.cat([Y, function(x)])
                out.add(
                    what="robust", problem=name, seed=seed, way=way, seconds=time.process_time() - begun,
                    regret=regrets[-1], regrets=regrets,
                )  # fmt: skip
    print(robust_table(out.lines))


def robust_table(lines: list[Any]) -> str:
    """Return the robust regret at the end, its standard error, and the time beside plain qLogEI's."""
    said = [
        "| | plain qLogEI | √(∇μᵀΣ∇μ) | with curvature | perturbed inputs | time |",
        "|---|---|---|---|---|---|",
    ]
    found = paired(lines, "problem")
    for name in ROBUST:
        rows = [ways for ways in found.get((name,), []) if len(ways) == len(WAYS)]
        if not rows:
            continue
        cells = []
        for way in WAYS:
            regret = np.array([r[way]["regret"] for r in rows])
            error = f" ± {regret.std(ddof=1) / len(rows) ** 0.5:.3f}" if len(rows) > 1 else ""
            cells.append(f"{regret.mean():.3f}{error}")
        times = [mean(r[way]["seconds"] / r["plain"]["seconds"] for r in rows) for way in WAYS]
        took = ", ".join(f"{t:.1f} ×" for t in times)
        said.append(f"| {name}, {len(rows)} seeds | {' | '.join(cells)} | {took} |")
    return "\n".join(said)


def robust_picture(lines: list[Any]) -> Any:
    """Draw what the penalty does to a model, and the robust regret on the way."""
    figure = blank(9, 7)
    axes = figure.subplot_mosaic([[0, 0], [1, 2], [3, 4]], height_ratios=[1.25, 1, 1])
    function, _, sigma = ROBUST["two bumps, 1-D"]
    X = torch.linspace(0, 1, 21, dtype=D)[:, None]
    model = fitted(X, function(X))
    x = torch.linspace(0, 1, 301, dtype=D)[:, None]
    mean_ = model.posterior(x).mean.detach()[:, 0]
    penalty = GradientPenalty(model, sigma**2)(x[:, None])
    grey, orange, purple, blue = (st.plot.COLOURS[name] for name in ("gd", "cgd-fd", "cgd-auto", "bfgs"))
    ax = axes[0]
    ax.plot(x[:, 0], mean_, color=grey, ls="--", lw=1.8, label="μ, the model's mean")
    ax.plot(x[:, 0], mean_ - penalty, color=orange, lw=1.6, label="μ − √(∇μᵀΣ∇μ)")
    penalty = GradientPenalty(model, sigma**2, curvature=True)(x[:, None])
    ax.plot(x[:, 0], mean_ - penalty, color=purple, lw=2.4, label="the same with curvature")
    truth = robust_value(function, x, sigma)
    ax.plot(x[:, 0], truth, color="black", ls=":", lw=1.8, label="f under the noise: mean − deviation")
    ax.plot(X[:, 0], function(X)[:, 0], "k.", ms=6)
    ax.set(xlabel="x", title=f"two bumps, and noise of x with deviation {sigma:g}", ylim=(-1.1, 1.1))
    ax.legend(frameon=False, loc="lower right", fontsize=9)
    tidy(ax)
    looks = dict(zip(WAYS, ((grey, "--"), (orange, "-"), (purple, "-."), (blue, ":")), strict=True))
    for i, name in enumerate(ROBUST, 1):
        ax = axes[i]
        for way, (colour, style) in looks.items():
            every = [line["regrets"] for line in lines if line["problem"] == name and line["way"] == way]
            if every:
                regrets = np.mean(every, axis=0)
                first = 4 + 2 * ROBUST[name][1]
                ax.plot(first + np.arange(len(regrets)), regrets, color=colour, ls=style, lw=2, label=way)
        ax.set(title=name, ylim=(0, None))
        if i > 2:
            ax.set_xlabel("evaluations")
        if i % 2:
            ax.set_ylabel("robust regret")
        tidy(ax)
    axes[2].legend(frameon=False, fontsize=9)
    return figure


def written(text: str, mark: str, table: str) -> str:
    """Return a page with a table between its marks."""
    before, _, rest = text.partition(f"<!-- measured: {mark} -->\n")
    _, end, after = rest.partition("<!-- /measured -->")
    return f"{before}<!-- measured: {mark} -->\n{table}\n{end}{after}"


def pages(args: Any, out: Out) -> None:
    """Write what was measured into the docs."""
    docs = Path(__file__).parents[1] / "docs"
    for (page, mark), table in tables(args.out).items():
        path = docs / page
        path.write_text(written(path.read_text("utf-8"), mark, table), "utf-8")
    st.plot.save(robust_picture(Out(args.out, "robust").lines), docs / "robust.svg")


def tables(path: str) -> dict[tuple[str, str], str]:
    """Return the tables of the docs, by page and mark."""
    parts = {
        "acquisition": acquisition_table, "fits": fits_table, "loop": loop_table, "branin": branin_table,
    }  # fmt: skip
    found = {("integrations.md", what): table(Out(path, what).lines) for what, table in parts.items()}
    found["paper.md", "robust"] = robust_table(Out(path, "robust").lines)
    return {
        place: table if table.count("\n") > 1 else "*Not measured yet.*" for place, table in found.items()
    }


def branin(args: Any, out: Out) -> None:
    """Make bounded runs on Branin in one batch of torch tensors: their state on the host, or the device."""
    device = args.device
    box = torch.tensor([[-5.0, 0.0], [10.0, 15.0]], dtype=D)

    def f(x: Any) -> Any:
        a, b = x[..., 0], x[..., 1]
        return (
            (b - 0.12918450914398066 * a**2 + 1.5915494309189535 * a - 6) ** 2
            + 9.602112642270262 * a.cos()
            + 10
        )

    for rows in map(int, args.rows.split(",")):
        generator = torch.Generator().manual_seed(0)
        x0 = (box[0] + (box[1] - box[0]) * torch.rand(rows, 2, dtype=D, generator=generator)).to(device)
        for turn in range(args.repeat):
            for state, few in (("host", 10**12), ("device", 0)):
                tensors.FEW = few
                begun = clock(device) if device == "cuda" else time.perf_counter()
                result = st.minimize(f, x0, bounds=box.T.tolist(), trace=False, memory=4)
                took = (clock(device) if device == "cuda" else time.perf_counter()) - begun
                found = np.asarray(result.fun)
                out.add(
                    what="branin", device=device, rows=rows, state=state, turn=turn, seconds=took,
                    iterations=int(np.max(result.nit)), success=float(np.mean(np.asarray(result.success))),
                    minimal=float((found < 0.398).mean()),
                )  # fmt: skip


def branin_table(lines: list[Any]) -> str:
    """Return the seconds of the fastest turn, by where the state of the run lies."""
    said = [
        "| rows of Branin, in a box | on | state on the host | state on the device |",
        "|---|---|---|---|",
    ]
    for device, rows in sorted({(line["device"], line["rows"]) for line in lines}):
        own = [line for line in lines if (line["device"], line["rows"]) == (device, rows)]
        fastest = [
            min(line["seconds"] for line in own if line["state"] == state) for state in ("host", "device")
        ]
        said.append(f"| {rows} | {DEVICES[device]} | {fastest[0]:.2f} s | {fastest[1]:.2f} s |")
    return "\n".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["acquisition", "fits", "loop", "robust", "branin", "pages"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--evaluations", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--rows", default="100,1000,10000,100000", help="of `branin`")
    parser.add_argument("--lam", type=float, default=1.0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", default=str(Path(__file__).parent / "results" / "botorch_loop.jsonl"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    globals()[args.what](args, Out(args.out, args.what))


if __name__ == "__main__":
    main()
