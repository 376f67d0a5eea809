"""The problems on which optimisers are measured, as a mapping.

The module itself maps a name to its `Problem`. There are four suites: "mgh", the problems of Moré,
Garbow and Hillstrom; "large", problems of CUTEst type; "nist", the regression problems of NIST's
Statistical Reference Datasets; and "learning", which needs scikit-learn for its data.

Examples
--------
>>> import steepen as st
>>> p = st.problems["helical-valley"]
>>> p.n, p.x0.tolist(), float(p(p.x0)), p.fbest
(3, [-1.0, 0.0, 0.0], 2500.0, 0.0)
>>> "arwhead" in st.problems, len(st.problems)
(True, 157)
>>> [q.name for q in st.problems.suite("mgh")][:3]
['freudenstein-roth', 'powell-badly-scaled', 'brown-badly-scaled']
"""

import sys
from typing import cast

from steepen._tools.catalogue import Catalogue
from steepen.problems import large, learning, mgh, mgh_sized, nist
from steepen.problems._problem import Problem
from steepen.problems.nist import Regression

__all__ = ["Problem", "Regression", "problems", "suite"]

_SUITES: dict[str, tuple[Problem, ...]] = {
    "mgh": (*mgh.PROBLEMS, *mgh_sized.PROBLEMS),
    "large": large.PROBLEMS,
    "nist": nist.PROBLEMS,
    "learning": learning.PROBLEMS,
}
_BY_NAME = {problem.name: problem for problems in _SUITES.values() for problem in problems}


def suite(name: str) -> list[Problem]:
    """Return the problems of a suite: "mgh", "large", "nist" or "learning".

    Examples
    --------
    >>> import steepen as st
    >>> {name: len(st.problems.suite(name)) for name in ("mgh", "large", "nist", "learning")}
    {'mgh': 59, 'large': 39, 'nist': 54, 'learning': 5}
    """
    if name not in _SUITES:
        raise ValueError(f"name: expected one of {', '.join(_SUITES)}, got {name!r}")
    return list(_SUITES[name])


# `problems["beale"]` subscripts the module, so the module needs a class that can be subscripted.
_KIND = "problem"
sys.modules[__name__].__class__ = Catalogue
problems = cast(Catalogue[Problem], sys.modules[__name__])
"""The mapping: this very module, under a name that type checkers know to be a mapping."""
