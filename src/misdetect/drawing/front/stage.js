// A photo with an object on it that can be dragged, resized and moved with the keyboard, and the boxes on both.
import { svg } from "./dom.js";

const LEAST = 4;
const LETTER = 13;  // pixels of the screen
const CHANGED = ["lost", "new", "moved"];
const KEYS = "arrows move it (with Shift farther), plus and minus resize it, F mirrors it";

/** `edit` is { photo, object, x, y, width, height, opacity, flip }, in whole pixels of the photo; "edit" is sent when it
 *  changes (its `detail.end` says that the hand was lifted). One that is `still` shows, and cannot be touched. */
export class Stage extends HTMLElement {
  #held = null;

  start({ still = false } = {}) {
    this.still = still;
    this.picture = svg("svg", { class: "photo stage", role: "group" });
    this.image = svg("image", { class: "below" });
    this.thing = svg("image", { preserveAspectRatio: "none", class: "thing" });
    this.exact = svg("image", { preserveAspectRatio: "none", class: "exact" });
    this.boxes = svg("g", { class: "found", "aria-hidden": "true" });
    this.marks = svg("g", { class: "marks", "aria-hidden": "true" });
    this.edge = svg("rect", { class: "edge" });
    this.grip = svg("rect", { class: "grip" });
    this.object = svg("g", { class: "object" }, this.thing, this.exact, this.edge);
    this.picture.append(this.image, this.object, this.boxes, this.marks);
    this.append(this.picture);
    new ResizeObserver(() => this.drawn && this.draw(this.drawn)).observe(this.picture);  // letters stay as large as they are
    if (still) return;
    this.picture.append(this.grip);
    for (const [name, value] of Object.entries({ tabindex: "0", role: "application", "aria-roledescription": "object to drag" })) this.object.setAttribute(name, value);
    this.object.addEventListener("keydown", (event) => this.#key(event));
    this.object.addEventListener("pointerdown", (event) => this.#take(event, "move"));
    this.grip.addEventListener("pointerdown", (event) => this.#take(event, "resize"));
    this.picture.addEventListener("touchstart", (event) => { if (event.target.closest(".object, .grip")) event.preventDefault(); }, { passive: false });  // the page stays
    this.image.addEventListener("click", (event) => this.#place(event));
    for (const node of [this.object, this.grip]) {
      node.addEventListener("pointermove", (event) => this.#drag(event));
      for (const name of ["pointerup", "pointercancel"]) node.addEventListener(name, (event) => this.#release(event));
    }
  }

  /** Show another photo: its size and its address. */
  photo({ width, height, id }, address) {
    Object.assign(this, { wide: width, high: height });
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.style.setProperty("--ratio", width / height);
    this.picture.setAttribute("aria-label", `photo ${id}`);
    for (const [name, value] of Object.entries({ href: address, width, height })) this.image.setAttribute(name, value);
    this.exact.removeAttribute("href");
    this.draw([]);
    this.mark([]);
  }

  /** Lay the object where `edit` says; `address` is its picture, `label` what it is. */
  lay(edit, address, label) {
    this.edit = edit;
    const { x, y, width, height } = edit;
    for (const node of [this.thing, this.edge]) for (const [name, value] of Object.entries({ x, y, width, height })) node.setAttribute(name, value);
    if (address !== this.thing.getAttribute("href")) this.thing.setAttribute("href", address);
    this.thing.setAttribute("opacity", edit.opacity);
    this.exact.removeAttribute("href");
    const side = Math.max(0.035 * Math.max(this.wide, this.high), 1);
    for (const [name, value] of Object.entries({ x: x + width - side / 2, y: y + height - side / 2, width: side, height: side, rx: side / 4 })) this.grip.setAttribute(name, value);
    if (!this.still) this.object.setAttribute("aria-label", `${label} at ${x}, ${y}, ${width} by ${height} pixels: ${KEYS}`);
  }

  /** Show the very pixels that the detector is given, where the object lies. */
  settle(address) {
    const { x, y, width, height } = this.edit;
    for (const [name, value] of Object.entries({ href: address, x, y, width, height })) this.exact.setAttribute(name, value);
  }

  /** Draw what is detected: x0, y0, x1, y1, class, score, state. Names of what has changed come first, where there is
   *  room for them. */
  draw(boxes) {
    this.drawn = boxes;
    const size = this.wide ? (LETTER * this.wide) / Math.max(this.picture.getBoundingClientRect().width, 1) : 1;
    const taken = [];
    const changed = (box) => CHANGED.includes(box[6]);
    const nodes = [...boxes].sort((a, b) => changed(b) - changed(a)).map(([x0, y0, x1, y1, label, score, state]) => {
      const sides = { x: x0, y: y0, width: Math.max(x1 - x0, 0.1), height: Math.max(y1 - y0, 0.1) };
      const group = svg("g", { class: `box ${state}` }, svg("rect", { ...sides, class: "halo" }), svg("rect", { ...sides, class: "line" }));
      const text = `${label} ${score.toFixed(2)}`;
      const at = placed([x0, y0, x1, y1], 0.62 * size * text.length, size, this.wide, this.high, taken);
      group.append(svg("text", { ...at, "font-size": size, class: CHANGED.includes(state) ? "" : "name" }, text));
      return group;
    });
    this.boxes.replaceChildren(...nodes.reverse());
  }

  /** Put other things on top: SVG elements. */
  mark(nodes) {
    this.marks.replaceChildren(...nodes);
  }

  #point(event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.picture.getScreenCTM().inverse());
    return [at.x, at.y];
  }

  #take(event, how) {
    if (event.button !== 0) return;
    event.preventDefault();
    this.object.focus({ preventScroll: true });
    event.currentTarget.setPointerCapture(event.pointerId);
    this.#held = { how, pointer: event.pointerId, from: this.#point(event), edit: { ...this.edit } };
    this.classList.add("dragging");
  }

  #drag(event) {
    if (this.#held?.pointer !== event.pointerId) return;
    const { how, from, edit } = this.#held;
    const [dx, dy] = this.#point(event).map((value, i) => value - from[i]);
    if (how === "move") this.#change({ x: edit.x + dx, y: edit.y + dy });
    else this.#resize(edit, Math.max((edit.width + dx) / edit.width, (edit.height + dy) / edit.height));
  }

  #release(event) {
    if (this.#held?.pointer !== event.pointerId) return;
    this.#held = null;
    this.classList.remove("dragging");
    this.#tell(true);
  }

  #place(event) {
    const [x, y] = this.#point(event);
    this.#change({ x: x - this.edit.width / 2, y: y - this.edit.height / 2 }, true);
  }

  #key(event) {
    const step = Math.max(1, Math.round(this.wide / 128)) * (event.shiftKey ? 8 : 1);
    const way = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    const factor = { "+": 1.1, "=": 1.1, "-": 1 / 1.1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (way) this.#change({ x: this.edit.x + way[0], y: this.edit.y + way[1] }, true);
    else if (factor) this.#resize(this.edit, factor, true);
    else if (event.key === "f" || event.key === "F") this.#change({ flip: !this.edit.flip }, true);
    else return;
    event.preventDefault();
  }

  /** Resize `edit` by `factor`, its proportions kept, as far as it fits from its top left corner on. */
  #resize(edit, factor, end = false) {
    const most = Math.min((this.wide - edit.x) / edit.width, (this.high - edit.y) / edit.height);
    const by = Math.max(Math.min(factor, most), LEAST / Math.min(edit.width, edit.height));
    const larger = factor > 1 ? Math.ceil : Math.round;  // or nothing small would grow
    this.#change({ width: Math.min(larger(edit.width * by), this.wide - edit.x), height: Math.min(larger(edit.height * by), this.high - edit.y) }, end);
  }

  #change(values, end = false) {
    Object.assign(this.edit, fitted({ ...this.edit, ...values }, this.wide, this.high));
    this.#tell(end);
  }

  #tell(end) {
    this.dispatchEvent(new CustomEvent("edit", { detail: { edit: { ...this.edit }, end } }));
  }
}

