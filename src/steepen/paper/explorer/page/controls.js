// The fields of the page: what they show, what is typed into them, and what is wrong with it, said below each.

import { readable } from "./chart.js";
import { METHODS } from "./run.js";
import { NUMBERS, read } from "./settings.js";

export const byId = (id) => document.getElementById(id);
export const made = (tag, properties, ...children) => {
  const one = Object.assign(document.createElement(tag), properties);
  one.append(...children);
  return one;
};

const logarithmic = (low, high) => ({
  from: (place) => Number((low * (high / low) ** (place / 1000)).toPrecision(3)),
  to: (value) => (1000 * Math.log(value / low)) / Math.log(high / low),
});
const identity = { from: Number, to: (value) => value };

// from places of a slider to settings and back; `base` is what the function began with
export const SLIDES = {
  lam: (base) => {
    const most = 4 * Math.abs(base.lam) || 1;
    return {
      from: (place) => Number((most * (place / 1000) ** 2).toPrecision(3)),
      to: (value) => 1000 * Math.sqrt(Math.max(value, 0) / most),
    };
  },
  step: (base) => logarithmic(base.step / 100, base.step * 100),
  grads: () => identity,
  at: () => identity,
};

const fields = Object.keys(NUMBERS).filter((name) => name !== "at");
const axis = (settings, i) => (settings.start.length === 1 ? "x" : `x${"₁₂"[i]}`);

// what is in a field that was typed into stays there until it is taken, or set by other means
export class Fields {
  constructor(change) {
    Object.assign(this, { change, drafts: {}, wrong: {} });
  }

  // a setting was changed by other means
  forget(...names) {
    for (const name of names) {
      delete this.drafts[name];
      delete this.wrong[name];
    }
  }

  clear(wrong = {}) {
    Object.assign(this, { drafts: {}, wrong: { ...wrong } });
  }

  // takes what is typed into the field `id` where it fits; else says below `place` what does not
  listen(id, place, rule, take) {
    byId(id).addEventListener("input", () => {
      const { value, error } = read(rule(), byId(id).value);
      this.drafts[id] = byId(id).value;
      if (error) this.wrong[place] = error;
      else delete this.wrong[place];
      this.change(error ? {} : take(value));
    });
    byId(id).addEventListener("change", () => {
      if (!this.wrong[place]) delete this.drafts[id];
      this.change({});
    });
  }

  listenAll(settings) {
    for (const name of fields) this.listen(name, name, () => NUMBERS[name], (value) => ({ [name]: value }));
    for (const method of Object.keys(METHODS)) {
      const box = made("input", { type: "checkbox", value: method }), swatch = made("i", {});
      swatch.style.background = `var(--${method})`;
      byId("methods").append(made("label", {}, box, swatch, METHODS[method]));
    }
    byId("methods").addEventListener("change", () => {
      this.forget("methods");
      this.change({ methods: [...byId("methods").querySelectorAll("input:checked")].map((box) => box.value) });
    });
    this.settings = settings;
  }

  makeStarts() {
    const { start } = this.settings();
    byId("starts").replaceChildren(...start.flatMap((_, i) => [
      made("label", { htmlFor: `x${i}`, textContent: `Start ${axis(this.settings(), i)}` }),
      made("input", { id: `x${i}`, inputMode: "text" }),
    ]));
    start.forEach((_, i) => {
      const rule = () => ({ ...NUMBERS.lam, name: axis(this.settings(), i) });
      this.listen(`x${i}`, "start", rule, (value) => ({ start: this.settings().start.map((x, j) => (i === j ? value : x)) }));
    });
  }

  show(settings, base) {
    const put = (id, value) => (byId(id).value = this.drafts[id] ?? value);
    for (const name of fields) put(name, settings[name] ?? "auto");
    for (const [name, slide] of Object.entries(SLIDES)) {
      byId(`${name}-slide`).value = slide(base).to(settings[name]);
      byId(`${name}-slide`).ariaValueText = String(settings[name]);
    }
    for (const box of byId("methods").querySelectorAll("input")) box.checked = settings.methods.includes(box.value);
    if (byId("starts").children.length !== 2 * settings.start.length) this.makeStarts();
    settings.start.forEach((x, i) => put(`x${i}`, Number(x.toPrecision(6))));
    put("expr", settings.expr);
    settings.map.forEach((value, i) => put(["from", "to"][i], value));
    this.showWrong(settings);
  }

  // what is wrong, and what is drawn meanwhile
  showWrong(settings) {
    for (const place of document.querySelectorAll(".wrong")) {
      const name = place.id.replace("-wrong", ""), words = this.wrong[name] ?? "", value = settings[name] ?? "auto";
      const drawn = fields.includes(name) ? `${NUMBERS[name].name} = ${typeof value === "number" ? readable(value) : value}` : "";
      place.textContent = words && drawn ? `${words} ${drawn} is drawn.` : words;
      byId(name)?.setAttribute("aria-invalid", String(words !== ""));
    }
    if (this.wrong.r || this.wrong.b || this.wrong.start) byId("more").open = true;
  }
}
