"""The width of what the command prints: that of the terminal, between bounds; reads the environment."""

from __future__ import annotations

import shutil


def columns() -> int:
    """Return the columns of the terminal, at least 40 and at most 100; 80 where there is none."""
    return max(40, min(100, shutil.get_terminal_size((80, 24)).columns))
