"""`steepen sweep`."""

import re
from pathlib import Path

import pandas
import pytest

import steepen as st
from steepen.cli import main

GOOD = """\
fun = ["booth", "mine:bowl"]
starts = 16
method = ["gd", "cgd-fd"]
points = true
budget = { grads = 40 }
at = [5, 40]
step = { start = 0.001, stop = 0.1, num = 3 }
lam = [0.01, "mine:falling"]
"""

SMALL = """\
starts = 2
method = "cgd-fd"
lam = [0.1, 0.2]
step = [0.01, 0.02]
b = [3, 5]
budget = {grads = 9}

[fun]
"a/b" = "booth"
"""

MINE = """\
import numpy as np
import steepen as st

falling = st.L(0.1, 0.01)

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
    assert first.splitlines()[-1] == f"288 runs, in {Path('out', 's')}"
    before = Path("out/s/results.sqlite").read_bytes()
    assert {path.name for path in Path("out/s").iterdir()} >= {"settings.csv", "profiles.png"}
    rows = st.load_results("out/s/results.sqlite")
    assert len(rows) == 288
    assert sorted(rows.step.unique()) == pytest.approx([0.001, 0.01, 0.1])  # even in logs
    row = rows[(rows.method == "gd") & (rows.step == 0.1)].iloc[0]
    start = [row.start0, row.start1]
    alone = st.minimize(st.functions["booth"], start, method="gd", step=0.1, budget=st.Budget(grads=40))
    assert row.f == alone.fun
    assert main(["sweep", "s.toml"]) == 0
    assert capsys.readouterr().out == first
    assert Path("out/s/results.sqlite").read_bytes() == before


@pytest.mark.slow
def test_maps_and_another_folder():
    Path("s.toml").write_text(GOOD.replace('"mine:falling"', "0.1"))
    assert main(["sweep", "s.toml", "--quiet", "--out", "else"]) == 0
    best = pandas.read_csv("else/settings.csv").query("best")
    assert set(zip(best.function, best.method, strict=True)) >= {("booth", "gd"), ("bowl", "cgd-fd")}
    assert Path("else/map-booth-cgd-fd.png").exists()
    assert not Path("out").exists()


@pytest.mark.parametrize("error", ["ValueError", "FileNotFoundError", "ImportError"])
def test_an_error_in_a_function_of_yours_has_its_traceback(error):
    Path("s.toml").write_text(GOOD.replace("mine:bowl", f"my_{error}:bowl"))
    Path(f"my_{error}.py").write_text(MINE.replace("(x):", f"(x):\n    raise {error}('no')"))
    with pytest.raises(RuntimeError, match=r"^s\.toml: no$") as caught:
        main(["sweep", "s.toml"])
    assert type(caught.value.__cause__).__name__ == error


def test_the_file_on_the_page_of_the_command():
    page = (Path(st.__file__).parents[2] / "docs" / "many.md").read_text("utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    Path("s.toml").write_text(
        text.replace("= 200", "= 3").replace("= 30", "= 2").replace(":loss", ":bowl"), "utf-8"
    )
    assert main(["sweep", "s.toml", "--quiet"]) == 0
    assert {path.name for path in Path("out/s").glob("*.png")} == {
        "map-branin-cgd-fd.png", "map-bowl-cgd-fd.png", "profiles.png"
    }  # fmt: skip


def test_a_batch_that_fails_is_told_in_a_line(capsys):
    Path("s.toml").write_text(GOOD.replace("mine:falling", "failing:lam"))
    Path("failing.py").write_text("def lam(k):\n    raise OSError('no λ')\n", "utf-8")
    assert main(["sweep", "s.toml"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("steepen: s.toml: 2 of 6")
    assert " batches failed; the completed ones are in the file" in line


def test_a_map_for_every_value_of_another_setting():
    Path("s.toml").write_text(SMALL)
    assert main(["sweep", "s.toml", "--quiet"]) == 0
    maps = {path.name for path in Path("out/s").glob("map-*")}
    assert maps == {f"map-a%2Fb-cgd-fd-b={b}.0.png" for b in (3, 5)}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("starts =", "starts =\n=", "Invalid value (at line 2, column 9)"),
        ("method", "metod", "metod: not an argument of sweep; did you mean 'method'?"),
        ('"booth"', '"both"', "fun: 'both' is not known; did you mean"),
        ("mine:bowl", "mine:bowls", "fun: 'mine:bowls' could not be imported: module 'mine' has no"),
        ("start = 0.001", "start = 0", "step: Geometric sequence cannot include zero"),
        ("grads", "grad", "budget: Budget.__init__() got an unexpected keyword argument 'grad'; the keys are "
         "grads, evals, iters, seconds"),
        ("mine:falling", "often", "lam: expected a number, a schedule"),
        ('["gd", "cgd-fd"]', '["gd"]', "lam: method 'gd' has no such setting"),
        ("points =", "workers = 2\npoints =", "workers: expected none in the file; the command has"),
        ("mine:bowl", ":bowl", "fun: ':bowl' could not be imported: Empty module name"),
        ("[5, 40]", "[-5]", "at: expected a whole number, 0 or more, got -5"),
        ("[5, 40]", "[5, 41]", "at: expected at most the budget, 40 gradients, got 41"),
        (GOOD, "", "fun: missing; a file needs fun and starts"),
        ("starts = 16\n", "", "starts: missing; a file needs fun and starts"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_in_the_words_of_st_sweep(capsys, old, new, words):
    assert old in GOOD
    Path("s.toml").write_text(GOOD.replace(old, new))
    assert main(["sweep", "s.toml"]) == 2
    assert capsys.readouterr().err.startswith(f"steepen: s.toml: {words}")
    assert not Path("out").exists()


def test_a_refused_file_leaves_an_earlier_folder_as_it_was(capsys):
    Path("out/s").mkdir(parents=True)
    Path("out/s/mine.txt").write_text("kept")
    Path("s.toml").write_text(GOOD.replace("[5, 40]", "[-5]"))
    assert main(["sweep", "s.toml"]) == 2
    assert [path.name for path in Path("out/s").iterdir()] == ["mine.txt"]
    Path("else").mkdir()
    assert main(["sweep", "s.toml", "--out", "else/new/deep"]) == 2
    assert list(Path("else").iterdir()) == []
    capsys.readouterr()


@pytest.mark.parametrize("jobs", ["-1", "2"])
def test_a_number_of_jobs_as_on_the_page(jobs, capsys):
    Path("s.toml").write_text(SMALL)
    assert main(["sweep", "s.toml", "--workers", jobs]) == 0
    several = capsys.readouterr().out
    assert main(["sweep", "s.toml", "--out", "one"]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == several.splitlines()[:-1]


def test_no_jobs_at_all_are_refused(capsys):
    Path("s.toml").write_text(SMALL)
    assert main(["sweep", "s.toml", "--workers", "0"]) == 2
    assert (
        capsys.readouterr().err == "steepen: --workers: expected 1 or more, or -1 for one per core, got 0\n"
    )


@pytest.mark.parametrize("columns", [60, 80])
def test_the_table_fits_the_terminal(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    Path("s.toml").write_text(GOOD.replace("lam =", "r = [0.1, 0.01]\nb = [3, 5]\nlam ="))
    assert main(["sweep", "s.toml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert {"median", "diverged", "bowl"} <= {word for line in lines for word in line.split()}
