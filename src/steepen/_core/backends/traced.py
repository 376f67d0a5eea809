"""Backend of a program that JAX traces, for the JAX driver: scalars are arrays, their values unknown."""

# what JAX maps over has no types
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..arrays import Array, Mask, Scalar, Whole, norm
from .single import HUGE, TINY, S, Single, T

SHORT = 16  # up to this length, forming a matrix costs far more than a product with it
WIDE, MAPPED = 256, 4096  # a larger memory is updated in place, in a single run and under `vmap`


class Traced(Single):
    """A run that JAX traces: branches depend only on masks that are Python's True or False."""

    counter: Any = None
    """The evaluation counter, whose counts are part of the state of a loop."""
    deferred: Any = False
    """Whether a quick run has met a rare case."""
    seldom = False
    """Whether rarely executed code is being traced; it shares one copy of the user's function."""

    def __init__(self, x: Array, alone: bool = False, quick: bool = False):
        super().__init__(x)
        self._jax, self.alone, self.quick = _jax(), alone, quick
        self.num = self.table = self.xp = self._jax.numpy
        self._limits, self._apart = self.xp.finfo(x.dtype), apart(x)
        self.eps, self._largest = float(self._limits.eps), float(self._limits.max)
        self.negate, self.ratio = self.num.logical_not, self.num.divide
        self.where, self.scaled = self.select, self.times
        self.copy = self.host = lambda v: v

    @staticmethod
    def any(mask: Any) -> bool:
        return mask is not False

    @staticmethod
    def all(mask: Any) -> bool:
        return mask is True

    def defers(self, mask: Any, alone: bool = False) -> bool:
        if not self.quick or (alone and not self.alone):
            return False
        self.deferred = self.deferred | mask
        return True

    def and_not(self, mask: Any, off: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(off, bool):
            return False if off else mask
        return mask & self.negate(off)

    def scalar(self, s: Any) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.xp.asarray(s, dtype=self._like.dtype)

    def select(self, mask: Any, a: Any, b: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if isinstance(mask, bool):
            return a if mask else b
        return self.num.where(mask, a, b)

    def at_most(self, limit: float) -> float:
        return min(limit, self._largest)

    def used(self, count: Whole, capacity: int) -> int:
        return capacity

    def dot(self, a: Array, b: Array) -> Any:
        return (a * b).sum()

    def inner(self, *pairs: tuple[Array, Array]) -> Any:
        return [self.dot(a, b) for a, b in pairs]

    def norm(self, v: Array, near: Any = None) -> Any:
        """Return the norm, scaled by a nearby one where squares may overflow or underflow."""
        if near is None:
            return super().norm(v)
        top = self._limits.maxexp
        low, high, unit = 2.0 ** -(top // 3), 2.0 ** (top // 3), 2.0 ** (5 * top // 8)

        def scaled(small: float, large: float) -> Any:
            tiny = (near > 0) & (near < low)  # 0, at a stationary start, gives no scale
            return self.scalar(self.select(near > high, large, self.select(tiny, small, 1.0)))

        return scaled(1 / unit, unit) * super().norm(v * scaled(unit, 1 / unit))

    def root(self, square: Any, v: Array, wild: bool = False) -> Any:
        plain = self.num.sqrt(square)  # a scaled sum would be computed in every iteration
        fits = (square > TINY) & (square < HUGE)
        return plain if not wild or self.defers(~fits) else self.select(fits, plain, norm(v)[0])

    def times(self, s: Scalar, v: Array) -> Array:
        return self.num.asarray(s, dtype=v.dtype) * v

    def some(self, entries: Array) -> Mask:
        return entries.any()

    def finite(self, v: Array) -> Mask:
        return self.num.isfinite(v).all()

    def reach(self, p: Array) -> Any:
        return self.norm(p)  # the guard computes it, too

    def arrived(self, v: Array, length: Any) -> Mask:
        """Return whether the length of the step is finite, which saves a test of the point itself."""
        return length < self._largest

    def same(self, a: Array, b: Array) -> Mask:
        return (a == b).all()

    def product(self, matrix: Array, v: Array) -> Array:
        return matrix @ v

    def diagonal(self, matrix: Any) -> Array:
        return (matrix * self.num.eye(matrix.shape[-1], dtype=matrix.dtype)).sum(axis=-1)

    def dense(self, x: Array) -> bool:
        return int(x.shape[-1]) <= SHORT

    def put(self, a: Any, place: Whole, value: Any, rows: Mask) -> Array:
        value = self.num.asarray(value, dtype=a.dtype)
        if a.size > (WIDE if self.alone else MAPPED):
            lax = self._jax.lax  # faster than a scatter
            old = lax.dynamic_index_in_dim(a, place, keepdims=False)
            return lax.dynamic_update_index_in_dim(a, self.num.where(rows, value, old), place, 0)
        return super().put(a, place, value, rows)

    def own(self, v: Any) -> Array:
        return self.num.asarray(v, dtype=self._like.dtype)

    # --- repetition ----------------------------------------------------------------------------------

    def repeat(self, body: Callable[[S], S], state: S, most: int) -> S:
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
            return self._jax.lax.cond(turn[1].any(), once, lambda turn: turn, turn)

        return self._in_rows(chosen, done, mask, state)

    def _loop(self, more: Callable[[Any, Any], Any], body: Callable[[Any], Any], state: Any) -> Any:
        """Repeat the body with a state of fixed dtypes; under `vmap` in all rows, while one is open."""

        def again(i: Any, old: Any) -> Any:
            return i + 1, self.cast(body(old), old)

        def looped(once: Any, turn: Any) -> Any:
            return self._jax.lax.while_loop(lambda turn: more(*turn[1:]).any(), once, turn)

        return self._in_rows(looped, again, 0, state)

    def _in_rows(self, control: Callable[[Any, Any], Any], work: Callable[..., Any], *turn: Any) -> Any:
        """Return the state after `control` of work; under `vmap`, work is mapped and control sees all rows.

        `vmap` of a loop would select for each row whether it keeps the old state. That is not needed, since
        work changes nothing in rows that do not need it.
        """
        jax = self._jax
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
                a if b else self.num.broadcast_to(a, (size, *a.shape))
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
            a = self.num.asarray(a)
            return a.astype("int32") if a.dtype.kind == "i" else a

        return alike(self._jax.tree.map(array, state), self._apart)

    def cast(self, new: Any, old: Any) -> Any:
        """Return a state with the dtypes of another one."""
        array: Any = self.num.asarray
        return alike(self._jax.tree.map(lambda a, b: array(a, b.dtype), new, old), self._apart)  # pyright: ignore


def apart(arrays: Any) -> Any:
    """Return a mask, False, that varies over devices as the arrays do; None outside of a `shard_map`."""
    jax = _jax()
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return None
    return sum(jax.numpy.zeros_like(a, dtype=bool).any() for a in jax.tree.leaves(arrays)) > 0


def alike(tree: Any, mask: Any) -> Any:
    """Return arrays that vary over devices as the mask does, since loops and branches need matching types."""
    if mask is None:
        return tree
    return _jax().tree.map(lambda a: _jax().numpy.where(mask, a, a), tree)


def _called(jaxpr: Any, consts: Any, given: Any) -> Any:
    import jax.extend

    core: Any = jax.extend.core
    return core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, consts))(*given)


def _jax() -> Any:
    import jax  # here, so that `import steepen` stays light

    return jax
