"""What is timed: the timer, the count of bytecodes, the table with its bars, and the command."""

import time

import numpy as np
import pytest
from benchmarks.cost import batches, command, functions, single
from benchmarks.cost.timer import Table, alternating, bytecodes

import steepen as st


def test_two_calls_take_turns_and_the_ratio_is_of_neighbours():
    calls = []

    def ours():
        calls.append("ours")
        time.sleep(0.02)

    def theirs():
        calls.append("theirs")
        time.sleep(0.002)

    first, second, ratio = alternating(ours, theirs, 5)
    assert calls == ["ours", "theirs"] * 6  # the first two are not timed
    assert first >= 0.02
    assert second >= 0.002
    assert ratio > 1


def test_bytecodes_are_of_the_call_without_the_users_own():
    def user():
        return sum(i * i for i in range(1000))

    def short():
        return user()

    def long():
        for _ in range(100):
            pass
        return user()

    few, calls = bytecodes(short, {user.__code__})
    many, _ = bytecodes(long, {user.__code__})
    assert (calls, few < 20) == (1, True)
    assert few + 100 <= many <= few + 1000


def test_a_row_over_its_bar_is_marked(capsys):
    table = Table()
    table.row("good", 1.0, 2.0, 0.5, 1.0, "ms")
    table.row("no bar", 5.0, 1.0, 5.0, float("inf"), "ms")
    assert not table.failed
    table.row("bad", 3.0, 2.0, 1.5, 1.0, "ms")
    table.row("at least", 3.0, 2.0, 1.5, 1.0, "ms", least=True)
    assert table.failed
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.endswith("MISSED") for line in lines] == [False, False, True, False]


def test_what_is_compared_makes_the_same_iterates():
    """A loop by hand that did something else would prove nothing."""
    x0, step = np.array([4.0, 5.0]), 1e-4
    ours = st.minimize(
        functions.branin,
        x0,
        method="gd",
        jac=functions.branin_grad,
        step=step,
        budget=st.Budget(iters=9),
        gtol=0.0,
    )
    by_hand = functions.hand_gd(functions.branin, functions.branin_grad, x0, step, 9)
    assert np.allclose(ours.x, by_hand, rtol=1e-12)
    with np.errstate(all="ignore"):
        for method in batches.METHODS:
            rows = batches.run(method, batches.starts(50), 5).x
            assert np.isclose(rows, batches.by_hand(method, batches.starts(50), 5, False)[0]).mean() > 0.99


def test_the_command_lists_runs_and_refuses(capsys, monkeypatch):
    command.main(["--list"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(command.CASES)
    monkeypatch.setitem(command.CASES, "one", ("", lambda table, quick: table.row("x", 1, 1, 1, 2, "s")))
    with pytest.raises(SystemExit, match="0"):
        command.main(["one"])
    assert capsys.readouterr().out.splitlines()[-1].split()[0] == "x"
    with pytest.raises(SystemExit, match="2"):
        command.main(["speed"])
    assert single.work is command.CASES["bytecodes"][1]
