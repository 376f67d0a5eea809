"""`steepen sweep`."""

from pathlib import Path

import pandas
import pytest

import steepen as st
from steepen.cli import main

GOOD = """\
functions = ["booth", "mine:bowl"]
starts = { grid = 4 }
methods = ["gd", "cgd-fd"]
points = true
budget = { grads = 40 }
at = [5, 40]
out = "found"

[settings]
step = { low = 0.001, high = 0.1, count = 3 }
lam = [0.01, "L(0.1,0.01)"]
"""

MINE = """\
import numpy as np

def bowl(x):
    return (x**2).sum(axis=-1)

bowl.bounds = np.array([[-1.0, 1.0], [-1.0, 1.0]])
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("mine.py").write_text(MINE)


def test_a_file_is_run_and_run_again_for_nothing(capsys):
    Path("s.toml").write_text(GOOD)
    assert main(["sweep", "s.toml"]) == 0
    first = capsys.readouterr().out
    assert first.splitlines()[0].split()[:2] == ["function", "method"]
    assert first.splitlines()[-1] == "288 runs, in found"
    before = Path("found/results.jsonl").read_bytes()
    assert {path.name for path in Path("found").iterdir()} >= {"settings.csv", "profiles.png"}
    rows = st.load_results("found/results.jsonl")
    assert len(rows) == 288
    assert sorted(rows.step.unique()) == pytest.approx([0.001, 0.01, 0.1])  # even in logs
    row = rows[(rows.method == "gd") & (rows.step == 0.1)].iloc[0]
    start = [row.start0, row.start1]
    alone = st.minimize(st.functions["booth"], start, method="gd", step=0.1, budget=st.Budget(grads=40))
    assert row.f == alone.fun
    assert main(["sweep", "s.toml"]) == 0
    assert capsys.readouterr().out == first
    assert Path("found/results.jsonl").read_bytes() == before


@pytest.mark.slow
def test_maps_and_another_folder():
    Path("s.toml").write_text(GOOD.replace('[0.01, "L(0.1,0.01)"]', "[0.01, 0.1]"))
    assert main(["sweep", "s.toml", "--quiet", "--out", "else"]) == 0
    best = pandas.read_csv("else/settings.csv").query("best")
    assert set(zip(best.function, best.method, strict=True)) >= {("booth", "gd"), ("bowl", "cgd-fd")}
    assert Path("else/map-booth-cgd-fd.png").exists()
    assert not Path("found").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("starts =", "starts =\n=", "s.toml: Invalid value (at line 2, column 9)"),
        ("methods", "metods", "s.toml, line 3: metods: is not known; did you mean 'methods'?"),
        ("step =", "stpe =", "s.toml, line 10: settings.stpe: is not known; did you mean 'step'?"),
        ('"booth"', '"both"', "s.toml, line 1: functions: 'both' is not known; did you mean"),
        ("mine:bowl", "mine:bowls", "s.toml, line 1: functions: 'mine:bowls' could not be imported"),
        ("grid = 4", "grid = 1", "s.toml, line 2: starts: expected a number, points, or { grid = 100 }"),
        ("count = 3", "count = 0", "s.toml, line 10: settings.step: expected 0 < low < high"),
        ("L(0.1,0.01)", "often", "s.toml, line 11: settings.lam: expected a number, L(a,b)"),
        ('["gd", "cgd-fd"]', '["gd"]', "s.toml, line 11: settings.lam: method 'gd' has no such setting"),
        ("[5, 40]", "[-5]", "s.toml, line 6: at: expected a whole number, 0 or more, got -5"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_line_and_key(capsys, old, new, words):
    assert old in GOOD
    Path("s.toml").write_text(GOOD.replace(old, new))
    assert main(["sweep", "s.toml"]) == 2
    assert capsys.readouterr().err.startswith(f"steepen: {words}")
    assert not list(Path().glob("found/*.jsonl"))
