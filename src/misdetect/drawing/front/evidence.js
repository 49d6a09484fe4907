// What is known of one row: the pictures large, the numbers, why, what else happened to the same object, and the command
// that asks again.
import { el, shown } from "./dom.js";
import { drawView, isEdited, viewsOf } from "./photo.js";

const INSIDE = ["proposal", "refined", "suppressor"];
const PLAIN = {
  outcome: "what happened", harm: "against the truth", became: "became", score_before: "score before", score: "score", iou: "IoU", tide: "TIDE type",
  mechanism: "mechanism", reason: "reason", state: "state", size: "size", flicker: "only flicker", attributable: "object's doing", by: "put in / attack",
};

/** A dialog about one row; `onstep(step, row)` is asked for the next and the one before, `onnote()` is told of changes. */
export class Evidence extends HTMLElement {
  start(source, meta) {
    Object.assign(this, { source, meta });
    this.body = el("div", { class: "evidence-body" });
    this.name = el("h2", { id: "evidence-title", tabindex: "-1", autofocus: true });
    this.dialog = el("dialog", { "aria-labelledby": "evidence-title" },
      el("div", { class: "evidence-head" }, this.name,
        el("div", { class: "evidence-steps" },
          el("button", { type: "button", "aria-label": "the one before", onclick: () => this.onstep?.(-1, this.row) }, "‹"),
          el("button", { type: "button", "aria-label": "the next", onclick: () => this.onstep?.(1, this.row) }, "›"),
          el("button", { type: "button", class: "close", "aria-label": "close", onclick: () => this.dialog.close() }, "×"))),
      this.body);
    this.dialog.addEventListener("keydown", (event) => {
      if (event.target.matches("input, textarea")) return;
      if (event.key === "ArrowRight") this.onstep?.(1, this.row);
      if (event.key === "ArrowLeft") this.onstep?.(-1, this.row);
    });
    this.dialog.addEventListener("click", (event) => { if (event.target === this.dialog) this.dialog.close(); });
    this.append(this.dialog);
  }

  async open(row, score) {
    this.row = row;
    this.name.textContent = titleOf(row);
    const views = viewsOf(row, this.source, score, this.meta.words);
    const inside = insideOf(row);
    const pictures = await Promise.all(views.map(async (view) => el("figure", { class: "view" },
      await drawView(view, this.source, [0, 0, view.image.width, view.image.height], view === views[views.length - 1] ? inside : []),
      view.title ? el("figcaption", {}, view.title) : null)));
    const record = this.source.record(row).image;
    const others = await this.#others(row);
    if (this.row !== row) return;  // another was opened meanwhile
    this.body.replaceChildren(
      el("div", { class: isEdited(row) ? "pictures two" : "pictures" }, pictures),
      el("div", { class: "tools" }, document.createElement("md-switches")),
      el("div", { class: "columns" },
        section("What happened", facts(row, this.meta.glossary ?? {})),
        row.evidence ? section("Evidence", evidenceOf(row), inside.length ? legendOf(inside) : null) : null,
        record?.truth.length ? section("The truth in this image", truthOf(record, row, score)) : null,
        this.#elsewhere(row, others, score)),
      await this.#beside(row, others, score),
      this.meta.write || row.tags?.length || row.note ? this.#notes(row) : "",
      row.replay ? replayOf(row.replay) : "");
    if (!this.dialog.open) this.dialog.showModal();
  }

  /** What else happened to the same object of the same image. */
  async #others(row) {
    if (row.object === null) return [];
    const { rows } = await this.source.rows({ image: [row.image], object: [row.object] }, 0, 60);
    return rows.filter((other) => other.index !== row.index && other.data === row.data);
  }

