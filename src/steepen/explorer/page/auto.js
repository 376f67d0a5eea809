// cgd-auto, CGD without α, λ or r: steepen's directions/auto.py, without bounds.

import { Pairs } from "./pairs.js";
import { EPS, clip, dot, minus, norm, plus, scaled, times } from "./vectors.js";

const GROWTH = 10, BOOST = 2, BOLD = 1024, FAINT = 0.01, NOISE = 1e4;
const SHORTEST = 0.1, LONGEST = 1, START = 1, CAREFUL = 1e-3, LEAST = 1e-3, DOWNHILL = 50, FLAT = 1e-6;
const RANDOM = [0.1257302210933933, -0.1321048632913019]; // NumPy's default_rng(0).standard_normal(2)

export class Auto {
  constructor() {
    this.unit = this.probes = this.wary = this.doubts = true;
    Object.assign(this, { begun: false, f: 0, slope: 0, length: 0, t: 0, sy: 0, boost: 1, longest: 0 });
    Object.assign(this, { tries: 0, paired: 0, way: null });
  }

  // takes in the step that led here; gradients and values are those of scale·f
  learn(oracle, point) {
    if (!this.begun) this.begin(point);
    const { x } = point, g = times(this.scale, point.g), f = point.f * this.scale;
    const s = minus(x, this.x), length = norm(s), moved = length > 0;
    let useful = false;
    if (moved) {
      const y = this.thirdOrder(s, minus(g, this.g), length, f, g), sy = dot(s, y);
      const faint = this.paired === 0 && sy > 0 && sy < -FAINT * dot(this.g, s);
      useful = this.pairs.add(s, y, faint ? 0 : sy, length);
      if (!useful && (sy <= 0 || faint)) this.boost *= faint ? GROWTH : this.boost < BOLD ? BOOST : BOLD;
      this.sy = sy;
    }
    if (useful) Object.assign(this, { boost: 1, tries: 0, paired: this.paired + 1 });
    // without a new pair the step to come is a plain one in the same metric
    this.t = useful && this.length > 0 ? length / this.length : 0;
    this.longest = Math.max(this.longest, length);
    Object.assign(this, { x, f, before: this.g, g });
  }

  // −G·∇f, longer where f bent down, and not much longer than any step before
  propose(oracle, k, { x }) {
    const { g } = this, size = DOWNHILL * EPS * norm(g);
    let p, slope, length;
    for (let turn = 0; turn < 2; turn++) {
      p = times(-1, this.pairs.product(g));
      slope = dot(g, p);
      length = norm(p);
      if (slope < -size * length) break;
      this.restart(START); // the metric has lost its meaning
    }
    this.amount(p);
    const room = this.longest > 0 ? GROWTH * this.longest : Infinity;
    const factor = Math.min(this.boost, room / (length > 0 ? length : 1));
    Object.assign(this, { slope, length, factor });
    if (k === 0 && this.way) return { p: times(this.first(x), this.way), lam: 0, trusted: true };
    return { p: times(factor, p), lam: 0 };
  }

  // the α and λ of the CGD step, from the point before, that the unit step p amounts to
  amount(p) {
    const { t } = this, omega = -this.slope;
    this.alpha = t > 0 ? 1 + t - dot(this.before, p) / omega : 1;
    this.lam = t > 0 ? (-0.5 * t * t * omega) / (this.alpha * this.sy) : 0;
  }

  amounts(alpha) {
    const t = alpha * this.factor, whole = t * this.alpha, both = whole + (1 - t) * this.t;
    return [both, (whole * this.lam) / (both + (both === 0))];
  }

  // after a search that found nothing, begin again: in the metric of x, and then along −∇f
  recover(oracle, { x }) {
    const { tries } = this;
    if (tries === 0 && this.rescale(oracle, x)) {
      this.tries = 1;
      return true;
    }
    if (tries < 2) this.restart(CAREFUL);
    this.tries = 2;
    return tries < 2;
  }

  // Looks for a direction in which f bends down, at a start without a gradient; which of its two ends is taken
  // hangs on the sign of an eigenvector, which LAPACK chooses in the library.
  leave(oracle, { x, g }) {
    const basis = [], bent = [];
    let v = RANDOM.slice(0, x.length), largest = 0;
    while (basis.length < x.length) {
      for (const u of [...basis, ...basis]) v = minus(v, times(dot(u, v), u)); // twice, against rounding
      const size = norm(v);
      if (!(size > FLAT * largest && size < Infinity) || !oracle.affords(1)) return false;
      basis.push(times(1 / size, v));
      const u = basis.at(-1), r = oracle.probeLength(x, u);
      v = times(1 / r, oracle.change(x, u, g, r));
      bent.push(v);
      const [a, b, c] = [dot(basis[0], bent[0]), dot(basis[0], v), dot(u, v)];
      largest = Math.max(largest, ...basis.map((other) => Math.abs(dot(other, v))));
      const one = basis.length === 1, gap = one ? 0 : Math.hypot((a - c) / 2, b), middle = (a + c) / 2;
      const least = middle - gap, most = Math.max(Math.abs(least), Math.abs(middle + gap));
      if (least < -FLAT * most) {
        const turned = one ? [1] : a < c ? [least - c, b] : [b, least - a];
        const way = basis.reduce((sum, part, i) => plus(sum, times(turned[i] / norm(turned), part)), [0, 0]);
        this.way = times(dot(g, way) > 0 ? -1 : 1, way.slice(0, x.length));
        return true;
      }
    }
    return false;
  }

  first(x) {
    return Math.max(1, Math.sqrt(EPS) * norm(x));
  }

  begin({ x, f, g }) {
    // a power of two keeps products of gradients in range, and every digit
    const size = norm(g);
    this.scale = size > 0 ? 2 ** -Math.round(Math.log2(clip(size, 1e-300, 1e300))) : 1;
    Object.assign(this, { begun: true, x, g: times(this.scale, g), pairs: new Pairs(x.length) });
    const unit = this.first(x), longest = (LONGEST * Math.max(norm(x), 1)) / unit;
    this.restart(clip((2 * Math.abs(f)) / (size > 0 ? size : 1) / unit, SHORTEST, longest));
  }

  // forgets all that was learnt; the next trial is along −∇f
  restart(length) {
    this.pairs.clear();
    this.pairs.gamma = (length * this.first(this.x)) / (norm(this.g) || 1);
    Object.assign(this, { longest: 0, boost: 1, t: 0, paired: 0 });
  }

  // begins again with D the squared sizes of the variables; a CGD probe gives the length of the step
  rescale(oracle, x) {
    const { g, scale } = this;
    if (!(norm(g) > 0) || !oracle.affords(1)) return false;
    const top = norm(x) || 1, sizes = x.map((value) => Math.abs(value) / top || LEAST);
    const metric = scaled(sizes, sizes), v = scaled(metric, g);
    const r = oracle.probeLength(x, v) * Math.min(1, top);
    const along = dot(v, times(scale / r, oracle.change(x, v, times(1 / scale, g), r)));
    if (!(along > 0 && along < Infinity)) return false;
    this.restart(START);
    this.pairs.clear(metric);
    this.pairs.gamma = dot(v, g) / along;
    return true;
  }

  // y corrected for the third derivative along s, which the values of f give away (Zhang, Deng and Chen, 1999)
  thirdOrder(s, y, length, f, g) {
    const third = 6 * (this.f - f) + 3 * dot(plus(this.g, g), s), sy = dot(s, y);
    const sound = sy > NOISE * EPS * Math.abs(f) && Math.abs(third) < sy;
    return sound ? plus(y, times(third / length / length, s)) : y;
  }
}
