"""A run that was cut and resumed is the run that was not."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some

import steepen as st
from steepen import schedules, steps

METHODS = ["gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp", "cgd-auto"]
ONE = np.array([-1.2, 1.0])
MANY = np.array([[-1.2, 1.0], [0.98, 0.97], [1.0, 1.0], [2.0, -1.0]])  # one ends at once, one early
QUICK = hypothesis_settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def f(x: Any) -> Any:
    a, b = x[..., 0], x[..., 1]
    return 10 * (b - a * a) * (b - a * a) + (1 - a) * (1 - a)


def g(x: Any) -> Any:
    a, b = x[..., 0], x[..., 1]
    return np.stack([-40 * a * (b - a * a) - 2 * (1 - a), 20 * (b - a * a)], axis=-1)


class CutError(Exception):
    """The user's own error."""


class Cut:
    """Raises something at call j; j = None: never."""

    def __init__(self, function: Any, j: int | None, error: type[BaseException]):
        self.function, self.left, self.error = function, j, error

    def __call__(self, *args: Any) -> Any:
        if self.left is not None:
            if self.left == 0:
                raise self.error
            self.left -= 1
        return self.function(*args)


def run(x0: Any = ONE, iters: int = 15, fun: Any = f, **given_: Any) -> st.Result:
    base: dict[str, Any] = {"jac": g, "method": "cgd-fd", "step": 0.004, "gtol": 1e-2}
    options = base | given_
    if options["method"] == "cgd-fd":
        options.setdefault("b", 6)
    return st.minimize(fun, x0, budget=st.Budget(iters=iters), **options)


def same(a: st.Result, b: st.Result) -> None:
    """Hold every field but the time equal to the last bit."""
    for field in fields(a):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if field.name == "trace":
            assert (left is None) == (right is None)
            if left is not None:
                names = [name for name, _ in left.columns()]
                assert names == [name for name, _ in right.columns()]
                for name in [*names, "length"]:
                    exactly(getattr(left, name), getattr(right, name), f"trace.{name}")
        elif field.name == "best":
            for name in ("x", "fun", "k"):
                exactly(getattr(left, name), getattr(right, name), f"best.{name}")
        elif field.name != "seconds":
            exactly(left, right, field.name)


def exactly(a: Any, b: Any, name: str) -> None:
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype, name
    np.testing.assert_array_equal(a, b, err_msg=name)  # NaN equals NaN here


# --- bit-identical ---------------------------------------------------------------------------------


@pytest.mark.parametrize("trace", [True, "x", False])
@pytest.mark.parametrize("x0", [ONE, MANY], ids=["one", "many"])
@pytest.mark.parametrize("step", [0.004, None], ids=["fixed", "armijo"])
@pytest.mark.parametrize("method", METHODS)
def test_cut_by_the_budget(tmp_path: Path, method: str, step: Any, x0: Any, trace: Any) -> None:
    given_: dict[str, Any] = {"method": method, "step": step, "trace": trace}
    whole = run(x0, **given_)
    for cut in (0, 1, 4, 14):
        path = tmp_path / f"{cut}.npz"
        run(x0, cut, checkpoint=path, **given_)
        same(run(x0, checkpoint=path, **given_), whole)
        same(run(x0, checkpoint=path, **given_), whole)  # resuming a run that is over gives it again


@pytest.mark.parametrize("x0", [ONE, MANY], ids=["one", "many"])
@pytest.mark.parametrize("method", METHODS)
def test_cut_again_and_again(tmp_path: Path, method: str, x0: Any) -> None:
    path = tmp_path / "run.npz"
    for iters in range(16):
        last = run(x0, iters, method=method, checkpoint=path, trace="x")
    same(last, run(x0, 15, method=method, trace="x"))  # pyright: ignore[reportPossiblyUnbound]


