"""The tables and the picture of the tasks, from their runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.evidence.jobs import NETWORKS, Job, Records
from benchmarks.evidence.methods import LENGTHS, ROWS
from benchmarks.evidence.pages import cell, markdown, pair
from benchmarks.evidence.tasks import SPECS, trials

from steepen.train.results import Mean

RESNETS = {"cifar10-resnet": "cifar100-resnet", "cifar100-resnet": "cifar10-resnet"}  # one network


def finals(done: Records, task: str, method: str) -> dict[int, dict[str, Any]]:
    """Return the runs of a row by their seeds."""
    return {
        job.seed: record
        for job, record in done.items()
        if (job.task, job.method, job.stage) == (task, method, "final") and "error" not in record
    }


def gaps(
    row: dict[int, dict[str, Any]], base: dict[int, dict[str, Any]], key: str, scale: float
) -> list[float]:
    """Return the differences to the base, seed by seed."""
    return [scale * (row[seed][key] - base[seed][key]) for seed in row if seed in base]


def speed(done: Records, task: str, method: str, steps: float) -> str:
    """Return the seconds of a run over those of the base, by the steps timed alone on the device."""
    places = [task, RESNETS.get(task, task)]  # the old rule perturbed when it saw fit
    as_timed = "base" if ROWS[method].method.length != 1 else method
    for at in places:
        base, own = (done.get(Job(at, name, "timing", -1, 0)) for name in ("base", as_timed))
        if base is not None and own is not None:
            break
    else:
        return "–"
    whole = finals(done, task, "base")
    base_steps, base_seconds = own.get("base", (base["steps"], base["seconds"]))  # timed beside it, if it was
    ratio = own["seconds"] / own["steps"] * steps / (base_seconds / base_steps)
    return f"{ratio / next(iter(whole.values()))['steps']:.2f}" if whole else "–"


def stopped(record: dict[str, Any], since: float = 0.0) -> tuple[float, float] | None:
    """Return loss and accuracy where the validation loss was lowest; None if it was not read to the end.

    `since` is the part of the run from which on a row may be stopped.
    """
    read = record.get("held_out") or [None]
    if read[-1] is None:
        return None
    first = since * record["at"][-1]
    both = zip(record["at"], read, strict=True)
    at = min((loss, i) for i, (at, loss) in enumerate(both) if loss is not None and at >= first)[1]
    return record["losses"][at], record["accuracies"][at]


def by_seed(done: Records, task: str, method: str, *, early: bool = False) -> dict[int, tuple[float, float]]:
    """Return loss and accuracy of the runs of a row: at the end, or stopped early by validation data."""
    runs = {seed: run for seed, run in finals(done, task, method).items() if run["loss"] is not None}
    since = ROWS[method].method.since
    found = {
        seed: stopped(run, since) if early else (run["loss"], run["accuracy"]) for seed, run in runs.items()
    }
    return {seed: pair for seed, pair in found.items() if pair is not None}


def ends(done: Records, task: str, method: str, *, early: bool = False) -> list[tuple[float, float]]:
    return list(by_seed(done, task, method, early=early).values())


def best_length(done: Records, task: str) -> str:
    """Return the base's row, of those with fewer steps and itself, with the lowest mean test loss."""
    lengths = ["base", *(f"base-{part:g}" for part in LENGTHS)]
    means = {name: Mean.of([loss for loss, _ in ends(done, task, name)])[0] for name in lengths}
    return min((name for name in means if not math.isnan(means[name])), key=lambda name: means[name])


def rows(done: Records, task: str) -> list[list[str]]:
    spec, table = SPECS[task], list[list[str]]()
    base = finals(done, task, "base")
    for method in ROWS:
        row = {seed: r for seed, r in finals(done, task, method).items() if r["loss"] is not None}
        if not row:
            continue
        first = next(iter(row.values()))
        knob = f"{first['strength']:g}" if first["strength"] else "–"
        sharp = [r["sharpness"]["largest"] for r in row.values() if "largest" in r.get("sharpness", {})]
        early = ends(done, task, method, early=True)
        table.append([
            _name(method, spec),
            f"{first['lr']:g}, {first['decay']:g}, {knob}", str(len(row)),
            cell([100 * r["accuracy"] for r in row.values()], ".2f"),
            cell([r["loss"] for r in row.values()], ".3f"),
            "–" if method == "base" else cell(gaps(row, base, "accuracy", 100), "+.2f"),
            "–" if method == "base" else cell(gaps(row, base, "loss", 1), "+.3f"),
            pair(early), speed(done, task, method, first["steps"]),
            f"{Mean.of(sharp)[0]:.3g}" if sharp else "–",
            cell([min(r["losses"]) for r in row.values() if "losses" in r], ".3f"),
        ])  # fmt: skip
    return table


