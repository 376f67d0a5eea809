// One run: steepen's loop for a single start, without bounds, with a budget of gradients.

import { Auto } from "./auto.js";
import { BFGS, CGD, GD } from "./directions.js";
import { atFloor } from "./floor.js";
import { Oracle } from "./oracle.js";
import { penalties } from "./penalties.js";
import { armijo } from "./search.js";
import { EPS, dot, norm, plus, times } from "./vectors.js";

const IDLE = 11, SHOWS = 4, VANISHED = 1e-3, BOTTOM = -1e-8 * Number.MAX_VALUE, TINY = 1e-300;
const DOUBT = 10, ENOUGH = 1e-9;

const makers = {
  gd: () => new GD(),
  cgd: (settings) => new CGD(settings, false),
  "cgd-fd": (settings) => new CGD(settings, true),
  bfgs: () => new BFGS(),
  "cgd-auto": () => new Auto(),
};

// `step`: α, or null for the line search. `price`: what an H·v costs, in gradients.
// Returns the status and the trace: a row for each iterate, with the step that was taken from it.
export function minimize(fun, x0, method, settings) {
  const { step = null, lam = 0, penalty = "squared-l2", r = null, grads, gtol = 1e-5, price = 0 } = settings;
  const b = settings.b ?? Math.floor(grads / 4);
  const direction = makers[method]({ lam, penalty: penalties[penalty], r, b });
  const oracle = new Oracle(fun, grads, price), trace = [];
  let point = { x: x0, f: null, g: null }, on = !direction.steepest, idle = 0;
  let move = { alpha: NaN, noise: 0, guarded: false, vanished: false }, before = NaN, spent;

  const record = (step) => {
    const { x, f, gnorm } = point;
    trace.push({ x, f, gnorm, ...spent, lam: NaN, step: NaN, penalised: false, guarded: false, ...step });
  };
  const end = (status) => {
    record({});
    const hidden = move.vanished && ["PRECISION", "NOISE", "MAX_GRADIENTS"].includes(status);
    return { method, status: hidden ? "ARTIFICIAL" : status, trace, oracle };
  };
  const floored = () => atFloor(oracle, point, move)?.toUpperCase();

  for (let k = 0; ; k++) {
    spent = { nfev: oracle.nfev, njev: oracle.njev, nhvp: oracle.nhvp };
    point.gnorm = NaN;
    // evaluate f; judge the step that led here
    const searched = point.f !== null;
    if (!searched) point.f = oracle.value(point.x);
    const { x, f } = point;
    if (f < BOTTOM) return end("UNBOUNDED");
    if (!Number.isFinite(f)) return end("NONFINITE_VALUE");
    if (k > 0) {
      if (direction.penalised && on) on = !direction.off(k - 1, move.guarded);
      if (searched) idle = before - f > Math.max(SHOWS * EPS * Math.abs(f), move.noise) ? 0 : idle + 1;
    }
    // evaluate ∇f; judge the point, and whether the budget has a step left
    if (point.g === null) {
      if (!oracle.affords(1)) return end("MAX_GRADIENTS");
      point.g = oracle.grad(x);
    }
    const { g } = point, size = norm(g);
    point.gnorm = size;
    if (!Number.isFinite(size)) return end("NONFINITE_GRADIENT");
    // a gradient within gtol is doubted where x is large, as long as steps lower f
    const change = norm(g.map((slope, i) => slope * Math.max(Math.abs(x[i]), 1))) / Math.max(Math.abs(f), 1);
    const falls = k === 0 || before - f > ENOUGH * Math.max(Math.abs(f), 1) || move.alpha === 0;
    const doubted = direction.doubts === true && change > DOUBT * gtol && falls;
    if (size <= gtol && !doubted && !(k === 0 && direction.leave?.(oracle, point))) return end("CONVERGED");
    if (step === null && idle >= IDLE) return end(floored() ?? "NO_DESCENT");
    if (!oracle.affords(on ? (direction.cost ?? 0) + price * (direction.products ?? 0) : 0)) {
      return end("MAX_GRADIENTS");
    }
    // go along the direction where it descends f, else along −∇f: the paper's guard
    let p = times(-1, g), slope = -size * size, used = false, proposed = { lam: 0 };
    move = { ...move, guarded: false, vanished: false };
    if (on) {
      direction.learn?.(oracle, point);
      proposed = direction.propose(oracle, k, point);
      const along = dot(g, proposed.p);
      used = (along < 0 && along > -Infinity) || proposed.trusted === true;
      if (used) [p, slope] = [proposed.p, proposed.trusted ? Math.min(along, -TINY) : along];
      move.guarded = !used;
      move.vanished = direction.penalised === true && used && norm(p) <= VANISHED * size;
    }
    let ahead = { f: null, g: null };
    if (step === null) {
      Object.assign(move, { slope, length: norm(p) });
      const last = move.alpha;
      ahead = armijo(oracle, direction, { k, x, f, g, p, slope, last, noise: move.noise });
      Object.assign(move, { alpha: ahead.alpha, noise: ahead.noise });
    } else move.alpha = step;
    const next = { x: plus(times(move.alpha, p), x), f: ahead.f, g: ahead.g };
    if (!next.x.every(Number.isFinite)) return end("DIVERGED");
    if (move.alpha === 0) {
      if (direction.doubts === true && size <= gtol) return end("CONVERGED");
      const low = floored();
      if (low) return end(low);
      if (!direction.recover?.(oracle, point)) return end("NO_DESCENT");
      next.g = g; // it stays where it is, for this iteration
    }
    const lam = used ? proposed.lam : 0;
    const [alpha, shown] = on && direction.amounts ? direction.amounts(move.alpha) : [move.alpha, lam];
    record({ step: alpha, lam: shown, penalised: direction.penalised === true && used, guarded: move.guarded });
    before = f;
    point = next;
  }
}
