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
    with pytest.raises(ValueError, match=r"^log: the folder"):
        st.minimize(never, ONE, log=tmp_path / "none" / "log")
    path = tmp_path / "log"
    st.minimize(lambda x: x @ x, np.ones(3), log=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"^log: line 1 of .* is no evaluation with 2 variables"):
        st.minimize(never, ONE, log=path)
    assert path.read_bytes() == before
    path.write_text("once upon a time\n")
    with pytest.raises(ValueError, match=r"^log: line 1 of"):
        st.minimize(never, ONE, log=path)
