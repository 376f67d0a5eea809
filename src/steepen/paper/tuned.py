"""Does λ > 0 help a gradient descent that is already tuned? The stored study, and a part of it run again."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from .. import plot
from ..functions import functions
from ._claims import Claim, Known, Outcome, Table, readable
from .equal_cost import best_step
from .experiments import EXPERIMENTS, T
from .tuned_study import (
    BOXED,
    BUDGETS,
    HAPPENED,
    JUDGED,
    LEVEL,
    PAIRS,
    STAGES,
    TUNING,
    Floats,
    Problem,
    Setting,
    compare,
    left,
    problems,
)

__all__ = [
    "NAME",
    "SECTION",
    "TITLE",
    "Result",
    "Why",
    "bars",
    "maps",
    "of",
    "rank_correlation",
    "reasons",
    "results",
    "run",
    "settings",
]

NAME = "tuned"
TITLE = "Does λ > 0 help a gradient descent that is tuned?"
SECTION = "The question behind Section 4"
SAYS = (
    "With an appropriate penalty CGD-FD gives great boosts within the first iterates. The experiments "
    "compare it with GD at one α that was not tuned for GD, from one start a function."
)
MATTERS = (
    "A longer step is free, and a penalty costs a gradient. So the question is what λ > 0 brings once α is "
    "tuned. Here all methods are tuned with the same trials, and judged on starts that no trial has seen."
)

FOLDER = Path(__file__).parent


class Result(NamedTuple):
    """A comparison of a plain method with a penalised one, on one function with one budget.

    `won` and `lost` count the judged starts in which the penalised one ends lower and higher; `low` and
    `high` are 95 % limits of won − lost as a share of the starts. The medians of f − f* come with such
    limits, and `happened` says why, first for the starts won and then for those lost.

    Examples
    --------
    >>> row = results()[0]
    >>> row.won + row.lost <= JUDGED
    True
    """

    function: str
    n: int
    gradients: int
    plain: str
    penalised: str
    won: int
    lost: int
    low: float
    high: float
    plain_median: tuple[float, float, float]
    penalised_median: tuple[float, float, float]
    happened: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def net(self) -> float:
        """The share of the starts won, less that of the starts lost."""
        return (self.won - self.lost) / JUDGED

    @property
    def verdict(self) -> int:
        """1 where the penalised method is ahead, by `CLEAR` and beyond chance, −1 where it is behind."""
        if abs(self.net) < CLEAR or self.low <= 0 <= self.high:
            return 0
        return 1 if self.net > 0 else -1


CLEAR = 0.1
"""A method is ahead if it wins this share of the starts more than it loses, and zero is not in the limits."""


def _rows(name: str) -> list[list[str]]:
    with (FOLDER / f"tuned_{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


@cache
def results() -> list[Result]:
    """Return the stored comparisons.

    Examples
    --------
    >>> {row.gradients for row in results()} == set(BUDGETS)
    True
    """
    made: list[Result] = []
    for name, n, grads, plain, penalised, won, lost, *rest in _rows("results"):
        f = [float(v) for v in rest[:8]]
        counts = [int(v) for v in rest[8:]]
        happened = tuple(counts[: len(HAPPENED)]), tuple(counts[len(HAPPENED) :])
        made.append(
            Result(name, int(n), int(grads), plain, penalised, int(won), int(lost), f[0], f[1],
                   (f[2], f[3], f[4]), (f[5], f[6], f[7]), happened)
        )  # fmt: skip
    return made


@cache
def settings() -> dict[tuple[str, int, int, str], Setting]:
    """Return the tuned settings by function, dimension, gradients and method.

    Examples
    --------
    >>> settings()["branin", 2, 40, "gd"].step > 0.01
    True
    """
    return {
        (row[0], int(row[1]), int(row[2]), row[3]): Setting(*map(float, row[4:])) for row in _rows("settings")
    }


class Why(NamedTuple):
    """What a landscape is like; `steepen.paper.tuned_study.why` says what the columns are.

    Examples
    --------
    >>> reasons()["sphere", 2].condition
    1.0
    """

    condition: float
    down: float
    spread: float
    best_negative: float
    points: float


@cache
def reasons() -> dict[tuple[str, int], Why]:
    """Return the stored reasons by function and dimension.

    Examples
    --------
    >>> reasons()["booth", 2].down
    0.0
    """
    return {(row[0], int(row[1])): Why(*map(float, row[2:])) for row in _rows("why")}


def run() -> Outcome:
    """Show the stored study, run a part of it again, and draw the maps of three functions.

    Examples
    --------
    >>> rows = of("gd", "cgd-fd", 40)
    >>> sum(row.verdict < 0 for row in rows) > sum(row.verdict > 0 for row in rows)
    True
    """
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
            NAME: _summary_table(),
            f"{NAME}-functions": _functions_table(),
            f"{NAME}-happened": _happened_table(),
            f"{NAME}-why": _why_table(),
        },
        figures={NAME: bars(), f"{NAME}-maps": maps(), f"{NAME}-why": _reasons()},
        captions={
            NAME: _bars_caption(),
            f"{NAME}-maps": _maps_caption(),
            f"{NAME}-why": f"At {SHOWN} gradients, over all functions. First panel: the starts that λ > 0 "
            "wins and loses, by what happened to the one that ends higher. Second: each dot is a function; "
            "the share of its starts that λ > 0 wins, less the share that it loses, against the condition "
            "number at the minimum. Rings: neither is ahead.",
        },
        found=_found(),
        notes=_notes(),
        settings={
            "trials": STAGES,
            "starts to tune on": TUNING,
            "starts to judge on": JUDGED,
            "kept in their box": BOXED,
        },
    )


def _notes() -> list[str]:
    return [
        f"Each method is tuned for each budget with {sum(STAGES)} trials on {TUNING} starts, {TUNING // 2} "
        f"in ten variables or more, and judged on {JUDGED} others. {STAGES[0]} trials go over seven powers "
        f"of ten of α and five of |λ|, {STAGES[1]} around the best of these, with other r and b too, and "
        f"{STAGES[2]} around the best of those. A trial is as good as the digits of f − f* that it gains, "
        f"on average over the starts and no more than {-np.log10(LEVEL):.0f} of them. What counts is the "
        "last point, as in the listings.",
        "BFGS and CGD-BFGS have a constant α too. cgd-auto has a line search and nothing to tune.",
        f"On {', '.join(functions[name].title for name in BOXED)} runs are kept inside the box, since these "
        "functions are lower outside of it than their minimum inside. Powell's function has 4 and 12 "
        "variables.",
        "python benchmarks/tuned.py runs all of it again, in some 40 minutes of one core, and writes the "
        "tables that are read here, tuned_settings.csv and tuned_results.csv. The maps, and the comparison "
        "of a few functions, are run with this page.",
    ]


SHOWN = 100
"""The budget of the pictures."""

NAMES = {
    "gd": "GD",
    "gd-two": "GD with two step sizes",
    "cgd-fd": "CGD-FD, λ > 0",
    "cgd-fd-negative": "CGD-FD, λ < 0",
    "bfgs": "BFGS",
    "cgd-bfgs": "CGD-BFGS",
    "cgd-auto": "cgd-auto",
}


def of(plain: str, penalised: str, grads: int) -> list[Result]:
    """Return the comparisons of two methods with one budget.

    Examples
    --------
    >>> {row.plain for row in of("gd", "cgd-fd", 40)}
    {'gd'}
    """
    return [
        row for row in results() if (row.plain, row.penalised, row.gradients) == (plain, penalised, grads)
    ]


def _counts(rows: Iterable[Result]) -> tuple[int, int, int]:
    verdicts = [row.verdict for row in rows]
    return verdicts.count(1), verdicts.count(-1), verdicts.count(0)


def _summary_table() -> Table:
    ends = [[best_step(row, method).gap for method in ("gd", "cgd-fd")] for row in EXPERIMENTS.values()]
    won = sum(cgd < gd for gd, cgd in ends)
    panels = "CGD-FD against GD: the six panels of Fig. 3"
    rows: list[tuple[Any, ...]] = [(panels, "2 to 10", T, len(ends), won, len(ends) - won, 0, "–", "–")]
    for plain, penalised in PAIRS:
        for words, few in (("1 to 6", True), ("10 or 12", False)):
            for grads in BUDGETS:
                chosen = [row for row in of(plain, penalised, grads) if (row.n < 10) == few]
                if chosen:
                    shares = [_share(chosen, side) for side in ("won", "lost")]
                    text = f"{NAMES[penalised]} against {NAMES[plain]}"
                    rows.append((text, words, grads, len(chosen), *_counts(chosen), *shares))
    return Table(
        ("compared", "variables", "gradients", "problems", "first ahead", "second ahead", "neither",
         "starts won by the first", "by the second"),
        rows,
        f"A method is ahead on a function if it wins a tenth of the {JUDGED} starts more than it loses, and "
        "beyond chance (95 % limits); a start is won by more than a millionth of the fall. The first row "
        "is the paper's own: one start each, with the α that is best for that start.",
    )  # fmt: skip


def _share(rows: Sequence[Result], side: str) -> str:
    return f"{sum(getattr(row, side) for row in rows) / (JUDGED * len(rows)):.0%}"


def _functions_table() -> Table:
    sides = [f"{who}: {what}" for who in ("first", "second") for what in ("median f − f*", "from", "to")]
    rows = [
        (functions[row.function].title, row.n, row.gradients, NAMES[row.penalised], NAMES[row.plain], row.won,
         row.lost, row.low, row.high, *row.penalised_median, *row.plain_median)
        for row in results()
        if row.plain == "gd" and row.penalised.startswith("cgd-fd")
    ]  # fmt: skip
    return Table(
        ("function", "n", "gradients", "first", "second", "won by first", "by second", "net from", "to",
         *sides),
        rows,
        f"CGD-FD against GD, with either sign of λ, over {JUDGED} starts: how many the first method wins and "
        "how many the second, 95 % limits of the difference as a share of the starts, and the medians of "
        "f − f* with such limits.",
    )  # fmt: skip


_WORDS = {
    "diverged": "ended above its start",
    "plateau": "hardly moved",
    "basin": "heads for a higher minimum",
    "faster": "is behind on the way to one as low",
}


def _happened(rows: Iterable[Result], side: int) -> list[int]:
    """Add up what happened in the starts won (0) or lost (1) by the penalised method."""
    return [
        sum(counts)
        for counts in zip((0,) * len(HAPPENED), *(row.happened[side] for row in rows), strict=True)
    ]


def _happened_table() -> Table:
    rows: list[tuple[Any, ...]] = []
    for plain, penalised in PAIRS:
        for grads in BUDGETS:
            chosen = of(plain, penalised, grads)
            for side, (winner, loser) in enumerate(((penalised, plain), (plain, penalised))):
                counts = _happened(chosen, side)
                rows.append((grads, NAMES[winner], NAMES[loser], sum(counts), *counts))
    return Table(
        ("gradients", "lower", "higher", "starts", *(f"the higher one {_WORDS[word]}" for word in HAPPENED)),
        rows,
        "What happened where one of two methods ends lower, over all functions. Where a run is heading is "
        "found by a descent with a line search from its last point.",
    )


def _why_table() -> Table:
    net = {(row.function, row.n): row.net for row in of("gd", "cgd-fd", SHOWN)}
    rows = [
        (functions[name].title, n, _finite(why.condition), why.down, why.spread, _finite(why.best_negative),
         net[name, n], *_chosen(name, n))
        for (name, n), why in reasons().items()
    ]  # fmt: skip
    return Table(
        ("function", "n", "condition number", "bends down", "spread of curvature", "best λ negative", "net",
         "tuned α, GD", "tuned α, CGD-FD", "tuned λ"),
        rows,
        "The landscapes: the condition number at the minimum; of the points of tuned GD's paths, the share "
        "where f bends down along ∇f, the curvature along ∇f at nine tenths of them over that at one "
        "tenth, and the share where the best λ of the quadratic model on ∇f and H·∇f is negative; the "
        f"starts that CGD-FD wins less those that it loses at {SHOWN} gradients, as a share; and the "
        "settings chosen.",
    )  # fmt: skip


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _chosen(name: str, n: int) -> tuple[float, float, float]:
    gd, cgd = (settings()[name, n, SHOWN, method] for method in ("gd", "cgd-fd"))
    return gd.step, cgd.step, cgd.lam


# --- words --------------------------------------------------------------------------------------------


def _names(rows: Iterable[Result], verdict: int) -> str:
    """Name the functions with a verdict, the clearest first, with the dimension where it is not small."""
    chosen = sorted((row for row in rows if row.verdict == verdict), key=lambda row: -abs(row.net))
    titles = [functions[row.function].title + (f" ({row.n})" if row.n >= 10 else "") for row in chosen]
    return ", ".join(titles) or "none"


def _listed(values: Iterable[Any]) -> str:
    *most, last = map(str, values)
    return f"{', '.join(most)} and {last}"


def _ahead(plain: str, penalised: str) -> tuple[str, str]:
    """Write on how many functions the penalised method is ahead, and behind, budget by budget."""
    counts = [_counts(of(plain, penalised, grads)) for grads in BUDGETS]
    return _listed(count[0] for count in counts), _listed(count[1] for count in counts)


def _found() -> list[str]:
    helped, negative = of("gd", "cgd-fd", SHOWN), of("gd", "cgd-fd-negative", SHOWN)
    (ahead, behind), total = _ahead("gd", "cgd-fd"), len(helped)
    few, again = sum(row.n < 10 for row in helped), sum(row.n >= 10 for row in helped)
    (control, not_control), controls = _ahead("gd-two", "cgd-fd"), len(of("gd-two", "cgd-fd", SHOWN))
    (newton, not_newton), (free, not_free) = _ahead("bfgs", "cgd-bfgs"), _ahead("gd", "cgd-bfgs")
    auto, not_auto = _ahead("gd", "cgd-auto")
    either = {(row.function, row.n) for row in (*helped, *negative) if row.verdict > 0}
    won, lost = (dict(zip(HAPPENED, _happened(helped, side), strict=True)) for side in (0, 1))
    best = [why.best_negative for why in reasons().values() if np.isfinite(why.best_negative)]
    small = sum(settings()[row.function, row.n, SHOWN, "cgd-fd"].small for row in helped)
    return [
        f"Tuned alike and judged on other starts, CGD-FD with λ > 0 is ahead of GD on {ahead} of {total} "
        f"problems at {_listed(BUDGETS)} gradients, and behind on {behind}; on the others neither is ahead. "
        f"The problems are {few} functions of one to six variables, and {again} of them again with 10 or 12.",
        f"Where λ > 0 wins at {SHOWN} gradients: {_names(helped, 1)}. Where λ < 0 does: "
        f"{_names(negative, 1)}. On the other {total - len(either)} of {total} problems no sign of λ beats "
        "a tuned α.",
        "What λ > 0 brings, a longer first step brings too, and for one gradient: GD with another α for "
        f"its first b steps, tuned alike, is ahead of CGD-FD on {not_control} of {controls} problems, and "
        f"behind on {control}.",
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
        f"CGD-BFGS, whose penalty costs no second gradient, is ahead of BFGS on {newton} of {total} "
        f"problems, and behind on {not_newton}. But both have one constant α, which suits BFGS badly: its "
        "first steps want a short one, its last α = 1. Of GD, which is as cheap, CGD-BFGS is ahead on "
        f"{free}, and behind on {not_free}: the second gradient is not all that λ > 0 costs.",
        f"cgd-auto, with a line search and nothing tuned, is ahead of tuned GD on {auto} of {total}, and "
        f"behind on {not_auto}.",
    ]


# --- claims -----------------------------------------------------------------------------------------


def _claim_ahead(text: str, plain: str, penalised: str, known: Known | None) -> Claim:
    counts = {grads: _counts(of(plain, penalised, grads)) for grads in BUDGETS}
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


def rank_correlation(a: Floats, b: Floats) -> float:
    """Return Spearman's coefficient: how well a rising function would turn a into b, from −1 to 1.

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([0.0, 1.0, 2.0]))
    1.0
    """
    ranks: Any = np.corrcoef([_ranks(a), _ranks(b)])
    return float(ranks[0, 1])


def _ranks(values: Floats) -> Floats:
    """Return the places of values in their order; equal ones share the mean of theirs."""
    below, upto = ((values[:, None] > values).sum(axis=1), (values[:, None] >= values).sum(axis=1))
    return (below + upto + 1) / 2


def _against(column: str, grads: int) -> tuple[float, float, float, int]:
    """Return the correlation of a reason with the net share, its 95 % limits, and of how many."""
    pairs = [
        (getattr(reasons()[row.function, row.n], column), row.net)
        for row in of("gd", "cgd-fd", grads)
        if np.isfinite(getattr(reasons()[row.function, row.n], column))
    ]
    a, b = np.array(pairs).T
    rng = np.random.default_rng(0)
    again = rng.integers(0, len(a), (1000, len(a)))
    low, high = np.quantile([rank_correlation(a[rows], b[rows]) for rows in again], (0.025, 0.975))
    return rank_correlation(a, b), float(low), float(high), len(a)


def _claim_condition() -> Claim:
    found = {grads: _against("condition", grads) for grads in BUDGETS}
    text = ", ".join(
        f"{readable(at, '.2f')} ({readable(low, '.2f')} to {readable(high, '.2f')}) at {grads}"
        for grads, (at, low, high, _) in found.items()
    )
    return Claim(
        f"with T = {T} CGD does the worse against GD the higher the condition number",
        "would perform poorly",
        f"rank correlation {text} gradients, over {found[T][3]} problems",
        found[T][2] < 0,
        "chosen",
    )


AGAIN = ("booth", "branin", "beale", "rosenbrock", "zakharov")
"""Functions of which the comparison at 40 gradients is run again whenever the page is made."""


def _claim_again() -> Claim:
    """Run a part of the study again with the stored settings."""
    apart = 0
    stored = {(row.function, row.n): row for row in of("gd", "cgd-fd", BUDGETS[0])}
    for problem in problems(AGAIN):
        if problem.function.n == 2:
            ends = [
                problem.ends(
                    method,
                    settings()[problem.function.name, 2, BUDGETS[0], method],
                    problem.judged,
                    BUDGETS[0],
                )
                for method in ("gd", "cgd-fd")
            ]
            won, lost, *_ = compare(problem, *ends)
            row = stored[problem.function.name, 2]
            apart = max(apart, abs(won - row.won), abs(lost - row.lost))
    return Claim(
        f"the stored study comes out again: {len(AGAIN)} functions, {BUDGETS[0]} gradients",
        "the same counts",
        "the same" if apart == 0 else f"up to {apart} of {JUDGED} starts apart",
        apart <= 0.02 * JUDGED,
        "chosen",
    )


# --- pictures -----------------------------------------------------------------------------------------


def bars() -> Any:
    """Draw the share of starts that each method wins, function by function.

    Examples
    --------
    >>> bars().axes[0].get_xlabel()
    'starts in which this method ends lower'
    """
    rows = sorted((row for row in of("gd", "cgd-fd", SHOWN) if row.n < 10), key=lambda row: row.net)
    figure = plot.blank(8, 0.19 * len(rows) + 1.3)
    axes = figure.subplots()
    for y, row in enumerate(rows):
        strength = 1.0 if row.verdict else 0.35
        axes.barh(y, row.won / JUDGED, color=plot.COLOURS["cgd-fd"], alpha=strength, height=0.8)
        axes.barh(y, -row.lost / JUDGED, color=plot.COLOURS["gd"], alpha=strength, height=0.8)
    axes.axvline(0, color="black", lw=0.8)
    axes.set_yticks(range(len(rows)), [functions[row.function].title for row in rows], fontsize="small")
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlim(-1, 1)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["100 %", "50 %", "0", "50 %", "100 %"])
    axes.set_xlabel("starts in which this method ends lower")
    ahead, behind, _ = _counts(rows)
    sides = (
        ("left", 0.02, f"GD\nahead on {behind} of {len(rows)}", "gd"),
        ("right", 0.98, f"λ > 0\nahead on {ahead}", "cgd-fd"),
    )
    for side, x, text, method in sides:
        axes.text(
            x, 0.5, text, transform=axes.transAxes, ha=side, va="center", color=plot.COLOURS[method],
            fontsize="large", fontweight="bold",
        )  # fmt: skip
    axes.set_title(f"Both tuned, {SHOWN} gradients, {JUDGED} starts a function", fontsize="medium")
    plot.tidy(axes, grid=False)
    return figure


def _bars_caption() -> str:
    few = [row for row in of("gd", "cgd-fd", SHOWN) if row.n < 10]
    return (
        f"Each row is a function of one to six variables. To the left, the share of {JUDGED} starts in "
        f"which tuned GD ends lower after {SHOWN} gradients; to the right, that in which tuned CGD-FD with "
        f"λ > 0 does; in the rest they are level. Pale: neither is ahead, {_counts(few)[2]} of {len(few)}."
    )


MAPS = ("schwefel", "levy", "goldstein-price")
"""Functions of which maps are drawn."""


def maps() -> Any:
    """Draw from which starts the two methods get how far.

    Examples
    --------
    >>> len(maps().axes)
    7
    """
    figure = plot.blank(10, 6.2)
    grid, panels = figure.add_gridspec(2, len(MAPS)), list[Any]()
    image: Any = None
    for column, name in enumerate(MAPS):
        problem = Problem(functions[name].at(2))
        low, high = problem.function.bounds.T
        share = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, 70)] * 2), axis=-1).reshape(-1, 2)
        starts = cast(Floats, low + share * (high - low))
        first = problem.fun(starts)
        for row, method in enumerate(("gd", "cgd-fd")):
            ends = problem.ends(method, settings()[name, 2, SHOWN, method], starts, SHOWN)
            share = np.log10(left(ends.f, first, problem.function.fmin)).reshape(70, 70)
            axes = figure.add_subplot(grid[row, column])  # by columns, so that a phone has pairs
            panels.append(axes)
            image = axes.imshow(
                share, origin="lower", extent=problem.function.bounds.ravel().tolist(), aspect="auto",
                cmap="cividis", vmin=np.log10(LEVEL), vmax=0, interpolation="nearest",
            )  # fmt: skip
            axes.plot(*problem.function.minima.T, "*", color="white", mec="black", ms=9, lw=0)
            axes.set_title(f"{problem.function.title}: {NAMES[method]}", fontsize="medium")
    bar = figure.colorbar(image, ax=panels, ticks=[-6, -4, -2, 0], shrink=0.7)
    bar.ax.set_yticklabels(["10⁻⁶", "10⁻⁴", "10⁻²", "1"])
    bar.set_label("share of f − f* that is left")
    return figure


def _maps_caption() -> str:
    titles = [functions[name].title for name in MAPS]
    return (
        f"Maps of starts on {_listed(titles)}: the colour says what share of the start's f − f* is left "
        f"after {SHOWN} gradients of GD and of CGD-FD with λ > 0, both tuned. Dark areas "
        "are those from which the lowest minimum, a star, is reached."
    )


def _reasons() -> Any:
    figure = plot.blank(10, 4)
    happened, scatter = figure.subplots(1, 2)
    rows = of("gd", "cgd-fd", SHOWN)
    for side, (sign, method, label) in enumerate(((1, "cgd-fd", "λ > 0 wins"), (-1, "gd", "GD wins"))):
        counts = _happened(rows, side)
        where = np.arange(len(counts)) - 0.2 * sign
        happened.barh(where, counts, 0.38, color=plot.COLOURS[method], label=label)
        for y, count in zip(where, counts, strict=True):
            happened.text(count, y, f" {count}", va="center", fontsize="small")
    words = (
        "ended above\nits start",
        "hardly moved",
        "heads for a\nhigher minimum",
        "is slower\nto one as low",
    )
    happened.set_yticks(range(len(words)), words, fontsize="small")
    happened.invert_yaxis()
    happened.margins(x=0.15)
    happened.set(xlabel="starts", title="what the other one did")
    happened.title.set_fontsize("medium")
    happened.legend(frameon=False, loc="upper right")
    for sure in (True, False):
        chosen = [row for row in rows if bool(row.verdict) == sure]
        x = [reasons()[row.function, row.n].condition for row in chosen]
        colours = [plot.COLOURS["cgd-fd" if row.net > 0 else "gd"] for row in chosen]
        scatter.scatter(
            x, [row.net for row in chosen], 36, "none" if not sure else colours, edgecolors=colours
        )
    scatter.axhline(0, color="0.6", lw=1, zorder=0)
    scatter.set(
        xscale="log", xlabel="condition number", ylabel="starts won − lost by λ > 0", ylim=(-1.05, 1.05)
    )
    for axes in (happened, scatter):
        plot.tidy(axes)
    return figure
