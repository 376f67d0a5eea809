// f, ∇f and H·v of a function, every call counted.

import { EPS, dot, minus, norm, plus, same, times } from "./vectors.js";

const NEAR = 0.1;

export class Oracle {
  // the library charges no gradient for an H·v that is given; in a race it has its price
  constructor(fun, grads, price) {
    Object.assign(this, { fun, grads, price, nfev: 0, njev: 0, nhvp: 0 });
  }

  get spent() {
    return this.njev + this.price * this.nhvp;
  }

  affords(grads) {
    return this.spent + grads <= this.grads;
  }

  value(x) {
    this.nfev++;
    return this.fun.value(x);
  }

  grad(x) {
    this.njev++;
    return this.fun.grad(x);
  }

  hvp(x, v) {
    this.nhvp++;
    return this.fun.hvp(x, v);
  }

  // r for which r·v is about √ε of the size of x
  probeLength(x, v) {
    return (Math.sqrt(EPS) * Math.max(norm(x), 1)) / (norm(v) || 1);
  }

  // r·H·v by the paper's difference ∇f(x + r·v) − ∇f(x)
  change(x, v, g, r) {
    return minus(this.grad(plus(times(r, v), x)), g);
  }

  // what the values of f near x differ by beyond what the gradient explains
  noise(x, f, g, way) {
    const ahead = times(NEAR, way);
    let found = Infinity;
    for (const part of [ahead, times(-0.5, ahead)]) {
      let point = plus(x, part);
      if (same(point, x)) point = plus(x, times(0.5, ahead));
      found = Math.min(found, Math.abs(this.value(point) - f - dot(g, minus(point, x))));
    }
    return found < Infinity ? found : 0;
  }
}
