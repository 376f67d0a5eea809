"""What `import steepen.paper` says where the paper was not installed; adds to `sys.meta_path`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

REMEDY = "in a clone of steepen, run: pip install -e '.[cli,plot,pandas]'"


class _NoPaper(MetaPathFinder):
    """Asked last, when no other finder has found the module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "steepen.paper":
            raise ModuleNotFoundError(
                f"steepen.paper is part of the source tree, and not installed; {REMEDY}", name=fullname
            )
        return None


def explain_absent_paper(home: Path) -> None:
    """Let the import of `steepen.paper` say what to do, if the package in this folder has none."""
    if not (home / "paper").is_dir():
        sys.meta_path.append(_NoPaper())
