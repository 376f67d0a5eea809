"""`explore` writes one whole file that asks for nothing else, or refuses before it evaluates anything."""

import re

import numpy as np
import pytest
from tests.paper.explorer.node import ran

import steepen as st
from steepen.cli import main
from steepen.paper import explore


def test_the_page_asks_for_no_other_file_and_begins_with_the_function_and_box_asked_for(tmp_path):
    text = explore(out=tmp_path / "page.html").read_text("utf-8")
    assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?|\bimport\b|\bfetch\b|https?:""", text)
    assert not re.search(r"\{\{\w+\}\}", text)  # a place that nothing was put into
    page = explore("booth", [(0, 2), (1, 4)], out=tmp_path / "page.html")
    assert 'start(functions, "booth");' in page.read_text("utf-8")
    assert ran(page, "functions.booth.bounds") == [[0, 2], [1, 4]]
    page = explore(st.functions.quadratic([[2.0, 0.0], [0.0, 1.0]]), out=tmp_path / "page.html")
    assert 'start(functions, "yours");' in page.read_text("utf-8")
    assert ran(page, "functions.yours.value([1, 2])") == 3


def test_a_name_cannot_end_the_script(tmp_path):
    def fun(x):
        return x @ x

    fun.__name__ = "</script><b>"
    page = explore(fun, [(-1, 1)], samples=4, out=tmp_path / "page.html")
    assert page.read_text("utf-8").count("</script>") == 1
    assert ran(page, "functions.yours.title") == "</script><b>"


def never(x):
    raise AssertionError("fun was evaluated")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fun": "branim"}, "fun: 'branim' is not known; did you mean 'branin'"),
        ({"fun": "hartmann-3"}, "fun: expected a function of one or two variables, got Function('hart"),
        ({"fun": st.functions["sphere"].at(3)}, "fun: expected a function of one or two variables, got"),
        ({"fun": 3}, "fun: expected a name, a Function or a callable, got 3"),
        ({"fun": never}, "bounds: expected the box in which to sample fun, got None"),
        ({"fun": never, "bounds": [(0, 1)], "out": "no/page.html"}, "out: expected a file in an existing"),
        ({"fun": "booth", "bounds": [(0, 1)]}, "bounds: expected 2 rows (low, high)"),
        ({"fun": never, "bounds": [(0, 1)], "samples": 3}, "samples: expected a whole number, 4 or more"),
        ({"fun": lambda x: np.nan, "bounds": [(0, 1)]}, "fun: expected finite values in the box, got nan at"),
        ({"fun": lambda x: [1, 2], "bounds": [(0, 1)]}, "fun: expected a number, got [1, 2] at x = [0.0]"),
    ],
)  # fmt: skip
def test_wrong_arguments_and_values_are_refused_and_nothing_is_written(arguments, message, tmp_path):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        explore(**{"out": tmp_path / "page.html"} | arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (lambda x, slope: np.arcsinh(x[0]), "arcsinh"),
        (lambda x, slope: np.where(x[0] == 0, x[0], 1.0), "a branch on x"),
        (lambda x, slope: x[0] if x[0] < 0 else -x[0], "a branch on x"),
    ],
)
def test_a_function_whose_formulas_cannot_be_written_is_refused(value, word, tmp_path):
    fun = st.functions.Function("odd", "Odd", "mine", value, n=1, bounds=(-1, 1), minima=0.0, fmin=0.0)
    with pytest.raises(ValueError, match=f"fun: the page has no formula for {word}; pass a plain callable"):
        explore(fun, out=tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["explore", "levy-1d", "--out", "levy.html"]) == 0
    assert capsys.readouterr().out.strip() == "The page: levy.html"
    assert 'start(functions, "levy-1d");' in (tmp_path / "levy.html").read_text("utf-8")
