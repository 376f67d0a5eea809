"""What directions, steps and the iteration compute with in a program that JAX traces.

A run has vectors `(n,)`, also in a batch, which `vmap` makes; a scalar is an array of no dimension. Values
are unknown, so branches depend only on masks that are Python's True or False: `any(mask)` means "may hold",
`all(mask)` "surely holds", and `if backend.any(mask)` skips work that changes nothing where it is False.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from ...arrays import Array, Mask, Scalar, Whole, device, identity, norm
from .._jax import core, jax, jnp
from ..trees import alike, apart

SHORT = 16  # up to this length, forming a matrix costs far more than a product with it
WIDE, MAPPED = 256, 4096  # a larger memory is updated in place, in a single run and under `vmap`
TINY, HUGE = 1e-30, 1e30  # squares outside are summed again, scaled: float32 holds both


class Searching(Protocol):
    """A state of `repeat`: `open` says which rows are not done yet."""

    @property
    def open(self) -> Mask: ...


S = TypeVar("S", bound=Searching)
T = TypeVar("T")


class Backend:
    """A run that JAX traces."""

    num: Any = jnp
    """The namespace of functions of scalars."""
    table: Any = jnp
    """The namespace of small arrays of scalars."""
    xp: Any = jnp
    counter: Any = None
    """The evaluation counter, whose counts are part of the state of a loop."""
    deferred: Any = False
    """Whether a quick run has met a rare case."""
    seldom = False
    """Whether rarely executed code is being traced; it shares one copy of the user's function."""

    def __init__(self, x: Array, alone: bool = False, quick: bool = False):
        self._like, self.alone, self.quick = x, alone, quick
        self._limits, self._apart = jnp.finfo(x.dtype), apart(x)
        self.eps, self._largest = float(self._limits.eps), float(self._limits.max)

    @staticmethod
    def any(mask: Any) -> bool:
        """Return whether the mask may hold for some row."""
        return mask is not False

    @staticmethod
    def all(mask: Any) -> bool:
        """Return whether the mask surely holds for every row."""
        return mask is True

    @staticmethod
    def negate(mask: Any) -> Any:
        """Return the negated mask."""
        return jnp.logical_not(mask)

    @staticmethod
    def and_not(mask: Any, off: Any) -> Any:
        """Return the mask where `off` does not hold."""
        if isinstance(off, bool):
            return False if off else mask
        return mask & jnp.logical_not(off)

    def defers(self, mask: Any, alone: bool = False) -> bool:
        """Return whether rare work is left to another run; what is rare in a run `alone` is not in many."""
        if not self.quick or (alone and not self.alone):
            return False
        self.deferred = self.deferred | mask
        return True

    def some(self, entries: Array) -> Mask:
        """Return the rows in which any entry of an array of bools holds."""
        return entries.any()

    # --- scalars -------------------------------------------------------------------------------------

    def scalar(self, s: Any) -> Any:
        """Return a scalar as the run keeps it."""
        return jnp.asarray(s, dtype=self._like.dtype)

    @staticmethod
    def select(mask: Any, a: Any, b: Any) -> Any:
        """Return `a`, a scalar or a vector, where the mask holds, else `b`."""
        if isinstance(mask, bool):
            return a if mask else b
        return jnp.where(mask, a, b)

    @staticmethod
    def ratio(a: Any, b: Any) -> Any:
        """Return a/b as IEEE arithmetic has it: infinite or NaN where b is 0."""
        return jnp.divide(a, b)

    def at_most(self, limit: float) -> float:
        """Return a limit as scalars of the run can hold it."""
        return min(limit, self._largest)

    def used(self, count: Whole, capacity: int) -> int:
        """Return how many slots of a memory to use after `count` writes; empty ones have no effect."""
        return capacity

    # --- vectors -------------------------------------------------------------------------------------

    def dot(self, a: Array, b: Array) -> Any:
        """Return the inner product."""
        return (a * b).sum()

    def inner(self, *pairs: tuple[Array, Array]) -> Any:
        """Return the inner products of several pairs."""
        return [self.dot(a, b) for a, b in pairs]

    def norm(self, v: Array, near: Any = None) -> Any:
        """Return the norm, scaled by a nearby one where squares may overflow or underflow."""
        if near is None:
            return self.root(self.dot(v, v), v)
        top = self._limits.maxexp
        low, high, unit = 2.0 ** -(top // 3), 2.0 ** (top // 3), 2.0 ** (5 * top // 8)

        def scaled(small: float, large: float) -> Any:
            tiny = (near > 0) & (near < low)  # 0, at a stationary start, gives no scale
            return self.scalar(self.select(near > high, large, self.select(tiny, small, 1.0)))

        return scaled(1 / unit, unit) * self.norm(v * scaled(unit, 1 / unit))

    def root(self, square: Any, v: Array, wild: bool = False) -> Any:
        """Return ‖v‖ from its square; over- and underflow are handled for `wild` vectors only."""
        plain = jnp.sqrt(square)  # a scaled sum would be computed in every iteration
        fits = (square > TINY) & (square < HUGE)
        return plain if not wild or self.defers(~fits) else self.select(fits, plain, norm(v)[0])

    def times(self, s: Any, v: Array) -> Array:
        """Return a vector times a scalar."""
        return jnp.asarray(s, dtype=v.dtype) * v

    def finite(self, v: Array) -> Mask:
        """Return whether all entries of a vector are finite."""
        return jnp.isfinite(v).all()

    def reach(self, p: Array) -> Any:
        """Return ‖p‖: the guard computes it, too."""
        return self.norm(p)

    def arrived(self, v: Array, length: Any) -> Mask:
        """Return whether the length of the step is finite, which saves a test of the point itself."""
        return length < self._largest

    def same(self, a: Array, b: Array) -> Mask:
        """Return whether two vectors are equal."""
        return (a == b).all()

    def own(self, v: Any) -> Array:
        """Return a vector in the run's own dtype."""
        return jnp.asarray(v, dtype=self._like.dtype)

    # --- matrices ------------------------------------------------------------------------------------

    def solve(self, matrix: Array, v: Array) -> Array:
        """Return the solution of a linear system; not finite where the matrix is singular."""
        return jnp.linalg.solve(matrix, v)

    def identity(self, x: Array) -> Array:
        """Return the identity matrix for vectors like x."""
        return identity(x)

    def product(self, matrix: Array, v: Array) -> Array:
        """Return M·v for a symmetric matrix."""
        return matrix @ v

    def diagonal(self, matrix: Any) -> Array:
        """Return the diagonal of a matrix."""
        return (matrix * jnp.eye(matrix.shape[-1], dtype=matrix.dtype)).sum(axis=-1)

    def dense(self, x: Array) -> bool:
        """Return whether to form a matrix that is applied to several vectors like x."""
        return int(x.shape[-1]) <= SHORT

    def rank_one(self, matrix: Array, c: Scalar, a: Array) -> Array:
        """Return M + c·a aᵀ."""
        return matrix + _outer(self.times(c, a), a)

    def rank_two(self, matrix: Array, c: Scalar, a: Array, b: Array) -> Array:
        """Return M + c·(a bᵀ + b aᵀ)."""
        a = self.times(c, a)
        return matrix + _outer(a, b) + _outer(b, a)

    def minus_outer(self, A: Array, c: Array, v: Array) -> Array:
        """Return A with c vᵀ subtracted from as many first rows as c has entries."""
        return self.fill(A, A[..., : c.shape[-1], :] - _outer(c, v))

    def dots(self, A: Array, v: Array) -> Array:
        """Return A·v."""
        return A @ v

    def mix(self, c: Array, A: Array) -> Array:
        """Return Aᵀ·c."""
        return c @ A

    def put(self, a: Any, place: Whole, value: Any, rows: Mask) -> Array:
        """Return `a` with a value in one place of these rows."""
        value = jnp.asarray(value, dtype=a.dtype)
        if a.size > (WIDE if self.alone else MAPPED):
            lax = jax.lax  # faster than a scatter
            old = lax.dynamic_index_in_dim(a, place, keepdims=False)
            return lax.dynamic_update_index_in_dim(a, jnp.where(rows, value, old), place, 0)
        here = (jnp.arange(a.shape[0], device=device(a)) == place) & rows
        return jnp.where(here if a.ndim == 1 else here[:, None], value, a)

    def fill(self, a: Any, value: Array) -> Array:
        """Return `a` with its first entries replaced."""
        whole = a.shape == value.shape
        return value if whole else a.at[tuple(slice(0, length) for length in value.shape)].set(value)

    # --- repetition ----------------------------------------------------------------------------------

    def repeat(self, body: Callable[[S], S], state: S, most: int) -> S:
        """Apply `body` while some row is open, at most `most` times."""
        return body(state) if most == 1 else self._loop(lambda i, s: (i < most) & s.open, body, state)

    def when(self, mask: Mask, work: Callable[[T], T], state: T) -> T:
        """Apply `work` in a `cond`; under `vmap` to all rows if one of them needs it."""
        if isinstance(mask, bool):
            return work(state) if mask else state

        def done(mask: Any, old: Any) -> Any:
            outer, self.seldom = self.seldom, True
            new = self.cast(work(old), old)
            self.seldom = outer
            return mask, new

        def chosen(once: Any, turn: Any) -> Any:
            return jax.lax.cond(turn[1].any(), once, lambda turn: turn, turn)

        return self._in_rows(chosen, done, mask, state)

    def _loop(self, more: Callable[[Any, Any], Any], body: Callable[[Any], Any], state: Any) -> Any:
        """Repeat the body with a state of fixed dtypes; under `vmap` in all rows, while one is open."""

        def again(i: Any, old: Any) -> Any:
            return i + 1, self.cast(body(old), old)

        def looped(once: Any, turn: Any) -> Any:
            return jax.lax.while_loop(lambda turn: more(*turn[1:]).any(), once, turn)

        return self._in_rows(looped, again, 0, state)

    def _in_rows(self, control: Callable[[Any, Any], Any], work: Callable[..., Any], *turn: Any) -> Any:
        """Return the state after `control` of work; under `vmap`, work is mapped and control sees all rows.

        `vmap` of a loop would select for each row whether it keeps the old state. That is not needed, since
        work changes nothing in rows that do not need it.
        """
        flat, tree = jax.tree.flatten((self._handed(), *self.fixed(turn)))

        def done(*flat: Any) -> Any:
            handed, *turn = jax.tree.unflatten(tree, flat)
            self._take(handed)
            new = work(*turn)
            return jax.tree.leaves((self._handed(), *new))

        # `vmap` must see all that is batched, so closed-over arrays become arguments
        traced = jax.make_jaxpr(done)(*flat)

        def controlled(worked: Any, flat: Any) -> Any:
            def once(turn: Any) -> Any:
                return jax.tree.unflatten(tree, worked(jax.tree.leaves(turn)))

            return jax.tree.leaves(control(once, jax.tree.unflatten(tree, flat)))

        @jax.custom_batching.custom_vmap
        def alone(consts: Any, flat: Any) -> Any:
            return controlled(partial(_called, traced.jaxpr, consts), flat)

        @alone.def_vmap
        def _(size: int, batched: Any, consts: Any, flat: Any) -> Any:
            axes = [0 if b else None for b in batched[0]]
            mapped = jax.vmap(partial(_called, traced.jaxpr), (axes, 0), axis_size=size)
            wide: Any = [
                a if b else jnp.broadcast_to(a, (size, *a.shape))
                for a, b in zip(flat, batched[1], strict=True)
            ]
            return controlled(partial(mapped, consts), wide), [True] * len(flat)

        handed, _, end = jax.tree.unflatten(tree, alone(traced.consts, flat))
        self._take(handed)
        return end

    def _handed(self) -> Any:
        """Return what a loop carries besides its state: the counts, and whether a rare case was met."""
        counts = None if self.counter is None else self.counter.counts
        return self.fixed((counts, self.deferred if self.quick else None))

    def _take(self, handed: Any) -> None:
        counts, deferred = handed
        if counts is not None:
            self.counter.counts = counts
        self.deferred = False if deferred is None else deferred

    def fixed(self, state: Any) -> Any:
        """Return a state with arrays in place of Python numbers, integers with 32 bits."""

        def array(a: Any) -> Any:
            if isinstance(a, float):
                return self.scalar(a)
            a = jnp.asarray(a)
            return a.astype("int32") if a.dtype.kind == "i" else a

        return alike(jax.tree.map(array, state), self._apart)

    def cast(self, new: Any, old: Any) -> Any:
        """Return a state with the dtypes of another one."""
        array: Any = jnp.asarray
        return alike(jax.tree.map(lambda a, b: array(a, b.dtype), new, old), self._apart)


def _outer(a: Array, b: Array) -> Array:
    return a[..., :, None] * b[..., None, :]


def _called(jaxpr: Any, consts: Any, given: Any) -> Any:
    return core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, consts))(*given)
