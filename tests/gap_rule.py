"""GapSAM in Python's numbers, with every value that was told: a referee for torch's optimizer and optax's."""

import math


class Rule:
    """What GapSAM keeps and decides; who drives it brings losses, gradients' norms and the weights' norm."""

    def __init__(self, steps, every, strength, gate):
        self.steps, self.every, self.strength, self.gate = steps, every, strength, gate
        self.new, self.new_training = max(0.03, 10 / steps), min(max(0.03, 60 / steps), 0.5)
        self.told, self.gain, self.last, self.k, self.perturbed = {}, 1.0, math.nan, 0, 0

    def tell(self, name, value, weight):
        if math.isfinite(value):
            self.told.setdefault(name, []).append((value, weight))

    def mean(self, name):
        told = self.told.get(name, [])[::-1]
        weights = [(1 - weight) ** i for i, (_, weight) in enumerate(told)]
        total = sum(w * value for w, (value, _) in zip(weights, told, strict=True))
        return total / sum(weights) if told else math.nan

    def target(self):
        validation = self.mean("validation")
        gap = max(validation - self.mean("training"), 0.0)
        low, high = self.gate or (-2.0, -1.0)
        opening = min(max((gap / validation - low) / (high - low), 0.0), 1.0)
        return self.strength * min(self.k / (self.steps - 1), 1.0) * gap * opening

    def due(self):
        """Return whether this step may have an ascent step."""
        return self.k % self.every == 0 and self.k >= self.steps / 3

    def length(self, n, weights):
        """Return the length of the ascent step along a gradient of norm n, from weights of this norm."""
        before, target = self.mean("square"), self.target()
        length = self.gain * target / (n if math.isnan(before) else max(n, before**0.5))
        self.tell("square", n * n, 0.1)
        self.tell("bound", float(length > 0.1 * weights), self.new)
        length = min(length, 0.1 * weights)
        self.tell("length", length, self.new)
        self.tell("target", target, self.new)
        self.perturbed += 1
        return length

    def ended(self, loss, perturbed):
        """Take the loss of a step, at the weights or where an ascent step has brought them."""
        self.k += 1
        if not perturbed:
            self.tell("training", loss, self.new_training)
            self.last = loss
            return
        rise = loss - self.last
        self.tell("rise", rise, self.new)
        self.tell("rise_square", rise * rise, self.new)
        seen, square, target = (self.mean(name) for name in ("rise", "rise_square", "target"))
        scale = max(target, math.sqrt(self.new / 2 * max(square - seen * seen, 0.0)))
        move = max(-4.0, min((target - seen) / scale, 1.0)) if scale > 0 else 0.0
        self.gain = min(max(self.gain * math.exp(0.03 * move), 0.02), 100.0)
