// f and ‖∇f‖² on a grid, made once for a function and a box: a new λ only recombines them, as colours and contours.

import { EPS, dot } from "./vectors.js";

const BANDS = 18; // contours between the lowest and the highest f
const SHADES = 512, BEYOND = 2; // colours go on to twice the depth of f, where the penalty has lifted it
// the same in the light and in the dark: blue is low, red is high
const LOW_TO_HIGH = ["#2a5b86", "#5f93b8", "#a3c8d6", "#dbe8e2", "#f5efdf", "#efd6ad", "#dda97c", "#bf7455", "#94433a"];
const NOWHERE = [138, 138, 138]; // where f has no value

const channels = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
const STOPS = LOW_TO_HIGH.map(channels);
const PALETTE = Array.from({ length: SHADES }, (_, i) => {
  const place = (i / (SHADES - 1)) * (STOPS.length - 1), k = Math.min(Math.floor(place), STOPS.length - 2);
  return STOPS[k].map((low, c) => low + (place - k) * (STOPS[k + 1][c] - low));
});

export class Landscape {
  constructor(fun, box, columns, rows) {
    Object.assign(this, { box, columns, rows, f: new Float64Array(columns * rows), h: new Float64Array(columns * rows) });
    for (let i = 0; i < columns * rows; i++) {
      const point = this.point(i % columns, Math.floor(i / columns)), g = fun.grad(point);
      this.f[i] = fun.value(point);
      this.h[i] = dot(g, g);
    }
    const known = this.f.filter(Number.isFinite).sort();
    const at = (part) => known[Math.floor(part * (known.length - 1))] ?? 0; // 0 where f has no value at all
    this.least = Math.min(fun.fmin ?? Infinity, at(0));
    this.most = at(1);
    // levels are dense where f is low: those of log(1 + (f − least)/scale)
    this.scale = Math.max((at(0.5) - this.least) / 20, EPS * Math.abs(this.least), Number.MIN_VALUE);
    this.depth = Math.log1p((this.most - this.least) / this.scale) || 1;
  }

  // the middle of a cell; rows go down
  point(column, row) {
    const [[low, high], [bottom, top] = []] = this.box, x = low + ((column + 0.5) / this.columns) * (high - low);
    return this.rows === 1 ? [x] : [x, top - ((row + 0.5) / this.rows) * (top - bottom)];
  }

  paint(lam) {
    const { f, h, columns, rows, least, scale, depth } = this;
    this.canvas ??= Object.assign(document.createElement("canvas"), { width: columns, height: rows });
    const context = this.canvas.getContext("2d"), image = context.createImageData(columns, rows);
    const heights = Float32Array.from(f, (value, i) => {
      const above = (value + lam * h[i] - least) / scale;
      return (BANDS / depth) * (above <= 0 ? 0 : above < Infinity ? Math.log1p(above) : NaN);
    });
    for (let i = 0; i < heights.length; i++) {
      const height = heights[i], right = (i + 1) % columns ? 1 : -1, down = i + columns < heights.length ? columns : -columns;
      const slope = Math.max(Math.abs(heights[i + right] - height), Math.abs(heights[i + down] - height));
      const apart = Math.abs(height - Math.round(height)), line = apart < slope && slope < 1 ? (1 - apart / slope) * (1 - slope) : 0;
      const shade = Math.min(SHADES - 1, Math.floor((height * (SHADES - 1)) / (BEYOND * BANDS)));
      const colour = PALETTE[shade] ?? NOWHERE; // no shade is NaN's
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = colour[c] * (1 - 0.3 * line);
      image.data[4 * i + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    return this.canvas;
  }
}
