"""`sweep` and `load_results`, public names of steepen: many runs in batched calls, resumed from a file."""

from .results import load_results
from .sweep import sweep

__all__ = ["load_results", "sweep"]
