"""The methods as JAX traces them, with masks in place of branches; only the files of `jax` import these.

Eager runs have plain Python of their own. What is one here and there is said once: tests compare the runs.
"""
