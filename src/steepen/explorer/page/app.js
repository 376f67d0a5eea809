// The page: settings in, pictures and a table out. Whatever changes, one frame draws it all again.

import { Artificial } from "./artificial.js";
import { Plot, readable } from "./chart.js";
import { Landscape } from "./landscape.js";
import { Painter } from "./paint.js";
import { penalties } from "./penalties.js";
import { minimize } from "./run.js";
import { METHODS, fromHash, initial, toHash } from "./settings.js";
import { spline } from "./spline.js";
import { dot, minus, norm, plus, times, clip } from "./vectors.js";

const COLUMNS = 400, ROWS = 300, SLICE = 300, RACE = 4000, PAUSE = 300;
const NAMES = { gd: "GD", cgd: "CGD", "cgd-fd": "CGD-FD", bfgs: "BFGS", "cgd-auto": "cgd-auto" };
const SHAPES = { gd: "circle", cgd: "square", "cgd-fd": "triangle", bfgs: "rhombus", "cgd-auto": "hexagon" };
const DASHES = { gd: [], cgd: [9, 4], "cgd-fd": [], bfgs: [2, 5], "cgd-auto": [12, 3, 2, 3] };
const STATES = {
  CONVERGED: "converged", PRECISION: "as low as rounding lets f be", NOISE: "as low as its noise lets f be",
  MAX_GRADIENTS: "gradients spent", ARTIFICIAL: "near an artificial stationary point ◇",
  NO_DESCENT: "the line search found nothing lower", NONFINITE_VALUE: "f has no value there",
  NONFINITE_GRADIENT: "∇f has no value there", UNBOUNDED: "f falls without bound", DIVERGED: "x overflowed",
};

const byId = (id) => document.getElementById(id);
const logarithmic = (low, high) => ({
  from: (place) => Number((low * (high / low) ** (place / 1000)).toPrecision(3)),
  to: (value) => (1000 * Math.log(value / low)) / Math.log(high / low),
});

