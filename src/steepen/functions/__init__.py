"""The test functions of the SFU Virtual Library of Simulation Experiments, as a mapping.

The module itself maps a name to its `Function`; iteration follows the library's groups.

Examples
--------
>>> import steepen as st
>>> f = st.functions["six-hump-camel"]
>>> f.minima.round(4).tolist(), round(f.fmin, 4)
([[0.0898, -0.7127], [-0.0898, 0.7127]], -1.0316)
>>> "levy" in st.functions, len(st.functions)
(True, 50)
>>> sorted(name for name in st.functions if st.functions[name].group == "plate-shaped")
['booth', 'matyas', 'mccormick', 'power-sum', 'zakharov']
"""

import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import cast

from steepen.functions import (
    bowl_shaped,
    many_local_minima,
    other,
    plate_shaped,
    steep,
    valley_shaped,
)
from steepen.functions._function import Function
from steepen.functions._quadratic import QUADRATIC, quadratic

__all__ = ["Function", "functions", "quadratic"]

_BY_NAME = {
    f.name: f
    for f in (
        *many_local_minima.FUNCTIONS,
        *bowl_shaped.FUNCTIONS,
        *plate_shaped.FUNCTIONS,
        *valley_shaped.FUNCTIONS,
        *steep.FUNCTIONS,
        *other.FUNCTIONS,
        QUADRATIC,
    )
}


class _Functions(ModuleType, Mapping[str, Function]):
    """The class of this module: a module that is also the mapping of its functions."""

    # Mapping compares by content and so forbids hashing; a module is compared by identity.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __getitem__(self, name: str) -> Function:
        try:
            return _BY_NAME[name]
        except KeyError:
            pass
        from difflib import get_close_matches

        near = get_close_matches(str(name), _BY_NAME, cutoff=0.4)
        hint = f"the nearest names are {', '.join(near)}" if near else "no name is near it"
        raise KeyError(f"no test function is called {name!r}; {hint}")

    def __iter__(self) -> Iterator[str]:
        return iter(_BY_NAME)

    def __len__(self) -> int:
        return len(_BY_NAME)

    def __contains__(self, name: object) -> bool:
        return name in _BY_NAME


# `st.functions["levy"]` subscripts the module, so the module needs a class that can be subscripted.
sys.modules[__name__].__class__ = _Functions
functions = cast(_Functions, sys.modules[__name__])
"""The mapping: this very module, under a name that type checkers know to be a mapping."""
