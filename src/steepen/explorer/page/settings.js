// What is set on the page, and the address line that carries it.

import { typed } from "./expression.js";
import { penalties } from "./penalties.js";
import { minimize } from "./run.js";
import { dot, minus, norm, times } from "./vectors.js";

export const METHODS = ["gd", "cgd", "cgd-fd", "bfgs", "cgd-auto"];
const SHOWN = ["gd", "cgd-fd"], GRADS = 40, MOST = 1000;
export const MAP = [-5, 5];
const LINE = [0.12, 0.85, 0.25, 0.7, 0.05, 0.95, 0.4, 0.6]; // where starts are tried, as parts of the box
const PLANE = [[0.15, 0.8], [0.8, 0.85], [0.2, 0.2], [0.85, 0.25], [0.3, 0.65], [0.6, 0.8], [0.4, 0.3], [0.45, 0.6]];
const PARTS = [0.2, 0.1, 0.33, 0.05], LAMS = [0.1, 0.25, 0.5, 1, 2, 5]; // of GD's best α, and of 1/curvature

// 1, 2 or 5 times a power of ten
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value)), digit = value / power;
  return Number(((digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10) * power).toPrecision(1));
}

// How far GD comes with a step, as long as f falls and x stays in the box.
function descended(fun, start, step) {
  let x = start, f = fun.value(x);
  for (let k = 0; k < GRADS; k++) {
    x = minus(x, times(step, fun.grad(x)));
    const next = fun.value(x);
    if (!(next <= f) || !x.every((value, i) => value >= fun.bounds[i][0] && value <= fun.bounds[i][1])) return null;
    f = next;
  }
  return { x, f, step };
}

// GD's best step from a start.
function best(fun, start) {
  const tried = Array.from({ length: 37 }, (_, k) => descended(fun, start, nice(10 ** ((k - 24) / 3))));
  return tried.filter(Boolean).toSorted((a, b) => a.f - b.f)[0] ?? null;
}

// A start where the paper has none: one from which GD comes far, in f and in x, with a part of its best step.
function begun(fun) {
  const parts = fun.n === 1 ? LINE.map((part) => [part]) : PLANE, walks = [];
  const starts = parts.map((part) => fun.bounds.map(([low, high], i) => low + part[i] * (high - low)));
  if (fun.minima.length) starts.push(fun.bounds.map(([low, high], i) => fun.minima[0][i] + 0.003 * (1 + i) * (high - low)));
  for (const start of starts.map((x) => x.map((value) => Number(value.toPrecision(4))))) {
    const f = fun.value(start), size = norm(fun.grad(start));
    const walk = size > 0 && size < Infinity && Number.isFinite(f) ? best(fun, start) : null;
    if (walk) walks.push({ ...descended(fun, start, nice(PARTS[0] * walk.step)), step: walk.step, start, from: f });
  }
  const floor = Math.min(fun.fmin ?? Infinity, ...walks.map((walk) => walk.f ?? Infinity));
  for (const walk of walks.filter(({ x }) => x)) {
    const moved = Math.max(...fun.bounds.map(([low, high], i) => Math.abs(walk.x[i] - walk.start[i]) / (high - low)));
    walk.worth = Math.min((walk.from - walk.f) / (walk.from - floor) || 0, 4 * moved);
  }
  const middle = fun.bounds.map(([low, high]) => (low + high) / 2);
  return walks.toSorted((a, b) => (b.worth ?? 0) - (a.worth ?? 0))[0] ?? { start: middle, step: 0.05 };
}

// α and λ where the paper has none. α is a part of the best step of GD, since it is there that λ helps; the next
// part is tried where it does not.
function suggested(fun) {
  const { start, step: most } = begun(fun), g = fun.grad(start), bend = dot(g, fun.hvp(start, g)) / dot(g, g);
  const scale = Math.abs(1 / bend), lams = LAMS.map((part) => nice(part * scale)).filter((lam) => lam > 0 && lam < 1e9);
  let first = null;
  for (const part of PARTS) {
    const step = nice(most * part), end = (method, lam) =>
      minimize(fun, start, method, { step, lam, grads: GRADS }).trace.at(-1).f;
    const plain = end("gd", 0), tried = lams.map((lam) => [end("cgd-fd", lam), lam]).filter(([f]) => Number.isFinite(f));
    const [f, lam] = tried.toSorted(([a], [b]) => a - b)[0] ?? [Infinity, 0.1];
    first ??= { start, step, lam };
    if (f < plain - 1e-3 * (fun.value(start) - plain)) return { start, step, lam };
  }
  return first;
}

