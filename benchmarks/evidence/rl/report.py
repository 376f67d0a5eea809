"""The tables and the picture of docs/rl.md, and rows.md.

Entries are interquartile means over seeds, with 95 % intervals by a bootstrap over seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.evidence.rl.study import POLICIES, REWARDS

GROUPS = {"clean": "clean", "flipped or noisy actions": "flip", "changed dynamics": "×"}
SAMPLES = 4000


def control() -> list[dict[str, Any]]:
    """Return a record for each environment and row."""
    done, found = POLICIES.read(), list[dict[str, Any]]()
    for (env, stage, *_), record in done.items():
        if stage != "final":
            continue
        tried = done.get((env, "trial", 0, ""), {}).get("tried", {})
        about = {"env": env[0].upper() + env[1:], "seeds": range(record["seeds"]), "steps": record["steps"]}
        found += [
            about | row | {"row": label, "tried": tried.get(label, {})}
            for label, row in record["rows"].items()
        ]
    return found


def rewards() -> list[dict[str, Any]]:
    """Return a record for each row of the reward that can be hacked."""
    return [{"row": row} | record for (_, row), record in REWARDS.read().items()]


def timed() -> list[dict[str, Any]]:
    """Return a record for each environment, number of agents and device that was timed."""
    found = [
        {"env": env, "agents": agents} | record
        for (env, stage, agents, _), record in POLICIES.read().items()
        if stage == "timing"
    ]
    return sorted(found, key=lambda record: record["device"] == "cpu")


def iqm(values: Any) -> Any:
    """Return the mean of the middle half, along the last axis, weighted at its edges."""
    x = np.sort(np.asarray(values, float), -1)
    n = x.shape[-1]
    low, high = np.arange(n), np.arange(1, n + 1)
    weights = (np.minimum(high, 0.75 * n) - np.maximum(low, 0.25 * n)).clip(0)
    return (x * weights).sum(-1) / weights.sum()


def interval(values: Any) -> tuple[float, float, float]:
    """Return the interquartile mean with its 95 % interval."""
    x = np.asarray(values, float)
    draws = x[np.random.default_rng(0).integers(len(x), size=(SAMPLES, len(x)))]
    low, high = np.percentile(iqm(draws), [2.5, 97.5])
    return float(iqm(x)), float(low), float(high)


def grouped(record: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the mean return over the conditions of each group, one a seed."""
    found = {}
    for title, mark in GROUPS.items():
        chosen = [values for name, values in record["returns"].items() if mark in name]
        if chosen:
            found[title] = np.mean(chosen, 0)
    return found


def said(values: tuple[float, float, float]) -> str:
    middle, low, high = values
    digits = 2 if abs(middle) < 10 else 1 if abs(middle) < 100 else 0
    return f"{middle:.{digits}f} ({low:.{digits}f} … {high:.{digits}f})"


def tables(records: list[dict[str, Any]]) -> str:
    """Return a table for each environment."""
    parts = []
    for env in dict.fromkeys(record["env"] for record in records):
        rows = [record for record in records if record["env"] == env]
        titles = list(grouped(rows[0]))
        base = rows[0]["seconds"]
        head = f"**{env}**, {len(rows[0]['seeds'])} seeds, {rows[0]['steps']:,} steps each\n\n"
        lines = [f"| | value | {' | '.join(titles)} | seconds |", "|---" * (3 + len(titles)) + "|"]
        for row in rows:
            value = f"{row['value']:g}" if row["tried"] or "λ" in row["row"] else "–"
            entries = [said(interval(values)) for values in grouped(row).values()]
            lines.append(
                f"| {row['row']} | {value} | {' | '.join(entries)} | {row['seconds'] / base:.2f} × |"
            )
        parts.append(head + "\n".join(lines))
    return "\n\n".join(parts)


def verdict(records: list[dict[str, Any]]) -> str:
    """Return where each row is ahead of PPO beyond both intervals, and where it is behind."""
    lines = [
        "| | ahead under changed dynamics | behind under changed dynamics | clean return worse |",
        "|---|---|---|---|",
    ]
    rows = [row for row in dict.fromkeys(record["row"] for record in records) if row != "PPO"]
    for row in rows:
        ahead, behind, worse = [], [], []
        for env in dict.fromkeys(record["env"] for record in records):
            pair = {r["row"]: grouped(r) for r in records if r["env"] == env and r["row"] in ("PPO", row)}
            if len(pair) < 2:
                continue
            title = "changed dynamics" if "changed dynamics" in pair["PPO"] else "flipped or noisy actions"
            ours, theirs = (interval(pair[name][title]) for name in (row, "PPO"))
            ahead += [env] if ours[1] > theirs[2] else []
            behind += [env] if ours[2] < theirs[1] else []
            ours, theirs = (interval(pair[name]["clean"]) for name in (row, "PPO"))
            worse += [env] if ours[2] < theirs[1] else []
        lines.append(
            f"| {row} | " + " | ".join(", ".join(found) or "–" for found in (ahead, behind, worse)) + " |"
        )
    return "\n".join(lines)


