"""Reproduction of the paper: its table, figures and theory, each compared with the printed values.

`reproduce` runs all items and writes a page, as the command `steepen reproduce` does; `ITEMS` has them one by
one. `steepen.paper.egr` has the experiments on explicit gradient regularisation, and `steepen.paper.recover`
finds the settings that the paper leaves out. `explore` writes a page on which λ can be dragged. Users,
the command and benchmarks call it; the library does not.
"""

from __future__ import annotations

from ._items import Claim, Report
from ._reproduce import ITEMS, reproduce
from .explorer import explore

__all__ = ["ITEMS", "Claim", "Report", "explore", "reproduce"]
