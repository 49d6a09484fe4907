// Cards of any number of rows: only those that can be seen are in the page, and only theirs are asked for.
import { el } from "./dom.js";

const BLOCK = 24;
const BLOCKS = 48;
const GAP = 12;
const NARROWEST = 250;
const TEXT = 64;
const SHAPE = 4 / 3;
const TALLEST = 6e6;  // pixels; browsers have limits, beyond which the bar stands for more than it is long

/** `ask(offset, limit)` gives `{ total, rows }`, `card(row, shape)` a node; `failed(error)` is told what goes wrong. */
export class Endless {
  #blocks = new Map();
  #cards = new Map();
  #asked = new Set();
  #turn = 0;
  #total = 0;
  #top = 0;
  #timer = null;

  constructor({ ask, card, failed }) {
    Object.assign(this, { ask, card, failed });
    this.spacer = el("div", { class: "endless-space" });
    this.node = el("div", { class: "endless", tabindex: "0", role: "group", "aria-label": "rows; scroll for more" }, this.spacer);
    this.node.addEventListener("scroll", () => this.#scrolled());
    this.node.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    new ResizeObserver(() => this.#measure()).observe(this.node);
  }

  /** Show rows anew, from the first on; how many there are is what is returned. */
  async start() {
    const turn = ++this.#turn;
    const { total, rows } = await this.ask(0, BLOCK);
    if (turn !== this.#turn) return null;
    this.#blocks = new Map([[0, rows]]);
    this.#asked.clear();
    this.#cards.clear();
    this.#total = total;
    this.#top = 0;
    this.spacer.replaceChildren();
    this.node.scrollTop = 0;
    this.#measure(true);
    return total;
  }

  /** Draw the cards anew: what is drawn on them has changed. */
  redraw() {
    this.#cards.clear();
    this.spacer.replaceChildren();
    this.#draw();
  }

  get #height() {
    return Math.ceil(this.#total / this.columns) * this.line;
  }

  get #scale() {
    const [tall, seen] = [this.#height, this.node.clientHeight];
    return tall > TALLEST ? (tall - seen) / (TALLEST - seen) : 1;
  }

  #measure(anew = false) {
    const width = this.node.clientWidth - 2;
    if (width <= 0) return;
    const first = this.columns ? Math.floor(this.#top / this.line) * this.columns : 0;
    const columns = Math.max(1, Math.floor((width + GAP) / (NARROWEST + GAP)));
    const wide = Math.floor((width - GAP * (columns - 1)) / columns);
    if (!anew && columns === this.columns && wide === this.wide) return;
    Object.assign(this, { columns, wide, picture: Math.round(wide / SHAPE), line: Math.round(wide / SHAPE) + TEXT + GAP });
    this.spacer.style.height = `${Math.min(this.#height, TALLEST)}px`;
    this.#top = Math.floor(first / columns) * this.line;
    this.node.scrollTop = this.#top / this.#scale;
    this.redraw();
  }

  #scrolled() {
    const expected = this.#top / this.#scale;
    if (Math.abs(this.node.scrollTop - expected) > 1.5) this.#top = this.node.scrollTop * this.#scale;
    this.#draw();
  }

  /** Where the bar stands for more than it is long, the wheel still moves by what it says. */
  #wheel(event) {
    if (this.#scale === 1 || event.ctrlKey) return;
    event.preventDefault();
    this.#top = Math.min(Math.max(this.#top + event.deltaY, 0), this.#height - this.node.clientHeight);
    this.node.scrollTop = this.#top / this.#scale;
    this.#draw();
  }

  #draw() {
    if (!this.columns) return;
    const seen = this.node.clientHeight;
    const from = Math.max(Math.floor(this.#top / this.line) - 1, 0) * this.columns;
    const to = Math.min((Math.ceil((this.#top + seen) / this.line) + 1) * this.columns, this.#total);
    const shift = this.node.scrollTop - this.#top;  // where the bar is, less where it would be
    for (const [index, node] of this.#cards) {
      if (index >= from && index < to) continue;
      node.remove();
      this.#cards.delete(index);
    }
    for (let index = from; index < to; index++) this.#place(index, shift);
    this.#want(Math.floor(from / BLOCK), Math.floor(Math.max(to - 1, 0) / BLOCK));
  }

  #place(index, shift) {
    const row = this.#blocks.get(Math.floor(index / BLOCK))?.[index % BLOCK];
    let node = this.#cards.get(index);
    if (!node || (row && node.classList.contains("blank"))) {
      const made = el("div", { class: row ? "slot" : "slot blank" });
      if (row) this.card(Object.assign(row, { position: index }), this.wide / this.picture).then((card) => made.append(card));
      if (node) node.replaceWith(made);
      else this.#insert(made, index);
      this.#cards.set(index, made);
      made.dataset.at = index;
      node = made;
    }
    Object.assign(node.style, {
      width: `${this.wide}px`, height: `${this.line - GAP}px`,
      transform: `translate(${(index % this.columns) * (this.wide + GAP)}px, ${Math.floor(index / this.columns) * this.line + shift}px)`,
    });
    node.style.setProperty("--picture", `${this.picture}px`);
  }

  /** In the order of rows, so that the Tab key goes through them in turn. */
  #insert(node, index) {
    const after = [...this.spacer.children].find((other) => Number(other.dataset.at) > index) ?? null;
    this.spacer.insertBefore(node, after);
  }

  /** Ask for blocks that are seen and not known, once scrolling rests. */
  #want(first, last) {
    clearTimeout(this.#timer);
    const missing = [];
    for (let block = first; block <= last; block++) if (!this.#blocks.has(block) && !this.#asked.has(block)) missing.push(block);
    if (missing.length) this.#timer = setTimeout(() => missing.forEach((block) => this.#load(block)), 60);
  }

  async #load(block) {
    const turn = this.#turn;
    this.#asked.add(block);
    try {
      const { rows } = await this.ask(block * BLOCK, BLOCK);
      if (turn !== this.#turn) return;
      this.#blocks.set(block, rows);
      if (this.#blocks.size > BLOCKS) this.#blocks.delete(this.#blocks.keys().next().value);
      this.#draw();
    } catch (error) {
      if (turn === this.#turn) this.failed(error);
    } finally {
      this.#asked.delete(block);
    }
  }
}
