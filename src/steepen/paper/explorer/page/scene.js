// What there is to see for the settings: the runs, the landscape, its cut. What a change leaves alone is kept.

import { artificialMinima } from "./artificial.js";
import { Landscape } from "./landscape.js";
import { minimize } from "./run.js";
import { clip, dot, minus, norm, plus, times, within } from "./vectors.js";

const TALLEST = 30; // the chart shows no more than this many times the gap of the start
const FAR = 3; // a minimum is brought into view unless it is this many times as far as the runs are long
const COLUMNS = 320, ROWS = 240, CURVE = 800, SLICE = 300;

// the gradients that had been spent when an iterate was reached; a product H·v counts as one
export const spent = (row) => row.njev + row.nhvp;

// whether the penalty was switched off at this iterate of a run
export const switchedOff = ({ trace }, i) =>
  i > 0 && trace[i - 1].penalised && !trace[i].penalised && !trace[i].guarded && !Number.isNaN(trace[i].step);

export class Scene {
  constructor(functions) {
    Object.assign(this, { functions, made: {} });
  }

  set(settings) {
    const { start, step, lam, r, b, grads } = settings;
    this.settings = settings;
    this.fun = this.functions[settings.function];
    this.runs = settings.methods.map((method) => minimize(this.fun, start, method, { step, lam, r, b, grads }));
    if (settings.box === undefined) settings.box = this.fitted;
    this.box = settings.box ?? this.fun.bounds;
    this.surface = `${settings.function} ${settings.expr} ${settings.map} ${settings.box}`;
  }

  // `key` is all that the thing depends on
  once(name, key, make) {
    if (this.made[name]?.key !== key) this.made[name] = { key, value: make() };
    return this.made[name].value;
  }

  get landscape() {
    const grid = this.fun.n === 1 ? [CURVE, 1] : [COLUMNS, ROWS];
    return this.once("landscape", this.surface, () => new Landscape(this.fun, this.box, ...grid));
  }

  get artificial() {
    const { fun, landscape, settings: { lam } } = this;
    return this.once("artificial", `${this.surface} ${lam}`, () => artificialMinima(fun, landscape, lam));
  }

  get slice() {
    return this.once("slice", `${this.surface} ${this.settings.start}`, () => this.sliced());
  }

  // the part of a run that is shown: what `at` gradients have paid for; the first step of each where it is 0
  shown({ trace }) {
    const { at } = this.settings;
    return at === 0 ? trace.slice(0, 2) : trace.filter((row) => spent(row) <= at);
  }

  // whether f* is known; beyond its box a function may fall lower
  get known() {
    const { fmin } = this.fun, values = this.runs.flatMap((one) => one.trace.map((row) => row.f));
    return fmin !== null && !values.some((f) => f < fmin - 1e-9 * Math.max(1, Math.abs(fmin)));
  }

  // f above f*, 0 where it is within rounding; f itself where f* is not known
  gap(f) {
    const { fmin } = this.fun;
    if (!this.known) return f;
    return Math.abs(f - fmin) > 1e-13 * Math.abs(fmin) ? f - fmin : 0;
  }

  // the heights of the chart: a run that diverges must not hide the others
  get heights() {
    const from = this.gap(this.fun.value(this.settings.start));
    const seen = this.runs.flatMap((one) => one.trace.map((row) => this.gap(row.f))).filter(Number.isFinite);
    if (!this.known) {
      const { least, most } = this.landscape, high = Number.isFinite(from) ? from : most;
      const low = Math.max(Math.min(high, ...seen), 2 * least - most), pad = 0.1 * (high - low) || 1;
      return [low - pad, high + 3 * pad];
    }
    const above = seen.filter((gap) => gap > 0), highest = Math.max(...above, Number.MIN_VALUE);
    const top = from > 0 ? Math.min(highest, TALLEST * from) : highest;
    const bottom = Math.max(Math.min(...above, top) / 2, 1e-9 * top);
    return [bottom, Math.max(2 * top, 10 * bottom)];
  }

  // f and ‖∇f‖² on the line from the start down the gradient, as far as the map shows it
  sliced() {
    const { fun, box } = this, { start } = this.settings, g = fun.grad(start), size = norm(g);
    const way = size > 0 && size < Infinity ? times(-1 / size, g) : start.map((_, i) => +(i === 0));
    let [low, high] = [-Infinity, Infinity];
    box.forEach(([least, most], i) => {
      if (way[i] === 0) return;
      const ends = [(least - start[i]) / way[i], (most - start[i]) / way[i]];
      [low, high] = [Math.max(low, Math.min(...ends)), Math.min(high, Math.max(...ends))];
    });
    if (!(low < high)) [low, high] = [-1, 1]; // the start lies outside the box
    const ts = Array.from({ length: SLICE }, (_, i) => low + (i / (SLICE - 1)) * (high - low));
    // the ends may lie outside the box by a rounding
    const points = ts.map((t) => plus(start, times(t, way)).map((x, i) => (within([x], [fun.bounds[i]]) ? x : clip(x, ...box[i]))));
    const along = (x) => dot(minus(x, start), way);
    const h = points.map((x) => dot(fun.grad(x), fun.grad(x)));
    return { ts, along, ends: [points[0], points.at(-1)], f: points.map(fun.value), h };
  }

  // the box around the runs and the minimum that they head for, inside that of the function; none of its sides is
  // much shorter than the others
  get fitted() {
    const { bounds, minima } = this.fun, wide = bounds.map(([low, high]) => high - low);
    const start = this.settings.start.map((x, i) => clip(x, ...bounds[i]));
    const seen = [start, ...this.runs.flatMap((one) => one.trace.map((row) => row.x)).filter((x) => within(x, bounds))];
    const far = (a, b) => Math.max(...wide.map((side, i) => Math.abs(a[i] - b[i]) / side)), end = seen.at(-1);
    const nearest = minima.toSorted((a, b) => far(a, end) - far(b, end))[0];
    const long = Math.max(0.005, ...seen.map((x) => far(x, start)));
    if (nearest && far(nearest, end) <= FAR * long) seen.push(nearest);
    const spans = bounds.map((_, i) => [Math.min(...seen.map((x) => x[i])), Math.max(...seen.map((x) => x[i]))]);
    const part = Math.max(0.01, ...spans.map(([a, b], i) => (0.4 * (b - a)) / wide[i]));
    return spans.map(([least, most], i) => {
      const [low, high] = bounds[i], side = Math.max(1.4 * (most - least), part * wide[i]);
      const from = clip((least + most - side) / 2, low, Math.max(low, high - side));
      return [from, Math.min(high, from + side)].map((x) => Number(x.toPrecision(5)));
    });
  }
}
