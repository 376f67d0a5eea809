"""The page's modules as one script: a page opened without a server cannot import other files."""

from __future__ import annotations

import re
from importlib.resources import files

_MODULES = (
    "vectors", "jets", "expression", "spline", "run", "suggest", "settings", "artificial", "landscape",
    "scene", "chart", "verdict", "pictures", "controls", "app",
)  # fmt: skip
"""In order of imports; no two modules declare the same name."""


def read(name: str) -> str:
    """Return one of the page's files."""
    return (files("steepen.explorer") / "page" / name).read_text("utf-8")


def bundle() -> str:
    r"""Return all modules as one script, without their imports and exports.

    Examples
    --------
    >>> bundle().count("\nimport "), bundle().count("\nexport ")
    (0, 0)
    """
    sources = "\n".join(read(f"{name}.js") for name in _MODULES)
    return re.sub(r"^import .*\n|^export ", "", sources, flags=re.MULTILINE)
