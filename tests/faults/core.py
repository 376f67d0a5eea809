"""Faults of the part `core` of the suite (conftest.py)."""

from . import Fault

CORE = (
    Fault(
        "_core/arrays.py", "device=device(like), copy=True)", "device=device(like))",
        "A gradient that is answered in one buffer again and again is copied, a tensor's too.",
        near="tests/torch/test_arrays.py tests/jax/test_arrays.py",
    ),
    Fault(
        "_core/arrays.py", "return size * xp.sqrt(", "return xp.sqrt(size) * xp.sqrt(",
        "The norm of a vector is right where its square overflows.",
    ),
    Fault(
        "_core/guard.py", "kit.pick(used, slope, -size * size)", "kit.pick(used, slope, -size)",
        "Where the guard fires, the line search goes by the slope along −∇f.",
        near="tests/core tests/run tests/directions",
    ),
    Fault(
        "_core/guard.py", "good = ((slope < 0) & (slope > -inf))", "good = ((slope <= 0) & (slope > -inf))",
        "A direction along which f is level is no descent: the guard takes −∇f.",
        near="tests/core tests/run tests/directions",
    ),
    Fault(
        "_core/judge.py", "num.maximum(kit.norm(point.x), 1.0)", "kit.norm(point.x)",
        "xtol is relative to ‖x‖, and absolute where that is below 1.", near="tests/run",
    ),
    Fault(
        "_core/judge.py", "small = (fall >= 0)", "small = (fall > 0)",
        "A step that leaves f as it is ends a run by ftol.", near="tests/run",
    ),
    Fault(
        "_core/judge.py", "kit.pick(point.gnorm <= tolerances.g, CONVERGED",
        "kit.pick(point.gnorm < tolerances.g, CONVERGED",
        "A gradient that is exactly gtol, such as 0, has converged.", near="tests/run",
    ),
    Fault(
        "_core/matrix.py", "-1 / bw, w)", "-1 / rho, w)", "DFP maps the change of the gradient to the step.",
        near="tests/directions tests/core",
    ),
    Fault(
        "_core/matrix.py", "return kit.where(useful, new, matrix)", "return new",
        "A pair without curvature is left out of the matrix of its row.", near="tests/run/test_batch.py",
    ),
    Fault(
        "_core/records.py", "        self.point.gnorm = NAN\n", "",
        "The trace says NaN where no gradient was evaluated.", near="tests/run tests/oracle",
    ),
    Fault(
        "_core/result.py", "if isinstance(value, bool) else repr(value)",
        'if isinstance(value, bool) else f"{value:g}"', "A trace that was saved as CSV has every digit.",
        near="tests/test_parts.py",
    ),
    Fault(
        "_core/result.py", "best_x = self.best.x[b] if np.isfinite(self.best.fun[b]) else None",
        "best_x = self.best.x[b]", "A row that never had a finite value has no best x, as the run alone.",
        near="tests/core tests/run",
    ),
    Fault(
        "_core/saved.py", "if value.dtype != dtype or value.shape not in shapes:",
        "if value.dtype != dtype and value.shape not in shapes:",
        "A checkpoint whose arrays do not fit the run is refused by name.", near="tests/run",
    ),
    Fault(
        "_core/space.py", "((x >= self._high) & (g < 0))", "((x > self._high) & (g < 0))",
        "At the upper bound a variable that f pushes outwards is held.",
    ),
    Fault(
        "_core/space.py", "beyond = single < side if inwards > 0 else single > side",
        "beyond = single > side if inwards > 0 else single < side",
        "No float32 point lies outside of the bounds as they were given.",
    ),
    Fault(
        "_core/space.py", "return matrix + (1 - free)[..., :, None] * identity(x)", "return matrix",
        "Newton's method with variables at their bounds solves for the others.",
    ),
    Fault(
        "_core/space.py", "return self._kit.norm(to - x)", "return t * self._kit.norm(p)",
        "With bounds, xtol goes by how far x has really moved.",
    ),
    Fault(
        "_core/kits/many.py", "except (np.linalg.LinAlgError, RuntimeError):", "except RuntimeError:",
        "One singular Hessian in a batch leaves the other rows as they are.",
        near="tests/core tests/run tests/directions",
    ),
    Fault(
        "_core/kits/many.py", "np.argsort(np.concatenate(rows))", "np.concatenate(rows)",
        "The rows of a result are in the order of the starts.", near="tests/run",
    ),
    Fault(
        "_core/kits/many.py", "return s[:, None].astype(self._like.dtype, copy=False) if is_numpy(s) else s",
        "return s[:, None] if is_numpy(s) else s", "A batch of float32 asks for float32 points only.",
        near="tests/core tests/run",
    ),
    Fault(
        "_core/kits/one.py", "return float(cast(float, s)) * v", "return cast(float, s) * v",
        "A float32 run asks for float32 points only, whatever a schedule gives.", near="tests/core tests/run",
    ),
    Fault(
        "_core/kits/one.py", "else float(norm(v)[0])", "else math.sqrt(square)",
        "A gradient of 1e-200 is not zero, and one of 1e200 not infinite.", near="tests/core tests/run",
    ),
    Fault(
        "_core/inverse.py", "return (matrix + matrix.T) / 2", "return matrix",
        "hess_inv as an array is symmetric to the last bit.",
    ),
)  # fmt: skip

