"""`sweep`: many runs in few batched calls, a table of results, and a file that survives interruption."""

from .results import load_results
from .sweep import sweep

__all__ = ["load_results", "sweep"]
