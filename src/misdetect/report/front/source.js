// Where the page's rows and pictures come from. Every view asks one of these four and nothing else, so that a server can
// take this one's place:
//   meta()                       what the page is about, its charts, images and scenes
//   rows(filter, offset, limit)  { total, rows }, the worst first
//   counts(filter, column)       [[value, rows], …], the most first
//   image(key)                   the address of a picture, or null
import { wrongAt } from "./filter.js";

/** Rows and pictures that are inside the page itself. */
export class EmbeddedSource {
  #columns;
  #length;
  #pictures;
  #meta;

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
    const found = this.#matching(filter);
    return { total: found.length, rows: found.slice(offset, offset + limit).map((i) => this.#row(i)) };
  }

  async counts(filter, column) {
    const found = new Map();
    for (const i of this.#matching(filter)) {
      const value = this.#value(column, i);
      found.set(value, (found.get(value) ?? 0) + 1);
    }
    return [...found].sort((a, b) => b[1] - a[1] || String(a[0]).localeCompare(String(b[0])));
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
    const column = this.#columns[name];
    if (column === undefined) return () => false;
    if (Array.isArray(column)) return (i) => values.includes(column[i]);
    const codes = new Set(values.map((value) => (value === null ? -1 : column.words.indexOf(value))));
    if (!values.includes(null)) codes.delete(-1);
    return (i) => codes.has(column.codes[i]);
  }
}
