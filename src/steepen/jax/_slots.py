"""For `steepen.jax.minimize`: one run, or many in slots that take the next start when done; all is traced.

Slots are refilled in blocks: a start then costs a fraction of an iteration of all slots.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._jax import compiled, is_traced, jax, jnp
from ._program import Inputs, Program
from ._run import Run
from ._solution import Solution
from .trees import alike, apart

BLOCK = 4  # a block is one in so many of all slots
STEP = 4  # batches are padded to 2, 8, 32, … starts, by this factor: those of one size share a program
NARROW, WIDE = 128, 1 << 17  # slots, if not given: on a CPU, whose cache should hold them, and elsewhere


def solve(
    program: Program, x: Any, inputs: Inputs, slots: int | None, mesh: Any, alone: bool = False
) -> Solution:
    """Run from a start, or from every start of a batch; rows after the last start are padding.

    Outside of other programs, and unless `alone`, a run that needs what is rare is left with a code below 0;
    see `_continued.py`.
    """
    own = {name: v for name, v in inputs.numbers.items() if v.ndim}  # one value per start
    shared = inputs._replace(numbers={name: v for name, v in inputs.numbers.items() if name not in own})
    slots = (NARROW if jax.default_backend() == "cpu" else WIDE) if slots is None else slots
    if mesh is not None:
        return _sharded(program, slots, mesh, (x, own), shared)
    alone |= is_traced((x, inputs))
    if x.ndim == 1:
        return one(program, alone, x, inputs)
    size = 2
    while size < len(x):
        size *= STEP
    starts = _taken((x, own), np.pad(np.arange(len(x)), (0, size - len(x)), "edge"))
    return many(program, alone, min(slots, size // 2), starts, len(x), shared)


@jax.jit
def _taken(arrays: Any, rows: Any) -> Any:
    return jax.tree.map(lambda a: a[rows], arrays)


@compiled(2)
def one(program: Program, alone: bool, x: Any, inputs: Inputs) -> Solution:
    """Run from a start; `alone` if nobody continues what is rare."""
    return Run(program, inputs, x, alone).run(x)


@compiled(3)
def many(program: Program, alone: bool, width: int, starts: Any, count: Any, shared: Inputs) -> Solution:
    """Run from the first `count` starts, in `width` slots; numbers of its own come with each start."""
    size, block, count = starts[0].shape[0], max(1, width // BLOCK), jnp.asarray(count, jnp.int32)
    rest = (0, -size % block)
    starts = jax.tree.map(lambda a: jnp.pad(a, (rest, (0, 0))[: a.ndim]), starts)

    def run(x: Any, own: dict[str, Any]) -> Run:
        return Run(program, shared._replace(numbers=shared.numbers | own), x, alone)

    # `jit`, so that all of it is mapped in one go, and shares one copy of the user's function
    start = jax.vmap(jax.jit(lambda x, own: (run(x, own).start(x), own)))
    turn = jax.vmap(lambda slot, own: (run(slot.x, own).turn(slot), own))
    end = jax.vmap(lambda slot, own: run(slot.x, own).end(slot))

    def next_starts(first: Any, rows: int) -> Any:  # not by a gather, for which XLA would wake other threads
        return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, rows), starts)

    def refill(state: Any) -> Any:
        """Iterate until a block of slots is done; write the results, and give new starts to a block.

        The state: slots with their numbers; the start of each, or `size`; how many were taken; the results.
        """
        slots, rows, taken, found = state

        def busy(slots: Any) -> Any:
            idle = width - slots[0].running.sum()
            return (idle < width) & ((idle < block) | (taken >= count))

        slots = jax.lax.while_loop(busy, lambda slots: turn(*slots), slots)
        idle = ~slots[0].running
        ended = jnp.where(idle, rows, size)
        found = jax.tree.map(lambda a, b: a.at[ended].set(b, mode="drop"), found, end(*slots))
        place = jnp.cumsum(idle, dtype=jnp.int32) - 1
        taking = idle & (place < block) & (taken + place < count)

        def filled(a: Any, b: Any) -> Any:
            there = b[jnp.minimum(place, block - 1)]
            return jnp.where(taking.reshape(-1, *(1,) * (a.ndim - 1)), there, a)

        slots = jax.tree.map(filled, slots, start(*next_starts(taken, block)))
        rows = jnp.where(taking, taken + place, jnp.where(idle, size, rows))
        return slots, rows, jnp.minimum(taken + block, count), found

    def zeros(like: Any, rows: int) -> Any:
        return jax.tree.map(lambda a: jnp.zeros((rows, *a.shape[1:]), a.dtype), like)

    idle = jax.eval_shape(lambda: start(*next_starts(0, width)))
    found = zeros(jax.eval_shape(end, *idle), size)
    state = zeros(idle, width), jnp.full(width, size, jnp.int32), jnp.zeros_like(count), found
    state = alike(state, apart(starts[0]))
    return jax.lax.while_loop(lambda s: (s[1] < size).any() | (s[2] < count), refill, state)[-1]


@compiled(3)
def _sharded(program: Program, slots: int, mesh: Any, starts: Any, shared: Inputs) -> Solution:
    """Run from every start, each device from its part of them; padding is not run."""
    count, axes = starts[0].shape[0], jax.P(mesh.axis_names)
    size = -(-count // mesh.size) * mesh.size

    @jax.shard_map(mesh=mesh, in_specs=(axes, axes, jax.P()), out_specs=axes, check_vma=False)
    def part(starts: Any, live: Any, shared: Inputs) -> Solution:
        width = min(slots, live.shape[0])
        return many(program, True, width, starts, live.sum(), shared)

    def placed(tree: Any, spec: Any) -> Any:
        sharding = jax.NamedSharding(mesh, spec)
        return jax.tree.map(lambda a: jax.reshard(a, sharding), tree) if mesh.explicit_axes else tree

    if size > count:
        starts = _taken(placed(starts, jax.P()), np.minimum(np.arange(size), count - 1))
    found = part(*placed((starts, jnp.arange(size) < count), axes), placed(shared, jax.P()))
    return placed(found, jax.P()) if size > count else found
