// f + λ·h as an image: colour by height, with contour lines.

const BANDS = 18; // between the lowest and the highest f
const SHADES = 512, BEYOND = 2; // colours go on to twice the depth of f, where the penalty has lifted it
const STRENGTHS = 4;

const LOW_TO_HIGH = {
  light: ["#2a5b86", "#5f93b8", "#a3c8d6", "#dbe8e2", "#f5efdf", "#efd6ad", "#dda97c", "#bf7455", "#94433a"],
  dark: ["#123049", "#1f4f6e", "#3b7389", "#5f8d8c", "#7f9180", "#96855f", "#9a6a45", "#8a4a38", "#6a2d2d"],
};
const LINE = { light: 0, dark: 255 };
const NOWHERE = { light: 0xffe6e4e4, dark: 0xff26211e }; // where f has no value

const channels = (colour) => [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));

// Packed colours: for each strength of the line, from none to full, one for each shade.
function shades(theme) {
  const stops = LOW_TO_HIGH[theme].map(channels), table = new Uint32Array((STRENGTHS + 1) * SHADES);
  for (let strength = 0; strength <= STRENGTHS; strength++) {
    for (let i = 0; i < SHADES; i++) {
      const place = (i / (SHADES - 1)) * (stops.length - 1), k = Math.min(Math.floor(place), stops.length - 2);
      const mixed = [0, 1, 2].map((c) => {
        const colour = stops[k][c] + (place - k) * (stops[k + 1][c] - stops[k][c]);
        return Math.round(colour + (0.3 * strength * (LINE[theme] - colour)) / STRENGTHS);
      });
      table[strength * SHADES + i] = 0xff000000 | (mixed[2] << 16) | (mixed[1] << 8) | mixed[0];
    }
  }
  return table;
}

const tables = { light: shades("light"), dark: shades("dark") };

export class Painter {
  constructor(landscape) {
    const { columns, rows } = landscape;
    this.landscape = landscape;
    this.canvas = document.createElement("canvas");
    Object.assign(this.canvas, { width: columns, height: rows });
    this.context = this.canvas.getContext("2d");
    this.image = this.context.createImageData(columns, rows);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.heights = new Float32Array(columns * rows);
  }

  paint(lam, theme) {
    const { pixels, heights, landscape } = this, { f, h, columns, rows, least, scale, depth } = landscape;
    const table = tables[theme], bands = BANDS / depth;
    for (let i = 0; i < heights.length; i++) {
      const above = (f[i] + lam * h[i] - least) / scale;
      heights[i] = bands * (above <= 0 ? 0 : above < Infinity ? Math.log(1 + above) : NaN);
    }
    const shade = (SHADES - 1) / (BEYOND * BANDS);
    for (let row = 0, i = 0; row < rows; row++) {
      const down = row + 1 < rows ? columns : -columns;
      for (let column = 0; column < columns; column++, i++) {
        const height = heights[i], right = column + 1 < columns ? 1 : -1;
        const slope = Math.max(Math.abs(heights[i + right] - height), Math.abs(heights[i + down] - height));
        const apart = Math.abs(height - Math.round(height));
        if (Number.isNaN(height)) {
          pixels[i] = NOWHERE[theme];
          continue;
        }
        let strength = 0;
        if (apart < slope && slope < 1) strength = STRENGTHS * (1 - apart / slope) * (1 - slope) + 0.5;
        pixels[i] = table[(strength | 0) * SHADES + Math.min(SHADES - 1, (height * shade) | 0)];
      }
    }
    this.context.putImageData(this.image, 0, 0);
    return this.canvas;
  }
}
