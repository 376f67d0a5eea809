"""Table 1: the improvement of the first step, GD against CGD-FD, on six test functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from .. import plot
from .._core.result import Trace
from ._claims import Claim, Outcome, Table, readable
from .experiments import EXPERIMENTS, RECOVERED, THRESHOLD, Experiment, T
from .recover import Floats, recover_spectrum, recover_start, recover_whole_start

__all__ = ["NAME", "SECTION", "TITLE", "run"]

NAME = "table1"
TITLE = "Table 1: first-step improvement of GD and CGD-FD"
SECTION = "Section 4"
SAYS = (
    "With a fixed α and a λ for each function, the first step of CGD-FD lowers six test functions by far "
    "more than the first step of GD: 97.91 % against 18.89 % on a quadratic, for example."
)
MATTERS = (
    "These twelve percentages are the only numbers that the paper prints about its runs. Matching them means "
    "that the method is right, and so are the settings that the paper leaves out, or some as good."
)

METHODS: tuple[Literal["gd", "cgd-fd"], ...] = ("gd", "cgd-fd")


def run() -> Outcome:
    """Run both methods on the six functions, and set the improvements beside the paper's.

    Examples
    --------
    >>> trace = EXPERIMENTS["branin"].run("gd").trace
    >>> f"{_first_step(trace):.2f}", f"{EXPERIMENTS['branin'].gd:.2f}"
    ('37.53', '37.53')
    """
    outcome = Outcome(notes=[RECOVERED, *_NOTES])
    rows: list[tuple[Any, ...]] = []
    first: dict[str, list[float]] = {}
    for row in EXPERIMENTS.values():
        ours: list[str] = []
        gaps: list[float] = []
        for method, paper in zip(METHODS, (row.gd, row.cgd_fd), strict=True):
            trace = row.run(method).trace
            assert trace is not None
            ours.append(f"{_first_step(trace):.2f}")
            first.setdefault(row.function.name, []).append(_first_step(trace))
            gaps.append(float(trace.f[-1]) - row.function.fmin)
            text = f"{row.function.title}, first step of {method.upper()}, %"
            outcome.claims.append(
                Claim(text, f"{paper:.2f}", ours[-1], ours[-1] == f"{paper:.2f}", "recovered")
            )
        rows.append(
            (row.function.title, row.function.n, row.lam_text, row.step, f"{row.gd:.2f}", ours[0],
             f"{row.cgd_fd:.2f}", ours[1], *gaps)
        )  # fmt: skip
    agree = sum(claim.agrees for claim in outcome.claims)
    branin = EXPERIMENTS["branin"]
    outcome.found = [
        f"{agree} of the {len(outcome.claims)} percentages in the paper's table agree with ours in both "
        f"decimals. So on Branin's function the first step of GD lowers f by {branin.gd:.0f} %, and that of "
        "«CGD-FD», which finds the slope of the penalty from a second gradient a little uphill, by "
        f"{branin.cgd_fd:.0f} %. The paper does not print the start points; we recovered some that fit."
    ]
    outcome.figures[NAME] = _draw(first)
    outcome.captions[NAME] = (
        "How much the first step lowers f, in percent of f₀: GD and CGD-FD, ours (filled) and as printed "
        "(rings). CGD-FD pays two gradients for its step, GD one."
    )
    outcome.tables[NAME] = Table(
        ("Test function", "n", "λ", "α", "GD, paper", "GD, ours", "CGD-FD, paper", "CGD-FD, ours",
         f"f − f* at {T}, GD", f"f − f* at {T}, CGD-FD"),
        rows,
        f"Improvement of the first step in percent, and f − f* after {T} gradients.",
    )  # fmt: skip
    outcome.tables[f"{NAME}-settings"] = Table(
        ("Test function", "start", "r"),
        [(row.function.title, _point(row.start), _r(row)) for row in EXPERIMENTS.values()],
        "What the paper leaves out: recovered, not published. "
        f"The quadratic is ½xᵀQx with Q's {EXPERIMENTS['quadratic'].function.n} eigenvalues evenly spaced in "
        f"{_spectrum()}, the start written in its eigenbasis.",
    )
    outcome.tables[f"{NAME}-recovery"] = Table(
        ("Test function", "unknown", "searched", "r", "solutions", "nearest to ours"),
        list(_recoveries()),
        "The settings recovered again, from the two printed numbers alone; the last column is the largest "
        "difference between a coordinate of ours and of the solution nearest to it.",
    )
    outcome.settings = {
        "T": T,
        "b": THRESHOLD,
        "experiments": {name: _setting(row) for name, row in EXPERIMENTS.items()},
        "quadratic_eigenvalues": _eigenvalues().tolist(),
    }
    return outcome


_NOTES = (
    f"Both methods get T = {T} gradients. CGD-FD follows the listing, whose test k ≥ b comes after the step: "
    f"it makes b + 1 = {THRESHOLD + 1} penalised iterations, where the text says b.",
    "On Levy, no start in [−10, 10]² gives both printed numbers as r → 0: where GD improves by 23.73 %, CGD "
    "with the exact product gets no further than about 42 %, against the printed 63.21 %. If the start lay "
    "in there, the paper's r was not small: r = 0.01 and r = 0.1 have solutions. Beyond it "
    "there are starts for r → 0 too, such as (10.620, −1.955).",
    "On Branin the table says for which r starts were looked for, and how many were found: none at "
    "r = 0.05. With r → 0, near (−4.759, 5.127), GD overtakes CGD-FD after 12 gradients; r = 0.2 is used "
    "because CGD-FD then stays ahead, as in the paper's figure.",
    "Matyas is homogeneous, so both numbers depend on the direction of the start alone: a ray agrees in two "
    "decimals, and no start gives exactly 1.83 and 34.40.",
    "The rotated hyper-ellipsoid's start is the only one of whole numbers from 0 to 12 that agrees.",
    "The traces of these runs are those of Fig. 3, the item fig-convergence.",
)


def _draw(first: dict[str, list[float]]) -> Any:
    figure = plot.blank(8, 3.6)
    axes = figure.subplots()
    for i, (method, marker) in enumerate(zip(METHODS, "so", strict=True)):
        style: dict[str, Any] = {"color": plot.COLOURS[method], "marker": marker, "lw": 0}
        printed = [(row.gd, row.cgd_fd)[i] for row in EXPERIMENTS.values()]
        ours = [steps[i] for steps in first.values()]
        axes.plot(ours, range(len(ours)), label=f"{method.upper()}, ours", ms=6, zorder=3, **style)
        axes.plot(
            printed,
            range(len(ours)),
            label=f"{method.upper()}, printed",
            ms=12,
            mfc="none",
            zorder=3,
            **style,
        )
    for y, steps in enumerate(first.values()):
        axes.plot(steps, [y, y], color="0.75", lw=2, zorder=2)
    axes.set_yticks(
        range(len(first)),
        [f"{e.function.title}\nλ = {e.lam_text}, α = {e.step:g}" for e in EXPERIMENTS.values()],
        fontsize="small",
    )
    axes.set(xlabel="f lowered by the first step, %", xlim=(-4, 104))
    axes.invert_yaxis()
    plot.tidy(axes)
    plot.legend_above(figure)
    return figure


def _first_step(trace: Trace) -> float:
    """Return the paper's improvement, in percent."""
    return float((trace.f[0] - trace.f[1]) / trace.f[0] * 100)