// The settings that a function starts with: the paper's, or such as suit it. Without a box the walk is zoomed to.
export function initial(functions, name) {
  const { start, lam, step, r = null } = functions[name].paper ?? suggested(functions[name]);
  return {
    function: name, start, lam, step, r, b: null, grads: GRADS, tuned: false,
    penalty: "squared-l2", search: false, methods: SHOWN, at: GRADS, box: undefined,
  };
}

// The settings that are raced from where the study has left them: each method with its own.
export const race = ({ tuned }) => ({ tuned: true, grads: tuned.grads, at: 0, search: false, penalty: "squared-l2",
  methods: ["gd", "cgd-fd"], lam: Number(tuned["cgd-fd"].lam.toPrecision(3)), box: undefined });

// Put a typed function among the others; returns what is wrong with it, or "".
export function enter(functions, expr, map) {
  const { fun, error = "" } = typed(expr, map);
  if (fun) functions.typed = fun;
  return error;
}

const number = (least, most = Infinity, whole = false) => (text) => {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < least || value > most) return undefined;
  return whole ? Math.round(value) : value;
};
const positive = number(Number.MIN_VALUE);

// How each setting is read from the address line; undefined is what cannot be.
const readers = {
  lam: number(-Infinity),
  step: positive,
  r: (text) => (text === "auto" ? null : positive(text)),
  b: (text) => (text === "auto" ? null : number(0, MOST, true)(text)),
  grads: number(1, MOST, true),
  at: number(0, MOST, true),
  penalty: (text) => (text in penalties ? text : undefined),
  tuned: (text) => text === "yes" || undefined,
  search: (text) => ({ fixed: false, armijo: true })[text],
  methods: (text) => METHODS.filter((method) => text.split(",").includes(method)),
};

export function fromHash(functions, hash, fallback) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const expr = given.get("expr") ?? "", limits = (given.get("map") ?? "").split(",").map(number(-1e9, 1e9));
  const map = limits.length === 2 && limits[0] < limits[1] ? limits : MAP;
  const error = expr ? enter(functions, expr, map) : "";
  const named = given.get("function"), name = Object.hasOwn(functions, named ?? "") ? named : fallback;
  const settings = { ...initial(functions, name), expr, map, error };
  const numbers = (key) => (given.get(key) ?? "").split(",").map(number(-Infinity));
  const start = numbers("start"), sides = numbers("box");
  if (start.length === settings.start.length && !start.includes(undefined)) settings.start = start;
  const box = settings.start.map((_, i) => sides.slice(2 * i, 2 * i + 2));
  if (sides.length === 2 * settings.start.length && box.every(([low, high]) => low < high)) settings.box = box;
  if (given.get("box") === "whole") settings.box = null;
  for (const [key, read] of Object.entries(readers)) {
    const value = given.has(key) ? read(given.get(key)) : undefined;
    if (value !== undefined) settings[key] = value;
  }
  settings.tuned &&= Boolean(functions[name].tuned);
  if (!given.has("at")) settings.at = settings.grads;
  return settings;
}

export function toHash(settings) {
  const { function: name, start, r, b, search, methods, box, tuned, expr, map, error, ...rest } = settings;
  const given = { function: name, start, ...rest, r: r ?? "auto", b: b ?? "auto", methods };
  given.search = search ? "armijo" : "fixed";
  if (tuned) given.tuned = "yes";
  if (box !== undefined) given.box = box ?? "whole";
  if (name === "typed") Object.assign(given, { expr: encodeURIComponent(expr), map });
  return `#${Object.entries(given).map(([key, value]) => `${key}=${value}`).join("&")}`;
}
