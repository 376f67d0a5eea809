// Formulas in x and y, parsed by a small grammar of the page's own: no text of a link is ever run as a program.

import { FUNCTIONS, Tape } from "./jets.js";

const LONGEST = 1000; // characters that may be typed
const LOOKS = 20; // points per variable at which a value is looked for
const CONSTANTS = { pi: Math.PI, "π": Math.PI, e: Math.E };
const PREFIX = /^(np|numpy|jnp|math)\./; // of Python's functions
const CLOSES = { "(": ")", "[": "]", "{": "}" }, CLOSING = new Set(Object.values(CLOSES));
const VARIABLES = { x: 0, "x₁": 0, x1: 0, y: 1, "x₂": 1, x2: 1 };

class Wrong extends Error {}

// "2x sin(y)" is 2·x·sin(y); ^ binds to the right, and before a minus sign; x[0] and x[1] are x and y
class Parser {
  constructor(text) {
    Object.assign(this, { tape: new Tape(), tokens: tokens(text), at: 0, n: 0, style: null });
  }

  get next() {
    return this.tokens[this.at];
  }

  takes(...marks) {
    return marks.includes(this.next.mark) ? this.tokens[this.at++].mark : null;
  }

  whole() {
    if (this.next.mark === "end") throw new Wrong("Type a function of x and y, such as x^2 + 3 sin(y)");
    const result = this.sum();
    if (this.next.mark !== "end") this.unexpected();
    return result;
  }

  sum() {
    let left = this.product();
    for (let mark; (mark = this.takes("+", "-")); ) left = this.tape.add(left, this.product(), mark === "+" ? 1 : -1);
    return left;
  }

  // 1/2x may mean x/2 or 1/(2x), and x^2y may mean x^(2y): both are refused
  product() {
    let left = this.signed(), divided = false;
    for (;;) {
      const { mark: next, word, place, spaced } = this.next, written = this.takes("*", "/");
      const mark = written ?? (["name", "(", "{"].includes(next) ? "*" : null);
      if (!mark) return left;
      if (!written && (divided || (this.raised && !spaced))) {
        throw new Wrong(`“${word}” at ${place + 1}: write * before it, or brackets around what is meant`);
      }
      divided = mark === "/";
      const right = this.signed(), inverse = () => this.tape.power(right, this.tape.number(-1));
      left = this.tape.multiply(left, mark === "*" ? right : inverse());
    }
  }

  signed() {
    if (this.takes("+")) return this.signed();
    return this.takes("-") ? this.tape.multiply(this.tape.number(-1), this.signed()) : this.power();
  }

  power() {
    const base = this.atom();
    this.raised = false;
    if (!this.takes("^")) return base;
    const exponent = this.signed();
    this.raised = this.tokens[this.at - 1].mark !== ")";
    return this.tape.power(base, exponent);
  }

  atom() {
    const { mark, word: said, place } = this.next, word = said.replace(PREFIX, "");
    if (Object.hasOwn(CLOSES, mark)) return this.bracket();
    if (mark !== "number" && mark !== "name") this.unexpected();
    this.at++;
    if (mark === "number") return this.tape.number(Number(word));
    if (Object.hasOwn(CONSTANTS, word)) return this.tape.number(CONSTANTS[word]);
    if (Object.hasOwn(VARIABLES, said)) return this.variable(said, place);
    if (!Object.hasOwn(FUNCTIONS, word)) {
      const known = [...Object.keys(FUNCTIONS), "pi", "e"].join(", ");
      throw new Wrong(`“${said}” at ${place + 1} is not known; known are x, y, ${known}`);
    }
    if (!Object.hasOwn(CLOSES, this.next.mark)) throw new Wrong(`${word} at ${place + 1} needs a bracket: ${word}(…)`);
    return this.tape.apply(word, this.bracket());
  }

  // x, y, x₁, x1 and so on, or x[0] and x[1] as in Python; not both, since x1 is x[0]
  variable(word, place) {
    let index = VARIABLES[word], style = "name";
    if (this.next.mark === "[") {
      const [, number, close] = this.tokens.slice(this.at), text = number?.word ?? "";
      if (word !== "x" || !["0", "1"].includes(text) || close?.mark !== "]") {
        throw new Wrong(`“${word}[${text || "…"}]” at ${place + 1} is not known; known are x[0] and x[1]`);
      }
      this.at += 3;
      [index, style] = [Number(text), "index"];
    }
    if (style !== (this.style ??= style)) {
      throw new Wrong(`“${word}” at ${place + 1}: x[0] and x[1] cannot be mixed with other names of x and y`);
    }
    this.n = Math.max(this.n, index + 1);
    return this.tape.variables[index];
  }

  bracket() {
    const { mark, place } = this.next;
    this.at++;
    const inner = this.sum(), { mark: next, word, place: there } = this.next;
    if (this.takes(CLOSES[mark])) return inner;
    if (next === "end") throw new Wrong(`The bracket at ${place + 1} is never closed`);
    if (CLOSING.has(next)) throw new Wrong(`The bracket “${mark}” at ${place + 1} is closed by “${word}” at ${there + 1}`);
    return this.unexpected();
  }

  unexpected() {
    const { mark, word, place } = this.next;
    if (mark === "end") throw new Wrong("Something is missing at the end");
    throw new Wrong(CLOSING.has(mark) ? `The bracket at ${place + 1} was never opened` : `“${word}” at ${place + 1} is out of place`);
  }
}

// a digit belongs to the name before it, so that x3 is not x·3
const TOKEN =
  /\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|((?:(?:np|numpy|jnp|math)\.)?[A-Za-zπ][A-Za-z]*[\d₀-₉]*)|([-+*/^()[\]{}]))/y;

function tokens(text) {
  const found = [];
  const plain = text.replaceAll("**", "^ ").replace(/[−–]/g, "-").replace(/[·×]/g, "*");
  let place = 0;
  while (plain.slice(place).trim()) {
    TOKEN.lastIndex = place;
    const match = TOKEN.exec(plain);
    if (!match) {
      const at = place + plain.slice(place).search(/\S/);
      throw new Wrong(`“${plain[at]}” at ${at + 1} is not understood`);
    }
    const [all, number, name, mark] = match, word = number ?? name ?? mark;
    const kind = number ? "number" : name ? "name" : mark, start = place + all.length - word.length;
    found.push({ mark: kind, word, place: start, spaced: start > place });
    place = TOKEN.lastIndex;
  }
  return [...found, { mark: "end", word: "", place }];
}

// value, grad and hvp of a function that comes with its formula
export function compiled({ formula, n }) {
  const parser = new Parser(formula), result = parser.whole();
  return parser.tape.function(result, n ?? parser.n);
}

// A function of the page from what was typed, or the message that says what is wrong with it.
export function typed(text, [low, high]) {
  try {
    if (text.length > LONGEST) throw new Wrong(`${text.length} characters are too many: ${LONGEST} at most`);
    const parser = new Parser(text), result = parser.whole(), { n } = parser;
    if (n === 0) throw new Wrong("There is no x and no y in it");
    const fun = parser.tape.function(result, n);
    const places = Array.from({ length: LOOKS }, (_, i) => low + ((i + 0.37) / LOOKS) * (high - low));
    if (!places.some((x) => places.some((y) => Number.isFinite(fun.value([x, y]))))) {
      throw new Wrong("It has no value anywhere on the map");
    }
    return { fun: { ...fun, title: text, group: "typed", n, bounds: Array(n).fill([low, high]), minima: [], fmin: null } };
  } catch (error) {
    if (error instanceof Wrong) return { error: `${error.message}.` };
    throw error;
  }
}
