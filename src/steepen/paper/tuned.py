"""Does λ > 0 help a gradient descent that is already tuned? The stored study, and a part of it run again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import plot
from ..functions import functions
from ._items import Claim, Known, Outcome, Picture, Table, readable
from ._runs import Floats
from .experiments import EXPERIMENTS, T
from .extensions import best_step
from .study import (
    BOXED,
    BUDGETS,
    CLEAR,
    HAPPENED,
    JUDGED,
    LEVEL,
    NAMES,
    PAIRS,
    SHOWN,
    STAGES,
    TUNING,
    Problem,
    Result,
    counted,
    happened,
    left,
    of,
    problems,
    rank_correlation,
    reasons,
    results,
    settings,
)


def run() -> Outcome:
    """Show the stored study, run a part of it again, and draw the maps of three functions."""
    few = [row for row in of("gd", "cgd-fd", SHOWN) if row.n < 10]
    return Outcome(
        claims=[
            _claim_ahead(
                "an appropriate λ > 0 gives a descent a boost, also if α is tuned", "gd", "cgd-fd", "limit"
            ),
            _claim_ahead(
                "CGD-BFGS gives better results than BFGS, also if α is tuned", "bfgs", "cgd-bfgs", None
            ),
            _claim_condition(),
            _claim_again(),
        ],
        tables={
            "tuned": _summary_table(),
            "tuned-functions": _functions_table(),
            "tuned-happened": _happened_table(),
            "tuned-why": _why_table(),
        },
        pictures={
            "tuned": Picture(
                bars(),
                f"Each row is a function of one to six variables. To the left, the share of {JUDGED} starts "
                f"in which tuned GD ends lower after {SHOWN} gradients; to the right, that in which tuned "
                "CGD-FD with λ > 0 does; in the rest they are level. Pale: neither is ahead, "
                f"{counted(few)[2]} of {len(few)}.",
            ),
            "tuned-maps": Picture(
                maps(),
                f"Maps of starts on {_listed(functions[name].title for name in MAPS)}: the colour says what "
                f"share of the start's f − f* is left after {SHOWN} gradients of GD and of CGD-FD with "
                "λ > 0, both tuned. Dark areas are those from which the lowest minimum, a star, is reached.",
            ),
            "tuned-why": Picture(
                _draw_reasons(),
                f"At {SHOWN} gradients, over all functions. First panel: the starts that λ > 0 "
                "wins and loses, by what happened to the one that ends higher. Second: each dot is a "
                "function; the share of its starts that λ > 0 wins, less the share that it loses, against "
                "the condition number at the minimum. Rings: neither is ahead.",
            ),
        },
        found=_found(),
        notes=[
            f"Each method is tuned for each budget with {sum(STAGES)} trials on {TUNING} starts, "
            f"{TUNING // 2} in ten variables or more, and judged on {JUDGED} others. {STAGES[0]} trials go "
            f"over seven powers of ten of α and five of |λ|, {STAGES[1]} around the best of these, with "
            f"other r and b too, and {STAGES[2]} around the best of those. A trial is as good as the digits "
            f"of f − f* that it gains, on average over the starts and no more than {-np.log10(LEVEL):.0f} of "
            "them. What counts is the last point, as in the listings.",
            "BFGS and CGD-BFGS have a constant α too. cgd-auto has a line search and nothing to tune.",
            f"On {', '.join(functions[name].title for name in BOXED)} runs are kept inside the box, since "
            "these functions are lower outside of it than their minimum inside. Powell's function has 4 and "
            "12 variables.",
            "python benchmarks/tuned.py runs all of it again, in some 40 minutes of one core, and writes the "
            "tables that are read here, tuned_settings.csv and tuned_results.csv. The maps, and the "
            "comparison of a few functions, are run with this page.",
        ],
        settings={
            "trials": STAGES, "starts to tune on": TUNING, "starts to judge on": JUDGED,
            "kept in their box": BOXED,
        },
    )  # fmt: skip


def _summary_table() -> Table:
    ends = [[best_step(row, method).gap for method in ("gd", "cgd-fd")] for row in EXPERIMENTS.values()]
    won = sum(cgd < gd for gd, cgd in ends)
    panels = "CGD-FD against GD: the six panels of Fig. 3"
    rows: list[tuple[Any, ...]] = [(panels, "2 to 10", T, len(ends), won, len(ends) - won, 0, "–", "–")]
    for plain, penalised in PAIRS:
        for words, small in (("1 to 6", True), ("10 or 12", False)):
            for grads in BUDGETS:
                chosen = [row for row in of(plain, penalised, grads) if (row.n < 10) == small]
                if chosen:
                    total = JUDGED * len(chosen)
                    shares = [sum(getattr(row, side) for row in chosen) / total for side in ("won", "lost")]
                    text = f"{NAMES[penalised]} against {NAMES[plain]}"
                    rows.append((text, words, grads, len(chosen), *counted(chosen),
                                 *(f"{share:.0%}" for share in shares)))  # fmt: skip
    return Table(
        ("compared", "variables", "gradients", "problems", "first ahead", "second ahead", "neither",
         "starts won by the first", "by the second"),
        rows,
        f"A method is ahead on a function if it wins a tenth of the {JUDGED} starts more than it loses, and "
        "beyond chance (95 % limits); a start is won by more than a millionth of the fall. The first row "
        "is the paper's own: one start each, with the α that is best for that start.",
    )  # fmt: skip


def _functions_table() -> Table:
    sides = [f"{who}: {what}" for who in ("first", "second") for what in ("median f − f*", "from", "to")]
    return Table(
        ("function", "n", "gradients", "first", "second", "won by first", "by second", "net from", "to",
         *sides),
        [
            (functions[row.function].title, row.n, row.gradients, NAMES[row.penalised], NAMES[row.plain],
             row.won, row.lost, row.low, row.high, *row.penalised_median, *row.plain_median)
            for row in results()
            if row.plain == "gd" and row.penalised.startswith("cgd-fd")
        ],
        f"CGD-FD against GD, with either sign of λ, over {JUDGED} starts: how many the first method wins and "
        "how many the second, 95 % limits of the difference as a share of the starts, and the medians of "
        "f − f* with such limits.",
    )  # fmt: skip


def _happened_table() -> Table:
    rows: list[tuple[Any, ...]] = []
    for plain, penalised in PAIRS:
        for grads in BUDGETS:
            for side, (winner, loser) in enumerate(((penalised, plain), (plain, penalised))):
                counts = happened(of(plain, penalised, grads), side).values()
                rows.append((grads, NAMES[winner], NAMES[loser], sum(counts), *counts))
    return Table(
        ("gradients", "lower", "higher", "starts", *(f"the higher one {text}" for text in HAPPENED.values())),
        rows,
        "What happened where one of two methods ends lower, over all functions. Where a run is heading is "
        "found by a descent with a line search from its last point.",
    )  # fmt: skip


def _why_table() -> Table:
    net = {(row.function, row.n): row.net for row in of("gd", "cgd-fd", SHOWN)}

    def finite(value: float) -> float | None:
        return value if np.isfinite(value) else None

    def chosen(name: str, n: int) -> tuple[float, float, float]:
        gd, cgd = (settings()[name, n, SHOWN, method] for method in ("gd", "cgd-fd"))
        return gd.step, cgd.step, cgd.lam

    return Table(
        ("function", "n", "condition number", "bends down", "spread of curvature", "best λ negative", "net",
         "tuned α, GD", "tuned α, CGD-FD", "tuned λ"),
        [(functions[name].title, n, finite(why.condition), why.down, why.spread, finite(why.best_negative),
          net[name, n], *chosen(name, n)) for (name, n), why in reasons().items()],
        "The landscapes: the condition number at the minimum; of the points of tuned GD's paths, the share "
        "where f bends down along ∇f, the curvature along ∇f at nine tenths of them over that at one "
        "tenth, and the share where the best λ of the quadratic model on ∇f and H·∇f is negative; the "
        f"starts that CGD-FD wins less those that it loses at {SHOWN} gradients, as a share; and the "
        "settings chosen.",
    )  # fmt: skip


def _listed(values: Iterable[Any]) -> str:
    *most, last = map(str, values)
    return f"{', '.join(most)} and {last}"


def _found() -> list[str]:
    helped, negative = of("gd", "cgd-fd", SHOWN), of("gd", "cgd-fd-negative", SHOWN)
    total, few = len(helped), sum(row.n < 10 for row in helped)
    ahead, behind = (
        {pair: _listed(counted(of(*pair, grads))[side] for grads in BUDGETS) for pair in PAIRS}
        for side in (0, 1)
    )
    gd, two, newton, free, auto = (("gd", "cgd-fd"), ("gd-two", "cgd-fd"), *PAIRS[3:])
    either = {(row.function, row.n) for row in (*helped, *negative) if row.verdict > 0}
    won, lost = (happened(helped, side) for side in (0, 1))
    best = [why.best_negative for why in reasons().values() if np.isfinite(why.best_negative)]
    small = sum(settings()[row.function, row.n, SHOWN, "cgd-fd"].small for row in helped)

    def winning(
        rows: Iterable[Result],
    ) -> str:  # the clearest first, with the dimension where it is not small
        chosen = sorted((row for row in rows if row.verdict == 1), key=lambda row: -abs(row.net))
        titles = [functions[row.function].title + (f" ({row.n})" if row.n >= 10 else "") for row in chosen]
        return ", ".join(titles) or "none"

    return [
        f"Tuned alike and judged on other starts, CGD-FD with λ > 0 is ahead of GD on {ahead[gd]} of {total} "
        f"problems at {_listed(BUDGETS)} gradients, and behind on {behind[gd]}; on the others neither is "
        f"ahead. The problems are {few} functions of one to six variables, and {total - few} of them again "
        "with 10 or 12.",
        f"Where λ > 0 wins at {SHOWN} gradients: {winning(helped)}. Where λ < 0 does: "
        f"{winning(negative)}. On the other {total - len(either)} of {total} problems no sign of λ beats "
        "a tuned α.",
        "What λ > 0 brings, a longer first step brings too, and for one gradient: GD with another α for "
        f"its first b steps, tuned alike, is ahead of CGD-FD on {behind[two]} of {len(of(*two, SHOWN))} "
        f"problems, and behind on {ahead[two]}.",
        f"On the way to the same minimum, or to one as low, λ > 0 wins {won['faster']} starts and loses "
        f"{lost['faster']} at {SHOWN} gradients. Where the two head for different minima, its is the lower "
        f"one in {won['basin']} starts and the higher one in {lost['basin']}. It avoids an end above the "
        f"start {won['diverged']} times, and causes one {lost['diverged']} times; it leaves a plateau on "
        f"which GD hardly moves {won['plateau']} times, and stays on one {lost['plateau']} times.",
        "Within a basin the reason is the theory's: a penalised step costs two gradients, and λ > 0 "
        f"worsens the condition number. On {sum(share > 0.9 for share in best)} of {len(best)} problems the "
        "best λ of the quadratic model on ∇f and H·∇f is negative at more than nine tenths of the points "
        f"of GD's paths, where there is one, and on {small} of {total} the tuner leaves next to nothing of "
        "the penalty. Between basins λ > 0 acts as a shake: its long first steps throw a run out of the "
        "basin of its start, for better or worse, as the maps show.",
        f"CGD-BFGS, whose penalty costs no second gradient, is ahead of BFGS on {ahead[newton]} of {total} "
        f"problems, and behind on {behind[newton]}. But both have one constant α, which suits BFGS badly: "
        "its first steps want a short one, its last α = 1. Of GD, which is as cheap, CGD-BFGS is ahead on "
        f"{ahead[free]}, and behind on {behind[free]}: the second gradient is not all that λ > 0 costs.",
        f"cgd-auto, with a line search and nothing tuned, is ahead of tuned GD on {ahead[auto]} of {total}, "
        f"and behind on {behind[auto]}.",
    ]


# --- claims -----------------------------------------------------------------------------------------


def _claim_ahead(text: str, plain: str, penalised: str, known: Known | None) -> Claim:
    counts = {grads: counted(of(plain, penalised, grads)) for grads in BUDGETS}
    return Claim(
        text,
        "great boosts" if plain == "gd" else "better results",
        "; ".join(
            f"at {grads} gradients ahead on {ahead} of {ahead + behind + level}, behind on {behind}"
            for grads, (ahead, behind, level) in counts.items()
        ),
        all(ahead - behind >= CLEAR * (ahead + behind + level) for ahead, behind, level in counts.values()),
        "chosen",
        known=known,
    )


def _claim_condition() -> Claim:
    found: dict[int, tuple[float, ...]] = {}  # the correlation of κ with the net share, and 95 % limits
    a = b = np.empty(0)
    for grads in BUDGETS:
        rows = [row for row in of("gd", "cgd-fd", grads) if np.isfinite(row.why.condition)]
        a, b = np.array([(row.why.condition, row.net) for row in rows]).T
        again = np.random.default_rng(0).integers(0, len(a), (1000, len(a)))
        limits = np.quantile([rank_correlation(a[rows], b[rows]) for rows in again], (0.025, 0.975))
        found[grads] = (rank_correlation(a, b), *limits.tolist())
    parts = [[readable(value, ".2f") for value in values] for values in found.values()]
    texts = [f"{at} ({low} to {high}) at {g}" for g, (at, low, high) in zip(found, parts, strict=True)]
    return Claim(
        f"with T = {T} CGD does the worse against GD the higher the condition number",
        "would perform poorly",
        f"rank correlation {', '.join(texts)} gradients, over {len(a)} problems",
        found[T][2] < 0,
        "chosen",
    )


AGAIN = ("booth", "branin", "beale", "rosenbrock", "zakharov")
"""Functions of which the comparison at 40 gradients is run again whenever the page is made."""


def _claim_again() -> Claim:
    """Run a part of the study again with the stored settings."""
    apart, grads = 0, BUDGETS[0]
    stored = {(row.function, row.n): row for row in of("gd", "cgd-fd", grads)}
    for problem in (problem for problem in problems(AGAIN) if problem.function.n == 2):
        name = problem.function.name
        chosen = {method: settings()[name, 2, grads, method] for method in ("gd", "cgd-fd")}
        ends = [problem.ends(method, setting, problem.judged, grads) for method, setting in chosen.items()]
        won, lost = (int(where.sum()) for where in problem.won(*ends))
        apart = max(apart, abs(won - stored[name, 2].won), abs(lost - stored[name, 2].lost))
    return Claim(
        f"the stored study comes out again: {len(AGAIN)} functions, {grads} gradients",
        "the same counts",
        "the same" if apart == 0 else f"up to {apart} of {JUDGED} starts apart",
        apart <= 0.02 * JUDGED,
        "chosen",
    )


# --- pictures -----------------------------------------------------------------------------------------


def bars() -> Any:
    """Draw the share of starts that each method wins, function by function."""
    rows = sorted((row for row in of("gd", "cgd-fd", SHOWN) if row.n < 10), key=lambda row: row.net)
    figure = plot.blank(8, 0.19 * len(rows) + 1.3)
    axes = figure.subplots()
    for y, row in enumerate(rows):
        style = {"alpha": 1.0 if row.verdict else 0.35, "height": 0.8}
        axes.barh(y, row.won / JUDGED, color=plot.COLOURS["cgd-fd"], **style)
        axes.barh(y, -row.lost / JUDGED, color=plot.COLOURS["gd"], **style)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(rows)), [functions[row.function].title for row in rows], fontsize="small")
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlim(-1, 1)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["100 %", "50 %", "0", "50 %", "100 %"])
    axes.set_xlabel("starts in which this method ends lower")
    ahead, behind, _ = counted(rows)
    for side, x, text, method in (
        ("left", 0.02, f"GD\nahead on {behind} of {len(rows)}", "gd"),
        ("right", 0.98, f"λ > 0\nahead on {ahead}", "cgd-fd"),
    ):
        style = {"color": plot.COLOURS[method], "fontsize": "large", "fontweight": "bold"}
        axes.text(x, 0.5, text, transform=axes.transAxes, ha=side, va="center", **style)
    axes.set_title(f"Both tuned, {SHOWN} gradients, {JUDGED} starts a function", fontsize="medium")
    plot.tidy(axes, grid=False)
    return figure


MAPS = ("schwefel", "levy", "goldstein-price")
"""Functions of which maps are drawn."""


def maps() -> Any:
    """Draw from which starts the two methods get how far."""
    figure = plot.blank(10, 6.2)
    grid, panels = figure.add_gridspec(2, len(MAPS)), list[Any]()
    image: Any = None
    for column, name in enumerate(MAPS):
        problem = Problem(functions[name].at(2))
        f, (low, high) = problem.function, problem.function.bounds.T
        places = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 70)] * 2), axis=-1).reshape(-1, 2)
        starts: Floats = low + places * (high - low)
        for row, method in enumerate(("gd", "cgd-fd")):
            ends = problem.ends(method, settings()[name, 2, SHOWN, method], starts, SHOWN)
            share = np.log10(left(ends.f, f(starts), f.fmin)).reshape(70, 70)
            axes = figure.add_subplot(grid[row, column])  # by columns, so that a phone has pairs
            panels.append(axes)
            image = axes.imshow(
                share, origin="lower", extent=f.bounds.ravel().tolist(), aspect="auto",
                cmap="cividis", vmin=np.log10(LEVEL), vmax=0, interpolation="nearest",
            )  # fmt: skip
            axes.plot(*f.minima.T, "*", color="white", mec="black", ms=9, lw=0)
            axes.set_title(f"{f.title}: {NAMES[method]}", fontsize="medium")
    bar = figure.colorbar(image, ax=panels, ticks=[-6, -4, -2, 0], shrink=0.7)
    bar.ax.set_yticklabels(["10⁻⁶", "10⁻⁴", "10⁻²", "1"])
    bar.set_label("share of f − f* that is left")
    return figure


def _draw_reasons() -> Any:
    figure = plot.blank(10, 4)
    bars, scatter = figure.subplots(1, 2)
    rows = of("gd", "cgd-fd", SHOWN)
    for side, (sign, method, label) in enumerate(((1, "cgd-fd", "λ > 0 wins"), (-1, "gd", "GD wins"))):
        counts = list(happened(rows, side).values())
        where = np.arange(len(counts)) - 0.2 * sign
        bars.barh(where, counts, 0.38, color=plot.COLOURS[method], label=label)
        for y, count in zip(where, counts, strict=True):
            bars.text(count, y, f" {count}", va="center", fontsize="small")
    words = (
        "ended above\nits start",
        "hardly moved",
        "heads for a\nhigher minimum",
        "is slower\nto one as low",
    )
    bars.set_yticks(range(len(words)), words, fontsize="small")
    bars.invert_yaxis()
    bars.margins(x=0.15)
    bars.set(xlabel="starts", title="what the other one did")
    bars.title.set_fontsize("medium")
    bars.legend(frameon=False, loc="upper right")
    for sure in (True, False):
        chosen = [row for row in rows if bool(row.verdict) == sure]
        points = [row.why.condition for row in chosen], [row.net for row in chosen]
        colours = [plot.COLOURS["cgd-fd" if row.net > 0 else "gd"] for row in chosen]
        scatter.scatter(*points, 36, "none" if not sure else colours, edgecolors=colours)
    scatter.axhline(0, color="0.6", lw=1, zorder=0)
    scatter.set(
        xscale="log", xlabel="condition number", ylabel="starts won − lost by λ > 0", ylim=(-1.05, 1.05)
    )
    for axes in (bars, scatter):
        plot.tidy(axes)
    return figure
