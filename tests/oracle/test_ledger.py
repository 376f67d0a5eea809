"""Counts and limits: what is charged, and what is still covered."""

from __future__ import annotations

import numpy as np
import pytest

import steepen as st
from steepen._core.judge import RUNNING
from steepen._core.kits import kit_for
from steepen._oracle.ledger import Cost, Ledger, OutOfTime

ONE, MANY = kit_for(np.ones(2)), kit_for(np.ones((3, 2)))


def test_a_call_is_charged_to_the_rows_it_is_for() -> None:
    ledger = Ledger(MANY)
    ledger.charge(None, "nfev")
    assert ledger.counts == (1, 0, 0, 0)
    ledger.charge(np.array([True, False, True]), "nfev", "njev", times=2)
    assert np.asarray(ledger.nfev).tolist() == [3, 1, 3]
    assert np.asarray(ledger.njev).tolist() == [2, 0, 2]
    ledger.keep(np.array([1, 2]))
    assert np.asarray(ledger.nfev).tolist() == [1, 3]
    assert ledger.rows == 2


def test_a_limit_covers_a_cost_to_the_last_one() -> None:
    ledger = Ledger(ONE, st.Budget(evals=3, grads=2))
    ledger.charge(None, "nfev", times=2)
    assert ledger.affords(Cost(1, 2))
    assert not ledger.affords(Cost(2, 0))
    assert not ledger.affords(Cost(0, 3))
    assert ledger.over(Cost(1, 1), Cost(), True) == RUNNING
    assert ledger.over(Cost(1, 1), Cost(1, 0), False) == RUNNING
    assert ledger.over(Cost(1, 1), Cost(1, 0), True) == st.Status.MAX_EVALUATIONS
    assert ledger.over(Cost(2, 3), Cost(), True) == st.Status.MAX_GRADIENTS


def test_each_row_has_its_own_verdict() -> None:
    ledger = Ledger(MANY, st.Budget(evals=2))
    ledger.charge(np.array([True, False, True]), "nfev")
    on = np.array([True, True, False])
    code = np.asarray(ledger.over(Cost(1, 0), Cost(1, 0), on))
    assert code.tolist() == [st.Status.MAX_EVALUATIONS, RUNNING, RUNNING]


def test_nothing_begins_after_the_time() -> None:
    ledger = Ledger(ONE, st.Budget(seconds=1e-9))
    assert ledger.late()
    with pytest.raises(OutOfTime):
        ledger.charge(None, "nfev")
    assert ledger.nfev == 0
