// The pairs (s, y) of cgd-auto, scaled to sᵀy = 1, and the inverse Hessian that they make: steepen's
// directions/_pairs.py.

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

  clear(D = new Array(this.n).fill(1)) {
    const m = this.capacity, vectors = () => Array.from({ length: m }, () => zeros(this.n));
    Object.assign(this, { S: vectors(), Y: vectors(), conjugate: zeros(m), count: 0 });
    this.R = Array.from({ length: m }, () => zeros(m)); // R⁻¹
    this.D = D;
    this.E = D.map((value) => 1 / value);
  }

  // G·v; places that are not in use hold zeros in R⁻¹, and change nothing
  product(v) {
    const { S, Y, R, D, gamma } = this;
    const u = products(R, products(S, v));
    const plain = times(gamma, scaled(D, minus(v, mix(u, Y))));
    return plus(plain, mix(mix(minus(u, products(Y, plain)), R), S));
  }

  // Takes in a pair, with sᵀy and ‖s‖, made conjugate to those that agree; returns whether it is of use.
  add(s, y, sy, length) {
    if (!(sy > CURVATURE * length * norm(y))) return false;
    const { S, Y, R } = this, place = this.count % this.capacity;
    this.learn(s, y, sy);
    if (this.count >= this.capacity) {
      R[place].fill(0);
      this.conjugate[place] = 0;
    }
    const [s1, y1, rest] = this.conjugated(s, y, sy), unit = 1 / Math.sqrt(rest);
    const known = products(R, products(S, times(unit, y1)));
    known.forEach((value, i) => (R[i][place] = i === place ? 1 : -value));
    S[place] = times(unit, s1);
    Y[place] = times(unit, y1);
    this.conjugate[place] = 1;
    this.count++;
    return true;
  }

  // The pair without its parts along those that agree, and its sᵀy; without a rest, the others are let go.
  conjugated(s, y, sy) {
    if (this.count === 0) return [s, y, sy];
    const { S, Y } = this, withS = products(Y, s), withY = products(S, y);
    const agree = this.conjugate.map((value, i) => value * ((withS[i] - withY[i]) ** 2 / sy <= ASYMMETRY ** 2));
    const c = agree.map((value, i) => 0.5 * value * (withS[i] + withY[i]));
    const s1 = minus(s, mix(c, S)), y1 = minus(y, mix(c, Y)), rest = dot(s1, y1);
    const enough = rest > INDEPENDENT * sy && rest > CURVATURE * norm(s1) * norm(y1);
    this.conjugate = enough ? agree : zeros(this.capacity);
    return enough ? [s1, y1, rest] : [s, y, sy];
  }

  // D by the diagonal of the BFGS formula (Gilbert and Lemaréchal, 1989); γ between the short and the long ratio
  learn(s, y, sy) {
    const moved = scaled(s, this.E);
    const stretch = dot(y, scaled(this.D, y)) / sy, share = stretch / dot(s, moved);
    const E = this.E.map((old, i) => Math.abs(stretch * old - share * moved[i] ** 2) + (1 / sy) * y[i] ** 2);
    const D = E.map((value) => 1 / value);
    if (plus(D, E).every(Number.isFinite)) Object.assign(this, { D, E });
    const short = sy / dot(y, scaled(this.D, y)), long = dot(s, scaled(this.E, s)) / sy;
    const gamma = short * (long / short) ** (LONG / (LONG + this.n));
    if (gamma > 0 && gamma < Infinity) this.gamma = gamma;
  }
}
