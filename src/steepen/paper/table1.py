"""Item of `reproduce`, Table 1: the first step's improvement, GD against CGD-FD; writes no files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import plot
from ..trace import Trace
from ._figures import legend_above
from ._items import EXPLORER, Claim, Link, Outcome, claim, outcome, readable
from ._runs import Floats, trace
from .experiments import EXPERIMENTS, THRESHOLD, Experiment, T
from .recover import recover_spectrum, recover_start, recover_whole_start

METHODS = ("gd", "cgd-fd")


def run() -> Outcome:
    """Run both methods on the six functions, and compare the improvements with the paper's."""
    rows: list[tuple[Any, ...]] = []
    claims: list[Claim] = []
    first: dict[str, list[float]] = {}
    for name, row in EXPERIMENTS.items():
        traces = [trace(row.run(method)) for method in METHODS]
        first[name] = [_first_step(made) for made in traces]
        ours, printed = [f"{percent:.2f}" for percent in first[name]], [f"{row.gd:.2f}", f"{row.cgd_fd:.2f}"]
        claims += [
            claim("table1", "first-step", own == paper, function=row.function.title, method=method.upper(),
                  printed=paper, ours=own)
            for method, paper, own in zip(METHODS, printed, ours, strict=True)
        ]  # fmt: skip
        gaps = [float(made.f[-1]) - row.function.fmin for made in traces]
        title = Link(row.function.title, "#fig-convergence-log")  # its curves
        rows.append((title, row.function.n, row.lam_text, row.alpha, printed[0], ours[0],
                     printed[1], ours[1], *gaps))  # fmt: skip
    quadratic = EXPERIMENTS["quadratic"].function
    eigenvalues = np.linalg.eigvalsh(quadratic.hess(np.zeros(quadratic.n)))
    spectrum = np.array([eigenvalues[-1] + eigenvalues[0], eigenvalues[-1] - eigenvalues[0]]) / 2
    return outcome(
        "table1",
        claims=claims,
        tables={
            "table1": rows,
            "table1-settings": [
                (row.function.title, _point(row.x0), f"{row.r:g}{' (any gives the same)' * row.any_r}",
                 Link("drag λ", f"{EXPLORER}#function={name}") if row.n == 2 else None)
                for name, row in EXPERIMENTS.items()
            ],
            "table1-recovery": list(_recoveries(spectrum)),
        },
        pictures={"table1": _draw(first)},
        settings={
            "T": T, "b": THRESHOLD,
            "experiments": {
                name: {"n": row.function.n, "lam": row.lam_text, "step": row.alpha, "r": row.r,
                       "start": list(row.x0)}
                for name, row in EXPERIMENTS.items()
            },
            "quadratic_eigenvalues": eigenvalues,
        },
        penalised=THRESHOLD + 1, agree=sum(claim.agrees is True for claim in claims), total=len(claims),
        branin=EXPERIMENTS["branin"], n=quadratic.n, spectrum=spectrum,
    )  # fmt: skip


def _first_step(trace: Trace) -> float:
    """Return the paper's improvement, in percent."""
    return float((trace.f[0] - trace.f[1]) / trace.f[0] * 100)


def _point(start: tuple[float, ...]) -> str:
    return "all ones" if set(start) == {1.0} else f"({', '.join(readable(x, '.10g') for x in start)})"


def _draw(first: dict[str, list[float]]) -> Any:
    axes = plot.blank(8, 3.6).subplots()
    places = range(len(first))
    for i, (method, marker) in enumerate(zip(METHODS, "so", strict=True)):
        style: dict[str, Any] = {"color": plot.COLOURS[method], "marker": marker, "lw": 0, "zorder": 3}
        printed = [(row.gd, row.cgd_fd)[i] for row in EXPERIMENTS.values()]
        ours = [steps[i] for steps in first.values()]
        axes.plot(ours, places, label=f"{method.upper()}, ours", ms=6, **style)
        axes.plot(printed, places, label=f"{method.upper()}, printed", ms=12, mfc="none", **style)
    for y, steps in enumerate(first.values()):
        axes.plot(steps, [y, y], color="0.75", lw=2, zorder=2)
    labels = [f"{e.function.title}\n{e.settings}" for e in EXPERIMENTS.values()]
    axes.set_yticks(places, labels, fontsize="small")
    axes.set(xlabel="f lowered by the first step, %", xlim=(-4, 104))
    axes.invert_yaxis()
    plot.tidy(axes)
    legend_above(axes.figure)
    return axes.figure


def _recoveries(spectrum: Floats) -> Iterator[tuple[Any, ...]]:
    """Recover every setting from the printed numbers alone."""

    def line(row: Experiment, unknown: str, where: str, r: str, found: Floats, ours: Any) -> tuple[Any, ...]:
        near = None if ours is None or not len(found) else float(np.abs(found - ours).max(axis=-1).min())
        return row.function.title, unknown, where, r, len(found), near

    row = EXPERIMENTS["quadratic"]
    found = recover_spectrum(row.function.n, row.lam0, row.alpha, row.gd, row.cgd_fd)
    yield line(row, "centre, half-width", "centres up to 2/α", "any", found, spectrum)
    row = EXPERIMENTS["rotated-hyper-ellipsoid"]
    found = recover_whole_start(row.function, row.lam0, row.alpha, row.r, row.gd, row.cgd_fd)
    yield line(row, "start", "whole numbers 0 to 12", "any", found, row.x0)
    # a part of Griewank's box, which has thousands of solutions
    part = np.array([(436.0, 444.0), (309.0, 317.0)])
    beyond = np.array([(10.0, 12.0), (-4.0, 0.0)])  # Levy's box ends at 10
    for name, r, bounds, points, within in (
        ("levy", 0.01, None, 201, 1e-10),
        ("levy", 0.1, None, 201, 1e-10),
        ("levy", None, None, 201, 1e-10),
        ("levy", None, beyond, 41, 1e-10),
        *(("branin", r, None, 201, 1e-10) for r in (0.2, 0.1, 0.07, 0.05, 0.03, 0.01, None)),
        ("griewank", 0.01, part, 41, 1e-10),
        ("matyas", 0.01, None, 101, 1e-10),
        ("matyas", 0.01, None, 101, 0.005),
    ):
        row = EXPERIMENTS[name]
        printed = (row.function, row.lam0, row.alpha, r, row.gd, row.cgd_fd)
        found = recover_start(*printed, bounds=bounds, points=points, within=within)
        box = row.function.bounds if bounds is None else bounds
        where = " × ".join(f"[{readable(low)}, {readable(high)}]" for low, high in box)
        where += ", two decimals" if within == 0.005 else ""
        ours = row.x0 if r == row.r else None
        yield line(row, "start", where, "→ 0" if r is None else f"{r:g}", found, ours)
