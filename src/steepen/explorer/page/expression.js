// A function that is typed: parsed by a small grammar of its own, and differentiated exactly by dual numbers.

const MOST = 1000; // characters
const LOOKS = 20; // in each variable, for a value
const CONSTANTS = { pi: Math.PI, "π": Math.PI, e: Math.E };
const VARIABLES = { x: 0, "x₁": 0, x1: 0, y: 1, "x₂": 1, x2: 1 };

// φ, φ′ and φ″ at a, φ(a) being known
const UNARY = {
  neg: [(a) => -a, () => -1, () => 0],
  sin: [Math.sin, (a) => Math.cos(a), (a, f) => -f],
  cos: [Math.cos, (a) => -Math.sin(a), (a, f) => -f],
  tan: [Math.tan, (a, f) => 1 + f * f, (a, f) => 2 * f * (1 + f * f)],
  exp: [Math.exp, (a, f) => f, (a, f) => f],
  log: [Math.log, (a) => 1 / a, (a) => -1 / (a * a)],
  sqrt: [Math.sqrt, (a, f) => 0.5 / f, (a, f) => -0.25 / (a * f)],
  abs: [Math.abs, Math.sign, () => 0],
  sinh: [Math.sinh, Math.cosh, (a, f) => f],
  cosh: [Math.cosh, Math.sinh, (a, f) => f],
  tanh: [Math.tanh, (a, f) => 1 - f * f, (a, f) => -2 * f * (1 - f * f)],
  atan: [Math.atan, (a) => 1 / (1 + a * a), (a) => (-2 * a) / (1 + a * a) ** 2],
};
UNARY.ln = UNARY.log;

class Wrong extends Error {}

// "2x sin(y)" is 2·x·sin(y); ^ binds to the right, and before a minus sign
class Parser {
  constructor(text) {
    Object.assign(this, { text, tape: [], tokens: tokens(text), at: 0 });
  }

  get next() {
    return this.tokens[this.at];
  }

  takes(...marks) {
    if (marks.includes(this.next.mark)) return this.tokens[this.at++].mark;
    return null;
  }

  note(...line) {
    return this.tape.push(line) - 1;
  }

  whole() {
    if (this.next.mark === "end") throw new Wrong("Type a function of x and y, such as x^2 + 3 sin(y)");
    this.sum();
    if (this.next.mark !== "end") this.unexpected();
    if (!this.tape.some(([name]) => name === "x")) throw new Wrong("There is no x and no y in it");
    return this.tape;
  }

  sum() {
    let left = this.product();
    for (let mark; (mark = this.takes("+", "-")); ) left = this.note(mark, left, this.product());
    return left;
  }

  product() {
    let left = this.signed();
    for (;;) {
      const mark = this.takes("*", "/") ?? (["number", "name", "("].includes(this.next.mark) ? "*" : null);
      if (!mark) return left;
      left = this.note(mark, left, this.signed());
    }
  }

  signed() {
    if (this.takes("+")) return this.signed();
    return this.takes("-") ? this.note("neg", this.signed()) : this.power();
  }

  power() {
    const base = this.atom();
    return this.takes("^") ? this.note("^", base, this.signed()) : base;
  }

  atom() {
    const { mark, word, place } = this.next;
    if (mark === "number") {
      this.at++;
      return this.note("number", Number(word));
    }
    if (mark === "(") return this.bracket();
    if (mark !== "name") this.unexpected();
    this.at++;
    if (Object.hasOwn(VARIABLES, word)) return this.note("x", VARIABLES[word]);
    if (Object.hasOwn(CONSTANTS, word)) return this.note("number", CONSTANTS[word]);
    if (!Object.hasOwn(UNARY, word) || word === "neg") {
      const known = [...Object.keys(UNARY).filter((name) => name !== "neg"), "pi", "e"].join(", ");
      throw new Wrong(`“${word}” at ${place + 1} is not known; known are x, y, ${known}`);
    }
    if (this.next.mark !== "(") throw new Wrong(`${word} needs a bracket: ${word}(…)`);
    return this.note(word, this.bracket());
  }

  bracket() {
    const { place } = this.next;
    this.at++;
    const inner = this.sum();
    if (!this.takes(")")) {
      if (this.next.mark === "end") throw new Wrong(`The bracket at ${place + 1} is never closed`);
      this.unexpected();
    }
    return inner;
  }

  unexpected() {
    const { mark, word, place } = this.next;
    if (mark === "end") throw new Wrong("Something is missing at the end");
    throw new Wrong(mark === ")" ? `The bracket at ${place + 1} was never opened` : `“${word}” at ${place + 1} is out of place`);
  }
}

function tokens(text) {
  if (text.length > MOST) throw new Wrong(`${text.length} characters are too many: ${MOST} at most`);
  const found = [], token = /\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-zπ][A-Za-z]*[12₁₂]?)|([-+*/^()]))/y;
  const plain = text.replaceAll("**", "^ ").replace(/[−–]/g, "-").replace(/[·×]/g, "*").replace(/[[{]/g, "(").replace(/[\]}]/g, ")");
  let place = 0;
  while (plain.slice(place).trim()) {
    token.lastIndex = place;
    const match = token.exec(plain);
    if (!match) {
      const at = place + plain.slice(place).search(/\S/);
      throw new Wrong(`“${plain[at]}” at ${at + 1} is not understood`);
    }
    const [all, number, name, mark] = match, word = number ?? name ?? mark;
    found.push({ mark: number ? "number" : name ? "name" : mark, word, place: place + all.length - word.length });
    place = token.lastIndex;
  }
  return [...found, { mark: "end", word: "", place }];
}

