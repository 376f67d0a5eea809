"""Two results held against each other."""

from dataclasses import fields
from typing import Any

import numpy as np

import steepen as st


def same(found: st.Result, expected: st.Result) -> None:
    """Hold every field but the time equal to the last bit, in dtype too; NaN equals NaN."""
    for field in fields(st.Result):
        a, b = getattr(found, field.name), getattr(expected, field.name)
        if field.name == "trace":
            assert (a is None) == (b is None)
            if a is not None:
                names = [name for name, _ in a.columns()]
                assert names == [name for name, _ in b.columns()]
                for name in [*names, "length"]:
                    _exactly(getattr(a, name), getattr(b, name), f"trace.{name}")
        elif field.name == "best":
            for name in ("x", "fun", "k"):
                _exactly(getattr(a, name), getattr(b, name), f"best.{name}")
        elif field.name != "seconds":
            _exactly(a, b, field.name)


def _exactly(a: Any, b: Any, name: str) -> None:
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype, name
    np.testing.assert_array_equal(a, b, err_msg=name)
