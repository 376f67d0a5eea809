"""Many runs in one program: a fixed number of slots, each of which takes the next start when it is done.

All is done on the device. One shape is compiled, and memory is needed for the slots, the starts and the
results. A block of slots is refilled at a time: a start then costs a part of what a turn of all slots costs.
"""

# what JAX maps over has no types
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .._core.backends.traced import alike, apart
from ._jax import compiled, is_traced, jax, jnp
from ._loop import DEFERRED, Driver, Ended, Inputs, Slot
from ._program import Program

BLOCK = 8
"""A block is this part of all slots."""

STEP = 4
"""Batches are padded to 2, or so many times that, and again: those of one size share a program."""

NARROW, WIDE = 256, 1 << 17
"""How many slots there are: on a CPU, whose cache should hold them, and elsewhere."""


class _Many(NamedTuple):
    slots: Slot
    rows: Any
    """The start that each slot is at; past the last one where it has none."""
    taken: Any
    """How many starts have been taken."""
    ended: dict[str, Any]


def solve(program: Program, x: Any, inputs: Inputs) -> Ended:
    """Run from a start.

    A call that is no part of another program makes a quick run first, which nearly always is all: it leaves
    out what is rare, and so compiles in half the time.
    """
    if not is_traced((x, inputs)):
        ended = one(program, True, x, inputs)
        if int(ended.status) != DEFERRED:
            return ended
    return one(program, False, x, inputs)


@compiled(0, 1)
def one(program: Program, quick: bool, x: Any, inputs: Inputs) -> Ended:
    """Run from a start, quickly or with all that is rare."""
    return Driver(program, inputs, x, quick=quick).run(x)


def solve_many(program: Program, starts: Any, inputs: Inputs, slots: int | None, mesh: Any) -> Ended:
    """Run from every start, as `solve` does from one; rows that follow the last one mean nothing."""
    own = {name: value for name, value in inputs.numbers.items() if _is_own(name, value)}
    shared = inputs._replace(numbers={name: v for name, v in inputs.numbers.items() if name not in own})
    if mesh is not None:
        return _sharded(program, slots, mesh, starts, shared, own)

    def run(quick: bool, rows: Any) -> Ended:
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
    return _merged(found, run(False, rows), rows) if len(rows) else found


def _most(slots: int | None) -> int:
    """Return the most slots that a device has."""
    return (NARROW if jax.default_backend() == "cpu" else WIDE) if slots is None else slots


def _is_own(name: str, value: Any) -> bool:
    """Return whether a number has one value a start."""
    return value.ndim == 1 and name.endswith((".value", ".r"))


def spread_over(starts: Any) -> Any:
    """Return the mesh over which the starts are spread by their type, if there is one."""
    mesh = jax.typeof(starts).sharding.mesh
    return None if mesh.empty or mesh.manual_axes or not mesh.explicit_axes else mesh


@jax.jit
def _taken(arrays: Any, rows: Any) -> Any:
    return jax.tree.map(lambda a: a[rows], arrays)


def _merged(found: Any, again: Any, rows: Any) -> Any:
    """Return what was found, with these rows from another batch."""
    return jax.tree.map(lambda a, b: a.at[rows].set(b[: len(rows)]), found, again)


