// What there is to see for the settings: the landscape, its cut, the runs. What a change leaves alone is kept.

import { Artificial } from "./artificial.js";
import { Landscape } from "./landscape.js";
import { Painter } from "./paint.js";
import { penalties } from "./penalties.js";
import { minimize } from "./run.js";
import { clip, dot, minus, norm, plus, times } from "./vectors.js";

const BEYOND = 30; // the race shows no more than this many times the gap of the start
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
    this.name = settings.function === "typed" ? `${settings.expr} on ${settings.map}` : settings.function;
    this.runs = settings.methods.map((method) => {
      const step = search || method === "bfgs" || method === "cgd-auto" ? null : settings.step;
      const own = settings.tuned ? this.fun.tuned?.[method] : {}; // each method has its own
      return minimize(this.fun, start, method, { step, lam, r, b, grads, penalty, price: 1, ...own });
    });
    if (settings.box === undefined) settings.box = this.walked;
    this.box = settings.box ?? this.fun.bounds;
    this.surface = `${this.name} ${penalty} ${settings.box}`;
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
    return this.once("artificial", `${surface} ${settings.lam}`, () => finder.ends(settings.lam));
  }

  get slice() {
    return this.once("slice", `${this.surface} ${this.settings.start}`, () => this.sliced());
  }

  // the part of a run that its first gradients, as many as the race shows, have paid for
  shown({ trace }) {
    return trace.filter((row) => spent(row) <= this.settings.at);
  }

  // the lowest value that the runs have seen
  get lowest() {
    return Math.min(...this.runs.flatMap((one) => one.trace.map((row) => row.f)).filter(Number.isFinite));
  }

  // whether f* is known; beyond its box a function may fall lower
  get known() {
    const { fmin } = this.fun;
    return fmin !== null && !(this.lowest < fmin - 1e-9 * Math.max(1, Math.abs(fmin)));
  }

  // f above f*, of which what is within rounding is nothing; f alone where f* is not known
  gap(f) {
    const { fmin } = this.fun;
    if (!this.known) return f;
    return Math.abs(f - fmin) > 1e-13 * Math.abs(fmin) ? f - fmin : 0;
  }

  // the heights of the race: one that diverges must not hide the others
  get heights() {
    const { least, most } = this.landscape, from = this.gap(this.fun.value(this.settings.start));
    const seen = this.runs.flatMap((one) => one.trace.map((row) => this.gap(row.f))).filter(Number.isFinite);
    if (!this.known) {
      const low = Math.max(Math.min(from, ...seen), 2 * least - most), pad = 0.1 * (from - low) || 1;
      return [low - pad, from + 3 * pad];
    }
    const above = seen.filter((gap) => gap > 0), highest = Math.max(...above, Number.MIN_VALUE);
    const top = from > 0 ? Math.min(highest, BEYOND * from) : highest;
    const bottom = Math.max(Math.min(...above, top) / 2, 1e-9 * top);
    return [bottom, Math.max(2 * top, 10 * bottom)];
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

  // the box around the paths, inside that of the function; none of its sides is much shorter than the others
  get walked() {
    const { bounds } = this.fun, walked = this.runs.flatMap((one) => one.trace.map((row) => row.x));
    const inside = (x) => x.every((value, i) => value >= bounds[i][0] && value <= bounds[i][1]);
    const seen = [this.settings.start.map((x, i) => clip(x, ...bounds[i])), ...walked.filter(inside)];
    const spans = bounds.map((_, i) => [Math.min(...seen.map((x) => x[i])), Math.max(...seen.map((x) => x[i]))]);
    const part = Math.max(0.01, ...spans.map(([a, b], i) => (0.4 * (b - a)) / (bounds[i][1] - bounds[i][0])));
    return spans.map(([least, most], i) => {
      const [low, high] = bounds[i], side = Math.max(1.4 * (most - least), part * (high - low));
      const from = clip((least + most - side) / 2, low, Math.max(low, high - side));
      return [from, Math.min(high, from + side)].map((x) => Number(x.toPrecision(5)));
    });
  }
}
