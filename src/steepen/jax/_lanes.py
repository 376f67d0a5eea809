"""Many runs in one program: a fixed number of lanes, each of which takes the next start when it is done.

All is done on the device. One shape is compiled, and memory is needed for the lanes, the starts and the
results. A block of lanes is refilled at a time: a start then costs a part of what a turn of all lanes costs.
"""

# what JAX maps over has no types
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, NamedTuple

from ._jax import jax, jnp
from ._loop import Driver, Ended, Inputs, Lane
from ._program import Program

BLOCK = 8
"""A block is this part of all lanes."""

NARROW, WIDE = 256, 1 << 17
"""How many lanes there are: on a CPU, whose cache should hold them, and elsewhere."""


class _Many(NamedTuple):
    lanes: Lane
    rows: Any
    """The start that each lane is at; past the last one where it has none."""
    taken: Any
    """How many starts have been taken."""
    ended: Ended


def many(program: Program, starts: Any, shared: Inputs, own: dict[str, Any], lanes: int | None) -> Ended:
    """Run from every start; `own` are the numbers that have one value a start."""
    count = starts.shape[0]
    width = min((NARROW if jax.default_backend() == "cpu" else WIDE) if lanes is None else lanes, count)
    block = max(1, width // BLOCK)

    def driver(x: Any, own: dict[str, Any]) -> Driver:
        return Driver(program, shared._replace(numbers=shared.numbers | own), x, alone=False)

    def at(rows: Any) -> tuple[Any, dict[str, Any]]:
        """Return the starts of some rows, and the numbers that are theirs."""
        return starts[rows], {name: value[rows] for name, value in own.items()}

    # `jit`, so that all of it is mapped in one go, and shares one copy of the user's function
    start = jax.vmap(jax.jit(lambda x, own: driver(x, own).start(x)))
    end = jax.vmap(lambda lane, own: driver(lane.c.point.x, own).end(lane))

    @jax.vmap
    def turn(lane: Lane, own: dict[str, Any]) -> Lane:
        return _kept(lane.running, driver(lane.c.point.x, own).turn(lane), lane)

    def step(s: _Many) -> _Many:
        return s._replace(lanes=turn(s.lanes, at(s.rows)[1]))

    def busy(s: _Many) -> Any:
        """Return whether to go on before any lane is refilled."""
        idle = width - s.lanes.running.sum()
        return (idle < width) & ((idle < block) | (s.taken >= count))

    def refill(s: _Many) -> _Many:
        s = jax.lax.while_loop(busy, step, s)
        lanes = jnp.nonzero(~s.lanes.running, size=block, fill_value=width)[0]
        ended = _written(s, lanes)
        fresh = s.taken + jnp.arange(block)
        taking = (lanes < width) & (fresh < count)
        fresh = jnp.where(taking, fresh, count)
        new = start(*at(fresh))  # past the last start, the last one again: it goes nowhere
        place = jnp.where(taking, lanes, width)
        put = jax.tree.map(lambda a, b: a.at[place].set(b, mode="drop"), s.lanes, new)
        rows = s.rows.at[lanes].set(fresh, mode="drop")
        return _Many(put, rows, jnp.minimum(s.taken + block, count), ended)

    def _written(s: _Many, lanes: Any) -> Ended:
        """Return the results with those of these lanes in their rows."""
        rows = s.rows.at[lanes].get(mode="fill", fill_value=count)
        which = jax.tree.map(lambda a: a[lanes], s.lanes)
        found = end(which, at(rows)[1])
        return jax.tree.map(lambda a, b: a.at[rows].set(b, mode="drop"), s.ended, found)

    # the first starts are taken as all others are: no lane runs, and none has a start
    rows = jnp.full(width, count)
    idle = jax.eval_shape(start, *at(rows))
    ended = jax.eval_shape(end, idle, at(rows)[1])
    idle, ended = _zeros(idle, width), _zeros(ended, count)
    s = _Many(idle, rows, jnp.asarray(0), ended)
    s = jax.lax.while_loop(lambda s: s.lanes.running.any() | (s.taken < count), refill, s)
    return _written(s, jnp.arange(width))


def shared_out(
    program: Program, starts: Any, shared: Inputs, own: dict[str, Any], lanes: int | None, mesh: Any
) -> Ended:
    """Run from every start, each device from its part of them; the last start fills up the last part."""
    mesh = jax.sharding.Mesh(mesh.devices, mesh.axis_names)  # whose axes need not be named anywhere else
    count, axes = starts.shape[0], jax.P(mesh.axis_names)
    short = -count % mesh.size

    def filled(a: Any) -> Any:
        return jnp.concatenate([a, jnp.broadcast_to(a[-1:], (short, *a.shape[1:]))]) if short else a

    @jax.shard_map(mesh=mesh, in_specs=(axes, jax.P(), axes), out_specs=axes, check_vma=False)
    def part(starts: Any, shared: Inputs, own: dict[str, Any]) -> Ended:
        return many(program, starts, shared, own, lanes)

    ended = part(filled(starts), shared, {name: filled(value) for name, value in own.items()})
    return jax.tree.map(lambda a: a[:count], ended)


def _zeros(like: Any, rows: int) -> Any:
    return jax.tree.map(lambda a: jnp.zeros((rows, *a.shape[1:]), a.dtype), like)


def _kept(running: Any, new: Lane, old: Lane) -> Lane:
    """Return a lane after a turn; of a run that has ended, all that is reported stays as it was."""

    def keep(a: Any, b: Any) -> Any:
        return jax.tree.map(lambda u, v: jnp.where(running, u, v), a, b)

    c, was = new.c, old.c
    c.k, c.point, c.best, c.spent = keep(
        (c.k, c.point, c.best, c.spent), (was.k, was.point, was.best, was.spent)
    )
    c.status = jnp.where(running, c.status, was.status)
    return Lane(c, keep(new.counts, old.counts), keep(new.ring, old.ring))
