// steepen.penalties: h, and ∇h as scale · vector.

import { dot, norm, times, clip } from "./vectors.js";

const P = 4, DELTA = 1, SMOOTH = 1e-6;

export const penalties = {
  "squared-l2": { label: "‖∇f‖²", scale: 2, value: (g) => dot(g, g), vector: (g) => g },
  l2: {
    label: "‖∇f‖",
    scale: 1,
    value: norm,
    vector: (g) => times(1 / (norm(g) || 1), g),
  },
  l1: {
    label: "‖∇f‖₁",
    scale: 1,
    value: (g) => g.reduce((sum, gi) => sum + Math.hypot(gi, SMOOTH), 0),
    vector: (g) => g.map((gi) => gi / Math.hypot(gi, SMOOTH)),
  },
  huber: {
    label: "Huber(∇f)",
    scale: 1,
    value: (g) => g.reduce((sum, gi) => {
      const size = Math.abs(gi), near = Math.min(size, DELTA);
      return sum + near * (size - near / 2);
    }, 0),
    vector: (g) => g.map((gi) => clip(gi, -DELTA, DELTA)),
  },
  "p-norm": {
    label: "‖∇f‖₄",
    scale: 1,
    value: (g) => {
      const top = Math.max(...g.map(Math.abs));
      return top * relative(g, top).reduce((sum, u) => sum + u ** P, 0) ** (1 / P);
    },
    vector: (g) => {
      const unit = relative(g, Math.max(...g.map(Math.abs)));
      const total = unit.reduce((sum, u) => sum + u ** P, 0) ** (1 - 1 / P);
      return g.map((gi, i) => (Math.sign(gi) * unit[i] ** (P - 1)) / (total > 0 ? total : 1));
    },
  },
};

const relative = (g, top) => g.map((gi) => Math.abs(gi) / (top > 0 ? top : 1));
