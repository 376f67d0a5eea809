"""What the campaign found: the figures, and the faults with a way to see each again."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import Any

KINDS = {
    "exception": "exceptions",
    "warning": "warnings as errors",
    "false success": "false successes",
    "overrun": "budgets overrun",
    "count": "wrong counts",
    "bounds": "calls outside the bounds",
    "value": "`fun` or `jac` not f or ∇f at `x`",
    "finite": "x or f not finite, though finite points were seen",
    "best": "`best` is not the best",
    "trace": "trace at odds with the result",
    "status": "status at odds with the run",
}
PEERS = ("exception", "false success", "overrun", "count", "bounds")

Blocks = list[dict[str, Any]]


def table(blocks: Blocks) -> str:
    """Return the figures as Markdown."""
    statuses, verdicts = total(blocks, "statuses"), total(blocks, "verdicts")
    faults = Counter(fault["kind"] for block in blocks for fault in block["faults"])
    runs, seconds = (sum(block[name] for block in blocks) for name in ("runs", "seconds"))
    lines = [f"{runs} runs with {statuses.total()} rows took {seconds:.0f} s of one core."]
    lines += ["", f"| in {runs} runs | |", "|---|---|"]
    lines += [f"| {words} | {faults[kind]} |" for kind, words in KINDS.items()]
    lines += [
        "",
        f"Of {verdicts.total()} successes: {_listed(verdicts)}.",
        textwrap.fill(f"Statuses: {_listed(statuses)}.", 120),
        "",
    ]
    names = list(blocks[0]["peers"])
    peers = {name: total([block["peers"] for block in blocks], name) for name in names}
    lines += [f"| the same runs | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for word in ("runs", "success", *PEERS, "own error"):
        cells = " | ".join(str(peers[name][word]) for name in names)
        lines.append(f"| {KINDS.get(word, word)} | {cells} |")
    return "\n".join(lines)


def hard(blocks: Blocks) -> str:
    """Return the figures of the cases that are hard without a gradient."""
    names = list(blocks[0]["counts"])
    counts = {name: total([block["counts"] for block in blocks], name) for name in names}
    words = {"runs": "runs", "success": "successes", "missed": "good ends called failures"}
    words |= {"resumed": "not the uncut run after resuming"} | KINDS
    lines = [f"| without a gradient | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for word, text in words.items():
        cells = [str(counts[name][word]) for name in names]
        if word in ("runs", "success", "missed", "false success", "resumed") or any(map(int, cells)):
            lines.append(f"| {text} | {' | '.join(cells)} |")
    return "\n".join(lines)


def failures(blocks: Blocks) -> str:
    """Return the faults grouped by kind and place, the most frequent first, with the shortest reproducers."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for block in blocks:
        for fault in block["faults"]:
            groups.setdefault((fault["kind"], fault["place"]), []).append(fault)
    runs = sum(block["runs"] for block in blocks)
    lines = [f"# {sum(map(len, groups.values()))} faults in {runs} runs, {len(groups)} groups", ""]
    lines += [
        "Lines of code follow `from tests.campaign.cases import *`.",
        "`python -m tests.campaign --case NUMBER`",
    ]
    lines += ["runs a case as the campaign does.", ""]
    for (kind, place), faults in sorted(groups.items(), key=lambda group: -len(group[1])):
        shortest = sorted(faults, key=lambda fault: len(fault["call"]))
        lines += [f"## {kind}: {place}", f"{len(faults)} ×, cases {[f['case'] for f in shortest[:8]]}"]
        lines += [f"- {f['case']}: {f['detail']}\n  `{f['call']}`" for f in shortest[:3]]
        lines.append("")
    return "\n".join(lines)


def insert(figures: str, page: str) -> str:
    """Return the page with the figures between its two marks."""
    before, mark, rest = page.partition("<!-- campaign")
    head, _, tail = rest.partition("-->")
    _, end, after = tail.partition("<!-- /campaign -->")
    if not end:
        raise ValueError("page: expected the marks <!-- campaign --> and <!-- /campaign -->")
    return f"{before}{mark}{head}-->\n{figures}\n{end}{after}"


def total(blocks: Blocks, name: str) -> Counter[str]:
    """Return the sum of the counts of this name."""
    return sum((Counter[str](block[name]) for block in blocks), Counter[str]())


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.most_common())
