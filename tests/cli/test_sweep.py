"""`steepen sweep` and `steepen tune`."""

import csv
import io
import json
from pathlib import Path

import numpy as np
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


def lines(path):
    return list(csv.DictReader(io.StringIO(Path(path).read_text())))


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("mine.py").write_text(MINE)


def test_a_file_is_run_and_run_again_for_nothing(capsys):
    Path("s.toml").write_text(GOOD)
    assert main(["sweep", "s.toml", "--csv"]) == 0
    first = capsys.readouterr().out
    assert first.splitlines()[0].split()[:2] == ["function", "method"]
    assert first.splitlines()[-1] == "288 runs; the rows, the settings and the pictures: found"
    before = Path("found/results.jsonl").read_bytes()
    assert {path.name for path in Path("found").iterdir()} >= {"settings.csv", "table.csv", "profiles.png"}
    rows = lines("found/table.csv")
    assert len(rows) == 288
    assert sorted({float(row["step"]) for row in rows}) == pytest.approx([0.001, 0.01, 0.1])  # even in logs
    row = next(row for row in rows if row["method"] == "gd" and float(row["step"]) == 0.1)
    start = [float(row["start0"]), float(row["start1"])]
    alone = st.minimize(st.functions["booth"], start, method="gd", step=0.1, budget=st.Budget(grads=40))
    assert float(row["f"]) == alone.fun
    assert main(["sweep", "s.toml"]) == 0
    assert capsys.readouterr().out == first
    assert Path("found/results.jsonl").read_bytes() == before


@pytest.mark.slow
def test_maps_and_json(capsys):
    Path("s.toml").write_text(GOOD.replace('[0.01, "L(0.1,0.01)"]', "[0.01, 0.1]"))
    assert main(["sweep", "s.toml", "--json", "--out", "else"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["rows"] == 288
    assert {row["function"] for row in said["best"]} == {"booth", "bowl"}
    assert Path("else/map-booth-cgd-fd.png").exists()
    assert not Path("found").exists()
    assert main(["sweep", "none.toml"]) == 2
    assert "there is no file 'none.toml'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("starts =", "starts =\n=", "s.toml: Invalid value (at line 2, column 9)"),
        ("methods", "metods", "s.toml, line 3: metods: is not known; did you mean 'methods'?"),
        ("step =", "stpe =", "s.toml, line 10: settings.stpe: is not known; did you mean 'step'?"),
        ('"booth"', '"both"', "s.toml, line 1: functions: 'both' is not known; did you mean"),
        ("mine:bowl", "mine:bowls", "s.toml, line 1: functions: 'mine:bowls' cannot be had: module"),
        ("grid = 4", "grid = 1", "s.toml, line 2: starts: expected a number, points, or { grid = 100 }"),
        ("count = 3", "count = 0", "s.toml, line 10: settings.step: expected { low = 0.001"),
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


TUNE = ["tune", "booth", "--method", "gd", "--trials", "12", "--starts", "5", "--judge", "9", "--out", "t"]


def test_the_choice_is_judged_on_other_starts_and_a_study_goes_on(capsys):
    pytest.importorskip("optuna")
    assert main([*TUNE, "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert len(best) == 5
    judged = [row["judged"] for row in best]
    assert judged == sorted(judged)
    # both scores, made again by hand
    f = st.functions["booth"]
    starts = np.random.default_rng(0).uniform(*f.bounds.T, size=(14, 2))
    for row in best[:2]:
        for name, part in (("tuned", starts[:5]), ("judged", starts[5:])):
            with np.errstate(all="ignore"):
                made = st.minimize(f, part, method="gd", step=row["step"], budget=st.Budget(grads=40))
            assert row[name] == np.median(np.where(made.fun <= f(part), made.fun, np.inf))
    assert len(lines("t/trials.csv")) == 12
    before = Path("t/trials.csv").read_bytes()
    assert main([*TUNE, "--quiet"]) == 0  # nothing is left to try
    assert Path("t/trials.csv").read_bytes() == before
    assert main([*TUNE, "--trials", "14", "--quiet"]) == 0
    assert len(lines("t/trials.csv")) == 14
    assert main([*TUNE, "--grads", "9"]) == 2
    assert "holds a study with grads 40, not 9. Give another folder" in capsys.readouterr().err


@pytest.mark.slow
def test_several_processes_tune_on_one_journal(capsys):
    pytest.importorskip("optuna")
    command = ["tune", "booth", "--method", "cgd-fd", "--trials", "20", "--starts", "3", "--judge", "3"]
    assert main([*command, "--jobs", "2", "--out", "t"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:5] == ["method", "step", "lam", "r", "b"]
    assert table[1].startswith("cgd-fd*")
    assert len(lines("t/trials.csv")) == 20
    assert Path("t/trials.png").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nine"], "FUNCTION: 'nine' is not known"),
        (["booth", "--method", "cgdfd"], "--method: 'cgdfd' is not known; did you mean 'cgd-fd'?"),
        (["math:sin"], "--box: expected LOW,HIGH with --n, since 'sin' has no bounds"),
        (["math:sin", "--box", "1,2"], "--n: expected the dimension, with --box"),
        (["math:sin", "--box", "2,1", "--n", "2"], "--box: expected two rising numbers"),
    ],
)
def test_wrong_words_are_refused(capsys, words, message):
    assert main(["tune", *words]) == 2
    assert capsys.readouterr().err.startswith(f"steepen: {message}")