def _setting(row: Experiment) -> dict[str, Any]:
    n, start = row.function.n, list(row.start)
    return {"n": n, "lam": row.lam_text, "step": row.step, "r": row.r, "start": start}


def _point(start: tuple[float, ...]) -> str:
    return "all ones" if set(start) == {1.0} else f"({', '.join(readable(x, '.10g') for x in start)})"


def _r(row: Experiment) -> str:
    return f"{row.r:g} (any gives the same)" if row.any_r else f"{row.r:g}"


def _eigenvalues() -> Floats:
    quadratic = EXPERIMENTS["quadratic"].function
    return np.linalg.eigvalsh(quadratic.hess(np.zeros(quadratic.n)))


def _centre_and_half_width() -> Floats:
    low, high = _eigenvalues()[[0, -1]]
    return np.array([(low + high) / 2, (high - low) / 2])


def _spectrum() -> str:
    centre, half_width = _centre_and_half_width()
    return f"{centre:.8f} ± {half_width:.8f}"


def _recoveries() -> Iterator[tuple[Any, ...]]:
    """Recover every setting from the printed numbers, as a reader would."""

    def line(
        row: Experiment, unknown: str, where: str, r: str, found: Floats, ours: Floats | None
    ) -> tuple[Any, ...]:
        near = None if ours is None or not len(found) else float(np.abs(found - ours).max(axis=-1).min())
        return row.function.title, unknown, where, r, len(found), near

    row = EXPERIMENTS["quadratic"]
    found = recover_spectrum(row.function.n, row.lam0, row.step, row.gd, row.cgd_fd)
    ours = _centre_and_half_width()
    yield line(row, "centre, half-width", "centres up to 2/α", "any", found, ours)

    row = EXPERIMENTS["rotated-hyper-ellipsoid"]
    found = recover_whole_start(row.function, row.lam0, row.step, row.r, row.gd, row.cgd_fd)
    yield line(row, "start", "whole numbers 0 to 12", "any", found, np.array(row.start))

    # a part of Griewank's box will do: there are thousands of solutions in the whole
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
        found = recover_start(
            row.function,
            row.lam0,
            row.step,
            r,
            row.gd,
            row.cgd_fd,
            bounds=bounds,
            points=points,
            within=within,
        )
        box = row.function.bounds if bounds is None else bounds
        where = " × ".join(f"[{readable(low)}, {readable(high)}]" for low, high in box)
        where += ", two decimals" if within == 0.005 else ""
        ours = np.array(row.start) if r == row.r and len(found) else None
        yield line(row, "start", where, "→ 0" if r is None else f"{r:g}", found, ours)
