// What there is to see for the settings: the landscape, its cut, the runs. What a change leaves alone is kept.

import { Artificial } from "./artificial.js";
import { Landscape } from "./landscape.js";
import { Painter } from "./paint.js";
import { penalties } from "./penalties.js";
import { minimize } from "./run.js";
import { clip, dot, minus, norm, plus, times } from "./vectors.js";

const COLUMNS = 400, ROWS = 300, CURVE = 800, SLICE = 300;

// the gradients that had been spent when an iterate was reached; a product counts as one
export const spent = (row) => row.njev + row.nhvp;

// whether the penalty was switched off at this iterate of a run
export const switchedOff = ({ trace }, i) =>
  i > 0 && trace[i - 1].penalised && !trace[i].penalised && !trace[i].guarded && !Number.isNaN(trace[i].step);

export class Scene {
  constructor(functions) {
    Object.assign(this, { functions, made: {} });
  }

  set(settings) {
    const { start, grads, lam, r, b, search, penalty } = settings;
    this.settings = settings;
    this.fun = this.functions[settings.function];
    this.penalty = penalties[penalty];
    this.box = settings.box ?? this.fun.bounds;
    this.surface = `${settings.function} ${penalty} ${settings.box}`;
    this.runs = settings.methods.map((method) => {
      const step = search || method === "bfgs" || method === "cgd-auto" ? null : settings.step;
      return minimize(this.fun, start, method, { step, lam, r, b, grads, penalty, price: 1 });
    });
  }

  // `key` is all that the thing depends on
  once(name, key, make) {
    if (this.made[name]?.key !== key) this.made[name] = { key, value: make() };
    return this.made[name].value;
  }

  get landscape() {
    const grid = this.fun.n === 1 ? [CURVE, 1] : [COLUMNS, ROWS];
    return this.once("landscape", this.surface, () => new Landscape(this.fun, this.penalty, this.box, ...grid));
  }

  get painter() {
    return this.once("painter", this.surface, () => new Painter(this.landscape));
  }

  get artificial() {
    const { surface, settings } = this;
    const finder = this.once("finder", surface, () => new Artificial(this.fun, this.penalty, this.box));
    return this.once("artificial", `${surface} ${settings.lam}`, () => finder.points(settings.lam));
  }

  get slice() {
    return this.once("slice", `${this.surface} ${this.settings.start}`, () => this.sliced());
  }

  // the part of a run that its first gradients, as many as the race shows, have paid for
  shown({ trace }) {
    return trace.filter((row) => spent(row) <= this.settings.at);
  }

  // f*, or the lowest value seen where it is not known
  get floor() {
    const seen = this.runs.flatMap((one) => one.trace.map((row) => row.f)).filter(Number.isFinite);
    return this.fun.fmin ?? Math.min(this.landscape.least, ...seen);
  }

  // f above the floor; what is within the rounding of f* is nothing
  gap(f) {
    const { floor } = this;
    return Math.abs(f - floor) > 1e-13 * Math.abs(floor) ? f - floor : 0;
  }

  // f and h on the line through the start and the nearest minimum, or down the gradient where none is known
  sliced() {
    const { fun, penalty } = this, { start } = this.settings;
    const nearest = fun.minima.toSorted((a, b) => norm(minus(a, start)) - norm(minus(b, start)))[0];
    let way = nearest ? minus(nearest, start) : times(-1, fun.grad(start));
    if (!(norm(way) > 0)) way = [1, 0];
    way = times(1 / norm(way), way);
    let [low, high] = [-Infinity, Infinity];
    fun.bounds.forEach(([least, most], i) => {
      if (way[i] === 0) return;
      const ends = [(least - start[i]) / way[i], (most - start[i]) / way[i]];
      [low, high] = [Math.max(low, Math.min(...ends)), Math.min(high, Math.max(...ends))];
    });
    if (!(low < high)) [low, high] = [-1, 1]; // the start lies outside the box
    const ts = Array.from({ length: SLICE }, (_, i) => low + (i / (SLICE - 1)) * (high - low));
    // the ends may lie outside the box by a rounding
    const points = ts.map((t) => plus(start, times(t, way)).map((x, i) => clip(x, ...fun.bounds[i])));
    const mark = nearest ? [dot(minus(nearest, start), way), fun.fmin] : null;
    return { ts, f: points.map((x) => fun.value(x)), h: points.map((x) => penalty.value(fun.grad(x))), mark };
  }

  // the box around the paths, inside that of the function
  get walked() {
    const seen = [this.settings.start, ...this.runs.flatMap((one) => this.shown(one).map((row) => row.x))];
    return this.fun.bounds.map(([low, high], i) => {
      const xs = seen.map((x) => clip(x[i], low, high)), [least, most] = [Math.min(...xs), Math.max(...xs)];
      const pad = Math.max(0.2 * (most - least), 0.005 * (high - low));
      return [Math.max(low, least - pad), Math.min(high, most + pad)].map((x) => Number(x.toPrecision(4)));
    });
  }
}
