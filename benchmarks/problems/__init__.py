"""The problems on which optimisers are measured: data and functions, no loops over solvers.

Four suites have references for every value and gradient: "mgh", the problems of Moré, Garbow and Hillstrom;
"large", problems of CUTEst type; "nist", the regression problems of NIST's Statistical Reference Datasets;
and "learning", which needs scikit-learn for its data. `SETS` has these and all others, as cases of a race.
The test functions of the SFU library are in `steepen.functions`.

    from benchmarks.problems import problems, suite

    p = problems["helical-valley"]
    p.n, p.x0, p(p.x0), p.grad(p.x0), p.fbest
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module

from . import large, learning, mgh, mgh_sized, nist
from ._case import Case, case_of
from ._problem import Problem
from .nist import Regression

__all__ = ["SETS", "Case", "Problem", "Regression", "cases", "problems", "suite"]

_SUITES: dict[str, tuple[Problem, ...]] = {
    "mgh": (*mgh.PROBLEMS, *mgh_sized.PROBLEMS),
    "large": large.PROBLEMS,
    "nist": nist.PROBLEMS,
    "learning": learning.PROBLEMS,
}
problems = {problem.name: problem for suite in _SUITES.values() for problem in suite}


def suite(name: str) -> list[Problem]:
    """Return the problems of a suite: "mgh", "large", "nist" or "learning"."""
    if name not in _SUITES:
        raise ValueError(f"name: expected one of {', '.join(_SUITES)}, got {name!r}")
    return list(_SUITES[name])


def _suite(name: str, most: float = float("inf")) -> Callable[[], Iterator[Case]]:
    return lambda: (case_of(problem) for problem in _SUITES[name] if problem.n <= most)


def _module(name: str, *arguments: str) -> Callable[[], Iterator[Case]]:
    return lambda: import_module(f"{__name__}.{name}").cases(*arguments)


SETS: dict[str, tuple[str, Callable[[], Iterator[Case]]]] = {
    "mgh": ("Moré, Garbow and Hillstrom, n = 2 … 500", _suite("mgh")),
    "mgh-20": ("those of them with n ≤ 20", _suite("mgh", 20)),
    "mgh-6": ("those of them with n ≤ 6", _suite("mgh", 6)),
    "large": ("problems of CUTEst type, n = 50 … 1000", _suite("large")),
    "nist": ("NIST's regressions", _suite("nist")),
    "learning": ("training on scikit-learn's data", _suite("learning")),
    "held-out": ("191 problems on which no constant was chosen", _module("held_out")),
    "others": ("70 such problems without gradients", _module("others")),
    "more-wild": ("the 53 problems of Moré and Wild, without gradients", _module("more_wild")),
    "more-wild-nonsmooth": ("sums of |r| in place of r²", _module("more_wild", "nonsmooth")),
    "more-wild-wavy": ("with an oscillation of 1e-3", _module("more_wild", "wavy")),
    "five": ("five smooth functions from eight starts", _module("five")),
    "kinks": ("600 convex functions with a kink at the minimum, without gradients", _module("kinks")),
    "coarse": ("five models whose values have few digits, without gradients", _module("coarse")),
    "few-digits": ("180 functions that round x, without gradients", _module("few_digits")),
    "processes": ("48 fits of Gaussian processes, with bounds", _module("processes")),
}
"""The sets of a race by name: what they are, and their cases."""


@cache
def cases(name: str) -> dict[str, Case]:
    """Return the cases of a set by name."""
    if name not in SETS:
        raise ValueError(f"sets: expected some of {', '.join(SETS)}, got {name!r}")
    return {case.name: case for case in SETS[name][1]()}
