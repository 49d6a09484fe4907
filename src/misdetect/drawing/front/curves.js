// Precision, recall and F1 of every threshold, of all objects and of each class. A point leads to the errors that are
// made at that threshold: objects that are not found, and detections that find nothing.
import { el, svg } from "./dom.js";
import { Chart, SERIES, grid } from "./chart.js";

const VIEWS = {
  "precision – recall": ["recall", "precision"],
  "F1 – score": ["score", "F1"],
  "precision – score": ["score", "precision"],
  "recall – score": ["score", "recall"],
};
export const SHARES = [0, 0.2, 0.4, 0.6, 0.8, 1];
export const EDGE = { left: 46, right: 14, top: 12, bottom: 40 };

/** The points of one series, the highest score first. */
export function pointsOf(series) {
  return series.scores.map((score, i) => {
    const [right, wrong] = [series.right[i], series.wrong[i]];
    const [precision, recall] = [right / (right + wrong), series.objects ? right / series.objects : 0];
    const F1 = precision + recall > 0 ? (2 * precision * recall) / (precision + recall) : 0;
    return { score, right, wrong, missed: series.objects - right, precision, recall, F1 };
  });
}

export class Curves extends Chart {
  #view = "precision – recall";
  #chosen = 0;
  #at = null;

  controls() {
    this.series = this.spec.series.map((each) => ({ ...each, points: pointsOf(each) }));
    this.tabs = el("div", { class: "tabs", role: "tablist" }, Object.keys(VIEWS).map((name) => el("button", {
      type: "button", role: "tab", "aria-selected": String(name === this.#view), onclick: () => { this.#view = name; this.#mark(); this.redraw(); },
    }, name)));
    this.legend = el("div", { class: "legend-buttons" }, this.series.map((each, i) => el("button", {
      type: "button", class: i === 0 ? "all" : `series-${(i - 1) % SERIES}`, "aria-pressed": String(i === 0), onclick: () => this.#choose(i),
    }, `${each.name}${each.AP50 === null ? "" : ` ${each.AP50.toFixed(3)}`}`)));
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.behind = el("button", { type: "button", class: "behind", onclick: () => this.#open() });
    this.#at = this.#best();
    return el("div", {}, this.tabs);
  }

  #best() {
    const { points } = this.series[this.#chosen];
    return points.reduce((best, point, i) => (point.F1 > (points[best]?.F1 ?? -1) ? i : best), 0);
  }

  #choose(i) {
    this.#chosen = i;
    this.#at = this.#best();
    this.#mark();
    this.redraw();
  }

  #mark() {
    [...this.tabs.children].forEach((tab) => tab.setAttribute("aria-selected", String(tab.textContent === this.#view)));
    [...this.legend.children].forEach((each, i) => each.setAttribute("aria-pressed", String(i === this.#chosen)));
  }

  draw(width) {
    const height = Math.min(380, Math.max(260, width * 0.55));
    const room = { width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
    const [across, up] = VIEWS[this.#view];
    const x = (value) => EDGE.left + value * room.width;
    const y = (value) => EDGE.top + (1 - value) * room.height;
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart curves", tabindex: "0", role: "application",
      "aria-label": `${this.#view}; arrows move along ${this.series[this.#chosen].name}, Enter shows the errors there` });
    grid(drawing, { x, y, xs: SHARES, ys: SHARES, across: across === "score" ? "score threshold" : across, up, height });
    const order = [...this.series.keys()].filter((i) => i !== this.#chosen && i !== 0).concat(0, this.#chosen);
    for (const i of new Set(order)) drawing.append(this.#line(i, x, y, across, up));
    this.dot = svg("circle", { r: 6, class: "dot" });
    drawing.append(this.dot);
    this.place = () => {
      const { points } = this.series[this.#chosen];
      const point = points[this.#at];
      this.dot.toggleAttribute("hidden", !point);
      if (!point) return;
      this.dot.setAttribute("cx", x(point[across]));
      this.dot.setAttribute("cy", y(point[up]));
      this.readout.textContent = `${this.series[this.#chosen].name} at score ≥ ${point.score.toFixed(2)}: precision ${point.precision.toFixed(3)}, recall ${point.recall.toFixed(3)}, F1 ${point.F1.toFixed(3)}`;
      this.behind.textContent = `show its ${point.missed + point.wrong} errors: ${point.missed} not found, ${point.wrong} wrong`;
    };
    this.place();
    drawing.addEventListener("pointermove", (event) => this.#near(event, drawing, x, y, across, up));
    drawing.addEventListener("click", (event) => { this.#near(event, drawing, x, y, across, up); this.#open(); });
    drawing.addEventListener("keydown", (event) => this.#key(event));
    return [drawing, this.readout, this.behind, this.legend];
  }

  #line(i, x, y, across, up) {
    const { points } = this.series[i];
    const d = points.map((point, k) => `${k ? "L" : "M"}${x(point[across]).toFixed(1)} ${y(point[up]).toFixed(1)}`).join("");
    const name = i === 0 ? "all" : `series-${(i - 1) % SERIES}${i > SERIES ? " dashed" : ""}`;
    return svg("path", { d, class: `line ${name}${i === this.#chosen ? " chosen" : ""}` });
  }

  #near(event, drawing, x, y, across, up) {
    const box = drawing.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const { points } = this.series[this.#chosen];
    const away = points.map((point) => Math.hypot(x(point[across]) - px, y(point[up]) - py));
    const nearest = away.indexOf(Math.min(...away));
    if (nearest >= 0) {
      this.#at = nearest;
      this.place();
    }
  }

  #key(event) {
    const { points } = this.series[this.#chosen];
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const forward = VIEWS[this.#view][0] === "score" ? -step : step;
      this.#at = Math.min(Math.max(this.#at + forward, 0), points.length - 1);
      this.place();
      event.preventDefault();
    } else if (event.key === "Enter") this.#open();
  }

  #open() {
    const series = this.series[this.#chosen];
    const point = series.points[this.#at];
    if (!point) return;
    const filter = { ...this.spec.behind, wrong_at: point.score };
    if (series.label !== null) filter.label = [series.label];
    this.show(filter, this.behind);
  }
}
