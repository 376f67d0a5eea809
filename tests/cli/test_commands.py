import csv
import io
import json
import re
import signal
import sys
from typing import NamedTuple

import numpy as np
import pytest
from tests.pairs import sample

import steepen as st
from steepen.cli import main


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self):
        assert not re.search(r"\b(NaN|Infinity)\b", self.out)  # which are not JSON
        return json.loads(self.out)

    @property
    def table(self):
        """The rows of the table below the heading, by their first word."""
        _, titles, *rows = (re.split(r" {2,}", line.strip()) for line in self.out.splitlines())
        return {row[0].removesuffix("*"): dict(zip(titles, row, strict=True)) for row in rows if len(row) > 1}


@pytest.fixture
def cli(capsys):
    def run(*words):
        code = main([part for word in words for part in str(word).split()])
        return Done(code, *capsys.readouterr())

    return run


def test_functions_lists_every_one_and_shows_one_in_full_precision(cli):
    done = cli("functions")
    titles, *rows = (re.split(r" {2,}", line.strip()) for line in done.out.splitlines())
    assert (done.code, done.err) == (0, "")
    assert titles == ["name", "title", "group", "n", "minimum", "bounds"]
    for (name, title, group, n, minimum, _), f in zip(rows, st.functions.values(), strict=True):
        assert (name, title, group, n) == (f.name, f.title, f.group, "any" if f.any_n else str(f.n))
        assert float(minimum) == pytest.approx(f.fmin, rel=1e-5)
    for f in (st.functions["branin"], st.functions["gramacy-lee"]):
        out = cli("functions", f.name).out
        assert out.startswith(f"{f.title} ({f.name}), {f.group}\n")
        points = [[float(word) for word in one.split(",")] for one in re.findall(r"\((-?\d[^()]*)\)", out)]
        assert points[-len(f.minima) :] == f.minima.tolist()
        assert repr(f.fmin) in out


def test_run_gives_what_minimize_gives(cli):
    words = "run branin --method cgd-fd --x0 -4.751,12.459 --step 0.01 --lam 0.07 --r 0.2 --b 10 --gtol 1e-6"
    done = cli(words, "--grads 40 --json")
    f, given = st.functions["branin"], {"step": 0.01, "lam": 0.07, "r": 0.2, "b": 10, "gtol": 1e-6}
    res = st.minimize(f, [-4.751, 12.459], method="cgd-fd", budget=st.Budget(grads=40), **given)
    got = done.document
    assert (done.code, done.err, got["x"]) == (0, "", res.x.tolist())
    for name in ("fun", "nit", "nfev", "njev", "message", "success"):
        assert got[name] == res[name]
    assert (got["status"], got["gap"]) == ("MAX_GRADIENTS", res.fun - f.fmin)
    assert got["gnorm"] == np.linalg.norm(f.grad(res.x))
    assert got["distance"] == min(np.linalg.norm(res.x - m) for m in f.minima)
    assert got["first_step"] == pytest.approx(87.07, abs=0.005)  # the paper's Table 1


@pytest.mark.parametrize("name", sample(list(st.functions), 6))
def test_the_default_start_is_fixed_inside_and_no_minimiser(name):
    from steepen.cli._options import problem

    f, x0 = problem(name, None, None, seed=0)
    again = problem(name, None, "random", seed=0)[1]
    other = problem(name, None, None, seed=1)[1]
    assert x0.tolist() == again.tolist() != other.tolist()
    assert ((f.bounds[:, 0] <= x0) & (x0 <= f.bounds[:, 1])).all()
    assert float(f(x0)) > f.fmin
    batch = problem(name, None, None, seed=0, starts=4)[1]
    assert batch.shape == (4, f.n)
    assert batch[0].tolist() == x0.tolist()


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("--step L(0.05,0.01)", {"step": st.L(0.05, 0.01)}),
        ("--step cosine(0.05,0.01)", {"step": st.schedules.Cosine(0.05, 0.01)}),
        ("--step quadratic", {"step": st.steps.Quadratic()}),
        ("--step auto --lam auto", {}),
        ("--lam -0.01", {"lam": -0.01}),
        ("--step 1e-2 --lam L(.01,1e-1)", {"step": 0.01, "lam": st.L(0.01, 0.1)}),
        ("--penalty l2 --lam 0.1", {"penalty": st.penalties.L2(), "lam": 0.1}),
        ("--penalty huber(0.5) --lam 0.1", {"penalty": st.penalties.Huber(0.5), "lam": 0.1}),
        ("--penalty p-norm(3) --lam 0.1", {"penalty": st.penalties.PNorm(3.0), "lam": 0.1}),
        ("--b 3", {"b": 3}),
    ],
)
def test_options_mean_what_they_say(cli, words, options):
    got = cli("run branin --method cgd --x0 1,2 --iters 20 --json", words).document
    res = st.minimize(st.functions["branin"], [1.0, 2.0], method="cgd", budget=st.Budget(iters=20), **options)
    assert (got["x"], got["nfev"], got["nhvp"]) == (res.x.tolist(), res.nfev, res.nhvp)


