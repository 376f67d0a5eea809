"""What the words on the command line mean: strict, by hand, with the option's name in every error."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._oracle.budget import Budget
from .._tools.check import one_of
from ..directions import CGD, METHODS
from ..functions import Function, functions
from ..penalties import L1, L2, Huber, Penalty, PNorm, SquaredL2
from ..schedules import Cosine, L
from ..steps import Quadratic

PENALTIES: dict[str, Any] = {
    "squared-l2": SquaredL2,
    "l2": L2,
    "l1": L1,
    "huber": Huber,
    "p-norm": PNorm,
}

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_CALL = re.compile(rf"\s*([A-Za-z][\w-]*)\s*(?:\(\s*({_NUMBER}(?:\s*,\s*{_NUMBER})*)\s*\))?\s*")


def number(text: str) -> float | None:
    """Read a finite number; None if the text is not one.

    Examples
    --------
    >>> number("1e-3"), number("nan"), number("1_0")
    (0.001, None, None)
    """
    value = float(text) if re.fullmatch(_NUMBER, text.strip()) else None
    return value if value is not None and np.isfinite(value) else None


def call(text: str) -> tuple[str, tuple[float, ...]]:
    """Read a name with numbers, such as L(0.01, 0.1); without a name if it is not one.

    Examples
    --------
    >>> call("L(0.01, 0.1)"), call("huber"), call("L(a, b)")
    (('l', (0.01, 0.1)), ('huber', ()), ('', ()))
    """
    match = _CALL.fullmatch(text)
    if match is None:
        return "", ()
    numbers = (match[2] or "").split(",") if match[2] else []
    return match[1].lower(), tuple(map(float, numbers))


def step_or_lam(option: str, text: str | None) -> Any:
    """Read --step or --lam; None stands for the library's own choice.

    Examples
    --------
    >>> step_or_lam("--lam", "L(0.01,0.1)")
    L(start=0.01, end=0.1, T=None)
    """
    if text is None:
        return None
    step = option == "--step"
    value: Any = number(text)
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
    """Refuse a schedule that has no number of iterations to spread its values over.

    Examples
    --------
    >>> check_spread({"lam": L(0.01, 0.1)}, Budget(seconds=1.0))
    Traceback (most recent call last):
    ValueError: --lam: L(a,b) and cosine(a,b) need --grads or --iters with --seconds or --evals
    """
    if budget is None or budget.total is not None:
        return
    for name, value in options.items():
        if isinstance(value, L | Cosine):
            raise ValueError(
                f"--{name}: L(a,b) and cosine(a,b) need --grads or --iters with --seconds or --evals"
            )


def penalty(text: str | None) -> Penalty | None:
    """Read --penalty: a name, with its parameter in brackets if it has one.

    Examples
    --------
    >>> penalty("huber(0.5)")
    Huber(delta=0.5)
    """
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
    """Read --methods: names with commas between.

    Examples
    --------
    >>> methods("gd, cgd-fd")
    ['gd', 'cgd-fd']
    """
    names = [one_of("--methods", name.strip(), METHODS) for name in text.split(",")]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ValueError(f"--methods: {name!r} is named twice")
    return names


def applicable(method: str, options: dict[str, Any]) -> dict[str, Any]:
    """Leave out what the method has no use for: λ where there is no penalty, r where there is no probe.

    Examples
    --------
    >>> applicable("gd", {"step": 0.1, "lam": 0.4, "r": 0.01})
    {'step': 0.1}
    """
    direction = METHODS[method]
    useless = set[str]() if direction.penalised else {"lam", "penalty", "b"}
    if not (isinstance(direction, CGD) and direction.curvature == "difference"):
        useless.add("r")
    return {name: value for name, value in options.items() if name not in useless}


def function(name: str, n: int | None) -> Function:
    """Look a test function up, in the dimension asked for.

    Examples
    --------
    >>> function("levy", 3)
    Function('levy', n=3, any_n=True, fmin=0)
    """
    found = functions[one_of("FUNCTION", name, functions)]
    if n is None:
        return found
    try:
        return found.at(n=n)
    except ValueError as error:
        raise ValueError(f"--{error}") from None


def problem(
    name: str, n: int | None, x0: str | None, seed: int, starts: int = 1
) -> tuple[Function, NDArray[np.float64]]:
    """Give the function and where to start: the point, or points drawn evenly inside the bounds.

    Examples
    --------
    >>> problem("levy", None, "1,2,3", seed=0)
    (Function('levy', n=3, any_n=True, fmin=0), array([1., 2., 3.]))
    """
    if x0 is None or x0.strip() == "random":
        fun = function(name, n)
        draws = np.random.default_rng(seed).uniform(*fun.bounds.T, size=(starts, fun.n))
        return fun, draws if starts > 1 else draws[0]
    if starts > 1:
        raise ValueError("--starts: draws its own start points; leave out --x0")
    values = [number(word) for word in x0.split(",")]
    if None in values:
        raise ValueError(f"--x0: expected numbers with commas between, or random; got {x0!r}")
    point = np.array(values, dtype=float)
    any_n = function(name, None).any_n
    fun = function(name, len(point) if n is None and any_n else n)
    if len(point) != fun.n:
        raise ValueError(f"--x0: expected {fun.n} numbers for {fun.name}, got {len(point)}")
    return fun, point


def target(option: str, path: Path | None, suffixes: Iterable[str] = ()) -> Path | None:
    """Check, before anything is run, that a file can be written there.

    Examples
    --------
    >>> target("--plot", Path("run.bmp"), [".png", ".svg"])
    Traceback (most recent call last):
    ValueError: --plot: expected a name ending in .png or .svg, got 'run.bmp'
    """
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
    """Take a list apart at its commas.

    Examples
    --------
    >>> words("gd, cgd,")
    ['gd', 'cgd']
    """
    return [word.strip() for word in text.split(",") if word.strip()]


def prepare(out: Path) -> None:
    """Make the folder, or find out before any work why it cannot be used."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise ValueError(f"--out: {str(out)!r} cannot be written: {reason}") from error
