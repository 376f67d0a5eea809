// What the runs show, in words: who is lower, and whether it overshot, diverged, or went to another basin.

import { readable } from "./chart.js";
import { METHODS } from "./run.js";
import { dot, norm, plus, solved, times, within } from "./vectors.js";

const STATES = {
  CONVERGED: "converged", MAX_GRADIENTS: "budget spent", ARTIFICIAL: "near an artificial stationary point ◇",
  UNBOUNDED: "f falls without bound", DIVERGED: "diverged",
};
const TURNS = 300, SHORT = 0.02, APART = 1e-3, DAMPED = 100;

// the minimum below a point, by short damped Newton steps downhill; null where they leave the box or find none
export function basin(fun, start) {
  const wide = Math.min(...fun.bounds.map(([low, high]) => high - low));
  const axes = start.map((_, i) => start.map((_, j) => +(i === j)));
  let x = start;
  for (let turn = 0; turn < TURNS; turn++) {
    const f = fun.value(x), g = fun.grad(x), H = axes.map((axis) => fun.hvp(x, axis));
    if (!within(x, fun.bounds) || !Number.isFinite(f + norm(g))) return null;
    if (norm(g) <= 1e-9 * Math.max(1, Math.abs(f))) return x;
    const size = Math.max(...H.flat().map(Math.abs), 1e-9);
    let shift = 0, M = H;
    while (!(M[0][0] > 0 && determinant(M) > 0)) { // H need not be positive definite: damped until it is
      shift = 4 * shift || 1e-3 * size;
      if (!(shift < DAMPED * size)) return null; // H is not finite, or overflows
      M = H.map((row, i) => row.map((value, j) => value + shift * axes[i][j]));
    }
    const p = times(-1, solved(M, g));
    let t = Math.min(1, (SHORT * wide) / norm(p));
    while (t > 1e-12 && !(fun.value(plus(x, times(t, p))) < f)) t /= 4;
    if (t <= 1e-12) return norm(g) <= 1e-4 * Math.max(1, Math.abs(f)) ? x : null;
    x = plus(x, times(t, p));
  }
  return null;
}

const determinant = ([[a, b = 0], [c, d] = [0, 1]]) => a * d - b * c;
const rose = (rows) => rows.findIndex((row, i) => i > 0 && row.f > rows[i - 1].f);
const beyond = (x, { bounds }) => !within(x, bounds.map(([low, high]) => [2 * low - high, 2 * high - low]));

// whether a run went up and away
function diverged({ status, trace }, fun) {
  const { x, f } = trace.at(-1);
  return status === "DIVERGED" || (!(f <= trace[0].f) && beyond(x, fun) && !fun.samples);
}

// how a run ended, for the table; `rows` is what is shown of it
export function state(run, rows, fun) {
  const done = rows.length === run.trace.length, up = rose(rows), guarded = rows.findIndex((row) => row.guarded);
  const lost = fun.samples ? "left the sampled box" : "f has no value there";
  const said = done ? [diverged(run, fun) ? STATES.DIVERGED : (STATES[run.status] ?? lost)] : ["running"];
  if (up > 0) said.push(`overshot at step ${up}`);
  if (guarded >= 0) said.push(`guard at step ${guarded + 1}`);
  return said.join("; ");
}

const percent = (part) => `${readable(100 * part, part >= 0.095 ? 2 : 1)} %`;

// the first step of each, with the same α
function firstStep(runs, from) {
  const said = runs.filter(({ trace }) => trace.length > 1).map(({ method, trace: [, { f }] }) => {
    const name = METHODS[method], values = `from ${readable(from)} to ${readable(f)}`;
    if (!(f <= from)) return `${name} overshoots, and f ${Number.isFinite(f) ? `rises ${values}` : "has no value there"}`;
    return from > 0 && f >= 0 ? `${name} lowers f by ${percent((from - f) / from)}` : `${name} lowers f ${values}`;
  });
  if (!said.length) return "No step was taken: the gradient is 0 at this start, or the budget is too small.";
  const plain = runs.find(({ method }) => method === "gd"), f = plain?.trace[2]?.f;
  const costly = runs.filter(({ method, trace }) => method !== "gd" && trace.length > 1).map(({ method }) => METHODS[method]);
  const falls = from > 0 && f >= 0 && f <= from;
  const second = falls ? `; for two, GD takes two steps, and they lower f by ${percent((from - f) / from)}` : "";
  const price = costly.length ? ` A step of ${costly.join(" or ")} costs two gradients${second}.` : "";
  return `One step each, with the same α: ${said.join(", ")}.${price}`;
}

function compared(plain, other, scene) {
  const { fun, settings } = scene, name = METHODS[other.method], rows = [plain, other].map((run) => scene.shown(run));
  const [a, b] = rows.map((all) => all.at(-1)), from = rows[0][0].f;
  const least = 0.01 * (scene.known ? scene.gap(Math.max(a.f, b.f)) : Math.abs(from - Math.min(a.f, b.f)));
  const lower = a.f - b.f > least, higher = b.f - a.f > least;
  const who = lower ? `${name} is lower than GD` : higher ? `GD is lower than ${name}` : `GD and ${name} are tied`;
  const [here, there] = settings.at === settings.grads ? [a, b].map(({ x }) => basin(fun, x)) : [null, null];
  const apart = here && there && fun.bounds.some(([low, high], i) => Math.abs(here[i] - there[i]) > APART * (high - low));
  if (apart) return `${who}; they are in different basins.`;
  if (lower && settings.lam > 0) return `${who} after ${settings.at} gradients. Here λ makes up for an α that is too small for GD.`;
  if (higher && rose(rows[1]) < 0 && !rows[1].some((row) => row.guarded)) {
    return `${who} after ${settings.at} gradients. The penalised steps of ${name} cost two gradients each, which does ` +
      "not pay with this α and λ.";
  }
  return `${who} after ${settings.at} gradients.`;
}

// what the runs show, in a few sentences
export function verdict(scene) {
  const { fun, runs, settings } = scene, from = fun.value(settings.start), said = [];
  if (!runs.length) return "Choose a method.";
  if (!Number.isFinite(from)) return "f has no value at this start. Choose another one on the map.";
  if (settings.at === 0) return firstStep(runs, from);
  const good = [];
  for (const run of runs) {
    const rows = scene.shown(run), name = METHODS[run.method], end = rows.at(-1), done = rows.length === run.trace.length;
    const up = rose(rows), target = run.method === "gd" ? "f" : "f + λ‖∇f‖²";
    if (done && diverged(run, fun)) said.push(`${name} diverges: α = ${readable(settings.step)} is too large for ${target} here.`);
    else if (!Number.isFinite(end.f)) said.push(`${name} stepped to where f has no value.`);
    else if (beyond(end.x, fun) || run.status === "UNBOUNDED") said.push(`${name} has left the map, and f still falls there.`);
    else {
      good.push(run);
      if (up > 0) said.push(`${name} overshoots: f rises at step ${up}.`);
    }
  }
  const plain = good.find(({ method }) => method === "gd");
  if (plain) said.push(...good.filter((run) => run !== plain).map((run) => compared(plain, run, scene)));
  return said.join(" ");
}
