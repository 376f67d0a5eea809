"""The claims can fail: each planted fault makes some of them differ, and no item crashes."""

import importlib

import pytest

from steepen.paper import ITEMS

from .faults import FAULTS

SEEN_BY = {
    "penalty scale 2 → 1": ("fig-surfaces", "algorithms", "quadratic", "table1"),
    "guard removed": ("lemma1", "fig-ascent", "algorithms"),
    "quasi-Newton matrix frozen": ("algorithms", "fig-quasi-newton"),
    "difference × 1.01": ("algorithms", "table1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_makes_claims_differ(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[fault](monkeypatch)
    for name in SEEN_BY.get(fault, ("algorithms",)):
        outcome = importlib.import_module(ITEMS[name]).run()
        assert [claim.text for claim in outcome.claims if not claim.holds], name
