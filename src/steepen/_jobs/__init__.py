"""Many jobs: run where joblib says, and kept in a file of one line a job."""

from .file import JobFile
from .run import Done, run, send_check

__all__ = ["Done", "JobFile", "run", "send_check"]