def _name(method: str, spec: Any) -> str:
    return ROWS[method].title.format(base={"sgd": "SGD", "adamw": "AdamW"}[spec.base])


HEAD = [
    "", "accuracy %", "test loss", "Δ accuracy", "Δ loss", "stopped early: loss / accuracy", "seconds",
    "lowest on the way",
]  # fmt: skip
TITLES = {
    "cifar100-resnet": "CIFAR-100, ResNet-18",
    "cifar10-resnet": "CIFAR-10, ResNet-18",
    "cifar100-vit": "CIFAR-100, a small ViT under AdamW",
    "characters": "Characters, a small transformer under AdamW",
    "mnist1d-mlp": "MNIST-1D, perceptron",
    "mnist1d-cnn": "MNIST-1D, convolutions",
    "fashion4k-mlp": "Fashion-MNIST, 4 000 examples, perceptron",
    "fashion4k-cnn": "Fashion-MNIST, 4 000 examples, convolutions",
    "fashion-mlp": "Fashion-MNIST, 60 000 examples, perceptron",
    "fashion-cnn": "Fashion-MNIST, 60 000 examples, convolutions",
    "cifar100-noise20": "CIFAR-100, 20 % of the labels changed, ResNet-18",
    "tabular-noise20": "A table, 20 % of the labels changed, perceptron",
    "tabular-noise40": "A table, 40 % of the labels changed, perceptron",
    "binary-noise20": "Two classes, 20 % of the labels changed, untuned perceptron",
    "binary-noise40": "Two classes, 40 % of the labels changed, untuned perceptron",
}
Ends = list[tuple[float, float]]
SHORT: dict[str, Callable[[Records, str], Ends]] = {
    "base": lambda done, task: ends(done, task, "base"),
    "base, best length": lambda done, task: ends(done, task, best_length(done, task)),
    "base, stopped early": lambda done, task: ends(done, task, "base-less", early=True),
    "EMA, stopped early": lambda done, task: ends(done, task, "ema-stopped", early=True),
    "GapSAM": lambda done, task: ends(done, task, "gate"),
    "GapSAM + EMA, stopped early": lambda done, task: ends(done, task, "gate-ema", early=True),
    "CGD-FD, last quarter": lambda done, task: ends(done, task, "cgd-late"),
    "SAM, last quarter": lambda done, task: ends(done, task, "sam-late"),
    "SAM, 1/16, last half": lambda done, task: ends(done, task, "share16-late"),
    "label smoothing": lambda done, task: ends(done, task, "smooth"),
}
"""The columns of the overview."""


def overview(done: Records) -> str:
    """Return test loss and accuracy of the rows that matter most, one line per task.

    Bold is what is ahead of all others in the line by more than two standard errors of the difference.
    """
    parts: list[str] = []
    for k, title, form, scale, better in ((0, "test loss", ".3f", 1, -1), (1, "accuracy, %", ".2f", 100, 1)):
        lines = [[title, *SHORT]]
        for task, name in TITLES.items():
            if not finals(done, task, "base"):
                continue
            found = [Mean.of([scale * end[k] for end in column(done, task)]) for column in SHORT.values()]
            cells = _emphasised(found, form, better)
            lines.append(
                [
                    name,
                    *("–" if math.isnan(one.error) else cell for one, cell in zip(found, cells, strict=True)),
                ]
            )
        parts.append(markdown(lines))
    return "\n\n".join(parts)


