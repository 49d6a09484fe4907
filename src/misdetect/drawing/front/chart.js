// What all charts share: a title, what the numbers are of, a drawing that follows its width, marks that lead to rows.
import { el, svg } from "./dom.js";

/** Okabe and Ito's colours, as charts.py has them; the page's style gives each a lighter one in the dark. */
export const SERIES = 8;

export class Chart extends HTMLElement {
  #width = 0;

  /** `spec` is the chart as a value (report/views.py); `show(filter, from)` shows the rows behind a mark. */
  start(spec, source, meta, show) {
    Object.assign(this, { spec, source, meta, show });
    this.canvas = el("div", { class: "canvas" });
    this.append(el("h3", {}, spec.title), this.controls() ?? "", this.canvas,
      spec.note ? el("p", { class: "small" }, spec.note) : "", el("p", { class: "small about" }, spec.about));
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

/** Text in a chart. */
export function label(x, y, text, anchor = "start", more = {}) {
  return svg("text", { x, y, "text-anchor": anchor, "dominant-baseline": "central", ...more }, text);
}

/** `text` so short that it fits into `width` pixels. */
export function fitted(text, width, size = 6.6) {
  const most = Math.max(3, Math.floor(width / size));
  return text.length <= most ? text : text.slice(0, most - 1) + "…";
}
