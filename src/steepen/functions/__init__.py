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
from typing import cast

from steepen._tools.catalogue import Catalogue
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


# `st.functions["levy"]` subscripts the module, so the module needs a class that can be subscripted.
_KIND = "test function"
sys.modules[__name__].__class__ = Catalogue
functions = cast(Catalogue[Function], sys.modules[__name__])
"""The mapping: this very module, under a name that type checkers know to be a mapping."""
