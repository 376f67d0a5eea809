"""Test functions of the SFU Virtual Library of Simulation Experiments, as a mapping for users and the paper.

The module itself maps names to `Function` objects, of one or two variables; "quadratic" has ten.

Examples
--------
>>> import steepen as st
>>> f = st.functions["six-hump-camel"]
>>> f.minima.round(4).tolist(), round(f.fmin, 4)
([[0.0898, -0.7127], [-0.0898, 0.7127]], -1.0316)
>>> "levy" in st.functions, len(st.functions)
(True, 23)
>>> sorted(name for name in st.functions if st.functions[name].group == "plate-shaped")
['booth', 'matyas', 'zakharov']
"""

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, cast

from .._tools.check import meant
from . import _formulas  # noqa: F401  # pyright: ignore
from ._function import CATALOGUE, Function
from ._quadratic import paper_quadratic, quadratic

__all__ = ["Function", "functions", "quadratic"]

_BY_NAME = {**CATALOGUE, "quadratic": paper_quadratic(10)}  # the formulas imported above filled it


class _Catalogue(ModuleType, Mapping[str, Function]):
    """The class of this module, which makes `st.functions["levy"]` work."""

    # Mapping compares by content and so forbids hashing; a module is compared by identity.
    __eq__, __hash__ = object.__eq__, object.__hash__  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)  # so that functions that refer to it can be pickled

    def __getitem__(self, name: str) -> Function:
        if name in _BY_NAME:
            return _BY_NAME[name]
        hint = meant(name, list(_BY_NAME), "no similar name exists")
        raise KeyError(f"no test function is named {name!r}; {hint}")

    def __iter__(self) -> Iterator[str]:
        return iter(_BY_NAME)

    def __len__(self) -> int:
        return len(_BY_NAME)


sys.modules[__name__].__class__ = _Catalogue
functions = cast(_Catalogue, sys.modules[__name__])
"""This module, typed as a mapping for type checkers."""
