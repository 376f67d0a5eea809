"""Faults of the part `jax` of the suite (conftest.py)."""

from . import Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        "jax/_derivative.py",
        "(known * moved, told * at(fun))",
        "(known * moved, at(fun))",
        "the value of a run without success has no derivative",
    ),
    Fault(
        "jax/_derivative.py",
        "moved if edge is None else moved + held * shift",
        "moved",
        "a variable that a bound holds follows the bound",
    ),
    Fault(
        "jax/_derivative.py",
        "(held * shift, change)",
        "(0 * shift, change)",
        "free variables follow those that bounds hold",
    ),
    Fault(
        "jax/_derivative.py",
        "held, ~idle.any(axis=-1))",
        "held, jnp.ones(x.shape[:-1], bool))",
        "at a bound with a multiplier of zero x has no derivative",
    ),
    Fault(
        "jax/_trace.py",
        "jax.make_jaxpr(anew, return_shape=True)",
        "jax.make_jaxpr(fun, return_shape=True)",
        "a method whose object has changed is run as it is now",
    ),
    Fault(
        "jax/_trace.py",
        'return repr(a.val) if hasattr(a, "val")',
        'return "" if hasattr(a, "val")',
        "a program belongs to what the function does, numbers included",
    ),
    Fault(
        "jax/_minimize.py",
        "return self.status < int(Status.MAX_ITERATIONS)",
        "return self.status <= int(Status.MAX_ITERATIONS)",
        "a run of a batch that ends at its limit is no success",
    ),
    Fault(
        "jax/_minimize.py",
        'name.endswith((".value", ".r"))',
        'name.endswith(".value")',
        "each start may have an r of its own",
    ),
    Fault(
        "jax/_program.py",
        'Tolerances: ("g", "f", "x", "rel")',
        'Tolerances: ("g", "f", "rel")',
        "a new number, of whichever kind, compiles nothing",
    ),
    Fault(
        "jax/_program.py",
        'Budget: ("grads", "evals", "iters")',
        'Budget: ("grads", "iters")',
        "a new limit, of whichever kind, compiles nothing",
    ),
    Fault(
        "jax/_loop.py",
        "(self.bounds[0] > self.bounds[1]).any()",
        "(self.bounds[0] > self.bounds[1]).all()",
        "one pair of crossed bounds among many is infeasible",
    ),
    Fault(
        "jax/_loop.py",
        "c.move.before = here.f",
        "c.move.before = f",
        "a compiled run ends by ftol where the eager one does",
    ),
    Fault(
        "jax/_loop.py",
        "place = c.k % ring.k.shape[0]",
        "place = c.k % (ring.k.shape[0] - 1)",
        "the last K iterates of a compiled run are kept",
    ),
    Fault(
        "jax/_lanes.py",
        "{name: value[rows] for name, value in own.items()}",
        "{name: value[jnp.arange(rows.size)] for name, value in own.items()}",
        "a start that takes a free slot brings its own numbers",
    ),
    Fault(
        "jax/_lanes.py",
        "jnp.minimum(s.taken + block, count)",
        "jnp.minimum(s.taken + block + 1, count)",
        "every start of a batch is run",
    ),
    Fault(
        "jax/_lanes.py",
        "short = -count % mesh.size",
        "short = count % mesh.size",
        "a batch that the devices do not divide is shared out all the same",
    ),
    Fault(
        "jax/_engine.py",
        "length = k.max(axis=1) + 1 - first",
        "length = k.max(axis=1) - first",
        "the trace of a batch has each run's last iterate",
    ),
    Fault(
        "jax/_function.py",
        "return self._alone or self._traced.seldom",
        "return True",
        "in a batch a rejected trial costs no gradient",
    ),
    Fault(
        "jax/_kernel.py",
        "return name in ARITHMETIC",
        "return True",
        "a kernel has no sorts and no gathers in it",
    ),
    Fault(
        "optimistix.py",
        "failed = status >= int(Status.MAX_ITERATIONS)",
        "failed = status > int(Status.MAX_ITERATIONS)",
        "a run that ends at its own budget is not told to optimistix as a success",
    ),
    Fault(
        "optimistix.py",
        "return there, _State(lane, jnp.logical_not(running)), fn(y, args)[1]",
        "return there, _State(lane, jnp.logical_not(lane.running)), fn(y, args)[1]",
        "optimistix sees the point at which a run ended",
    ),
    Fault(
        "optimistix.py",
        '"fwd": jax.jacfwd',
        '"fwd": jax.grad',
        "a function that has a derivative in forward mode alone can be minimised",
    ),
)
