// What an object changed, in words: each change, and whether the control does the same.
import { el } from "./dom.js";

const WORDS = { missed: "lost", extra: "new", renamed: "renamed", moved: "moved" };
const MOSTLY = 0.5;

/** How many changes of each kind, in one sentence. */
export function summary(changes) {
  if (!changes.length) return "Nothing else changes.";
  const counts = new Map();
  for (const { type } of changes) counts.set(WORDS[type], (counts.get(WORDS[type]) ?? 0) + 1);
  return `${[...counts].map(([word, count]) => `${count} ${word}`).join(", ")}.`;
}

/** The changes as a list. `control`: those of the control, or null as long as it was not asked. */
export function listOf(changes, control) {
  return el("ul", { class: "changes" }, changes.map((change) => {
    const notes = [scores(change)];
    if (change.covered >= MOSTLY) notes.push(`${Math.round(100 * change.covered)} % of it lies under the object`);
    if (change.flickers) notes.push("only just: it flickers");
    if (!change.counts) notes.push("the oracle forgives it");
    if (change.harm && change.harm !== "unknown") notes.push(change.harm);
    return el("li", {},
      el("span", { class: `badge ${change.type}` }, WORDS[change.type]), " ", el("b", {}, change.label), change.type === "renamed" ? ` → ${change.became}` : "",
      el("span", { class: "detail" }, notes.join(" · ")),
      control === null ? null : whoseDoing(change, control));
  }));
}

function whoseDoing(change, control) {
  if (shared(change, control)) return el("span", { class: "shared" }, "The control does it too: it may be the pasting, not the object.");
  if (change.flickers || !change.counts) return null;
  if (change.covered >= MOSTLY) return el("span", { class: "shared" }, "It is mostly hidden, so nobody is to blame.");
  return el("span", { class: "doing" }, "Not with the control: the object's doing, as far as one patch can tell.");
}

function scores({ type, score, after }) {
  return type === "extra" && score === 0 ? `score ${after.toFixed(2)}` : `${score.toFixed(2)} → ${after.toFixed(2)}`;
}

function shared(change, control) {
  return control.some((other) => other.type === change.type && other.thing === change.thing
    && (change.type !== "extra" || (other.label === change.label && overlap(other.box, change.box) >= 0.5)));
}

function overlap(a, b) {
  const wide = Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0]));
  const high = Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  const area = ([x0, y0, x1, y1]) => (x1 - x0) * (y1 - y0);
  const both = wide * high;
  return both / Math.max(area(a) + area(b) - both, 1e-9);
}
