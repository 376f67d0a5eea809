"""The module as a mapping from name to function."""

from collections.abc import Mapping

import pytest

import steepen as st
from steepen.functions import Function, functions

SFU = {
    "many local minima": "ackley bukin-6 cross-in-tray drop-wave eggholder gramacy-lee griewank "
    "holder-table langermann levy levy-13 rastrigin schaffer-2 schaffer-4 schwefel shubert",
    "bowl-shaped": "bohachevsky-1 bohachevsky-2 bohachevsky-3 perm-0 rotated-hyper-ellipsoid "
    "sphere sum-of-different-powers sum-squares trid",
    "plate-shaped": "booth matyas mccormick power-sum zakharov",
    "valley-shaped": "three-hump-camel six-hump-camel dixon-price rosenbrock",
    "steep ridges/drops": "dejong-5 easom michalewicz",
    "other": "beale branin colville forrester goldstein-price hartmann-3 hartmann-4 hartmann-6 "
    "perm-d powell shekel styblinski-tang",
}


def test_covers_the_sfu_library_and_adds_the_quadratic():
    listed = {name: group for group, names in SFU.items() for name in names.split()}
    assert len(listed) - 2 == 47  # the three Bohachevsky functions share a page
    assert {name: functions[name].group for name in functions} == {
        **listed,
        "quadratic": "bowl-shaped",
    }
    assert len(functions) == len(listed) + 1


def test_is_the_module_and_a_mapping():
    import steepen.functions

    assert st.functions is steepen.functions is functions
    assert isinstance(functions, Mapping)
    assert {functions: 1}[functions] == 1
    assert functions == functions
    assert functions != {}


def test_mapping_protocol():
    names = list(st.functions)
    assert len(names) == len(set(names)) == len(st.functions)
    assert all(isinstance(st.functions[name], Function) for name in names)
    assert all(st.functions[name].name == name for name in names)
    assert list(st.functions.keys()) == names
    assert dict(st.functions.items()) == dict(zip(names, st.functions.values(), strict=True))
    assert "levy" in st.functions
    assert "levi" not in st.functions
    assert st.functions.get("levi") is None


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("Branin", "branin"),
        ("hartman-3", "hartmann-3"),
        ("six_hump_camel", "six-hump-camel"),
        ("rosenbrok", "rosenbrock"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(wrong: str, meant: str):
    with pytest.raises(KeyError, match=meant):
        st.functions[wrong]


def test_a_name_near_nothing_is_refused_too():
    with pytest.raises(KeyError, match="no name is near"):
        st.functions["0123456789"]


def test_titles_are_distinct():
    assert len({f.title for f in functions.values()}) == len(functions)
