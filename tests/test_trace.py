"""A trace in other forms, and what it costs."""

import tracemalloc

import numpy as np
import pytest

import steepen as st

from .calls import cgd, traced

COLUMNS = ["k", "f", "gnorm", "lam", "step", "penalised", "guarded", "nfev", "njev", "nhvp"]
ROWS = np.array([[1.0, -2.0], [0.0, 1e-9], [0.1, 0.1]])
"""The second has converged at the start."""


def test_a_trace_becomes_a_data_frame_and_that_of_a_batch_a_long_one():
    pytest.importorskip("pandas")
    batch = traced(ROWS, gtol=1e-6, trace="x", budget=st.Budget(iters=20))
    long = batch.to_pandas()
    assert list(long.columns) == ["row", *COLUMNS, "x0", "x1"]
    assert long.groupby("row").size().tolist() == [21, 1, 21]
    rows = [(group.drop(columns="row"), batch.row(b)) for b, (_, group) in enumerate(long.groupby("row"))]
    for frame, trace in ((traced(trace="x").to_pandas(), traced(trace="x")), *rows):
        assert list(frame.columns) == [*COLUMNS, "x0", "x1"]
        for name in COLUMNS:
            np.testing.assert_array_equal(frame[name].to_numpy(), getattr(trace, name))
        np.testing.assert_array_equal(frame[["x0", "x1"]].to_numpy(), trace.x)
    assert list(traced().to_pandas().columns) == COLUMNS


def test_the_text_of_a_result():
    result = cgd()
    lines = dict(line.strip().split(": ", 1) for line in repr(result).splitlines())
    assert list(lines) == [
        "x", "fun", "jac", "success", "status", "message", "nit", "nfev", "njev", "nhev", "nhvp",
        "hvp_source", "method", "seconds",
    ]  # fmt: skip
    assert (lines["status"], lines["nit"]) == ("MAX_ITERATIONS", "12")
    assert (lines["message"], lines["fun"]) == (result.message, str(result.fun))
    assert "MAX_ITERATIONS" in str(result) == repr(result)
    assert "cgd" in repr(cgd(np.ones((3, 2))))


def test_the_trace_can_be_left_out():
    full, without = cgd(), cgd(trace=False)
    assert without.trace is None
    assert (full.x.tolist(), full.best.k) == (without.x.tolist(), without.best.k)


def peak(x0, iterations, trace):
    tracemalloc.start()
    try:
        st.minimize(
            lambda x: (x * x).sum(axis=-1), x0, jac=lambda x: 2 * x, method="gd", step=1e-9, gtol=0.0,
            trace=trace, budget=st.Budget(iters=iterations - 1),
        )  # fmt: skip
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("shape", "iterations"),
    [((1000,), 500), ((100, 10), 500), pytest.param((2,), 20_000, marks=pytest.mark.slow)],
    ids=str,
)
def test_a_trace_of_x_costs_at_most_twice_its_own_bytes_and_headers_of_arrays(shape, iterations):
    x0 = np.ones(shape)
    peak(x0, 10, "x")  # what is loaded on first use
    rows = shape[0] if len(shape) == 2 else 1
    most = (2 * x0.nbytes + 128 * rows) * iterations
    assert peak(x0, iterations, "x") - peak(x0, iterations, True) <= most
