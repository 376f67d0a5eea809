"""Write files atomically, create folders: for checkpoints, figures, the commands and the paper's report."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_whole(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Write a temporary file, then move it into place: a reader never sees a partial file."""
    target = Path(path)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with part.open("xb") as file:
            write(file)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def make_folder(argument: str, path: Path) -> None:
    """Create a folder, or raise early if it is not writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ValueError(f"{argument}: {str(path)!r} cannot be written: {reason}") from error
