"""`steepen.table1`: the printed settings, runs of two lines of NumPy, and wrong names."""

import numpy as np
import pytest

import steepen as st

PRINTED = {  # copied by hand from the paper: n, λ, α, GD, CGD-FD
    "quadratic": (10, 0.4, 0.01, 18.89, 97.91),
    "rotated-hyper-ellipsoid": (5, 0.5, 0.01, 15.94, 82.76),
    "levy": (2, st.L(0.01, 0.1), 0.05, 23.73, 63.21),
    "branin": (2, 0.07, 0.01, 37.53, 87.07),
    "griewank": (2, 40.0, 0.01, 0.01, 0.08),
    "matyas": (2, 10.0, 0.01, 1.83, 34.40),
}


def test_the_rows_have_what_the_paper_prints_and_name_what_it_does_not():
    rows = {name: (row.n, row.lam, row.alpha, row.gd, row.cgd_fd) for name, row in st.table1.items()}
    assert list(rows.items()) == list(PRINTED.items())
    assert {(row.T, row.b) for row in st.table1.values()} == {(40, 40 // 4)}
    assert all("x0" in row.recovered for row in st.table1.values())
    assert "function" in st.table1["quadratic"].recovered  # its matrix


@pytest.mark.parametrize("name", PRINTED)
def test_a_row_and_its_call_give_both_printed_percentages(name):
    row = st.table1[name]
    f, x = row.function, np.array(row.x0)
    lam = 0.01 if name == "levy" else row.lam  # L(0.01, 0.1) at the first step
    g, nu = f.grad(x), 2 * lam / row.r
    steps = {"gd": g, "cgd-fd": (1 - nu) * g + nu * f.grad(x + row.r * g)}
    for method, printed in (("gd", row.gd), ("cgd-fd", row.cgd_fd)):
        by_hand = f(x - row.alpha * steps[method])
        assert round(float((f(x) - by_hand) / f(x) * 100), 2) == printed
        res = st.minimize(**row.arguments(method))
        assert res.trace.f[1] == pytest.approx(by_hand, rel=1e-9)
        assert res.njev == row.T
        assert res.trace.penalised.sum() == (0 if method == "gd" else row.b + 1)


def test_where_any_r_will_do_any_gives_the_same_first_step():
    for row in st.table1.values():
        first = [
            st.minimize(**row.arguments() | {"r": r, "budget": st.Budget(iters=1)}).fun for r in (0.01, 1.0)
        ]
        assert (first[0] == pytest.approx(first[1], rel=1e-9)) is ("r" not in row.recovered)


def test_wrong_names_are_answered_and_rows_cannot_be_changed():
    with pytest.raises(KeyError, match=r"no row 'brannin'; did you mean 'branin'\?"):
        st.table1["brannin"]
    with pytest.raises(ValueError, match="method: 'cgd' is not known; did you mean"):
        st.table1["branin"].arguments("cgd")
    with pytest.raises(AttributeError):
        st.table1["branin"].alpha = 0.1
