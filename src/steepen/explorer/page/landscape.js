// Grids of f and h(∇f), made once for a function and a penalty: a new λ only recombines them.

import { EPS, dot } from "./vectors.js";

export class Landscape {
  constructor(fun, penalty, box, columns, rows) {
    const [[low, high], [bottom, top]] = [box[0], box[1] ?? [0, 0]];
    Object.assign(this, { columns, rows });
    const count = columns * rows;
    this.f = new Float64Array(count);
    this.h = new Float64Array(count);
    let i = 0;
    for (let row = 0; row < rows; row++) {
      const y = top - ((row + 0.5) / rows) * (top - bottom);
      for (let column = 0; column < columns; column++, i++) {
        const x = low + ((column + 0.5) / columns) * (high - low);
        const point = fun.n === 1 ? [x] : [x, y];
        this.f[i] = fun.value(point);
        this.h[i] = penalty.value(fun.grad(point));
      }
    }
    const known = this.f.filter(Number.isFinite).sort();
    const at = (part) => known[Math.floor(part * (known.length - 1))];
    this.least = Math.min(fun.fmin ?? Infinity, at(0));
    this.most = at(1);
    // levels are dense where f is low: those of log(1 + (f − least)/scale)
    this.scale = Math.max((at(0.5) - this.least) / 20, EPS * Math.abs(this.least), Number.MIN_VALUE);
    this.depth = Math.log1p((this.most - this.least) / this.scale);
  }
}

// 1, 2 or 5 times a power of ten
export function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value)), digit = value / power;
  return Number(((digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10) * power).toPrecision(1));
}

// α and λ to begin with where the paper has none, from the curvature along ∇f that is seen over the box
export function suggested(fun) {
  const bends = [];
  for (const a of [0.1, 0.3, 0.5, 0.7, 0.9]) {
    for (const b of fun.n === 1 ? [0] : [0.11, 0.31, 0.51, 0.71, 0.91]) {
      const x = fun.bounds.map(([low, high], i) => low + (i ? b : a) * (high - low));
      const g = fun.grad(x), bend = Math.abs(dot(g, fun.hvp(x, g))) / dot(g, g);
      if (bend > 0 && bend < Infinity) bends.push(bend);
    }
  }
  const steep = bends.sort((a, b) => a - b)[Math.floor(0.8 * bends.length)] ?? 1;
  return { step: nice(0.15 / steep), lam: nice(0.5 / steep) };
}
