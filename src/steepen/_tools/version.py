"""The installed version, from the package's metadata: for `__version__`, checkpoints and results files."""

from __future__ import annotations


def version() -> str:
    """Return the version of steepen."""
    from importlib import metadata  # here, so that `import steepen` stays light

    try:
        return metadata.version("steepen")
    except metadata.PackageNotFoundError:  # on the path, but never installed
        return "0+unknown"
