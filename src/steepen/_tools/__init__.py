"""Small helpers that know nothing of optimisation: checks, files, catalogues, optional imports."""
