// The page: settings in, pictures and a table out. Whatever changes, one frame draws it all again.

import { readable } from "./chart.js";
import { penalties } from "./penalties.js";
import { drawCurve, drawLandscape, drawRace, drawSlice } from "./pictures.js";
import { Scene } from "./scene.js";
import { METHODS, enter, fromHash, initial, race, toHash } from "./settings.js";
import { spline } from "./spline.js";
import { clip, norm } from "./vectors.js";

const RACE = 4000, GROWTH = 1600, PAUSE = 300, TYPING = 200; // milliseconds
const NAMES = { gd: "GD", cgd: "CGD", "cgd-fd": "CGD-FD", bfgs: "BFGS", "cgd-auto": "cgd-auto" };
const STATES = {
  CONVERGED: "converged", PRECISION: "as low as rounding lets f be", NOISE: "as low as its noise lets f be",
  MAX_GRADIENTS: "gradients spent", ARTIFICIAL: "near an artificial stationary point ◇",
  NO_DESCENT: "the line search found nothing lower", NONFINITE_VALUE: "f has no value there",
  NONFINITE_GRADIENT: "∇f has no value there", UNBOUNDED: "f falls without bound", DIVERGED: "x overflowed",
};
const COLOURS = ["ink", "faint", "rule", "halo", "card", "artificial", "guard", "lifted", ...METHODS];

const byId = (id) => document.getElementById(id);
const logarithmic = (low, high) => ({
  from: (place) => Number((low * (high / low) ** (place / 1000)).toPrecision(3)),
  to: (value) => (1000 * Math.log(value / low)) / Math.log(high / low),
});

