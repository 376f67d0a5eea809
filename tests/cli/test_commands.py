"""The command as a whole: help, version, errors, and what is missing."""

import io
import re
import runpy
import sys
from typing import NamedTuple

import pytest

import steepen as st
from steepen.cli import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    def run(words=""):
        return Done(main(words.split()), *capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("words", "err"),
    [
        ("explore brannin", "FUNCTION: 'brannin' is not known; did you mean 'branin'?"),
        ("explore branin --out .", "--out: expected a file, got the folder '.'"),
        ("explore branin --out page.txt", "--out: expected a file name ending in .html, got 'page.txt'"),
        ("explore branin --out nowhere/page.html", "--out: expected a file in an existing folder"),
        ("reproduce --only lema1", "--only: 'lema1' is not known; did you mean 'lemma1'?"),
        *(
            (f"reproduce --only {said}", f"--only: {said!r} is not the name of an item; use {name!r}")
            for said, name in (
                ("Fig.5", "fig-egr"),
                ("figure3", "fig-convergence"),
                ("Theorem-1", "theorem1"),
            )
        ),
        ("sweep nothing.toml", "Invalid value for 'FILE.toml': file 'nothing.toml' does not exist"),
        ("reproduce --colour red", "No such option: --colour"),
    ],
)
def test_errors_are_one_line_and_name_the_option(cli, words, err):
    done = cli(words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"steepen: {err}")
    assert done.err.count("\n") == 1


def test_help_and_version(cli):
    assert cli("--version") == (0, f"steepen {st.__version__}\n", "")
    text = cli("--help").out
    assert cli("-h").out == text
    assert "Usage: steepen sweep" in cli("sweep -h").out
    for name in ("explore", "sweep", "reproduce"):
        assert name in text
        assert "Exit codes" in cli(f"{name} --help").out
    nothing = cli()
    assert nothing.code == 2
    assert "Usage: steepen" in nothing.out


def test_python_dash_m(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["steepen", "--version"])
    with pytest.raises(SystemExit) as left:
        runpy.run_module("steepen", run_name="__main__")
    assert (left.value.code, capsys.readouterr().out) == (0, f"steepen {st.__version__}\n")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_a_terminal_gets_colours_and_a_pipe_plain_lines(cli, tmp_path, monkeypatch):
    words = f"reproduce --only quadratic --out {tmp_path / 'out'}"
    piped = cli(words)
    assert "\x1b" not in piped.out
    assert all(line == line.rstrip() for line in piped.out.splitlines())
    out, err = Terminal(), Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert main(words.split()) == 0
    assert "\x1b[" in out.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()) == piped.out
    assert "━" in err.getvalue()


@pytest.mark.parametrize("command", ["", "explore", "sweep", "reproduce"])
def test_help_fits_a_narrow_terminal(cli, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "50")
    text = cli(f"{command} --help").out
    assert max(map(len, text.splitlines())) <= 50
    assert "…" not in text  # nothing is cut off


@pytest.mark.parametrize("module", ["typer", "rich"])
def test_a_missing_dependency_of_the_command(cli, monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    done = cli("--help")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"steepen: the steepen command needs {module}: pip install 'steepen[paper]'\n"


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_what_reproduce_prints_fits_the_terminal(cli, tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    done = cli(f"reproduce --only quadratic,theorem1 --out {tmp_path / 'out'}")
    lines = [line for line in done.out.splitlines() if not line.startswith("The page: ")]
    assert max(map(len, lines)) <= min(columns, 100)
    text = " ".join(done.out.split())
    for word in ("paper: ((κ−1)/(κ+1))ᵏ", "not a claim of the paper", "claims agree"):
        assert word in text
