"""Many runs in one program: a fixed number of slots, each of which takes the next start when it is done.

Slots are refilled in blocks: a start then costs a fraction of an iteration of all slots.
"""

# what JAX maps over has no types
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._core.backends.traced import alike, apart
from ._jax import compiled, is_traced, jax, jnp
from ._loop import DEFERRED, Driver, Inputs, Slot
from ._program import Program
from ._solution import Solution

BLOCK = 4
"""A block is this fraction of all slots."""

STEP = 4
"""Batches are padded to 2, 8, 32, … starts, by this factor: those of one size share a program."""

NARROW, WIDE = 128, 1 << 17
"""The default number of slots: on a CPU, whose cache should hold them, and elsewhere."""


def solve(program: Program, x: Any, inputs: Inputs) -> Solution:
    """Run from a start: in a direct call quickly, without rare cases, which compiles in half the time."""
    if not is_traced((x, inputs)):
        found = one(program, True, x, inputs)
        if int(found.status) != DEFERRED:
            return found
    return one(program, False, x, inputs)


@compiled(0, 1)
def one(program: Program, quick: bool, x: Any, inputs: Inputs) -> Solution:
    """Run from a start, quickly or with all rare cases."""
    return Driver(program, inputs, x, quick=quick).run(x)


def solve_many(program: Program, starts: Any, inputs: Inputs, slots: int | None, mesh: Any) -> Solution:
    """Run from every start, as `solve` does from one; rows after the last start are padding."""
    numbers = inputs.numbers.items()  # own are those with one value per start
    own = {name: v for name, v in numbers if v.ndim == 1 and name.endswith((".value", ".r"))}
    shared = inputs._replace(numbers={name: v for name, v in numbers if name not in own})
    if mesh is not None:
        return _sharded(program, slots, mesh, starts, shared, own)

    def run(quick: bool, rows: Any) -> Solution:
        size = 2
        while size < len(rows):
            size *= STEP
        taken = _taken((starts, own), np.pad(rows, (0, size - len(rows)), "edge"))
        return many(program, quick, min(_most(slots), size // 2), taken[0], len(rows), shared, taken[1])

    every: Any = np.arange(int(starts.shape[0]))
    if is_traced((starts, inputs)):
        return run(False, every)
    found = run(True, every)
    rows = np.flatnonzero(np.asarray(found.status)[: len(every)] == DEFERRED)
    if not len(rows):
        return found
    return jax.tree.map(lambda a, b: a.at[rows].set(b[: len(rows)]), found, run(False, rows))


def _most(slots: int | None) -> int:
    """Return the maximum number of slots."""
    return (NARROW if jax.default_backend() == "cpu" else WIDE) if slots is None else slots


@jax.jit
def _taken(arrays: Any, rows: Any) -> Any:
    return jax.tree.map(lambda a: a[rows], arrays)


class _State(NamedTuple):
    slots: tuple[Slot, dict[str, Any]]
    """The runs, and the numbers that are theirs."""
    rows: Any
    """The start of each slot; past the last one if it has none."""
    taken: Any
    """Number of starts taken."""
    found: Solution


class _Slots:
    """Runs from the first `count` starts; `own` are the numbers with one value per start."""

    def __init__(
        self, program: Program, quick: bool, width: int, starts: Any, count: Any, shared: Inputs,
        own: dict[str, Any],
    ):  # fmt: skip
        self.program, self.quick, self.shared = program, quick, shared
        self.width, self.block, self.size = width, max(1, width // BLOCK), starts.shape[0]
        self.count, rest = jnp.asarray(count, jnp.int32), (0, -self.size % self.block)
        self.starts = jax.tree.map(lambda a: jnp.pad(a, (rest, (0, 0))[: a.ndim]), (starts, own))
        # `jit`, so that all of it is mapped in one go, and shares one copy of the user's function
        self.start = jax.vmap(jax.jit(lambda x, own: (self._driver(x, own).start(x), own)))
        self.end = jax.vmap(lambda slot, own: self._driver(slot.c.point.x, own).end(slot))

    def run(self) -> Solution:
        """Run until all starts are taken, and all slots are done."""
        idle = jax.eval_shape(lambda: self.start(*self._next(0, self.width)))
        found = _zeros(jax.eval_shape(self.end, *idle), self.size)
        rows = jnp.full(self.width, self.size, jnp.int32)  # no slot has a start yet
        s = _State(_zeros(idle, self.width), rows, jnp.zeros_like(self.count), found)
        s = alike(s, apart(self.starts[0]))
        s = jax.lax.while_loop(lambda s: (s.rows < self.size).any() | (s.taken < self.count), self._refill, s)
        return s.found

    def _driver(self, x: Any, own: dict[str, Any]) -> Driver:
        inputs = self.shared._replace(numbers=self.shared.numbers | own)
        return Driver(self.program, inputs, x, alone=False, quick=self.quick)

    def _next(self, first: Any, rows: int) -> Any:
        """Return some starts in a row; not by a gather, for which XLA would wake other threads."""
        return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, rows), self.starts)

    def _turn(self, slot: Slot, own: dict[str, Any]) -> tuple[Slot, dict[str, Any]]:
        """Do an iteration in one slot, or nothing if its run has ended."""
        run = self._driver(slot.c.point.x, own)
        new = run.turn(slot)

        def kept(a: Any, b: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(slot.running, a, b), a, b)

        # the other fields of an ended run are not used again
        for name in ("status", "spent") if run.iteration.step.searches else ("status", "spent", "point"):
            setattr(new.c, name, kept(getattr(new.c, name), getattr(slot.c, name)))
        return new._replace(counts=kept(new.counts, slot.counts)), own

    def _busy(self, s: _State) -> Any:
        """Return whether to go on before slots are refilled."""
        idle = self.width - s.slots[0].running.sum()
        return (idle < self.width) & ((idle < self.block) | (s.taken >= self.count))

    def _refill(self, s: _State) -> _State:
        """Iterate until a block of slots is done; write their results, and give them new starts."""
        width, block, size, count = self.width, self.block, self.size, self.count
        turn = jax.vmap(self._turn)
        s = jax.lax.while_loop(self._busy, lambda s: s._replace(slots=turn(*s.slots)), s)
        done = ~s.slots[0].running & ((s.rows < size) | (s.taken < count))
        place = jnp.cumsum(done, dtype=jnp.int32) - 1
        done &= place < block
        taking, place = done & (s.taken + place < count), jnp.minimum(place, block - 1)
        rows = jnp.where(done, s.rows, size)
        found = jax.tree.map(lambda a, b: a.at[rows].set(b, mode="drop"), s.found, self.end(*s.slots))

        def taken(a: Any, b: Any) -> Any:
            return jnp.where(taking.reshape(width, *(1,) * (a.ndim - 1)), b[place], a)

        slots = jax.tree.map(taken, s.slots, self.start(*self._next(s.taken, block)))
        rows = jnp.where(taking, s.taken + place, jnp.where(done, size, s.rows))
        return _State(slots, rows, jnp.minimum(s.taken + block, count), found)


@compiled(0, 1, 2)
def many(program: Program, quick: bool, width: int, *args: Any) -> Solution:
    """Run from many starts, in `width` slots."""
    return _Slots(program, quick, width, *args).run()


@compiled(0, 1, 2)
def _sharded(
    program: Program, slots: int | None, mesh: Any, starts: Any, shared: Inputs, own: dict[str, Any]
) -> Solution:
    """Run from every start, each device from its part of them; padding is not run."""
    count, axes = starts.shape[0], jax.P(mesh.axis_names)
    size = -(-count // mesh.size) * mesh.size

    @jax.shard_map(mesh=mesh, in_specs=(axes, axes, jax.P()), out_specs=axes, check_vma=False)
    def part(rows: Any, live: Any, shared: Inputs) -> Solution:
        width = min(_most(slots), live.shape[0])
        return _Slots(program, False, width, rows[0], live.sum(), shared, rows[1]).run()

    def placed(tree: Any, spec: Any) -> Any:
        sharding = jax.NamedSharding(mesh, spec)
        return jax.tree.map(lambda a: jax.reshard(a, sharding), tree) if mesh.explicit_axes else tree

    rows = starts, own
    if size > count:
        rows = _taken(placed(rows, jax.P()), np.minimum(np.arange(size), count - 1))
    found = part(*placed((rows, jnp.arange(size) < count), axes), placed(shared, jax.P()))
    return placed(found, jax.P()) if size > count else found


def _zeros(like: Any, rows: int) -> Any:
    return jax.tree.map(lambda a: jnp.zeros((rows, *a.shape[1:]), a.dtype), like)
