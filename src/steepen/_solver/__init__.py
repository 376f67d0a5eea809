"""The eager driver: the loop, and what records, saves, shows and ends a run."""
