"""The tables and the picture of where data is short, from the runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.evidence.pages import cell, markdown
from benchmarks.evidence.short import finetune, lm
from benchmarks.evidence.short.again import METHODS as SMALL
from benchmarks.evidence.short.again import MINIMA
from benchmarks.evidence.short.harm import AIRBENCH
from benchmarks.evidence.short.study import SHORT, TASKS, Job, Records

from steepen.train.results import Mean

Row = dict[int, dict[str, Any]]  # the runs of a row by their seeds
BASES = {"adamw": "AdamW", "muon": "Muon"}
SIZES = {
    "lm-small": "Overfitting: 6.9 million weights, 256 thousand tokens, 28 epochs",
    "lm-mild": "Not overfitting: 6.9 million weights, 800 thousand tokens, 12 epochs",
    "lm-large": "Large: 29.7 million weights, 2 million tokens, 16 epochs",
    "lm-books": "Many books: 29.7 million weights, 10 million tokens, 8 epochs",
}
SAME = "Δ to the base, less data"
DAMAGE = ("4 bits", "3 bits", "noise 0.1", "pruned 0.5")  # 8 bits cost nothing
SURVIVE = ("base", "sam-late", "share16-late", "gate", "gap", "dropout", "ema")


def finals(done: Records, task: str, base: str, method: str) -> Row:
    """Return the runs of a row that have ended with a finite loss."""
    key = (task, base, method, "final")
    return {
        job.seed: record
        for job, record in done.items()
        if job[:4] == key and "error" not in record and _end(record) is not None
    }


def failed(done: Records, task: str, base: str, method: str) -> int:
    """Count the runs that were destroyed or could not be made."""
    runs = [record for job, record in done.items() if job[:4] == (task, base, method, "final")]
    return len(runs) - len(finals(done, task, base, method))


def _end(record: dict[str, Any]) -> float | None:
    return record.get("test", record.get("loss"))


def _loss(record: dict[str, Any]) -> float:
    return record["test"] if "test" in record else record["loss"]


def stopped(record: dict[str, Any]) -> float:
    """Return the test loss at the look that the validation chooses."""
    losses = [math.inf if one is None else one for one in record["validations"]]
    return record["tests"][int(np.argmin(losses))]


def paired(row: Row, other: Row, of: Callable[[dict[str, Any]], float]) -> list[float]:
    """Return the differences to another row, seed by seed."""
    return [of(row[seed]) - of(other[seed]) for seed in row if seed in other]


def speed(done: Records, task: str, method: str) -> str:
    """Return the seconds of a whole run over the base's, both alone on the device."""
    if method in ("base", "early"):
        return "1"
    record = done.get(Job(task, "adamw", method, "timing", -1, 0))
    return "–" if record is None else f"{record['seconds'] / min(record['base_seconds']):.2f}"


def language(done: Records) -> str:
    """Return a table for each size and optimizer."""
    parts: list[str] = []
    for task, title in SIZES.items():
        for base, name in BASES.items():
            table = _language(done, task, base)
            if len(table) > 1:
                parts.append(f"**{title}, {name}**\n\n{markdown(table)}\n")
    return "\n".join(parts)


def _language(done: Records, task: str, base: str) -> list[list[str]]:
    lines = [[
        "", "final test loss", "Δ to the base", SAME, "stopped by validation", "ascent steps", "seconds",
    ]]  # fmt: skip
    reference, same = (finals(done, task, base, name) for name in ("base", "base-less"))
    for method, row in lm.ROWS.items():
        runs = finals(done, task, base, method)
        lost = failed(done, task, base, method)
        if not runs:
            if lost:
                lines.append([row.name, f"failed {lost} times", *[""] * 5])
            continue
        first = next(iter(runs.values()))
        knob = f"{first['strength']:g}" if first["strength"] else "–"
        lines.append([
            f"{row.name} ({len(runs)}{f', {lost} failed' if lost else ''}: {first['lr']:g}, "
            f"{first['decay']:g}, {knob})",
            cell([run["test"] for run in runs.values()]),
            "–" if method == "base" else cell(paired(runs, reference, lambda run: run["test"]), "+.3f"),
            cell(paired(runs, same, lambda run: run["test"]), "+.3f") if method.startswith("gate") else "–",
            cell([stopped(run) for run in runs.values()]), f"{first['probed']} of {first['steps']}",
            speed(done, task, method) if base == "adamw" else "–",
        ])  # fmt: skip
    return lines


