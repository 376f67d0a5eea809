"""Pictures of sweeps: what they show is what the table holds."""

import itertools

import numpy as np
import pytest

import steepen as st

BOOTH, BRANIN = st.functions["booth"], st.functions["branin"]
LAM, STEP = np.geomspace(1e-3, 1, 7), np.geomspace(1e-4, 1, 9)


@pytest.fixture(scope="module")
def table():
    return st.sweep(BOOTH, 9, method="cgd", lam=LAM, step=STEP, budget=st.Budget(grads=20))


def test_the_map_shows_medians_and_hatches_what_diverges(table):
    table = table.copy()  # of the runs with one setting, half diverge
    table.loc[table.index[(table.step == STEP[0]) & (table.lam == LAM[0])][:4], "f"] = 1e9
    table = table.drop(table.index[(table.step == STEP[0]) & (table.lam == LAM[0])][8:])
    mesh = st.plot.settings_map(table, fmin=BOOTH.fmin).axes[0].collections[0]
    shown = mesh.get_array()
    for i, step in enumerate(STEP):
        for j, lam in enumerate(LAM):
            runs = table[(table.step == step) & (table.lam == lam)]
            over = np.mean(~(runs.f <= runs.f0)) >= 0.5
            assert shown.mask[i, j] == over
            if not over:
                assert shown[i, j] == np.median(runs.f - BOOTH.fmin)


def test_the_ring_is_the_best_pair_where_it_reaches_the_minimum():
    sphere = st.functions["sphere"].at(n=2)
    given = {"method": "cgd", "lam": [0.1, 0.0], "step": [0.3, 0.5], "budget": st.Budget(iters=1), "gtol": 0}
    figure = st.plot.settings_map(st.sweep(sphere, [[1.0, 1.0], [2.0, 2.0]], **given), fmin=0.0)
    (ring,) = [line for line in figure.axes[0].lines if line.get_label() == "best"]
    assert (*ring.get_xdata(), *ring.get_ydata()) == (0.0, 0.5)


def test_what_the_theorem_proves_safe_is_nowhere_hatched(table):
    axes = st.plot.settings_map(table, fmin=BOOTH.fmin, L=18.0).axes[0]  # eigenvalues 2 and 18
    lam, top = next(line for line in axes.lines if line.get_label().startswith("safe")).get_data()
    np.testing.assert_allclose(top, 2 / (18 * (1 + 36 * lam) ** 2))
    safe = STEP[:, None] < 2 / (18 * (1 + 36 * LAM) ** 2)
    assert 0 < safe.sum() < safe.size
    assert not axes.collections[0].get_array().mask[safe].any()


def test_a_map_has_the_rows_whose_settings_are_numbers():
    given = {"method": "cgd", "step": [0.01, 0.02], "budget": st.Budget(grads=9)}
    numbers = st.sweep(BOOTH, 3, lam=[0.1, 0.2], **given)
    mixed = st.sweep(BOOTH, 3, lam=[st.L(0.1, 0.2), 0.1, None, 0.2], **given)
    one, other = (st.plot.settings_map(t).axes[0].collections[0].get_array() for t in (numbers, mixed))
    assert one.shape == (2, 2)
    assert one.tolist() == other.tolist()


def test_a_map_of_negative_lam_has_no_line_of_the_theorem_and_labels_that_can_be_read():
    table = st.sweep(BOOTH, 3, method="cgd", lam=[-0.02, -0.01], step=[0.01, 0.02], budget=st.Budget(grads=9))
    figure = st.plot.settings_map(table, fmin=0.0, L=18.0)
    assert [line.get_label() for line in figure.axes[0].lines if line.get_linestyle() == "--"] == []
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].get_xticklabels() if text.get_text()]
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))


def test_a_run_that_fails_at_its_start_is_not_solved():
    def half(x):
        return np.where(x[..., 0] > 0, ((x - 0.3) ** 2).sum(axis=-1), np.inf)

    starts, budget = [[1.0, 1.0], [-1.0, 1.0], [-2.0, 2.0]], st.Budget(grads=20)
    given = {"method": "gd", "step": 0.4, "jac": lambda x: 2 * (x - 0.3), "at": [0, 20], "budget": budget}
    table = st.sweep(half, starts, **given)
    assert st.plot.profiles(table, fmin={"half": 0.0}).axes[0].lines[0].get_ydata().tolist() == [0, 1 / 3]


def test_profiles_count_runs():
    given = {"method": ["gd", "cgd-auto"], "step": [1e-4, 0.01], "at": [5, 20, 40]}
    table = st.sweep(["booth", "branin"], 20, **given, budget=st.Budget(grads=40))
    fmin = {"booth": BOOTH.fmin, "branin": BRANIN.fmin}
    drawn = st.plot.profiles(table, fmin=fmin, accuracy=0.01).axes[0].lines
    (line,) = [line for line in drawn if line.get_label() == "gd"]
    best = table[(table.method == "gd") & (table.step == 0.01)]  # on both
    for look, share in zip(*line.get_data(), strict=True):
        low = best.function.map(fmin).astype(float)
        assert share == np.mean(best[f"f_{look}"] - low <= 0.01 * (best.f0 - low))


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda t: st.plot.settings_map(t.assign(method=["gd", "cgd-fd", "cgd"] * (len(t) // 3))),
         "table: expected one method, got gd, cgd-fd, cgd; select one"),
        (lambda t: st.plot.settings_map(t.drop(columns="f0")), "table: expected a result of `sweep`"),
        (lambda t: st.plot.settings_map(t[9:]), "table: expected a full grid"),
        (lambda t: st.plot.settings_map(t.assign(switch=["After(2)", "Never()", "Never()"] * (len(t) // 3))),
         "table: expected one switch, got After(2), Never(); select one"),
        (lambda t: st.plot.settings_map(t[t.lam == LAM[0]]), "table: expected two or more numbers in lam"),
        (lambda t: st.plot.profiles(t.assign(f_5=t.f), fmin={"booth": None}), "fmin: expected a value"),
        (lambda t: st.plot.profiles(t), "table: expected columns f_5"),
        (lambda t: st.plot.profiles(t.assign(f_5=t.f), fmin={}), "fmin: expected a value for every"),
    ],
)  # fmt: skip
def test_wrong_tables_are_refused(table, draw, words):
    with pytest.raises((TypeError, ValueError)) as caught:
        draw(table)
    assert str(caught.value).startswith(words)