/** Where a name of `long` × `size` goes: above its box, below it or inside, wherever none of those `taken` is. */
function placed([x0, y0, x1, y1], long, size, wide, high, taken) {
  const left = Math.max(0, Math.min(x0, wide - long));
  const right = Math.max(0, Math.min(x1 - long, wide - long));
  const rows = [y0 - 0.35 * size, y1 + size, y0 + size, y1 - 0.35 * size];
  const places = rows.flatMap((y) => [[left, y], [right, y]]).filter(([, y]) => y > size && y < high);
  const clear = ([x, y]) => taken.every(([ax, ay, along]) => x + long < ax || ax + along < x || Math.abs(y - ay) > 1.05 * size);
  const [x, y] = places.find(clear) ?? places[0] ?? [left, Math.min(y0 + size, high)];
  taken.push([x, y, long]);
  return { x, y };
}

/** `edit` in whole pixels, with the object inside a photo of `wide` × `high`. */
export function fitted(edit, wide, high) {
  const shrink = Math.min(1, wide / edit.width, high / edit.height);
  const width = Math.min(Math.max(LEAST, Math.round(edit.width * shrink)), wide);
  const height = Math.min(Math.max(LEAST, Math.round(edit.height * shrink)), high);
  const inside = (value, most) => Math.round(Math.min(Math.max(value, 0), most));
  return { ...edit, width, height, x: inside(edit.x, wide - width), y: inside(edit.y, high - height) };
}
