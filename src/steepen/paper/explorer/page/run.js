// One run with a constant step size: steepen's loop for GD, CGD and CGD-FD, with a budget of gradients.

import { EPS, dot, minus, norm, plus, times } from "./vectors.js";

export const METHODS = { gd: "GD", cgd: "CGD", "cgd-fd": "CGD-FD" };
const VANISHED = 1e-3, BOTTOM = -1e-8 * Number.MAX_VALUE;

// H·∇f: exact, or by the paper's difference (∇f(x + r∇f) − ∇f(x))/r; by default r∇f is about √ε of the size of x
function product(fun, x, g, r, exact) {
  if (exact) return fun.hvp(x, g);
  const length = r ?? (Math.sqrt(EPS) * Math.max(norm(x), 1)) / (norm(g) || 1);
  return times(1 / length, minus(fun.grad(plus(x, times(length, g))), g));
}

// `r` and `b` may be null, for their defaults. `price`: what an H·v costs, in gradients.
// Returns the status, the counts, and the trace: a row per iterate, with the step that was taken from it.
export function minimize(fun, x0, method, { step, lam = 0, r = null, b = null, grads, gtol = 1e-5, price = 1 }) {
  const exact = method === "cgd", until = b ?? Math.floor(grads / 4), trace = [], counts = { njev: 0, nhvp: 0 };
  const affords = (cost) => counts.njev + price * counts.nhvp + cost <= grads;
  let x = x0, on = method !== "gd", vanished = false;
  const end = (status) => {
    return { method, status: vanished && status === "MAX_GRADIENTS" ? "ARTIFICIAL" : status, trace, ...counts };
  };
  for (let k = 0; ; k++) {
    const row = { x, f: fun.value(x), gnorm: NaN, ...counts, lam: NaN, step: NaN, penalised: false, guarded: false };
    trace.push(row);
    if (row.f < BOTTOM) return end("UNBOUNDED");
    if (!Number.isFinite(row.f)) return end("NONFINITE_VALUE");
    // the listing of CGD-FD ends the penalty after step b, and when the guard fires; CGD keeps it
    if (k > 0 && !exact && (k - 1 >= until || trace[k - 1].guarded)) on = false;
    if (!affords(1)) return end("MAX_GRADIENTS");
    const g = fun.grad(x);
    counts.njev++;
    row.gnorm = norm(g);
    if (!Number.isFinite(row.gnorm)) return end("NONFINITE_GRADIENT");
    if (row.gnorm <= gtol) return end("CONVERGED");
    if (on && !affords(exact ? price : 1)) return end("MAX_GRADIENTS");
    let p = times(-1, g), used = false;
    if (on) {
      const steeper = minus(times(-2 * lam, product(fun, x, g, r, exact)), g), slope = dot(g, steeper);
      counts[exact ? "nhvp" : "njev"]++;
      used = slope < 0 && slope > -Infinity; // else the guard takes −∇f
      if (used) p = steeper;
    }
    vanished = used && norm(p) <= VANISHED * row.gnorm;
    x = plus(x, times(step, p));
    if (!x.every(Number.isFinite)) return end("DIVERGED");
    Object.assign(row, { step, lam: used ? lam : 0, penalised: used, guarded: on && !used });
  }
}
