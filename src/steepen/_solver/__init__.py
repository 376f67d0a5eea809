"""The eager driver, which `minimize` runs; the JAX driver shares its iteration, settings and scaling."""
