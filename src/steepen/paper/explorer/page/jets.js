// A formula as a tape. Every number on it is a jet (f, fx, fy, fxx, fxy, fyy), so ∇f and H·v are exact.

// φ, φ′ and φ″ at a, where φ(a) = f is known
export const FUNCTIONS = {
  sin: [Math.sin, Math.cos, (a, f) => -f],
  cos: [Math.cos, (a) => -Math.sin(a), (a, f) => -f],
  tan: [Math.tan, (a, f) => 1 + f * f, (a, f) => 2 * f * (1 + f * f)],
  exp: [Math.exp, (a, f) => f, (a, f) => f],
  expm1: [Math.expm1, (a, f) => 1 + f, (a, f) => 1 + f],
  log: [Math.log, (a) => 1 / a, (a) => -1 / (a * a)],
  sqrt: [Math.sqrt, (a, f) => 0.5 / f, (a, f) => -0.25 / (a * f)],
  abs: [Math.abs, Math.sign, () => 0],
  sign: [Math.sign, () => 0, () => 0],
  sinh: [Math.sinh, Math.cosh, (a, f) => f],
  cosh: [Math.cosh, Math.sinh, (a, f) => f],
  tanh: [Math.tanh, (a, f) => 1 - f * f, (a, f) => -2 * f * (1 - f * f)],
  atan: [Math.atan, (a) => 1 / (1 + a * a), (a) => (-2 * a) / (1 + a * a) ** 2],
};
Object.assign(FUNCTIONS, { ln: FUNCTIONS.log, arctan: FUNCTIONS.atan }); // two names for one

const by = (factor, slope) => (slope === 0 ? 0 : factor * slope); // 0 also where the factor is infinite

function compose(to, a, f, first, second) {
  to[0] = f;
  to[1] = by(first, a[1]);
  to[2] = by(first, a[2]);
  to[3] = by(first, a[3]) + by(second, a[1] * a[1]);
  to[4] = by(first, a[4]) + by(second, a[1] * a[2]);
  to[5] = by(first, a[5]) + by(second, a[2] * a[2]);
}

function multiply(to, a, b) {
  const f = a[0], g = b[0];
  to[0] = f * g;
  to[1] = a[1] * g + f * b[1];
  to[2] = a[2] * g + f * b[2];
  to[3] = a[3] * g + 2 * a[1] * b[1] + f * b[3];
  to[4] = a[4] * g + a[1] * b[2] + a[2] * b[1] + f * b[4];
  to[5] = a[5] * g + 2 * a[2] * b[2] + f * b[5];
}

export class Tape {
  constructor() {
    Object.assign(this, { lines: [], known: new Map(), last: null });
    this.variables = [0, 1].map((i) => this.note(`x${i}`, [], (to) => (to[1 + i] = 1), false));
  }

  // what has been noted before is not done again; what depends on no variable is done once
  note(name, operands, run, constant = operands.every((one) => one.constant)) {
    const key = [name, ...operands.map(({ id }) => id)].join(" ");
    if (!this.known.has(key)) {
      const jet = new Float64Array(6), [a, b] = operands.map((one) => one.jet);
      this.known.set(key, { id: this.known.size, jet, constant });
      run(jet, a, b);
      if (!constant && operands.length) this.lines.push(() => run(jet, a, b));
    }
    return this.known.get(key);
  }

  number(value) {
    return this.note(`${value}`, [], (to) => (to[0] = value));
  }

  apply(name, a) {
    const [f, first, second] = FUNCTIONS[name];
    return this.note(name, [a], (to, p) => {
      const value = f(p[0]);
      compose(to, p, value, first(p[0], value), second(p[0], value));
    });
  }

  add(a, b, sign = 1) {
    return this.note(`+${sign}`, [a, b], (to, p, q) => {
      for (let k = 0; k < 6; k++) to[k] = p[k] + sign * q[k];
    });
  }

  multiply(a, b) {
    return this.note("*", [a, b], multiply);
  }

  power(a, b) {
    if (!b.constant) return this.apply("exp", this.multiply(b, this.apply("log", a)));
    const n = b.jet[0];
    return this.note("^", [a, b], (to, p) => {
      const f = p[0], first = n && n * f ** (n - 1), second = n * (n - 1) && n * (n - 1) * f ** (n - 2);
      compose(to, p, f ** n, first, second);
    });
  }

  // f, ∇f and H·v of n variables, where `result` is f
  function({ jet }, n) {
    const { lines } = this, [first, second] = this.variables.map((one) => one.jet);
    const at = (x) => {
      if (this.last === x) return jet;
      this.last = x;
      [first[0], second[0]] = [x[0], n === 2 ? x[1] : 0];
      for (let i = 0; i < lines.length; i++) lines[i]();
      return jet;
    };
    return {
      value: (x) => at(x)[0],
      grad: (x) => (n === 2 ? [at(x)[1], at(x)[2]] : [at(x)[1]]),
      hvp: (x, v) => {
        const [, , , xx, xy, yy] = at(x), [a, b = 0] = v;
        return [xx * a + xy * b, xy * a + yy * b].slice(0, n);
      },
    };
  }
}
