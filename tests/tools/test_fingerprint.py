"""A fingerprint tells settings apart, is the same in every process, and ends."""

import subprocess
import sys
from functools import partial

import numpy as np

from steepen._tools.fingerprint import fingerprint, mark


def closing_over(value):
    return lambda k: (k, value)


class Owner:
    """Its method is a setting; it knows a part that knows it."""

    def __init__(self, part):
        self.part, self.cycle = part, [self]

    def at(self, k):
        return self.part * k


class Tensor:
    """As much of a tensor of torch as is looked at; NumPy has no such precision."""

    dtype = "bfloat16"

    def __init__(self, value, dtype="bfloat16"):
        self._value, self.dtype = value, dtype

    def detach(self):
        return self

    cpu = detach

    def float(self):
        return Tensor(self._value, "float32")

    def numpy(self):
        if self.dtype == "bfloat16":
            raise TypeError("bfloat16")
        return np.asarray(self._value)


def recursive(factor):
    def inner(k):
        return factor * inner(k - 1) if k else 1.0

    return inner


APART = {
    "a number": (0.1, 0.2),
    "a function over a number": (closing_over(1), closing_over(2)),
    "over a tuple": (closing_over((0.0, 0.5)), closing_over((0.5, 1.0))),
    "over a list": (closing_over([1]), closing_over([2])),
    "over an array in a tuple": (closing_over((np.ones(9),)), closing_over((np.zeros(9),))),
    "over a tensor": (closing_over(Tensor([1.0])), closing_over(Tensor([2.0]))),
    "over a function": (closing_over(closing_over(1)), closing_over(closing_over(2))),
    "over itself": (recursive(1.0), recursive(2.0)),
    "a method": (Owner(1).at, Owner(2).at),
    "a dict of functions": ({"f": closing_over(1)}, {"f": closing_over(2)}),
    "a set": ({"a", "b"}, {"a", "c"}),
    "a partial": (partial(closing_over, 1), partial(closing_over, 2)),
    "a tensor": (Tensor([1.0]), Tensor([2.0])),
    "the precision of a tensor": (Tensor([1.0], "float32"), Tensor([1.0], "float64")),
}


def test_settings_that_differ_have_other_fingerprints():
    for what, (one, other) in APART.items():
        assert fingerprint(one) != fingerprint(other), what
        assert mark(one) != mark(other), what


def test_a_fingerprint_is_the_same_in_every_process():
    """No address is in it, and no order of a set."""
    assert "0x" not in "".join(fingerprint(one) for pair in APART.values() for one in (*pair, object()))
    code = "from tests.tools.test_fingerprint import *; print(mark([*APART.values(), object(), print]))"
    ran = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True) for _ in range(2)]
    assert {one.stdout.decode().strip() for one in ran} == {mark([*APART.values(), object(), print])}