export function start(functions, first) {
  for (const fun of Object.values(functions)) if (fun.sampled) Object.assign(fun, spline(fun.sampled));
  let settings = fromHash(functions, location.hash, first);
  let waiting = false, calm, typed, playing = null, typing = null, plot = null;
  const scene = new Scene(functions);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const fun = () => functions[settings.function];

  function change(patch) {
    const at = patch.at ?? patch.grads ?? settings.at; // a new budget is shown whole
    if (patch.function && patch.function !== "typed") typing = null;
    const mine = ["lam", "step", "r", "b", "search", "penalty", "function"].some((name) => name in patch);
    settings = { ...settings, ...(mine ? { tuned: false } : {}), ...patch };
    settings.at = clip(at, 0, settings.grads);
    if (!waiting) requestAnimationFrame(render);
    waiting = true;
  }

  function colours() {
    const style = getComputedStyle(document.documentElement);
    const found = COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]);
    return { ...Object.fromEntries(found), theme: dark.matches ? "dark" : "light" };
  }

  function render() {
    waiting = false;
    scene.set(settings);
    showControls(); // first, since it decides how large the pictures are
    const paint = scene.once("colours", dark.matches, colours);
    if (fun().n === 1) plot = drawCurve(byId("landscape"), scene, paint);
    else {
      plot = drawLandscape(byId("landscape"), scene, paint);
      drawSlice(byId("slice"), scene, paint);
    }
    byId("off").hidden = drawRace(byId("chart"), scene, paint, byId("gap").textContent) === 0;
    showTable();
    byId("said").textContent = compared();
    clearTimeout(calm);
    calm = setTimeout(settle, PAUSE);
  }

  // what can wait until nothing moves
  function settle() {
    if (toHash(settings) !== location.hash) history.replaceState(null, "", toHash(settings));
    const lam = readable(settings.lam), from = settings.start.map((x) => readable(x)).join(", ");
    byId("landscape").ariaLabel =
      `${fun().title}: f + λ${scene.penalty.label} with λ = ${lam}, the start at ${from}, ` +
      `${scene.artificial.length} artificial stationary points`;
    const told = scene.runs.map((one) => `${NAMES[one.method]} ${readable(scene.gap(scene.shown(one).at(-1).f))}`);
    byId("news").textContent =
      `λ ${lam}, after ${settings.at} gradients ${byId("gap").textContent}: ${told.join(", ")}`;
  }

  // --- controls -------------------------------------------------------------------------------------------------

  const base = () => scene.once("base", settings.function, () => initial(functions, settings.function));
  const identity = { from: Number, to: (value) => value };
  const dials = {
    lam: () => {
      const most = 4 * base().lam;
      return {
        from: (place) => Number((most * (place / 1000) ** 2).toPrecision(3)),
        to: (value) => 1000 * Math.sqrt(Math.max(value, 0) / most),
      };
    },
    step: () => logarithmic(base().step / 100, base().step * 100),
    r: () => {
      const scale = logarithmic(1e-6, 10);
      return {
        from: (place) => (place > 0 ? scale.from(place) : null),
        to: (value) => (value === null ? 0 : scale.to(value)),
      };
    },
    b: () => ({ from: Number, to: (value) => value ?? Math.floor(settings.grads / 4) }),
    grads: () => identity,
    at: () => identity,
  };

  const shown = (name) => (settings.tuned && ["step", "r", "b"].includes(name) ? "tuned" : (settings[name] ?? "auto"));

  function showControls() {
    document.body.classList.toggle("one", fun().n === 1);
    byId("cut").hidden = fun().n === 1;
    byId("sampled").hidden = !fun().sampled;
    byId("samples").textContent = fun().samples?.toLocaleString("en") ?? "";
    for (const place of document.querySelectorAll(".h")) place.textContent = scene.penalty.label;
    byId("towards").textContent = fun().minima.length ? "nearest minimum" : "way down";
    byId("gap").textContent = scene.known ? "f − f*" : "f";
    byId("tuned").disabled = !fun().tuned;
    byId("tuned").title = fun().tuned ? "" : "The study has no settings for this function";
    showTyped();
    byId("function").value = settings.function;
    byId("penalty").value = settings.penalty;
    byId("search").checked = settings.search;
    byId("zoom").textContent = settings.box ? "Whole map" : "Zoom to the walk";
    byId("step").disabled = byId("step-slide").disabled = settings.search;
    byId("at").textContent = `${settings.at} of ${settings.grads}`;
    byId("at-slide").max = byId("b-slide").max = settings.grads;
    for (const box of byId("methods").querySelectorAll("input")) box.checked = settings.methods.includes(box.value);
    for (const [name, dial] of Object.entries(dials)) {
      const slide = byId(`${name}-slide`);
      slide.value = dial().to(settings[name]);
      slide.ariaValueText = String(settings[name] ?? "automatic");
      if (name !== "at" && typing !== byId(name)) byId(name).value = shown(name);
    }
    if (byId("starts").children.length !== 2 * fun().n) makeStarts();
    settings.start.forEach((x, i) => {
      const field = byId(`x${i}`);
      if (typing !== field) field.value = Number(x.toPrecision(6));
    });
  }

  function showTyped() {
    if (typing !== byId("expr")) byId("expr").value = settings.expr;
    for (const [i, name] of ["from", "to"].entries()) if (typing !== byId(name)) byId(name).value = settings.map[i];
    byId("expr").ariaInvalid = String(settings.error !== "");
    byId("wrong").textContent = settings.error;
  }

  // what the race says about CGD, in a sentence
  function compared() {
    const [plain, steep] = ["gd", "cgd-fd"].map((method) => scene.runs.find((one) => one.method === method));
    if (!plain || !steep) return "";
    const [a, b] = [plain, steep].map((one) => scene.shown(one).at(-1).f), { tuned } = fun();
    const least = 0.01 * (scene.known ? scene.gap(Math.max(a, b)) : Math.abs(fun().value(settings.start) - Math.min(a, b)));
    const lower = a - b > least || Number.isNaN(a), higher = b - a > least || Number.isNaN(b);
    const first = lower ? "CGD-FD is lower" : higher ? "GD is lower" : "GD and CGD-FD are level";
    if (settings.tuned) {
      const { step, lam } = tuned["cgd-fd"];
      return `${first} from this start, each with the settings that were best on other starts: GD with α = ` +
        `${readable(tuned.gd.step, 3)}, CGD-FD with α = ${readable(step, 3)} and λ = ${readable(lam, 3)}.`;
    }
    if (lower) {
      const more = tuned ? " Race the tuned settings to see each at its best." : "";
      return `${first} here. λ makes up for a step that is short for GD.${more}`;
    }
    if (higher) {
      return `${first} here. CGD-FD pays two gradients for a step while its penalty is on, and with this α and λ ` +
        "they do not pay.";
    }
    return `${first} here.`;
  }

  function showTable() {
    byId("rows").replaceChildren(
      ...scene.runs.map((one) => {
        const row = scene.shown(one).at(-1), done = row === one.trace.at(-1);
        const line = document.createElement("tr"), name = document.createElement("th");
        const { njev, nhvp } = done ? one.oracle : row;
        const grads = nhvp ? `${njev} + ${nhvp} H·v` : `${njev}`;
        Object.assign(name, { scope: "row", textContent: NAMES[one.method] });
        name.style.color = `var(--${one.method})`;
        const size = Number.isNaN(row.gnorm) ? norm(fun().grad(row.x)) : row.gnorm;
        const cells = [grads, readable(scene.gap(row.f)), readable(size, 3), done ? stateOf(one) : "walking"];
        line.append(name, ...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
        return line;
      }),
    );
  }

  function stateOf({ status, trace }) {
    const said = fun().sampled && status.startsWith("NONFINITE") ? "left the sampled box" : STATES[status];
    const off = trace.findIndex((row) => row.guarded);
    return off < 0 ? said : `${said}; guard at step ${off + 1}`;
  }

  function makeStarts() {
    const parts = settings.start.flatMap((_, i) => {
      const name = settings.start.length === 1 ? "Start x" : `Start x${"₁₂"[i]}`;
      const label = Object.assign(document.createElement("label"), { htmlFor: `x${i}`, textContent: name });
      const field = Object.assign(document.createElement("input"), { id: `x${i}`, inputMode: "decimal" });
      const moved = (value) => settings.start.map((x, j) => (i === j ? value : x));
      entered(field, Number.isFinite, (value) => change({ start: moved(value) }));
      return [label, field];
    });
    byId("starts").replaceChildren(...parts);
  }

  // a number that was typed: taken where it is one, marked where it is not
  function entered(field, fits, take) {
    field.addEventListener("input", () => {
      const text = field.value.trim().replace("−", "-"), value = text === "auto" ? null : Number(text || NaN);
      field.ariaInvalid = String(!fits(value));
      typing = field;
      if (fits(value)) take(value);
    });
    field.addEventListener("change", () => {
      field.ariaInvalid = "false";
      typing = null;
      change({});
    });
  }

  const fits = {
    lam: (value) => value !== null && Number.isFinite(value),
    step: (value) => value > 0 && value < Infinity,
    r: (value) => value === null || (value > 0 && value < Infinity),
    b: (value) => value === null || (Number.isInteger(value) && value >= 0),
    grads: (value) => Number.isInteger(value) && value >= 1 && value <= 1000,
  };

  function listen() {
    const groupOf = ([, one]) => (one.n === 1 && one.group !== "given" ? "one variable" : one.group);
    const groups = Map.groupBy(Object.entries(functions).filter(([name]) => name !== "typed"), groupOf);
    for (const [label, members] of groups) {
      const group = Object.assign(document.createElement("optgroup"), { label });
      group.append(...members.map(([name, one]) => new Option(one.title, name)));
      byId("function").append(group);
    }
    for (const [name, one] of Object.entries(penalties)) byId("penalty").append(new Option(one.label, name));
    for (const method of METHODS) {
      const label = document.createElement("label"), swatch = document.createElement("i");
      swatch.style.background = `var(--${method})`;
      const box = Object.assign(document.createElement("input"), { type: "checkbox", value: method });
      label.append(box, swatch, NAMES[method]);
      byId("methods").append(label);
    }
    byId("function").addEventListener("change", (event) => {
      const { methods, grads, search, penalty } = settings;
      change({ ...initial(functions, event.target.value), methods, grads, search, penalty, at: grads });
    });
    byId("penalty").addEventListener("change", (event) => change({ penalty: event.target.value }));
    byId("search").addEventListener("change", (event) => change({ search: event.target.checked }));
    byId("methods").addEventListener("change", () => {
      const chosen = [...byId("methods").querySelectorAll("input:checked")].map((box) => box.value);
      change({ methods: chosen });
    });
    for (const [name, dial] of Object.entries(dials)) {
      byId(`${name}-slide`).addEventListener("input", (event) => {
        if (name === "at") pause();
        change({ [name]: dial().from(event.target.valueAsNumber) });
      });
      if (name in fits) entered(byId(name), fits[name], (value) => change({ [name]: value }));
    }
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    byId("zoom").addEventListener("click", () => change({ box: settings.box ? null : undefined }));
    for (const name of ["expr", "from", "to"]) {
      byId(name).addEventListener("input", () => {
        typing = byId(name);
        clearTimeout(typed);
        typed = setTimeout(take, TYPING);
      });
      byId(name).addEventListener("change", () => (typing = null));
    }
    byId("tuned").addEventListener("click", () => {
      change(race(fun()));
      play();
    });
    byId("reset").addEventListener("click", () => change({ ...initial(functions, settings.function) }));
    byId("copy").addEventListener("click", copy);
    byId("play").addEventListener("click", () => (playing ? pause() : play()));
    byId("landscape").addEventListener("pointerdown", (event) => {
      event.target.setPointerCapture(event.pointerId);
      drag(event);
    });
    byId("landscape").addEventListener("pointermove", (event) => event.buttons && drag(event));
    byId("field").addEventListener("keydown", walk);
    addEventListener("hashchange", () => {
      change(fromHash(functions, location.hash, first));
      if (functions.typed) offer("typed");
    });
    addEventListener("resize", () => change({}));
    dark.addEventListener("change", () => change({}));
  }

  // what was typed: taken where it is a function, with a sentence below the field where it is not
  function take() {
    const expr = byId("expr").value, map = ["from", "to"].map((name) => Number(byId(name).value.replace("−", "-") || NaN));
    const fits = map[0] < map[1] && map.every(Number.isFinite);
    const error = !expr.trim() ? "" : fits ? enter(functions, expr, map) : "The map needs two numbers, the smaller first.";
    if (error || !expr.trim()) return change({ error, expr: error ? expr : settings.expr });
    offer("typed");
    const { methods, grads } = settings;
    change({ ...initial(functions, "typed"), methods, grads, at: grads, expr, map, error });
  }

  // a function that was typed is one of the list, from then on
  function offer(name) {
    const known = [...byId("function").options].some((option) => option.value === name);
    if (!known) byId("function").prepend(new Option("typed below", name));
  }

  function drag(event) {
    const { left, top } = event.target.getBoundingClientRect();
    const at = [plot.unx(event.clientX - left), plot.uny(event.clientY - top)];
    change({ start: inside(at.slice(0, fun().n)).map((x) => Number(x.toPrecision(6))) });
  }

  const inside = (x) => x.map((value, i) => clip(value, ...scene.box[i]));

  function walk(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[event.key];
    if (!way) return;
    event.preventDefault();
    const part = event.shiftKey ? 0.05 : 0.005;
    const moved = settings.start.map((x, i) => x + part * way[i] * (scene.box[i][1] - scene.box[i][0]));
    change({ start: inside(moved).map((x) => Number(x.toPrecision(6))) });
  }

  function play() {
    const begun = performance.now(), from = settings.at < settings.grads ? settings.at : 0;
    if (still.matches) return change({ at: settings.grads });
    byId("play").textContent = "Pause";
    const frame = (now) => {
      const at = Math.min(settings.grads, Math.floor(from + ((now - begun) / RACE) * settings.grads));
      if (at !== settings.at) change({ at });
      playing = at < settings.grads ? requestAnimationFrame(frame) : pause();
    };
    playing = requestAnimationFrame(frame);
  }

  function pause() {
    cancelAnimationFrame(playing);
    byId("play").textContent = "Race";
    return (playing = null);
  }

  // λ rises from 0 to where it is set, so that the first thing seen is what it does; any other λ ends it
  function grow(lam) {
    const begun = performance.now();
    const frame = (now) => {
      const part = clip((now - begun) / GROWTH, 0, 1), next = part < 1 ? Number((lam * part).toPrecision(3)) : lam;
      change({ lam: next });
      if (part < 1) requestAnimationFrame((then) => settings.lam === next && frame(then));
    };
    frame(begun);
  }

  async function copy() {
    settle();
    try {
      await navigator.clipboard.writeText(location.href);
      byId("copy").textContent = "Copied";
    } catch {
      byId("copy").textContent = "It is in the address line";
    }
    setTimeout(() => (byId("copy").textContent = "Copy link"), 2000);
  }

  listen();
  if (functions.typed) offer("typed");
  scene.set(settings); // zooms to the walk, as it will be
  if (location.hash || still.matches) change({});
  else grow(settings.lam);
}
