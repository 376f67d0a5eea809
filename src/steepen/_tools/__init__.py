"""Small helpers that know nothing of optimisation: checks, files, jobs, optional imports."""
