"""Many jobs: run by joblib, and recorded in a file with one line per job."""

from .file import JobFile, read_head, unpack
from .run import Done, run

__all__ = ["Done", "JobFile", "read_head", "run", "unpack"]
