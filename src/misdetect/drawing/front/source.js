// Where the page's rows and pictures come from. Every view asks one of these and nothing else, so that a server can take
// this one's place (http.js):
//   meta()                       what the page is about, and its charts
//   rows(filter, offset, limit)  { total, rows }, in the order of the filter
//   facets(filter, columns)      { column: [[value, rows], …] }, the most first, whatever the filter wants of that column
//   record(row)                  { image, scene }: what is drawn of a row, where it is known
//   image(key)                   the address of a picture, or null
//   endless                      whether there may be more rows than a page should hold
import { hasWords, wrongAt } from "./filter.js";

/** Rows and pictures that are inside the page itself. */
export class EmbeddedSource {
  #columns;
  #length;
  #pictures;
  #meta;
  endless = false;

  constructor(data, pictures) {
    this.#meta = data.meta;
    this.#columns = data.rows;
    this.#pictures = pictures;
    this.#length = data.rows.score.length;
  }

  async meta() {
    return this.#meta;
  }

  async rows(filter, offset = 0, limit = 60) {
    const found = this.#ordered(this.#matching(filter), filter.sort);
    return { total: found.length, rows: found.slice(offset, offset + limit).map((i) => this.#row(i)) };
  }

  async facets(filter, columns) {
    const found = {};
    for (const column of columns) {
      const { [column]: _, ...others } = filter;
      if (column === "study") delete others.again;
      found[column] = this.#columns[column] ? this.#counts(others, column) : [];
    }
    return found;
  }

  #counts(filter, column) {
    const found = new Map();
    for (const i of this.#matching(filter)) {
      const value = this.#value(column, i);
      if (value !== null) found.set(value, (found.get(value) ?? 0) + 1);
    }
    return [...found].sort((a, b) => b[1] - a[1] || String(a[0]).localeCompare(String(b[0])));
  }

  record(row) {
    const scene = this.#meta.scenes[row.scene];
    return { image: this.#meta.images[scene?.image ?? row.image], scene };
  }

  async image(key) {
    return this.#pictures[key] ?? null;
  }

  #value(name, i) {
    const column = this.#columns[name];
    if (Array.isArray(column)) return column[i];
    return column.codes[i] < 0 ? null : column.words[column.codes[i]];
  }

  #row(i) {
    const row = { index: i };
    for (const name of Object.keys(this.#columns)) row[name] = this.#value(name, i);
    return row;
  }

  #ordered(found, sort) {
    const { score, x0, y0, x1, y1 } = this.#columns;
    const area = (i) => (x1[i] - x0[i]) * (y1[i] - y0[i]);
    const keys = { surest: (i) => -(score[i] ?? -1), faintest: (i) => score[i] ?? -1, largest: (i) => -area(i), smallest: area };
    return sort in keys ? found.sort((a, b) => keys[sort](a) - keys[sort](b) || a - b) : found;
  }

  #matching(filter) {
    const tests = Object.entries(filter).map(([name, values]) => this.#test(name, values));
    const found = [];
    for (let i = 0; i < this.#length; i++) if (tests.every((test) => test(i))) found.push(i);
    return found;
  }

  #test(name, values) {
    if (name === "wrong_at") {
      return (i) => wrongAt(this.#value("outcome", i), this.#columns.score[i], values);
    }
    const { score } = this.#columns;
    if (name === "sort") return () => true;
    if (name === "scores") return (i) => score[i] !== null && score[i] >= values[0] && score[i] <= values[1];
    if (name === "search") return (i) => hasWords(values, (each) => (this.#columns[each] ? this.#value(each, i) : null));
    const column = this.#columns[name];
    if (column === undefined) return () => false;
    if (Array.isArray(column)) return (i) => values.includes(column[i]);
    const codes = new Set(values.map((value) => (value === null ? -1 : column.words.indexOf(value))));
    if (!values.includes(null)) codes.delete(-1);
    return (i) => codes.has(column.codes[i]);
  }
}
