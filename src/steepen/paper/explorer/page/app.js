// The page: settings in, pictures and a table out. Whatever changes, one frame draws it all again.

import { readable } from "./chart.js";
import { Fields, SLIDES, byId, made } from "./controls.js";
import { typed } from "./expression.js";
import { drawChart, drawCurve, drawLandscape, drawSlice } from "./pictures.js";
import { METHODS } from "./run.js";
import { Scene } from "./scene.js";
import { fromHash, initial, readMap, toHash } from "./settings.js";
import { best } from "./suggest.js";
import { state, verdict } from "./verdict.js";
import { clip } from "./vectors.js";

const RACE = 4000, PAUSE = 300, TYPING = 200; // milliseconds
const COLOURS = ["ink", "faint", "rule", "halo", "card", "artificial", "guard", "lifted", ...Object.keys(METHODS)];
const rounded = (x) => x.map((value) => Number(value.toPrecision(6)));

class App {
  constructor(functions, first) {
    Object.assign(this, { functions, first, scene: new Scene(functions), waiting: false, playing: null });
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.fields = new Fields((patch) => this.change(patch));
    this.listen();
    this.open();
  }

  get fun() {
    return this.functions[this.settings.function];
  }

  // what the link asks for
  open() {
    const { settings, wrong, draft } = fromHash(this.functions, location.hash, this.first);
    this.settings = settings;
    this.fields.clear(wrong);
    if (wrong.expr) this.fields.drafts.expr = draft;
    this.change({});
  }

  change(patch) {
    const at = patch.at ?? (patch.grads && this.settings.at ? patch.grads : this.settings.at); // a new budget is shown whole
    this.settings = { ...this.settings, ...patch };
    this.settings.at = clip(at, 0, this.settings.grads);
    if (!this.waiting) requestAnimationFrame(() => this.render());
    this.waiting = true;
  }

  // a function with the settings that it starts with; what is not its own stays
  choose(name) {
    const { methods, grads, at } = this.settings;
    this.fields.clear();
    this.change({ ...initial(this.functions, name), methods, grads, at: at === 0 ? 0 : grads });
  }

  render() {
    const { scene, settings, fun } = this;
    this.waiting = false;
    scene.set(settings);
    this.showControls(); // first, since it decides how large the pictures are
    const paint = scene.once("colours", this.dark.matches, () => {
      const style = getComputedStyle(document.documentElement);
      return Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    });
    this.plot = (fun.n === 1 ? drawCurve : drawLandscape)(byId("landscape"), scene, paint);
    if (fun.n === 2) drawSlice(byId("slice"), scene, paint);
    byId("off").hidden = drawChart(byId("chart"), scene, paint, byId("gap").textContent) === 0;
    byId("rows").replaceChildren(...scene.runs.map((run) => this.line(run)));
    byId("said").textContent = verdict(scene);
    clearTimeout(this.calm);
    this.calm = setTimeout(() => this.settle(), PAUSE);
  }

  // what can wait until nothing moves
  settle() {
    const { scene, settings, fun } = this, lam = readable(settings.lam);
    if (toHash(settings) !== location.hash) history.replaceState(null, "", toHash(settings));
    byId("landscape").ariaLabel =
      `${fun.title}: f + λ‖∇f‖² with λ = ${lam}, the start at ${settings.start.map((x) => readable(x)).join(", ")}, ` +
      `${scene.artificial.length} artificial stationary points`;
    byId("news").textContent = `λ ${lam}. ${byId("said").textContent}`;
  }

  showControls() {
    const { settings, scene, fun } = this;
    const key = `${settings.function} ${settings.expr} ${settings.map}`;
    const base = scene.once("base", key, () => initial(this.functions, settings.function));
    byId("cut").hidden = byId("scale").hidden = fun.n === 1;
    byId("curves").hidden = fun.n === 2;
    byId("sampled").hidden = !fun.samples;
    byId("samples").textContent = fun.samples ? (fun.samples ** fun.n).toLocaleString("en") : "";
    byId("gap").textContent = scene.known ? "f − f*" : "f";
    byId("function").value = settings.function;
    byId("function").lastChild.disabled = byId("function").lastChild.hidden = !this.functions.typed;
    byId("zoom").textContent = settings.box ? "Whole map" : "Zoom to the runs";
    byId("at").textContent = settings.at === 0 ? "first step of each" : `${settings.at} of ${settings.grads}`;
    byId("at-slide").max = settings.grads;
    this.fields.show(settings, base);
  }

