"""A wrong argument is refused before anything is evaluated, in words that name it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

import steepen as st
from steepen import penalties, schedules, steps, switches
from steepen.directions import METHODS

from .calls import Bowl, refused, run
from .pairs import pairs


def outcome(bowl: Bowl, **given_: Any) -> st.Result | TypeError | ValueError:
    """Return the result, or the error; no other kind of error is let through."""
    try:
        with np.errstate(all="ignore"):
            return run(bowl, **given_)
    except (TypeError, ValueError) as error:
        return error


nan, inf = math.nan, math.inf
ROWS, TWO = np.ones((3, 2)), np.ones((2, 2))
TABLE = schedules.Table([0.1] * 5)
LONG_DOUBLE = str(np.dtype(np.longdouble))
PER_ROW = (("step", "gd"), ("lam", "cgd"), ("r", "cgd-fd"))
FD = st.CGD(0.1, curvature="difference")

# what is given beside gd on a bowl from [1, −2]; the error; the beginning of its words, and more of them
REFUSED: list[tuple[dict[str, Any], type[Exception], str, *tuple[str, ...]]] = [
    *(({"x0": np.full(shape, bad)}, ValueError, "x0: expected finite", str(bad))
      for shape in ((3,), (2, 3)) for bad in (nan, inf, -inf)),
    ({"x0": np.ones((2, 2, 2))}, ValueError, "x0: expected", "(2, 2, 2)"),
    ({"x0": np.ones((0, 3))}, ValueError, "x0: expected", "(0, 3)"),
    ({"x0": np.ones((3, 0))}, ValueError, "x0: expected", "(3, 0)"),
    ({"x0": []}, ValueError, "x0: expected", "(0,)"),
    ({"x0": [[1.0, 2.0], [3.0]]}, ValueError, "x0: expected", "[[1.0, 2.0], [3.0]]"),
    ({"x0": [1.0 + 1j, 2.0]}, TypeError, "x0: expected", "complex128"),
    ({"x0": "start"}, TypeError, "x0: expected", "<U5"),
    ({"x0": [True, False]}, TypeError, "x0: expected", "bool"),
    ({"x0": np.ones(2, np.float16)}, TypeError, "x0: expected", "float16"),
    ({"x0": np.ones(2, np.longdouble)}, TypeError, "x0: expected", LONG_DOUBLE),
    *(({"x0": bad}, TypeError, "x0: expected", "object") for bad in (None, [None, 1.0], {"x": 1.0})),
    ({"x0": np.array(["2020-01-01"], "datetime64[D]")}, TypeError, "x0: expected", "datetime64"),
    # one value a row
    *(({name: bad, "method": method, "x0": ROWS}, ValueError,
       f"{name}: expected one value for each of the 3 rows", f"shape {np.shape(bad)}")
      for name, method in PER_ROW
      for bad in ([0.1, 0.2], [[0.1, 0.2, 0.3]], [])),
    *(({name: [0.1, 0.2], "method": method}, ValueError, f"{name}: expected a number", "shape (2,)")
      for name, method in PER_ROW),
    *(({"lam": wrap(np.array([0.1, 0.2, 0.3])), "method": "cgd"} | more, ValueError, "lam: expected", "(3,)")
      for wrap in (schedules.Constant, schedules.Signed, schedules.Perturbed) for more in ({}, {"x0": TWO})),
    # numbers
    *(({"step": bad}, ValueError, "step: expected positive", "-0.1")
      for bad in (-0.1, schedules.Table([-0.1] * 3))),
    ({"step": 0}, ValueError, "step: expected positive", "0.0"),
    ({"step": [0.1, 0.0, 0.1], "x0": ROWS}, ValueError, "step: expected positive"),
    ({"step": schedules.L(0.01, -0.01)}, ValueError, "step: expected positive"),
    ({"step": schedules.Auto()}, ValueError, "step: Auto() is a schedule for lam"),
    *(({"r": bad, "method": "cgd-fd", "x0": TWO}, ValueError, "r: expected positive", repr(bad))
      for bad in (0.0, -0.1, [0.1, -0.1])),
    *(({name: value, "method": method} | more, ValueError, f"{name}: expected", str(bad))
      for name, method in PER_ROW
      for bad in (nan, -inf) for value, more in ((bad, {}), ([0.1, bad], {"x0": TWO}))),
    *(({name: bad, "method": method}, TypeError, f"{name}: expected", repr(bad))
      for name, method in PER_ROW for bad in ("fast", 1j, {}, ["a"])),
    *(({name: np.array([0.1 + 1j, 0.2]), "method": method, "x0": TWO}, TypeError, f"{name}: expected")
      for name, method in PER_ROW),
    *(({"b": bad, "method": "cgd-fd"}, ValueError, "b: expected a whole number, 0 or more", repr(bad))
      for bad in (-1, 2.5, nan, "3", [1])),
    # schedules shorter than the run
    *(({"lam" if signed else "step": schedule, "method": "cgd", "budget": budget}, ValueError,
       f"{'lam' if signed else 'step'}: a schedule of 5 values is too short for {run_}")
      for schedule, signed in ((TABLE, False), (schedules.L(0.1, 0.2, T=5), False),
                               (schedules.Cosine(0.1, 0.2, T=5), True), (schedules.Signed(TABLE), True))
      for budget, run_ in ((st.Budget(iters=6), "up to 6"), (st.Budget(grads=6), "up to 6"),
                           (None, "up to 1000"), (st.Budget(seconds=1.0), "a run of any length"))),
    ({"lam": TABLE, "b": 5, "method": "cgd-fd", "budget": st.Budget(iters=9)}, ValueError,
     "lam: a schedule of 5 values is too short for up to 6 iterations"),
    ({"lam": TABLE, "switch": switches.SmallImprovement(0.0) | switches.After(5), "method": "cgd",
      "budget": st.Budget(iters=9)}, ValueError, "lam: a schedule of 5 values is too short for up to 6"),
    ({"step": steps.safe(4.0, TABLE), "method": "cgd", "budget": st.Budget(iters=6)}, ValueError,
     "step: a schedule of 5"),
    ({"lam": st.L(0.1, 0.2), "method": "cgd", "budget": st.Budget(seconds=1.0)}, ValueError,
     "L(0.1, 0.2)", "give T, or a budget"),
    # names
    *(({"method": name}, ValueError, f"method: {name!r} is not known; did you mean {near!r}?")
      for name, near in (("cgd_fd", "cgd-fd"), ("CGD-FD", "cgd-fd"), ("bgfs", "bfgs"), ("newtn", "newton"))),
    ({"method": "simplex"}, ValueError, "method: 'simplex' is not known", *METHODS),
    *(({"method": bad}, TypeError, "method: expected a name or a Direction", repr(bad))
      for bad in (3, None, st.CGD, b"gd")),
    *(({"jac": bad}, ValueError, "jac: expected", "2-point", "3-point", "cs", "jax", "torch", repr(bad))
      for bad in ("4-point", "autograd", "")),
    *(({"jac": bad}, TypeError, "jac: expected a callable", repr(bad)) for bad in (3, [1.0, 2.0])),
    *(({"fun": bad}, TypeError, "fun: expected a callable", repr(bad)) for bad in (3, None, "f")),
    *(({name: bad, "method": "cgd"}, TypeError, f"{shown}: expected a callable", repr(bad))
      for name, shown in (("hvp", "hvp"), ("hess", "hess"), ("hessp", "hvp"), ("callback", "callback"))
      for bad in (3, np.eye(2))),
    *(({"trace": bad}, ValueError, 'trace: expected True, False or "x"', repr(bad))
      for bad in ("y", None, 2, np.ones(2))),
    *(({"checkpoint": bad}, TypeError, "checkpoint: expected a path", repr(bad)) for bad in (3, [1])),
    *(({name: bad, "method": "cgd"}, TypeError, f"{name}: expected a {name.title()}", repr(bad))
      for name in ("switch", "penalty") for bad in (3, "after", switches.After)),
    ({"penalty": penalties.L2, "method": "cgd"}, TypeError, "penalty: expected a Penalty"),
    *(({"budget": bad}, TypeError, "budget: expected a Budget such as", repr(bad))
      for bad in (40, "40", {"grads": 40}, st.Budget)),
    *(({name: bad}, error, f"{'gtol' if name == 'tol' else name}: expected a number, 0 or more", repr(bad))
      for name in ("tol", "gtol", "ftol", "xtol", "gtol_rel")
      for bad, error in ((-1e-9, ValueError), (nan, ValueError), ("1e-5", TypeError), ([1e-5], TypeError))),
    *(({"x_scale": bad}, error, "x_scale: expected")
      for bad, error in ((0, ValueError), ([1.0, nan], ValueError), (inf, ValueError), (-1.0, ValueError),
                         (np.ones(3), ValueError), ([[1.0, 2.0]], ValueError), ("big", ValueError),
                         ([1.0, None], TypeError), (True, TypeError), ([], ValueError))),
    *(({"memory": bad, "method": "cgd-auto"}, ValueError, "memory: expected a whole number, 1 or more")
      for bad in (0, 1.5, "a", True)),
    # what does not go together
    ({"hvp": np.dot, "hessp": np.dot, "method": "cgd"}, ValueError, "hessp: give either hvp or hessp"),
    *(({name: value, "method": method}, ValueError, f"{name}: method {method!r} has no penalty")
      for method, name, value in (("gd", "lam", 0.1), ("newton", "r", 0.1), ("dfp", "b", 3),
                                  ("bfgs", "penalty", penalties.L2()), ("gd", "switch", switches.Never()))),
    ({"memory": 5}, ValueError, "memory: method 'gd' keeps no pairs"),
    ({"memory": 5, "method": st.CGDAuto()}, ValueError, "memory: give it to the direction", "CGDAuto"),
    *(({name: 0.2, "method": FD}, ValueError, f"{name}: give it to the direction", repr(FD))
      for name in ("lam", "r")),
    *(({"r": 0.1, "method": method}, ValueError, 'r: belongs to curvature="difference"')
      for method in ("cgd", "cgd-bfgs", "cgd-dfp")),
    ({"b": 3, "switch": switches.Never(), "method": "cgd-fd"}, ValueError, "b: give either b or switch"),
    ({"tol": 1e-3, "gtol": 1e-3}, ValueError, "tol: give either tol or gtol"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{', '.join(case[0])}")
def test_a_wrong_argument_is_refused_before_anything_is_evaluated(case: Any) -> None:
    given_, error, *texts = case
    refused(error, *texts, **given_)


def test_what_is_right_is_taken() -> None:
    assert run(Bowl()).nit == 3
    assert run(Bowl(), budget=st.Budget(iters=0)).nit == 0
    for name, method in (("step", "gd"), ("lam", "cgd"), ("lam", "cgd-bfgs"), ("r", "cgd-fd")):
        assert run(Bowl(), **{name: [0.1, 0.2, 0.3]}, method=method, x0=ROWS).x.shape == (3, 2)
    for schedule in (TABLE, schedules.L(0.1, 0.2, T=5)):
        for budget in (st.Budget(iters=5), st.Budget(iters=9, grads=5)):
            assert run(Bowl(), step=schedule, budget=budget, gtol=0.0).nit == 5
    budget = st.Budget(iters=9)  # λ need not cover what comes after the switch
    assert run(Bowl(), lam=TABLE, b=4, method="cgd-fd", budget=budget, gtol=0.0).nit == 9


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

VALUES = [
    ("fun", np.ones(2), TypeError, "shape (2,)"), ("fun", np.ones((1, 2)), TypeError, "shape (1, 2)"),
    ("fun", np.ones(0), TypeError, "shape (0,)"), ("fun", None, TypeError, "NoneType"),
    ("fun", 1.0 + 2.0j, TypeError, "complex"), ("fun", np.complex64(1), TypeError, "complex64"),
    ("fun", "1.0", TypeError, "str"), ("fun", np.array(1.0, dtype=object), TypeError, "object"),
    ("fun", {"f": 1.0}, TypeError, "dict"), ("fun", [[1.0], [2.0, 3.0]], TypeError, ""),
    ("jac", np.ones(3), ValueError, "shape (3,)"), ("jac", np.ones((2, 1)), ValueError, "shape (2, 1)"),
    ("jac", 1.0, ValueError, "shape ()"), ("jac", None, ValueError, "shape ()"),
    ("jac", np.ones(2, complex), TypeError, "dtype complex128"), ("jac", ["1", "2"], TypeError, "dtype <U1"),
    ("jac", np.ones(2, object), TypeError, "dtype object"), ("jac", [True, False], TypeError, "dtype bool"),
    ("jac", ([1.0, 2.0], 3.0), ValueError, ""),
    ("hvp", np.ones(3), ValueError, ""), ("hvp", np.ones((2, 2)), ValueError, ""),
    ("hvp", 1j * np.ones(2), TypeError, ""),
    ("hess", np.ones(2), ValueError, ""), ("hess", np.ones((2, 3)), ValueError, ""),
    ("hess", np.ones((2, 2), complex), TypeError, ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "error", "came"), VALUES)
def test_what_a_function_returns_is_checked(name: str, value: Any, error: Any, came: str) -> None:
    for method in {"hvp": ("cgd",), "hess": ("newton",)}.get(name, ("gd", "cgd-bfgs")):
        with pytest.raises((TypeError, ValueError), match=rf"^{name}: expected") as caught:
            run(Bowl(), **{name: lambda *_: value}, method=method)
        assert came in str(caught.value)
        assert isinstance(caught.value, error) or not came
    if name == "jac":
        with pytest.raises((TypeError, ValueError), match=r"gradient: expected") as caught:
            run(Bowl(), fun=lambda x: (1.0, value), jac=True)
        assert came in str(caught.value)


@pytest.mark.parametrize("value", [1.0, 1, np.float32(1), np.ones(()), np.ones((1, 1)), np.int64(1)])
@pytest.mark.bits  # the value itself is looked at
def test_fun_may_give_a_scalar_in_any_form(value: Any) -> None:
    assert run(Bowl(), fun=lambda x: value).fun == 1.0


@pytest.mark.parametrize("value", [[2, -4], (2.0, -4.0), np.array([2, -4], dtype=np.int8)])
def test_a_gradient_may_be_a_list_or_whole_numbers(value: Any) -> None:
    assert run(Bowl(), jac=lambda x: value, budget=st.Budget(iters=1)).x.tolist() == [0.8, -1.6]


@pytest.mark.parametrize("value", [1.0, None, (1.0,), (1.0, np.ones(2), 3.0), np.ones(())])
def test_jac_true_needs_a_pair(value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^fun: expected .*\(f, g\)"):
        run(Bowl(), fun=lambda x: value, jac=True)


@given(
    some.sampled_from(["f4", "f8", "i4", "u1", "c8", "?", "U2", "O"]),
    some.one_of(some.just((2,)), arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)),
)
def test_any_gradient_works_or_is_refused_by_name(dtype: str, shape: tuple[int, ...]) -> None:
    g = np.ones(shape).astype(dtype)
    result = outcome(Bowl(), jac=lambda x: g)
    assert isinstance(result, st.Result) == (g.shape == (2,) and g.dtype.kind in "fiu")
    if not isinstance(result, st.Result):
        assert str(result).startswith("jac: expected")
        assert result.partial_result.nit == 0  # pyright: ignore


@pytest.mark.parametrize(
    "fun", [lambda x: float((x * x).sum()), lambda x: x * x, lambda x: (x * x).sum(axis=0), lambda x: None]
)
def test_a_batch_needs_one_value_a_row(fun: Any) -> None:
    with pytest.raises(TypeError, match=r"^fun: expected one value for each of the 3 rows.*vectorised"):
        run(Bowl(), fun=fun, x0=ROWS)
    wrapped = np.vectorize(lambda x: float(x @ x), signature="(n)->()")  # as the message says
    assert run(Bowl(), fun=wrapped, x0=ROWS).fun.shape == (3,)


@pytest.mark.parametrize("jac", [lambda x: x[0], lambda x: x.T, lambda x: (x * x).sum(axis=-1)])
def test_a_batch_needs_one_gradient_a_row(jac: Any) -> None:
    with pytest.raises(ValueError, match=r"^jac: expected shape \(3, 2\), got shape"):
        run(Bowl(), jac=jac, x0=ROWS)


@pairs(k=[0, 2], name=["step", "lam"], bad=[nan, inf, 0.0, -1.0, None, np.array([0.1, 0.2])])
def test_a_value_that_turns_bad_is_an_error_that_loses_nothing(k: int, name: str, bad: Any) -> None:
    def schedule(i: int) -> Any:
        return bad if i == k else 0.1

    if name == "lam" and isinstance(bad, float) and math.isfinite(bad):
        assert run(Bowl(), lam=schedule, method="cgd").nit == 3
        return
    with pytest.raises(ValueError, match="expected") as caught:
        run(Bowl(), **{name: schedule}, method="cgd")
    assert f"at k = {k}" in str(caught.value)
    assert repr(bad) in str(caught.value)
    partial = caught.value.partial_result  # pyright: ignore
    assert partial.nit == k
    assert len(partial.trace) == k + 1


def test_a_lone_argument_is_wrapped_as_in_scipy() -> None:
    res = st.minimize(lambda x, a: a * float(x @ x), [1.0, 2.0], 3.0, jac=lambda x, a: 2 * a * x)
    assert res.trace is not None
    assert res.trace.f[0] == pytest.approx(15.0, rel=1e-14)


# --- parts that check themselves -------------------------------------------------------------------

COUNTS: list[tuple[Any, str, str, list[Any]]] = [
    *((lambda v, name=name: st.Budget(**{name: v}), name, "a whole number", [-1, 2.5, nan, "3", True, [3]])
      for name in ("grads", "evals", "iters")),
    *((lambda v, name=name: st.Budget(**{name: v}), name, "a whole number, 1 or more", [0])
      for name in ("grads", "evals")),
    (lambda v: st.Budget(seconds=v), "seconds", "a positive number", [0.0, -1.0, nan, inf, "1", [1.0]]),
    (lambda v: switches.After(v), "b", "a whole number", [-1, "3", 1.5]),
    (lambda v: schedules.L(0.0, 1.0, T=v), "T", "a whole number, 1 or more", [0, -3, nan, "one"]),
    *((make, name, "", [nan, -inf, "one"]) for make, name in (
        (lambda v: steps.Armijo(initial=v), "initial"), (lambda v: steps.Armijo(c=v), "c"),
        (lambda v: steps.Armijo(grow=v), "grow"), (lambda v: steps.Armijo(trials=v), "trials"),
        (lambda v: steps.Quadratic(fallback=v), "fallback"), (lambda v: switches.GoodDrop(v), "share"),
        (lambda v: switches.SmallImprovement(v), "rtol"), (lambda v: schedules.L(v, 1.0), "start"),
        (lambda v: schedules.Cosine(0.0, v), "end"), (lambda v: schedules.Perturbed(0.1, v), "factor"),
        (lambda v: schedules.Constant(v), "value"), (lambda v: schedules.Table([0.1, v]), "values"),
        (lambda v: schedules.Piecewise([0.1, v], [2]), "values"), (lambda v: penalties.Huber(v), "delta"),
        (lambda v: penalties.L1(v), "eps"), (lambda v: penalties.PNorm(v), "p"),
        (lambda v: st.CGD(r=v, curvature="difference"), "r"))),
    (lambda v: steps.Armijo(grow=v), "longest", "a finite number where grow is infinite", [inf]),
    (lambda v: steps.safe(1.0, v), "lam", "values known in advance", [schedules.Auto()]),
    (lambda v: st.CGD(curvature=v), "curvature", "one of exact, difference, bfgs, dfp; got", ["hess"]),
    (lambda v: schedules.Piecewise([1.0, 2.0, 3.0], v), "boundaries", "rising numbers, got", [[4, 3]]),
]  # fmt: skip


@pytest.mark.parametrize(("make", "name", "words", "values"), COUNTS, ids=[row[1] for row in COUNTS])
def test_the_parts_check_their_own_numbers(make: Any, name: str, words: str, values: list[Any]) -> None:
    for bad in values:
        with pytest.raises((TypeError, ValueError), match=rf"^{name}: expected {words}") as caught:
            make(bad)
        assert repr(bad) in str(caught.value) or words.startswith("one more")


def test_other_mistakes_in_schedules() -> None:
    with pytest.raises(ValueError, match=r"^values: expected one more than the 2 boundaries, got 2"):
        schedules.Piecewise([1.0, 2.0], [3, 4])
    with pytest.raises(ValueError, match=r"^T: not known yet"):
        schedules.L(0.0, 1.0)(0)
    assert st.Budget(seconds=None).total is None


# --- check_gradient --------------------------------------------------------------------------------


@some.composite
def problems(draw: Any) -> tuple[Any, Any, Any]:
    """Draw aᵀx + ½xᵀQx + Σ sin xᵢ + ⅓Σ xᵢ³, its gradient, and a start."""
    n = draw(some.integers(1, 5))
    rng = np.random.default_rng(draw(some.integers(0, 10**6)))
    scale = 10.0 ** draw(some.integers(-3, 3))
    a, q = scale * rng.standard_normal(n), scale * rng.standard_normal((n, n))

    def f(x: Any) -> float:
        return float(a @ x + x @ q @ x / 2 + np.sin(x).sum() + (x**3).sum() / 3)

    start = 10.0 ** draw(some.integers(-2, 2)) * rng.standard_normal(n)
    return f, lambda x: a + (q + q.T) @ x / 2 + np.cos(x) + x**2, start


@given(problems(), some.booleans())
def test_a_right_gradient_is_never_refused(problem: Any, pair: bool) -> None:
    f, g, x0 = problem
    given_ = {"fun": lambda x: (f(x), g(x)), "jac": True} if pair else {"fun": f, "jac": g}
    assert run(Bowl(), x0=x0, step=1e-9, check_gradient=True, **given_).nit == 3


@given(problems(), some.one_of(some.none(), some.integers(0, 4)))
def test_a_gradient_of_the_wrong_sign_or_with_a_wrong_component_is_refused(problem: Any, i: Any) -> None:
    f, g, x0 = problem
    assume(np.linalg.norm(g(x0)) > 1e-3 * max(1.0, abs(f(x0))))

    def wrong(x: Any) -> Any:
        out = g(x)
        if i is None:
            return -out
        out[i % len(x0)] += np.linalg.norm(out)
        return out

    said = r"has the wrong sign at x0: .* promises .* fun shows" + ("" if i is None else "|disagrees with")
    with pytest.raises(ValueError, match=f"^jac: it ({said})"):
        run(Bowl(), fun=f, jac=wrong, x0=x0, check_gradient=True)


def test_the_check_says_which_rows_are_wrong() -> None:
    def wrong(x: Any) -> Any:
        return 2 * x * np.where(x[:, :1] > 2, -1, 1)

    with pytest.raises(ValueError, match=r"\(rows \[1\]\)"):
        run(Bowl(), jac=wrong, x0=np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 1.0]]), check_gradient=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_check_is_counted(dtype: Any) -> None:
    bowl = Bowl()
    result = run(bowl, x0=np.array([1.0, -2.0], dtype=dtype), check_gradient=True)
    assert result.nfev + result.njev == bowl.calls
    assert (result.nfev, result.njev) == (4 + 6, 4)  # f and ∇f of the check are the first of the run
    for source in ("2-point", "3-point", "cs"):
        assert run(Bowl(), jac=source, check_gradient=True).nit == 3


@pytest.mark.parametrize(("pair", "name"), [(False, "evals"), (True, "evals"), (True, "grads")])
def test_a_budget_too_small_for_the_check_is_said_at_once(pair: bool, name: str) -> None:
    bowl = Bowl()
    given_ = {"fun": lambda x: (bowl.f(x), bowl.g(x)), "jac": True} if pair else {"jac": bowl.g}
    with pytest.raises(ValueError, match=rf"^budget: {name}=6 does not cover the 7 of check_gradient"):
        run(bowl, budget=st.Budget(**{name: 6}), check_gradient=True, **given_)
    assert bowl.calls == 0
    run(bowl, budget=st.Budget(**{name: 7}), check_gradient=True, **given_)


# --- anything at all -------------------------------------------------------------------------------

GARBAGE = some.one_of(
    some.none(), some.booleans(), some.integers(-3, 3), some.floats(), some.complex_numbers(),
    some.text(max_size=5), some.binary(max_size=3), some.lists(some.floats(), max_size=3),
    some.builds(object), some.dictionaries(some.text(max_size=2), some.integers(), max_size=2),
    arrays.arrays(some.sampled_from(["f8", "c16", "?"]), arrays.array_shapes(min_dims=0, max_dims=2)),
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "x0", "fun", "method", "jac", "hvp", "hess", "step", "lam", "penalty", "r", "b", "switch", "budget",
        "tol", "gtol", "ftol", "xtol", "callback", "trace",
    ],
)  # fmt: skip
@settings(max_examples=8)
@given(value=GARBAGE)
def test_garbage_works_or_is_refused_by_name(name: str, value: Any) -> None:
    assume(not (name == "jac" and value is True))  # then fun is at fault
    bowl = Bowl()
    result = outcome(bowl, **({"method": "cgd-fd"} | {name: value}))
    if not isinstance(result, st.Result):
        assert str(result).startswith((f"{name}:", "gtol:" if name == "tol" else f"{name}:"))
        assert bowl.calls == 0
