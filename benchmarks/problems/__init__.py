"""The problems on which optimisers are measured, by name.

There are four suites: "mgh", the problems of Moré, Garbow and Hillstrom; "large", problems of CUTEst type;
"nist", the regression problems of NIST's Statistical Reference Datasets; and "learning", which needs
scikit-learn for its data. The test functions of the SFU library are in `steepen.functions`.

    from benchmarks.problems import problems, suite

    p = problems["helical-valley"]
    p.n, p.x0, p(p.x0), p.grad(p.x0), p.fbest
"""

from . import large, learning, mgh, mgh_sized, nist
from ._problem import Problem
from .nist import Regression

__all__ = ["Problem", "Regression", "problems", "suite"]

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