  // a run in the table
  line(run) {
    const rows = this.scene.shown(run), row = rows.at(-1), { njev, nhvp } = rows.length === run.trace.length ? run : row;
    const cells = [nhvp ? `${njev} + ${nhvp} H·v` : `${njev}`, readable(this.scene.gap(row.f)), state(run, rows, this.fun)];
    const name = made("th", { scope: "row", textContent: METHODS[run.method] });
    name.style.color = `var(--${run.method})`;
    return made("tr", {}, name, ...cells.map((textContent) => made("td", { textContent })));
  }

  listen() {
    const groupOf = ([, one]) => (one.n === 1 && one.group !== "given" ? "one variable" : one.group);
    for (const [label, members] of Map.groupBy(Object.entries(this.functions), groupOf)) {
      byId("function").append(made("optgroup", { label }, ...members.map(([name, one]) => new Option(one.title, name))));
    }
    byId("function").append(new Option("your f", "typed"));
    byId("function").addEventListener("change", (event) => this.choose(event.target.value));
    this.fields.listenAll(() => this.settings);
    for (const [name, slide] of Object.entries(SLIDES)) {
      byId(`${name}-slide`).addEventListener("input", (event) => {
        if (name === "at") this.pause();
        this.fields.forget(name);
        this.change({ [name]: slide(this.scene.made.base.value).from(event.target.valueAsNumber) });
      });
    }
    for (const name of ["expr", "from", "to"]) {
      byId(name).addEventListener("input", () => {
        this.fields.drafts[name] = byId(name).value;
        clearTimeout(this.typed);
        this.typed = setTimeout(() => this.take(), TYPING);
      });
    }
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    const click = { best: () => this.best(), play: () => this.play() };
    click.zoom = () => this.change({ box: this.settings.box ? null : undefined });
    click.reset = () => this.choose(this.settings.function);
    for (const [name, act] of Object.entries(click)) byId(name).addEventListener("click", act);
    byId("landscape").addEventListener("pointerdown", (event) => {
      event.target.setPointerCapture(event.pointerId);
      this.drag(event);
    });
    byId("landscape").addEventListener("pointermove", (event) => event.buttons && this.drag(event));
    byId("field").addEventListener("keydown", (event) => this.nudge(event));
    addEventListener("hashchange", () => this.open());
    addEventListener("resize", () => this.change({}));
    this.dark.addEventListener("change", () => this.change({}));
  }

  // what was typed: taken where it is a function, with a sentence below the field where it is not
  take() {
    const [expr, from, to] = ["expr", "from", "to"].map((name) => byId(name).value), { map, error } = readMap(from, to);
    const found = expr.trim() === "" ? {} : error ? { error } : typed(expr, map);
    this.fields.forget("expr");
    if (!found.fun) {
      this.fields.drafts.expr = expr;
      if (found.error) this.fields.wrong.expr = `${found.error} ${this.fun.title} is drawn.`;
      return this.change({});
    }
    this.functions.typed = found.fun;
    this.choose("typed");
    return Object.assign(this.fields.drafts, { expr, from, to }); // as they are, while they are typed
  }

  moveStart(x) {
    this.fields.forget("start", "x0", "x1");
    this.change({ start: rounded(x.map((value, i) => clip(value, ...this.scene.box[i]))) });
  }

  drag(event) {
    const { left, top } = event.target.getBoundingClientRect();
    this.moveStart(this.plot.point(event.clientX - left, event.clientY - top).slice(0, this.fun.n));
  }

  nudge(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[event.key];
    if (!way) return;
    event.preventDefault();
    const part = event.shiftKey ? 0.05 : 0.005;
    this.moveStart(this.settings.start.map((x, i) => x + part * way[i] * (this.scene.box[i][1] - this.scene.box[i][0])));
  }

  best() {
    const found = best(this.fun, this.settings.start);
    this.fields.forget("step");
    if (!found) this.fields.wrong.step = "No α that was tried keeps GD descending inside the map from this start.";
    this.change(found ? { step: found.step, at: this.settings.grads } : {});
  }

  play() {
    const { at, grads } = this.settings;
    if (this.playing) return this.pause();
    if (this.still.matches) return this.change({ at: grads });
    if (at === grads) this.change({ at: 0 });
    byId("play").textContent = "Pause";
    this.playing = setInterval(() => {
      this.change({ at: this.settings.at + 1 });
      if (this.settings.at === this.settings.grads) this.pause();
    }, RACE / grads);
    return this.playing;
  }

  pause() {
    clearInterval(this.playing);
    byId("play").textContent = "Play";
    this.playing = null;
  }
}

export const start = (functions, first) => new App(functions, first);