def test_the_trace_files(cli, tmp_path):
    words = "run booth --method gd --x0 0,0 --step 0.05 --iters 9 --quiet --trace"
    for suffix in ("csv", "npz"):
        assert cli(words, tmp_path / f"t.{suffix}") == (0, "", "")
    given = {"step": 0.05, "budget": st.Budget(iters=9), "trace": "x"}
    trace = st.minimize(st.functions["booth"], [0.0, 0.0], method="gd", **given).trace
    with (tmp_path / "t.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["f"]) for row in rows] == trace.f.tolist()
    assert [[float(row["x0"]), float(row["x1"])] for row in rows] == trace.x.tolist()
    with np.load(tmp_path / "t.npz") as arrays:
        assert arrays["njev"].tolist() == trace.njev.tolist()


def test_the_picture(cli, tmp_path):
    png, svg = b"\x89PNG", b"<?xml"
    for words, suffix, head in (("run", "png", png), ("run", "svg", svg), ("compare", "png", png)):
        path = tmp_path / f"{words}.{suffix}"
        assert cli(words, "branin --grads 9 --quiet --plot", path) == (0, "", "")
        assert path.read_bytes().startswith(head)


def test_a_run_goes_on_from_its_checkpoint(cli, tmp_path):
    words = "run rosenbrock --method gd --x0 -1.2,1 --step 0.001 --json --iters"
    whole = cli(words, 30).document
    part = cli(words, 12, "--checkpoint", tmp_path / "run.npz").document
    rest = cli(words, 30, "--checkpoint", tmp_path / "run.npz").document
    assert part["nit"] == 12
    for document in (whole, rest):
        del document["seconds"]
    assert rest == whole


@pytest.mark.parametrize(
    ("words", "gd", "cgd_fd"),
    [
        # the paper's Table 1: improvement of the first step in percent
        ("quadratic --x0 1,1,1,1,1,1,1,1,1,1 --step 0.01 --lam 0.4", "18.89", "97.91"),
        ("branin --x0 -4.751,12.459 --step 0.01 --lam 0.07 --r 0.2", "37.53", "87.07"),
        ("matyas --x0 1.4267,6.8533 --step 0.01 --lam 10", "1.83", "34.40"),
    ],
)
def test_compare_prints_the_table_of_the_paper(cli, words, gd, cgd_fd):
    done = cli("compare", words, "--methods", "gd,cgd-fd")
    assert (done.code, done.err, done.table["gd"]["1st %"]) == (0, "", gd)
    assert done.table["cgd-fd"]["1st %"] == cgd_fd


def test_compare_from_many_starts(cli, tmp_path):
    words = "compare branin --methods gd,cgd-fd --step 0.01 --lam 0.05 --starts 7 --seed 3"
    document = cli(words, "--json --csv", tmp_path / "runs.csv").document
    f = st.functions["branin"]
    starts = np.random.default_rng(3).uniform([-5, 0], [10, 15], size=(7, 2))
    assert (document["x0"], document["budget"]) == (starts.tolist(), {"grads": 40})
    with (tmp_path / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    wanted = [(m, str(i)) for m in ("gd", "cgd-fd") for i in range(7)]
    assert [(row["method"], row["start"]) for row in rows] == wanted
    for item, lam in zip(document["methods"], (None, 0.05), strict=True):
        given = {"method": item["method"], "step": 0.01, "lam": lam, "budget": st.Budget(grads=40)}
        singles = [st.minimize(f, x0, **given) for x0 in starts]
        values = [res.fun for res in singles]
        made = [run["fun"] for run in item["runs"]]
        assert made == pytest.approx(values, rel=1e-9)
        assert item["median"]["fun"] == pytest.approx(sorted(values)[3], rel=1e-9)
        assert [run["status"] for run in item["runs"]] == [res.status.name for res in singles]
        assert [float(row["fun"]) for row in rows if row["method"] == item["method"]] == made
    medians = {item["method"]: item["median"]["fun"] for item in document["methods"]}
    assert document["best"] == min(medians, key=medians.get)
    told = cli(words)
    assert "medians over 7 random starts, grads ≤ 40" in told.out
    assert float(told.table["gd"]["f − f*"]) == pytest.approx(medians["gd"] - f.fmin, rel=6e-3)
    assert re.findall(r"^(\S+)\*", told.out, re.MULTILINE) == [document["best"]]


@pytest.mark.parametrize(
    ("words", "code", "err"),
    [
        ("run booth", 0, ""),
        ("run rosenbrock --method gd --grads 3", 0, ""),
        ("run rosenbrock --method gd", 1, "gd: Not converged within the default limit; give another"),
        ("run rosenbrock --method gd --step 1", 1, "gd: f was not finite; x is the best finite point seen."),
        ("run holder-table --method bfgs", 1, "bfgs: f falls without bound"),
        ("compare rosenbrock --methods gd,bfgs --step 1 --grads 99", 1, "gd: f was not finite"),
    ],
)
def test_exit_codes(cli, words, code, err):
    done = cli(words, "--json")
    assert (done.code, done.err.startswith(f"steepen: {err}" if err else "")) == (code, True)
    assert isinstance(done.document, dict)
    if not err:
        assert done.err == ""
    quiet = cli(words, "--quiet")
    assert (quiet.code, quiet.out) == (code, "")


@pytest.mark.parametrize(
    ("words", "err"),
    [
        ("run brannin", "FUNCTION: 'brannin' is not known; did you mean 'branin'?"),
        ("run branin --method cgd_fd", "--method: 'cgd_fd' is not known; did you mean 'cgd-fd'?"),
        ("functions --n 3", "--n: give the name of a function with it"),
        ("compare branin --methods gd,gd", "--methods: 'gd' is named twice"),
        ("compare branin --starts 2 --x0 1,2", "--starts: draws its own start points; leave out --x0"),
        ("compare branin --csv runs.txt", "--csv: expected a name ending in .csv, got 'runs.txt'"),
        ("run branin --n 3", "--n: branin exists for n = 2 only, got n = 3"),
        ("run branin --x0 1,2,3", "--x0: expected 2 numbers for branin, got 3"),
        ("run branin --x0 1,nan", "--x0: expected numbers with commas between, or random; got '1,nan'"),
        ("run branin --step 0", "--step: expected positive values, got '0'"),
        ("run branin --step __import__('os')", "--step: expected a number"),
        ("run branin --method cgd --lam L(0,1) --evals 9", "--lam: L(a,b) and cosine(a,b) need --grads or"),
        ("run branin --lam 0.1", "--lam: method 'cgd-auto' chooses λ itself"),
        ("run branin --method cgd --penalty huber(0)", "--penalty: delta: expected a positive number, got 0"),
        ("run branin --grads 0", "--grads: expected a whole number, 1 or more, got 0"),
        ("run branin --trace t.txt", "--trace: expected a name ending in .csv or .npz, got 't.txt'"),
        ("run branin --colour red", "No such option: --colour"),
    ],
)
def test_errors_are_one_line_and_name_the_option(cli, words, err):
    done = cli(words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"steepen: {err}")
    assert done.err.count("\n") == 1


INTERRUPTED = [
    "run rosenbrock --method gd --step 1e-9",
    "compare rosenbrock --methods bfgs,gd,cgd --grads 12",
]


@pytest.fixture
def interrupt_at_gradient_20(monkeypatch):
    whole, calls = st.functions.Function.grad, []

    def grad(self, X):
        calls.append(None)
        if len(calls) == 20:
            signal.raise_signal(signal.SIGINT)
        return whole(self, X)

    monkeypatch.setattr(st.functions.Function, "grad", grad)


@pytest.mark.usefixtures("interrupt_at_gradient_20")
@pytest.mark.parametrize("words", INTERRUPTED)
def test_what_is_interrupted_still_reports_what_is_there(cli, words):
    done = cli(words, "--gtol 0 --json")
    assert (done.code, done.err) == (1, "steepen: gd: The run was interrupted from the keyboard.\n")
    if words.startswith("run"):
        assert (done.document["status"], done.document["nit"]) == ("INTERRUPTED", 19)
    else:
        assert [item["method"] for item in done.document["methods"]] == ["bfgs", "gd"]


def test_help_and_version(cli):
    assert cli("--version") == (0, f"steepen {st.__version__}\n", "")
    for words in ("--help", "functions --help", "run --help", "compare --help"):
        assert cli(words).code == 0
    assert "Exit codes" in cli("run --help").out
    assert all(word in cli("--help").out for word in ("functions", "run", "compare", "Exit codes: 0"))
    nothing = cli()
    assert nothing.code == 2
    assert "Usage: steepen" in nothing.out


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [60, 80])
def test_compare_fits_the_terminal_and_shows_a_bar_on_standard_error(columns, monkeypatch):
    out, err = Terminal(), Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert main(["compare", "branin", "--methods", "gd,cgd-fd,bfgs,cgd-bfgs"]) == 0
    assert "\x1b[" in out.getvalue()  # colours
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()
    assert max(map(len, lines)) <= columns
    blocks = [i for i, line in enumerate(lines) if line.startswith("method")]
    assert len(blocks) == {60: 2, 80: 1}[columns]
    titles = [title for i in blocks for title in re.split(r" {2,}", lines[i])[1:]]
    assert titles == ["f − f*", "‖∇f‖", "1st %", "grads", "values", "iters", "status", "time"]
    assert "━" in err.getvalue()


def test_a_pipe_gets_plain_whole_lines(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    done = cli("compare hartmann-6 --methods gd,cgd-fd,bfgs,cgd-bfgs,newton")
    lines = done.out.splitlines()
    assert (done.err, "\x1b" in done.out) == ("", False)
    assert lines[1].split()[-1] == "time"
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_a_missing_dependency_of_the_command(cli, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    done = cli("--help")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"steepen: the steepen command needs {module}: pip install 'steepen[cli]'\n"