ITERATION = (
    Fault(
        "_iteration.py", "better = (f < best.f) & (f > -inf)", "better = f < best.f",
        "The best point is a finite one, also where f falls to −∞.", near="tests/run",
    ),
    Fault(
        "_iteration.py", "off = self.switch.off(c.k - 1,", "off = self.switch.off(c.k,",
        "b = 6 means that many penalised steps.", near="tests/run tests/directions",
    ),
    Fault(
        "_iteration.py", "c.idle = kit.pick(c.move.before - f > least, 0, c.idle + made)",
        "c.idle = kit.pick(c.move.before - f > least, 0, c.idle + 1)",
        "A trial of a search that goes on is not a step without a decrease.",
        near="tests/run tests/test_termination.py",
    ),
    Fault(
        "_iteration.py", "self._end(c, poor if known is False else kit.pick(known, RUNNING, poor))",
        "self._end(c, poor)",
        "A gradient that came with the accepted trial is there though the budget is spent.",
        near="tests/oracle/test_budget.py tests/run",
    ),
    Fault(
        "_iteration.py", "c.top = kit.pick(gnorm > c.top, gnorm, c.top)",
        "c.top = kit.pick(c.top == 0, gnorm, c.top)",
        "gtol_rel is relative to the largest gradient of the run, not to the first.",
        near="tests/run tests/test_termination.py",
    ),
    Fault(
        "_iteration.py", "if (spent := c.k >= self._iters) is not False:",
        "if (spent := c.k > self._iters) is not False:", "A budget of iterations is not exceeded by one.",
        near="tests/oracle/test_budget.py tests/run",
    ),
    Fault(
        "_iteration.py", "poor = self.ledger.over(cost, self.direction.cost(oracle), c.on)",
        "poor = self.ledger.over(cost, NOTHING, c.on)",
        "A penalised step that needs two gradients is not begun with one left.",
        near="tests/oracle/test_budget.py tests/run",
    ),
    Fault(
        "_iteration.py", "move.lam = lam if used is True else kit.pick(used, lam, 0.0)", "move.lam = lam",
        "The trace says λ = 0 where the guard has taken over.", near="tests/run",
    ),
    Fault(
        "_iteration.py", "self._end(c, kit.pick(kit.without(stuck, c.tired), poor, RUNNING))",
        "self._end(c, kit.pick(kit.without(stuck, c.tired), NO_DESCENT, RUNNING))",
        "A search that the budget has cut is a spent budget, not a direction without descent.",
        near="tests/oracle/test_budget.py tests/run",
    ),
    Fault(
        "_iteration.py", "Status.UNBOUNDED, Status.DIVERGED)))", "Status.UNBOUNDED)))",
        "A run that diverged gives its best finite point.", near="tests/run",
    ),
    Fault(
        "_iteration.py", "kit.norm(self.space.measure(x, c.point.g) * wide)", "kit.norm(c.point.g * wide)",
        "A slope that a bound holds does not keep a run from converging.", near="tests/core tests/run",
    ),
)  # fmt: skip

