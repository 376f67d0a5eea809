"""Steepest descent, p = −∇f."""

from __future__ import annotations

from dataclasses import dataclass

from ..problem import Problem
from ..questions import Point, Vector
from .method import Method


@dataclass
class GD(Method):
    """Steepest descent, p = −∇f.

    Examples
    --------
    >>> import steepen as st
    >>> res = st.minimize(lambda x: x @ x, [3.0, 4.0], method=st.GD(), jac=lambda x: 2 * x, step=0.25)
    >>> res.success
    True
    """

    name = "gd"
    steepest = True

    def direction(self, problem: Problem, here: Point) -> Vector:
        return -here.g
