// Artificial minima: minima of f + λ‖∇f‖² at which ∇f is not 0. The landscape's grid shows where they are about, and
// Newton's method for ∇f + 2λ·H·∇f = 0 where they are.

import { norm, plus, solved, times } from "./vectors.js";

const MOST = 60, TRIES = 300; // more would hide the map
const NEWTON = 12, TOLERANCE = 1e-9, STEEP = 1e-6;

export function artificialMinima(fun, landscape, lam) {
  const { f, h, columns, rows, box } = landscape, across = [-1, 0, 1], found = [];
  let tries = 0;
  const around = (rows > 1 ? across : [0]).flatMap((down) => across.map((right) => down * columns + right)).filter(Boolean);
  const steepest = Math.sqrt(h.reduce((most, value) => (value < Infinity ? Math.max(most, value) : most), 0));
  for (let row = rows > 1 ? 1 : 0; row < Math.max(rows - 1, 1) && lam !== 0; row++) {
    for (let column = 1; column < columns - 1 && found.length < MOST && tries < TRIES; column++) {
      const at = row * columns + column, height = f[at] + lam * h[at];
      if (!around.every((step) => height < f[at + step] + lam * h[at + step])) continue;
      tries++;
      const x = refined(fun, lam, landscape.point(column, row), box.map(([low, high], i) => (2 * (high - low)) / [columns, rows][i]));
      if (x && norm(fun.grad(x)) > STEEP * steepest) found.push(x);
    }
  }
  return found;
}

function direction(fun, lam, x) {
  const g = fun.grad(x);
  return plus(g, times(2 * lam, fun.hvp(x, g)));
}

// the zero of the penalised direction no further from a point than `reach`; null where there is none
function refined(fun, lam, start, reach) {
  let x = start;
  for (let turn = 0; turn < NEWTON; turn++) {
    const slopes = x.map((_, i) => {
      const shift = x.map((_, j) => (i === j ? 1e-4 * reach[i] : 0)), [ahead, back] = [1, -1].map((way) => plus(x, times(way, shift)));
      return plus(direction(fun, lam, ahead), times(-1, direction(fun, lam, back))).map((value) => value / (2 * shift[i]));
    });
    const step = solved(slopes, direction(fun, lam, x));
    x = plus(x, times(-1, step));
    if (!x.every((value, i) => Math.abs(value - start[i]) <= reach[i])) return null;
    if (step.every((value, i) => Math.abs(value) < TOLERANCE * reach[i])) return x;
  }
  return null;
}
