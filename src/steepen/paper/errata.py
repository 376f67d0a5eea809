"""Slips of the paper, one list for the page and the documents."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ERRATA"]

ERRATA: Sequence[tuple[str, str, str]] = (
    (
        "Section 3, the penalty",
        "stationary points intact",
        "Those of f stay stationary, but g may have more (the paper's own Lemma 1), and maxima and saddles "
        "of f may become minima of g.",
    ),
    (
        "Section 3, the guard",
        "the check also helps to avoid stopping at artificial points",
        "It helps on the side where −∇g climbs f. On the other side short steps creep up to the point, and "
        "the guard never fires; another λ, or none, then leads on.",
    ),
    (
        "Section 3.1, Theorem 1",
        "f convex and L-smooth",
        "Also bounded below, which the proof uses: on f(x) = x, ∇f does not tend to 0.",
    ),
    (
        "Section 3.1, remark",
        "κ(B) > 0, hence κ > κ(Q)",
        "κ(B) > 1: a factor that is only positive need not raise κ. It holds for λ > 0 whenever Q has two "
        "different eigenvalues.",
    ),
    (
        "Section 3.1, error bound",
        "‖xₖ₊₁ − x*‖ ≤ ρᵏ ‖x₀ − x*‖",
        "ρᵏ⁺¹: that point is k + 1 steps away from x₀. As printed it is true, and loose by one factor.",
    ),
    (
        "Algorithm 2 (CGD-FD), ν",
        "ν ← 2λ/r, once, before the loop",
        "νₖ = 2λₖ/r in every iteration: Levy's λ in Table 1 is the rising schedule L(0.01, 0.1).",
    ),
    (
        "Algorithm 2 (CGD-FD), budget",
        "stop if c = T",
        "c grows by 2 and can jump over an odd T. Here a step is taken only if c + its cost ≤ T.",
    ),
    (
        "Algorithm 2 (CGD-FD), switch",
        "b penalised iterations (the text)",
        "b + 1: the listing tests k ≥ b after the step. The listing is followed here.",
    ),
    (
        "Algorithm 3 (CGD-QN), update",
        "a positive definite approximation is maintained",
        "Only if yᵀs > 0, for which the listing has no test. Here a pair without it is left out.",
    ),
    (
        "Section 5, the landscape",
        "the minima remain the same",
        "The minima of f do, but g may have others: artificial points, and maxima and saddles of f.",
    ),
    (
        "Section 5, the guard as a cure",
        "−∇g should be a descent direction of f",
        "That keeps runs from the maxima of f. It does not keep them from saddles, where one coordinate can "
        "fall while another climbs, nor from artificial points.",
    ),
)
"""Slips of the paper: where, what is printed, and what it should read."""
