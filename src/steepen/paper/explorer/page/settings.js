// What is set on the page; how a text becomes a setting, in a field as in a link; and the link that holds them all.

import { typed } from "./expression.js";
import { METHODS } from "./run.js";
import { GRADS, suggested } from "./suggest.js";

const LARGEST = 1000;
const positive = (value) => value > 0 && value < Infinity, whole = (value) => Number.isInteger(value) && value <= LARGEST;

// the settings that are numbers; those with `auto` may be left to their default
export const NUMBERS = {
  lam: { name: "λ", needs: "a number", fits: Number.isFinite },
  step: { name: "α", needs: "a number above 0", fits: positive },
  grads: { name: "T", needs: `a whole number from 1 to ${LARGEST}`, fits: (value) => whole(value) && value >= 1 },
  r: { name: "r", needs: "a number above 0, or auto", fits: positive, auto: true },
  b: { name: "b", needs: `a whole number from 0 to ${LARGEST}, or auto`, fits: (value) => whole(value) && value >= 0, auto: true },
  at: { name: "at", needs: `a whole number from 0 to ${LARGEST}`, fits: (value) => whole(value) && value >= 0 },
};

// { value }, or { error } with what is wrong, in words
export function read(rule, text) {
  const plain = text.trim().replace("−", "-"), value = plain === "" ? NaN : Number(plain);
  if (rule.auto && plain === "auto") return { value: null };
  return rule.fits(value) ? { value } : { error: `${rule.name} must be ${rule.needs}, not “${text}”.` };
}

export function readMap(low, high) {
  const map = [low, high].map((text) => read(NUMBERS.lam, text).value ?? NaN);
  return map[0] < map[1] ? { map } : { error: "The map needs two numbers, the smaller one first." };
}

// The settings that a function starts with: the paper's, or such as suit it. A box that is undefined fits the runs.
export function initial(functions, name) {
  const fun = functions[name], { start, lam, step, r = null } = fun.paper ?? suggested(fun);
  const [expr, map] = name === "typed" ? [fun.title, fun.bounds[0]] : ["", [-5, 5]];
  const shared = { b: null, grads: GRADS, methods: ["gd", "cgd-fd"], at: 0, box: undefined };
  return { function: name, expr, map, start, lam, step, r, ...shared };
}

// what links of older versions may ask for: the value that is still drawn, the field, and what is said below it
const DROPPED = {
  penalty: ["squared-l2", "lam", "This page no longer has other penalties than ‖∇f‖²."],
  search: ["fixed", "step", "This page no longer has a line search: α is constant."],
  tuned: ["no", "step", "This page no longer has tuned settings; see the documentation."],
};

// A link's settings, and what is wrong with them: a message per field. What cannot be read has its first value.
export function fromHash(functions, hash, first) {
  const given = new URLSearchParams(hash.replace(/^#/, "").replaceAll("+", "%2B")), name = given.get("function") ?? first;
  const expr = given.get("expr") ?? "";
  if (name === "typed") {
    const { map, error } = readMap(...(given.get("map") ?? "-5,5").split(","));
    const found = error ? { error } : typed(expr, map);
    if (found.error) return { settings: initial(functions, first), wrong: { expr: found.error }, draft: expr };
    functions.typed = found.fun;
    return rest(given, initial(functions, name));
  }
  if (Object.hasOwn(functions, name)) return rest(given, initial(functions, name));
  return { settings: initial(functions, first), wrong: { function: `There is no function “${name}” on this page.` } };
}

function rest(given, settings) {
  const wrong = {}, list = (key) => given.get(key).split(",").map((text) => read(NUMBERS.lam, text).value);
  const n = settings.start.length;
  for (const [key, rule] of Object.entries(NUMBERS).filter(([key]) => given.has(key))) {
    const { value, error } = read(rule, given.get(key));
    if (error) wrong[key] = error;
    else settings[key] = value;
  }
  if (given.size && !given.has("at")) settings.at = settings.grads; // a link without `at` shows whole runs
  settings.at = Math.min(settings.at, settings.grads);
  if (given.has("start")) {
    const start = list("start");
    if (start.length === n && !start.includes(undefined)) settings.start = start;
    else wrong.start = `The start must be ${n === 1 ? "a number" : "two numbers"}, not “${given.get("start")}”.`;
  }
  if (given.get("box") === "whole") settings.box = null;
  else if (given.has("box")) {
    const sides = list("box"), box = settings.start.map((_, i) => sides.slice(2 * i, 2 * i + 2));
    if (sides.length === 2 * n && box.every(([low, high]) => low < high)) settings.box = box;
    else wrong.box = `The box must be ${2 * n} numbers, each low one before its high one, not “${given.get("box")}”.`;
  }
  if (given.has("methods")) {
    const asked = given.get("methods").split(",").filter(Boolean), known = Object.keys(METHODS);
    const none = asked.filter((method) => !known.includes(method));
    if (none.length) wrong.methods = `This page does not have ${none.join(", ")}; it has GD, CGD and CGD-FD.`;
    if (!asked.length || asked.length > none.length) settings.methods = known.filter((method) => asked.includes(method));
  }
  for (const [key, [value, field, words]] of Object.entries(DROPPED)) {
    if (given.has(key) && given.get(key) !== value) wrong[field] ??= words;
  }
  return { settings, wrong };
}

// the link to exactly what is drawn
export function toHash({ function: name, expr, map, r, b, box, ...others }) {
  const given = { function: name, ...others, r: r ?? "auto", b: b ?? "auto", box: box ?? "whole" };
  if (name === "typed") Object.assign(given, { expr: encodeURIComponent(expr), map });
  return `#${Object.entries(given).map(([key, value]) => `${key}=${value}`).join("&")}`;
}
