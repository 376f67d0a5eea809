"""An interactive page in one HTML file: drag λ, choose a start, and compare the steps of GD and CGD.

It needs no network and no server. The test functions are exact: their formulas are derived from the
library's; your own function is sampled. Users, `steepen explore` and `reproduce` call `explore`.
"""

from __future__ import annotations

from ._page import explore

__all__ = ["explore"]
