"""cgd-auto: CGD without α, λ or r. Every unit step of it is a CGD step, whose probe was the last iterate.

In a metric G, let s = −Gg be the step from x, and y the change that it made to the gradient. The BFGS step
that follows ends at

    x − α(Gg + 2λ·G·H̄·Gg),   λ = −½·sᵀy/(sᵀy + yᵀGy),   α = (gᵀGg/sᵀy)(1 + yᵀGy/sᵀy),

with H̄ the mean Hessian between the two points. That is the CGD direction at x in the metric G, with α and λ
from the curvature just seen. The probe was a step too: an iteration costs one gradient, CGD-FD pays two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._core.arrays import Array, Kit, Mask, Scalar
from .._tools.check import whole
from ._direction import Context, Direction, Memory
from ._pairs import Pairs

MOST, PLACES = 200, 10_000_000
"""The memory holds MOST pairs, or fewer where they would have more than PLACES numbers."""

GROWTH = 10.0
"""A step is at most so many times the longest one before it."""

BOOST, BOLD = 2.0, 1024.0
"""Where f bends down the next step is BOOST times as long; after BOLD, the boost itself grows BOLD-fold."""

FAINT = 0.01
"""A first step that changes the slope by less tells no scale: the next is GROWTH times as long."""

NOISE = 1e4
"""The third-order term of y is used where sᵀy is more than so many roundings of f."""

START, CAREFUL = 1.0, 1e-3
"""The length of a trial along −∇f: at the start, and after searches that found nothing."""

LEAST = 1e-3
"""In the metric of the sizes of the variables, one that is zero is taken to have this part of the largest."""

DOWNHILL = 50.0
"""−∇fᵀp must be more than so many roundings of ‖∇f‖‖p‖; else the metric has lost its meaning."""

FLAT = 1e-6
"""A curvature counts as negative from this part of ‖Hv‖ on; less may be rounding."""

CORNERS = 3
"""How often a step is made again because more variables would leave their bounds."""

LOOKS = 20
"""So many products H·v are spent on finding a way down from a start where the gradient vanishes."""


@dataclass(frozen=True)
class CGDAuto(Direction):
    """CGD that needs no α, λ or r: a BFGS method whose every unit step is a CGD step.

    It keeps pairs of steps and gradient changes, mutually conjugate as long as one quadratic explains them,
    in a diagonal metric that follows the scales of the variables. In the trace, `lam` and `step` are the λ
    and α of the CGD step, in the metric before it, that the step amounts to; or would, without its bounds.

    Parameters
    ----------
    memory : int, optional
        The most pairs to keep: 2·memory·n numbers. By default 200, fewer from n = 50 000 on, and 10 at least.
        More than 2n + 8 are never kept; they would say nothing new.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["rosenbrock"].at(n=2)
    >>> res = st.minimize(f, [-1.2, 1.0], method=st.CGDAuto(memory=20))
    >>> res.status.name, bool(res.njev < 60)
    ('CONVERGED', True)
    """

    memory: int | None = None

    name = "cgd-auto"
    unit = True
    inverts = True

    def __post_init__(self) -> None:
        if self.memory is not None:
            whole("memory", self.memory, 1)

    def start(self, x: Array, kit: Kit) -> Memory:
        """Give the memory of a new run: nothing is known until the first gradient."""
        zero = kit.norm(x) * 0
        # of the last point: x, f, ∇f; of the last step: its length, ∇fᵀp and ‖p‖ of the unit step, sᵀy
        last = {"x": x, "f": zero, "g": x, "before": x, "slope": zero, "unit": zero, "t": zero, "sy": zero}
        now = {"boost": zero + 1, "longest": zero, "tries": zero, "paired": zero, "scale": zero, "way": x * 0}
        step = {"factor": zero, "alpha": zero, "lam": zero}
        return Pairs.start(x, kit) | last | now | step | {"begun": 0}

    def learn(self, context: Context, x: Array, f: Scalar, g: Array, memory: Memory) -> None:
        """Take in the step that led to x."""
        kit = context.kit
        first = not memory["begun"]
        if first:
            # a power of two keeps products of gradients in range, and every digit
            size = kit.norm(g)
            size = kit.pick(size > 0, np.clip(size, 1e-300, 1e300), 1.0)
            memory["scale"] = 2.0 ** -np.round(np.log2(size))
        g = kit.times(memory["scale"], g)
        f = kit.scalar(f * memory["scale"])
        if first:
            memory["begun"], memory["x"], memory["g"] = 1, x, g
            self._restart(context, memory["scale"] > 0, START, memory)
        s, y = x - memory["x"], g - memory["g"]
        length = kit.norm(s)
        moved = length > 0
        useful = moved & False
        if kit.any(moved):
            y = self._third_order(context, s, y, length, f, g, memory)
            memory["sy"] = sy = kit.dot(s, y)
            faint = (memory["paired"] == 0) & (sy > 0) & (sy < -FAINT * kit.dot(memory["g"], s))
            useful = Pairs(memory, kit).add(s, y, kit.pick(faint, 0.0, sy), length, self._most(x))
            boost = memory["boost"]
            if not kit.all(useful):
                bolder = boost * kit.pick(faint, GROWTH, kit.pick(boost < BOLD, BOOST, BOLD))
                boost = kit.pick(moved & ((sy <= 0) | faint), bolder, boost)
            memory["boost"], memory["paired"] = kit.pick(useful, 1.0, boost), memory["paired"] + useful
            memory["longest"] = np.maximum(memory["longest"], length)
            memory["tries"] = kit.pick(useful, 0, memory["tries"])
        # without a new pair the step to come is a plain one in the same metric
        known = useful & (memory["unit"] > 0)
        memory["t"] = kit.pick(known, length / kit.pick(known, memory["unit"], 1.0), 0.0)
        memory["x"], memory["f"], memory["before"], memory["g"] = x, f, memory["g"], g

    def propose(
        self, context: Context, k: int, x: Array, g: Array, on: Mask, memory: Memory
    ) -> tuple[Array, Scalar]:
        """Give −G·∇f, longer where f bent down, and not much longer than any step before."""
        kit, g = context.kit, memory["g"]
        p, slope = self._downhill(context, x, g, memory)
        length = kit.norm(p)
        lost = kit.negate(slope < -DOWNHILL * context.eps * kit.norm(context.free(x, g, g)) * length)
        if kit.any(lost):
            self._restart(context, lost, START, memory)
            p, slope = self._downhill(context, x, g, memory)
            length = kit.norm(p)
        self._amount(kit, p, memory)
        memory["slope"], memory["unit"] = slope, length
        room = kit.pick(memory["longest"] > 0, GROWTH * memory["longest"], np.inf)
        memory["factor"] = np.minimum(memory["boost"], room / kit.pick(length > 0, length, 1.0))
        p = kit.scaled(memory["factor"], p)
        if k == 0 and kit.any(leaving := kit.norm(memory["way"]) > 0):
            p = kit.where(leaving, kit.times(self._first(context, x), memory["way"]), p)
        return p, 0.0

    @staticmethod
    def _downhill(context: Context, x: Array, g: Array, memory: Memory) -> tuple[Array, Scalar]:
        """Give −G·∇f and its slope. With bounds, what they hold stays, and what would leave goes to them.

        The other variables are then chosen for where those really end: a path that bends at a bound would
        take them elsewhere.
        """
        kit, box = context.kit, context.box
        pairs = Pairs(memory, kit)
        if box is None:
            p = -pairs.apply(g)
            return p, kit.dot(g, p)
        held: Array = box.held(x, g)
        free = box.free(x, g, g)
        p = -pairs.apply(free, held)
        slope = kit.dot(free, p)
        out: Array
        out, ends = box.within(x, p)
        for _ in range(CORNERS):
            if not bool(out.any()):
                break
            shorter = -pairs.apply(free, held | out, -kit.xp.where(out, ends, kit.xp.zeros_like(p)))
            falls = kit.dot(free, shorter)
            better = falls < 0
            p, slope = kit.where(better, shorter, p), kit.pick(better, falls, slope)
            more, reach = box.within(x, p)
            ends, out = kit.xp.where(out, ends, reach), out | more
            if not bool(more.any()):
                break
        return p, slope

    def _amount(self, kit: Kit, p: Array, memory: Memory) -> None:
        """Note the α and λ of the CGD step that the unit step amounts to, for `amounts`."""
        t, omega, sy = memory["t"], -memory["slope"], memory["sy"]
        paired = t > 0
        alpha = kit.pick(paired, 1 + t - kit.ratio(kit.dot(memory["before"], p), omega), 1.0)
        memory["alpha"] = alpha
        memory["lam"] = kit.pick(paired, kit.ratio(-0.5 * t * t * omega, alpha * sy), 0.0)

    def amounts(self, alpha: Scalar, lam: Scalar, memory: Memory) -> tuple[Scalar, Scalar]:
        """Give the α and λ of the CGD step, from the point before, that ends where this step does."""
        t = alpha * memory["factor"]
        whole_step = t * memory["alpha"]
        both = whole_step + (1 - t) * memory["t"]
        return both, whole_step * memory["lam"] / np.where(both == 0, 1.0, both)

    def recover(self, context: Context, x: Array, stuck: Mask, memory: Memory) -> Mask:
        """After a search that found nothing, begin again: in the metric of x, and then along −∇f."""
        kit, tries = context.kit, memory["tries"]
        scaled = stuck & (tries == 0)
        if kit.any(scaled):
            scaled = self._rescale(context, x, scaled, memory)
        careful = kit.without(stuck & (tries < 2), scaled)
        if kit.any(careful):
            self._restart(context, careful, CAREFUL, memory)
        memory["tries"] = kit.pick(stuck, kit.pick(scaled, 1, 2), tries)
        return scaled | careful

    def inverse(self, kit: Kit, x: Array, g: Array, memory: Memory) -> Callable[[Array], Array]:
        """Return v ↦ G·v, the last step included."""
        pairs, scale = Pairs(memory, kit), memory["scale"]
        if not memory["begun"]:  # the run ended where it began
            return pairs.apply
        s, y = x - memory["x"], kit.times(scale, g) - memory["g"]
        pairs.add(s, y, kit.dot(s, y), kit.norm(s), self._most(x))
        return lambda v: kit.times(scale, pairs.apply(v))  # the pairs are those of scale·f

    def leave(self, context: Context, x: Array, g: Array, still: Mask, memory: Memory) -> Mask:
        """Look for a way down from a start without a gradient: a direction in which f bends down.

        Lanczos' method leads to the most negative curvature, for one gradient an iteration.
        """
        kit = context.kit
        v = kit.own(x * 0 + kit.own(np.random.default_rng(0).standard_normal(int(x.shape[-1]))))
        found, way = kit.negate(still == still), v
        basis: list[Array] = []
        T = np.zeros((*np.shape(kit.norm(x)), LOOKS, LOOKS))
        for i in range(LOOKS):
            v = context.free(x, g, v)
            for u in basis + basis:  # twice, against rounding
                v = v - kit.times(kit.dot(u, v), u)
            size = kit.norm(v)
            still = still & (size > FLAT * np.abs(T).max(axis=(-2, -1)) if i else size > 0) & (size < np.inf)
            todo = kit.without(still, found) & context.affords(context.oracle.cost_probe)
            if not kit.any(todo) or context.late():
                break
            basis.append(kit.times(1 / kit.pick(size > 0, size, 1.0), v))
            v, _ = self._bend(context, x, g, basis[i], todo)
            for j, u in enumerate(basis):
                T[..., i, j] = T[..., j, i] = np.where(todo, kit.dot(u, v), 0.0)
            values, vectors = np.linalg.eigh(T[..., : i + 1, : i + 1])
            down = todo & (values[..., 0] < -FLAT * np.abs(values).max(axis=-1))
            best = sum(kit.times(vectors[..., j, 0], u) for j, u in enumerate(basis))
            found, way = found | down, kit.where(down, best, way)
        v = way
        v = kit.times(kit.pick(kit.dot(g, v) > 0, -1.0, 1.0), v)
        if context.box is not None and kit.any(found):
            v, found = self._into_the_box(context, x, g, v, found)
        memory["way"] = kit.where(found, v, kit.xp.zeros_like(v))
        return found

    def _into_the_box(
        self, context: Context, x: Array, g: Array, v: Array, found: Mask
    ) -> tuple[Array, Mask]:
        """Take what is left of v or of −v inside the box, and see whether f still bends down there."""
        kit, box = context.kit, context.box
        assert box is not None
        ahead, back = box.measure(x, -v), box.measure(x, v)
        v = kit.where(kit.norm(ahead) >= kit.norm(back), ahead, back)
        found = found & (kit.norm(v) > 0) & context.affords(context.oracle.cost_probe)
        if not kit.any(found):
            return v, found
        size = kit.norm(v)
        v = kit.times(1 / kit.pick(size > 0, size, 1.0), v)
        bend, along = self._bend(context, x, g, v, found)
        return v, found & (along < -FLAT * kit.norm(bend))

    @staticmethod
    def _bend(context: Context, x: Array, g: Array, v: Array, rows: Mask) -> tuple[Array, Scalar]:
        """Give H·v and vᵀHv by a probe."""
        kit, oracle = context.kit, context.oracle
        r = oracle.probe_length(x, v)
        bend = kit.times(kit.ratio(1.0, r), oracle.change(x, v, g, r, None if kit.size is None else rows))
        return context.free(x, g, bend), kit.dot(v, bend)

    # --- parts -----------------------------------------------------------------------------------

    def _most(self, x: Array) -> int:
        n = int(x.shape[-1])
        most = min(MOST, max(10, PLACES // n)) if self.memory is None else self.memory
        return min(most, 2 * n + 8)

    @staticmethod
    def _first(context: Context, x: Array) -> Scalar:
        """Give the length of a first trial: 1, but not lost in the rounding of x."""
        return np.maximum(1.0, np.sqrt(context.eps) * context.kit.norm(x))

    def _restart(self, context: Context, rows: Mask, length: float, memory: Memory) -> None:
        """Forget all that was learnt in these rows, and let their next trial be along −∇f."""
        kit, x = context.kit, memory["x"]
        g = context.free(x, memory["g"], memory["g"])
        Pairs(memory, kit).clear(rows)
        size = kit.norm(g)
        gamma = length * self._first(context, x) / kit.pick(size > 0, size, 1.0)
        for name, value in (("gamma", gamma), ("longest", 0.0), ("boost", 1.0), ("t", 0.0), ("paired", 0)):
            memory[name] = kit.pick(rows, value, memory[name])

    def _rescale(self, context: Context, x: Array, rows: Mask, memory: Memory) -> Mask:
        """Begin again with D the squared sizes of the variables; a CGD probe gives the length of the step.

        The pairs may know the stiff variables alone, and hold the others still. Sizes are a guess at scales.
        """
        kit, g = context.kit, context.free(x, memory["g"], memory["g"])
        rows = rows & (kit.norm(g) > 0) & context.affords(context.oracle.cost_probe)
        if not kit.any(rows):
            return rows
        top = kit.norm(x)
        top = kit.pick(top > 0, top, 1.0)
        size = kit.times(1 / top, abs(x))
        size = kit.xp.where(size > 0, size, size * 0 + LEAST)
        v = size * size * g
        r = context.oracle.probe_length(x, v) * np.minimum(1.0, top)
        unscaled = kit.times(1 / memory["scale"], memory["g"])
        bend = context.oracle.change(x, v, unscaled, r, None if kit.size is None else rows)
        along = kit.dot(v, kit.times(kit.ratio(memory["scale"], r), bend))
        slope = kit.dot(v, g)
        rows = rows & (along > 0) & (along < np.inf)
        self._restart(context, rows, START, memory)
        for name in ("D", "D_used"):
            memory[name] = kit.where(rows, size * size, memory[name])
        memory["gamma"] = kit.pick(rows, slope / kit.pick(rows, along, 1.0), memory["gamma"])
        return rows

    @staticmethod
    def _third_order(
        context: Context, s: Array, y: Array, length: Scalar, f: Scalar, g: Array, memory: Memory
    ) -> Array:
        """Correct y for the third derivative along s, which the values of f give away.

        With the cubic through both values and slopes, sᵀy becomes the curvature at the new point and not
        the mean over the step (Zhang, Deng and Chen, 1999).
        """
        kit = context.kit
        third = 6 * (memory["f"] - f) + 3 * kit.dot(memory["g"] + g, s)
        sy = kit.dot(s, y)
        sound = (sy > NOISE * context.eps * abs(f)) & (abs(third) < sy)
        share = kit.pick(sound, third, 0.0) / kit.pick(sound, length, 1.0)
        return y + kit.times(share / kit.pick(sound, length, 1.0), s) if kit.any(sound) else y
