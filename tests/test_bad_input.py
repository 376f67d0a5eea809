"""A wrong argument is refused before anything is evaluated, in words that name it."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

import steepen as st
from steepen import penalties, schedules, steps, switches
from steepen.methods import METHODS

from .calls import Bowl, refused, run
from .pairs import pairs


def outcome(bowl, **given_):
    """Return the result, or the error; no other kind of error is let through."""
    try:
        with np.errstate(all="ignore"):
            return run(bowl, **given_)
    except (TypeError, ValueError) as error:
        return error


nan, inf = math.nan, math.inf
ROWS, TWO = np.ones((3, 2)), np.ones((2, 2))
PER_ROW = (("step", "gd"), ("lam", "cgd"), ("r", "cgd-fd"))
FD = st.CGD(0.1, curvature="difference")

# what is given beside gd on a bowl from [1, −2]; the error; the beginning of its words, and more of them
REFUSED = [
    *(({"x0": np.full(shape, bad)}, ValueError, "x0: expected finite", str(bad))
      for shape, bad in (((3,), nan), ((2, 3), -inf))),
    *(({"x0": np.ones(shape)}, ValueError, "x0: expected", str(shape))
      for shape in ((2, 2, 2), (0, 3), (3, 0), (0,))),
    ({"x0": [[1.0, 2.0], [3.0]]}, ValueError, "x0: expected", "[[1.0, 2.0], [3.0]]"),
    *(({"x0": bad}, TypeError, "x0: expected", dtype)
      for bad, dtype in (([1.0 + 1j, 2.0], "complex128"), ("start", "<U5"), ([True, False], "bool"),
                         (np.ones(2, np.float16), "float16"), ([None, 1.0], "object"))),
    # one value a row
    *(({name: bad, "method": method, "x0": ROWS}, ValueError,
       f"{name}: expected one value for each of the 3 rows", f"shape {np.shape(bad)}")
      for name, method in PER_ROW for bad in ([0.1, 0.2], [])),
    *(({name: [0.1, 0.2], "method": method}, ValueError, f"{name}: expected a number", "shape (2,)")
      for name, method in PER_ROW),
    *(({"lam": wrap(np.array([0.1, 0.2, 0.3])), "method": "cgd", "x0": TWO}, ValueError, "lam: expected")
      for wrap in (schedules.Constant, schedules.Signed, schedules.Perturbed)),
    # numbers
    *(({"step": bad, "x0": ROWS}, ValueError, "step: expected positive")
      for bad in (-0.1, 0, [0.1, 0.0, 0.1], schedules.L(0.01, -0.01))),
    ({"step": schedules.Auto()}, ValueError, "step: Auto() is a schedule for lam"),
    *(({"r": bad, "method": "cgd-fd", "x0": TWO}, ValueError, "r: expected positive", repr(bad))
      for bad in (0.0, [0.1, -0.1])),
    *(({name: [0.1, bad], "method": method, "x0": TWO}, ValueError, f"{name}: expected", str(bad))
      for name, method in PER_ROW for bad in (nan, -inf)),
    *(({name: bad, "method": method}, TypeError, f"{name}: expected", repr(bad))
      for name, method in PER_ROW for bad in ("fast", 1j)),
    *(({"b": bad, "method": "cgd-fd"}, ValueError, "b: expected a whole number, 0 or more", repr(bad))
      for bad in (-1, 2.5, "3")),
    ({"lam": st.L(0.1, 0.2), "method": "cgd", "budget": st.Budget(seconds=1.0)}, ValueError,
     "L(0.1, 0.2)", "give T or a budget"),
    *(({name: bad, "method": "cgd"}, TypeError, f"{name}: expected a number, a schedule", repr(bad))
      for name, bad in (("lam", st.L), ("lam", schedules.Auto), ("step", steps.Armijo), ("step", steps.Fixed),
                        ("lam", schedules.Signed))),
    # names
    *(({"method": name}, ValueError, f"method: {name!r} is not known; did you mean {near!r}?")
      for name, near in (("CGD_FD", "cgd-fd"), ("bgfs", "bfgs"))),
    *(({"method": name}, ValueError, f"method: {name!r} is not the name of a method; use {hint}")
      for name, hint in (("CGD-QN", "'cgd-bfgs' or 'cgd-dfp'"), ("Algorithm 3", "'cgd-bfgs' or 'cgd-dfp'"),
                         ("Algorithm 1", "'cgd'"), ("Algorithm 2", "'cgd-fd'"),
                         ("constrained gradient descent", "'cgd'"), ("egr", "'cgd' with guard=False"),
                         ("Steepest descent", "'gd'"), ("GapSAM", "steepen.torch"),
                         ("Nelder-Mead", "'cgd-auto', the default; for"),
                         ("shgo", "'cgd-auto' from many starts"), ("Adam", "'cgd-auto', the"))),
    *(({name: 0.1}, TypeError, f"{name}: {hint}")
      for name, hint in (("lr", "use step="), ("alpha", "use step="), ("λ", "use lam="),
                         ("T", "use budget=Budget(iters=...), or Budget(grads=...)"), ("nu", "ν = 2λ/r"),
                         ("epsilon", "ε of the constraint"), ("H", "use hess="), ("gradient", "use jac="),
                         ("h", "use penalty="), ("use_cgd", "use b= or switch="))),
    ({"method": "simplex"}, ValueError, "method: 'simplex' is not known", *METHODS),
    ({"method": st.CGD}, TypeError, "method: expected a name or a Method", repr(st.CGD)),
    ({"jac": "4-point"}, ValueError, "jac: expected", "2-point", "3-point", "cs", "jax", "torch", "4-point"),
    ({"jac": [1.0, 2.0]}, TypeError, "jac: expected a callable", "[1.0, 2.0]"),
    *(({name: 3, "method": "cgd"}, TypeError, f"{shown}: expected a callable", "3") for name, shown in (
        ("fun", "fun"), ("hvp", "hvp"), ("hess", "hess"), ("hessp", "hvp"), ("callback", "callback"))),
    ({"trace": np.ones(2)}, ValueError, 'trace: expected True, False or "x"', repr(np.ones(2))),
    ({"checkpoint": 3}, TypeError, "checkpoint: expected a path", "3"),
    *(({name: bad, "method": "cgd"}, TypeError, f"{name}: expected a {name.title()}", repr(bad))
      for name, bad in (("switch", 3), ("switch", switches.After), ("penalty", penalties.L2))),
    ({"budget": 40}, TypeError, "budget: expected a Budget such as", "40"),
    *(({name: bad}, error, f"{'gtol' if name == 'tol' else name}: expected a number, 0 or more", repr(bad))
      for name in ("tol", "gtol", "ftol", "xtol", "gtol_rel")
      for bad, error in ((-1e-9, ValueError), (nan, ValueError), ([1e-5], TypeError))),
    *(({"x_scale": bad}, error, "x_scale: expected")
      for bad, error in ((0, ValueError), ([1.0, nan], ValueError), (inf, ValueError), (-1.0, ValueError),
                         (np.ones(3), ValueError), ("big", TypeError), (True, TypeError), ([], ValueError))),
    *(({"memory": bad, "method": "cgd-auto"}, ValueError, "memory: expected a whole number, 1 or more")
      for bad in (0, 1.5, True)),
    # what does not go together
    ({"hvp": np.dot, "hessp": np.dot, "method": "cgd"}, ValueError, "hessp: give either hvp or hessp"),
    *(({name: value, "method": method}, ValueError, f"{name}: method {method!r} has no penalty")
      for method, name, value in (("gd", "lam", 0.1), ("newton", "r", 0.1), ("dfp", "b", 3),
                                  ("bfgs", "penalty", penalties.L2()), ("gd", "switch", switches.Never()))),
    ({"memory": 5}, ValueError, "memory: method 'gd' stores no curvature pairs"),
    ({"lam": 0.1, "method": "cgd-auto"}, ValueError, "lam: method 'cgd-auto' chooses λ itself; 'cgd'"),
    *(({"method": name}, ValueError, "method: ", repr(name), "'cgd-auto', the default") for name in
      ("L-BFGS-B", "lbfgs")),
    ({"constraints": ()}, TypeError, "constraints: steepen supports bounds only", "scipy.optimize.minimize"),
    ({"maxiter": 9}, TypeError, "maxiter: use budget=Budget(iters=...)"),
    ({"jca": None}, TypeError, "jca: not an argument of minimize; did you mean 'jac'?"),
    ({"fun": lambda x: ((x**2).sum(), 2 * x), "jac": None}, TypeError, "fun: expected", "pass jac=True"),
    ({"memory": 5, "method": st.CGDAuto()}, ValueError, "memory: pass it to the constructor", "CGDAuto"),
    ({"lam": 0.2, "method": FD}, ValueError, "lam: pass it to the constructor of the method", repr(FD)),
    ({"r": 0.1, "method": "cgd-dfp"}, ValueError, 'r: applies only to curvature="difference"', '"cgd-fd"'),
    ({"b": 3, "switch": switches.Never(), "method": "cgd-fd"}, ValueError, "b: give either b or switch"),
    ({"tol": 1e-3, "gtol": 1e-3}, ValueError, "tol: give either tol or gtol"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{', '.join(case[0])}")
def test_a_wrong_argument_is_refused_before_anything_is_evaluated(case):
    given_, error, *texts = case
    refused(error, *texts, **given_)


def test_what_is_right_is_taken():
    assert (st.Budget(grads=np.int64(7), iters=9).total, st.Budget(iters=0).iters) == (7, 0)
    assert run(Bowl()).nit == 3
    assert run(Bowl(), budget=st.Budget(iters=0)).nit == 0
    for name, method in (("step", "gd"), ("lam", "cgd"), ("lam", "cgd-bfgs"), ("r", "cgd-fd")):
        assert run(Bowl(), **{name: [0.1, 0.2, 0.3]}, method=method, x0=ROWS).x.shape == (3, 2)
    ramp = schedules.L(0.1, 0.2, T=5)  # which may be shorter than the run
    for budget, made in ((st.Budget(iters=9, grads=5), 5), (st.Budget(iters=9), 9)):
        assert run(Bowl(), step=ramp, budget=budget, gtol=0.0).nit == made


VALUES = [
    ("fun", np.ones(2), TypeError, "shape (2,)"), ("fun", np.ones(0), TypeError, "shape (0,)"),
    ("fun", None, TypeError, "NoneType"), ("fun", 1.0 + 2.0j, TypeError, "complex"),
    ("fun", np.array(1.0, dtype=object), TypeError, "object"), ("fun", [[1.0], [2.0, 3.0]], TypeError, ""),
    ("jac", np.ones(3), ValueError, "shape (3,)"), ("jac", None, ValueError, "shape ()"),
    ("jac", np.ones(2, complex), TypeError, "dtype complex128"), ("jac", ["1", "2"], TypeError, "dtype <U1"),
    ("jac", [True, False], TypeError, "dtype bool"), ("jac", ([1.0, 2.0], 3.0), ValueError, ""),
    ("hvp", np.ones((2, 2)), ValueError, ""), ("hvp", 1j * np.ones(2), TypeError, ""),
    ("hess", np.ones((2, 3)), ValueError, ""), ("hess", np.ones((2, 2), complex), TypeError, ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "error", "came"), VALUES)
def test_what_a_function_returns_is_checked(name, value, error, came):
    for method in {"hvp": ("cgd",), "hess": ("newton",)}.get(name, ("gd", "cgd-bfgs")):
        with pytest.raises((TypeError, ValueError), match=rf"^{name}: expected") as caught:
            run(Bowl(), **{name: lambda *_: value}, method=method)
        assert came in str(caught.value)
        assert isinstance(caught.value, error) or not came
    if name == "jac":
        with pytest.raises((TypeError, ValueError), match=r"gradient: expected") as caught:
            run(Bowl(), fun=lambda x: (1.0, value), jac=True)
        assert came in str(caught.value)


@pytest.mark.bits  # the values themselves are looked at
def test_a_scalar_and_a_gradient_may_have_any_form():
    for value in (1, np.float32(1), np.ones(()), np.ones((1, 1))):
        assert run(Bowl(), fun=lambda x, value=value: value).fun == 1.0
    for value in ([2, -4], (2.0, -4.0), np.array([2, -4], dtype=np.int8)):
        given_ = {"jac": lambda x, value=value: value, "budget": st.Budget(iters=1)}
        assert run(Bowl(), **given_).x.tolist() == [0.8, -1.6]


@pytest.mark.parametrize("value", [1.0, (1.0,), (1.0, np.ones(2), 3.0)])
def test_jac_true_needs_a_pair(value):
    with pytest.raises((TypeError, ValueError), match=r"^fun: expected .*\(f, g\)"):
        run(Bowl(), fun=lambda x: value, jac=True)


@pytest.mark.parametrize("fun", [lambda x: float((x * x).sum()), lambda x: x * x, lambda x: None])
def test_a_batch_needs_one_value_and_one_gradient_a_row(fun):
    with pytest.raises(TypeError, match=r"^fun: expected one value for each of the 3 rows.*vectorised"):
        run(Bowl(), fun=fun, x0=ROWS)
    wrapped = np.vectorize(lambda x: float(x @ x), signature="(n)->()")  # as the message says
    assert run(Bowl(), fun=wrapped, x0=ROWS).fun.shape == (3,)
    for jac in (lambda x: x[0], lambda x: x.T):
        with pytest.raises(ValueError, match=r"^jac: expected shape \(3, 2\), got shape"):
            run(Bowl(), jac=jac, x0=ROWS)


@pytest.mark.parametrize("n", [2, 3])
def test_a_function_for_one_point_does_not_pass_for_one_of_a_square_batch(n):
    def f(x):
        return (x[0] - 1) ** 2 + 4 * (x[-1] + 2) ** 2

    def g(x):
        return np.array([2 * (x[0] - 1), *x[1:-1] * 0, 8 * (x[-1] + 2)])

    rows_f, rows_g, x0 = (lambda x: f(x.T)), (lambda x: g(x.T).T), 3.0 * np.eye(n)
    res = st.minimize(rows_f, x0, jac=rows_g)
    assert (res.nfev == [st.minimize(f, start, jac=g).nfev for start in x0]).all()
    both, last = (lambda x: (f(x), g(x))), (lambda x: x[n - 1])
    for fun, jac in ((f, rows_g), (both, True), (last, "3-point")):
        with pytest.raises(TypeError, match=r"^fun: expected .* rows of x.*np\.vectorize"):
            st.minimize(fun, x0, jac=jac)
    with pytest.raises(ValueError, match=r"^jac: expected shape"):
        st.minimize(rows_f, x0, jac=g)


@pairs(k=[0, 2], name=["step", "lam"], bad=[nan, 0.0, -1.0, None, np.array([0.1, 0.2])])
def test_a_value_that_turns_bad_is_an_error_that_loses_nothing(k, name, bad):
    def schedule(i):
        return bad if i == k else 0.1

    if name == "lam" and isinstance(bad, float) and math.isfinite(bad):
        assert run(Bowl(), lam=schedule, method="cgd").nit == 3
        return
    with pytest.raises(ValueError, match="expected") as caught:
        run(Bowl(), **{name: schedule}, method="cgd")
    assert f"at k = {k}" in str(caught.value)
    assert repr(bad) in str(caught.value)
    partial = caught.value.partial_result
    assert (partial.nit, len(partial.trace)) == (k, k + 1)


COUNTS = [
    *((lambda v, name=name: st.Budget(**{name: v}), name, "a whole number", [-1, 2.5, nan, "3", True])
      for name in ("grads", "evals", "iters")),
    *((lambda v, name=name: st.Budget(**{name: v}), name, "a whole number, 1 or more", [0])
      for name in ("grads", "evals")),
    (lambda v: st.Budget(seconds=v), "seconds", "a positive number", [0.0, nan, inf, "1"]),
    (lambda v: switches.After(v), "b", "a whole number", [-1, "3", 1.5]),
    (lambda v: schedules.L(0.0, 1.0, T=v), "T", "a whole number, 1 or more", [0, -3, nan, "one"]),
    *((make, name, "", [nan, -inf, "one"]) for make, name in (
        (lambda v: steps.Armijo(initial=v), "initial"), (lambda v: steps.Armijo(c=v), "c"),
        (lambda v: steps.Armijo(grow=v), "grow"), (lambda v: steps.Armijo(trials=v), "trials"),
        (lambda v: switches.GoodDrop(v), "share"),
        (lambda v: switches.SmallImprovement(v), "rtol"), (lambda v: schedules.L(v, 1.0), "start"),
        (lambda v: schedules.L(0.0, v), "end"), (lambda v: schedules.Perturbed(0.1, v), "factor"),
        (lambda v: schedules.Constant(v), "value"),
        (lambda v: penalties.Huber(v), "delta"), (lambda v: penalties.L1(v), "eps"),
        (lambda v: penalties.PNorm(v), "p"),
        (lambda v: st.CGD(r=v, curvature="difference"), "r"))),
    (lambda v: steps.Armijo(grow=v), "longest", "a finite number where grow is infinite", [inf]),
    (lambda v: st.CGD(curvature=v), "curvature", "one of exact, difference, bfgs, dfp; got", ["hess"]),
]  # fmt: skip


@pytest.mark.parametrize(("make", "name", "words", "values"), COUNTS, ids=[row[1] for row in COUNTS])
def test_the_parts_check_their_own_numbers(make, name, words, values):
    for bad in values:
        with pytest.raises((TypeError, ValueError), match=rf"^{name}: expected {words}") as caught:
            make(bad)
        assert repr(bad) in str(caught.value) or words.startswith("one more")
    with pytest.raises(ValueError, match=r"^T: not set"):
        schedules.L(0.0, 1.0)(0)


@given(some.integers(0, 10**6), some.integers(1, 5), some.integers(-3, 3), some.integers(-2, 2))
def test_a_right_gradient_is_taken_and_a_wrong_sign_or_component_refused(seed, n, scale, size):
    """Of aᵀx + ½xᵀQx + Σ sin xᵢ + ⅓Σ xᵢ³."""
    rng = np.random.default_rng(seed)
    a, q = 10.0**scale * rng.standard_normal(n), 10.0**scale * rng.standard_normal((n, n))
    x0 = 10.0**size * rng.standard_normal(n)

    def f(x):
        return float(a @ x + x @ q @ x / 2 + np.sin(x).sum() + (x**3).sum() / 3)

    def g(x):
        return a + (q + q.T) @ x / 2 + np.cos(x) + x**2

    for given_ in ({"fun": lambda x: (f(x), g(x)), "jac": True}, {"fun": f, "jac": g}):
        assert run(Bowl(), x0=x0, step=1e-9, check_gradient=True, **given_).nit == 3
    assume(np.linalg.norm(g(x0)) > 1e-3 * max(1.0, abs(f(x0))))
    said = r"has the wrong sign at x0: .* gives .* differences of fun give"
    off = np.linalg.norm(g(x0)) * (np.arange(n) == seed % n)
    for wrong, words in ((lambda x: -g(x), said), (lambda x: g(x) + off, f"{said}|disagrees with")):
        with pytest.raises(ValueError, match=f"^jac: it ({words})"):
            run(Bowl(), fun=f, jac=wrong, x0=x0, check_gradient=True)


def test_the_check_measures_each_variable_in_its_own_size():
    """An amplitude and a rate of decay: along one length for both, the rate would leave its curve."""
    t, start = np.linspace(0, 50, 200), np.array([1e5, 0.2])
    y = 2e5 * np.exp(-0.1 * t)

    def f(p):
        return ((p[0] * np.exp(-p[1] * t) - y) ** 2).sum()

    def g(p):
        e = np.exp(-p[1] * t)
        return np.array([2 * ((p[0] * e - y) * e).sum(), -2 * ((p[0] * e - y) * e * p[0] * t).sum()])

    assert st.minimize(f, start, jac=g, check_gradient=True).x == pytest.approx([2e5, 0.1])
    with pytest.raises(ValueError, match="jac: it has the wrong sign"):
        st.minimize(f, start, jac=lambda p: -g(p), check_gradient=True)


def test_the_check_says_which_rows_are_wrong():
    given_ = {"jac": lambda x: 2 * x * np.where(x[:, :1] > 2, -1, 1), "check_gradient": True}
    with pytest.raises(ValueError, match=r"^jac: (?s:.)*row 1 of the batch"):
        run(Bowl(), x0=np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 1.0]]), **given_)


def test_the_check_is_counted():
    bowl = Bowl()
    result = run(bowl, check_gradient=True)
    assert result.nfev + result.njev == bowl.calls
    assert (result.nfev, result.njev) == (4 + 6, 4)  # f and ∇f of the check are the first of the run
    for source in ("2-point", "3-point", "cs"):
        assert run(Bowl(), jac=source, check_gradient=True).nit == 3


NAMES = "x0 fun method jac hvp hess step lam penalty r b switch budget tol gtol ftol xtol callback trace"
GARBAGE = some.one_of(
    some.none(), some.booleans(), some.integers(-3, 3), some.floats(), some.complex_numbers(),
    some.text(max_size=5), some.binary(max_size=3), some.lists(some.floats(), max_size=3),
    some.builds(object), some.dictionaries(some.text(max_size=2), some.integers(), max_size=2),
    arrays.arrays(some.sampled_from(["f8", "c16", "?"]), arrays.array_shapes(min_dims=0, max_dims=2)),
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES.split())
@settings(max_examples=8)
@given(value=GARBAGE)
def test_garbage_works_or_is_refused_by_name(name, value):
    assume(not (name == "jac" and value is True))  # then fun is at fault
    bowl = Bowl()
    result = outcome(bowl, **{"method": "cgd-fd"} | {name: value})
    if not isinstance(result, st.Result):
        assert str(result).startswith("gtol:" if name == "tol" else f"{name}:")
        assert bowl.calls == 0