  #elsewhere(row, all, score) {
    const others = all.filter((other) => other.detector === row.detector);
    if (!others.length) return null;
    const list = el("ul", { class: "elsewhere" }, others.map((other) => el("li", {},
      el("button", { type: "button", class: "link", onclick: () => this.open(other, score) }, `${other.study}: ${other.outcome}`),
      ` ${[other.mechanism ?? other.tide, other.by && `by ${other.by}`, other.control && "control"].filter(Boolean).join(", ")}`)));
    return section("The same object elsewhere", list);
  }

  /** The same object by every detector, side by side: by the same study where there is a row of it. */
  async #beside(row, all, score) {
    const best = new Map();
    for (const other of all) {
      if (other.detector === row.detector || other.condition !== row.condition || other.control) continue;
      const known = best.get(other.detector);
      if (!known || (known.study !== row.study && other.study === row.study)) best.set(other.detector, other);
    }
    if (!best.size) return "";
    const shown = await Promise.all([row, ...best.values()].map(async (each) => {
      const view = viewsOf(each, this.source, score, this.meta.words).at(-1);
      return el("figure", { class: "view" },
        view ? await drawView(view, this.source, [0, 0, view.image.width, view.image.height]) : el("span", { class: "view none" }, "no photo"),
        el("figcaption", {}, el("span", { class: `badge ${each.outcome}` }, each.outcome), ` ${each.detector}`,
          each.score === null ? "" : `, score ${each.score.toFixed(2)}`, each === row ? "" : el("button", { type: "button", class: "link", onclick: () => this.open(each, score) }, `${each.study} …`)));
    }));
    return el("section", { class: "beside" }, el("h3", {}, "Detectors side by side on this object"), el("div", { class: "pair" }, shown));
  }

  #notes(row) {
    if (!this.meta.write) {
      return section("Tags and notes", el("p", {}, row.tags.map((tag) => el("span", { class: "tag" }, tag))), el("p", {}, row.note));
    }
    const tags = el("input", { type: "text", class: "tags", placeholder: "tags, with commas", "aria-label": "tags" });
    const note = el("textarea", { rows: 2, placeholder: "a note", "aria-label": "note", maxlength: 4000 });
    tags.value = row.tags.join(", ");
    note.value = row.note;
    const said = el("span", { class: "small", role: "status" });
    const save = el("button", { type: "button", class: "behind", onclick: async () => {
      try {
        await this.source.note(row, tags.value.split(","), note.value);
        said.textContent = "saved";
        this.onnote?.();
      } catch (error) {
        said.textContent = error.message;
      }
    } }, "save");
    return el("section", { class: "notes" }, el("h3", {}, "Tags and notes"), tags, note, el("p", {}, save, " ", said));
  }
}

function titleOf(row) {
  const what = row.outcome === "renamed" ? `${row.label} taken for ${row.became}` : `${row.label}: ${row.outcome}`;
  return `${what} — ${row.study}, ${row.image}${row.object === null ? "" : `, object ${row.object}`}`;
}

function section(title, ...content) {
  return el("section", {}, el("h3", {}, title), ...content);
}

/** What the ledger says of a row; a word that the glossary has says on hovering what it means. */
function facts(row, glossary) {
  const list = el("dl", {});
  for (const [name, words] of Object.entries(PLAIN)) {
    if (row[name] === null || row[name] === undefined) continue;
    const value = typeof row[name] === "boolean" ? (row[name] ? "yes" : "no") : shown(row[name]);
    const gloss = glossary[row[name]] ?? glossary[words];
    list.append(el("dt", {}, words), el("dd", {}, gloss ? el("abbr", { title: gloss }, value) : value));
  }
  const box = [row.x0, row.y0, row.x1, row.y1].map((value) => value.toFixed(0)).join(", ");
  list.append(el("dt", {}, "box"), el("dd", {}, `${box} px`));
  return list;
}

function insideOf(row) {
  const found = [];
  for (const name of INSIDE) {
    const box = row.evidence?.[name];
    if (Array.isArray(box)) found.push({ box, state: name, text: null });
  }
  return found;
}

function legendOf(inside) {
  return el("p", { class: "legend" }, inside.map(({ state }) => el("span", { class: `key ${state}` }, state)));
}

function evidenceOf(row) {
  const { top_labels: labels, top_scores: scores, ...rest } = row.evidence;
  const list = el("dl", {});
  for (const [name, value] of Object.entries(rest)) {
    if (value === null || INSIDE.includes(name)) continue;
    const text = Array.isArray(value) ? value.map(shown).join(", ") : typeof value === "object" ? JSON.stringify(value) : shown(value);
    list.append(el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, text));
  }
  if (!labels) return list;
  const bars = el("div", { class: "scores" }, labels.map((label, i) => {
    const bar = el("span", { class: "score-bar" });
    bar.style.width = `${Math.max(2, 100 * scores[i])}%`;
    return el("div", { class: label === row.label ? "right" : "" }, el("span", {}, label), el("span", { class: "track" }, bar), el("span", {}, scores[i].toFixed(2)));
  }));
  return el("div", {}, el("p", { class: "small" }, "scores of the candidate nearest to it"), bars, list);
}

function truthOf(record, row, score) {
  const body = record.truth.map((each) => {
    const missed = each[5] === null || each[5] < score;
    return el("tr", { class: each[6] === row.object ? "own" : "" }, el("td", {}, each[4]), el("td", {}, missed ? "not found" : each[5] < 1 ? `found, ${each[5].toFixed(2)}` : "found"));
  });
  return el("table", { class: "truths" }, el("tbody", {}, body));
}

/** A command that asks again, with a button that copies it. */
export function replayOf(command) {
  const text = el("code", { class: "replay" }, command);
  const button = el("button", { type: "button", class: "copy", onclick: async () => {
    button.textContent = (await copied(command, text)) ? "copied" : "select and copy";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  } }, "copy");
  return el("div", { class: "again" }, el("h3", {}, "Ask again"), el("div", { class: "command" }, text, button));
}

async function copied(text, node) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {  // not allowed here: by the selection, as by hand
    getSelection().selectAllChildren(node);
    return document.execCommand("copy");
  }
}
