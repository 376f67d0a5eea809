"""Slips of the paper: one list, for the page and for docs/paper.md."""

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
        "Section 3.1, Theorem 1",
        "f convex and L-smooth",
        "Also bounded below, which the proof uses: on f(x) = x, ∇f does not tend to 0.",
    ),
    (
        "Section 3.1, proof",
        "0 ⪯ H ⪯ LI ⇔ ‖H‖ ≤ L",
        "⇒ only: H = −LI has ‖H‖ = L. The proof needs no more than that.",
    ),
    (
        "Section 3.1, PL inequality",
        "holds for strictly convex functions over compact sets",
        "For strongly convex ones. x⁴ on [−1, 1] is strictly convex, and ½f′²/(f − f*) = 8x² has no positive "
        "lower bound.",
    ),
    (
        "Section 3.1, quadratics",
        "l(1+2λl)I ⪯ BₖQ ⪯ L(1+2λL)I ⇔ l(1+2λl) ≤ ‖BₖQ‖ ≤ L(1+2λL)",
        "⇒ only: diag(0, 1) has a norm between ½ and 1, and is not ⪰ ½I. The proof needs no more than that.",
    ),
    (
        "Section 3.1, error bound",
        "‖xₖ₊₁ − x*‖ ≤ ρᵏ ‖x₀ − x*‖",
        "ρᵏ⁺¹: that point is k + 1 steps away from x₀. As printed it is true, and loose by one factor.",
    ),
    (
        "Section 3.1, remark",
        "κ(B) > 0, hence κ > κ(Q)",
        "κ(B) > 1: a factor that is only positive need not raise κ. It holds for λ > 0 whenever Q has two "
        "different eigenvalues.",
    ),
    (
        "Section 3.2, r",
        "r arbitrarily small",
        "A number to be stated: with r → 0 no start in Levy's box gives Table 1's two numbers, with "
        "r = 0.01 some do.",
    ),
    (
        "Algorithm 2 (CGD-FD), inputs",
        "f, x₀, T, α, λ, b",
        "And r, which the listing uses and no experiment states.",
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
        "Section 5, cost of EGR",
        "it requires hessian evaluation for each mini-batch",
        "H·∇f is enough: one product, for about the cost of a gradient, or the difference of Section 3.2.",
    ),
    (
        "Section 5, the landscape",
        "the minima remain same",
        "The minima of f do, but g may have others: artificial points, and maxima and saddles of f.",
    ),
)
"""Where, what is printed, and what it should read."""