ORACLE = (
    Fault(
        "_oracle/ledger.py", "(self.nfev + cost.evals <= self.budget.evals)",
        "(self.nfev + cost.evals < self.budget.evals)", "A budget of values is used to the last one.",
    ),
    Fault(
        "_oracle/ledger.py", "on * more.grads > budget.grads", "on * more.grads >= budget.grads",
        "A budget of gradients is used to the last one.",
    ),
    Fault(
        "_oracle/ledger.py", "ones: Any = 1 if only is None or only is True or np.all(only) else only",
        "ones: Any = 1", "A row of a batch is charged for its own evaluations alone.",
    ),
    Fault(
        "_oracle/ledger.py", 'self.earlier = saved.number(f"{name}.seconds", np.float64, 0, np.inf)',
        'saved.number(f"{name}.seconds", np.float64, 0, np.inf)',
        "The seconds of a resumed run include those before.", near="tests/run tests/oracle/test_budget.py",
    ),
    Fault(
        "_oracle/calls.py", "return function(*(kit.copy(v) for v in vectors))", "return function(*vectors)",
        "A function may change the x that it is given.", near="tests/run tests/oracle",
    ),
    Fault(
        "_oracle/calls.py", "contextvars.copy_context().run  # the run",
        "(lambda function, *given: function(*given))  # the run",
        "Functions of the user's keep the user's own error state.", near="tests/run",
    ),
    Fault(
        "_oracle/memo.py", "else self._kit.where(only, value, self.value)", "else value",
        "With jac=True a row keeps the gradient of its trial while others search on.",
        near="tests/run/test_batch.py",
    ),
    Fault(
        "_oracle/oracle.py", 'self.ledger.charge(only, "nfev", "njev")', 'self.ledger.charge(only, "nfev")',
        "With jac=True a call counts as a value and as a gradient.",
    ),
    Fault(
        "_oracle/oracle.py", "return g if spare else g.copy()", "return g",
        "A gradient that is answered in one buffer again and again is copied.", near="tests/run",
    ),
    Fault(
        "_oracle/oracle.py", "return self.cost_probe if checks else Cost()", "return Cost()",
        "The check of the first complex step is within the budget of gradients.",
    ),
    Fault(
        "_oracle/oracle.py", "n * each.evals + first.evals, n * each.grads + first.grads)",
        "n * each.evals + first.evals, n + first.grads)",
        "A Hessian made of gradients is paid for in gradients.",
    ),
    Fault(
        "_oracle/oracle.py", 'return self._kit.xp.where(self._space.fixed(g), g * float("nan"), g)',
        "return g", "The result has NaN where a fixed variable had no difference, as SciPy's.",
        near="tests/core",
    ),
    Fault(
        "_oracle/oracle.py", "self.verified = bool(np.abs(product - other).max() <= rough",
        "self.verified = bool(np.abs(product - other).min() <= rough",
        "A gradient that drops a part of a complex point is not used for complex steps.",
        near="tests/core tests/oracle",
    ),
    Fault(
        "_oracle/autodiff.py", "*map(id, _within(found.jaxpr)), rows)", "rows)",
        "What a JAX function closes over may change between two runs.", near="tests/jax",
    ),
    Fault(
        "_oracle/budget.py", "return min(known) if known else None", "return max(known) if known else None",
        "Schedules and switches follow the tighter of two limits.",
        near="src/steepen/_oracle/budget.py tests/oracle/test_budget.py tests/directions",
    ),
)  # fmt: skip

