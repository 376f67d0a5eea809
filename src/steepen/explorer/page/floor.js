// Whether f is as low as working precision lets it be: steepen's _core/floor.py, for an exact gradient.

import { EPS, dot, minus, norm, plus, scaled, times, zeros } from "./vectors.js";

const FLOOR = 30, LOUD = 10, LONGEST = 1e-3, KINK = 3, DEEP = 5;

const within = (value, limit) => value <= limit && limit < Infinity;
const unit = (size, v) => times(1 / (size > 0 ? size : 1), v);

// Returns "precision" or "noise" where nothing promises a fall of f, or a move of x, that would show; else null.
export function atFloor(oracle, { x, f, g }, { slope: last, length, noise }) {
  const part = FLOOR * EPS, low = part * Math.abs(f), top = norm(x), promise = -last;
  let hushed = Math.max(low, LOUD * noise);
  let level = within(promise, low), quiet = within(promise, hushed), still = within(length, part * top);
  if (!(quiet || still)) return null;
  const rounding = EPS * Math.abs(f), loud = noise > rounding;
  const stretch = loud ? Math.min(Math.sqrt(noise / rounding), LONGEST / Math.sqrt(EPS)) : 1;
  const size = norm(g), towards = unit(size, g), change = (v, r) => times(1 / r, oracle.change(x, v, g, r));
  for (const metric of [x.map(() => 1), unit(top, x.map(Math.abs))]) {
    let left = scaled(metric, towards), way = zeros(x.length), before = 0;
    let to = zeros(x.length), fall = 0;
    const least = EPS * dot(left, left);
    for (let deep = 0; deep < DEEP; deep++) {
      const square = dot(left, left);
      way = plus(left, times(before > 0 ? square / before : 0, way));
      before = square;
      const y = unit(norm(scaled(metric, way)), way);
      let slope = size * dot(left, y);
      if (deep && (slope <= 0 || square <= least)) slope = 0;
      if (!oracle.affords(1) || !(slope >= 0)) return null;
      if (!(slope > 0)) break;
      const v = scaled(metric, y), r = stretch * oracle.probeLength(x, v);
      const bent = change(v, r), bend = dot(v, bent), step = slope / bend;
      to = plus(to, times(step, y));
      fall += 0.5 * slope * step;
      still = still && within(norm(to), part * top);
      level = level && within(fall, low);
      quiet = quiet && within(fall, hushed);
      if (deep === 0 && quiet && !(level || still)) {
        // the noise may have been another where it was measured
        const here = oracle.noise(x, f, g, times(-step, v));
        hushed = Math.max(low, LOUD * Math.min(noise, here));
        quiet = quiet && within(fall, hushed);
      }
      if (!(bend > 0) || !(quiet || still)) return null;
      if (deep === 0) {
        if (!oracle.affords(1)) return null;
        const longer = dot(v, change(v, 10 * r));
        if (!within(bend, KINK * longer) || (loud && longer > KINK * bend)) return null;
      }
      left = minus(left, times(step / size, scaled(metric, bent)));
    }
  }
  return level || still ? "precision" : "noise";
}
