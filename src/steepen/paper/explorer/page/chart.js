// Drawing: a plot area with axes on a canvas, lines and marks.

const FONT = "12px system-ui, sans-serif";

export function sized(canvas) {
  const ratio = window.devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = canvas;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = FONT;
  return { context, width, height };
}

// numbers as people write them, with a minus sign
export function readable(value, digits = 4) {
  if (value === 0) return "0";
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  let text = Number(value.toPrecision(digits)).toString();
  if (size >= 1e5 || size < 1e-3) {
    const [mantissa, power] = value.toExponential(digits - 2).split("e");
    const ten = `10${[...String(Number(power))].map((c) => SUPER[c]).join("")}`;
    text = Number(mantissa) === 1 ? ten : `${Number(mantissa)}·${ten}`;
  }
  return text.replace("-", "−");
}
const SUPER = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

export function ticks(low, high, most) {
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((c) => c * power >= rough) * power;
  const first = Math.ceil(low / step - 1e-9), count = Math.floor(high / step + 1e-9) - first + 1;
  // of a range that is small beside its place, numbers of this precision may have none
  const found = Array.from({ length: count > 0 && count <= 2 * most + 2 ? count : 0 }, (_, i) => (first + i) * step);
  return [...new Set(found.map((value) => Number(value.toPrecision(12))))];
}

const mapped = (value, [a, b], [low, high]) => low + ((value - a) / (b - a)) * (high - low);

export class Plot {
  constructor(canvas, x, y, colours, { left = 46, bottom = 22, top = 8, right = 16, log = false } = {}) {
    Object.assign(this, sized(canvas), { xs: x, ys: log ? y.map(Math.log10) : y, colours, log });
    this.box = { left, top, right: this.width - right, bottom: this.height - bottom };
    this.x = (value) => mapped(value, this.xs, [left, this.box.right]);
    this.y = (value) => mapped(log ? Math.log10(value) : value, this.ys, [this.box.bottom, top]);
  }

  // the point under a pixel
  point(x, y) {
    const { left, top, right, bottom } = this.box;
    return [mapped(x, [left, right], this.xs), mapped(y, [bottom, top], this.ys)];
  }

  axes({ grid = true, x = "", y = "" } = {}) {
    const { context: c, box, colours } = this;
    c.fillStyle = colours.faint;
    c.strokeStyle = colours.rule;
    c.lineWidth = 1;
    c.textAlign = "center";
    c.textBaseline = "top";
    for (const value of ticks(...this.xs, Math.max(2, (box.right - box.left) / 70))) {
      c.fillText(readable(value), this.x(value), box.bottom + 6);
    }
    c.textAlign = "right";
    c.textBaseline = "middle";
    const rows = ticks(...this.ys, Math.max(2, (box.bottom - box.top) / 34));
    for (const value of this.log ? rows.filter(Number.isInteger) : rows) {
      const at = this.y(this.log ? 10 ** value : value);
      c.fillText(this.log ? readable(10 ** value, 2) : readable(value), box.left - 6, at);
      if (grid) {
        c.beginPath();
        c.moveTo(box.left, at);
        c.lineTo(box.right, at);
        c.stroke();
      }
    }
    // curves come down from the upper left to the lower right; a map has no such corners
    this.text(x, ...(grid ? ["left", box.left + 4] : ["right", box.right - 4]), "bottom", box.bottom - 3);
    this.text(y, ...(grid ? ["right", box.right - 4] : ["left", box.left + 4]), "top", box.top + 2);
  }

  text(words, align, x, baseline, y) {
    const { context: c, colours } = this;
    Object.assign(c, { textAlign: align, textBaseline: baseline, lineWidth: 3, lineJoin: "round" });
    Object.assign(c, { strokeStyle: colours.halo, fillStyle: colours.ink });
    c.strokeText(words, x, y);
    c.fillText(words, x, y);
  }

  clip(draw) {
    const { context: c, box } = this;
    c.save();
    c.beginPath();
    c.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
    c.clip();
    draw();
    c.restore();
  }

  // a line has a gap where there is no value
  trace(points) {
    const { context: c } = this;
    let pen = "moveTo";
    c.beginPath();
    for (const [x, y] of points) {
      if (Number.isFinite(x + y)) c[pen](this.x(x), this.y(y));
      pen = Number.isFinite(x + y) ? "lineTo" : "moveTo";
    }
  }

  path(points, colour, width, dash = []) {
    const { context: c } = this;
    this.trace(points);
    Object.assign(c, { strokeStyle: colour, lineWidth: width, lineJoin: "round", lineCap: "round" });
    c.setLineDash(dash);
    c.stroke();
    c.setLineDash([]);
  }

  mark(shape, [x, y], size, colour, halo) {
    const { context: c } = this;
    c.save();
    c.translate(this.x(x), this.y(y));
    c.beginPath();
    shapes[shape](c, size);
    Object.assign(c, { lineWidth: Math.min(3.5, size / 1.6), strokeStyle: halo });
    Object.assign(c, { lineJoin: "round", lineCap: "round" });
    c.stroke();
    Object.assign(c, { lineWidth: 1.8, strokeStyle: colour, fillStyle: colour });
    c[OPEN.has(shape) ? "stroke" : "fill"]();
    c.restore();
  }
}

const polygon = (c, size, count, turn) => {
  for (let i = 0; i < count; i++) {
    const angle = turn + (2 * Math.PI * i) / count;
    c[i ? "lineTo" : "moveTo"](size * Math.cos(angle), size * Math.sin(angle));
  }
  c.closePath();
};
const lines = (c, ...ends) => {
  for (const [a, b, x, y] of ends) {
    c.moveTo(a, b);
    c.lineTo(x, y);
  }
};

const OPEN = new Set(["ring", "diamond", "cross", "plus", "up", "down"]);
const shapes = {
  circle: (c, s) => c.arc(0, 0, s, 0, 7),
  square: (c, s) => polygon(c, s * 1.2, 4, Math.PI / 4),
  triangle: (c, s) => polygon(c, s * 1.3, 3, -Math.PI / 2),
  ring: (c, s) => c.arc(0, 0, s, 0, 7),
  diamond: (c, s) => polygon(c, s, 4, 0),
  cross: (c, s) => lines(c, [-s, -s, s, s], [-s, s, s, -s]),
  up: (c, s) => lines(c, [0, 2, -s, s + 2], [0, 2, s, s + 2], [0, 2, 0, 2 * s]),
  down: (c, s) => lines(c, [0, -2, -s, -s - 2], [0, -2, s, -s - 2], [0, -2, 0, -2 * s]),
  plus: (c, s) => lines(c, [-s, 0, s, 0], [0, -s, 0, s]),
};
