"""Lemma 1, against the Levy function written in mpmath and the pit's closed form."""

import mpmath
import numpy as np
import pytest
from benchmarks.references.functions import REFERENCES

ITEM = "lemma1"


def levy(x):
    return REFERENCES["levy"]([x])


def penalised(x):
    return levy(x) + mpmath.mpf("0.2") * mpmath.diff(levy, x) ** 2


@pytest.mark.bits  # at the ring p vanishes, and its last bit says whether the guard fires
def test_what_fails_in_general_is_a_limit(outcome):
    (limit,) = [claim for claim in outcome.claims if claim.known]
    assert "before the point" in limit.text
    assert (limit.basis, limit.paper) == (
        "ours",
        "",
    )  # the paper says that the check helps, not that it always does
    assert not limit.agrees
    assert limit.ours.startswith("artificial")


def test_every_point_against_mpmath(outcome):
    rows = outcome.tables["lemma1"].rows
    kinds = [row[5] for row in rows]
    assert {kind: kinds.count(kind) for kind in kinds} == {"artificial": 11, "minimum": 6, "maximum": 5}
    for x, f, df, d2f, _, to_f, to_g in rows:
        first, second = (float(mpmath.diff(levy, x, n)) for n in (1, 2))
        assert f == pytest.approx(float(levy(mpmath.mpf(x))), abs=1e-12)
        assert (df, d2f) == pytest.approx((first, second), abs=1e-9)
        assert float(mpmath.diff(penalised, x)) == pytest.approx(0, abs=1e-6)
        bend = float(mpmath.diff(penalised, x, 2))
        assert to_g == ("minimum" if bend > 0 else "maximum")
        if to_f == "artificial":
            assert abs(first) > 0.01
            assert second == pytest.approx(-2.5, abs=1e-9)
        else:
            assert first == pytest.approx(0, abs=1e-9)
            assert to_f == ("minimum" if second > 0 else "maximum")
    by_place = {round(row[0], 1): row[5:] for row in rows}  # those that the paper names
    assert by_place[-6.5] == by_place[-7.6] == ("artificial", "maximum")
    assert by_place[-8.1] == ("maximum", "minimum")


def radial(s):
    """First and second derivative of s²/10 + tanh(s²/2 − 2)."""
    sech2 = 1 / np.cosh(s * s / 2 - 2) ** 2
    return s / 5 + s * sech2, 0.2 + sech2 - 2 * s * s * sech2 * np.tanh(s * s / 2 - 2)


@pytest.mark.bits  # at the ring p vanishes, and its last bit says whether the guard fires
def test_the_ring_in_the_plane(outcome):
    ends = {(row[0], row[1]): row for row in outcome.tables["lemma1-pit"].rows}
    stayed = {("GD on g", "outside"): 0.3, ("GD on g", "inside"): 0.3, ("CGD", "outside"): 0.3}
    for case, lam in {**stayed, ("CGD, λ/2", "where CGD stayed"): 0.15}.items():
        _, _, size, _, slope, kind = ends[case]
        first, second = radial(size)
        assert second == pytest.approx(-1 / (2 * lam), abs=1e-4)
        assert (slope, kind) == (pytest.approx(first, rel=1e-6), "artificial")
    for case in (("CGD", "inside"), ("CGD, λ/4", "where CGD stayed")):
        assert ends[case][2] < 1e-5
        assert (ends[case][3], ends[case][5]) == (pytest.approx(np.tanh(-2.0)), "minimum")
    for ax in outcome.pictures["lemma1"].figure.axes:
        ring = np.linalg.norm(ax.lines[-1].get_xydata(), axis=1)
        assert radial(ring)[1] == pytest.approx(np.full(len(ring), -1 / 0.6), abs=1e-9)
