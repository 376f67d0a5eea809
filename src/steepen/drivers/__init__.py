"""Drivers answer what runs ask: they evaluate, count, deny, watch the clock, call back, trace and save.

single        one run                                     `minimize` from a start of shape (n,)
lockstep      many runs, one vectorised call per round    `minimize` from a batch (B, n)
fixed_steps   the paper's methods with fixed steps, vectorised over the rows of a batch
checkpoint    saves a run with the answers since its last iterate, and resumes it
told          the user answers                          `Run`
log           every evaluation as a line of JSON, which later runs do not make again
"""
