"""Many jobs: run where joblib says, and kept in a file of one line a job."""

from .file import JobFile, narrow, pack, read_head, unpack
from .run import Done, elsewhere, run, send_check

__all__ = ["Done", "JobFile", "elsewhere", "narrow", "pack", "read_head", "run", "send_check", "unpack"]
