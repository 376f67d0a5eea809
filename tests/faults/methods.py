"""Faults of the methods, and of what else a call of `minimize` is made of."""

from . import Fault

LISTINGS = "tests/directions/test_listings.py"
CGD = f"{LISTINGS} tests/test_switches.py tests/test_schedules.py tests/directions/test_direction.py"
QUASI_NEWTON = f"{LISTINGS} tests/test_scipy.py"

FAULTS: tuple[Fault, ...] = (
    # directions
    Fault(
        "directions/cgd.py", "p = kit.scaled(-penalty.scale * lam * c, u)", "p = kit.scaled(-lam * c, u)",
        "CGD's direction is −(∇f + λ∇h), with the factor 2 of ∇‖·‖²", CGD,
    ),
    Fault(
        "directions/cgd.py", "return After(total // 4) | FirstGuard()", "return After(total // 4)",
        "the listing of CGD-FD ends the penalty when the guard fires", CGD,
    ),
    Fault(
        "directions/cgd.py", "return After(total // 4) | FirstGuard()",
        "return After((total - 1) // 4) | FirstGuard()",
        "CGD-FD's penalty ends after a quarter of the budget, at k = T/4", CGD,
    ),
    Fault(
        "directions/cgd.py", "lam = self._at(lam, c * kit.dot(g, u), c * c * kit.dot(u, u), penalty.scale)",
        "lam = self._at(lam, c * kit.dot(g, u), c * kit.dot(u, u), penalty.scale)",
        "λ by curvature is free of the length of the probe", CGD,
    ),
    Fault(
        "directions/cgd.py", "u = space.free(x, g, u) if space.bounded else u", "u = u",
        "within bounds the penalty acts on the free variables alone", CGD,
    ),
    Fault(
        "directions/cgd.py", "r = oracle.probe_length(x, v) if self.r is None else context.live(self.r)",
        "r = oracle.probe_length(x, v) if self.r is None else self.r",
        "r may be given for each row, and rows that have ended take theirs along", CGD,
    ),
    Fault(
        "directions/newton.py", "matrix = space.restrict(context.oracle.hess(x, g), x, g)",
        "matrix = context.oracle.hess(x, g)",
        "Newton's method solves for the free variables alone", "tests/directions/test_direction.py",
    ),
    Fault(
        "directions/quasi_newton.py", "product_form = (self.rule == \"bfgs\") == self.inverse",
        "product_form = self.rule == \"bfgs\"",
        "the Hessian form of BFGS is the inverse form of DFP", QUASI_NEWTON,
    ),
    Fault(
        "directions/quasi_newton.py", "G = self._inverse.learn(kit, x, g, memory).matrix",
        "G = memory.matrix",
        "hess_inv knows the last step too", QUASI_NEWTON,
    ),
    Fault(
        "_core/matrix.py", "useful = (rho > CURVATURE * kit.norm(a) * kit.norm(b)) & (rho > LEAST)",
        "useful = (abs(rho) > CURVATURE * kit.norm(a) * kit.norm(b))",
        "a pair without positive curvature is skipped", LISTINGS,
    ),
    Fault(
        "_core/guard.py", "p, slope = kit.where(used, p, -g), kit.pick(used, slope, -size * size)",
        "p = kit.where(used, p, -g)",
        "where the guard takes −∇f, the search is told its slope", "tests/directions/test_direction.py",
    ),
    Fault(
        "_core/guard.py", "if kit.all(on & (slope > -inf) & (slope < -VANISHED * size * size)):",
        "if kit.all(on & (slope > -inf) & (slope < VANISHED * size * size)):",
        "the guard fires where ∇fᵀp is not negative", "tests/directions/test_direction.py",
    ),
    Fault(
        "directions/_pairs.py", "part = LONG / (LONG + int(s.shape[-1]))",
        "part = LONG / (LONG - int(s.shape[-1]))",
        "γ lies between the short ratio and the long one", "tests/directions/test_pairs.py",
    ),
    Fault(
        "directions/_pairs.py", "inverted = kit.put(inverted, place, 0.0, full)",
        "inverted = inverted",
        "the newest pair takes the place of the oldest, which is forgotten", "tests/directions/test_pairs.py",
    ),
    Fault(
        "directions/_pairs.py", "unit = 1 / kit.num.sqrt(kit.pick(useful, sy, 1.0))",
        "unit = 1 / kit.num.sqrt(kit.pick(useful, abs(kit.dot(s, s)), 1.0))",
        "pairs are scaled so that sᵀy = 1", "tests/directions/test_pairs.py",
    ),
    Fault(
        "directions/_pairs.py", "c = 0.5 * agree * (with_s + with_y)", "c = agree * (with_s + with_y)",
        "a new pair is made conjugate to those that agree with it", "tests/directions/test_pairs.py",
    ),
    Fault(
        "directions/_pairs.py", "new = kit.where(useful, rest + kit.scaled(1 / sy, y * y), self.E)",
        "new = rest + kit.scaled(1 / sy, y * y)",
        "a row whose pair is of no use keeps its metric", "tests/directions/test_pairs.py",
    ),
    Fault(
        "directions/auto.py", "return memory._replace(tries=tries), scaled | careful",
        "return memory, scaled | careful",
        "a search that finds nothing is repeated twice, and not for ever",
    ),
    Fault(
        "directions/auto.py", "return lambda v: kit.times(scale, pairs.product(kit, v))",
        "return lambda v: pairs.product(kit, v)",
        "hess_inv is that of f, not of f in the run's own scale", "src/steepen/_core/result.py",
    ),
    Fault(
        "directions/auto.py", "room = kit.pick(memory.longest > 0, GROWTH * memory.longest, np.inf)",
        "room = np.inf",
        "no step is more than ten times the longest before it",
    ),
    Fault(
        "directions/auto.py", "boost=kit.pick(useful, 1.0, boost),", "boost=boost,",
        "steps are longer only as long as f bends down",
    ),
    Fault(
        "directions/auto.py", "down = todo & (values[..., 0] < -FLAT * abs(values).max(axis=-1))",
        "down = todo & (values[..., 0] < FLAT * abs(values).max(axis=-1))",
        "a start is left only where f bends down",
    ),
    Fault(
        "directions/auto.py", "min(MOST, max(ENOUGH, FAST // n), max(FEWEST, PLACES // n))",
        "min(MOST, max(ENOUGH, FAST // n))",
        "with millions of variables the memory is small",
    ),
    Fault(
        "directions/auto.py", "kit.ratio(-0.5 * t * t * omega, alpha * memory.sy)",
        "kit.ratio(-t * t * omega, alpha * memory.sy)",
        "the trace of cgd-auto has the λ of the CGD step that the step amounts to",
    ),
    Fault(
        "directions/auto.py", "2.0 ** -kit.num.round(kit.num.log2(size))", "0.0 * size + 1",
        "scaling f by a power of two changes nothing",
    ),
    # steps
    Fault(
        "steps.py", "ok = todo & (found <= f + self.c * fall) & (found < f)",
        "ok = todo & (found <= f - self.c * fall)",
        "Armijo takes a step where f falls by c of what the slope promises",
    ),
    Fault(
        "steps.py", "longer = kit.num.minimum(self.longest, self.grow * kit.pick(known, along.last, 1.0))",
        "longer = self.grow * kit.pick(known, along.last, 1.0)",
        "no trial of Armijo is longer than `longest`",
    ),
    Fault(
        "steps.py", "more = end.open & (end.trial < self.trials)", "more = end.open",
        "with wait=False, too, a search ends after its trials",
    ),
    Fault(
        "steps.py", "num.where(num.isfinite(best), best, 0.0), 0.1 * t, 0.5 * t)",
        "num.where(num.isfinite(best), best, 0.0), 0.1 * t, 0.9 * t)",
        "a trial that failed is cut to at most its half",
    ),
    Fault(
        "steps.py", "kit.pick(convex, -along.slope / kit.pick(convex, bend, 1.0), self.fallback)",
        "kit.pick(convex, -along.slope / kit.pick(convex, bend, 1.0), 1.0)",
        "where the model has no minimiser, the step is `fallback`",
    ),
    Fault(
        "steps.py", "todo = s.open & context.affords(oracle.cost_value)", "todo = s.open",
        "a line search keeps to the budget",
    ),
    Fault(
        "steps.py", "known = (schedule.start, schedule.end)",
        "known = (schedule.start,)",
        "a step that would become negative is refused at once", "tests/test_bad_input.py",
    ),
    # schedules, penalties, switches
    Fault(
        "schedules.py", "share = 1.0 * k / (self.T - 1) if self.T > 1 else 0.0",
        "share = 1.0 * k / self.T",
        "L(a, b) has b as its last value",
    ),
    Fault(
        "schedules.py", 'xp.searchsorted(xp.asarray(self.boundaries), k, side="right")',
        'xp.searchsorted(xp.asarray(self.boundaries), k, side="left")',
        "a piece begins at its boundary",
    ),
    Fault(
        "schedules.py", "return replace(self, schedule=self.schedule.fit(total))", "return self",
        "a ramp inside a formula is fitted to the run",
    ),
    Fault(
        "schedules.py", "other: Any = 1.0 - (1.0 - self.factor) * (vanishing & (along != 0))",
        "other: Any = 1.0 - self.factor * (vanishing & (along != 0))",
        "where the direction vanishes, Perturbed takes factor·λ",
    ),
    Fault(
        "schedules.py", "return -along / (2 * scale * (square + (square == 0))) * (square != 0)",
        "return -along / (scale * (square + (square == 0))) * (square != 0)",
        "the λ of Auto never lets the guard fire",
    ),
    Fault(
        "schedules.py", "return float(value) if isinstance(k, int) else value",
        "return value",
        "schedules of NumPy numbers leave float32 alone",
    ),
    Fault(
        "penalties.py", "return (near * (size - near / 2)).sum(axis=-1)",
        "return (near * (size - self.delta / 2)).sum(axis=-1)",
        "∇h is the gradient of h",
    ),
    Fault(
        "penalties.py", "** (1 - 1 / self.p)", "** (1 / self.p)",
        "the vector of PNorm is the gradient of the p-norm",
    ),
    Fault(
        "penalties.py", "return g / xp.where(size > 0, size, xp.ones_like(size))", "return g / size",
        "penalties are 0 at a stationary point",
    ),
    Fault(
        "switches.py", "return k >= self.b", "return k > self.b",
        "the listing makes b + 1 penalised iterations",
    ),
    Fault(
        "switches.py", "return self.b + 1", "return self.b",
        "a λ must cover all penalised iterations",
    ),
    Fault(
        "switches.py", "return first - after >= self.share * abs(first)",
        "return before - after >= self.share * abs(first)",
        "a good drop is that of the whole run",
    ),
    # SciPy, scikit-learn, options
    Fault(
        "scipy.py", "return lambda state: callback(state.x)",
        "return lambda state: callback(state.x) and None",
        "a callback of SciPy's that returns True ends the run",
    ),
    Fault(
        "scipy.py", "if result.hess_inv is None:", "if result.hess_inv is not None:",
        "SciPy's result has hess_inv where the method has learnt it",
    ),
    Fault(
        "_options.py", "limit = 200 * n if name == \"iters\" else math.inf",
        "limit = 200 if name == \"iters\" else math.inf",
        "maxiter=None is SciPy's default of 200 n", "tests/test_scipy.py",
    ),
    Fault(
        "_options.py", "for given in (left, explicit):", "for given in (left,):",
        "an explicit gtol wins over tol", "tests/test_scipy.py",
    ),
    Fault(
        "sklearn.py", "best = int(np.argmin(f))", "best = 0",
        "restarts return the best of their ends",
    ),
    # x_scale
    Fault(
        "_scale.py", "error.partial_result = _unscaled(found, scale)", "error.partial_result = found",
        "the run up to an error is told in x",
    ),
    Fault(
        "_scale.py", "jac=_times(result.jac, 1 / scale)", "jac=_times(result.jac, scale)",
        "with x_scale the result has the gradient with respect to x",
    ),
    Fault(
        "_scale.py", "best=Best(None if best.x is None else _times(best.x, scale), best.fun, best.k),",
        "best=best,",
        "with x_scale the best point is in x too",
    ),
    Fault(
        "_scale.py", "eps = None if how.eps is None else how.eps / scale", "eps = how.eps",
        "with x_scale the steps of differences are in x",
    ),
    # ends, results, arguments
    Fault(
        "_core/judge.py", "return pick(f < tolerances.bottom, UNBOUNDED, code)", "return code",
        "where f falls without bound the status says so", "tests/directions/test_auto.py",
    ),
    Fault(
        "_core/judge.py", "small = (fall >= 0) & (fall <= tolerances.f * scale) & (last.alpha > 0)",
        "small = (fall >= 0) & (fall <= tolerances.f * scale)",
        "a search that found nothing is no small step", "tests/directions/test_auto.py",
    ),
    Fault(
        "_core/result.py", "end = int(self.length[b])", "end = int(self.length.max())",
        "a row's trace ends where the row ended", "tests/core/test_trace.py",
    ),
    Fault(
        "_core/result.py", "rows = np.repeat(np.arange(len(parts)), self.length)",
        "rows = np.tile(np.arange(len(parts)), int(self.length.max()))[: int(self.length.sum())]",
        "a batch's table says which row a line is of", "tests/core/test_trace.py",
    ),
    Fault(
        "_core/result.py", "return str(int(value)) if isinstance(value, bool) else repr(value)",
        "return str(int(value)) if isinstance(value, bool) else f\"{value:g}\"",
        "a trace is saved to the last bit", "tests/core/test_trace.py",
    ),
    Fault(
        "_core/space.py", "(x <= self._low) & (g > 0)", "(x <= self._low) & (g < 0)",
        "a variable is held at the bound that f pushes it against", "tests/directions/test_direction.py",
    ),
    Fault(
        "_arguments.py", "needed = min([n for n in (total, switch.last) if n is not None], default=None)",
        "needed = switch.last",
        "λ need not cover more than the run, nor what comes after the switch", "tests/test_bad_input.py",
    ),
    Fault(
        "_arguments.py", "if x0.ndim not in (1, 2) or 0 in x0.shape:", "if x0.ndim not in (1, 2):",
        "an empty start is refused by name", "tests/test_bad_input.py",
    ),
    Fault(
        "_arguments.py", "x0 = x0 / 1", "x0 = x0.astype(np.float32)",
        "a start of whole numbers runs in float64", "tests/test_bad_input.py",
    ),
    Fault(
        "_arguments.py", 'gtol = 1e-5 if "64" in str(dtype) else 1e-3', "gtol = 1e-5",
        "the default tolerance follows the precision", "tests/directions/test_auto.py",
    ),
)  # fmt: skip
