// A start, α and λ for a function that the paper has none for. α is a part of GD's best, since it is there that λ helps.

import { minimize } from "./run.js";
import { dot, minus, times, within } from "./vectors.js";

export const GRADS = 40;
// parts of the box
const STARTS = [[0.15, 0.8], [0.8, 0.85], [0.25, 0.2], [0.7, 0.25], [0.05, 0.65], [0.95, 0.8], [0.4, 0.3], [0.6, 0.6]];
const PARTS = [0.2, 0.1, 0.33, 0.05], LAMS = [0.1, 0.25, 0.5, 1, 2, 5]; // of GD's best α, and of 1/curvature

// 1, 2 or 5 times a power of ten
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value)), digit = value / power;
  return Number(((digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10) * power).toPrecision(1));
}

// where GD gets to with a step; null where that raises f or leaves the box
function end(fun, start, step) {
  const { trace } = minimize(fun, start, "gd", { step, grads: GRADS });
  return trace.every(({ x, f }, i) => within(x, fun.bounds) && f <= (trace[i - 1]?.f ?? f)) ? { ...trace.at(-1), step } : null;
}

// GD's best step from a start: the one that gets lowest
export function best(fun, start) {
  const ends = Array.from({ length: 37 }, (_, k) => end(fun, start, nice(10 ** ((k - 24) / 3))));
  return ends.filter(Boolean).toSorted((a, b) => a.f - b.f)[0] ?? null;
}

// of some starts, the one from which GD gets furthest, in f and in x, with a part of its best step
function begun(fun) {
  const starts = STARTS.map((part) => fun.bounds.map(([low, high], i) => low + part[i] * (high - low)));
  if (fun.minima.length) starts.push(fun.bounds.map(([low, high], i) => fun.minima[0][i] + 0.003 * (1 + i) * (high - low)));
  const rounded = starts.map((x) => x.map((value) => Number(value.toPrecision(4)))).filter((x) => Number.isFinite(fun.value(x)));
  const runs = rounded.flatMap((start) => {
    const { step } = best(fun, start) ?? {}, run = step ? end(fun, start, nice(PARTS[0] * step)) : null;
    return run ? [{ ...run, step, start, from: fun.value(start) }] : [];
  });
  const floor = Math.min(fun.fmin ?? Infinity, ...runs.map(({ f }) => f));
  const worth = ({ x, f, from, start }) => {
    const moved = Math.max(...fun.bounds.map(([low, high], i) => Math.abs(x[i] - start[i]) / (high - low)));
    return Math.min((from - f) / (from - floor) || 0, 4 * moved);
  };
  return runs.toSorted((a, b) => worth(b) - worth(a))[0] ?? { start: rounded[0] ?? starts[0], step: 0.05 };
}

export function suggested(fun) {
  const { start, step: most } = begun(fun), g = fun.grad(start), bend = dot(g, fun.hvp(start, g)) / dot(g, g);
  const lams = LAMS.map((part) => nice(part * Math.abs(1 / bend))).filter((lam) => lam > 0 && lam < 1e9);
  const tried = PARTS.map((part) => {
    const step = nice(most * part);
    const last = (method, one) => minimize(fun, start, method, { step, lam: one, grads: GRADS }).trace.at(-1).f;
    const ends = lams.map((one) => [last("cgd-fd", one), one]).filter(([value]) => Number.isFinite(value));
    const [f, lam] = ends.toSorted(([a], [b]) => a - b)[0] ?? [Infinity, 0.1], plain = last("gd", 0);
    return { start, step, lam, helps: f < plain - 1e-3 * (fun.value(start) - plain) };
  });
  return tried.find(({ helps }) => helps) ?? tried[0];
}
