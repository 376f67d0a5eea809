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
from numpy.typing import NDArray

from .._sweep.grid import has
from .._tools.check import one_of
from ..budget import Budget
from ..directions import METHODS
from ..functions import Function, functions
from ..penalties import L1, L2, Huber, Penalty, PNorm, SquaredL2
from ..schedules import Cosine, L
from ..steps import Quadratic

PENALTIES: dict[str, Any] = {"squared-l2": SquaredL2, "l2": L2, "l1": L1, "huber": Huber, "p-norm": PNorm}

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


def check_spread(options: dict[str, Any], budget: Budget | None) -> None:
    """Refuse a schedule if there is no number of iterations to spread its values over."""
    if budget is None or budget.total is not None:
        return
    for name, value in options.items():
        if isinstance(value, L | Cosine):
            raise ValueError(
                f"--{name}: L(a,b) and cosine(a,b) need --grads or --iters with --seconds or --evals"
            )


def penalty(text: str | None) -> Penalty | None:
    """Read --penalty: a name, with its parameter in brackets if it has one."""
    if text is None:
        return None
    name, numbers = call(text)
    make = PENALTIES[one_of("--penalty", name or text, PENALTIES)]
    try:
        return make(*numbers)
    except TypeError:
        raise ValueError(f"--penalty: {name} does not take {len(numbers)} numbers, got {text!r}") from None
    except ValueError as error:
        raise ValueError(f"--penalty: {error}") from None


def methods(text: str) -> list[str]:
    """Read --methods: names separated by commas."""
    names = [one_of("--methods", name.strip(), METHODS) for name in text.split(",")]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ValueError(f"--methods: {name!r} is named twice")
    return names


def applicable(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the method does not use: λ without a penalty, r without a probe."""
    return {name: value for name, value in options.items() if name in has(method)}


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
    found = functions[one_of("FUNCTION", name, functions, "see `steepen functions`")]
    if n is None:
        return found
    try:
        return found.at(n=n)
    except ValueError as error:
        raise ValueError(f"--{error}") from None


def problem(
    name: str, n: int | None, x0: str | None, seed: int, starts: int = 1
) -> tuple[Function, NDArray[np.float64]]:
    """Return the function and its start: the point given, or points drawn uniformly inside the bounds."""
    if x0 is None or x0.strip() == "random":
        fun = function(name, n)
        draws = np.random.default_rng(seed).uniform(*fun.bounds.T, size=(starts, fun.n))
        return fun, draws if starts > 1 else draws[0]
    if starts > 1:
        raise ValueError("--starts: draws its own start points; leave out --x0")
    values = [parsed(word) for word in x0.split(",")]
    if None in values:
        raise ValueError(f"--x0: expected numbers with commas between, or random; got {x0!r}")
    point = np.array(values, dtype=float)
    any_n = function(name, None).any_n
    fun = function(name, len(point) if n is None and any_n else n)
    if len(point) != fun.n:
        raise ValueError(f"--x0: expected {fun.n} numbers for {fun.name}, got {len(point)}")
    return fun, point


def sizes(text: str | None) -> Any:
    """Read --x-scale: auto, a number, or one for each variable.

    Examples
    --------
    >>> sizes("auto"), sizes("1e3"), sizes("1,1e-6")
    ('auto', 1000.0, [1.0, 1e-06])
    """
    if text is None or text.strip() == "auto":
        return text and "auto"
    values = [parsed(word) for word in text.split(",")]
    if None in values:
        raise ValueError(f"--x-scale: expected auto, or numbers with commas between; got {text!r}")
    return values[0] if len(values) == 1 else values


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
