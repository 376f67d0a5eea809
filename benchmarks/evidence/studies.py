"""The studies by name; each is imported when it is asked for, as some need JAX or transformers."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from benchmarks.evidence.runner import Study

PLACES = {
    "networks": "jobs:NETWORKS",
    "variants": "variants:VARIANTS",
    "gates": "variants:GATED",
    "backs": "variants:RETURNS",
    "rates": "variants:RATES",
    "short-runs": "short_runs:SHORT_RUNS",
    "short": "short.study:SHORT",
    "minima": "short.again:MINIMA",
    "airbench": "short.harm:AIRBENCH",
    "optax": "with_optax:WITH_OPTAX",
    "rl": "rl.study:POLICIES",
    "grpo": "rl.study:REWARDS",
}


def study(name: str) -> Study:
    """Return a study."""
    module, _, attribute = PLACES[name].partition(":")
    return getattr(importlib.import_module(f"benchmarks.evidence.{module}"), attribute)


def studies() -> Iterator[Study]:
    """Return all studies."""
    yield from map(study, PLACES)
