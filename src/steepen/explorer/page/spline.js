// A function that was sampled on a grid: the bicubic spline through its values, with its derivatives.
// Outside the grid nothing is known of it, and it has no value.

const DEGREE = 3;

// The span of the knots t that holds u; NaN outside.
function span(t, u) {
  const last = t.length - DEGREE - 2;
  if (!(u >= t[DEGREE] && u <= t[last + 1])) return NaN;
  let low = DEGREE, high = last;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (t[middle] <= u) low = middle;
    else high = middle - 1;
  }
  return low;
}

// From B-splines of degree d − 1 on span i, or their derivatives, to the derivatives of degree d.
function slopes(t, i, d, below) {
  return Array.from({ length: d + 1 }, (_, j) => {
    const k = i - d + j;
    const left = j > 0 ? below[j - 1] / (t[k + d] - t[k]) : 0;
    const right = j < d ? below[j] / (t[k + d + 1] - t[k + 1]) : 0;
    return d * (left - right);
  });
}

function splines(t, i, u, d) {
  if (d === 0) return [1];
  const below = splines(t, i, u, d - 1);
  return Array.from({ length: d + 1 }, (_, j) => {
    const k = i - d + j;
    const left = j > 0 ? ((u - t[k]) / (t[k + d] - t[k])) * below[j - 1] : 0;
    const right = j < d ? ((t[k + d + 1] - u) / (t[k + d + 1] - t[k + 1])) * below[j] : 0;
    return left + right;
  });
}

// The cubic B-splines that are not zero at u, with their first and second derivatives.
function basis(t, u) {
  const i = span(t, u);
  const linear = splines(t, i, u, 1), quadratic = splines(t, i, u, 2);
  const values = splines(t, i, u, 3);
  const first = slopes(t, i, 3, quadratic), second = slopes(t, i, 3, slopes(t, i, 2, linear));
  return { start: i - DEGREE, orders: [values, first, second] };
}

export function spline({ knots, coefficients }) {
  const n = knots.length;
  const width = n === 2 ? knots[1].length - DEGREE - 1 : 1;
  const one = { start: 0, orders: [[1], [0], [0]] };

  // the derivative of these orders, one for each variable
  function at(bases, orders) {
    const [a, b] = [bases[0], bases[1] ?? one];
    const [u, w] = [a.orders[orders[0]], b.orders[orders[1] ?? 0]];
    let sum = 0;
    for (let i = 0; i < u.length; i++) {
      for (let j = 0; j < w.length; j++) sum += u[i] * w[j] * coefficients[(a.start + i) * width + b.start + j];
    }
    return sum;
  }

  const bases = (x) => x.map((value, i) => basis(knots[i], value));
  const inside = (x) => x.every((value, i) => !Number.isNaN(span(knots[i], value)));
  const nowhere = new Array(n).fill(NaN);
  const directions = n === 1 ? [[1]] : [[1, 0], [0, 1]];
  const both = (a, b) => a.map((value, i) => value + b[i]);
  return {
    value: (x) => (inside(x) ? at(bases(x), [0, 0]) : NaN),
    grad(x) {
      if (!inside(x)) return [...nowhere];
      const known = bases(x);
      return directions.map((one) => at(known, one));
    },
    hvp(x, v) {
      if (!inside(x)) return [...nowhere];
      const known = bases(x);
      return directions.map((one) =>
        directions.reduce((sum, other, j) => sum + at(known, both(one, other)) * v[j], 0),
      );
    },
  };
}
