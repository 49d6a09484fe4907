// The confusion matrix: what is annotated (rows) and what became of it (columns).
import { el, shown, svg, roving } from "./dom.js";
import { Chart, fitted, label, marked } from "./chart.js";

const MOST = 20;

export class Matrix extends Chart {
  #all = false;
  #view = 0;

  /** The matrix itself, or the one of several that is chosen. */
  get #shown() {
    return this.spec.views?.[this.#view] ?? this.spec;
  }

  controls() {
    if (this.spec.views) return this.#views();
    const classes = this.spec.rows.length - 1;
    if (classes <= MOST) return null;
    const box = el("input", { type: "checkbox" });
    box.addEventListener("change", () => { this.#all = box.checked; this.redraw(); });
    return el("label", { class: "small" }, box, ` all ${classes} classes, not only the ${MOST} that are confused most`);
  }

  #views() {
    const select = el("select", { onchange: () => { this.#view = Number(select.value); this.redraw(); } }, this.spec.views.map(({ name }, i) => el("option", { value: i }, name)));
    return el("label", { class: "small view-of" }, "shown ", select);
  }

  draw(width) {
    const { rows, columns, cells } = this.#shown;
    const kept = this.#chosen();
    const last = rows.length - 1;
    const across = columns.length > rows.length ? [...kept, last, last + 1] : [...kept, last];
    const down = [...kept, last];
    const names = Math.min(110, width * 0.24);
    const side = Math.min(Math.max((width - names - 8) / (across.length + 0.3), 13), 46);
    const head = Math.min(92, names);
    const total = names + side * (across.length + 0.3) + 4;
    const height = head + side * down.length + 30;
    const drawing = svg("svg", { viewBox: `0 0 ${total} ${height}`, width: total, height, class: "chart matrix" });
    const size = Math.min(12, side * 0.42);
    const xOf = (j) => names + j * side + (across[j] === last + 1 ? side * 0.3 : 0);
    across.forEach((column, j) => {
      const x = xOf(j) + side / 2;
      drawing.append(svg("text", { transform: `translate(${x} ${head - 6}) rotate(-55)`, class: "axis-name" }, fitted(columns[column], head, 6)));
    });
    down.forEach((row, i) => {
      const y = head + i * side;
      drawing.append(label(names - 6, y + side / 2, fitted(rows[row], names - 8, 6.4), "end", { class: "axis-name" }));
      across.forEach((column, j) => {
        const cell = cells[row][column];
        if (!cell) return;
        const box = svg("rect", { x: xOf(j), y, width: side, height: side, class: cell.right ? "cell right" : "cell wrong" });
        box.style.setProperty("--share", Math.sqrt(cell.share).toFixed(3));
        const group = svg("g", { "data-cell": cell.name }, box);
        const number = Number.isInteger(cell.value) ? shown(cell.value) : cell.value.toFixed(1);
        if (cell.bins) group.append(histogram(cell, xOf(j), y, side));
        const middle = cell.bins ? y + side * 0.25 : y + side / 2;
        if (cell.value) group.append(label(xOf(j) + side / 2, middle, number, "middle", { "font-size": fitting(number, cell.bins ? size * 0.8 : size, side), class: cell.share > 0.4 ? "on" : "off" }));
        const share = cell.value ? ` (${(100 * cell.share).toFixed(1)} % of the row)` : "";
        drawing.append(cell.value ? marked(group, `${cell.name}: ${number}${share}`, cell.filter, this.show) : group);
      });
    });
    drawing.append(label(names, height - 12, "what became of it →", "start", { class: "axis" }));
    return roving(drawing);
  }

  #chosen() {
    const { rows, cells } = this.#shown;
    const classes = [...Array(rows.length - 1).keys()];
    if (this.#all || classes.length <= MOST) return classes;
    const weight = (i) => classes.reduce((sum, j) => sum + (i === j ? 0 : cells[i][j].value + cells[j][i].value), 0);
    const heavy = new Set(classes.map((i) => [weight(i), i]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, MOST).map(([, i]) => i));
    return classes.filter((i) => heavy.has(i));
  }
}

/** Small bars at the foot of a cell. */
function histogram({ bins, share }, x, y, side) {
  const [wide, top] = [(0.88 * side) / bins.length, Math.max(...bins, 1)];
  const bars = bins.map((count, i) => `M${(x + 0.06 * side + i * wide).toFixed(1)} ${(y + 0.95 * side).toFixed(1)}v${(-0.5 * side * count / top).toFixed(1)}h${(0.85 * wide).toFixed(1)}V${(y + 0.95 * side).toFixed(1)}Z`);
  return svg("path", { d: bars.join(""), class: share > 0.4 ? "bins on" : "bins" });
}

function fitting(text, size, side) {
  return Math.min(size, (side - 2) / (0.62 * text.length));
}
