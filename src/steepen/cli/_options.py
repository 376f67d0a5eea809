"""Parse what is written on the command line, strictly, with the option's name in every error."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from .._tools.check import one_of
from ..functions import Function, functions
from ..schedules import Cosine, L
from ..steps import Quadratic

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no text and no progress bar.")]

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_CALL = re.compile(rf"\s*([A-Za-z][\w-]*)\s*(?:\(\s*({_NUMBER}(?:\s*,\s*{_NUMBER})*)\s*\))?\s*")


def parsed(text: str) -> float | None:
    """Read a finite number; None if the text is not one.

    Examples
    --------
    >>> parsed("1e-3"), parsed("nan"), parsed("1_0")
    (0.001, None, None)
    """
    value = float(text) if re.fullmatch(_NUMBER, text.strip()) else None
    return value if value is not None and np.isfinite(value) else None


def call(text: str) -> tuple[str, tuple[float, ...]]:
    """Read a name with numbers, such as L(0.01, 0.1); the name is empty if that fails."""
    match = _CALL.fullmatch(text)
    if match is None:
        return "", ()
    numbers = (match[2] or "").split(",") if match[2] else []
    return match[1].lower(), tuple(map(float, numbers))


def step_or_lam(option: str, text: str | None) -> Any:
    """Read --step or --lam; None stands for the library's own choice."""
    if text is None:
        return None
    step = option == "--step"
    value: Any = parsed(text)
    if value is None:
        match call(text):
            case ("auto", ()):
                return None
            case ("armijo", ()) if step:
                return None  # the default; it knows which first trial suits the method
            case ("quadratic", ()) if step:
                return Quadratic()
            case ("l" | "cosine" as name, (start, end)):
                value = (L if name == "l" else Cosine)(start, end)
            case _:
                also = ", armijo, quadratic" if step else ""
                raise ValueError(
                    f"{option}: expected a number, L(a,b), cosine(a,b), auto{also}; got {text!r}"
                )
    ends = (value,) if isinstance(value, float) else (value.start, value.end)
    if step and min(ends) <= 0:
        raise ValueError(f"{option}: expected positive values, got {text!r}")
    return value


def function_or_own(text: str, n: int | None) -> tuple[str, Any]:
    """Return a test function, or one of the user's own as `module:name`, and a name for it."""
    if ":" not in text:
        return text, function(text, n)
    module, _, name = text.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as `python -m` does
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"FUNCTION: {text!r} cannot be had: {error}") from error
    if not callable(found):
        raise ValueError(f"FUNCTION: expected {text!r} to be a callable, got {found!r}")
    return name, found


def function(name: str, n: int | None) -> Function:
    """Return a test function, in the dimension asked for."""
    found = functions[one_of("FUNCTION", name, functions, "see `steepen.functions`")]
    if n is None:
        return found
    try:
        return found.at(n=n)
    except ValueError as error:
        raise ValueError(f"--{error}") from None


def target(option: str, path: Path | None, suffixes: Iterable[str] = ()) -> Path | None:
    """Check, before anything is run, that a file can be written there."""
    if path is None:
        return None
    endings = list(suffixes)
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{option}: expected a name ending in {' or '.join(endings)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise ValueError(f"{option}: there is no folder {str(path.parent)!r}")
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise ValueError(f"{option}: {str(path)!r} cannot be written")
    return path


def words(text: str) -> list[str]:
    """Split a list at its commas."""
    return [word.strip() for word in text.split(",") if word.strip()]
