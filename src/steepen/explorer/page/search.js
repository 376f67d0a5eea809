// steepen.steps.Armijo: backtracking until f falls by C of what the slope promises; cuts by interpolation.

import { EPS, clip, dot, plus, same, times } from "./vectors.js";

const C = 1e-4, TRIALS = 60, LEVEL = 10, FLATTER = 0.9, SUSPECT = 1e-6, WARY = 4e-6, DOUBTS = 4;
const PROBED = 1e-6;

// `unit`: every search starts at α = 1; else at twice the last α
// `probes`: where the first trial of a run fails, a gradient close to x shows how f bends along p
// `wary`: values that differ by WARY may be noise, which two values may hide by chance
export function armijo(oracle, { unit, probes, wary }, { k, x, f, g, p, slope, last, noise }) {
  let t = k > 0 && last > 0 && !unit ? 2 * last : 1;
  let doubts = 0;
  for (let trial = 0; trial < TRIALS; trial++) {
    const way = times(t, p), point = plus(x, way), fall = t * slope;
    // a step that is lost in the rounding of x, or in the noise of f, needs no value
    if (trial > 0 && (same(point, x) || !(noise <= LEVEL * Math.abs(fall)))) break;
    const found = oracle.value(point);
    if (found <= f + C * fall && found < f) return { alpha: t, f: found, g: null, noise };
    const level = (error) => Math.abs(found - f) <= LEVEL * Math.max(EPS * Math.abs(f), error);
    const rise = Math.abs(found - f), size = Math.abs(f);
    const close = Math.max(rise, Math.abs(fall)) <= (wary ? WARY : SUSPECT) * size || rise <= LEVEL * EPS * size;
    if (close && oracle.affords(1)) {
      // by the slope, where rounding or noise may hide whether f falls (Hager and Zhang)
      doubts++;
      const ahead = oracle.grad(point);
      const flatter = Math.abs(dot(ahead, way)) < FLATTER * Math.abs(fall);
      if ((flatter || doubts === DOUBTS) && !level(noise)) {
        let measured = oracle.noise(x, f, g, way);
        if (wary && !level(measured)) measured = Math.max(measured, oracle.noise(x, f, g, times(0.5, way)));
        if (level(measured)) noise = measured;
      }
      if (flatter && level(noise)) return { alpha: t, f: found, g: ahead, noise };
    }
    // the minimiser of the parabola through f, the slope and the trial
    const best = (-fall * t) / (2 * (found - f - fall)), before = t;
    t = clip(Number.isFinite(best) ? best : 0, 0.1 * t, 0.5 * t);
    if (probes && k === 0 && trial === 0 && oracle.affords(1)) {
      const r = oracle.probeLength(x, p), bend = dot(p, oracle.change(x, p, g, r)) / r;
      if (bend > 0 && bend < Infinity) t = clip(-slope / bend, PROBED * before, 0.5 * before);
    }
  }
  return { alpha: 0, f, g: null, noise };
}
