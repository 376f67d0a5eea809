"""Many jobs: run by joblib, and recorded in a file with one line per job."""

from .file import JobFile, narrow, pack, read_head, unpack
from .run import Done, elsewhere, run, send_check

__all__ = ["Done", "JobFile", "elsewhere", "narrow", "pack", "read_head", "run", "send_check", "unpack"]
