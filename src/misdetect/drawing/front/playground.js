// The playground: lay an object on a photo and watch what the detector makes of it. Each change of the edit is asked about
// at once; answers to older ones are dropped by the server where they wait, and here where they come too late.
import { el, svg } from "./dom.js";
import { replayOf } from "./evidence.js";
import { lossesOf, marksOf, tableOf } from "./candidates.js";
import { Stage, fitted } from "./stage.js";
import { Strip } from "./strip.js";
import { listOf, summary } from "./verdict.js";

const ROOT = "/playground";
const EVERY = 30;  // milliseconds between two questions while something is dragged
const FIRST = 0.5;  // of the photo's sides, at most, that an object covers at first

/** What a server says that it cannot do, in a sentence. */
class Refused extends Error {}

async function asked(path, body) {
  let response;
  try {
    response = await fetch(`${ROOT}/api/${path}`, body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    throw new Refused("The app does not answer. Is it still running?");
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => null);
  throw new Refused(told?.error ?? `The app answered with ${response.status}.`);
}

const json = async (path, body) => (await asked(path, body)).json();

export class Playground extends HTMLElement {
  #turn = 0;
  #drawn = 0;
  #last = 0;
  #timer = null;
  #search = null;
  #things = new Map();

  async connectedCallback() {
    this.client = [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    try {
      this.about = await json("about");
    } catch (error) {
      this.append(el("main", {}, el("p", { class: "trouble", role: "alert" }, error.message)));
      return;
    }
    this.#build();
    addEventListener("hashchange", () => this.#follow());
    await this.#trying(async () => {
      const { photo, object } = this.#named();
      const page = (number) => number - (number % this.about.page);
      await Promise.all([this.photos.show(page(photo)), this.objects.show(page(object))]);
      await this.#follow();
    });
    document.documentElement.dataset.ready = "yes";
  }

  // The page.

  #build() {
    const { about } = this;
    this.stage = document.createElement("md-stage");
    this.control = document.createElement("md-stage");
    this.stage.start();
    this.control.start({ still: true });
    this.stage.addEventListener("edit", ({ detail }) => this.#edited(detail.edit, detail.end));
    this.trouble = el("p", { class: "trouble", role: "alert", hidden: true });
    this.told = el("p", { class: "told", role: "status" });
    this.changes = el("div", {});
    this.inside = el("section", { class: "look-inside", hidden: true });
    this.saved = el("div", { class: "saved" });
    this.progress = el("p", { class: "small progress", role: "status" });
    this.photos = document.createElement("md-strip");
    this.objects = document.createElement("md-strip");
    this.caption = el("figcaption", {});
    this.append(
      el("nav", { "aria-label": "the app" }, el("div", {}, el("a", { href: "/" }, "Runs"), el("a", { href: "/playground", "aria-current": "page" }, "Playground"))),
      el("header", {}, el("h1", {}, "Drag an object, watch the detector"), el("p", { class: "about" }, `${about.detector} on ${about.data}`)),
      el("main", { class: "play" },
        el("div", { class: "tables" },
          el("figure", { class: "work" }, this.stage, this.caption),
          el("div", { class: "aside" },
            el("figure", { class: "textured" }, this.control, el("figcaption", {}, "The control: the same shape, filled with pixels from elsewhere in this photo.")),
            el("section", { class: "verdict" }, this.told, this.trouble, this.changes)),
          el("div", { class: "bench" }, this.#sliders(), this.#actions(), this.progress, this.saved)),
        this.inside,
        el("div", { class: "choose" }, this.photos, this.objects),
        legend()));
    this.photos.start("Photo", (offset) => this.#photoPage(offset), (number) => this.#go({ photo: number }));
    this.objects.start("Object", (offset) => this.#objectPage(offset), (number) => this.#go({ object: number }), this.#classes());
  }

  #sliders() {
    const slider = (name, attributes, change) => {
      const input = el("input", { type: "range", ...attributes, "aria-label": name });
      const value = el("output", {});
      input.addEventListener("input", () => change(Number(input.value), false));
      input.addEventListener("change", () => change(Number(input.value), true));
      return { input, value, label: el("label", { class: "score" }, name, input, value) };
    };
    this.size = slider("Size", { min: -100, max: 100, step: 1 }, (power, end) => this.#scale(10 ** (power / 100), end));
    this.opacity = slider("Opacity", { min: 0, max: 100, step: 1 }, (percent, end) => this.#edited({ ...this.edit, opacity: percent / 100 }, end));
    this.flip = el("button", { type: "button", class: "act", "aria-pressed": "false", onclick: () => this.#edited({ ...this.edit, flip: !this.edit.flip }, true) }, "Mirror");
    return el("div", { class: "sliders" }, this.size.label, this.opacity.label, this.flip);
  }

  #actions() {
    const { about } = this;
    this.find = el("button", { type: "button", class: "act main", onclick: () => this.#trying(() => this.#findNear()) }, "Find a failure near here");
    this.look = el("button", { type: "button", class: "act", hidden: !about.traced, "aria-pressed": "false", onclick: () => this.#trying(() => this.#lookInside()) }, "Look inside");
    this.save = el("button", { type: "button", class: "act", disabled: !about.write, title: about.write ? "" : "start the app with --write to save cases",
      onclick: () => this.#trying(() => this.#keep()) }, about.write ? "Save as a case" : "Save (needs --write)");
    return el("div", { class: "actions" }, this.find, this.look, this.save);
  }

  #classes() {
    const select = el("select", { "aria-label": "class of objects" }, el("option", { value: "" }, "all classes"));
    const labels = Object.entries(this.about.labels);
    labels.forEach(([label, count], i) => select.append(el("option", { value: String(i) }, `${label} (${count})`)));
    select.addEventListener("change", () => {
      this.label = select.value === "" ? "" : labels[Number(select.value)][0];
      this.#trying(() => this.objects.show(0));
    });
    return select;
  }

  async #photoPage(offset) {
    const { total, photos } = await json(`photos?offset=${offset}`);
    return { total, items: photos.map(({ number, id }) => ({ number, name: id, address: this.#picture(`thumb/${number}`) })) };
  }

  async #objectPage(offset) {
    const { total, objects } = await json(`objects?offset=${offset}&label=${encodeURIComponent(this.label ?? "")}`);
    for (const each of objects) this.#things.set(each.number, each);
    return { total, items: objects.map(({ number, label }) => ({ number, name: label, address: this.#picture(`object/${number}`) })) };
  }

  #picture(path, more = {}) {
    return `${ROOT}/picture/${path}?${new URLSearchParams({ ...more, v: this.about.version })}`;
  }

  // Where one is: the address names the photo, the object and where it lies.

  #go(values) {
    const { photo, object, x, y } = { ...this.edit, ...values };
    const keep = values.photo === undefined ? { x, y } : {};
    location.hash = new URLSearchParams({ photo, object, ...keep });
  }

  /** The edit in the address; what it leaves open is null. */
  #named() {
    const given = new URLSearchParams(location.hash.slice(1));
    const number = (name, other) => (/^\d{1,9}$/.test(given.get(name) ?? "") ? Number(given.get(name)) : other);
    const opacity = Number(given.get("opacity") ?? 1);
    const edit = {
      photo: Math.min(number("photo", 0), this.about.photos - 1), object: Math.min(number("object", 0), this.about.objects - 1),
      opacity: opacity >= 0 && opacity <= 1 ? opacity : 1, flip: given.get("flip") === "true",
    };
    for (const name of ["x", "y", "width", "height"]) edit[name] = number(name, null);
    return edit;
  }

  async #follow() {
    await this.#trying(async () => {
      const edit = this.#named();
      const { photo, object } = edit;
      if (this.edit && JSON.stringify({ ...this.edit, ...edit }) === JSON.stringify(this.edit)) return;  // written by this page
      const turn = ++this.#turn;
      delete this.dataset.settled;
      this.#stop();
      if (this.photo?.number !== photo) {
        const found = await json(`photo/${photo}?client=${this.client}`);
        if (turn !== this.#turn || found.stale) return;
        this.photo = found;
        const address = this.#picture(`photo/${photo}`);
        this.stage.photo(found, address);
        this.control.photo(found, address);
        this.stage.draw(found.boxes);
        this.photos.mark(photo);
      }
      const thing = await this.#thing(object);
      if (turn !== this.#turn) return;
      this.objects.mark(object);
      this.#edited(this.#placed(edit, thing), true);
    });
  }

  /** The object `number`, which need not be on the page that is shown. */
  async #thing(number) {
    if (!this.#things.has(number)) for (const each of (await json(`objects?offset=${number}`)).objects) this.#things.set(each.number, each);
    return this.#things.get(number);
  }

  /** `edit` with what its address leaves open: its own size or less, in the middle, or around the same centre. */
  #placed(edit, thing) {
    const { width: wide, height: high } = this.photo;
    if (edit.width === null || edit.height === null) {
      const shrink = Math.min(1, (FIRST * wide) / thing.width, (FIRST * high) / thing.height);
      edit = { ...edit, width: thing.width * shrink, height: thing.height * shrink };
    }
    if (edit.x === null || edit.y === null) edit = { ...edit, x: (wide - edit.width) / 2, y: (high - edit.height) / 2 };
    return fitted(edit, wide, high);
  }

  // The edit, and what is asked about it.

  #scale(factor, end) {
    const thing = this.#things.get(this.edit.object);
    const [x, y] = [this.edit.x + this.edit.width / 2, this.edit.y + this.edit.height / 2];
    const most = Math.min(this.photo.width / thing.width, this.photo.height / thing.height, factor);
    const [width, height] = [thing.width * most, thing.height * most];
    this.#edited(fitted({ ...this.edit, width, height, x: x - width / 2, y: y - height / 2 }, this.photo.width, this.photo.height), end);
  }

  #edited(edit, end) {
    const thing = this.#things.get(edit.object);
    this.edit = edit;
    const picture = this.#picture(`object/${edit.object}`, { flip: edit.flip });
    this.stage.lay({ ...edit }, picture, thing.label);
    this.caption.textContent = `${thing.label} on ${this.photo.id}, ${edit.width} × ${edit.height} pixels at ${edit.x}, ${edit.y}`;
    const power = Number(this.size.input.value);
    if (Math.round(thing.width * 10 ** (power / 100)) !== edit.width) this.size.input.value = String(Math.round(100 * Math.log10(edit.width / thing.width)));
    this.size.value.textContent = `${Math.round((100 * edit.width) / thing.width)} %`;
    this.opacity.input.value = String(Math.round(100 * edit.opacity));
    this.opacity.value.textContent = `${Math.round(100 * edit.opacity)} %`;
    this.flip.setAttribute("aria-pressed", String(edit.flip));
    this.control.classList.add("waits");
    this.#forget();
    if (end || this.about.live) this.#soon();
  }

  /** What was said of another place is not true here. */
  #forget() {
    this.saved.replaceChildren();
    this.inside.hidden = true;
    this.look.setAttribute("aria-pressed", "false");
    if (!this.#search) this.stage.mark([]);
  }

  /** Ask now, or when the last question is old enough. */
  #soon() {
    this.#turn += 1;
    delete this.dataset.settled;
    if (this.#timer !== null) return;
    const wait = Math.max(0, this.#last + EVERY - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#last = performance.now();
      this.#trying(() => this.#ask(this.#turn, { ...this.edit }));
    }, wait);
  }

  async #ask(turn, edit) {
    this.classList.add("asking");
    const found = await json("ask", { client: this.client, turn, edit });
    if (found.stale || turn <= this.#drawn || edit.photo !== this.edit.photo) return;
    this.#drawn = turn;
    this.trouble.hidden = true;
    this.stage.draw(found.boxes);
    this.told.textContent = summary(found.changes);
    this.changes.replaceChildren(listOf(found.changes, null));
    if (turn === this.#turn) await this.#settled(turn, edit, found);
  }

  /** Nothing newer: show the very pixels, ask about the control, write the address. */
  async #settled(turn, edit, found) {
    this.classList.remove("asking");
    this.stage.settle(this.#picture("edited", edit));
    history.replaceState(null, "", `#${new URLSearchParams(edit)}`);
    const control = await json("control", { client: this.client, turn, edit });
    if (control.stale || turn !== this.#turn) return;
    this.control.lay({ ...edit }, this.#picture("control", edit), "control");
    this.control.draw(control.boxes);
    this.control.classList.remove("waits");
    this.changes.replaceChildren(listOf(found.changes, control.changes), el("p", { class: "small" }, `With the control: ${summary(control.changes)}`));
    this.dataset.settled = "yes";
  }

  /** Do `work`; a sentence says what went wrong, and the page stays as it is. */
  async #trying(work) {
    try {
      await work();
    } catch (error) {
      this.classList.remove("asking");
      this.trouble.textContent = error instanceof Refused ? error.message : `This page failed: ${error.message}`;
      this.trouble.hidden = false;
      if (!(error instanceof Refused)) throw error;
    }
  }

  // What takes longer, on request.

  async #lookInside() {
    if (!this.inside.hidden) {
      this.#forget();
      return;
    }
    const [turn, edit] = [this.#turn, { ...this.edit }];
    const found = await json("inside", { client: this.client, edit });
    if (found.stale || turn !== this.#turn) return;
    this.trouble.hidden = true;
    this.stage.mark(marksOf(found.candidates, this.about.score));
    const light = (number) => {
      for (const mark of this.stage.marks.children) mark.classList.toggle("lit", number !== null && mark.dataset.candidate === String(number));
    };
    this.inside.replaceChildren(
      el("h3", {}, `Inside: ${found.candidates.length} candidates near the object`),
      el("p", { class: "small" }, "Boxes that the detector considered here, the best first, and what became of each. Lines lead to what suppressed it."),
      found.losses.length ? lossesOf(found.losses) : null,
      el("div", { class: "scroll" }, tableOf(found.candidates, this.about.score, light)));
    this.inside.hidden = false;
    this.look.setAttribute("aria-pressed", "true");
  }

  #stop() {
    this.#search?.abort();
  }

  async #findNear() {
    if (this.#search) {
      this.#stop();
      return;
    }
    const search = (this.#search = new AbortController());
    const edit = { ...this.edit };
    this.find.textContent = "Stop";
    this.#forget();
    this.stage.mark([]);
    this.progress.textContent = "Looking…";
    try {
      await this.#listen(search.signal, edit);
    } catch (error) {
      if (!search.signal.aborted) throw error;
      this.progress.textContent = "Stopped.";
    } finally {
      this.#search = null;
      this.find.textContent = "Find a failure near here";
    }
  }

  async #listen(signal, edit) {
    const response = await fetch(`${ROOT}/api/search`, { method: "POST", signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify({ client: this.client, edit }) });
    if (!response.ok) throw new Refused((await response.json()).error);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (rest + (value ?? "")).split("\n");
      rest = lines.pop();
      for (const line of lines) this.#tried(JSON.parse(line), edit);
      if (done) return;
    }
  }

  /** One place of a search. */
  #tried(place, edit) {
    if (place.error) throw new Refused(place.error);
    if (place.x !== undefined) {
      const dot = svg("circle", { cx: place.x + place.width / 2, cy: place.y + place.height / 2, r: 0.006 * this.photo.width * (1 + 2 * place.fell), class: place.end === "found" ? "tried hit" : "tried" });
      dot.style.fillOpacity = String(0.25 + 0.75 * place.fell);
      this.stage.marks.append(dot);
    }
    const spent = `${place.asked} of ${place.of} questions`;
    if (place.end === "found") {
      this.progress.textContent = `Found after ${spent}: controls do not do it, so it is the object's doing.`;
      const { x, y, width, height } = place;
      this.#edited({ ...edit, x, y, width, height }, true);
    } else if (place.end === "nowhere") this.progress.textContent = "The object fits nowhere on this photo without covering a detection. Make it smaller.";
    else if (place.end === "nothing") this.progress.textContent = "Nothing is detected on this photo, so nothing can be lost.";
    else if (place.end === "stopped") this.progress.textContent = "Stopped: another search took its place.";
    else if (place.end) this.progress.textContent = `No failure of the object's own doing within ${spent}. ${short(place)}`;
    else this.progress.textContent = `Looking: ${spent}; the last place cost a detection ${Math.round(100 * place.fell)} % of its score.`;
  }

  async #keep() {
    this.save.disabled = true;
    try {
      const kept = await json("save", { client: this.client, edit: this.edit });
      if (kept.stale) return;
      this.trouble.hidden = true;
      this.saved.replaceChildren(el("p", {}, `Saved as ${kept.case} of ${kept.run}, with its controls.`), replayOf(kept.replay));
    } finally {
      this.save.disabled = false;
    }
  }
}

function short({ shared, fell }) {
  if (shared) return `${shared} ${shared === 1 ? "place makes" : "places make"} one that controls make too, or that is an improvement.`;
  return `The most that a detection lost is ${Math.round(100 * fell)} % of its score.`;
}

function legend() {
  const names = el("input", { type: "checkbox", onchange: () => document.body.classList.toggle("hide-names", !names.checked) });
  document.body.classList.add("hide-names");
  const sample = (state, name) => el("span", { class: "key-line" }, svg("svg", { viewBox: "0 0 26 14", width: 26, height: 14, class: "sample", "aria-hidden": "true" },
    svg("g", { class: `box ${state}` }, svg("rect", { x: 2, y: 2, width: 22, height: 10, class: "line" }))), ` ${name}`);
  return el("p", { class: "small legend-line" }, sample("kept", "kept"), sample("lost", "lost"), sample("new", "new"), sample("moved", "moved"), sample("own", "the object's own"),
    el("label", { class: "key-line" }, names, "all names"),
    el("span", {}, "Drag the object, its corner resizes it; a click on the photo puts it there. On it, arrows, +, − and F do the same."));
}

for (const [name, element] of Object.entries({ "md-stage": Stage, "md-strip": Strip, "md-playground": Playground })) customElements.define(name, element);
