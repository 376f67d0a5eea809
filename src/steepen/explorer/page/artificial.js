// Artificial stationary points: where ∇f + λ·H·∇h(∇f) = 0 and ∇f is not.

import { norm, plus, times } from "./vectors.js";

const CELLS = { 1: 2000, 2: 90 }, MOST = 60, NEWTON = 12, TOLERANCE = 1e-9, STEEP = 1e-6;

export class Artificial {
  constructor(fun, penalty, box) {
    const cells = CELLS[fun.n], side = cells + 1, rows = fun.n === 1 ? 1 : side;
    Object.assign(this, { fun, penalty, box, side, rows, steepest: 0 });
    this.g = [];
    this.bent = [];
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < side; column++) {
        const x = this.point(column, row), g = fun.grad(x);
        this.g.push(g);
        this.bent.push(times(penalty.scale, fun.hvp(x, penalty.vector(g))));
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

  // The points for a λ: Newton's method from the cells in which every component changes sign.
  points(lam) {
    const { fun, side, rows, g, bent } = this, found = [];
    if (lam === 0) return found;
    const corners = fun.n === 1 ? [0, 1] : [0, 1, side, side + 1];
    for (let row = 0; row < Math.max(rows - 1, 1); row++) {
      for (let column = 0; column < side - 1; column++) {
        const first = row * side + column;
        const changes = g[first].every((_, i) => {
          const values = corners.map((c) => g[first + c][i] + lam * bent[first + c][i]);
          return Math.min(...values) <= 0 && Math.max(...values) >= 0;
        });
        const x = changes && this.refined(this.point(column + 0.5, row + 0.5), lam);
        if (x && !found.some((other) => this.near(x, other, 1e-3))) found.push(x);
        if (found.length === MOST) return found;
      }
    }
    return found;
  }

  near(x, other, part) {
    return this.box.every(([low, high], i) => Math.abs(x[i] - other[i]) < part * (high - low));
  }

  // The zero near a point; null where there is none, or where it is f's own.
  refined(start, lam) {
    const { fun } = this, wide = this.box.map(([low, high]) => high - low);
    let x = start;
    for (let turn = 0; turn < NEWTON; turn++) {
      const p = this.direction(x, lam);
      const J = wide.map((width, i) => {
        const h = 1e-6 * width, shift = wide.map((_, j) => (i === j ? h : 0));
        const ahead = this.direction(plus(x, shift), lam), back = this.direction(plus(x, times(-1, shift)), lam);
        return ahead.map((value, j) => (value - back[j]) / (2 * h));
      });
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

// J[i] holds the derivatives by x[i]
function solved([[a, c], [b, d]], [p, q]) {
  const det = a * d - b * c;
  return [(d * p - b * q) / det, (a * q - c * p) / det];
}
