"""What all reports share: cells, tables as Markdown, and the places on pages where they stand."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from steepen.train.results import Mean

Parts = Mapping[str, Callable[[], str]]


def cell(values: Sequence[float], form: str = ".3f") -> str:
    """Return a mean with its standard error."""
    mean, error = Mean.of(values)
    if math.isnan(mean):
        return "–"
    text = f"{mean:{form}}" + (f" ± {error:{form.removeprefix('+')}}" if math.isfinite(error) else "")
    return text.replace("-", "−")


def pair(found: Sequence[tuple[float, float]]) -> str:
    """Return the mean loss, with its error, and the mean accuracy in percent."""
    if not found:
        return "–"
    losses, accuracies = zip(*found, strict=True)
    return f"{cell(losses)} / {100 * Mean.of(accuracies)[0]:.2f}"


def markdown(lines: list[list[str]]) -> str:
    """Return a table; its first line is the head."""
    rule = "|---" * len(lines[0]) + "|"
    rows = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([rows[0], rule, *rows[1:]])


def inserted(page: str, parts: Parts) -> str:
    """Return a page with the tables written anew between `<!-- NAME: ... -->` and `<!-- /NAME -->`."""
    for name, part in parts.items():
        page = re.sub(
            rf"(<!-- {name}: .*?-->\n).*?(<!-- /{name} -->)",
            lambda mark, part=part: f"{mark[1]}{part().strip()}\n{mark[2]}",
            page,
            flags=re.DOTALL,
        )
    return page
