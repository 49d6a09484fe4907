// Beside each finding: three of its pictures, which lead to their rows, and a small chart; its sentence leads to all.
import { el } from "./dom.js";
import { drawView, viewsOf, windowOf } from "./photo.js";

const SHOWN = 3;
const AMONG = 24;
const UPRIGHT = 1.15;

/** Fill the places that the page has beside its findings, in the order of `meta.findings`. */
export async function fillFindings(source, meta, gallery, evidence, chartOf) {
  for (const way of document.querySelectorAll("[data-behind]")) {
    way.addEventListener("click", (event) => {
      if (!gallery) return;
      event.preventDefault();
      gallery.show(meta.findings[way.dataset.behind].filter, { from: way });
    });
  }
  await Promise.all([...document.querySelectorAll("[data-finding]")].map(async (place) => {
    const { filter, chart } = meta.findings[place.dataset.finding];
    const pictures = gallery && Object.keys(filter).length ? await picturesOf(filter, source, meta, gallery, evidence) : [];
    if (pictures.length) place.append(el("div", { class: "thumbs" }, pictures));
    if (chart) place.append(chartOf(chart));
  }));
}

/** The first rows behind a filter as pictures, of different images where there are such. */
async function picturesOf(filter, source, meta, gallery, evidence) {
  const { rows } = await source.rows(filter, 0, AMONG);
  rows.forEach((row, i) => { row.position = i; });
  const images = new Set();
  const once = rows.filter((row) => !images.has(row.image) && images.add(row.image));
  const chosen = [...once, ...rows.filter((row) => !once.includes(row))].slice(0, SHOWN);
  const drawn = await Promise.all(chosen.map(async (row) => {
    const view = viewsOf(row, source, gallery.score, meta.words).at(-1);
    if (!view?.image.picture) return null;
    const picture = await drawView(view, source, windowOf(view, row, UPRIGHT));
    const button = el("button", { type: "button", class: "thumb", title: row.image, "data-index": row.index, onclick: async () => {
      await gallery.show(filter, { from: button });
      evidence.open(row, gallery.score);
    } }, picture);
    return button;
  }));
  return drawn.filter(Boolean);
}
