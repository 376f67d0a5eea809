"""The kit of a program that JAX traces: a scalar is an array of no dimension, and nothing is known of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import Array, Mask, Scalar, Whole, norm
from .one import HUGE, TINY, One, S


class Traced(One):
    """A run that JAX traces: nothing is known, so no shortcut is taken and no branch depends on a value."""

    def __init__(self, x: Array):
        super().__init__(x)
        self.num = self.xp = _jax().numpy
        self._ordered = False

    @staticmethod
    def any(mask: Any) -> bool:
        return True

    @staticmethod
    def all(mask: Any) -> bool:
        return False

    all_finite = all

    @staticmethod
    def negate(mask: Any) -> Any:
        return _jax().numpy.logical_not(mask)

    @staticmethod
    def without(mask: Any, off: Any) -> Any:
        return mask & _jax().numpy.logical_not(off)

    @staticmethod
    def scalar(s: Any) -> Any:
        return _jax().numpy.asarray(s, dtype=float)

    @staticmethod
    def pick(mask: Any, a: Any, b: Any) -> Any:
        return _jax().numpy.where(mask, a, b)

    @staticmethod
    def ratio(a: Any, b: Any) -> Any:
        return _jax().numpy.divide(a, b)

    def where(self, mask: Mask, a: Array, b: Array) -> Array:
        return self.xp.where(mask, a, b)

    def used(self, count: Whole, capacity: int) -> int:
        return capacity

    def dot(self, a: Array, b: Array) -> Any:
        return self.scalar((a * b).sum())

    def inner(self, *pairs: tuple[Array, Array]) -> Any:
        return [self.dot(a, b) for a, b in pairs]

    def root(self, square: Any, v: Array) -> Any:
        plain = (square > TINY) & (square < HUGE)
        return self.pick(plain, self.num.sqrt(self.pick(plain, square, 1.0)), self.scalar(norm(v)[0]))

    def times(self, s: Scalar, v: Array) -> Array:
        return self.num.asarray(s, dtype=v.dtype) * v

    scaled = times

    def some(self, entries: Array) -> Mask:
        return entries.any()

    def finite(self, v: Array) -> Mask:
        return self.num.isfinite(v).all()

    def same(self, a: Array, b: Array) -> Mask:
        return (a == b).all()

    def put(self, a: Array, place: Whole, value: Any, rows: Mask) -> Array:
        return super().put(a, place, self.num.asarray(value, dtype=a.dtype), rows)

    def repeat(self, body: Callable[[S], S], state: S, most: int) -> S:
        def more(turn: tuple[Any, S]) -> Any:
            return (turn[0] < most) & turn[1].open

        def again(turn: tuple[Any, S]) -> tuple[Any, S]:
            return turn[0] + 1, body(turn[1])

        return _jax().lax.while_loop(more, again, (0, state))[1]


def _jax() -> Any:
    import jax  # here, so that `import steepen` stays light

    return jax
