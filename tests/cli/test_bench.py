"""The command `steepen bench`."""

import csv
import json
import re
import sys

import pytest

import steepen as st
from steepen.bench import SOLVERS, Results
from steepen.cli import main

FEW = ["beale", "wood", "extended-rosenbrock-100"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    chosen = {"mgh": [st.problems[name] for name in FEW], "nist": [st.problems["misra1a-1"]]}
    monkeypatch.setattr("steepen.cli.bench.problems_of", lambda name: chosen.get(name, []))


@pytest.fixture
def no_pictures(monkeypatch):
    monkeypatch.setattr("steepen.bench.pictures.save", lambda *arguments: [])


def bench(out, *words):
    return main(["bench", "--out", str(out), "--jobs", "1", "--budget", "200", *words])


def test_writes_everything_and_prints_the_summary(tmp_path, capsys):
    out = tmp_path / "deep" / "folder"
    assert bench(out, "--suite", "mgh,nist", "--solvers", "BFGS-Armijo, L-BFGS-B,BB") == 0
    names = ["mgh.png", "mgh.svg", "nist.png", "nist.svg", "results.csv", "summary.csv"]
    assert sorted(path.name for path in out.iterdir()) == names
    results = Results.from_csv((out / "results.csv").read_text("utf-8"))
    assert [row.problem for row in results.of("mgh").rows[::3]] == FEW
    assert {row.budget for row in results.rows} == {200}
    captured = capsys.readouterr()
    assert captured.err == ""
    groups = re.findall(r"^(\S.*) \((\d+)\) +1e-3: solved", captured.out, re.MULTILINE)
    assert groups == [("mgh", "3"), ("mgh, n ≤ 10", "2"), ("nist", "1")]
    line = next(line for line in results.summary() if line.solver == "BB" and line.accuracy == 1e-5)
    cells = re.search(r"^BB +(.*)$", captured.out, re.MULTILINE)[1].split()
    assert len(cells) == 12
    assert (cells[4], cells[6]) == (str(line.solved), f"{line.wins}/{line.losses}/{line.ties}")
    assert str(out) in captured.out


@pytest.mark.usefixtures("no_pictures")
def test_json(tmp_path, capsys):
    assert bench(tmp_path, "--suite", "nist", "--solvers", "BB,CG", "--reference", "CG", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["subject"], document["reference"], document["budget"]) == ("BB", "CG", 200)
    assert len(document["summary"]) == 6
    with (tmp_path / "summary.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for line, row in zip(document["summary"], rows, strict=True):
        assert {key: "" if value is None else str(value) for key, value in line.items()} == row


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--suite", "cutest"], "--suite: expected names out of mgh, large, nist, learning; got 'cutest'"),
        (["--solvers", "BB", "--reference", "CG"], "--reference: expected one of BB; got 'CG'"),
        (["--solvers", "L-BFGS-B,bb"], "--solvers: 'bb' is not known; did you mean 'BB'?"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_wrong_usage(tmp_path, capsys, words, message):
    assert bench(tmp_path, *words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_pictures")
def test_without_nlopt_it_says_what_is_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("steepen.bench.solvers.find_spec", lambda name: None)
    assert bench(tmp_path, "--suite", "nist", "--budget", "20") == 0
    captured = capsys.readouterr()
    sentence = "steepen: nlopt is not installed; left out: NLopt-LBFGS, NLopt-VAR2, NLopt-TNEWTON\n"
    assert captured.err == sentence
    assert "NLopt" not in captured.out
    assert "L-BFGS-B-200" in captured.out


@pytest.mark.parametrize("module", ["joblib", "matplotlib", "nlopt"])
def test_missing_dependencies_are_named(tmp_path, capsys, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    assert bench(tmp_path, "--suite", "nist", "--solvers", "L-BFGS-B,NLopt-VAR2") == 2
    assert f"needs {module}: pip install 'steepen[" in capsys.readouterr().err


@pytest.mark.usefixtures("no_pictures")
def test_errors_of_solvers_are_told(tmp_path, capsys, monkeypatch):
    def broken(counter, x0):
        raise ZeroDivisionError("what")

    monkeypatch.setitem(SOLVERS, "BB", broken)
    assert bench(tmp_path, "--suite", "nist", "--solvers", "L-BFGS-B,BB") == 0
    assert "1 run ended by an error of the solver (BB)" in capsys.readouterr().err
    assert "ZeroDivisionError: what" in (tmp_path / "results.csv").read_text("utf-8")
