"""`sweep`: many runs as few batched calls, a table of them, and a file that a kill does not harm."""

from .results import load_results
from .sweep import sweep

__all__ = ["load_results", "sweep"]
