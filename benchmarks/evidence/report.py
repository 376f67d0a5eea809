"""Turn the runs into tables and the picture of the README.

python report.py [runs.jsonl]                  # the tables, as Markdown
python report.py --pages ../..                 # into README.md, docs/when.md and docs/evidence.md
python report.py --picture ../../docs/cifar100.svg
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tasks import HISTORY, KINDS, LIKE, LONGER, SPECS
from work import Job, choice, read

from steepen.train.results import Mean

NAMES = {
    "base": "{base}",
    "base-less": "{base}, without what GapSAM watches",
    "base-long": "{base}, a tenth more gradients",
    "base-longer": "{base}, a quarter more gradients",
    "ema": "{base} + EMA",
    "smooth": "{base} + label smoothing",
    "sam": "SAM throughout",
    "sam-late": "SAM, last quarter",
    "cgd-early": "CGD-FD, first quarter (the paper)",
    "share4": "SAM, 1/4 of the batch, throughout",
    "share4-late": "SAM, 1/4 of the batch, last half",
    "share16": "SAM, 1/16 of the batch, throughout",
    "share16-late": "SAM, 1/16 of the batch, last half",
    "msam": "MSAM",
    "gate": "GapSAM, settings of the base",
    "gate-half": "the same, watching until the half",
    "gap": "GapSAM before its gate, settings of the base",
    "auto": "automatic",
    "auto-base": "automatic, settings of the base",
    "auto-second": "the same, every second step",
    "auto-third": "automatic, a third of the gap",
}
RESNETS = {"cifar10-resnet": "cifar100-resnet", "cifar100-resnet": "cifar10-resnet"}  # one network
Records = dict[Job, dict[str, Any]]


def finals(done: Records, task: str, method: str) -> dict[int, dict[str, Any]]:
    """Return the runs of a row by their seeds."""
    return {
        job.seed: record
        for job, record in done.items()
        if (job.task, job.method, job.stage) == (task, method, "final") and "error" not in record
    }


def cell(values: Sequence[float], form: str) -> str:
    mean, error = Mean.of(values)
    if math.isnan(mean):
        return "–"
    text = f"{mean:{form}}" + (f" ± {error:{form.removeprefix('+')}}" if math.isfinite(error) else "")
    return text.replace("-", "−")


def gaps(
    row: dict[int, dict[str, Any]], base: dict[int, dict[str, Any]], key: str, scale: float
) -> list[float]:
    """Return the differences to the base, seed by seed."""
    return [scale * (row[seed][key] - base[seed][key]) for seed in row if seed in base]


def speed(done: Records, task: str, method: str, steps: float) -> str:
    """Return the seconds of a run over those of the base, by the steps timed alone on the device."""
    places = (
        [task] if method in HISTORY else [task, RESNETS.get(task, task)]
    )  # the old rule perturbed when it saw fit
    as_timed = "base" if method in LONGER else method
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


def rows(done: Records, task: str) -> list[list[str]]:
    spec = SPECS[task]
    base, less = (finals(done, task, name) for name in ("base", "base-less"))
    table: list[list[str]] = []
    for method in (name for name in NAMES if name not in HISTORY):
        row = finals(done, task, method)
        row = {seed: record for seed, record in row.items() if record["loss"] is not None}
        failed = [
            job for job, record in done.items() if job[:3] == (task, method, "final") and "error" in record
        ]
        if not row:
            if failed:
                table.append([_name(method, spec), *["failed"] + [""] * 8])
            continue
        first = next(iter(row.values()))
        knob = f"{first['strength']:g}" if first["strength"] else "–"
        timed = speed(done, task, method, first["steps"])
        sharp = [r["sharpness"]["largest"] for r in row.values() if "largest" in r.get("sharpness", {})]
        table.append([
            _name(method, spec),
            f"{first['lr']:g}, {first['decay']:g}, {knob}", str(len(row)),
            cell([100 * r["accuracy"] for r in row.values()], ".2f"),
            cell([r["loss"] for r in row.values()], ".3f"),
            "–" if method == "base" else cell(gaps(row, base, "accuracy", 100), "+.2f"),
            "–" if method == "base" else cell(gaps(row, base, "loss", 1), "+.3f"),
            cell(gaps(row, less, "loss", 1), "+.3f") if method.startswith("gate") else "–",
            timed, f"{Mean.of(sharp)[0]:.3g}" if sharp else "–",
            cell([min(r["losses"]) for r in row.values() if "losses" in r], ".3f"),
        ])  # fmt: skip
    return table


def _name(method: str, spec: Any) -> str:
    return NAMES[method].format(base={"sgd": "SGD", "adamw": "AdamW"}[spec.base])


HEAD = [
    "", "accuracy %", "test loss", "Δ accuracy",
    "Δ loss", "Δ loss, less data", "seconds", "lowest on the way",
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
}
SHORT = {
    "base": "base",
    "gate": "GapSAM",
    "base-long": "base, + 10 %",
    "ema": "EMA",
    "smooth": "label smoothing",
    "sam-late": "SAM, last quarter",
    "share16-late": "SAM, 1/16, last half",
}


def markdown(lines: list[list[str]]) -> str:
    rule = "|---" * len(lines[0]) + "|"
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([rows[0], rule, *rows[1:]])


def overview(done: Records) -> str:
    """Return accuracy, final and lowest test loss of the rows that matter most, one line per task.

    Bold is what is ahead of all others in the line by more than two standard errors of the difference.
    """

    def figures(r: dict[str, Any]) -> tuple[float, float, float]:
        return 100 * r["accuracy"], r["loss"], min(r["losses"])

    titles = ("accuracy, %", "final test loss", "lowest test loss on the way")
    parts = [[[title, *SHORT.values()]] for title in titles]
    for task, title in TITLES.items():
        runs = [[r for r in finals(done, task, method).values() if r["loss"] is not None] for method in SHORT]
        for k, (form, better) in enumerate(((".2f", 1), (".3f", -1), (".3f", -1))):
            means = [Mean.of([figures(r)[k] for r in row]) for row in runs]
            cells = _emphasised(means, form, better)
            parts[k].append([title, *(c if row else "–" for c, row in zip(cells, runs, strict=True))])
    return "\n\n".join(markdown(lines) for lines in parts)


def _emphasised(found: Sequence[tuple[float, float]], form: str, better: int) -> list[str]:
    """Return the means as text, in bold where one is ahead of each other beyond two standard errors."""

    def ahead(one: tuple[float, float], other: tuple[float, float]) -> bool:
        return better * (one[0] - other[0]) > 2 * math.hypot(one[1], other[1])

    texts: list[str] = []
    for i, one in enumerate(found):
        others = [other for k, other in enumerate(found) if k != i and not math.isnan(other[0])]
        best = all(ahead(one, other) for other in others)
        texts.append(f"**{one[0]:{form}}**" if best else f"{one[0]:{form}}")
    return texts


def tables(done: Records) -> str:
    parts: list[str] = []
    for task, title in TITLES.items():
        spec, table = SPECS[task], rows(done, task)
        if not table:
            continue
        trials = len(spec.lr) ** 2
        each = f" with {spec.tuning_seeds} seeds" if spec.tuning_seeds > 1 else ""
        head = f"`{task}`: {trials} trials{each} of {spec.tuning:.3g} gradient-epochs for every row"
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
    """Return the table of the README: test losses on all tasks, those that nothing was chosen on first."""
    names = {
        ("base", "loss"): "base, at the end",
        ("base", "losses"): "base, at its lowest",
        ("ema", "losses"): "base + EMA, at its lowest",
        ("gate", "loss"): "GapSAM, at the end",
    }
    lines = [["test loss", *names.values()]]
    for task in sorted(TITLES, key=lambda task: task in CHOSEN_ON):
        row = [
            [r[key] for r in finals(done, task, method).values() if r["loss"] is not None]
            for method, key in names
        ]
        title = TITLES[task] + (" \\*" if task in CHOSEN_ON else "")
        lines.append([title, *(cell([np.min(loss) for loss in losses], ".3f") for losses in row)])
    return markdown(lines)


PARTS = {"overview": overview, "tables": tables, "summary": summary}


def inserted(page: str, done: Records) -> str:
    """Return a page with the tables written anew between `<!-- NAME: ... -->` and `<!-- /NAME -->`."""
    for name, part in PARTS.items():
        page = re.sub(
            rf"(<!-- {name}: .*?-->\n).*?(<!-- /{name} -->)",
            lambda mark, part=part: f"{mark[1]}{part(done).strip()}\n{mark[2]}",
            page,
            flags=re.DOTALL,
        )
    return page


def chosen(done: Records) -> str:
    """Say which trial was best, for those who look at a campaign that is under way."""
    lines = [
        f"{task} {method}: trial {best}"
        for task, spec in SPECS.items()
        for method in KINDS
        if method not in LIKE and (best := choice(spec, task, method, done)) is not None
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, nargs="?", default=Path(__file__).with_name("runs.jsonl"))
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--pages", type=Path, help="the folder of README.md")
    parser.add_argument("--task", default="cifar100-resnet")
    parser.add_argument("--overview", action="store_true", help="one line a task")
    parser.add_argument("--chosen", action="store_true", help="the best trials so far")
    given = parser.parse_args()
    done = read(given.runs)
    if given.picture:
        picture(done, given.task, given.picture)
    elif given.pages:
        for name in ("README.md", "docs/when.md", "docs/evidence.md"):
            path = given.pages / name
            path.write_text(inserted(path.read_text("utf-8"), done), "utf-8")
    else:
        print((chosen if given.chosen else overview if given.overview else tables)(done))


if __name__ == "__main__":
    main()
