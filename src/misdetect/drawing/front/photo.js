// A photo with what was detected on it: boxes are SVG on top, so that they stay crisp and can be switched off.
import { el, svg } from "./dom.js";

const LABELS = { kept: "kept", moved: "moved", lost: "lost", new: "new", own: "the inserted object's own" };

/** Whether a row is about an edited picture, which has a before and an after. */
export function isEdited(row) {
  return row.condition !== "clean";
}

/** What is to be drawn of `row`: one view, or two of an edited picture, over which stand the `words` of its study.
 *  `score`: from which on detections are drawn. */
export function viewsOf(row, source, score, words) {
  const { image, scene } = source.record(row);
  if (!image) return [];
  const own = [row.x0, row.y0, row.x1, row.y1];
  const focus = { box: own, state: focusOf(row), text: captionOf(row) };
  const truth = image.truth.map((each) => ({ box: each, state: "truth", text: each[4] }));
  const firm = (boxes) => boxes.filter((each) => each[5] === null || each[5] >= score);
  if (!isEdited(row)) {
    const found = firm(image.found).map(asBox);
    return [{ title: "", image, patch: null, inserted: null, boxes: [...truth, ...found], focus }];
  }
  const gone = row.outcome === "extra" ? null : { box: own, state: "kept", text: withScore(row.label, row.score_before) };
  const before = [...truth, ...(scene?.before ?? []).map(asBox)];
  const after = [...truth, ...(scene?.after ?? []).map(asBox)];
  const inserted = scene?.inserted ?? null;
  return [
    { title: "before", image, patch: null, inserted: null, boxes: before, focus: gone },
    { title: words[row.study][row.control ? "control" : "titled"].replace("{by}", row.by ?? "the object"),
      image, patch: scene?.patch ?? null, inserted, boxes: after, focus },
  ];
}

function asBox(each) {
  return { box: each, state: each[6], text: withScore(each[4], each[5]) };
}

function withScore(label, score) {
  return score === null || score === undefined ? label : `${label} ${score.toFixed(2)}`;
}

function focusOf(row) {
  return { found: "kept", missed: "lost", extra: "new", renamed: "new", moved: "moved" }[row.outcome] ?? "kept";
}

function captionOf(row) {
  if (row.outcome === "extra") return withScore(row.label, row.score);
  if (row.outcome === "renamed") return `${row.label} → ${row.became ?? "?"}`;
  return row.outcome === "found" ? withScore(row.label, row.score) : `${row.label} ${row.outcome}`;
}

/** The part of the photo that a card shows: what it is about, with what is around it; `shape`: width by height. */
export function windowOf(view, row, shape = null) {
  const { width, height } = view.image;
  let [x0, y0, x1, y1] = [row.x0, row.y0, row.x1, row.y1];
  const put = view.inserted;
  if (put) [x0, y0, x1, y1] = [Math.min(x0, put[0]), Math.min(y0, put[1]), Math.max(x1, put[2]), Math.max(y1, put[3])];
  const ratio = shape ?? Math.min(Math.max(width / height, 0.8), 1.5);
  let wide = Math.max((x1 - x0) * 2.4, (y1 - y0) * 2.4 * ratio, width * 0.4);
  wide = Math.min(wide, width, height * ratio);
  const high = wide / ratio;
  const left = Math.min(Math.max((x0 + x1) / 2 - wide / 2, 0), Math.max(width - wide, 0));
  const top = Math.min(Math.max((y0 + y1) / 2 - high / 2, 0), Math.max(height - high, 0));
  return [left, top, wide, high];
}

/** `view` as an SVG of `part` of it (left, top, width, height); `extra`: more boxes on top. */
export async function drawView(view, source, part, extra = []) {
  const { image } = view;
  const picture = svg("svg", { viewBox: part.join(" "), class: "photo", role: "img", "aria-label": spoken(view) });
  const address = image.picture ? await source.image(image.picture) : null;
  if (address) picture.append(svg("image", { href: address, width: image.width, height: image.height }));
  else picture.append(svg("rect", { width: image.width, height: image.height, class: "no-photo" }));
  if (view.patch) {
    const [key, x, y, width, height] = view.patch;
    const patch = await source.image(key);
    if (patch) picture.append(svg("image", { href: patch, x, y, width, height, preserveAspectRatio: "none" }));
  }
  if (view.inserted) picture.append(frame(view.inserted, "inserted", null, part));
  for (const each of view.boxes) picture.append(frame(each.box, each.state, each.text, part));
  for (const each of extra) picture.append(frame(each.box, each.state, each.text, part, true));
  if (view.focus) picture.append(frame(view.focus.box, `${view.focus.state} focus`, view.focus.text, part, true));
  return picture;
}

function spoken(view) {
  return `${view.title || "photo"}${view.focus ? `: ${view.focus.text}` : ""}`;
}

function frame([x0, y0, x1, y1], state, text, part, named = false) {
  const group = svg("g", { class: `box ${state}` });
  const sides = { x: x0, y: y0, width: Math.max(x1 - x0, 0.1), height: Math.max(y1 - y0, 0.1) };
  group.append(svg("rect", { ...sides, class: "halo" }), svg("rect", { ...sides, class: "line" }));
  if (text) {
    const name = placed(text, x0, y0, y1, part);
    if (!named) name.classList.add("name");
    group.append(svg("title", {}, text), name);
  }
  return group;
}

/** The name of a box, above it or below, inside the part of the photo that is shown. */
function placed(text, x0, y0, y1, [left, top, width, height]) {
  const size = Math.min(0.05 * Math.max(width, 0.9 * height), width / (0.72 * text.length));
  const x = Math.max(left + 0.2 * size, Math.min(x0, left + width - 0.72 * size * text.length));
  const y = y0 - 1.3 * size > top ? y0 - 0.35 * size : Math.min(y1 + size, top + height - 0.3 * size);
  return svg("text", { x, y, "font-size": size }, text);
}

/** The meaning of the lines, with a switch for each. */
export class BoxSwitches extends HTMLElement {
  connectedCallback() {
    if (this.childElementCount) return;
    const states = { truth: "truth", kept: LABELS.kept, lost: LABELS.lost, new: LABELS.new, names: "names" };
    for (const [state, name] of Object.entries(states)) {
      const box = el("input", { type: "checkbox" });
      box.checked = state !== "truth" && state !== "names";
      const apply = () => document.body.classList.toggle(`hide-${state}`, !box.checked);
      box.addEventListener("change", () => {
        apply();
        for (const other of document.querySelectorAll("md-switches")) if (other !== this) other.take(state, box.checked);
      });
      box.dataset.state = state;
      apply();
      const sample = state === "names" ? null : svg("svg", { viewBox: "0 0 26 14", width: 26, height: 14, class: "sample", "aria-hidden": "true" },
        svg("g", { class: `box ${state}` }, svg("rect", { x: 2, y: 2, width: 22, height: 10, class: "line" })));
      this.append(el("label", {}, box, sample, ` ${name}`));
    }
  }

  take(state, checked) {
    const box = this.querySelector(`input[data-state="${state}"]`);
    if (box) box.checked = checked;
  }
}
