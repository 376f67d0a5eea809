// Short vectors as arrays, summed in order, as the library sums them.

export const EPS = 2 ** -52;

export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

export function norm(v) {
  const square = dot(v, v);
  if (square > 1e-30 && square < 1e30) return Math.sqrt(square);
  const size = Math.max(...v.map(Math.abs));
  const unit = times(1 / (size > 0 ? size : 1), v);
  return size * Math.sqrt(dot(unit, unit));
}

export const plus = (a, b) => a.map((value, i) => value + b[i]);
export const minus = (a, b) => a.map((value, i) => value - b[i]);
export const scaled = (a, b) => a.map((value, i) => value * b[i]);
export const times = (c, v) => v.map((value) => c * value);
export const same = (a, b) => a.every((value, i) => value === b[i]);
export const zeros = (n) => new Array(n).fill(0);
export const clip = (value, low, high) => Math.min(Math.max(value, low), high);
