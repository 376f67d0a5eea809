"""A log holds every evaluation, and a run that finds one evaluates nothing of it again."""

import json

import numpy as np
import pytest

import steepen as st

from ..calls import At, raising, same
from ..pairs import pairs
from ..test_scale import bend, plain, slope

ONE = np.array([-1.2, 1.0])
MANY = np.array([[-1.2, 1.0], [0.98, 0.97], [2.0, -1.0]])
SOURCES = {
    "given": {"jac": slope}, "hvp": {"jac": slope, "hvp": lambda x, v: bend(x) @ v},
    "hess": {"jac": slope, "hess": bend}, "both": {"jac": True}, "2-point": {}, "cs": {"jac": "cs"},
}  # fmt: skip


def never(*_):
    raise AssertionError


@pairs(source=SOURCES, start=("one", "many"), method=("cgd-auto", "newton", "gd"), scale=(None, (4.0, 0.5)))
def test_a_run_with_the_log_of_another_evaluates_nothing(tmp_path, source, start, method, scale):
    if start == "many" and source in ("hvp", "hess"):
        pytest.skip("these are for one point")
    x0 = ONE if start == "one" else MANY
    given = SOURCES[source] | {"method": method, "x_scale": scale, "budget": st.Budget(iters=12)}
    fun = (lambda x: (plain(x), slope(x))) if source == "both" else plain
    whole = st.minimize(fun, x0, **given)
    same(st.minimize(fun, x0, log=tmp_path / "log", **given), whole)
    silent = {name: never if callable(value) else value for name, value in given.items()}
    same(st.minimize(never, x0, log=tmp_path / "log", **silent), whole)


def test_a_run_that_died_goes_on_wherever_it_was(tmp_path):
    whole = st.minimize(plain, ONE)
    for j in range(0, whole.nfev, 7):
        path = tmp_path / f"{j}"
        with pytest.raises(ZeroDivisionError):
            st.minimize(At(plain, j, raising(ZeroDivisionError)), ONE, log=path)
        path.write_bytes(path.read_bytes() + b'{"x": [1.0,')  # killed in the middle of a line
        rest = At(plain, 10**9, None)
        same(st.minimize(rest, ONE, log=path, checkpoint=tmp_path / f"{j}.db"), whole)
        assert rest.calls == whole.nfev - j
        assert len(path.read_text().splitlines()) == whole.nfev


def test_each_line_is_an_evaluation():
    lines = []
    res = st.minimize(lambda x: (plain(x), slope(x)), ONE, jac=True, x_scale=[4.0, 0.5], log=lines.append)
    assert len(lines) == res.nfev
    for line in json.loads(json.dumps(lines)):
        x = np.array(line["x"])
        assert (line["f"], line["g"], line["row"]) == (plain(x), slope(x).tolist(), None)
    assert [line["seconds"] for line in lines] == sorted(line["seconds"] for line in lines)


def test_wrong_logs_are_refused_before_any_work(tmp_path):
    with pytest.raises(TypeError, match=r"^log: expected a path or a callable"):
        st.minimize(never, ONE, log=3)
    for path, what in (
        (tmp_path / "none" / "log", "in a folder that does not exist"),
        (tmp_path, "a folder"),
    ):
        with pytest.raises(ValueError, match=f"^log: expected a path to write to; .* is {what}"):
            st.minimize(never, ONE, log=path)
    path = tmp_path / "log"
    st.minimize(lambda x: x @ x, np.ones(3), log=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"^log: line 1 of .* is no evaluation .* expected 2 var"):
        st.minimize(never, ONE, log=path)
    assert path.read_bytes() == before
    path.write_text("once upon a time\n")
    with pytest.raises(ValueError, match=r"^log: line 1 of"):
        st.minimize(never, ONE, log=path)


def shifted(x, by, *_):
    return ((x - by) ** 2).sum(axis=-1)


def test_the_log_of_other_data_is_refused(tmp_path):
    path, data = tmp_path / "log", np.arange(3.0)[:, None]
    given = {"rows": data, "log": path}
    whole = st.minimize(shifted, MANY, **given)
    same(st.minimize(never, MANY, **given), whole)
    for x0, others, text in (
        (MANY, {"rows": data + 1.0}, "other data"), (MANY, {"args": (np.arange(2.0),)}, "other data"),
        (MANY[:2], {"rows": data[:2]}, "row 2, and this is 2 rows"), (ONE, {"args": (0.5,)}, "a single run"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"^log: line .* is no evaluation of this problem: .*{text}"):
            st.minimize(never, x0, **(given | {"rows": None} | others))
    one = tmp_path / "one"
    st.minimize(shifted, ONE, (np.ones(2), never), log=one)
    st.minimize(never, ONE, (np.ones(2), plain), log=one)
    with pytest.raises(ValueError, match="other data"):
        st.minimize(never, ONE, (2 * np.ones(2), never), log=one)


@pytest.mark.parametrize(
    "line",
    [
        '{"x": [1.0, 2.0], "f": 1.0}', "[1, 2]", '{"x": [1.0, 2.0], "row": null, "f": null}',
        '{"x": [1.0, 2.0], "row": null, "f": 1.0, "g": [1.0]}', '{"x": [1.0, 2.0], "row": 0, "f": 1.0}',
        '{"x": ["a", "b"], "row": null, "f": 1.0}', '{"x": [1.0, 2.0], "row": null, "f": "low"}',
    ],
)  # fmt: skip
def test_a_line_that_is_no_evaluation_is_refused(tmp_path, line):
    path = tmp_path / "log"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match=r"^log: line 1 of .* is no evaluation of this problem"):
        st.minimize(never, ONE, jac=True, log=path)
    assert path.read_text() == line + "\n"
