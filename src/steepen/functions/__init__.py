"""Test functions for optimisers, as a mapping: all 49 of the SFU library, and the paper's quadratic.

The Virtual Library of Simulation Experiments (Surjanovic and Bingham, Simon Fraser University) collects the
functions on which optimisers are tried, in six groups. Each is a `Function` here, with its gradient, H·v,
Hessian, search box and global minimisers; `docs/functions.md` shows them all. It takes any number of points
at once, in single or double precision.

Examples
--------
>>> import steepen as st
>>> f = st.functions["six-hump-camel"]
>>> f.minima.round(4).tolist(), round(f.fmin, 4)
([[0.0898, -0.7127], [-0.0898, 0.7127]], -1.0316)
>>> f.grad([1.0, 0.5]).round(2).tolist()
[2.1, -1.0]
>>> "levy" in st.functions, len(st.functions)
(True, 50)
>>> [name for name in st.functions if st.functions[name].group == "plate-shaped"]
['booth', 'matyas', 'mccormick', 'power-sum', 'zakharov']
"""

import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, cast

from .._tools.check import meant
from . import _bowls, _many_minima, _others, _valleys  # noqa: F401  # pyright: ignore
from ._function import CATALOGUE, Function
from ._quadratic import paper_quadratic, quadratic

__all__ = ["Function", "functions", "quadratic"]

_GROUPS = (
    "many local minima", "bowl-shaped", "plate-shaped", "valley-shaped", "steep ridges/drops", "other",
)  # fmt: skip
# the modules imported above have filled the catalogue
_ENTRIES = sorted(CATALOGUE.values(), key=lambda f: _GROUPS.index(f.group))
_BY_NAME = {f.name: f for f in (*_ENTRIES, paper_quadratic(10))}


class _Catalogue(ModuleType, Mapping[str, Function]):
    """The class of this module, which makes `st.functions["levy"]` work."""

    # Mapping compares by content and so forbids hashing; a module is compared by identity.
    __eq__, __hash__ = object.__eq__, object.__hash__  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)  # so that functions that refer to it can be pickled

    def __getitem__(self, name: str) -> Function:
        if name in _BY_NAME:
            return _BY_NAME[name]
        raise KeyError(f"no test function is named {name!r}; {_meant(name)}")

    def __iter__(self) -> Iterator[str]:
        return iter(_BY_NAME)

    def __len__(self) -> int:
        return len(_BY_NAME)


def _meant(asked: object) -> str:
    """Return "did you mean …?" with the names or titles that contain this, or with a similar name."""
    word = _folded(asked)
    near = [
        repr(key) for key, f in _BY_NAME.items() if word and word in (_folded(key) + " " + _folded(f.title))
    ]
    if near and len(near) <= 4:
        return f"did you mean {' or '.join(near)}?"
    return meant(asked, list(_BY_NAME), "list(st.functions) has all names")


def _folded(name: object) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


sys.modules[__name__].__class__ = _Catalogue
functions = cast(_Catalogue, sys.modules[__name__])
"""This module, typed as a mapping for type checkers."""
