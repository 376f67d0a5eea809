// A function that was sampled on a grid: the cubic spline through its values, with its derivatives.
// Outside the grid nothing is known of it, and it has no value.

// the cubic B-splines that are not 0 between two samples, and their derivatives
const WEIGHTS = [
  (u) => [(1 - u) ** 3 / 6, (u * u * (3 * u - 6) + 4) / 6, (u * (u * (3 - 3 * u) + 3) + 1) / 6, u ** 3 / 6],
  (u) => [-((1 - u) ** 2) / 2, (u * (3 * u - 4)) / 2, (u * (2 - 3 * u) + 1) / 2, (u * u) / 2],
  (u) => [1 - u, 3 * u - 2, 1 - 3 * u, u],
];

export function spline({ bounds, samples, coefficients }) {
  const n = bounds.length, row = n === 2 ? samples + 2 : 1;

  // the derivative of these orders at x, one order per variable
  function at(x, ...orders) {
    const sides = bounds.map(([low, high], i) => {
      const per = (samples - 1) / (high - low), t = (x[i] - low) * per;
      if (!(x[i] >= low && x[i] <= high)) return { from: NaN, weights: [NaN] };
      const from = Math.min(Math.floor(t), samples - 2);
      return { from, weights: WEIGHTS[orders[i]](t - from).map((w) => w * per ** orders[i]) };
    });
    const [a, b = { from: 0, weights: [1] }] = sides;
    let sum = 0;
    a.weights.forEach((w, i) => b.weights.forEach((v, j) => (sum += w * v * coefficients[(a.from + i) * row + b.from + j])));
    return sum;
  }

  return {
    value: (x) => at(x, 0, 0),
    grad: (x) => (n === 1 ? [at(x, 1)] : [at(x, 1, 0), at(x, 0, 1)]),
    hvp(x, v) {
      if (n === 1) return [at(x, 2) * v[0]];
      const mixed = at(x, 1, 1);
      return [at(x, 2, 0) * v[0] + mixed * v[1], mixed * v[0] + at(x, 0, 2) * v[1]];
    },
  };
}
