"""The installed version."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the version of steepen.

    Examples
    --------
    >>> version().partition(".")[0]
    '0'
    """
    try:
        return metadata.version("steepen")
    except metadata.PackageNotFoundError:  # on the path, but never installed
        return "0+unknown"
