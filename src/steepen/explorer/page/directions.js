// The directions of steepen.directions but cgd-auto: p from ∇f, λ and, for CGD, one product H·v.

import { dot, minus, norm, times } from "./vectors.js";

const CURVATURE = 1e-10;

export class GD {
  constructor() {
    this.steepest = true;
  }
}

// p = −(∇f + λ·H·∇h(∇f)); with a difference, H·v is (∇f(x + r·v) − ∇f(x))/r
export class CGD {
  constructor({ lam, penalty, r, b }, difference) {
    Object.assign(this, { lam, penalty, r, difference, penalised: true, cost: difference ? 1 : 0 });
    this.products = difference ? 0 : 1;
    // the listing of CGD-FD ends the penalty after step b, and when the guard fires; the others keep it
    this.off = difference ? (k, guarded) => k >= b || guarded : () => false;
  }

  propose(oracle, k, { x, g }) {
    const { lam, penalty } = this, v = penalty.vector(g);
    let c = 1, u;
    if (this.difference) {
      const r = this.r ?? oracle.probeLength(x, v);
      c = 1 / r;
      u = oracle.change(x, v, g, r);
    } else u = oracle.hvp(x, v);
    return { p: minus(times(-penalty.scale * lam * c, u), g), lam };
  }
}

// p = −G·∇f, G the inverse BFGS matrix
export class BFGS {
  constructor() {
    this.unit = true;
  }

  learn(oracle, { x, g }) {
    if (this.x === undefined) this.G = x.map((_, i) => x.map((_, j) => +(i === j)));
    else this.update(minus(x, this.x), minus(g, this.g));
    Object.assign(this, { x, g });
  }

  update(s, y) {
    const rho = dot(s, y);
    if (!(rho > CURVATURE * norm(s) * norm(y))) return;
    const w = this.times(y);
    const a = minus(times((1 + dot(y, w) / rho) / 2, s), w);
    this.G = this.G.map((row, i) => row.map((value, j) => value + (s[i] * a[j] + a[i] * s[j]) / rho));
  }

  times(v) {
    return this.G.map((row) => dot(row, v));
  }

  propose(oracle, k, { g }) {
    return { p: times(-1, this.times(g)), lam: 0 };
  }
}
