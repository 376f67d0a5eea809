"""The explorer: an interactive HTML file to drag λ, choose a start, and compare the steps of GD and CGD.

It needs no network and no server. The test functions are exact: their formulas are derived from the
library's; your own function is sampled.

Examples
--------
>>> import tempfile, steepen as st
>>> with tempfile.TemporaryDirectory() as folder:
...     page = st.explore("rosenbrock", out=f"{folder}/explore.html")
...     page.read_text("utf-8")[:15]
'<!doctype html>'
"""

from __future__ import annotations

from ._page import explore

__all__ = ["explore"]