def ruined(record: dict[str, Any], classes: int) -> bool:
    """Say whether a run has learnt next to nothing: no better than twice what guessing gets right."""
    return record.get("loss") is None or record["accuracy"] < 2 / classes


CLASSES = {"authors": 30, "manual": 14}


def fine(done: Records) -> str:
    """Return a table with a line for every setting of the fine-tuning and every row."""
    lines = [
        [
            "", "accuracy %", "test loss", "Δ to the tuned base", SAME,
            "calibration error",
        ]
    ]  # fmt: skip
    for task in TASKS:
        reference, same = (finals(done, task, "adamw", name) for name in ("decay", "decay-less"))
        for method, row in finetune.ROWS.items():
            runs = finals(done, task, "adamw", method)
            if not runs:
                continue
            first = next(iter(runs.values()))
            knob = f"{first['strength']:g}" if first["strength"] else "–"
            lines += [[f"**{_setting(task)}**", *[""] * 5]] if method == "base" else []
            lines.append([
                f"{row.name} ({len(runs)}: {first['lr']:g}, {first['decay']:g}, {knob})",
                cell([100 * run["accuracy"] for run in runs.values()], ".2f"),
                cell([run["loss"] for run in runs.values()]),
                "–" if method == "decay" else cell(paired(runs, reference, lambda run: run["loss"]), "+.3f"),
                cell(paired(runs, same, _loss), "+.3f") if method.startswith("gate") else "–",
                cell([run["calibration"] for run in runs.values()]),
            ])  # fmt: skip
    return markdown(lines) if len(lines) > 1 else "No run yet."


def _setting(task: str) -> str:
    name, each, kind = task.split("-")
    return f"{name}, {each} per class, {'LoRA' if kind == 'lora' else 'full'}"


def at_equal_loss(base: Row, loss: float, damage: str) -> list[float]:
    """Return the base's rise where its loss, on the way down, was this one: between two looks, linearly."""
    found: list[float] = []
    for run in base.values():
        way = [
            (one["loss"], one[damage] - one["loss"]) for one in run.get("way", ()) if one[damage] is not None
        ]
        for (before, rise), (after, next_rise) in itertools.pairwise(way):
            if after <= loss <= before and before > after:
                found.append(rise + (next_rise - rise) * (before - loss) / (before - after))
                break
    return found


HEAD = ["", "test loss", *DAMAGE]


def survive(done: Records) -> str:
    """Return how much the loss rises by rounding, noise and pruning, and by fine-tuning on the manual."""
    lines, forgotten = [HEAD], [["", "rise of the loss on books", "loss on the manual"]]
    for task in SIZES:
        for base, name in BASES.items():
            reference = finals(done, task, base, "base")
            if not any("robustness" in run for run in reference.values()):
                continue
            title = f"**{task.removeprefix('lm-')}, {name}**"
            lines.append([title, *[""] * 5])
            forgotten.append([title, "", ""])
            for method in SURVIVE:
                runs = {s: r for s, r in finals(done, task, base, method).items() if "robustness" in r}
                if not runs:
                    continue
                forgotten.append([
                    lm.ROWS[method].name,
                    cell([r["manual"]["test"] - r["robustness"]["loss"] for r in runs.values()], "+.3f"),
                    cell([r["manual"]["after"] for r in runs.values()]),
                ])  # fmt: skip
                lines.append(_damaged(lm.ROWS[method].name, runs))
                lines += _at_equal_loss(reference, runs) if method != "base" else []
    for task in TASKS:
        for method, row in finetune.ROWS.items():
            runs = {s: r for s, r in finals(done, task, "adamw", method).items() if "robustness" in r}
            if runs and method != "early" and not method.startswith("gate-"):
                lines += [[f"**{_setting(task)}**", *[""] * 5]] if method == "base" else []
                lines.append(_damaged(row.name, runs))
    return f"{markdown(lines)}\n\n{markdown(forgotten)}"


