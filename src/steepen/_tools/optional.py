"""Import an optional dependency at its first use, or say what to install; for all folders, runs its code."""

from __future__ import annotations

import importlib
from typing import Any


def load(module: str, needed_for: str, *, extra: str) -> Any:
    """Import an optional dependency; if missing, the error says what to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:  # it is there, and lacks something
            raise
        raise ImportError(f"{needed_for} needs {package}: pip install 'steepen[{extra}]'") from error
