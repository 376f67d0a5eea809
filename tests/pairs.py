"""All-pairs testing: every pair of values of two options is tried, not every combination of all of them.

A fault that needs one option, or two together, is seen by far fewer cases than their product has; those that
need three are left to `make test-all`, where `pairs` gives the whole product.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

import pytest

WHOLE = bool(os.environ.get("STEEPEN_TEST_ALL"))
"""Whether everything was asked for: whole products and campaigns, more examples, and what is marked slow."""


def covering(*options: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return few combinations in which every pair of values of two options occurs.

    Greedy: the next combination is the first of those with the most pairs that have not occurred yet.

    >>> covering("ab", "cd", "ef")
    [('a', 'c', 'e'), ('a', 'd', 'f'), ('b', 'c', 'f'), ('b', 'd', 'e')]
    """
    values = [list(option) for option in options]
    places = list(itertools.combinations(range(len(values)), 2))
    pairs_of = {
        indices: {(i, j, indices[i], indices[j]) for i, j in places}
        for indices in itertools.product(*(range(len(option)) for option in values))
    }
    missing: set[Any] = set().union(*pairs_of.values())
    chosen: list[tuple[Any, ...]] = []
    while missing:
        best = max(pairs_of, key=lambda indices: len(pairs_of[indices] & missing))
        missing -= pairs_of[best]
        chosen.append(tuple(option[i] for option, i in zip(values, best, strict=True)))
    return chosen


def pairs(**options: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize a test by all pairs of the options' values, or by their product where `WHOLE`.

    `@pairs(method=METHODS, source=SOURCES, step=STEPS)` takes the place of three `parametrize`.
    """
    chosen = itertools.product(*options.values()) if WHOLE else covering(*options.values())
    return pytest.mark.parametrize(tuple(options), list(chosen))


def sample(cases: Iterable[Any], most: int, *, always: Iterable[Any] = ()) -> list[Any]:
    """Return `most` of the cases, evenly spread, and those that must `always` be there; all where `WHOLE`."""
    cases, always = list(cases), list(always)
    if WHOLE or len(cases) <= most:
        return cases
    spread = [cases[i * len(cases) // most] for i in range(most)]
    return spread + [case for case in always if case not in spread]
