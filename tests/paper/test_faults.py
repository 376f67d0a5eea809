"""The claims can fail: each planted fault makes some of them differ, and no item crashes."""

import importlib

import pytest

from steepen.paper import ITEMS, fig_egr, table1

from .faults import FAULTS

SEEN_BY = {
    "penalty scale 2 → 1": ("fig-surfaces", "algorithms", "quadratic", "table1"),
    "guard removed": ("lemma1", "fig-ascent", "algorithms"),
    "quasi-Newton matrix frozen": ("algorithms", "fig-quasi-newton"),
    "difference × 1.01": ("algorithms", "table1"),
    "safe step with (1 + λL)²": ("theorem1",),
    "safe step with exponent 1": ("theorem1",),
    "safe step halved": ("theorem1",),
    "rate with μ/2": ("theorem1",),
    "nature of g with λ for 2λ": ("lemma1",),
    "EGR's switch-off without the cost of its b steps": ("fig-egr",),
}
"""The items whose claims see a fault; those of the listings and of the test functions see the others."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_makes_claims_differ(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table1, "_recoveries", lambda: ())  # tables without a claim, which take seconds
    monkeypatch.setattr(fig_egr, "_switch_table", lambda: None)
    FAULTS[fault](monkeypatch)
    for name in SEEN_BY.get(fault, ("algorithms",)):
        outcome = importlib.import_module(ITEMS[name]).run()
        assert [claim.text for claim in outcome.claims if not claim.holds], name
