"""Reproduction of the paper: its table, figures and theory, each compared with the printed values.

`reproduce` runs it all and writes a page; `steepen reproduce` is the same from the command line. Every item
is a record in `ITEMS` with a `run()` of its own; `steepen.paper.egr` holds the experiments on explicit
gradient regularisation.

Examples
--------
>>> from steepen.paper import ITEMS
>>> ITEMS["table1"].section
'Section 4'
"""

from __future__ import annotations

from ._items import Claim, Report
from .reproduce import ITEMS, reproduce

__all__ = ["ITEMS", "Claim", "Report", "reproduce"]
