"""What tells a function from another without a trace of it: what it reads, and nothing else."""

import functools
import math

import numpy as np
import pytest

from steepen._tools.identity import FEW, identity

SCALE = 2.0
DATA = np.ones(3)


def plain(x):
    return SCALE * x


def calls(x):
    return plain(x) + math.sin(x)


class Holder:
    by = 2.0

    def times(self, x):
        return self.by * x


HELD = Holder()


def closing(value):
    return lambda x: x * value


@pytest.mark.parametrize(
    "value", [1, 2.5, "a", (1, 2), [1.0], {"a": 1}, DATA, np.float32(1.0), math, None, plain]
)
def test_functions_that_read_the_same_are_the_same(value):
    assert identity(closing(value)) == identity(closing(value)) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 2), (1, 1.0), (1, True), (0.0, -0.0), ("a", "b"), ([1.0], [2.0]), ({"a": 1}, {"a": 2}),
     (DATA, DATA + 1), (DATA, DATA.astype("f4")), (DATA, DATA[:, None]), (math, functools), (plain, calls)],
)  # fmt: skip
def test_functions_that_read_something_else_are_not(one, other):
    assert identity(closing(one)) != identity(closing(other))
    assert identity(functools.partial(pow, one)) != identity(functools.partial(pow, other))
    assert identity(lambda x, by=one: x) != identity(lambda x, by=other: x)


def test_what_changes_between_calls_is_seen(monkeypatch):
    array, box = np.ones(2), [1.0]

    def fun(x):
        return calls(x) + array + box[0] + fun.shift

    fun.shift = 0.0
    seen = [identity(fun)]
    array[0] = 2.0
    seen.append(identity(fun))
    box[0] = 2.0
    seen.append(identity(fun))
    fun.shift = 1.0
    seen.append(identity(fun))
    monkeypatch.setitem(globals(), "SCALE", 3.0)  # two functions away
    seen.append(identity(fun))
    assert None not in seen
    assert len(set(seen)) == len(seen)


UNTOLD = [
    HELD.times, lambda x: HELD.by * x, lambda x: Holder.by * x, closing(np.ones(FEW + 1)), closing({HELD: 1}),
]  # fmt: skip


@pytest.mark.parametrize("fun", UNTOLD)
def test_what_may_change_unseen_tells_nothing(fun):
    assert identity(fun) is None
