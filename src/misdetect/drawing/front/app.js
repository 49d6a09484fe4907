// Puts the page together: the source, the gallery, the dialog, and the charts where the page has a place for them.
import { el } from "./dom.js";
import { EmbeddedSource } from "./source.js";
import { BoxSwitches } from "./photo.js";
import { Gallery } from "./gallery.js";
import { Evidence } from "./evidence.js";
import { Bars } from "./bars.js";
import { Flow } from "./flow.js";
import { Matrix } from "./matrix.js";
import { Curves } from "./curves.js";
import { Heat } from "./heat.js";
import { Table } from "./table.js";
import { Lines } from "./lines.js";
import { Shares } from "./shares.js";
import { Places } from "./places.js";
import { fillFindings } from "./findings.js";

const ELEMENTS = {
  "md-switches": BoxSwitches, "md-gallery": Gallery, "md-evidence": Evidence, "md-bars": Bars, "md-flow": Flow,
  "md-matrix": Matrix, "md-curves": Curves, "md-heat": Heat, "md-table": Table,
  "md-lines": Lines, "md-shares": Shares, "md-places": Places,
};

/** Start the page on `source`; `known` is its meta, where that was asked for already. */
export async function startPage(source, known = null) {
  for (const [name, element] of Object.entries(ELEMENTS)) if (!customElements.get(name)) customElements.define(name, element);
  const meta = known ?? await source.meta();
  const [gallery, evidence] = ["md-gallery", "md-evidence"].map((name) => document.querySelector(name));
  if (gallery) {
    evidence.start(source, meta);
    await gallery.start(source, meta, evidence);
  }
  const show = (filter, from) => gallery?.show(filter, { from });
  const chartOf = (spec) => {
    const chart = document.createElement(`md-${spec.kind}`);
    chart.start(spec, source, meta, show);
    return chart;
  };
  for (const place of document.querySelectorAll("[data-chart]")) place.replaceChildren(chartOf(meta.charts[place.dataset.chart]));
  await fillFindings(source, meta, gallery, evidence, chartOf);
  document.documentElement.dataset.ready = "yes";
}

/** What the page has packed as `id`. */
async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

async function startEmbedded() {
  if (!("DecompressionStream" in globalThis)) {
    document.querySelector("main").prepend(el("p", { class: "problem" }, "Charts and pictures need a browser of 2023 or later."));
    return;
  }
  const [meta, rows] = await Promise.all(["report-data", "report-rows"].map(unpacked));
  await startPage(new EmbeddedSource({ meta, rows }, JSON.parse(document.getElementById("report-pictures").textContent)));
}

if (document.getElementById("report-data")) await startEmbedded();