def _emphasised(found: Sequence[tuple[float, float]], form: str, better: int) -> list[str]:
    """Return the means as text, in bold where one is ahead of each other beyond two standard errors."""

    def ahead(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return better * (one[0] - other[0]) > 2 * math.hypot(one[1], other[1])

    texts: list[str] = []
    for i, one in enumerate(found):
        others = [other for k, other in enumerate(found) if k != i and not math.isnan(other[1])]
        best = all(ahead(one, other) for other in others)
        texts.append(f"**{one[0]:{form}}**" if best else f"{one[0]:{form}}")
    return texts


def tables(done: Records) -> str:
    parts: list[str] = []
    for task, title in TITLES.items():
        spec, table = SPECS[task], rows(done, task)
        if not table:
            continue
        each = f" with {spec.tuning_seeds} seeds" if spec.tuning_seeds > 1 else ""
        many = f"{len(trials(spec, 'sam'))} trials{each} of {spec.tuning:.3g} gradient-epochs"
        tuned = "every row" if len(spec.lr) > 1 else "strengths alone"
        head = f"`{task}`: {many} for {tuned}"
        table = [[f"{row[0]} ({row[2]}: {row[1]})", *row[3:9], row[10].partition(" ±")[0]] for row in table]
        columns = [column for column in zip(HEAD, *table, strict=True) if set(column[1:]) - {"–", ""}]
        lines = [list(line) for line in zip(*columns, strict=True)]
        parts.append(f"### {title}\n{head}, then runs of {spec.epochs:.3g}.\n\n{markdown(lines)}\n")
    return "\n".join(parts)


def picture(done: Records, task: str, path: Path) -> None:
    """Draw test loss and accuracy against gradients: the mean over seeds, bars of one standard error."""
    from matplotlib.figure import Figure

    from steepen import plot

    spec = SPECS[task]
    shown = {
        "base": ("SGD", plot.COLOURS["gd"], "-"),
        "sam": ("SAM throughout", "#56b4e9", "--"),
        "sam-late": ("SAM, last quarter", "#0072b2", "-"),
        "share16-late": ("SAM, 1/16 of the batch, last half", plot.COLOURS["cgd-fd"], "-"),
        "gate": ("GapSAM, SGD's settings", plot.COLOURS["cgd"], "-"),
    }
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    for ax, key, scale, label in zip(
        figure.subplots(1, 2),
        ("losses", "accuracies"),
        (1, 100),
        ("test loss", "test accuracy, %"),
        strict=True,
    ):
        ends: list[float] = []
        for method, (name, colour, dash) in shown.items():
            row = [r for r in finals(done, task, method).values() if r["loss"] is not None]
            if not row:
                continue
            at = [one * spec.batch / 50000 for one in row[0]["at"]]
            points = [
                Mean.of([scale * v for v in values]) for values in zip(*(r[key] for r in row), strict=True)
            ]
            mean, error = zip(*points, strict=True)
            bars = [0 if math.isnan(e) else e for e in error]
            ax.errorbar(at, mean, bars, label=name, color=colour, ls=dash, lw=1.6, capsize=2)
            ends += mean[-3:]
        span = max(ends) - min(ends) if ends else 1.0
        if ends and key == "losses":
            ax.set_ylim(min(ends) - 0.1 * span, max(ends) + 1.5 * span)
        elif ends:
            ax.set_ylim(min(ends) - 1.0 * span, max(ends) + 0.15 * span)
        ax.set_xlim(left=spec.epochs / 3)  # what comes before is out of the panel
        ax.set_xlabel("gradient-epochs, ascent steps counted")
        ax.set_ylabel(label)
        ax.grid(color="0.9", lw=0.6)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    plot.save(figure, path)


HERO = ("cifar100-resnet", "cifar10-resnet", "cifar100-vit", "characters")

CHOSEN_ON = ("cifar100-resnet", "characters", "mnist1d-mlp", "mnist1d-cnn", "fashion4k-mlp", "fashion-mlp")
"""Tasks on which constants of GapSAM were chosen; see "How it was measured" of docs/evidence.md."""


def summary(done: Records) -> str:
    """Return the table of the README: all tasks, those that nothing was chosen on first."""
    shown = ("base", "base, best length", "EMA, stopped early", "GapSAM", "CGD-FD, last quarter")
    lines = [["test loss / accuracy in %", *shown, "seeds"]]
    for task in sorted(TITLES, key=lambda task: task in CHOSEN_ON):
        if not finals(done, task, "base"):
            continue
        found = [ends if len(ends := SHORT[name](done, task)) > 1 else [] for name in shown]
        seeds = sorted({len(ends) for ends in found if ends})
        title = TITLES[task] + (" \\*" if task in CHOSEN_ON else "")
        many = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
        lines.append([title, *map(pair, found), many])
    return markdown(lines)


PARTS = {
    "overview": lambda: overview(NETWORKS.read()),
    "tables": lambda: tables(NETWORKS.read()),
    "summary": lambda: summary(NETWORKS.read()),
}
