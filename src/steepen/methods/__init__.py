"""Methods: directions p_k from ∇f_k, λ_k and, for CGD, one H·v. A method is a file here, and a line below."""

from .auto import CGDAuto
from .cgd import CGD
from .method import Method, Proposal
from .newton import Newton
from .quasi_newton import BFGS, DFP
from .steepest import GD

__all__ = ["BFGS", "CGD", "DFP", "GD", "METHODS", "CGDAuto", "Method", "Newton", "Proposal"]

METHODS: dict[str, Method] = {
    "gd": GD(),
    "newton": Newton(),
    "bfgs": BFGS(),
    "dfp": DFP(),
    "cgd": CGD(),
    "cgd-fd": CGD(curvature="difference"),
    "cgd-bfgs": CGD(curvature="bfgs"),
    "cgd-dfp": CGD(curvature="dfp"),
    "cgd-auto": CGDAuto(),
}
"""The methods by name."""
