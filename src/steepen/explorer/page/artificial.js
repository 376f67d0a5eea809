// Artificial stationary points: where ∇f + λ·H·∇h(∇f) = 0 and ∇f is not.

import { penalties } from "./penalties.js";
import { norm, plus, times } from "./vectors.js";

const CELLS = { 1: 2000, 2: 90 }, MOST = 60, NEWTON = 12, TOLERANCE = 1e-9, STEEP = 1e-6;

export class Artificial {
  constructor(fun, penalty, box) {
    const cells = CELLS[fun.n], side = cells + 1, rows = fun.n === 1 ? 1 : side;
    Object.assign(this, { fun, penalty, box, side, rows, steepest: 0 });
    this.g = new Float64Array(side * rows * fun.n);
    this.bent = new Float64Array(side * rows * fun.n);
    for (let row = 0, at = 0; row < rows; row++) {
      for (let column = 0; column < side; column++, at += fun.n) {
        const x = this.point(column, row), g = fun.grad(x);
        this.g.set(g, at);
        this.bent.set(times(penalty.scale, fun.hvp(x, penalty.vector(g))), at);
        const size = norm(g);
        if (size < Infinity) this.steepest = Math.max(this.steepest, size);
      }
    }
  }

  point(column, row) {
    const at = [column, row];
    return this.box.map(([low, high], i) => low + (at[i] / (this.side - 1)) * (high - low));
  }

  direction(x, lam) {
    const { fun, penalty } = this, g = fun.grad(x);
    return plus(g, times(penalty.scale * lam, fun.hvp(x, penalty.vector(g))));
  }

  // The points for a λ that are wanted: Newton's method from the cells in which every component changes sign.
  points(lam, wanted = () => true) {
    const { side, rows } = this, found = [];
    for (let row = 0; row < Math.max(rows - 1, 1) && lam !== 0; row++) {
      for (let column = 0; column < side - 1 && found.length < MOST; column++) {
        if (!this.changes(row * side + column, lam)) continue;
        const x = this.refined(this.point(column + 0.5, row + 0.5), lam);
        if (x && !found.some((other) => this.near(x, other, 1e-3)) && wanted(x)) found.push(x);
      }
    }
    return found;
  }

  // Those of them in which a descent on f + λh can end: its minima, and no maxima or saddles.
  ends(lam) {
    return this.points(lam, (x) => {
      const J = this.slopes(x, lam);
      return this.fun.n === 1 ? J[0][0] > 0 : J[0][0] > 0 && J[0][0] * J[1][1] > J[0][1] * J[1][0];
    });
  }

  // the derivatives of the penalised direction by each variable
  slopes(x, lam) {
    return this.box.map(([low, high], i) => {
      const h = 1e-6 * (high - low), shift = this.box.map((_, j) => (i === j ? h : 0));
      const ahead = this.direction(plus(x, shift), lam), back = this.direction(plus(x, times(-1, shift)), lam);
      return ahead.map((value, j) => (value - back[j]) / (2 * h));
    });
  }

  // whether every component of the penalised direction has both signs at the corners of a cell
  changes(first, lam) {
    const { g, bent, side } = this, { n } = this.fun;
    for (let i = 0; i < n; i++) {
      let low = false, high = false;
      for (let corner = 0; corner < 2 * n; corner++) {
        const at = (first + (corner & 1) + (corner >> 1) * side) * n + i, value = g[at] + lam * bent[at];
        low ||= value <= 0;
        high ||= value >= 0;
      }
      if (!(low && high)) return false;
    }
    return true;
  }

  near(x, other, part) {
    return this.box.every(([low, high], i) => Math.abs(x[i] - other[i]) < part * (high - low));
  }

  // The zero near a point; null where there is none, or where it is f's own.
  refined(start, lam) {
    const { fun } = this, wide = this.box.map(([low, high]) => high - low);
    let x = start;
    for (let turn = 0; turn < NEWTON; turn++) {
      const p = this.direction(x, lam), J = this.slopes(x, lam);
      const step = fun.n === 1 ? [p[0] / J[0][0]] : solved(J, p);
      x = plus(x, times(-1, step));
      if (!this.near(x, start, 2 / (this.side - 1))) return null;
      if (step.every((value, i) => Math.abs(value) < TOLERANCE * wide[i])) {
        return norm(fun.grad(x)) > STEEP * this.steepest ? x : null;
      }
    }
    return null;
  }
}

export const artificialPoints = (fun, lam, penalty = "squared-l2") =>
  new Artificial(fun, penalties[penalty], fun.bounds).points(lam);

// J[i] holds the derivatives by x[i]
function solved([[a, c], [b, d]], [p, q]) {
  const det = a * d - b * c;
  return [(d * p - b * q) / det, (a * q - c * p) / det];
}
