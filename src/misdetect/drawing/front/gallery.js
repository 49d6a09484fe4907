// The gallery: rows of the ledger as cards, with what they are filtered by. Charts lead here: they hand over a filter.
import { el, shown } from "./dom.js";
import { Endless } from "./endless.js";
import { FAILURES, ORDERS, fromHash, toHash, told } from "./filter.js";
import { drawView, viewsOf, windowOf } from "./photo.js";

const FACETS = [
  ["detector", "detector"], ["study", "study"], ["label", "class"], ["outcome", "type"], ["tide", "TIDE type"], ["mechanism", "mechanism"], ["size", "size"], ["by", "put in / attack"],
  ["others", "other detectors"], ["tag", "tag"],
];
const PAGE = 24;

/** All rows behind a filter; `source`, `meta` and `evidence` are set by the page before it is shown. */
export class Gallery extends HTMLElement {
  #filter = { ...FAILURES };
  #shown = 0;
  #turn = 0;
  #from = null;
  score = 0;

  start(source, meta, evidence) {
    Object.assign(this, { source, meta, evidence, score: meta.reported });
    this.#build();
    window.addEventListener("popstate", () => this.#follow());
    evidence.onstep = (step, row) => this.#step(step, row);
    evidence.onnote = () => this.#refresh();
    return this.#follow(true);
  }

  get filter() {
    return structuredClone(this.#filter);
  }

  /** Show exactly the rows behind `filter`; `from` is the mark that leads here, to go back to. */
  async show(filter, { from = null, move = true } = {}) {
    this.#filter = structuredClone(filter);
    this.#from = from;
    const address = toHash(filter);
    if (location.hash !== address) history.pushState(null, "", address);
    await this.#refresh();
    if (move) {
      this.scrollIntoView({ block: "start" });
      this.heading.focus({ preventScroll: true });
    }
  }

  #follow(first = false) {
    const wanted = fromHash(location.hash);
    if (wanted === null && !first && location.hash && !location.hash.startsWith("#rows=")) return undefined;
    this.#filter = wanted ?? { ...FAILURES };
    return this.#refresh();
  }

  #build() {
    this.heading = el("p", { class: "total", tabindex: "-1", "aria-live": "polite" });
    this.chips = el("div", { class: "chips" });
    this.facets = el("div", { class: "facets" });
    this.cards = el("div", { class: "cards" });
    this.more = el("button", { type: "button", class: "more", onclick: () => this.#page() }, "Show more");
    if (this.source.endless) {
      this.endless = new Endless({
        ask: (offset, limit) => this.source.rows(this.#filter, offset, limit),
        card: (row, shape) => this.#card(row, shape),
        failed: (error) => this.#fail(error),
      });
    }
    const slider = el("input", { type: "range", min: 0, max: 1, step: 0.05, value: this.score, "aria-label": "draw detections from this score on" });
    const value = el("output", {}, this.score.toFixed(2));
    slider.addEventListener("input", () => { value.textContent = Number(slider.value).toFixed(2); });
    slider.addEventListener("change", () => { this.score = Number(slider.value); this.#redraw(); });
    this.append(
      this.facets,
      el("div", { class: "tools choosing" }, this.#search(), this.#scores(), this.#orders()),
      el("div", { class: "tools" }, document.createElement("md-switches"), el("label", { class: "score" }, "drawn from score ", slider, value)),
      el("div", { class: "state" }, this.heading, this.chips),
      ...(this.endless ? [this.endless.node] : [this.cards, this.more]),
    );
  }

  #search() {
    this.words = el("input", { type: "search", placeholder: "image, class, mechanism …", "aria-label": "search", maxlength: 100 });
    let timer = null;
    this.words.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.#change("search", this.words.value.trim() || null), 250);
    });
    return el("label", { class: "search" }, "search ", this.words);
  }

  #scores() {
    this.ends = [0, 1].map((end) => el("input", { type: "number", min: 0, max: 1, step: 0.05, placeholder: end, "aria-label": end ? "highest score" : "lowest score" }));
    const change = () => {
      const [low, high] = this.ends.map((each, i) => (each.value === "" || !Number.isFinite(Number(each.value)) ? i : Number(each.value)));
      this.#change("scores", low <= 0 && high >= 1 ? null : [low, high]);
    };
    for (const end of this.ends) end.addEventListener("change", change);
    return el("span", { class: "between" }, "score from ", this.ends[0], " to ", this.ends[1]);
  }

  #orders() {
    this.sort = el("select", { "aria-label": "order" }, Object.entries(ORDERS).map(([name, text]) => el("option", { value: name }, text)));
    this.sort.addEventListener("change", () => this.#change("sort", this.sort.value === "worst" ? null : this.sort.value));
    return el("label", {}, "order ", this.sort);
  }

  /** Set an entry of the filter that is no column, or take it away. */
  #change(name, value) {
    const { [name]: _, ...filter } = this.filter;
    this.show(value === null ? filter : { ...filter, [name]: value }, { from: this.#from, move: false });
  }

  /** The controls as the filter has them. */
  #fillChoices() {
    const { search = "", scores = null, sort = "worst" } = this.#filter;
    if (this.words !== document.activeElement) this.words.value = search;
    this.ends.forEach((end, i) => { if (end !== document.activeElement) end.value = scores === null || scores[i] === i ? "" : scores[i]; });
    this.sort.value = sort;
  }

  #fail(error) {
    if (error.name === "AbortError") return;
    this.heading.textContent = error.message;
    this.classList.add("failed");
  }

  async #refresh() {
    const turn = ++this.#turn;
    this.setAttribute("aria-busy", "true");
    this.#fillChoices();
    this.#fillChips();
    try {
      await Promise.all([this.#fillFacets(turn), this.#rows(turn)]);
      if (turn === this.#turn) this.classList.remove("failed");
    } catch (error) {
      if (turn === this.#turn) this.#fail(error);
    }
    if (turn === this.#turn) this.setAttribute("aria-busy", "false");
  }

  async #redraw() {
    if (this.endless) this.endless.redraw();
    else await this.#rows(this.#turn);
  }

  async #rows(turn) {
    if (this.endless) {
      const total = await this.endless.start();
      if (total !== null && turn === this.#turn) this.#tell(total);
      return;
    }
    this.cards.replaceChildren();
    this.#shown = 0;
    await this.#page();
  }

  async #fillFacets(turn) {
    const all = await this.source.facets(this.#filter, FACETS.map(([column]) => column));
    if (turn !== this.#turn) return;
    const selects = [];
    for (const [column, name] of FACETS) {
      const { [column]: chosen } = this.#filter;
      const counts = all[column] ?? [];
      if (counts.length === 0 || (column === "detector" && counts.length === 1 && !chosen)) continue;
      const select = el("select", { "data-column": column, onchange: () => this.#choose(column, select.value) });
      select.append(el("option", { value: "" }, "all"));
      counts.forEach(([each, count], i) => select.append(el("option", { value: String(i) }, `${each} (${shown(count)})`)));
      select.values = counts.map(([each]) => each);
      const at = chosen?.length === 1 ? select.values.indexOf(chosen[0]) : -1;
      select.value = at < 0 ? "" : String(at);
      select.classList.toggle("set", at >= 0);
      selects.push(el("label", {}, el("span", {}, name), select));
    }
    this.facets.replaceChildren(...selects);
  }

  #choose(column, value) {
    const filter = this.filter;
    const select = this.facets.querySelector(`select[data-column="${column}"]`);
    if (value === "") delete filter[column];
    else filter[column] = [select.values[Number(value)]];
    if (column === "study") {  // of one study all is shown, whoever else tells of it
      if (value === "" && filter.failure) filter.again = [false];
      else delete filter.again;
    }
    this.show(filter, { from: this.#from, move: false }).then(() => this.facets.querySelector(`select[data-column="${column}"]`)?.focus());
  }

  #fillChips() {
    const chips = told(this.#filter).map(({ name, text }) => el("button", {
      type: "button", class: "chip", title: "take this condition away",
      onclick: () => { const { [name]: _, ...rest } = this.filter; this.show(rest, { move: false }); },
    }, text, el("span", { "aria-hidden": "true" }, " ×")));
    const usual = JSON.stringify(this.#filter) === JSON.stringify(FAILURES);
    if (!usual) chips.push(el("button", { type: "button", class: "reset", onclick: () => this.show(FAILURES, { move: false }) }, "all failures"));
    const back = this.#from;
    if (back) chips.push(el("button", { type: "button", class: "reset", onclick: () => { back.scrollIntoView({ block: "center" }); back.focus({ preventScroll: true }); } }, "↩ back to where you came from"));
    this.chips.replaceChildren(...chips);
  }

  async #page() {
    const turn = this.#turn;
    const { total, rows } = await this.source.rows(this.#filter, this.#shown, PAGE);
    const cards = await Promise.all(rows.map((row, i) => this.#card(Object.assign(row, { position: this.#shown + i }))));
    if (turn !== this.#turn) return;
    this.cards.append(...cards);
    this.#shown += rows.length;
    this.#tell(total);
    this.more.hidden = this.#shown >= total;
    this.more.textContent = `Show more (${shown(total - this.#shown)} left)`;
  }

  #tell(total) {
    this.total = total;
    this.heading.textContent = total === 0 ? "Nothing: no row is behind this." : `${shown(total)} ${total === 1 ? "row" : "rows"}, ${ORDERS[this.#filter.sort ?? "worst"]}`;
  }

  /** `shape`: width by height of the pictures together, where that is given. */
  async #card(row, shape = null) {
    const views = viewsOf(row, this.source, this.score, this.meta.words);
    const part = views.length ? windowOf(views[views.length - 1], row, shape && shape / views.length) : null;
    const pictures = await Promise.all(views.map(async (view) => el("span", { class: "view" }, await drawView(view, this.source, part), view.title ? el("span", { class: "view-title" }, view.title) : null)));
    const card = el("button", { type: "button", class: pictures.length > 1 ? "card edited" : "card", "data-index": row.index, onclick: () => this.evidence.open(row, this.score) },
      el("span", { class: pictures.length > 1 ? "views two" : "views" }, pictures.length ? pictures : el("span", { class: "view none" }, "no photo")),
      el("span", { class: "caption" }, el("span", { class: `badge ${row.outcome}` }, row.outcome), " ", el("b", {}, row.label ?? ""), row.outcome === "renamed" ? ` → ${row.became}` : "",
        (row.tags ?? []).map((tag) => el("span", { class: "tag" }, tag)), row.note ? el("span", { class: "tag note", title: row.note }, "✎") : null),
      el("span", { class: "detail" }, detailOf(row, this.meta)));
    return card;
  }

  async #step(step, row) {
    const at = row.position === undefined ? -1 : row.position + step;
    if (at < 0 || at >= this.total) return;
    const { rows } = await this.source.rows(this.#filter, at, 1);
    if (rows.length) this.evidence.open(Object.assign(rows[0], { position: at }), this.score);
  }
}

function detailOf(row, { several, words }) {
  const parts = [row.study];
  if (row.others) parts.push(`others ${row.others}`);
  if (row.mechanism) parts.push(row.mechanism);
  else if (row.tide) parts.push(row.tide);
  if (row.by) parts.push(words[row.study].told.replace("{by}", row.by));
  if (row.score_before !== null && row.score !== null) parts.push(`${row.score_before.toFixed(2)} → ${row.score.toFixed(2)}`);
  else if (row.score !== null) parts.push(`score ${row.score.toFixed(2)}`);
  if (row.control) parts.push("control");
  if (row.flicker) parts.push("flicker");
  if (several) parts.push(row.detector);
  return parts.join(" · ");
}
