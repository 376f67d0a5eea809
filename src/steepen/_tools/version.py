"""The installed version, from the package's metadata: for `__version__`, checkpoints and results files."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the version of steepen."""
    try:
        return metadata.version("steepen")
    except metadata.PackageNotFoundError:  # on the path, but never installed
        return "0+unknown"
