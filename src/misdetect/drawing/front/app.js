// Puts the page together: the source, the gallery, the dialog, and the charts where the page has a place for them.
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

const ELEMENTS = {
  "md-switches": BoxSwitches, "md-gallery": Gallery, "md-evidence": Evidence, "md-bars": Bars, "md-flow": Flow,
  "md-matrix": Matrix, "md-curves": Curves, "md-heat": Heat, "md-table": Table,
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
  for (const button of document.querySelectorAll("button[data-failures]")) {  // of a finding
    button.addEventListener("click", () => show({ failure: [true], study: [button.dataset.failures] }, button));
  }
  for (const place of document.querySelectorAll("[data-chart]")) {
    const spec = meta.charts[place.dataset.chart];
    const chart = document.createElement(`md-${spec.kind}`);
    place.replaceChildren(chart);
    chart.start(spec, source, meta, show);
  }
  document.documentElement.dataset.ready = "yes";
}

const embedded = document.getElementById("report-data");
if (embedded) {
  const parsed = (id) => JSON.parse(document.getElementById(id).textContent);
  startPage(new EmbeddedSource(parsed("report-data"), parsed("report-pictures")));
}