def again() -> str:
    """Return the same of the networks of the tasks."""
    lines = [HEAD]
    rows: dict[tuple[str, str], Row] = {}
    for (task, method, seed), record in MINIMA.read().items():
        rows.setdefault((task, method), {})[seed] = record
    for (task, method), runs in sorted(rows.items(), key=lambda row: (row[0][0], SMALL.index(row[0][1]))):
        name = "SAM throughout" if method == "sam" else lm.ROWS[method].name
        lines += [[f"**{task.replace('-', ', ')}**", *[""] * 5]] if method == "base" else []
        lines.append(_damaged(name, runs))
        lines += _at_equal_loss(rows[task, "base"], runs) if method != "base" else []
    return markdown(lines)


def _damaged(name: str, runs: Row) -> list[str]:
    tables = [run["robustness"] for run in runs.values()]
    rises = [[one[damage] - one["loss"] for one in tables if one[damage] is not None] for damage in DAMAGE]
    clean = cell([one["loss"] for one in tables])
    return [f"{name} ({len(runs)})", clean, *(cell(one, "+.3f") for one in rises)]


def _at_equal_loss(base: Row, runs: Row) -> list[list[str]]:
    """Return the line of the base where it had the loss of these runs; none if it never did."""
    clean = Mean.of([run["robustness"]["loss"] for run in runs.values()])[0]
    equal = [at_equal_loss(base, clean, damage) for damage in DAMAGE]
    cells = [cell(one, "+.3f") for one in equal]
    return [["*the base on its way, at that loss*", "", *cells]] if any(equal) else []


