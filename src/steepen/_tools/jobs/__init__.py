"""Many jobs, run by joblib and recorded in a file, a line each: for sweeps, `train`, paper and benchmarks."""

from .file import JobFile, read_head, unpack
from .run import Done, run

__all__ = ["Done", "JobFile", "read_head", "run", "unpack"]
