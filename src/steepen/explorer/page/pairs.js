// The pairs (s, y) of cgd-auto and the inverse Hessian that they make: steepen's directions/_pairs.py.
// In the plane the memory never holds FRESH pairs, so the metric D is renewed with each.

import { dot, minus, norm, plus, scaled, times, zeros } from "./vectors.js";

const ASYMMETRY = 0.03, INDEPENDENT = 1e-4, LONG = 30, CURVATURE = 1e-10;

const products = (rows, v) => rows.map((row) => dot(row, v));
const mix = (c, rows) => rows.reduce((sum, row, i) => plus(sum, times(c[i], row)), zeros(rows[0].length));

export class Pairs {
  constructor(n) {
    this.n = n;
    this.capacity = 2 * n + 8;
    this.gamma = 1;
    this.clear();
  }

  clear() {
    const m = this.capacity, vectors = () => Array.from({ length: m }, () => zeros(this.n));
    Object.assign(this, { S: vectors(), Y: vectors(), rho: zeros(m), conjugate: zeros(m), count: 0 });
    this.R = Array.from({ length: m }, () => zeros(m)); // R⁻¹
    this.D = new Array(this.n).fill(1);
  }

  // G·v, in compact form; places that are not in use hold zeros in R⁻¹, and change nothing
  product(v) {
    const { S, Y, R, D, gamma } = this, first = times(gamma, scaled(D, v));
    if (this.count === 0) return first;
    const u = products(R, products(S, v));
    const YDYu = products(Y, scaled(D, mix(u, Y)));
    const w = minus(plus(times(gamma, YDYu), scaled(this.rho, u)), products(Y, first));
    return minus(plus(first, mix(mix(w, R), S)), times(gamma, scaled(D, mix(u, Y))));
  }

  // Takes in a pair, with sᵀy and ‖s‖, made conjugate to those that agree; returns whether it is of use.
  add(s, y, sy, length) {
    if (!(sy > CURVATURE * length * norm(y))) return false;
    const { S, Y, R, rho, conjugate } = this, place = this.count % this.capacity;
    const D = this.diagonal(s, y, sy);
    if (this.count >= this.capacity) {
      R[place].fill(0);
      conjugate[place] = 0;
    }
    let s1 = s, y1 = y, rest = sy;
    if (this.count) {
      const inverse = rho.map((value) => 1 / (value || 1));
      const withS = products(Y, s), withY = products(S, y);
      const agree = conjugate.map(
        (value, i) => value * ((withS[i] - withY[i]) ** 2 * inverse[i] <= ASYMMETRY ** 2 * sy),
      );
      const c = agree.map((value, i) => ((withS[i] + withY[i]) / 2) * inverse[i] * value);
      const s2 = minus(s, mix(c, S)), y2 = minus(y, mix(c, Y)), left = dot(s2, y2);
      const enough = left > INDEPENDENT * sy && left > CURVATURE * norm(s2) * norm(y2);
      if (enough) [s1, y1, rest] = [s2, y2, left];
      this.conjugate = enough ? agree : zeros(this.capacity);
    }
    const column = times(-1 / rest, products(R, products(S, y1)));
    column[place] = 1 / rest;
    column.forEach((value, i) => (R[i][place] = value));
    S[place] = s1;
    Y[place] = y1;
    rho[place] = rest;
    this.conjugate[place] = 1;
    this.D = D;
    this.count++;
    const part = LONG / (LONG + this.n);
    const short = sy / dot(y, scaled(D, y)), long = dot(s, s.map((value, i) => value / D[i])) / sy;
    const gamma = short ** (1 - part) * long ** part;
    if (gamma > 0 && gamma < Infinity) this.gamma = gamma;
    return true;
  }

  // D updated by the diagonal of the BFGS formula (Gilbert and Lemaréchal, 1989)
  diagonal(s, y, sy) {
    const { D } = this, moved = s.map((value, i) => value / D[i]);
    const stretch = dot(y, scaled(D, y)) / sy, share = stretch / dot(s, moved);
    return D.map((old, i) => {
      const value = stretch / old + (y[i] * y[i]) / sy - share * moved[i] * moved[i];
      const learnt = 1 / value;
      return value > 0 && learnt > 0 && learnt < Infinity ? learnt : old;
    });
  }
}
