"""`explore` writes one whole file that asks for nothing else, or refuses before it evaluates anything."""

import json
import math
import re

import numpy as np
import pytest
from tests.pairs import sample

import steepen as st
from steepen.cli import main
from steepen.explorer._formulas import javascript
from steepen.explorer._sample import sampled
from steepen.paper.experiments import EXPERIMENTS


def page(folder, *given, **more):
    return st.explore(*given, out=folder / "page.html", **more).read_text("utf-8")


def test_the_page_asks_for_no_other_file_and_has_every_function_of_one_or_two_variables(tmp_path):
    text = page(tmp_path)
    assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?|\bimport\b|\bfetch\b|https?:""", text)
    assert not re.search(r"\{\{\w+\}\}", text)  # a place that nothing was put into
    for name, fun in st.functions.items():
        for n, key in ((1, name if fun.n == 1 else f"{name}-1d"), (2, name)):
            try:
                fun.at(n)
            except ValueError:
                assert f'\n"{key}": {{' not in text or fun.n == 1
            else:
                assert f'\n"{key}": {{' in text


def evaluated(body, **given):
    """Return what the body of a JavaScript function returns: of formulas, so that Python understands it."""
    names = {name: getattr(math, name) for name in ("sqrt", "sin", "cos", "exp", "expm1")} | {"pow": math.pow}
    names |= given | {"sign": lambda t: float(np.sign(t))}
    declared, _, result = body.replace("===", "==").removeprefix("const ").rpartition("return ")
    for line in filter(None, re.split(r", (?=t\d+ = )", declared.strip(" ;"))):
        name, _, value = line.partition(" = ")
        names[name] = eval(value, {}, names)
    return eval(result.rstrip(";"), {}, names)


@pytest.mark.parametrize("name", sample(list(st.functions), 20, always=["ackley", "schwefel", "branin"]))
def test_the_formulas_in_the_page_are_the_functions_and_their_derivatives(name):
    fun = st.functions[name]
    if fun.n > 2:
        pytest.skip("of more variables than a page can show")
    bodies, rng = javascript(fun), np.random.default_rng(3)
    for x in rng.uniform(*fun.bounds.T, size=(3, fun.n)):
        v = rng.normal(size=fun.n)
        ours = [evaluated(bodies[part], x=x.tolist(), v=v.tolist()) for part in ("value", "grad", "hvp")]
        for a, b in zip(ours, (fun(x), fun.grad(x), fun.hvp(x, v)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(b).max())
    right = re.findall(r"t\d+ = (.*?)(?=, t\d+ = |; return)", bodies["hvp"])
    assert len(set(right)) == len(right)  # no operation stands twice


def test_the_page_begins_with_the_papers_settings_and_the_function_asked_for(tmp_path):
    text = page(tmp_path, "matyas")
    assert 'start(functions, "matyas");' in text
    row = EXPERIMENTS["branin"]
    said = {"start": row.start, "lam": row.lam0, "step": row.step, "r": row.r}
    assert f'"paper": {json.dumps(said)}' in text
    given = st.functions.quadratic([[2.0, 0.0], [0.0, 1.0]])
    assert 'start(functions, "yours");' in page(tmp_path, given)
    text = page(tmp_path, "booth", [(0, 2), (1, 4)])
    assert '"title": "Booth", "group": "plate-shaped", "n": 2, "bounds": [[0.0, 2.0], [1.0, 4.0]]' in text


def test_a_name_cannot_end_the_script(tmp_path):
    def fun(x):
        return x @ x

    fun.__name__ = "</script><b>"
    assert page(tmp_path, fun, [(-1, 1)], samples=4).count("</script>") == 1


def never(x):
    raise AssertionError("fun was evaluated")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fun": "branim"}, "fun: 'branim' is not known; did you mean 'branin'"),
        ({"fun": "hartmann-3"}, "fun: expected a function of one or two variables, got Function"),
        ({"fun": 3}, "fun: expected a name, a Function or a callable, got 3"),
        ({"fun": never}, "bounds: expected the box in which to sample fun, got None"),
        ({"fun": never, "bounds": [(0, 1)] * 3}, "bounds: expected one or two rows (low, high)"),
        ({"fun": never, "bounds": [(0, 1)], "out": "nowhere/page.html"}, "out: expected a file in a folder"),
        ({"fun": "booth", "bounds": [(0, 1)]}, "bounds: expected 2 rows (low, high)"),
        ({"fun": never, "bounds": [(0, 1)], "samples": 3}, "samples: expected a whole number, 4 or more"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_before_anything_is_evaluated(arguments, message, tmp_path):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        st.explore(**{"out": tmp_path / "page.html"} | arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("fun", "error", "message"),
    [
        (lambda x: np.nan, ValueError, "fun: expected finite values in the box, got nan at x = [0.0]"),
        (lambda x: [1.0, 2.0], TypeError, "fun: expected a number, got [1.0, 2.0] at x = [0.0]"),
    ],
)
def test_values_that_are_none_are_refused_and_nothing_is_written(fun, error, message, tmp_path):
    with pytest.raises(error, match=re.escape(message)):
        st.explore(fun, [(0, 1)], out=tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_a_spline_goes_through_its_samples():
    from scipy.interpolate import BSpline

    box = np.array([[-1.0, 2.0], [0.0, 3.0]])
    made = sampled(lambda x: np.sin(x[0]) * np.exp(-x[1]), box, 9)
    (t, u), c = made["knots"], np.reshape(made["coefficients"], (9, 9))
    a, b = np.linspace(-1, 2, 9), np.linspace(0, 3, 9)
    values = BSpline(u, BSpline(t, c, 3)(a).T, 3)(b).T
    np.testing.assert_allclose(values, np.outer(np.sin(a), np.exp(-b)), atol=1e-14)


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (lambda x: np.arctan(x[0]), "arctan"),
        (lambda x: np.where(x[0] == 0, x[0], 1.0), "where"),
        (lambda x: x[0] if x[0] == 0 else -x[0], "a branch on x"),
    ],
)
def test_a_function_whose_formulas_cannot_be_written_is_refused(value, word, tmp_path):
    def grad(x, g):
        g[...] = 0

    fun = st.functions.Function("odd", "Odd", "mine", value, grad, n=1, bounds=(-1, 1), minima=0.0, fmin=0.0)
    with pytest.raises(ValueError, match=f"fun: there is no JavaScript for .*{word}.*; have it sampled"):
        st.explore(fun, out=tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_page_or_says_in_one_line_what_is_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words, message in (
        (["levi"], "FUNCTION: 'levi' is not known; did you mean 'levy'?"),
        (["--out", "page.txt"], "--out: expected a name ending in .html, got 'page.txt'"),
        (["--out", "nowhere/page.html"], "--out: there is no folder 'nowhere'"),
    ):
        assert main(["explore", *words]) == 2
        assert capsys.readouterr().err == f"steepen: {message}\n"
    assert not list(tmp_path.iterdir())
    assert main(["explore", "levy-1d", "--out", "levy.html"]) == 0
    assert capsys.readouterr().out.strip() == "The page: levy.html"
    assert 'start(functions, "levy-1d");' in (tmp_path / "levy.html").read_text("utf-8")
