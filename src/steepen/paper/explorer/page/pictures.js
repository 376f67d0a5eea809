// The three pictures: the landscape (or the curve of one variable), its cut, and f against gradients.

import { Plot, readable } from "./chart.js";
import { METHODS } from "./run.js";
import { spent, switchedOff } from "./scene.js";
import { within } from "./vectors.js";

const SHAPES = { gd: "circle", cgd: "square", "cgd-fd": "triangle" };
const DASHES = { gd: [], cgd: [9, 4], "cgd-fd": [] };
const MANY = 60; // of longer paths only the end is marked

export function drawLandscape(canvas, scene, paint) {
  const { fun, settings, box } = scene, plot = new Plot(canvas, ...box, paint, { left: 42 });
  const { left, top, right, bottom } = plot.box, mark = (...given) => within(given[1], box) && plot.mark(...given, paint.halo);
  plot.context.drawImage(scene.landscape.paint(settings.lam), left, top, right - left, bottom - top);
  plot.axes({ grid: false, x: "x₁", y: "x₂" });
  plot.clip(() => {
    plot.path(scene.slice.ends, paint.ink, 1, [2, 4]);
    drawRuns(plot, scene, paint, (row) => row.x);
  });
  for (const x of fun.minima) mark("plus", x, 6, paint.ink); // whole, also at the edge
  for (const x of scene.artificial) mark("diamond", x, 6, paint.artificial);
  mark("circle", settings.start, 6, paint.ink);
  return plot;
}

// of one variable: f, and f + λ‖∇f‖² above it
export function drawCurve(canvas, scene, paint) {
  const { fun, settings, box } = scene, { f, h, least, most } = scene.landscape, [low, high] = box[0];
  const pad = 0.08 * (most - least || 1), count = f.length;
  const xs = Array.from({ length: count }, (_, i) => low + ((i + 0.5) / count) * (high - low));
  const plot = new Plot(canvas, [low, high], [least - pad, most + 6 * pad], paint);
  plot.axes({ x: "x" });
  plot.clip(() => {
    drawLifted(plot, paint, xs, f, h, settings.lam);
    for (const [x] of fun.minima) plot.mark("plus", [x, fun.fmin], 6, paint.ink, paint.halo);
    for (const x of scene.artificial) {
      const lifted = fun.value(x) + settings.lam * fun.grad(x)[0] ** 2;
      plot.mark("diamond", [x[0], lifted], 6, paint.artificial, paint.halo);
    }
    drawRuns(plot, scene, paint, (row) => [row.x[0], row.f]);
    plot.mark("circle", [settings.start[0], fun.value(settings.start)], 6, paint.ink, paint.halo);
  });
  return plot;
}

// the cut, with the first step of each method on it, at its own height and as far along as it went
export function drawSlice(canvas, scene, paint) {
  const { ts, f, h, along } = scene.slice, known = f.filter(Number.isFinite), { start, lam } = scene.settings;
  const low = Math.min(...known, known.length ? Infinity : 0), high = Math.max(...known, low), pad = 0.1 * (high - low || 1);
  const plot = new Plot(canvas, [ts[0], ts.at(-1)], [low - pad, high + 6 * pad], paint);
  plot.axes();
  plot.clip(() => {
    drawLifted(plot, paint, ts, f, h, lam);
    for (const { method, trace } of scene.runs.filter((run) => run.trace.length > 1)) {
      plot.mark(SHAPES[method], [along(trace[1].x), trace[1].f], 5.5, paint[method], paint.halo);
    }
    plot.mark("circle", [0, scene.fun.value(start)], 6, paint.ink, paint.halo);
  });
  const steps = scene.runs.map(({ method, trace }) => `${METHODS[method]} ${readable(trace[1]?.f ?? NaN)}`).join(", ");
  canvas.ariaLabel = `f and f + λ‖∇f‖² along −∇f from the start, λ = ${readable(lam)}; f after the first step: ${steps}`;
}

export function drawChart(canvas, scene, paint, label) {
  const { runs, heights, known } = scene, { grads, at } = scene.settings, [low, high] = heights;
  const plot = new Plot(canvas, [0, grads], heights, paint, { left: 58, log: known });
  let off = 0;
  plot.axes({ y: `${label} against gradients` });
  plot.clip(() => {
    if (at > 0) plot.path([[at, low], [at, high]], paint.faint, 1, [3, 3]);
    for (const one of runs) {
      const gaps = one.trace.map((row) => [spent(row), scene.gap(row.f)]), colour = paint[one.method];
      // the line ends where it leaves the picture; at f* it stays at the bottom
      const gone = gaps.findIndex(([, gap]) => !(gap <= high) || (!known && gap < low));
      const drawn = gaps.slice(0, gone < 0 ? undefined : gone + 1).map(([x, gap]) => [x, gap < low ? low : gap < high ? gap : high]);
      plot.path(drawn, colour, 2, DASHES[one.method]);
      const here = drawn[scene.shown(one).length - 1];
      if (here) plot.mark(SHAPES[one.method], here, 4.5, colour, paint.card);
      markEvents(plot, one, drawn, paint, paint.card, 4, 6);
      if (gone < 0) continue;
      off++;
      plot.mark(drawn.at(-1)[1] === high ? "up" : "down", drawn.at(-1), 7, colour, paint.card);
    }
  });
  canvas.ariaLabel = `${label} against gradients; the values are in the table below`;
  return off;
}

// f as a line, f + λ‖∇f‖² above it, and what lies between, wherever they have values
function drawLifted(plot, paint, xs, f, h, lam) {
  const { context } = plot, floor = xs.map((x, i) => [x, f[i]]), lifted = xs.map((x, i) => [x, f[i] + lam * h[i]]);
  const has = (i) => Number.isFinite(floor[i]?.[1] + lifted[i]?.[1]);
  Object.assign(context, { fillStyle: paint.lifted, globalAlpha: 0.16 });
  for (let from = 0, to; from < xs.length; from = to + 1) {
    for (to = from; has(to); ) to++;
    plot.trace([...floor.slice(from, to), ...lifted.slice(from, to).toReversed()]);
    context.fill();
  }
  context.globalAlpha = 1;
  plot.path(lifted, paint.lifted, 2);
  plot.path(floor, paint.ink, 1.5);
}

function drawRuns(plot, scene, paint, place) {
  for (const one of scene.runs) {
    const places = scene.shown(one).map(place), colour = paint[one.method];
    plot.path(places, paint.halo, 4);
    plot.path(places, colour, 2, DASHES[one.method]);
    places.forEach((at, i) => {
      const last = i === places.length - 1;
      if (last || places.length < MANY) plot.mark(SHAPES[one.method], at, last ? 5.5 : 2.6, colour, paint.halo);
    });
    markEvents(plot, one, places, paint, paint.halo, 5, 8);
  }
}

// where the guard fired, and where the penalty was switched off
function markEvents(plot, one, places, paint, halo, cross, ring) {
  places.forEach((at, i) => {
    if (one.trace[i].guarded) plot.mark("cross", at, cross, paint.guard, halo);
    if (switchedOff(one, i)) plot.mark("ring", at, ring, paint[one.method], halo);
  });
}