def picture(done: Records, path: Path) -> None:
    """Draw the test loss against tokens: the mean over seeds, a panel for each size that has runs."""
    from matplotlib.figure import Figure

    from steepen import plot

    shown = {
        "base": (plot.COLOURS["gd"], "-"),
        "dropout": ("#56b4e9", "--"),
        "ema": ("#0072b2", "--"),
        "sam-late": ("#999999", "-"),
        "share16-late": (plot.COLOURS["cgd-fd"], "-"),
        "base-less": (plot.COLOURS["gd"], ":"),
        "gate": (plot.COLOURS["cgd"], "-"),
        "gap": (plot.COLOURS["cgd"], ":"),
    }
    sizes = [size for size in SIZES if len(finals(done, size, "adamw", "base")) > 1]
    wide, high = min(2, len(sizes)), -(-len(sizes) // 2)
    figure = Figure(figsize=(5.2 * wide, 4.6 * high), layout="constrained")
    for i, task in enumerate(sizes):
        ax = figure.add_subplot(high, wide, i + 1)
        ends: list[float] = []
        for method, (colour, dash) in shown.items():
            runs = list(finals(done, task, "adamw", method).values())
            if not runs:
                continue
            mean = np.mean([run["tests"] for run in runs], axis=0)
            at = np.array(runs[0]["at"]) / 1e6
            ax.plot(at, mean, color=colour, ls=dash, lw=1.6, label=f"{lm.ROWS[method].name}: {mean[-1]:.3f}")
            ends += [mean.min(), mean[-1]]
        span = max(ends) - min(ends)
        ax.set_ylim(min(ends) - 0.08 * span, max(ends) + 0.25 * span)
        ax.set_title(SIZES[task], fontsize="small")
        ax.set_xlabel("million tokens trained on")
        ax.set_ylabel("test loss, other books")
        ax.grid(color="0.9", lw=0.6)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.legend(
            frameon=False, fontsize="small", title="at the end", ncols=2, loc="upper center",
            bbox_to_anchor=(0.5, -0.15),
        )  # fmt: skip
    plot.save(figure, path)


COLUMNS = (
    "tuned base", "GapSAM", "base, less data", "stopped early", "dropout", "EMA", "SAM",
    "SAM, 1/16, last half",
)  # fmt: skip
OVERVIEW = {
    "lm": ("base", "gate", "base-less", "early", "dropout", "ema", "sam-late", "share16-late"),
    "fine": ("decay", "gate", "decay-less", "early", None, None, "sam", None),
}
"""The rows that stand in the columns, for language models and for fine-tuning."""


def overview(done: Records) -> str:
    """Return a table with a line a task: the test loss of the rows that both studies have; then accuracy."""
    lines = [["", *COLUMNS]]
    named = {task: f"language model, {title.split(':')[0].lower()}" for task, title in SIZES.items()}
    named |= {task: f"fine-tuning, {_setting(task)}" for task in TASKS if task not in SIZES}
    lines += [[name, *cells] for task, name in named.items() if (cells := _losses(done, task))[0] != "–"]
    if len(lines) == 1:
        return "No run yet."
    fine = [i for i, method in enumerate(OVERVIEW["fine"]) if method]
    right = [["accuracy, %", *(COLUMNS[i] for i in fine)]]
    right += [
        [name, *(_right(done, task)[i] for i in fine)] for task, name in named.items() if task not in SIZES
    ]
    return f"{markdown(lines)}\n\n{markdown(right)}"


def _right(done: Records, task: str) -> list[str]:
    """Return the accuracies of a task, in the order of COLUMNS."""
    rows = [finals(done, task, "adamw", method) if method else {} for method in OVERVIEW["fine"]]
    return [cell([100 * run["accuracy"] for run in row.values()], ".1f").partition(" ")[0] for row in rows]


def _losses(done: Records, task: str) -> list[str]:
    """Return the test losses of a task, in the order of COLUMNS."""
    cells: list[str] = []
    for method in OVERVIEW["lm" if task in SIZES else "fine"]:
        runs = finals(done, task, "adamw", method) if method else {}
        early = task in SIZES and method == "early"
        losses = [stopped(run) if early else _loss(run) for run in runs.values()]
        cells.append(f"{np.mean(losses):.3f}" if losses else "–")
    return cells


def harm() -> str:
    """Return accuracy and seconds of airbench with and without GapSAM."""
    done = AIRBENCH.read()
    lines = [["", "", "seeds", "accuracy %", "Δ to the base", "ascent steps", "seconds"]]
    for target in AIRBENCH.tasks:
        rows = {
            method: {job[2]: run for job, run in done.items() if job[:2] == (target, method)}
            for method in ("base", "gate", "gap")
        }
        for method, row in rows.items():
            if not row:
                continue
            perturbed, steps = ([run[key] for run in row.values()] for key in ("probed", "steps"))
            seconds = [run["seconds"] for run in row.values() if run["seconds"] is not None]  # alone
            lines.append([
                f"airbench, {target[-2:]} %" if method == "base" else "", lm.ROWS[method].name, str(len(row)),
                cell([100 * run["accuracy"] for run in row.values()], ".2f"),
                "–" if method == "base"
                else cell(paired(row, rows["base"], lambda run: 100 * run["accuracy"]), "+.2f"),
                f"{np.mean(perturbed):.0f} of {steps[0]}", f"{np.median(seconds):.1f}" if seconds else "–",
            ])  # fmt: skip
    return markdown(lines) if len(lines) > 1 else "No run yet."


PARTS = {
    "language": lambda: language(SHORT.read()),
    "fine": lambda: fine(SHORT.read()),
    "survive": lambda: survive(SHORT.read()),
    "again": again,
    "short": lambda: overview(SHORT.read()),
    "harm": harm,
}
