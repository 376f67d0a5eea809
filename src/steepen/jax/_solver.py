"""`steepen.jax.Solver`: a run that its user drives, iteration by iteration, also in a program."""

from __future__ import annotations

from typing import Any, Unpack

from .._call.keywords import RunSettings, spelled_out
from ..methods import Method
from ._jax import jax, jnp, plain
from ._minimize import prepared
from ._run import Run, State
from ._solution import Solution


class Solver:
    """A run as three pure functions: `init`, then `step` until `terminate`; and its `solution` at any time.

    They may be called inside `jit`, `scan` and `vmap`, and states are tuples of arrays, to look at, to save,
    and to go on from. In a state, `x`, `f`, `g` and `k` are the iterate, its value, ∇f and its number;
    points are vectors there, also where they are trees. No derivatives pass through the steps.

    Parameters
    ----------
    fun, x0, args, method, bounds, trace, has_aux, **settings
        As in `steepen.jax.minimize`; the values of x0 are not used, only its shapes and dtypes.

    Examples
    --------
    >>> import jax.numpy as jnp, steepen.jax as sj
    >>> solver = sj.Solver(lambda x: ((x - 1) ** 2).sum(), jnp.zeros(2), method="gd", step=0.25)
    >>> state = solver.init(jnp.zeros(2))
    >>> while not solver.terminate(state):
    ...     state = solver.step(state)
    >>> sol = solver.solution(state)
    >>> bool(sol.success), sol.x.round(2).tolist()
    (True, [1.0, 1.0])
    """

    @plain()
    @spelled_out(RunSettings)
    def __init__(
        self, fun: Any, x0: Any, args: Any = (), method: str | Method = "cgd-auto", *, bounds: Any = None,
        trace: int | None = None, has_aux: bool = False, **settings: Unpack[RunSettings],
    ):  # fmt: skip
        asked = prepared(fun, x0, args, method, bounds, trace, False, None, has_aux, settings)
        self._program, self._inputs, self._aux = asked.program, asked.inputs, asked.aux
        self._run = Run(asked.program, asked.inputs, asked.x, alone=True)

    @plain()
    def init(self, x0: Any) -> State:
        """Return the state at a start, where f and ∇f are evaluated.

        Examples
        --------
        >>> import jax.numpy as jnp, steepen.jax as sj
        >>> solver = sj.Solver(lambda x: (x**2).sum(), jnp.zeros(2))
        >>> solver.init(jnp.ones(2)).g.tolist()
        [2.0, 2.0]
        """
        return self._run.start(self._program.shape.vector(x0))

    @plain()
    def step(self, state: State) -> State:
        """Return the state after an iteration, its line search included; a run that has ended stays.

        Examples
        --------
        >>> import jax, jax.numpy as jnp, steepen.jax as sj
        >>> solver = sj.Solver(lambda x: (x**2).sum(), jnp.zeros(2), method="gd", step=0.25)
        >>> advance = lambda state, _: (solver.step(state), state.x[0])
        >>> jax.lax.scan(advance, solver.init(jnp.ones(2)), None, length=3)[1].tolist()
        [1.0, 0.5, 0.25]
        """
        return jax.lax.cond(state.running, self._run.step, lambda state: state, state)

    def terminate(self, state: State) -> Any:
        """Return whether the run has ended.

        Examples
        --------
        >>> import jax.numpy as jnp, steepen.jax as sj
        >>> solver = sj.Solver(lambda x: (x**2).sum(), jnp.zeros(2))
        >>> [bool(solver.terminate(solver.init(x))) for x in (jnp.ones(2), jnp.zeros(2))]
        [False, True]
        """
        return jnp.logical_not(state.running)

    @plain()
    def run(self, state: State) -> State:
        """Return the state at the end of the run, also of one that has ended by another solver's limits.

        A state goes on where it was: with its pairs, its counts and its trace. `fun`, the method and the
        shapes must be those of the solver that made it; tolerances, budget and args may be others.

        Examples
        --------
        >>> import jax.numpy as jnp, steepen as st, steepen.jax as sj
        >>> def solver(iters):
        ...     return sj.Solver(lambda x: (x**4).sum(), jnp.zeros(2), budget=st.Budget(iters=iters))
        >>> first = solver(3)
        >>> short = first.run(first.init(jnp.ones(2)))
        >>> long = solver(100).run(short)
        >>> int(short.k), bool(solver(100).solution(long).success)
        (3, True)
        """
        run = self._run
        return jax.lax.while_loop(lambda s: s.running, run.step, run.resumed(state))

    @plain()
    def solution(self, state: State) -> Solution:
        """Return the solution so far; while the run goes on, its status is −1.

        Examples
        --------
        >>> import jax.numpy as jnp, steepen.jax as sj
        >>> solver = sj.Solver(lambda x: (x**2).sum(), jnp.zeros(2))
        >>> solver.solution(solver.init(jnp.ones(2))).fun.item()
        2.0
        """
        found, shape = self._run.solution(state), self._program.shape
        aux = self._program.aux(found.x, self._inputs.args)
        return found._replace(
            x=shape.point(found.x), jac=shape.point(found.jac), best_x=shape.point(found.best_x),
            aux=jax.tree.unflatten(self._aux, aux) if self._program.fun.adds else None,
        )  # fmt: skip
