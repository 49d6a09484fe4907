// What all charts share: a title, what the numbers are of, a drawing that follows its width, marks that lead to rows.
import { el, pickable, shown, svg } from "./dom.js";

/** Okabe and Ito's colours, as charts.py has them; the page's style gives each a lighter one in the dark. */
export const SERIES = 8;

export class Chart extends HTMLElement {
  #width = 0;

  /** `spec` is the chart as a value (drawing/values.py); `show(filter, from)` shows the rows behind a mark. */
  start(spec, source, meta, show) {
    Object.assign(this, { spec, source, meta, show });
    this.canvas = el("div", { class: "canvas" });
    this.append(el("h3", {}, spec.title), this.controls() ?? "", this.canvas,
      spec.note ? el("p", { class: "small" }, spec.note) : "", spec.about ? el("p", { class: "small about" }, spec.about) : "");
    new ResizeObserver(() => {
      const width = Math.floor(this.canvas.clientWidth);
      if (width > 0 && width !== this.#width) {
        this.#width = width;
        this.redraw();
      }
    }).observe(this.canvas);
  }

  redraw() {
    this.canvas.replaceChildren(...[this.draw(this.#width)].flat());
  }

  controls() {
    return null;
  }
}

/** A mark: one with rows behind it leads to them; one without says what it is to those who point at it or listen. */
export function marked(node, name, filter, show) {
  if (filter) return pickable(node, name, () => show(filter, node));
  node.append(svg("title", {}, name));
  return node;
}

/** A number as its chart writes it. */
export function written(value, form) {
  if (value === null || value === undefined) return "–";
  if (form === "percent") return `${(100 * value).toFixed(1)}\u00a0%`;
  if (form === "score") return value.toFixed(3);
  return form === "points" ? value.toFixed(1) : shown(value);
}

/** An interval behind its number. */
export function within(ends, form) {
  if (!ends) return "";
  const [low, high] = ends.map((end) => (form === "percent" ? (100 * end).toFixed(0) : written(end, form)));
  return ` (${low} to ${high})`;
}

/** The frame of a plot: lines and numbers at `ticks` of both axes, and what the axes are. `x` and `y` place a value. */
export function grid(drawing, { x, y, xs, ys, across, up, height }) {
  const [left, right, low, high] = [x(xs[0]), x(xs.at(-1)), y(ys[0]), y(ys.at(-1))];
  for (const at of ys) drawing.append(svg("path", { d: `M${left} ${y(at)}H${right}`, class: "grid" }), label(left - 8, y(at), tick(at), "end"));
  for (const at of xs) drawing.append(svg("path", { d: `M${x(at)} ${low}V${high}`, class: "grid" }), label(x(at), low + 14, tick(at), "middle"));
  drawing.append(label(right, height - 8, across, "end", { class: "axis" }), label(left + 6, high + 8, up, "start", { class: "axis" }));
}

function tick(value) {
  return value.toFixed(value >= 10 ? 0 : 1);
}

/** Text in a chart. */
export function label(x, y, text, anchor = "start", more = {}) {
  return svg("text", { x, y, "text-anchor": anchor, "dominant-baseline": "central", ...more }, text);
}

/** `text` so short that it fits into `width` pixels. */
export function fitted(text, width, size = 6.6) {
  const most = Math.max(3, Math.floor(width / size));
  return text.length <= most ? text : text.slice(0, most - 1) + "…";
}
