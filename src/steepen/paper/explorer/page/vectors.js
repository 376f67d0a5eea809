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
  const size = Math.max(...v.map(Math.abs)), unit = times(1 / (size > 0 ? size : 1), v);
  return size * Math.sqrt(dot(unit, unit));
}

export const plus = (a, b) => a.map((value, i) => value + b[i]);
export const minus = (a, b) => a.map((value, i) => value - b[i]);
export const times = (c, v) => v.map((value) => c * value);
export const clip = (value, low, high) => Math.min(Math.max(value, low), high);
export const within = (x, box) => x.every((value, i) => value >= box[i][0] && value <= box[i][1]);

// the s with Σ s[i]·J[i] = p, in one or two variables
export function solved(J, p) {
  if (p.length === 1) return [p[0] / J[0][0]];
  const [[a, c], [b, d]] = J, det = a * d - b * c;
  return [(d * p[0] - b * p[1]) / det, (a * p[1] - c * p[0]) / det];
}
