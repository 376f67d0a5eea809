"""Many jobs, run here or elsewhere and recorded in a file, for sweeps, `train`, paper and benchmarks."""

from .file import JobFile, read_head, unpack
from .lines import write_lines
from .run import Done, run

__all__ = ["Done", "JobFile", "read_head", "run", "unpack", "write_lines"]
