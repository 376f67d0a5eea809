// What is set on the page, and the address line that carries it.

import { penalties } from "./penalties.js";
import { dot, minus, norm, times } from "./vectors.js";

export const METHODS = ["gd", "cgd", "cgd-fd", "bfgs", "cgd-auto"];
const SHOWN = ["gd", "cgd-fd", "cgd-auto"], GRADS = 40, MOST = 1000, FLAT = 1e-3;

// 1, 2 or 5 times a power of ten
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value)), digit = value / power;
  return Number(((digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10) * power).toPrecision(1));
}

// How low GD comes with a step, as long as f falls.
function descended(fun, start, step) {
  let x = start, f = fun.value(x);
  for (let k = 0; k < GRADS; k++) {
    x = minus(x, times(step, fun.grad(x)));
    const next = fun.value(x);
    if (!(next <= f)) return Infinity;
    f = next;
  }
  return f;
}

// A start where the paper has none: in a corner of the box, or nearer to a minimum where f is flat there.
function corner({ bounds, minima, grad }) {
  const at = (parts) => bounds.map(([low, high], i) => low + parts[i] * (high - low));
  const starts = [[0.15, 0.8], [0.3, 0.65], [0.4, 0.45]].map(at);
  if (minima.length) starts.push(bounds.map(([low, high], i) => minima[0][i] + 0.007 * (high - low)));
  const steep = starts.map((x) => norm(grad(x))), most = Math.max(...steep);
  return starts[Math.max(0, steep.findIndex((size) => size >= FLAT * most))];
}

// α and λ where the paper has none: a fifth of the best step of GD, and the λ that makes up for it, or half of
// what makes artificial points where f bends down.
function suggested(fun, start) {
  let best = 1, lowest = Infinity;
  for (let k = -24; k <= 12; k++) {
    const step = nice(10 ** (k / 3)), f = descended(fun, start, step);
    if (f < lowest) [best, lowest] = [step, f];
  }
  const g = fun.grad(start), bend = dot(g, fun.hvp(start, g)) / dot(g, g);
  const lam = bend > 0 ? 2 / bend : -0.25 / bend;
  return { step: nice(best / 5), lam: lam > 0 && lam < Infinity ? nice(lam) : 0.1 };
}

// The settings that a function starts with: the paper's, or such as suit it.
export function initial(functions, name) {
  const fun = functions[name], start = fun.paper?.start ?? corner(fun);
  const { lam, step, r = null } = fun.paper ?? suggested(fun, start);
  return {
    function: name, start, lam, step, r, b: null, grads: GRADS,
    penalty: "squared-l2", search: false, methods: SHOWN, at: GRADS, box: null,
  };
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
  search: (text) => ({ fixed: false, armijo: true })[text],
  methods: (text) => METHODS.filter((method) => text.split(",").includes(method)),
};

export function fromHash(functions, hash, fallback) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const named = given.get("function"), name = Object.hasOwn(functions, named ?? "") ? named : fallback;
  const settings = initial(functions, name);
  const numbers = (key) => (given.get(key) ?? "").split(",").map(number(-Infinity));
  const start = numbers("start"), sides = numbers("box");
  if (start.length === settings.start.length && !start.includes(undefined)) settings.start = start;
  const box = settings.start.map((_, i) => sides.slice(2 * i, 2 * i + 2));
  if (sides.length === 2 * settings.start.length && box.every(([low, high]) => low < high)) settings.box = box;
  for (const [key, read] of Object.entries(readers)) {
    const value = given.has(key) ? read(given.get(key)) : undefined;
    if (value !== undefined) settings[key] = value;
  }
  if (!given.has("at")) settings.at = settings.grads;
  return settings;
}

export function toHash(settings) {
  const { function: name, start, r, b, search, methods, box, ...rest } = settings;
  const given = { function: name, start, ...rest, r: r ?? "auto", b: b ?? "auto", methods };
  given.search = search ? "armijo" : "fixed";
  if (box) given.box = box;
  return `#${Object.entries(given).map(([key, value]) => `${key}=${value}`).join("&")}`;
}
