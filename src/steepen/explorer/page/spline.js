// A function that was sampled on a grid: the bicubic spline through its values, with its derivatives.
// Outside the grid nothing is known of it, and it has no value.

const DEGREE = 3, WIDTH = DEGREE + 1;

// The B-splines of one variable that are not zero at u: four values, four slopes, four second derivatives.
class Basis {
  constructor(knots) {
    Object.assign(this, { t: knots, u: NaN, start: NaN, values: new Float64Array(3 * WIDTH) });
    [this.low, this.high] = [knots[DEGREE], knots[knots.length - WIDTH]];
  }

  holds(u) {
    return u >= this.low && u <= this.high;
  }

  at(u) {
    if (u === this.u) return this;
    const { t, values } = this, i = this.span(u);
    let below = [1], slopes = [0], bends = [0]; // of degree d, by the recurrence of Cox and de Boor
    for (let d = 1; d <= DEGREE; d++) {
      const next = [], steeper = [], bent = [];
      for (let j = 0; j <= d; j++) {
        const k = i - d + j;
        const left = j > 0 ? 1 / (t[k + d] - t[k]) : 0, right = j < d ? 1 / (t[k + d + 1] - t[k + 1]) : 0;
        const of = (terms) => left * (terms[j - 1] ?? 0) - right * (terms[j] ?? 0);
        next.push((u - t[k]) * left * (below[j - 1] ?? 0) + (t[k + d + 1] - u) * right * (below[j] ?? 0));
        steeper.push(d * of(below));
        bent.push(d * of(slopes));
      }
      [below, slopes, bends] = [next, steeper, bent];
    }
    for (let j = 0; j < WIDTH; j++) {
      values[j] = below[j];
      values[WIDTH + j] = slopes[j];
      values[2 * WIDTH + j] = bends[j];
    }
    return Object.assign(this, { u, start: i - DEGREE });
  }

  span(u) {
    const { t } = this;
    let low = DEGREE, high = t.length - WIDTH - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (t[middle] <= u) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

export function spline({ knots, coefficients }) {
  const n = knots.length, bases = knots.map((t) => new Basis(t)), one = [1, 0, 0];
  const row = n === 2 ? knots[1].length - WIDTH : 1;
  const inside = (x) => x.every((value, i) => bases[i].holds(value));

  // the derivative at x of these orders, one for each variable
  function at(x, first, second) {
    const a = bases[0].at(x[0]), b = n === 2 ? bases[1].at(x[1]) : { start: 0, values: one };
    const count = n === 2 ? WIDTH : 1;
    let sum = 0;
    for (let i = 0; i < WIDTH; i++) {
      const from = (a.start + i) * row + b.start;
      let across = 0;
      for (let j = 0; j < count; j++) across += b.values[second * count + j] * coefficients[from + j];
      sum += a.values[first * WIDTH + i] * across;
    }
    return sum;
  }

  return {
    value: (x) => (inside(x) ? at(x, 0, 0) : NaN),
    grad(x) {
      if (!inside(x)) return x.map(() => NaN);
      return n === 1 ? [at(x, 1, 0)] : [at(x, 1, 0), at(x, 0, 1)];
    },
    hvp(x, v) {
      if (!inside(x)) return x.map(() => NaN);
      if (n === 1) return [at(x, 2, 0) * v[0]];
      const mixed = at(x, 1, 1);
      return [at(x, 2, 0) * v[0] + mixed * v[1], mixed * v[0] + at(x, 0, 2) * v[1]];
    },
  };
}