export function start(functions, first) {
  for (const fun of Object.values(functions)) if (fun.sampled) Object.assign(fun, spline(fun.sampled));
  let settings = fromHash(functions, location.hash, first);
  let made = {}, runs = [], waiting = false, calm, playing = null, typing = null;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const fun = () => functions[settings.function];

  function change(patch) {
    const at = patch.at ?? patch.grads ?? settings.at; // a new budget is shown whole
    if (patch.function) typing = null;
    settings = { ...settings, ...patch };
    settings.at = clip(at, 0, settings.grads);
    if (!waiting) requestAnimationFrame(render);
    waiting = true;
  }

  // --- what is made once for a function, a penalty or a start ---------------------------------------------------

  // `key` is all that the thing depends on
  function once(name, key, make) {
    if (made[name]?.key !== key) made[name] = { key, value: make() };
    return made[name].value;
  }

  const penalty = () => penalties[settings.penalty];
  const box = () => settings.box ?? fun().bounds;
  const surface = () => `${settings.function} ${settings.penalty} ${settings.box}`;
  const landscape = () =>
    once("landscape", surface(), () => {
      const grid = fun().n === 1 ? [2 * COLUMNS, 1] : [COLUMNS, ROWS];
      return new Landscape(fun(), penalty(), box(), ...grid);
    });
  const painter = () => once("painter", surface(), () => new Painter(landscape()));
  const artificial = () => once("artificial", surface(), () => new Artificial(fun(), penalty(), box()));
  const points = () => once("points", `${surface()} ${settings.lam}`, () => artificial().points(settings.lam));
  const slice = () =>
    once("slice", `${surface()} ${settings.start}`, () => sliced(fun(), penalty(), settings.start));

  function run() {
    const { start, grads, lam, r, b } = settings;
    return settings.methods.map((method) => {
      const step = settings.search || method === "bfgs" || method === "cgd-auto" ? null : settings.step;
      return minimize(fun(), start, method, { step, lam, r, b, grads, penalty: settings.penalty, price: 1 });
    });
  }

  const spent = (row) => row.njev + row.nhvp;
  // the part of a run that its first gradients, as many as the race shows, have paid for
  const shown = ({ trace }) => trace.filter((row) => spent(row) <= settings.at);

  // --- drawing --------------------------------------------------------------------------------------------------

  function colours() {
    const style = getComputedStyle(document.documentElement), names = ["ink", "faint", "rule", "halo", "card"];
    const all = [...names, ...METHODS, "artificial", "guard", "lifted"];
    return Object.fromEntries(all.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  function render() {
    waiting = false;
    runs = run();
    const paint = once("colours", dark.matches, colours);
    showControls(); // first, since it decides how large the pictures are
    if (fun().n === 1) drawCurve(paint);
    else {
      drawLandscape(paint);
      drawSlice(paint);
    }
    drawRace(paint);
    showTable();
    clearTimeout(calm);
    calm = setTimeout(settle, PAUSE);
  }

  // what can wait until nothing moves
  function settle() {
    if (toHash(settings) !== location.hash) history.replaceState(null, "", toHash(settings));
    const lam = readable(settings.lam), from = settings.start.map((x) => readable(x)).join(", ");
    byId("landscape").ariaLabel =
      `${fun().title}: f + λ${penalty().label} with λ = ${lam}, the start at ${from}, ` +
      `${points().length} artificial stationary points`;
    const told = runs.map((one) => `${NAMES[one.method]} ${gapText(shown(one).at(-1).f)}`).join(", ");
    byId("news").textContent = `λ ${lam}, after ${settings.at} gradients ${byId("gap").textContent}: ${told}`;
  }

  function drawLandscape(paint) {
    const plot = new Plot(byId("landscape"), ...box(), paint, { left: 42 });
    const { left, top, right, bottom } = plot.box;
    const image = painter().paint(settings.lam, dark.matches ? "dark" : "light");
    plot.context.drawImage(image, left, top, right - left, bottom - top);
    plot.axes({ grid: false, x: "x₁", y: "x₂" });
    plot.clip(() => {
      for (const x of fun().minima) plot.mark("plus", x, 6, paint.ink, paint.halo);
      for (const x of points()) plot.mark("diamond", x, 6, paint.artificial, paint.halo);
      drawRuns(plot, paint, (row) => row.x);
      plot.mark("circle", settings.start, 6, paint.ink, paint.halo);
    });
    made.plot = plot;
  }

  // of one variable: f, and f + λh above it
  function drawCurve(paint) {
    const { f, h, least, most } = landscape(), { lam } = settings, [low, high] = box()[0];
    const pad = 0.08 * (most - least), count = f.length;
    const xs = Array.from({ length: count }, (_, i) => low + ((i + 0.5) / count) * (high - low));
    const plot = new Plot(byId("landscape"), [low, high], [least - pad, most + 6 * pad], paint);
    plot.axes({ x: "x" });
    plot.clip(() => {
      drawLifted(plot, paint, xs, f, h, lam);
      for (const [x] of fun().minima) plot.mark("plus", [x, fun().fmin], 6, paint.ink, paint.halo);
      for (const [x] of points()) {
        const at = fun().value([x]) + lam * penalty().value(fun().grad([x]));
        plot.mark("diamond", [x, at], 6, paint.artificial, paint.halo);
      }
      drawRuns(plot, paint, (row) => [row.x[0], row.f]);
      plot.mark("circle", [settings.start[0], fun().value(settings.start)], 6, paint.ink, paint.halo);
    });
    made.plot = plot;
  }

  function drawLifted(plot, paint, xs, f, h, lam) {
    const { context } = plot, floor = xs.map((x, i) => [x, f[i]]);
    const lifted = xs.map((x, i) => [x, f[i] + lam * h[i]]);
    plot.trace([...floor, ...lifted.toReversed()]);
    Object.assign(context, { fillStyle: paint.lifted, globalAlpha: 0.16 });
    context.fill();
    context.globalAlpha = 1;
    plot.path(lifted, paint.lifted, 2);
    plot.path(floor, paint.ink, 1.5);
  }

  function drawRuns(plot, paint, place) {
    for (const one of runs) {
      const rows = shown(one), places = rows.map(place), colour = paint[one.method];
      plot.path(places, paint.halo, 4);
      plot.path(places, colour, 2, DASHES[one.method]);
      places.forEach((at, i) => {
        const last = i === places.length - 1;
        if (last || places.length < 60) plot.mark(SHAPES[one.method], at, last ? 5.5 : 2.6, colour, paint.halo);
      });
      rows.forEach((row, i) => {
        if (row.guarded) plot.mark("cross", places[i], 5, paint.guard, paint.halo);
        if (ended(one, i)) plot.mark("ring", places[i], 8, colour, paint.halo);
      });
    }
  }

  // whether the penalty was switched off at this iterate
  const ended = ({ trace }, i) =>
    i > 0 && trace[i - 1].penalised && !trace[i].penalised && !trace[i].guarded && !Number.isNaN(trace[i].step);

  function drawSlice(paint) {
    const { ts, f, h, mark } = slice(), low = Math.min(...f), high = Math.max(...f);
    const pad = 0.08 * (high - low || 1);
    const plot = new Plot(byId("slice"), [ts[0], ts.at(-1)], [low - pad, high + 5 * pad], paint);
    plot.axes();
    plot.clip(() => {
      drawLifted(plot, paint, ts, f, h, settings.lam);
      if (mark) plot.mark("plus", mark, 6, paint.ink, paint.halo);
      plot.mark("circle", [0, fun().value(settings.start)], 5, paint.ink, paint.halo);
    });
    const lam = readable(settings.lam);
    byId("slice").ariaLabel = `f and f + λ${penalty().label} on a line through the start; λ = ${lam}`;
  }

  // f*, or the lowest value seen where it is not known
  const floor = () => {
    const seen = runs.flatMap((one) => one.trace.map((row) => row.f)).filter(Number.isFinite);
    return fun().fmin ?? Math.min(landscape().least, ...seen);
  };
  // what is within the rounding of f* is none
  const gapText = (f) => readable(Math.abs(f - floor()) > 1e-13 * Math.abs(floor()) ? f - floor() : 0);

  function drawRace(paint) {
    const { grads, at } = settings, zero = floor();
    const lines = runs.map(({ trace }) => trace.map((row) => [spent(row), row.f - zero]));
    const seen = lines.flat().map(([, gap]) => gap).filter((gap) => gap > 0 && gap < Infinity);
    const top = seen.length ? Math.max(...seen) : 1, bottom = Math.max(Math.min(...seen, top) / 2, 1e-9 * top);
    const heights = [bottom, Math.max(2 * top, 10 * bottom)];
    const plot = new Plot(byId("chart"), [0, grads], heights, paint, { left: 58, log: true });
    plot.axes({ x: "gradients", y: byId("gap").textContent });
    plot.clip(() => {
      plot.path([[at, bottom], [at, 4 * top]], paint.faint, 1, [3, 3]);
      lines.forEach((line, i) => {
        const colour = paint[runs[i].method], finite = line.filter(([, gap]) => Number.isFinite(gap));
        const visible = finite.map(([x, gap]) => [x, Math.max(gap, bottom)]);
        plot.path(visible, colour, 2, DASHES[runs[i].method]);
        const here = visible.findLast(([x]) => x <= at);
        if (here) plot.mark(SHAPES[runs[i].method], here, 4.5, colour, paint.card);
        runs[i].trace.forEach((row, k) => {
          if (row.guarded) plot.mark("cross", visible[k], 4, paint.guard, paint.card);
          if (ended(runs[i], k)) plot.mark("ring", visible[k], 6, colour, paint.card);
        });
      });
    });
    byId("chart").ariaLabel = `${byId("gap").textContent} against gradients; the values are in the table below`;
  }

  // --- controls -------------------------------------------------------------------------------------------------

  const base = () => once("base", settings.function, () => initial(functions, settings.function));
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

  function showControls() {
    document.body.classList.toggle("one", fun().n === 1);
    byId("cut").hidden = fun().n === 1;
    byId("sampled").hidden = !fun().sampled;
    byId("samples").textContent = fun().samples?.toLocaleString("en") ?? "";
    for (const place of document.querySelectorAll(".h")) place.textContent = penalty().label;
    byId("towards").textContent = fun().minima.length ? "nearest minimum" : "way down";
    byId("gap").textContent = fun().fmin === null ? "f − lowest" : "f − f*";
    byId("function").value = settings.function;
    byId("penalty").value = settings.penalty;
    byId("search").checked = settings.search;
    byId("zoom").ariaPressed = String(settings.box !== null);
    byId("step").disabled = byId("step-slide").disabled = settings.search;
    byId("at").textContent = `${settings.at} of ${settings.grads}`;
    byId("at-slide").max = byId("b-slide").max = settings.grads;
    for (const box of byId("methods").querySelectorAll("input")) box.checked = settings.methods.includes(box.value);
    for (const [name, dial] of Object.entries(dials)) {
      const slide = byId(`${name}-slide`);
      slide.value = dial().to(settings[name]);
      slide.ariaValueText = String(settings[name] ?? "automatic");
      if (name !== "at" && typing !== byId(name)) byId(name).value = settings[name] ?? "auto";
    }
    if (byId("starts").children.length !== 2 * fun().n) makeStarts();
    settings.start.forEach((x, i) => {
      const field = byId(`x${i}`);
      if (typing !== field) field.value = Number(x.toPrecision(6));
    });
  }

  function showTable() {
    byId("rows").replaceChildren(
      ...runs.map((one) => {
        const row = shown(one).at(-1), done = row === one.trace.at(-1);
        const line = document.createElement("tr"), name = document.createElement("th");
        const { njev, nhvp } = done ? one.oracle : row;
        const grads = nhvp ? `${njev} + ${nhvp} H·v` : `${njev}`;
        Object.assign(name, { scope: "row", textContent: NAMES[one.method] });
        name.style.color = `var(--${one.method})`;
        const size = Number.isNaN(row.gnorm) ? norm(fun().grad(row.x)) : row.gnorm;
        const cells = [grads, gapText(row.f), readable(size, 3), done ? stateOf(one) : "walking"];
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
    const groups = Map.groupBy(Object.entries(functions), groupOf);
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
    byId("legend").innerHTML =
      "<span>● <b>start</b></span><span>+ <b>minimum of f</b></span>" +
      "<span>◇ <b>artificial stationary point</b></span>" +
      "<span>× <b>guard</b></span><span>○ <b>penalty switched off</b></span>";

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
    byId("zoom").addEventListener("click", () => change({ box: settings.box ? null : zoom() }));
    byId("reset").addEventListener("click", () => change(initial(functions, settings.function)));
    byId("copy").addEventListener("click", copy);
    byId("play").addEventListener("click", () => (playing ? pause() : play()));
    byId("landscape").addEventListener("pointerdown", (event) => {
      event.target.setPointerCapture(event.pointerId);
      drag(event);
    });
    byId("landscape").addEventListener("pointermove", (event) => event.buttons && drag(event));
    byId("field").addEventListener("keydown", walk);
    addEventListener("hashchange", () => change(fromHash(functions, location.hash, first)));
    addEventListener("resize", () => change({}));
    dark.addEventListener("change", () => change({}));
  }

  function drag(event) {
    const { left, top } = event.target.getBoundingClientRect(), { plot } = made;
    const at = [plot.unx(event.clientX - left), plot.uny(event.clientY - top)];
    change({ start: inside(at.slice(0, fun().n)).map((x) => Number(x.toPrecision(6))) });
  }

  const inside = (x) => x.map((value, i) => clip(value, ...box()[i]));

  function walk(event) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[event.key];
    if (!way) return;
    event.preventDefault();
    const part = event.shiftKey ? 0.05 : 0.005;
    const moved = settings.start.map((x, i) => x + part * way[i] * (box()[i][1] - box()[i][0]));
    change({ start: inside(moved).map((x) => Number(x.toPrecision(6))) });
  }

  // the box around the paths, inside that of the function
  function zoom() {
    const seen = [settings.start, ...runs.flatMap((one) => shown(one).map((row) => row.x))];
    return fun().bounds.map(([low, high], i) => {
      const xs = seen.map((x) => clip(x[i], low, high)), [least, most] = [Math.min(...xs), Math.max(...xs)];
      const pad = Math.max(0.2 * (most - least), 0.005 * (high - low));
      return [Math.max(low, least - pad), Math.min(high, most + pad)].map((x) => Number(x.toPrecision(4)));
    });
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
  change({});
}

// f and h on the line through the start and the nearest minimum, or down the gradient where none is known
function sliced(fun, penalty, start) {
  const nearest = fun.minima.toSorted((a, b) => norm(minus(a, start)) - norm(minus(b, start)))[0];
  let way = nearest ? minus(nearest, start) : times(-1, fun.grad(start));
  if (!(norm(way) > 0)) way = [1, 0];
  way = times(1 / norm(way), way);
  let [low, high] = [-Infinity, Infinity];
  fun.bounds.forEach(([least, most], i) => {
    if (way[i] === 0) return;
    const ends = [(least - start[i]) / way[i], (most - start[i]) / way[i]];
    [low, high] = [Math.max(low, Math.min(...ends)), Math.min(high, Math.max(...ends))];
  });
  if (!(low < high)) [low, high] = [-1, 1]; // the start lies outside the box
  const ts = Array.from({ length: SLICE }, (_, i) => low + (i / (SLICE - 1)) * (high - low));
  const points = ts.map((t) => inBox(fun, plus(start, times(t, way))));
  const mark = nearest ? [dot(minus(nearest, start), way), fun.fmin] : null;
  return { ts, f: points.map(fun.value), h: points.map((x) => penalty.value(fun.grad(x))), mark };
}

// the ends of a line across the box may lie outside by a rounding
const inBox = (fun, x) => x.map((value, i) => clip(value, ...fun.bounds[i]));
