"""Item of `reproduce`: does λ > 0 help a tuned descent? Reads the stored study, runs a part of it again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import plot
from ..functions import functions
from . import study
from ._items import Claim, Outcome, claim, outcome, readable
from ._runs import Floats
from .experiments import EXPERIMENTS, T
from .extensions import best_step
from .study import BUDGETS, JUDGED, NAMES, PAIRS, SHOWN, Result, counted, happened, of, settings


def run() -> Outcome:
    """Show the stored study, run a part of it again, and draw the maps of three functions."""
    return outcome(
        "tuned",
        claims=[
            _claim_ahead("gd", "cgd-fd"),
            _claim_ahead("bfgs", "cgd-bfgs"),
            _claim_condition(),
            _claim_again(),
        ],
        tables={
            "tuned": _summary(),
            "tuned-functions": [
                (row.why.title, row.n, row.gradients, NAMES[row.penalised], NAMES[row.plain],
                 row.won, row.lost, row.low, row.high, *row.penalised_median, *row.plain_median)
                for row in study.results()
                if row.plain == "gd" and row.penalised.startswith("cgd-fd")
            ],
            "tuned-happened": _happened(),
            "tuned-why": _reasons(),
        },
        pictures={"tuned": bars(), "tuned-maps": maps(), "tuned-why": _draw_reasons()},
        settings={
            "trials": study.STAGES, "starts to tune on": study.TUNING, "starts to judge on": JUDGED,
            "kept in their box": study.BOXED,
        },
        **_values(),
    )  # fmt: skip


def _summary() -> list[tuple[Any, ...]]:
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
    return rows


def _happened() -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for plain, penalised in PAIRS:
        for grads in BUDGETS:
            for side, (winner, loser) in enumerate(((penalised, plain), (plain, penalised))):
                counts = happened(of(plain, penalised, grads), side).values()
                rows.append((grads, NAMES[winner], NAMES[loser], sum(counts), *counts))
    return rows


def _reasons() -> list[tuple[Any, ...]]:
    net = {(row.function, row.n): row.net for row in of("gd", "cgd-fd", SHOWN)}

    def finite(value: float) -> float | None:
        return value if np.isfinite(value) else None

    def chosen(name: str, n: int) -> tuple[float, float, float]:
        gd, cgd = (settings()[name, n, SHOWN, method] for method in ("gd", "cgd-fd"))
        return gd.step, cgd.step, cgd.lam

    return [
        (why.title, n, finite(why.condition), why.down, why.spread, finite(why.best_negative),
         net[name, n], *chosen(name, n))
        for (name, n), why in study.reasons().items()
    ]  # fmt: skip


def _listed(values: Iterable[Any]) -> str:
    *most, last = map(str, values)
    return f"{', '.join(most)} and {last}"


def _values() -> dict[str, Any]:
    """Return the values for the text in page.toml."""
    helped, negative = of("gd", "cgd-fd", SHOWN), of("gd", "cgd-fd-negative", SHOWN)
    few = [row for row in helped if row.n < 10]
    pairs = {"gd": PAIRS[0], **dict(zip(("two", "newton", "free", "auto"), PAIRS[2:], strict=True))}
    ahead, behind = (
        {name: _listed(counted(of(*pair, grads))[side] for grads in BUDGETS) for name, pair in pairs.items()}
        for side in (0, 1)
    )
    tuned = [settings()[row.function, row.n, SHOWN, "cgd-fd"] for row in helped]
    either = {(row.function, row.n) for row in (*helped, *negative) if row.verdict > 0}
    titles = {name: why.title for (name, _), why in study.reasons().items()}
    best = [why.best_negative for why in study.reasons().values() if np.isfinite(why.best_negative)]

    def winning(rows: Iterable[Result]) -> str:
        """Name the functions won, the clearest first, with the dimension if it is 10 or more."""
        chosen = sorted((row for row in rows if row.verdict == 1), key=lambda row: -abs(row.net))
        named = [row.why.title + (f" ({row.n})" if row.n >= 10 else "") for row in chosen]
        return ", ".join(named) or "none"

    return {
        "shown": SHOWN, "budgets": _listed(BUDGETS), "trials": sum(study.STAGES), "stages": study.STAGES,
        "tuning": study.TUNING, "half": study.TUNING // 2, "judged": JUDGED, "digits": -np.log10(study.LEVEL),
        "boxed": ", ".join(titles[name] for name in study.BOXED),
        "maps": _listed(titles[name] for name in MAPS),
        "total": len(helped), "few": len(few), "many": len(helped) - len(few), "pale": counted(few)[2],
        "ahead": ahead, "behind": behind, "two": len(of(*pairs["two"], SHOWN)),
        "wins": winning(helped), "negative_wins": winning(negative), "neither": len(helped) - len(either),
        "won": happened(helped, 0), "lost": happened(helped, 1),
        "often_negative": sum(share > 0.9 for share in best), "known": len(best),
        # next to no penalty: a small |λ|, or at most three penalised steps
        "small": sum(abs(s.lam) < 0.1 * s.step or s.b < 3 for s in tuned),
    }  # fmt: skip


# --- claims -----------------------------------------------------------------------------------------


def _claim_ahead(plain: str, penalised: str) -> Claim:
    counts = {grads: counted(of(plain, penalised, grads)) for grads in BUDGETS}
    ours = (f"at {grads} gradients ahead on {ahead} of {ahead + behind + level}, behind on {behind}"
            for grads, (ahead, behind, level) in counts.items())  # fmt: skip
    agrees = all(count[0] - count[1] >= study.CLEAR * sum(count) for count in counts.values())
    return claim("tuned", penalised, agrees, ahead="; ".join(ours))


def _claim_condition() -> Claim:
    found: dict[int, tuple[float, ...]] = {}  # the correlation of κ with the net share, and 95 % limits
    a = b = np.empty(0)
    for grads in BUDGETS:
        rows = [row for row in of("gd", "cgd-fd", grads) if np.isfinite(row.why.condition)]
        a, b = np.array([(row.why.condition, row.net) for row in rows]).T
        again = np.random.default_rng(0).integers(0, len(a), (1000, len(a)))
        limits = np.quantile([study.rank_correlation(a[rows], b[rows]) for rows in again], (0.025, 0.975))
        found[grads] = (study.rank_correlation(a, b), *limits.tolist())
    parts = [[readable(value, ".2f") for value in values] for values in found.values()]
    texts = [f"{at} ({low} to {high}) at {g}" for g, (at, low, high) in zip(found, parts, strict=True)]
    return claim("tuned", "condition", found[T][2] < 0, T=T, correlations=", ".join(texts), problems=len(a))


AGAIN = ("booth", "branin", "beale", "rosenbrock", "zakharov")
"""Functions whose comparison at 40 gradients is run again whenever the page is written."""


def _claim_again() -> Claim:
    """Run a part of the study again with the stored settings."""
    apart, grads = 0, BUDGETS[0]
    stored = {(row.function, row.n): row for row in of("gd", "cgd-fd", grads)}
    for name in AGAIN:
        f = functions[name].at(2)
        judged = study.starts(f)[1]
        ends = [study.ends(study.run(f, method, settings()[name, 2, grads, method], judged, grads))
                for method in ("gd", "cgd-fd")]  # fmt: skip
        won, lost = (int(where.sum()) for where in study.won(f(judged), *ends))
        apart = max(apart, abs(won - stored[name, 2].won), abs(lost - stored[name, 2].lost))
    difference = "the same" if apart == 0 else f"up to {apart} of {JUDGED} starts apart"
    return claim("tuned", "again", apart <= 0.02 * JUDGED, functions=len(AGAIN), gradients=grads,
                 difference=difference)  # fmt: skip


# --- pictures -----------------------------------------------------------------------------------------


def bars() -> Any:
    """Draw the share of starts that each method wins, function by function."""
    rows = sorted((row for row in of("gd", "cgd-fd", SHOWN) if row.n < 10), key=lambda row: row.net)
    axes = plot.blank(8, 0.19 * len(rows) + 1.3).subplots()
    for y, row in enumerate(rows):
        style = {"alpha": 1.0 if row.verdict else 0.35, "height": 0.8}
        axes.barh(y, row.won / JUDGED, color=plot.COLOURS["cgd-fd"], **style)
        axes.barh(y, -row.lost / JUDGED, color=plot.COLOURS["gd"], **style)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(rows)), [row.why.title for row in rows], fontsize="small")
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlim(-1, 1)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["100 %", "50 %", "0", "50 %", "100 %"])
    axes.set_xlabel("starts in which this method ends lower")
    ahead, behind, _ = counted(rows)
    for side, x, text, method in (
        ("left", 0.02, f"GD ahead\non {behind} of {len(rows)}", "gd"),
        ("right", 0.98, f"λ > 0 ahead\non {ahead}", "cgd-fd"),
    ):
        style = {"color": plot.COLOURS[method], "fontsize": "large", "fontweight": "bold"}
        axes.text(x, 0.6, text, transform=axes.transAxes, ha=side, va="center", **style)
    plot.tidy(axes, grid=False)
    return axes.figure


MAPS = ("schwefel", "levy", "goldstein-price")  # the functions of the maps


def maps() -> Any:
    """Draw maps of starts, coloured by how far the two methods get."""
    figure = plot.blank(10, 6.2)
    grid, panels = figure.add_gridspec(2, len(MAPS)), list[Any]()
    image: Any = None
    for column, name in enumerate(MAPS):
        f = functions[name].at(2)
        low, high = f.bounds.T
        places = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 70)] * 2), axis=-1).reshape(-1, 2)
        starts: Floats = low + places * (high - low)
        for row, method in enumerate(("gd", "cgd-fd")):
            ends = study.ends(study.run(f, method, settings()[name, 2, SHOWN, method], starts, SHOWN))
            share = np.log10(study.left(ends.f, f(starts), f.fmin)).reshape(70, 70)
            axes = figure.add_subplot(grid[row, column])  # column by column, so that a phone shows pairs
            panels.append(axes)
            image = axes.imshow(
                share, origin="lower", extent=f.bounds.ravel().tolist(), aspect="auto",
                cmap="cividis", vmin=np.log10(study.LEVEL), vmax=0, interpolation="nearest",
            )  # fmt: skip
            axes.plot(*f.minima.T, "*", color="white", mec="black", ms=9, lw=0)
            axes.set_title(f"{f.title}\n{NAMES[method]}", fontsize="medium")
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
    words = [
        "ended above\nits start",
        "hardly moved",
        "heads for a\nhigher minimum",
        "is slower\nto one as low",
    ]
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