// The numbers of a tape, six each: the value, ∂x, ∂y, ∂v, ∂x∂v and ∂y∂v; v is the direction of H·v. A map needs many,
// so that they stand in one array, and only the first `width` of them are made.
class Machine {
  constructor(tape) {
    Object.assign(this, { tape, all: new Float64Array(6 * tape.length) });
  }

  run(x, v, width) {
    const { tape, all } = this;
    for (let i = 0, to = 0; i < tape.length; i++, to += 6) {
      const line = tape[i], name = line[0], a = 6 * line[1], b = 6 * line[2];
      if (name === "number" || name === "x") {
        all.fill(0, to, to + 6);
        all[to] = name === "x" ? x[line[1]] : line[1];
        if (name === "x") {
          all[to + 1 + line[1]] = 1;
          all[to + 3] = v[line[1]];
        }
      } else if (name === "+") for (let k = 0; k < width; k++) all[to + k] = all[a + k] + all[b + k];
      else if (name === "-") for (let k = 0; k < width; k++) all[to + k] = all[a + k] - all[b + k];
      else if (name === "*") this.multiply(to, a, b, width);
      else if (name === "/") {
        const down = all[b];
        this.compose(to, b, 1 / down, -1 / (down * down), 2 / down ** 3, width);
        this.multiply(to, a, to, width);
      } else if (name === "^") this.raise(to, a, b, this.constant(line[2]), width);
      else {
        const [f, df, ddf] = UNARY[name], at = all[a], value = f(at);
        if (width === 1) all[to] = value;
        else this.compose(to, a, value, df(at, value), ddf(at, value), width);
      }
    }
    return all.subarray(all.length - 6);
  }

  constant(line) {
    const [name, a] = this.tape[line];
    return name === "number" || (name === "neg" && this.tape[a][0] === "number");
  }

  // φ of the number at a; what a slope of 0 removes is 0, also where φ′ is infinite
  compose(to, a, value, first, second, width) {
    const { all } = this, [dx, dy, dv, dxv, dyv] = [all[a + 1], all[a + 2], all[a + 3], all[a + 4], all[a + 5]];
    all[to] = value;
    if (width === 1) return;
    all[to + 1] = dx && first * dx;
    all[to + 2] = dy && first * dy;
    if (width === 3) return;
    all[to + 3] = dv && first * dv;
    all[to + 4] = (dx && dv && second * dx * dv) + (dxv && first * dxv);
    all[to + 5] = (dy && dv && second * dy * dv) + (dyv && first * dyv);
  }

  multiply(to, a, b, width) {
    const { all } = this, f = all[a], g = all[b];
    if (width > 3) {
      for (const k of [1, 2]) {
        all[to + 3 + k] = all[a + 3 + k] * g + all[a + k] * all[b + 3] + all[a + 3] * all[b + k] + f * all[b + 3 + k];
      }
      all[to + 3] = all[a + 3] * g + f * all[b + 3];
    }
    if (width > 1) {
      all[to + 1] = all[a + 1] * g + f * all[b + 1];
      all[to + 2] = all[a + 2] * g + f * all[b + 2];
    }
    all[to] = f * g;
  }

  raise(to, a, b, constant, width) {
    const { all } = this, f = all[a], n = all[b];
    if (constant) {
      const first = n && n * f ** (n - 1), second = n * (n - 1) && n * (n - 1) * f ** (n - 2);
      return this.compose(to, a, f ** n, first, second, width);
    }
    this.compose(to, a, Math.log(f), 1 / f, -1 / (f * f), width); // a^b is exp(b·log a)
    this.multiply(to, b, to, width);
    const value = Math.exp(all[to]);
    this.compose(to, to, value, value, value, width);
  }
}

// A function of the page from what was typed, or the message that says what is wrong with it.
export function typed(text, [low, high]) {
  try {
    const tape = new Parser(text).whole(), machine = new Machine(tape), n = tape.some(([name, a]) => name === "x" && a === 1) ? 2 : 1;
    const none = [0, 0], padded = (x) => (n === 1 ? [x[0], 0] : x);
    const value = (x) => machine.run(padded(x), none, 1)[0];
    const places = Array.from({ length: LOOKS }, (_, i) => low + ((i + 0.37) / LOOKS) * (high - low));
    if (!places.some((x) => places.some((y) => Number.isFinite(value([x, y]))))) {
      throw new Wrong("It has no value anywhere on the map");
    }
    return {
      fun: {
        title: text, group: "typed", n, bounds: Array.from({ length: n }, () => [low, high]), minima: [], fmin: null,
        value,
        grad: (x) => [...machine.run(padded(x), none, 3).subarray(1, 1 + n)],
        hvp: (x, v) => [...machine.run(padded(x), padded(v), 6).subarray(4, 4 + n)],
      },
    };
  } catch (error) {
    if (error instanceof Wrong) return { error: `${error.message}.` };
    throw error;
  }
}
