"""Planted faults: one-line changes to the library, each with the promise that it breaks.

    python -m tests.faults [-k PART] [--jobs 2] [--near]

plants them one by one in a copy of the repository and says which test sees each, after how many seconds. This
list, and not the number of tests, is what the suite is held to. `seen.json` has the test that saw each fault
when `--note` was last given: it is asked first.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Fault(NamedTuple):
    """Text of a file of `src/steepen` or `benchmarks/`, what takes its place, and the promise that breaks.

    `old` stands once in the file.
    """

    file: str
    old: str
    new: str
    promise: str

    def __str__(self) -> str:
        return f"{self.file}: {self.promise}"

    @property
    def path(self) -> Path:
        return Path("" if self.file.startswith("benchmarks/") else "src/steepen", self.file)

    def planted(self, text: str) -> str:
        """Return the file's text with the fault in it."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file}: {self.old!r} stands there {text.count(self.old)} times")
        return text.replace(self.old, self.new)


def within(file: str, *rows: tuple[str, str, str]) -> tuple[Fault, ...]:
    """Return the faults of a file: what stands there, what takes its place, the promise that it breaks."""
    return tuple(Fault(file, *row) for row in rows)
