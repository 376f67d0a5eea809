"""A wrong argument is refused before anything is evaluated, in words that name it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

import steepen as st
from steepen import schedules, steps, switches
from steepen.directions import METHODS

QUICK = hypothesis_settings(max_examples=40, deadline=None)


class Bowl:
    """xᵀx over leading axes, with its calls counted."""

    def __init__(self) -> None:
        self.calls = 0

    def f(self, x: Any) -> Any:
        self.calls += 1
        return (x * x).sum(axis=-1)

    def g(self, x: Any) -> Any:
        self.calls += 1
        return 2 * x

    def h(self, x: Any) -> Any:
        self.calls += 1
        return 2 * np.eye(len(x))

    def hv(self, x: Any, v: Any) -> Any:
        self.calls += 1
        return 2 * v


def run(bowl: Bowl, **given_: Any) -> st.Result:
    """Run steepest descent on the bowl, with whatever the test has to say about it."""
    base: dict[str, Any] = {"x0": [1.0, -2.0], "method": "gd", "budget": st.Budget(iters=3)}
    options: dict[str, Any] = base | {"step": 0.1, "jac": bowl.g} | given_
    fun, x0 = options.pop("fun", bowl.f), options.pop("x0")
    return st.minimize(fun, x0, **options)


def refused(error: type[Exception], *texts: str, **given_: Any) -> None:
    """Hold that the run is refused, with all of the texts in the message and nothing evaluated."""
    bowl = Bowl()
    with pytest.raises(error) as caught:
        run(bowl, **given_)
    message = str(caught.value)
    assert type(caught.value) is error
    assert message.startswith(texts[0]), message
    assert all(text in message for text in texts), message
    assert bowl.calls == 0


def outcome(bowl: Bowl, **given_: Any) -> st.Result | TypeError | ValueError:
    """Give the result, or the error; no other kind of error is let through."""
    try:
        with np.errstate(all="ignore"):
            return run(bowl, **given_)
    except (TypeError, ValueError) as error:
        return error


def test_the_problem_itself_is_accepted() -> None:
    assert run(Bowl()).nit == 3


# --- x0 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_x0_must_be_finite(bad: float, shape: tuple[int, ...]) -> None:
    x0 = np.ones(shape)
    x0[..., 1] = bad
    refused(ValueError, "x0: expected finite", str(bad), x0=x0)


@pytest.mark.parametrize(
    ("x0", "error", "came"),
    [
        (np.ones((2, 2, 2)), ValueError, "(2, 2, 2)"),
        (np.ones(0), ValueError, "(0,)"),
        (np.ones((0, 3)), ValueError, "(0, 3)"),
        (np.ones((3, 0)), ValueError, "(3, 0)"),
        ([], ValueError, "(0,)"),
        ([1.0 + 1j, 2.0], TypeError, "complex128"),
        (["a", "b"], TypeError, "<U1"),
        ("start", TypeError, "<U5"),
        ([True, False], TypeError, "bool"),
        (np.ones(2, dtype=np.float16), TypeError, "float16"),
        (np.ones(2, dtype=np.longdouble), TypeError, str(np.dtype(np.longdouble))),
        (None, TypeError, "object"),
        ([None, 1.0], TypeError, "object"),
        ({"x": 1.0}, TypeError, "object"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), TypeError, "datetime64"),
        ([[1.0, 2.0], [3.0]], ValueError, "[[1.0, 2.0], [3.0]]"),
    ],
)
def test_x0_must_be_a_point_or_a_batch(x0: Any, error: type[Exception], came: str) -> None:
    refused(error, "x0: expected", came, x0=x0)


@pytest.mark.parametrize("dtype", ["bool", "complex64", "float16", "bfloat16"])
@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_x0_of_torch_or_jax_is_held_to_the_same(library: str, dtype: str) -> None:
    xp = pytest.importorskip(library)
    bad = "bool_" if (library, dtype) == ("jax.numpy", "bool") else dtype
    refused(TypeError, "x0: expected float32 or float64", dtype, x0=xp.ones(2, dtype=getattr(xp, bad)))
    refused(ValueError, "x0: expected finite", "nan", x0=xp.asarray([1.0, math.nan]))
    refused(ValueError, "x0: expected shape", "(1, 1, 2)", x0=xp.ones((1, 1, 2)))


@pytest.mark.parametrize("library", ["torch", "jax.numpy"])
def test_whole_numbers_of_torch_or_jax_become_floats(library: str) -> None:
    xp = pytest.importorskip(library)
    result = run(Bowl(), x0=xp.asarray([1, -2]))
    np.testing.assert_allclose(np.asarray(result.x), [0.512, -1.024], rtol=1e-6)


@QUICK
@given(
    arrays.arrays(
        dtype=some.one_of(
            arrays.floating_dtypes(), arrays.integer_dtypes(), arrays.complex_number_dtypes(),
            arrays.boolean_dtypes(), arrays.unicode_string_dtypes(max_len=3), some.just(np.dtype(object)),
        ),
        shape=arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    )
)  # fmt: skip
def test_any_array_as_x0_works_or_is_refused_by_name(x0: Any) -> None:
    bowl = Bowl()
    result = outcome(bowl, x0=x0)
    if isinstance(result, st.Result):
        assert result.x.shape == (x0.shape or (1,))
        assert result.x.dtype == (np.float32 if x0.dtype.newbyteorder("=") == np.float32 else np.float64)
    else:
        assert str(result).startswith("x0: expected")
        assert bowl.calls == 0


# --- what the user's functions return --------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "came"),
    [
        (np.ones(2), "shape (2,)"),
        (np.ones((1, 2)), "shape (1, 2)"),
        (np.ones(0), "shape (0,)"),
        (None, "NoneType"),
        (1.0 + 2.0j, "complex"),
        (np.complex64(1), "complex64"),
        ("1.0", "str"),
        (np.array(1.0, dtype=object), "object"),
        ({"f": 1.0}, "dict"),
    ],
)
@pytest.mark.parametrize("method", ["gd", "cgd-fd", "bfgs"])
def test_fun_must_give_a_real_scalar(value: Any, came: str, method: str) -> None:
    bowl = Bowl()
    with pytest.raises(TypeError, match=r"fun: expected a real scalar, got") as caught:
        run(bowl, fun=lambda x: value, method=method)
    assert came in str(caught.value)
    assert bowl.calls == 0


@pytest.mark.parametrize(
    "value", [1.0, 1, np.float64(1), np.float32(1), np.ones(()), np.ones(1), np.ones((1, 1)), np.int64(1)]
)
@pytest.mark.bits  # the value itself is looked at
def test_fun_may_give_a_scalar_in_any_form(value: Any) -> None:
    assert run(Bowl(), fun=lambda x: value).fun == 1.0


@pytest.mark.parametrize(
    ("value", "error", "came"),
    [
        (np.ones(3), ValueError, "got shape (3,)"),
        (np.ones((2, 1)), ValueError, "got shape (2, 1)"),
        (np.ones((1, 2)), ValueError, "got shape (1, 2)"),
        (1.0, ValueError, "got shape ()"),
        (None, ValueError, "got shape ()"),
        ([1.0], ValueError, "got shape (1,)"),
        (np.ones(2, dtype=complex), TypeError, "dtype complex128"),
        (np.ones(2, dtype=object), TypeError, "dtype object"),
        (["1", "2"], TypeError, "dtype <U1"),
        (np.array([True, False]), TypeError, "dtype bool"),
    ],
)
@pytest.mark.parametrize("method", ["gd", "newton", "cgd-bfgs"])
def test_a_wrong_gradient_is_refused(value: Any, error: type[Exception], came: str, method: str) -> None:
    with pytest.raises(error, match=r"^jac: expected") as caught:
        run(Bowl(), jac=lambda x: value, method=method)
    assert came in str(caught.value)
    with pytest.raises(error, match=r"gradient: expected") as caught:
        run(Bowl(), fun=lambda x: (1.0, value), jac=True, method=method)
    assert came in str(caught.value)


@pytest.mark.parametrize("value", [[2, -4], (2.0, -4.0), np.array([2, -4], dtype=np.int8)])
def test_a_gradient_may_be_a_list_or_whole_numbers(value: Any) -> None:
    assert run(Bowl(), jac=lambda x: value, budget=st.Budget(iters=1)).x.tolist() == [0.8, -1.6]


@pytest.mark.parametrize("value", [[[1.0], [2.0, 3.0]], ([1.0, 2.0], 3.0)])
def test_a_ragged_list_is_named(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^fun: expected"):
        run(Bowl(), fun=lambda x: value)
    with pytest.raises((TypeError, ValueError), match=r"^jac: expected"):
        run(Bowl(), jac=lambda x: value)


@pytest.mark.parametrize("value", [1.0, None, (1.0,), (1.0, np.ones(2), 3.0), np.ones(())])
def test_jac_true_needs_a_pair(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^fun: expected .*\(f, g\)"):
        run(Bowl(), fun=lambda x: value, jac=True)


@pytest.mark.parametrize(
    ("value", "error"),
    [(np.ones(3), ValueError), (np.ones((2, 2)), ValueError), (1j * np.ones(2), TypeError)],
)
def test_a_wrong_product_is_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^hvp: expected"):
        run(Bowl(), hvp=lambda x, v: value, method="cgd")


@pytest.mark.parametrize(
    ("value", "error"),
    [(np.ones(2), ValueError), (np.ones((2, 3)), ValueError), (np.ones((2, 2), dtype=complex), TypeError)],
)
def test_a_wrong_hessian_is_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^hess: expected"):
        run(Bowl(), hess=lambda x: value, method="newton")


@QUICK
@given(
    some.sampled_from(["f4", "f8", "i4", "u1", "c8", "c16", "?", "U2", "O"]),
    some.one_of(some.just((2,)), arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)),
    some.sampled_from(["gd", "cgd-fd", "bfgs"]),
)
def test_any_gradient_works_or_is_refused_by_name(dtype: str, shape: tuple[int, ...], method: str) -> None:
    g = np.ones(shape).astype(dtype)
    right = g.shape == (2,) and g.dtype.kind in "fiu"
    result = outcome(Bowl(), jac=lambda x: g, method=method)
    assert isinstance(result, st.Result) == right
    if not isinstance(result, st.Result):
        assert str(result).startswith("jac: expected")
        assert result.partial_result.nit == 0  # pyright: ignore


# --- batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fun", [lambda x: float((x * x).sum()), lambda x: x * x, lambda x: (x * x).sum(axis=0), lambda x: None]
)
def test_a_batch_needs_one_value_a_row(fun: Any) -> None:
    with pytest.raises(TypeError, match=r"^fun: expected one value for each of the 3 rows.*vectorised"):
        run(Bowl(), fun=fun, x0=np.ones((3, 2)))


@pytest.mark.parametrize("jac", [lambda x: x[0], lambda x: x.T, lambda x: (x * x).sum(axis=-1)])
def test_a_batch_needs_one_gradient_a_row(jac: Any) -> None:
    with pytest.raises(ValueError, match=r"^jac: expected shape \(3, 2\), got shape"):
        run(Bowl(), jac=jac, x0=np.ones((3, 2)))


def test_the_wrapper_that_the_message_names_works() -> None:
    fun = np.vectorize(lambda x: float(x @ x), signature="(n)->()")
    assert run(Bowl(), fun=fun, x0=np.ones((3, 2))).fun.shape == (3,)


PER_ROW = [("step", "gd"), ("lam", "cgd"), ("lam", "cgd-bfgs"), ("r", "cgd-fd")]


@pytest.mark.parametrize(("name", "method"), PER_ROW)
def test_one_value_a_row_must_fit_the_rows(name: str, method: str) -> None:
    good = run(Bowl(), **{name: [0.1, 0.2, 0.3]}, method=method, x0=np.ones((3, 2)))
    assert good.x.shape == (3, 2)
    for bad in ([0.1, 0.2], [0.1] * 4, [[0.1, 0.2, 0.3]], []):
        expected = f"{name}: expected one value for each of the 3 rows"
        came = f"shape {np.shape(bad)}"
        refused(ValueError, expected, came, **{name: bad}, method=method, x0=np.ones((3, 2)))
    refused(ValueError, f"{name}: expected a number", "shape (2,)", **{name: [0.1, 0.2]}, method=method)


@pytest.mark.parametrize("wrap", [schedules.Constant, schedules.Signed, schedules.Perturbed])
def test_one_value_a_row_inside_a_schedule_must_fit_too(wrap: Any) -> None:
    rows = wrap(np.array([0.1, 0.2, 0.3]))
    refused(ValueError, "lam: expected", "(3,)", lam=rows, method="cgd", x0=np.ones((2, 2)))
    refused(ValueError, "lam: expected", "(3,)", lam=rows, method="cgd")


# --- step, λ, r, b ---------------------------------------------------------------------------------

NOT_NUMBERS = ["fast", 1j, {}, object(), ["a"]]


@pytest.mark.parametrize("bad", [0.0, -0.1, -1])
def test_step_must_be_positive(bad: float) -> None:
    refused(ValueError, "step: expected positive", repr(float(bad)), step=bad)
    rows = [0.1, bad, 0.1]
    refused(ValueError, "step: expected positive", step=rows, x0=np.ones((3, 2)))
    refused(ValueError, "step: expected positive", step=schedules.Constant(bad))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("name", "method"), PER_ROW)
def test_numbers_must_be_finite(name: str, method: str, bad: float) -> None:
    refused(ValueError, f"{name}: expected", str(bad), **{name: bad}, method=method)
    rows = [0.1, bad]
    refused(ValueError, f"{name}: expected", str(bad), **{name: rows}, method=method, x0=np.ones((2, 2)))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["step", "lam"])
def test_numbers_inside_a_schedule_must_be_finite(name: str, bad: float) -> None:
    for make in (
        lambda: schedules.Table([0.1, bad, 0.1, 0.1]),
        lambda: schedules.Piecewise([0.1, bad], boundaries=[2]),
        lambda: schedules.Constant(bad),
    ):
        bowl = Bowl()
        with pytest.raises(ValueError, match=rf"expected.*{bad}"):
            run(bowl, **{name: make()}, method="cgd")
        assert bowl.calls == 0


@pytest.mark.parametrize("bad", NOT_NUMBERS)
@pytest.mark.parametrize(("name", "method"), PER_ROW)
def test_numbers_must_be_numbers(name: str, method: str, bad: Any) -> None:
    bowl = Bowl()
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: expected") as caught:
        run(bowl, **{name: bad}, method=method)
    assert repr(bad) in str(caught.value)
    assert bowl.calls == 0


@pytest.mark.parametrize(("name", "method"), PER_ROW)
def test_complex_arrays_are_not_cut_to_their_real_part(name: str, method: str) -> None:
    bowl = Bowl()
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: expected"):
        run(bowl, **{name: np.array([0.1 + 1j, 0.2])}, method=method, x0=np.ones((2, 2)))
    assert bowl.calls == 0


@pytest.mark.parametrize("bad", [0.0, -0.1, [0.1, -0.1]])
def test_r_must_be_positive(bad: Any) -> None:
    x0 = np.ones((2, 2)) if np.ndim(bad) else [1.0, 2.0]
    refused(ValueError, "r: expected positive", repr(bad), r=bad, method="cgd-fd", x0=x0)


@pytest.mark.parametrize("bad", [-1, 2.5, math.nan, "3", [1], 1j])
def test_b_must_be_a_count(bad: Any) -> None:
    refused(ValueError, "b: expected a whole number, 0 or more", repr(bad), b=bad, method="cgd-fd")
    with pytest.raises(ValueError, match=r"^b: expected a whole number"):
        switches.After(bad)


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_step_that_turns_bad_on_the_way_is_an_error_that_loses_nothing(k: int, bad: float) -> None:
    bowl = Bowl()
    with pytest.raises(
        ValueError, match=rf"expected .* got {bad} at k = {k}|at k = {k}, got {bad}"
    ) as caught:
        run(bowl, step=lambda i: bad if i == k else 0.1)
    partial = caught.value.partial_result  # pyright: ignore
    assert partial.nit == k
    assert len(partial.trace) == k + 1


def test_a_lam_that_turns_nan_on_the_way_is_an_error_that_loses_nothing() -> None:
    with pytest.raises(ValueError, match=r"expected a finite number at k = 2, got nan") as caught:
        run(Bowl(), lam=lambda k: math.nan if k == 2 else 0.1, method="cgd")
    assert caught.value.partial_result.nit == 2  # pyright: ignore


# --- schedules shorter than the run ----------------------------------------------------------------

SHORT = [
    schedules.Table([0.1] * 5),
    schedules.L(0.1, 0.2, T=5),
    schedules.Cosine(0.1, 0.2, T=5),
    schedules.Signed(schedules.Table([0.1] * 5)),
]


@pytest.mark.parametrize("schedule", SHORT, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("name", ["step", "lam"])
def test_a_schedule_shorter_than_the_run_is_refused(name: str, schedule: Any) -> None:
    if name == "step" and isinstance(schedule, schedules.Signed):
        pytest.skip("a sign by curvature belongs to λ")

    def given_(**more: Any) -> dict[str, Any]:
        return {name: schedule, "method": "cgd"} | more

    start = f"{name}: a schedule of 5 values is too short for"
    refused(ValueError, start, "up to 6 iterations", **given_(budget=st.Budget(iters=6)))
    refused(ValueError, start, "up to 6 iterations", **given_(budget=st.Budget(grads=6)))
    refused(ValueError, start, "up to 1000 iterations", **given_(budget=None))
    refused(ValueError, start, "a run of any length", **given_(budget=st.Budget(seconds=1.0)))
    assert run(Bowl(), **given_(budget=st.Budget(iters=5), gtol=0.0)).nit == 5
    assert run(Bowl(), **given_(budget=st.Budget(iters=9, grads=5), gtol=0.0)).nit <= 5


def test_lam_need_not_cover_what_comes_after_the_switch() -> None:
    lam = schedules.Table([0.1] * 5)
    budget = st.Budget(iters=9)
    assert run(Bowl(), lam=lam, b=4, method="cgd-fd", budget=budget, gtol=0.0).nit == 9
    refused(ValueError, "lam: a schedule of 5", "up to 6", lam=lam, b=5, method="cgd-fd", budget=budget)
    switch = switches.SmallImprovement(0.0) | switches.After(5)
    refused(ValueError, "lam: a schedule of 5", lam=lam, switch=switch, method="cgd", budget=budget)


def test_a_ramp_needs_a_length_from_somewhere() -> None:
    bowl = Bowl()
    with pytest.raises(ValueError, match=r"L\(0.1, 0.2\).*give T, or a budget"):
        run(bowl, lam=st.L(0.1, 0.2), method="cgd", budget=st.Budget(seconds=1.0))
    assert bowl.calls == 0


# --- names, and arguments that do not go together --------------------------------------------------


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("cgd_fd", "cgd-fd"),
        ("CGD-FD", "cgd-fd"),
        ("cgdfd", "cgd-fd"),
        ("bgfs", "bfgs"),
        ("BFGS", "bfgs"),
        ("cgd_bfgs", "cgd-bfgs"),
        ("newtn", "newton"),
        ("Newton", "newton"),
    ],
)
def test_an_unknown_method_brings_the_nearest_name(name: str, near: str) -> None:
    refused(ValueError, f"method: {name!r} is not known; did you mean {near!r}?", method=name)


def test_a_method_far_from_all_brings_the_list() -> None:
    refused(ValueError, "method: 'simplex' is not known", *METHODS, method="simplex")


@pytest.mark.parametrize("bad", [3, None, st.CGD, st.minimize, b"gd"])
def test_method_must_be_a_name_or_a_direction(bad: Any) -> None:
    refused(TypeError, "method: expected a name or a Direction", repr(bad), method=bad)


@pytest.mark.parametrize("bad", ["4-point", "2point", "autograd", ""])
def test_an_unknown_jac_brings_the_names(bad: str) -> None:
    refused(ValueError, "jac: expected", "2-point", "3-point", "cs", "jax", "torch", repr(bad), jac=bad)


@pytest.mark.parametrize("bad", [3, 2.5, [1.0, 2.0], np.ones(2)])
def test_jac_must_be_callable_or_a_name(bad: Any) -> None:
    refused(TypeError, "jac: expected a callable", repr(bad), jac=bad)


@pytest.mark.parametrize("name", ["hvp", "hess", "hessp", "callback"])
@pytest.mark.parametrize("bad", [3, "name", np.eye(2)])
def test_functions_must_be_callable(name: str, bad: Any) -> None:
    shown = "hvp" if name == "hessp" else name
    refused(TypeError, f"{shown}: expected a callable", repr(bad), **{name: bad}, method="cgd")


@pytest.mark.parametrize("bad", [3, None, "f", np.ones(2)])
def test_fun_must_be_callable(bad: Any) -> None:
    refused(TypeError, "fun: expected a callable", repr(bad), fun=bad)


def test_hvp_has_one_name_at_a_time() -> None:
    bowl = Bowl()
    refused(ValueError, "hessp: give either hvp or hessp", hvp=bowl.hv, hessp=bowl.hv, method="cgd")


@pytest.mark.parametrize("method", ["gd", "newton", "bfgs", "dfp"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("lam", 0.1), ("r", 0.1), ("penalty", st.penalties.L2()), ("b", 3), ("switch", switches.Never())],
)
def test_what_belongs_to_the_penalty_needs_one(method: str, name: str, value: Any) -> None:
    refused(ValueError, f"{name}: method {method!r} has no penalty", **{name: value}, method=method)


@pytest.mark.parametrize("name", ["lam", "r"])
def test_a_direction_object_carries_its_own_settings(name: str) -> None:
    method = st.CGD(0.1, curvature="difference")
    refused(ValueError, f"{name}: give it to the direction", repr(method), **{name: 0.2}, method=method)


@pytest.mark.parametrize("method", ["cgd", "cgd-bfgs", "cgd-dfp"])
def test_r_belongs_to_the_difference(method: str) -> None:
    refused(ValueError, 'r: belongs to curvature="difference"', r=0.1, method=method)


def test_b_and_switch_exclude_each_other() -> None:
    refused(ValueError, "b: give either b or switch", b=3, switch=switches.Never(), method="cgd-fd")


@pytest.mark.parametrize("bad", [3, "after", switches.After])
def test_switch_and_penalty_must_be_what_they_are_called(bad: Any) -> None:
    refused(TypeError, "switch: expected a Switch", repr(bad), switch=bad, method="cgd")
    refused(TypeError, "penalty: expected a Penalty", repr(bad), penalty=bad, method="cgd")


@pytest.mark.parametrize("bad", ["y", "yes", None, 2, [], np.ones(2)])
def test_trace_is_one_of_three(bad: Any) -> None:
    refused(ValueError, 'trace: expected True, False or "x"', repr(bad), trace=bad)


@pytest.mark.parametrize("bad", [3, 2.5, [1]])
def test_checkpoint_must_be_a_path(bad: Any) -> None:
    refused(TypeError, "checkpoint: expected a path", repr(bad), checkpoint=bad)


def test_a_lone_argument_is_wrapped_as_in_scipy() -> None:
    res = st.minimize(lambda x, a: a * float(x @ x), [1.0, 2.0], 3.0, jac=lambda x, a: 2 * a * x)
    assert res.trace is not None
    assert res.trace.f[0] == pytest.approx(15.0, rel=1e-14)


# --- budgets and tolerances ------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [-1, 2.5, 1.0, math.nan, "3", True, [3], 1j])
@pytest.mark.parametrize("name", ["grads", "evals", "iters"])
def test_a_budget_is_a_count(name: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: expected a whole number, . or more, got") as caught:
        st.Budget(**{name: bad})
    assert repr(bad) in str(caught.value)


@pytest.mark.parametrize("name", ["grads", "evals"])
def test_a_budget_covers_at_least_one_evaluation(name: str) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: expected a whole number, 1 or more, got 0"):
        st.Budget(**{name: 0})
    assert run(Bowl(), budget=st.Budget(iters=0)).nit == 0


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None, 1j, [1.0], np.ones(2)])
def test_seconds_are_positive(bad: Any) -> None:
    if bad is None:
        assert st.Budget(seconds=None).total is None
        return
    with pytest.raises((TypeError, ValueError), match=r"^seconds: expected a positive number, got") as caught:
        st.Budget(seconds=bad)
    assert repr(bad) in str(caught.value)


@pytest.mark.parametrize("bad", [40, 40.0, "40", {"grads": 40}, st.Budget])
def test_budget_must_be_a_budget(bad: Any) -> None:
    refused(TypeError, "budget: expected a Budget such as", repr(bad), budget=bad)


@pytest.mark.parametrize("bad", [-1e-9, math.nan, math.inf, "1e-5", 1j, [1e-5], np.ones(2)])
@pytest.mark.parametrize("name", ["tol", "gtol", "ftol", "xtol"])
def test_tolerances_are_numbers(name: str, bad: Any) -> None:
    bowl = Bowl()
    with pytest.raises(
        (TypeError, ValueError), match=r"^(gtol|tol|ftol|xtol): expected a number, 0 or more"
    ) as e:
        run(bowl, **{name: bad})
    assert str(e.value).startswith((name, "gtol" if name == "tol" else name))
    assert repr(bad) in str(e.value)
    assert bowl.calls == 0


def test_tol_has_one_name_at_a_time() -> None:
    refused(ValueError, "tol: give either tol or gtol", tol=1e-3, gtol=1e-3)


# --- check_gradient --------------------------------------------------------------------------------


def cubic(a: Any, q: Any) -> tuple[Any, Any]:
    """f = aᵀx + ½xᵀQx + Σ sin xᵢ + ⅓Σ xᵢ³ and its gradient."""

    def f(x: Any) -> float:
        return float(a @ x + x @ q @ x / 2 + np.sin(x).sum() + (x**3).sum() / 3)

    return f, lambda x: a + (q + q.T) @ x / 2 + np.cos(x) + x**2


@some.composite
def problems(draw: Any) -> tuple[Any, Any, Any]:
    n = draw(some.integers(1, 5))
    rng = np.random.default_rng(draw(some.integers(0, 10**6)))
    scale = 10.0 ** draw(some.integers(-3, 3))
    f, g = cubic(scale * rng.standard_normal(n), scale * rng.standard_normal((n, n)))
    return f, g, 10.0 ** draw(some.integers(-2, 2)) * rng.standard_normal(n)


@QUICK
@given(problems(), some.sampled_from(["plain", "pair"]))
def test_a_right_gradient_is_never_refused(problem: Any, form: str) -> None:
    f, g, x0 = problem
    given_ = {"fun": f, "jac": g} if form == "plain" else {"fun": lambda x: (f(x), g(x)), "jac": True}
    result = run(Bowl(), x0=x0, step=1e-9, check_gradient=True, **given_)
    assert result.nit == 3


@QUICK
@given(problems())
def test_a_gradient_of_the_wrong_sign_is_always_refused(problem: Any) -> None:
    f, g, x0 = problem
    assume(np.linalg.norm(g(x0)) > 1e-3 * max(1.0, abs(f(x0))))
    with pytest.raises(ValueError, match=r"^jac: it has the wrong sign at x0: .* promises .* fun shows"):
        run(Bowl(), fun=f, jac=lambda x: -g(x), x0=x0, check_gradient=True)


@QUICK
@given(problems(), some.data())
def test_a_wrong_component_is_refused(problem: Any, data: Any) -> None:
    f, g, x0 = problem
    i = data.draw(some.integers(0, len(x0) - 1))
    assume(np.linalg.norm(g(x0)) > 1e-3 * max(1.0, abs(f(x0))))

    def wrong(x: Any) -> Any:
        out = g(x)
        out[i] += np.linalg.norm(out)
        return out

    with pytest.raises(ValueError, match=r"^jac: it (has the wrong sign|disagrees with differences)"):
        run(Bowl(), fun=f, jac=wrong, x0=x0, check_gradient=True)


def test_the_check_says_which_rows_are_wrong() -> None:
    def wrong(x: Any) -> Any:
        g = 2 * x
        g[x[:, 0] > 2] *= -1
        return g

    with pytest.raises(ValueError, match=r"wrong sign at x0 \(rows \[1\]\): .* -6 and|\(rows \[1\]\)"):
        run(Bowl(), jac=wrong, x0=np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 1.0]]), check_gradient=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_check_is_counted(dtype: Any) -> None:
    bowl = Bowl()
    result = run(bowl, x0=np.array([1.0, -2.0], dtype=dtype), check_gradient=True)
    assert result.nfev + result.njev == bowl.calls
    assert (result.nfev, result.njev) == (4 + 6, 4)  # f and ∇f of the check are the first of the run


@pytest.mark.parametrize("source", ["2-point", "3-point", "cs"])
def test_the_check_accepts_differences(source: str) -> None:
    assert run(Bowl(), jac=source, check_gradient=True).nit == 3


@pytest.mark.parametrize(
    ("jac", "budget", "needed"), [(None, {"evals": 6}, 7), (True, {"evals": 6}, 7), (True, {"grads": 6}, 7)]
)
def test_a_budget_too_small_for_the_check_is_said_at_once(jac: Any, budget: Any, needed: int) -> None:
    bowl = Bowl()
    (name, limit), *_ = budget.items()
    given_ = {"jac": bowl.g} if jac is None else {"fun": lambda x: (bowl.f(x), bowl.g(x)), "jac": True}
    with pytest.raises(
        ValueError, match=rf"^budget: {name}={limit} does not cover the {needed} of check_gradient"
    ):
        run(bowl, budget=st.Budget(**budget), check_gradient=True, **given_)
    assert bowl.calls == 0
    run(bowl, budget=st.Budget(**{name: needed}), check_gradient=True, **given_)


# --- anything at all -------------------------------------------------------------------------------

GARBAGE = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(-3, 3),
    some.floats(),
    some.complex_numbers(),
    some.text(max_size=5),
    some.binary(max_size=3),
    some.lists(some.floats(), max_size=3),
    some.dictionaries(some.text(max_size=2), some.integers(), max_size=2),
    some.builds(object),
    arrays.arrays(
        some.sampled_from(["f8", "i8", "c16", "?", "U2"]),
        arrays.array_shapes(min_dims=0, max_dims=2, min_side=0),
    ),
)


@pytest.mark.parametrize(
    "name",
    [
        "x0", "fun", "method", "jac", "hvp", "hess", "step", "lam", "penalty", "r", "b", "switch", "budget",
        "tol", "gtol", "ftol", "xtol", "callback", "trace",
    ],
)  # fmt: skip
@hypothesis_settings(max_examples=25, deadline=None)
@given(value=GARBAGE)
def test_garbage_works_or_is_refused_by_name(name: str, value: Any) -> None:
    assume(not (name == "jac" and value is True))  # then fun is at fault
    bowl = Bowl()
    result = outcome(bowl, **({"method": "cgd-fd"} | {name: value}))
    if not isinstance(result, st.Result):
        assert str(result).startswith((f"{name}:", "gtol:" if name == "tol" else f"{name}:"))
        assert bowl.calls == 0


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda v: steps.Armijo(initial=v), "initial"),
        (lambda v: steps.Armijo(c=v), "c"),
        (lambda v: steps.Armijo(grow=v), "grow"),
        (lambda v: steps.Armijo(trials=v), "trials"),
        (lambda v: steps.Quadratic(fallback=v), "fallback"),
        (lambda v: switches.SmallImprovement(v), "rtol"),
        (lambda v: switches.GoodDrop(v), "share"),
        (lambda v: schedules.L(v, 1.0), "start"),
        (lambda v: schedules.Cosine(0.0, v), "end"),
        (lambda v: schedules.L(0.0, 1.0, T=v), "T"),
        (lambda v: schedules.Perturbed(0.1, v), "factor"),
        (lambda v: st.penalties.Huber(v), "delta"),
        (lambda v: st.penalties.L1(v), "eps"),
        (lambda v: st.penalties.PNorm(v), "p"),
        (lambda v: st.CGD(r=v, curvature="difference"), "r"),
    ],
)
@pytest.mark.parametrize("bad", [math.nan, -math.inf, "one"])
def test_the_parts_check_their_own_numbers(make: Any, name: str, bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^{name}: expected") as caught:
        make(bad)
    assert repr(bad) in str(caught.value)


def test_curvature_is_one_of_four() -> None:
    with pytest.raises(
        ValueError, match=r"^curvature: expected one of exact, difference, bfgs, dfp; got 'hess'"
    ):
        st.CGD(curvature="hess")  # pyright: ignore[reportArgumentType]