@QUICK
@given(
    j=some.integers(0, 60),
    what=some.sampled_from(["fun", "jac"]),
    error=some.sampled_from([KeyboardInterrupt, CutError]),
    method=some.sampled_from(METHODS),
    step=some.sampled_from([0.004, None]),
    x0=some.sampled_from([ONE, MANY]),
    trace=some.sampled_from([True, "x", False]),
)
def test_cut_by_an_interrupt_or_an_error(
    tmp_path: Path, j: int, what: str, error: Any, method: str, step: Any, x0: Any, trace: Any
) -> None:
    path = tmp_path / "run.npz"
    path.unlink(missing_ok=True)
    given_: dict[str, Any] = {"method": method, "step": step, "trace": trace}
    broken = {"fun": f, "jac": g}
    broken[what] = Cut(broken[what], j, error)
    with contextlib.suppress(CutError):
        run(x0, checkpoint=path, **broken, **given_)
    assert path.exists()
    same(run(x0, checkpoint=path, **given_), run(x0, **given_))


@pytest.mark.parametrize("source", ["2-point", "3-point", "cs", True])
@pytest.mark.parametrize("step", [0.004, None], ids=["fixed", "armijo"])
@pytest.mark.parametrize("x0", [ONE, MANY], ids=["one", "many"])
def test_every_source_of_gradients(tmp_path: Path, source: Any, step: Any, x0: Any) -> None:
    given_: dict[str, Any] = {"jac": source, "step": step, "method": "cgd"}
    if source is True:
        given_["fun"] = lambda x: (f(x), g(x))
    whole = run(x0, **given_)
    for cut in (0, 3, 9):
        path = tmp_path / f"{cut}.npz"
        run(x0, cut, checkpoint=path, **given_)
        same(run(x0, checkpoint=path, **given_), whole)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("x0", [ONE, MANY], ids=["one", "many"])
def test_float32(tmp_path: Path, method: str, x0: Any) -> None:
    start = x0.astype(np.float32)
    whole = run(start, method=method, trace="x")
    assert whole.x.dtype == np.float32
    run(start, 5, method=method, trace="x", checkpoint=tmp_path / "run.npz")
    same(run(start, method=method, trace="x", checkpoint=tmp_path / "run.npz"), whole)


@pytest.mark.parametrize("method", ["bfgs", "dfp", "cgd-bfgs", "cgd-dfp"])
@pytest.mark.parametrize("n", [31, 40])
def test_matrices_on_blas(tmp_path: Path, method: str, n: int) -> None:
    """From n = 32 on the matrix is updated in place, and only its lower half is used."""
    weights = np.linspace(1.0, 30.0, n)
    given_: dict[str, Any] = {
        "fun": lambda x: float((weights * np.cosh(x)).sum()),
        "jac": lambda x: weights * np.sinh(x),
        "method": method,
        "step": None,
        "trace": "x",
        "gtol": 1e-9,
    }
    x0 = np.linspace(-1.0, 2.0, n)
    whole = run(x0, 12, **given_)
    run(x0, 5, checkpoint=tmp_path / "run.npz", **given_)
    same(run(x0, 12, checkpoint=tmp_path / "run.npz", **given_), whole)