RUN = (
    Fault(
        "_run/checkpoint.py", "ledger.counts, (memo.x, memo.value) = counts, known",
        "(memo.x, memo.value) = known", "Counts of a resumed run are those of the run that was not cut.",
    ),
    Fault(
        "_run/checkpoint.py", "return [budget.grads, budget.evals, tolerances.g,",
        "return [budget.grads, tolerances.g,", "Rows that have ended under other limits are not taken over.",
    ),
    Fault(
        "_run/checkpoint.py", "constants, code.co_names))", "code.co_names))",
        "A schedule with another constant in it is another run.",
    ),
    Fault(
        "_run/loop.py", 'each(lambda a: np.array(kit.host(a), order="K"), c.memory)', "c.memory",
        "A run that is cut within an iteration goes on from the matrix as it was.",
    ),
    Fault(
        "_run/loop.py", 'c.top = saved.value(f"{name}.top", "Scalar", saved.live)',
        'saved.value(f"{name}.top", "Scalar", saved.live)',
        "A resumed run knows the largest gradient it has seen, for gtol_rel.",
    ),
    Fault(
        "_run/loop.py", "            nit -= 1\n", "", "A step whose end was never evaluated is not counted.",
        near="tests/run tests/oracle/test_budget.py",
    ),
    Fault(
        "_run/loop.py", "state = State(c.k, self.kit.copy(c.point.x),", "state = State(c.k, c.point.x,",
        "A callback may change the x that it is shown.",
    ),
    Fault(
        "_run/loop.py", "context.rows = live[left]", "context.rows = left",
        "Rows keep their numbers, schedules and traces when others have ended.",
    ),
    Fault(
        "_run/recorder.py", 'fill = np.nan if COLUMNS[name] == "d" else 0', "fill = 0",
        "The trace of a row that has ended reads NaN.",
    ),
    Fault(
        "_run/recorder.py", "bytes(self._rows[: length * width])", "bytes(self._rows)",
        "A checkpoint written after a cut holds the trace up to its own iteration.",
    ),
    Fault(
        "_run/outcome.py", "success=status < Status.MAX_ITERATIONS",
        "success=status <= Status.MAX_ITERATIONS", "A row of a batch whose budget is spent is no success.",
    ),
    Fault(
        "_run/interrupt.py",
        "        wish.pressed = True\n        signal.signal(signal.SIGINT, signal.default_int_handler)\n",
        "        wish.pressed = True\n", "The second Ctrl-C stops at once.",
    ),
)  # fmt: skip

CALL = (
    Fault(
        "_arguments.py", 'gtol = 1e-5 if "64" in str(dtype) else 1e-3', "gtol = 1e-5",
        "gtol is 1e-3 by default in float32.", near="tests/run",
    ),
    Fault(
        "_arguments.py", "return After(b) | FirstGuard()", "return After(b)",
        "With b the penalty also ends where the guard fires first.", near="tests/run tests/directions",
    ),
    Fault(
        "_arguments.py", "needed = min([n for n in (total, switch.last) if n is not None], default=None)",
        "needed = switch.last", "A schedule of λ as long as the run is long enough.",
        near="tests/test_bad_input.py tests/directions tests/run",
    ),
    Fault(
        "_options.py", "else math.floor(limit)", "else math.ceil(limit)",
        "maxiter=2.5 is two iterations, as in SciPy: a limit is not exceeded.", near="tests/test_scipy.py",
    ),
    Fault(
        "_options.py", "200 * n if name == ", "1000 if name == ", "maxiter=None is SciPy's 200 n.",
        near="tests/test_scipy.py",
    ),
    Fault(
        "_scale.py", "eps = None if how.eps is None else how.eps / scale", "eps = how.eps",
        "With x_scale, eps is the length of a difference in x.",
    ),
    Fault(
        "_scale.py", "jac=_times(result.jac, 1 / scale)", "jac=_times(result.jac, scale)",
        "With x_scale, the result's gradient is that with respect to x.",
    ),
    Fault(
        "_scale.py", "lambda v: _times(product(_times(v, self.scale)), self.scale)",
        "lambda v: _times(product(v), self.scale)", "With x_scale, hess_inv is that with respect to x.",
    ),
    Fault(
        "_minimize.py", "ftol=ftol, xtol=xtol,\n        gtol_rel", "ftol=ftol, xtol=ftol,\n        gtol_rel",
        "xtol is given on.", near="tests/run",
    ),
    Fault(
        "_restarts.py", "best = self._f.min()", "best = f.min()",
        "A row is compared with the best of all rows, those that have ended too.",
    ),
    Fault(
        "_restarts.py", "space.downhill_by(pairs.matrix(kit), x, g)", "-kit.product(pairs.matrix(kit), g)",
        "Restarts in a box solve for the variables that bounds leave free.",
    ),
)  # fmt: skip

FAULTS: tuple[Fault, ...] = CORE + ITERATION + ORACLE + RUN + CALL
