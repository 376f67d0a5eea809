"""A smooth function in plain operators, so that one text serves every library: ¼Σx⁴ + ½Σw x² + x₀x₁x₂."""

import numpy as np

import steepen as st

ONE = np.array([-1.2, 1.0, 0.3])
MANY = np.array([[-1.2, 1.0, 0.3], [0.5, 0.4, -0.2], [1.5, 0.2, 1.0]])
STARTS = {"one": ONE, "many": MANY}
W = (1.0, 3.0, 2.0)
COUNTS = ("nit", "nfev", "njev", "nhvp", "nhev")


def f(x):
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    quartic = (a * a * a * a + b * b * b * b + c * c * c * c) / 4
    return quartic + (W[0] * a * a + W[1] * b * b + W[2] * c * c) / 2 + a * b * c


def parts(x):
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    return a * a * a + W[0] * a + b * c, b * b * b + W[1] * b + a * c, c * c * c + W[2] * c + a * b


def g(x):
    return np.stack(parts(x), axis=-1)


def hess(x):
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    rows = [[3 * a * a + W[0], c, b], [c, 3 * b * b + W[1], a], [b, a, 3 * c * c + W[2]]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def hvp(x, v):
    return (hess(x) @ v[..., None])[..., 0]


def run(x0=ONE, fun=f, **given):
    base = {"jac": g, "method": "cgd", "step": 0.05, "budget": st.Budget(iters=8), "gtol": 0.0}
    options = base | given
    if options["method"] == "cgd-fd":
        options.setdefault("r", 1e-3)  # so that the precision of the library does not choose it
    return st.minimize(fun, x0, **options)


def check(result, expected, kind, dtype, rtol):
    """Hold a run on arrays of another library against the NumPy run: types, counts and values."""
    for vector in (result.x, result.jac, result.best.x):
        assert isinstance(vector, kind)
        assert vector.dtype == dtype
    np.testing.assert_allclose(np.asarray(result.x), expected.x, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(np.asarray(result.jac), expected.jac, rtol=rtol, atol=10 * rtol)
    np.testing.assert_allclose(result.fun, expected.fun, rtol=rtol, atol=rtol)
    for name in (*COUNTS, "status"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name), err_msg=name)
    for (name, a), (_, b) in zip(result.trace.columns(), expected.trace.columns(), strict=True):
        assert isinstance(a, np.ndarray)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=10 * rtol, err_msg=name)


def check_autodiff_from_numpy(library, dtype, rows, method):
    """Hold that derivatives by a library, of a run on NumPy's arrays, are exact and keep the precision."""
    x0, dtypes = STARTS[rows].astype(dtype), set()
    fun = lambda x: dtypes.add(str(x.dtype).removeprefix("torch.")) or f(x)  # noqa: E731
    result = run(x0, fun, jac=library, method=method, trace="x")
    second = {"hess": hess} if method == "newton" else {"hvp": hvp}
    expected = run(x0, method=method, trace="x", **second)
    check(result, expected, np.ndarray, dtype, 1e-12 if dtype == np.float64 else 1e-4)
    assert dtypes == {np.dtype(dtype).name}
    assert result.hvp_source == (None if method == "bfgs" else library)


def check_what_autodiff_takes_from_the_user(library):
    """Hold that what the user gives goes before autodiff, and that it takes `args` and fixed variables."""
    result = run(jac=library, hvp=hvp, lam=0.01)
    assert (result.hvp_source, result.nhvp) == ("hvp", 8)
    result = run(fun=lambda x, a: a * f(x), jac=library, args=(2.0,))
    doubled = {"jac": lambda x: 2 * g(x), "hvp": lambda x, v: 2 * hvp(x, v)}
    np.testing.assert_allclose(result.x, run(fun=lambda x: 2 * f(x), **doubled).x, rtol=1e-12)
    result = st.minimize(f, ONE, jac=library, bounds=[(-1.2, -1.2), (None, None), (None, None)])
    np.testing.assert_allclose(result.jac, g(result.x), rtol=1e-12)  # given back whole