def test_the_complex_step_is_not_verified_again(tmp_path: Path) -> None:
    given_: dict[str, Any] = {"method": "cgd", "lam": 0.01}
    whole = run(**given_)
    assert whole.hvp_source == "complex step"
    calls = 0

    def counted(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return g(x)

    first = run(iters=5, jac=counted, checkpoint=tmp_path / "run.npz", **given_)
    again = run(jac=counted, checkpoint=tmp_path / "run.npz", **given_)
    same(again, whole)
    # the gradient at the point of the cut is all that is asked twice
    assert calls == whole.njev + 1
    assert first.njev == 6 + 5 + 1


def test_a_source_found_wrong_stays_found_wrong(tmp_path: Path) -> None:
    def real_only(x: Any) -> Any:
        return g(x.real)

    given_: dict[str, Any] = {"method": "cgd", "lam": 0.01, "jac": real_only}
    whole = run(**given_)
    assert whole.hvp_source == "difference"
    run(iters=5, checkpoint=tmp_path / "run.npz", **given_)
    again = run(checkpoint=tmp_path / "run.npz", **given_)
    assert again.hvp_source == "difference"
    same(again, whole)


@pytest.mark.parametrize(
    "given_",
    [
        {"lam": schedules.L(0.0, 0.002, T=15)},
        {"lam": schedules.Signed(0.001), "method": "cgd"},
        {"lam": schedules.Perturbed(0.001), "method": "cgd"},
        {"step": schedules.Cosine(0.004, 0.001, T=15)},
        {"lam": lambda k: 0.001 / (k + 1)},
        {"step": steps.Quadratic(), "method": "cgd"},
        {"penalty": st.penalties.L2(), "lam": 0.001},
        {"switch": st.switches.SmallImprovement(0.3), "method": "cgd", "lam": 0.001},
        {"switch": st.switches.GoodDrop(0.3), "method": "cgd", "lam": 0.001},
        {"ftol": 1e-3},
        {"xtol": 1e-2},
    ],
)
@pytest.mark.parametrize("x0", [ONE, MANY], ids=["one", "many"])
def test_schedules_switches_and_tolerances(tmp_path: Path, given_: dict[str, Any], x0: Any) -> None:
    given_ = {"b": None, "switch": st.switches.After(6)} | given_
    whole = run(x0, **given_)
    for cut in (1, 6, 7):
        path = tmp_path / f"{cut}.npz"
        run(x0, cut, checkpoint=path, **given_)
        same(run(x0, checkpoint=path, **given_), whole)


def test_a_budget_of_gradients_goes_on_too(tmp_path: Path) -> None:
    def bought(grads: int, **more: Any) -> st.Result:
        budget = st.Budget(grads=grads)
        return st.minimize(f, ONE, jac=g, method="cgd-fd", step=0.004, b=6, lam=0.01, budget=budget, **more)

    for grads in range(1, 26):
        last = bought(grads, checkpoint=tmp_path / "run.npz")
        assert last.njev <= grads
    same(last, bought(25))  # pyright: ignore[reportPossiblyUnbound]


def test_seconds_add_up(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    first = run(iters=5, checkpoint=path)
    assert run(checkpoint=path).seconds >= first.seconds * 0.5


def test_the_callback_is_not_called_again_for_old_steps(tmp_path: Path) -> None:
    seen: list[int] = []
    run(iters=5, checkpoint=tmp_path / "run.npz", callback=lambda s: seen.append(s.k))
    run(iters=9, checkpoint=tmp_path / "run.npz", callback=lambda s: seen.append(s.k))
    assert sorted(set(seen)) == list(range(1, 10))
    assert len(seen) <= 10  # the step into the point of the cut may be shown again


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
@pytest.mark.parametrize("method", ["bfgs", "cgd-fd"])
@pytest.mark.parametrize("x0", [ONE, MANY], ids=["one", "many"])
def test_other_arrays(tmp_path: Path, library: str, method: str, x0: Any) -> None:
    xp = pytest.importorskip(library)
    start = xp.asarray(x0.astype(np.float32))

    def grad(x: Any) -> Any:
        a, b = x[..., 0], x[..., 1]
        return xp.stack([-40 * a * (b - a * a) - 2 * (1 - a), 20 * (b - a * a)], -1)

    whole = run(start, jac=grad, method=method, trace="x")
    run(start, 5, jac=grad, method=method, trace="x", checkpoint=tmp_path / "run.npz")
    again = run(start, jac=grad, method=method, trace="x", checkpoint=tmp_path / "run.npz")
    assert type(again.x) is type(whole.x)
    same(again, whole)


def test_a_noisy_run_without_a_gradient_goes_on_as_if_it_had_not_been_cut(tmp_path: Path) -> None:
    """What was asked about the noise of f at a point is not asked again there."""

    def noisy(x: Any) -> float:
        value = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() + 0.1 * (x**2).sum() + 1
        return float(value * (1 + 1e-10 * np.sin(1e9 * value + 3e7 * x[0])))

    x0 = [0.5, 2.0, 1.0]
    whole = st.minimize(noisy, x0)
    for k in range(1, whole.nit):
        path = tmp_path / f"{k}.npz"
        st.minimize(noisy, x0, budget=st.Budget(iters=k), checkpoint=path)
        rest = st.minimize(noisy, x0, budget=st.Budget(iters=1000), checkpoint=path)
        assert np.array_equal(rest.x, whole.x)
        assert (rest.status, rest.nit, rest.nfev) == (whole.status, whole.nit, whole.nfev)


# --- files -----------------------------------------------------------------------------------------


def test_there_is_no_pickle_inside(tmp_path: Path) -> None:
    for x0 in (ONE, MANY):
        path = tmp_path / f"{x0.ndim}.npz"
        run(x0, 6, method="cgd-bfgs", checkpoint=path, trace="x")
        with np.load(path, allow_pickle=False) as file:
            for name in file.files:
                assert not file[name].dtype.hasobject
            header = json.loads(str(file["header"]))
        assert header["steepen"] == 9
        assert "cgd" in header["settings"]["method"].lower()


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.npz"
    run(iters=5, checkpoint=path)
    old = path.read_bytes()

    def breaks(file: Any, **arrays: Any) -> None:
        file.write(b"half a file")
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", breaks)
        with pytest.raises(OSError, match=r"no space left"):
            run(iters=9, checkpoint=path)
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["run.npz"]
    same(run(checkpoint=path), run())


def test_a_disk_that_fails_does_not_hide_the_users_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(file: Any, **arrays: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", breaks)
    with pytest.raises((CutError, OSError)) as caught:
        run(fun=Cut(f, 4, CutError), checkpoint=tmp_path / "run.npz")
    error = caught.value if isinstance(caught.value, CutError) else caught.value.__context__
    assert isinstance(error, CutError)
    assert error.partial_result.nit == 3  # pyright: ignore


def refused(path: Path, *texts: str, **given_: Any) -> None:
    """Hold that the file is refused in these words, before any evaluation, and left as it is."""
    before = path.read_bytes()
    calls: list[Any] = []

    def counted(x: Any) -> Any:
        calls.append(x)
        return f(x)

    with pytest.raises(st.CheckpointError) as caught:
        run(checkpoint=path, **({"fun": counted} | given_))
    message = str(caught.value)
    assert message.startswith("checkpoint: ")
    assert str(path) in message
    assert all(text in message for text in texts), message
    assert path.read_bytes() == before
    assert not calls


@pytest.mark.parametrize("x0", [ONE, MANY], ids=["one", "many"])
def test_a_torn_file_is_refused(tmp_path: Path, x0: Any) -> None:
    whole, path = tmp_path / "whole.npz", tmp_path / "torn.npz"
    run(x0, 6, method="bfgs", checkpoint=whole, trace="x")
    data = whole.read_bytes()
    marks = [data.find(b"PK\x03\x04", i + 1) for i in range(0, len(data), len(data) // 7)]
    cuts = {0, 1, 3, 4, 30, 100, len(data) // 2, len(data) - 1, len(data) - 22, len(data) - 23}
    cuts |= {m + d for m in marks if m > 0 for d in (-1, 0, 1, 40)}
    cuts |= {data.rfind(b"PK\x01\x02"), data.find(b"PK\x01\x02") + 5}
    for cut in sorted(cuts):
        path.write_bytes(data[:cut])
        refused(path, "not a whole steepen checkpoint", x0=x0, method="bfgs", trace="x")


@QUICK
@given(at=some.floats(0, 1, exclude_max=True), flip=some.integers(1, 255))
def test_a_changed_byte_is_refused_or_harmless(tmp_path: Path, at: float, flip: int) -> None:
    path = tmp_path / "run.npz"
    path.unlink(missing_ok=True)
    run(iters=6, method="bfgs", checkpoint=path)
    data = bytearray(path.read_bytes())
    data[int(at * len(data))] ^= flip
    path.write_bytes(data)
    message = ""
    try:
        same(run(method="bfgs", checkpoint=path), run(method="bfgs"))
    except st.CheckpointError as error:
        message = str(error)
    if message:
        assert str(path) in message
        assert path.read_bytes() == data


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def zipped(**texts: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in texts.items():
            archive.writestr(name, text)
    return file.getvalue()


HEADER = np.array(json.dumps({"steepen": 3, "settings": {}}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"k,f\n0,1.0\n",
        b'{"steepen": 1}',
        b"\x80\x04K\x01.",  # a pickle
        b"\x93NUMPY",
        npz(a=np.ones(3)),
        npz(header=np.array("not json")),
        npz(header=np.array("[1, 2]")),
        npz(header=np.array("3")),
        npz(header=np.ones(3)),
        npz(header=np.array(json.dumps({"steepen": 2, "settings": {}}))),
        npz(header=np.array(json.dumps({"steepen": "3"}))),
        npz(header=np.array(json.dumps({"steepen": 3}))),
        npz(header=np.array(json.dumps({"steepen": 3, "settings": 3}))),
        npz(header=HEADER),
        npz(header=HEADER, k=np.array(3)),
        zipped(header="text", other="text"),
    ],
    ids=range(17),  # not their bytes: a zip carries the time it was made, and each worker makes its own
)
def test_a_foreign_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "foreign.npz"
    path.write_bytes(data)
    refused(path)


def test_a_plain_npy_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.npz"
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    refused(path)


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.savez(file, header=np.array([{"steepen": 1}], dtype=object), allow_pickle=True)
    path = tmp_path / "pickled.npz"
    path.write_bytes(file.getvalue())
    refused(path, "not a whole steepen checkpoint")


def test_another_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "later.npz"
    path.write_bytes(npz(header=np.array(json.dumps({"steepen": 99, "settings": {}}))))
    refused(path, "format 99", "reads 9")


def test_a_checkpoint_that_lacks_anything_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    run(iters=6, method="bfgs", checkpoint=path, trace="x")
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for name in arrays:
        path.write_bytes(npz(**{key: value for key, value in arrays.items() if key != name}))
        words = "not a whole steepen checkpoint" if name == "header" else f"lacks a part of the run: {name}"
        refused(path, words, method="bfgs", trace="x")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"method": "cgd", "b": None, "switch": None}, "method"),
        ({"method": "gd", "b": None, "lam": None}, "method"),
        ({"x0": [-1.2, 1.0 + 1e-15]}, "x0"),
        ({"x0": np.array([-1.2, 1.0], dtype=np.float32)}, "x0"),
        ({"x0": MANY}, "x0"),
        ({"step": 0.005}, "step"),
        ({"step": None}, "step"),
        ({"step": steps.Armijo(c=0.1)}, "step"),
        ({"lam": 0.02}, "method"),
        ({"lam": schedules.Signed(0.01)}, "method"),
        ({"r": 0.1}, "method"),
        ({"penalty": st.penalties.L2()}, "method"),
        ({"b": 7}, "switch"),
        ({"b": None, "switch": st.switches.Never()}, "switch"),
        ({"trace": "x"}, "trace"),
        ({"trace": False}, "trace"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(tmp_path: Path, change: dict[str, Any], name: str) -> None:
    path = tmp_path / "run.npz"
    base: dict[str, Any] = {"lam": 0.01, "method": "cgd-fd", "b": 6}
    run(iters=5, checkpoint=path, **base)
    refused(path, f"belongs to another run: {name} is", "there", "here", **(base | change))
    same(run(checkpoint=path, **base), run(**base))


@pytest.mark.parametrize(
    ("name", "method", "size"),
    [("step", "gd", 4), ("lam", "cgd", 4), ("r", "cgd-fd", 4), ("lam", "cgd", 2000)],
)
def test_one_value_a_row_is_compared_in_full(tmp_path: Path, name: str, method: str, size: int) -> None:
    """The text of an array is rounded, and shortened where it is long: it is not enough."""
    path = tmp_path / "run.npz"
    values = np.full(size, 0.001)
    x0 = np.resize(MANY, (size, 2))
    run(x0, 3, method=method, **{name: values}, checkpoint=path)
    values[size // 2] *= 1 + 1e-10
    refused(path, "belongs to another run", x0=x0, method=method, **{name: values})


def test_objects_written_by_the_user_can_be_resumed(tmp_path: Path) -> None:
    """The text of an object may hold its address, which the next process does not have."""

    class Half(st.Direction):
        def propose(self, context: Any, k: int, x: Any, g: Any, on: Any, memory: Any) -> Any:
            return -g / 2, 0.0

    path = tmp_path / "run.npz"
    run(iters=5, method=Half(), checkpoint=path)
    same(run(method=Half(), checkpoint=path), run(method=Half()))


@pytest.mark.parametrize("where", ["missing", "missing/deeper"])
def test_a_missing_folder_is_said_before_any_evaluation(tmp_path: Path, where: str) -> None:
    calls: list[Any] = []
    with pytest.raises((OSError, ValueError), match=r"checkpoint.*missing"):
        run(fun=lambda x: calls.append(x) or f(x), checkpoint=tmp_path / where / "run.npz")
    assert not calls


def test_a_folder_is_no_checkpoint(tmp_path: Path) -> None:
    calls: list[Any] = []
    with pytest.raises((OSError, ValueError), match=r"checkpoint"):
        run(fun=lambda x: calls.append(x) or f(x), checkpoint=tmp_path)
    assert not calls


def test_text_and_paths_are_both_paths(tmp_path: Path) -> None:
    path = tmp_path / "run of mine"  # any name will do
    run(iters=4, checkpoint=str(path))
    assert [p.name for p in tmp_path.iterdir()] == ["run of mine"]
    same(run(checkpoint=path), run())


def test_bad_input_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    with pytest.raises(ValueError, match=r"step: expected"):
        run(step=-1.0, checkpoint=path)
    with pytest.raises(TypeError, match=r"fun: expected"):
        run(fun=None, checkpoint=path)
    assert not path.exists()


def test_the_file_is_written_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steepen._run.checkpoint.SECONDS", 0.0)
    path = tmp_path / "run.npz"
    sizes: list[int] = []
    run(checkpoint=path, callback=lambda s: sizes.append(path.stat().st_size))
    assert len(sizes) == 15
    assert sizes[-1] > sizes[0] > 0


def test_another_function_is_refused_and_a_mended_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    run(iters=5, checkpoint=path)
    with pytest.raises(st.CheckpointError, match=r"belongs to another function: fun is .* there"):
        run(fun=lambda x: f(x) + 1.0, checkpoint=path)
    same(run(fun=lambda x: f(x), checkpoint=path), run())


def test_a_batch_goes_on_under_the_same_limits_only(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    starts = np.array([[-1.2, 1.0], [0.98, 0.97], [2.0, -1.0]])
    fun = st.functions["rosenbrock"]

    def go(evals: int, iters: int, **given_: Any) -> st.Result:
        budget = st.Budget(evals=evals, iters=iters)
        return st.minimize(fun, starts, method="bfgs", budget=budget, **given_)

    assert (go(20, 100, checkpoint=path).status == st.Status.MAX_EVALUATIONS).any()
    with pytest.raises(st.CheckpointError, match=r"ended under other limits"):
        go(400, 100, checkpoint=path)
    path.unlink()
    go(400, 8, checkpoint=path)
    np.testing.assert_array_equal(go(400, 100, checkpoint=path).x, go(400, 100).x)


def test_a_schedule_of_the_same_name_with_other_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    fun = st.functions["booth"]
    common: dict[str, Any] = {"method": "cgd", "step": 0.01, "checkpoint": path}
    st.minimize(fun, [0.0, 0.0], lam=lambda k: 0.01, budget=st.Budget(iters=3), **common)
    with pytest.raises(st.CheckpointError, match=r"method is CGD"):
        st.minimize(fun, [0.0, 0.0], lam=lambda k: 0.5, **common)


# --- the guide's way to pause and resume ----------------------------------------------------------


@pytest.mark.parametrize("x0", [ONE, MANY], ids=["one", "many"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_pauses_and_resumes(tmp_path: Path, method: str, x0: Any) -> None:
    f, path = st.functions["rosenbrock"].at(n=2), tmp_path / "run.npz"

    def run(iters: int, **more: Any) -> Any:
        return st.minimize(f, x0, method=method, budget=st.Budget(iters=iters), **more)

    if x0 is ONE:  # rows that a callback has ended are not begun again
        run(60, callback=lambda s: s.k == 10, checkpoint=path)
        _same(run(60, checkpoint=path), run(60))
        path.unlink()
    run(10, checkpoint=path)
    run(30, checkpoint=path)
    _same(run(60, checkpoint=path), run(60, **({"b": 10 // 4} if method == "cgd-fd" else {})))


def _same(one: Any, other: Any) -> None:
    for name in ("x", "fun", "nit", "nfev", "njev", "status"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_a_b_that_is_given_is_not_replaced(tmp_path: Path) -> None:
    f, path = st.functions["rosenbrock"].at(n=2), tmp_path / "run.npz"
    run = partial(st.minimize, f, [-1.2, 1.0], method="cgd-fd", checkpoint=path)
    run(budget=st.Budget(iters=10))
    with pytest.raises(st.CheckpointError, match="switch"):
        run(budget=st.Budget(iters=60), b=15)
    path.unlink()
    run(budget=st.Budget(iters=10), b=3)
    with pytest.raises(st.CheckpointError, match="switch"):
        run(budget=st.Budget(iters=60))
