"""`minimize`, and the reading of its arguments, which sweeps, the JAX driver and integrations share."""
