// A table whose numbers lead to the rows behind them, and whose columns can be sorted.
import { el, shown } from "./dom.js";
import { Chart } from "./chart.js";

export class Table extends Chart {
  #by = null;
  #down = true;

  draw() {
    const { columns, rows } = this.spec;
    const order = [...rows];
    if (this.#by !== null) {
      order.sort((a, b) => compared(a[this.#by].value, b[this.#by].value) * (this.#down ? -1 : 1));
    }
    const head = columns.map((name, i) => el("th", { scope: "col", "aria-sort": i === this.#by ? (this.#down ? "descending" : "ascending") : null },
      el("button", { type: "button", class: "sort", onclick: () => this.#sort(i) }, name)));
    const body = order.map((cells) => el("tr", {}, cells.map((cell, i) => {
      const text = el("span", {}, textOf(cell, columns[i]), cell.ends ? el("small", {}, ` (${(100 * cell.ends[0]).toFixed(1)} to ${(100 * cell.ends[1]).toFixed(1)})`) : null);
      const linked = cell.filter && cell.value !== 0 && cell.value !== null;
      const node = linked ? el("button", { type: "button", class: "link", onclick: (event) => this.show(cell.filter, event.currentTarget) }, text) : text;
      return el(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : { "data-name": columns[i] }, node);
    })));
    return el("div", { class: "scroll" }, el("table", { class: "numbers" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
  }

  #sort(i) {
    this.#down = this.#by === i ? !this.#down : true;
    this.#by = i;
    this.redraw();
  }
}

function textOf(cell, column) {
  if (cell.ends || column.startsWith("of the")) return percent(cell.value);
  return column.startsWith("AP") && cell.value !== null ? cell.value.toFixed(3) : shown(cell.value);
}

function percent(share) {
  return share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)}\u00a0%`;
}

function compared(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "string" && typeof b === "string") return b.localeCompare(a);
  return (a === null ? 0 : 1) - (b === null ? 0 : 1);
}
