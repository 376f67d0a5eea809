"""The paper, run again: its table, figures and theory, each compared with what is printed.

`reproduce` runs it all and writes a page; `steepen reproduce` is the same from the command line. Every item
is a module here with a `run()` of its own; `steepen.paper.egr` holds the experiments on explicit gradient
regularisation.

Examples
--------
>>> import importlib
>>> from steepen.paper import ITEMS
>>> importlib.import_module(ITEMS["table1"]).NAME
'table1'
"""

from __future__ import annotations

from ._claims import Claim, Outcome, Table
from ._record import Item, Report
from .reproduce import ITEMS, reproduce

__all__ = ["ITEMS", "Claim", "Item", "Outcome", "Report", "Table", "reproduce"]