def _slots(
    program: Program, quick: bool, width: int, starts: Any, count: Any, shared: Inputs, own: dict[str, Any]
) -> Ended:
    """Run from the first `count` starts, in so many slots; `own` are the numbers with one value a start."""
    size, count = starts.shape[0], jnp.asarray(count, jnp.int32)
    block = max(1, width // BLOCK)

    def driver(x: Any, own: dict[str, Any]) -> Driver:
        inputs = shared._replace(numbers=shared.numbers | own)
        return Driver(program, inputs, x, alone=False, quick=quick)

    def at(rows: Any) -> tuple[Any, dict[str, Any]]:
        """Return the starts of some rows, and the numbers that are theirs."""
        return starts[rows], {name: value[rows] for name, value in own.items()}

    # `jit`, so that all of it is mapped in one go, and shares one copy of the user's function
    start = jax.vmap(jax.jit(lambda x, own: driver(x, own).start(x)))
    end = jax.vmap(lambda slot, own: driver(slot.c.point.x, own).end(slot))

    @jax.vmap
    def turn(slot: Slot, own: dict[str, Any]) -> Slot:
        run = driver(slot.c.point.x, own)
        new = run.turn(slot)

        def kept(a: Any, b: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(slot.running, a, b), a, b)

        # a run that has ended stays where it is; what is counted, deferred or evaluated anew means nothing
        for name in ("status", "spent") if run.iteration.step.searches else ("status", "spent", "point"):
            setattr(new.c, name, kept(getattr(new.c, name), getattr(slot.c, name)))
        return new._replace(counts=kept(new.counts, slot.counts))

    def step(s: _Many) -> _Many:
        return s._replace(slots=turn(s.slots, at(s.rows)[1]))

    def busy(s: _Many) -> Any:
        """Return whether to go on before any slot is refilled."""
        idle = width - s.slots.running.sum()
        return (idle < width) & ((idle < block) | (s.taken >= count))

    def refill(s: _Many) -> _Many:
        """Write the results of a block of slots that are done, and let them take starts if there are any."""
        s = jax.lax.while_loop(busy, step, s)
        done = ~s.slots.running & ((s.rows < size) | (s.taken < count))
        place = jnp.cumsum(done, dtype=jnp.int32) - 1
        done &= place < block
        taking, place = done & (s.taken + place < count), jnp.minimum(place, block - 1)
        found, rows = _packed(end(s.slots, at(s.rows)[1])), jnp.where(done, s.rows, size)
        ended = jax.tree.map(lambda a, b: a.at[rows].set(b, mode="drop"), s.ended, found)
        new = start(*at(s.taken + jnp.arange(block, dtype=jnp.int32)))  # past the last row, that one again

        def taken(a: Any, b: Any) -> Any:
            return jnp.where(taking.reshape(-1, *(1,) * (a.ndim - 1)), b[place], a)

        rows = jnp.where(taking, s.taken + place, jnp.where(done, size, s.rows))
        slots = jax.tree.map(taken, s.slots, new)
        return _Many(slots, rows, jnp.minimum(s.taken + block, count), ended)

    # the first starts are taken as all others are: no slot runs, and none has a start
    rows = jnp.full(width, size, jnp.int32)
    idle = jax.eval_shape(start, *at(rows))
    ended = jax.eval_shape(end, idle, at(rows)[1])
    idle, written = _zeros(idle, width), _packed(_zeros(ended, size))
    s = alike(_Many(idle, rows, jnp.zeros_like(count), written), apart(starts))
    s = jax.lax.while_loop(lambda s: (s.rows < size).any() | (s.taken < count), refill, s)
    return _unpacked(s.ended, ended)


many = compiled(0, 1, 2)(_slots)


@compiled(0, 1, 2)
def _sharded(
    program: Program, slots: int | None, mesh: Any, starts: Any, shared: Inputs, own: dict[str, Any]
) -> Ended:
    """Run from every start, each device from its part of them; what fills up the last part is not run."""
    count, axes = starts.shape[0], jax.P(mesh.axis_names)
    size = -(-count // mesh.size) * mesh.size

    @jax.shard_map(mesh=mesh, in_specs=(axes, axes, jax.P()), out_specs=axes, check_vma=False)
    def part(rows: Any, live: Any, shared: Inputs) -> Ended:
        width = min(_most(slots), live.shape[0])
        return _slots(program, False, width, rows[0], live.sum(), shared, rows[1])

    def placed(a: Any, spec: Any) -> Any:
        return jax.reshard(a, jax.NamedSharding(mesh, spec)) if mesh.explicit_axes else a

    rows = starts, own
    if size > count:
        rows = _taken(
            jax.tree.map(lambda a: placed(a, jax.P()), rows), np.minimum(np.arange(size), count - 1)
        )
    rows, live = jax.tree.map(lambda a: placed(a, axes), (rows, jnp.arange(size) < count))
    ended = part(rows, live, jax.tree.map(lambda a: placed(a, jax.P()), shared))
    return jax.tree.map(lambda a: placed(a, jax.P()), ended) if size > count else ended


def _packed(tree: Any) -> dict[str, Any]:
    """Return arrays with the same number of rows as one for each dtype."""
    kinds: dict[str, list[Any]] = {}
    for a in jax.tree.leaves(tree):
        kinds.setdefault(str(a.dtype), []).append(a.reshape(a.shape[0], -1))
    return {kind: jnp.concatenate(parts, axis=1) for kind, parts in kinds.items()}


def _unpacked(packed: dict[str, Any], like: Any) -> Any:
    """Return arrays such as these from what `_packed` made of them."""
    begin = dict.fromkeys(packed, 0)

    def part(a: Any) -> Any:
        kind, width = str(a.dtype), math.prod(a.shape[1:])
        begin[kind] += width
        return packed[kind][:, begin[kind] - width : begin[kind]].reshape(-1, *a.shape[1:])

    return jax.tree.map(part, like)


def _zeros(like: Any, rows: int) -> Any:
    return jax.tree.map(lambda a: jnp.zeros((rows, *a.shape[1:]), a.dtype), like)