def hacked(records: list[dict[str, Any]]) -> str:
    """Return the table of the reward that can be hacked."""
    lines = ["| | value | true reward | proxy | KL to the taught model |", "|---|---|---|---|---|"]
    for record in records:
        end = np.asarray(record["end"])
        entries = [said(interval(end[:, i])) for i in range(3)]
        value = f"{record['value']:g}" if len(record["tried"]) > 1 else "–"
        lines.append(f"| {record['row']} | {value} | {' | '.join(entries)} |")
    tried = [
        f"{record['row']}: " + ", ".join(f"{v} → {found[0]:.2f}" for v, found in record["tried"].items())
        for record in records
        if len(record["tried"]) > 1
    ]
    return "\n".join(lines) + "\n\nTrue reward of every value that was tried: " + "; ".join(tried) + "."


def seconds(records: list[dict[str, Any]]) -> str:
    """Return the table of seconds."""
    labels = list(records[0]["ratios"])
    lines = ["| an update of PPO | " + " | ".join(labels) + " |", "|---" * (1 + len(labels)) + "|"]
    for record in records:
        agents = f"{record['agents']} agent{'s' * (record['agents'] > 1)}"
        name = f"{record['env']}, {agents}, minibatches of {record['rows']}, {record['device']}"
        lines.append(f"| {name} | " + " | ".join(f"{v:.2f} ×" for v in record["ratios"].values()) + " |")
    return "\n".join(lines)


def picture(records: list[dict[str, Any]], grpo: list[dict[str, Any]], path: Path) -> None:
    """Draw the returns against what was changed, and the hacked reward."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    envs = list(
        dict.fromkeys(record["env"] for record in records if any("×" in n for n in record["returns"]))
    )
    count = len(envs) + bool(grpo)
    columns, lines = min(count, 3), -(-count // 3)
    figure, grid = plt.subplots(lines, columns, figsize=(3.2 * columns, 2.8 * lines), squeeze=False)
    axes = list(grid.flat)
    for axis in axes[count:]:
        axis.axis("off")
    shown = {"PPO": "C0", "SAM, actor": "C1", "CGD λ = ½, actor": "C2", "CGD ratio, actor": "C3"}
    colours = {"no penalty": "C0", "KL": "C4", "ratio": "C3"}
    for axis, env in zip(axes, envs, strict=False):
        for record in (r for r in records if r["env"] == env and r["row"] in shown):
            by: dict[float, list[Any]] = {1.0: [record["returns"]["clean"]]}
            for name, values in record["returns"].items():
                if "×" in name:
                    by.setdefault(float(name.rpartition(" ")[2]), []).append(values)
            xs = sorted(by)
            found = np.array([interval(np.mean(by[x], 0)) for x in xs])
            axis.plot(xs, found[:, 0], label=record["row"], color=shown[record["row"]])
            axis.fill_between(xs, found[:, 1], found[:, 2], color=shown[record["row"]], alpha=0.15, lw=0)
        axis.set(title=env, xlabel="what was changed, times")
        axis.set_ylabel("return")
    if envs:
        axes[0].legend(fontsize=7, frameon=False)
    if grpo:
        axis = axes[count - 1]
        for record in grpo:
            curve, colour = np.asarray(record["curve"]), colours[record["row"]]
            steps = np.arange(len(curve)) * record["every"]
            axis.plot(steps, curve[:, 0], label=record["row"], color=colour)
            axis.plot(steps, curve[:, 1], ":", color=colour)
        axis.set(title="true reward; proxy dotted", xlabel="steps of GRPO")
        axis.legend(fontsize=7, frameon=False, loc="center right", bbox_to_anchor=(1, 0.33))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


PARTS = {
    "verdict": lambda: verdict(control()),
    "rows": lambda: tables(control()),
    "hacked": lambda: hacked(rewards()),
    "seconds": lambda: seconds(timed()),
}
