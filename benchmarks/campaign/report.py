"""What the campaign found: the figures, and the faults with a way to see each again."""

import textwrap
from collections import Counter

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


def table(blocks):
    """Return the figures as Markdown."""
    statuses, verdicts = total(blocks, "statuses"), total(blocks, "verdicts")
    faults = Counter(fault["kind"] for block in blocks for fault in block["faults"])
    runs, seconds = (sum(block[name] for block in blocks) for name in ("runs", "seconds"))
    lines = [f"{runs} runs with {statuses.total()} rows took {seconds:.0f} s of one core."]
    lines += ["", f"| in {runs} runs | |", "|---|---|"]
    lines += [f"| {words} | {faults[kind]} |" for kind, words in KINDS.items()]
    lines += ["", f"Of {verdicts.total()} successes: {_listed(verdicts)}."]
    lines += [textwrap.fill(f"Statuses: {_listed(statuses)}.", 120), ""]
    words = {word: KINDS.get(word, word) for word in ("runs", "success", *PEERS, "own error")}
    return "\n".join([*lines, *_columns("the same runs", words, blocks, "peers", words)])


def hard(blocks):
    """Return the figures of the cases that are hard without a gradient."""
    words = {"runs": "runs", "success": "successes", "missed": "good ends called failures"}
    words |= {"resumed": "not the uncut run after resuming"} | KINDS
    always = ("runs", "success", "missed", "false success", "resumed")
    return "\n".join(_columns("without a gradient", words, blocks, "counts", always))


def _columns(title, words, blocks, what, always):
    """Return a table of counts, a column a name; rows of nothing but 0 only where `always`."""
    names = list(blocks[0][what])
    counts = {name: total([block[what] for block in blocks], name) for name in names}
    lines = [f"| {title} | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for word, text in words.items():
        cells = [counts[name][word] for name in names]
        if word in always or any(cells):
            lines.append(f"| {text} | {' | '.join(map(str, cells))} |")
    return lines


def failures(blocks):
    """Return the faults grouped by kind and place, the most frequent first, with some of their cases."""
    groups = {}
    for fault in (fault for block in blocks for fault in block["faults"]):
        groups.setdefault((fault["kind"], fault["place"]), []).append(fault)
    runs = sum(block["runs"] for block in blocks)
    lines = [f"# {sum(map(len, groups.values()))} faults in {runs} runs, {len(groups)} groups", ""]
    lines += ["`python -m benchmarks.campaign --case NUMBER` runs a case as the campaign does.", ""]
    for (kind, place), faults in sorted(groups.items(), key=lambda group: -len(group[1])):
        lines += [f"## {kind}: {place}", f"{len(faults)} ×", ""]
        lines += [f"- {f['case']}: {f['detail']}" for f in faults[:8]]
    return "\n".join(lines)


def insert(figures, page):
    """Return the page with the figures between its two marks."""
    before, mark, rest = page.partition("<!-- campaign")
    head, _, tail = rest.partition("-->")
    _, end, after = tail.partition("<!-- /campaign -->")
    if not end:
        raise ValueError("page: expected the marks <!-- campaign --> and <!-- /campaign -->")
    return f"{before}{mark}{head}-->\n{figures}\n{end}{after}"


def total(blocks, name):
    """Return the sum of the counts of this name."""
    return sum((Counter(block[name]) for block in blocks), Counter())


def _listed(counts):
    return ", ".join(f"{name} {number}" for name, number in counts.most_common())
