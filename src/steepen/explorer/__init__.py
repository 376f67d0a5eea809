"""The explorer: one HTML file in which to drag λ, choose a start, and watch the methods walk.

It needs no network and no server. Test functions are walked on as they are, by formulas made of the library's
own; a function of yours is sampled.

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
