// The inside of a detector around an object: candidates on the photo, who suppressed whom, and a table of them.
import { el, svg } from "./dom.js";

const centre = ([x0, y0, x1, y1]) => [(x0 + x1) / 2, (y0 + y1) / 2];

/** The candidates as marks on the photo: what was dropped dotted, with a line to what suppressed it, and what is below
 *  `score` faint. */
export function marksOf(candidates, score) {
  return candidates.map((each, i) => {
    const [x0, y0, x1, y1] = each.box;
    const group = svg("g", { class: `candidate ${each.fate === "kept" ? "kept" : "dropped"}${each.score < score ? " faint" : ""}`, "data-candidate": i },
      svg("rect", { x: x0, y: y0, width: Math.max(x1 - x0, 0.1), height: Math.max(y1 - y0, 0.1) }));
    if (each.by !== null) {
      const [[ax, ay], [bx, by]] = [centre(each.box), centre(candidates[each.by].box)];
      group.append(svg("line", { x1: ax, y1: ay, x2: bx, y2: by }));
    }
    return group;
  });
}

/** The same as a table; the row under the mouse, or in focus, is told to `light(number or null)`. `score`: from which on
 *  a box is a detection. */
export function tableOf(candidates, score, light) {
  const row = (each, i) => {
    const by = each.by === null ? null : candidates[each.by];
    const fate = each.fate === "kept" && each.score < score ? `not suppressed, but below ${score}` : each.fate;
    const what = by ? `suppressed by ${by.label} ${by.score.toFixed(2)}, IoU ${each.overlap.toFixed(2)}` : fate;
    return el("tr", {
      tabindex: "0", "data-row": i, onmouseenter: () => light(i), onmouseleave: () => light(null), onfocus: () => light(i), onblur: () => light(null),
    }, el("td", {}, each.label), el("td", {}, each.score.toFixed(2)), el("td", {}, what));
  };
  return el("table", { class: "inside" },
    el("thead", {}, el("tr", {}, ...["candidate", "score", "what became of it"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, candidates.map(row)));
}

/** What became of each original that is lost. */
export function lossesOf(losses) {
  return el("ul", { class: "losses" }, losses.map(({ label, fate, mechanism, chain }) => el("li", {},
    el("b", {}, label), ` is lost: ${fate ? FATES[fate] ?? fate : "its candidate was not found again"}${mechanism ? ` (${mechanism})` : ""}.`,
    chain?.length ? el("span", { class: "detail" }, `By ${chain.join("; ")}.`) : null)));
}

const FATES = {
  suppressed: "another box suppressed its candidate", score: "its score fell below the threshold", "top-k": "it fell to a top-k", cap: "it fell to the cap",
  "too-small": "its box became too small", elsewhere: "it is still there, but its box lies elsewhere", gone: "nothing of the kind is there any more",
};
