// Grids of f and h(∇f), made once for a function and a penalty: a new λ only recombines them.

import { EPS } from "./vectors.js";

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
    const at = (part) => known[Math.floor(part * (known.length - 1))] ?? 0; // 0 where f has no value at all
    this.least = Math.min(fun.fmin ?? Infinity, at(0));
    this.most = at(1);
    // levels are dense where f is low: those of log(1 + (f − least)/scale)
    this.scale = Math.max((at(0.5) - this.least) / 20, EPS * Math.abs(this.least), Number.MIN_VALUE);
    this.depth = Math.log1p((this.most - this.least) / this.scale) || 1;
  }
}
