"""Helpers for all folders that know nothing of optimisation: checks, files, jobs, optional imports."""
