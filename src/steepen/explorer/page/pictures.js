// The three pictures: the landscape (or the curve of one variable), its cut, and the race.

import { Plot, readable } from "./chart.js";
import { spent, switchedOff } from "./scene.js";

const SHAPES = { gd: "circle", cgd: "square", "cgd-fd": "triangle", bfgs: "rhombus", "cgd-auto": "hexagon" };
const DASHES = { gd: [], cgd: [9, 4], "cgd-fd": [], bfgs: [2, 5], "cgd-auto": [12, 3, 2, 3] };
const MANY = 60; // of longer paths only the end is marked

export function drawLandscape(canvas, scene, paint) {
  const { fun, settings } = scene, plot = new Plot(canvas, ...scene.box, paint, { left: 42 });
  const { left, top, right, bottom } = plot.box;
  plot.context.drawImage(scene.painter.paint(settings.lam, paint.theme), left, top, right - left, bottom - top);
  plot.axes({ grid: false, x: "x₁", y: "x₂" });
  plot.clip(() => {
    for (const x of fun.minima) plot.mark("plus", x, 6, paint.ink, paint.halo);
    for (const x of scene.artificial) plot.mark("diamond", x, 6, paint.artificial, paint.halo);
    drawRuns(plot, scene, paint, (row) => row.x);
    plot.mark("circle", settings.start, 6, paint.ink, paint.halo);
  });
  return plot;
}

// of one variable: f, and f + λh above it
export function drawCurve(canvas, scene, paint) {
  const { fun, penalty, settings } = scene, { f, h, least, most } = scene.landscape, [low, high] = scene.box[0];
  const pad = 0.08 * (most - least || 1), count = f.length;
  const xs = Array.from({ length: count }, (_, i) => low + ((i + 0.5) / count) * (high - low));
  const plot = new Plot(canvas, [low, high], [least - pad, most + 6 * pad], paint);
  plot.axes({ x: "x" });
  plot.clip(() => {
    drawLifted(plot, paint, xs, f, h, settings.lam);
    for (const [x] of fun.minima) plot.mark("plus", [x, fun.fmin], 6, paint.ink, paint.halo);
    for (const x of scene.artificial) {
      const lifted = fun.value(x) + settings.lam * penalty.value(fun.grad(x));
      plot.mark("diamond", [x[0], lifted], 6, paint.artificial, paint.halo);
    }
    drawRuns(plot, scene, paint, (row) => [row.x[0], row.f]);
    plot.mark("circle", [settings.start[0], fun.value(settings.start)], 6, paint.ink, paint.halo);
  });
  return plot;
}

export function drawSlice(canvas, scene, paint) {
  const { ts, f, h, mark } = scene.slice, known = f.filter(Number.isFinite);
  const low = Math.min(...known, known.length ? Infinity : 0), high = Math.max(...known, low);
  const { start, lam } = scene.settings, pad = 0.08 * (high - low || 1);
  const plot = new Plot(canvas, [ts[0], ts.at(-1)], [low - pad, high + 5 * pad], paint);
  plot.axes();
  plot.clip(() => {
    drawLifted(plot, paint, ts, f, h, lam);
    if (mark) plot.mark("plus", mark, 6, paint.ink, paint.halo);
    plot.mark("circle", [0, scene.fun.value(start)], 5, paint.ink, paint.halo);
  });
  canvas.ariaLabel = `f and f + λ${scene.penalty.label} on a line through the start; λ = ${readable(lam)}`;
}

export function drawRace(canvas, scene, paint, label) {
  const { runs, heights, known } = scene, { grads, at } = scene.settings, [low, high] = heights;
  const plot = new Plot(canvas, [0, grads], heights, paint, { left: 58, log: known });
  let off = 0;
  plot.axes({ x: "gradients", y: label });
  plot.clip(() => {
    plot.path([[at, low], [at, high]], paint.faint, 1, [3, 3]);
    for (const one of runs) {
      const gaps = one.trace.map((row) => [spent(row), scene.gap(row.f)]), colour = paint[one.method];
      // the line ends where it leaves the picture; at f* it stays at the bottom
      const gone = gaps.findIndex(([, gap]) => !(gap <= high) || (!known && gap < low));
      const drawn = gaps.slice(0, gone < 0 ? undefined : gone + 1).map(([x, gap]) => [x, gap < low ? low : gap < high ? gap : high]);
      plot.path(drawn, colour, 2, DASHES[one.method]);
      const here = drawn.findLast(([x]) => x <= at);
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

// f as a line, f + λh above it, and what lies between
function drawLifted(plot, paint, xs, f, h, lam) {
  const { context } = plot, floor = xs.map((x, i) => [x, f[i]]);
  const lifted = xs.map((x, i) => [x, f[i] + lam * h[i]]);
  plot.trace([...floor, ...lifted.toReversed()]);
  Object.assign(context, { fillStyle: paint.lifted, globalAlpha: 0.16 });
  context.fill();
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
