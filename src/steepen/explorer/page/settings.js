// What is set on the page, and the address line that carries it.

import { suggested } from "./landscape.js";
import { penalties } from "./penalties.js";

export const METHODS = ["gd", "cgd", "cgd-fd", "bfgs", "cgd-auto"];
const SHOWN = ["gd", "cgd-fd", "cgd-auto"], GRADS = 40, MOST = 1000;

// The settings that a function starts with: the paper's, or such as suit it.
export function initial(functions, name) {
  const fun = functions[name], paper = fun.paper ?? suggested(fun);
  const start = paper.start ?? fun.bounds.map(([low, high], i) => low + (i ? 0.8 : 0.15) * (high - low));
  return {
    function: name, start, lam: paper.lam, step: paper.step, r: paper.r ?? null, b: null, grads: GRADS,
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
