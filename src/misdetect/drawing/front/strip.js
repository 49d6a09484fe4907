// A row of small pictures to choose from, a page of them at a time.
import { el } from "./dom.js";

/** `ask(offset)` gives { total, items: [{ number, name, address }] }; `choose(number)` is told what was picked. */
export class Strip extends HTMLElement {
  #offset = 0;

  start(title, ask, choose, extra = null) {
    Object.assign(this, { ask, choose });
    this.count = el("span", { class: "small" });
    this.list = el("div", { class: "strip", role: "group", "aria-label": title });
    this.back = el("button", { type: "button", class: "reset", "aria-label": `earlier: ${title}`, onclick: () => this.show(Math.max(0, this.#offset - this.size)) }, "‹");
    this.on = el("button", { type: "button", class: "reset", "aria-label": `later: ${title}`, onclick: () => this.show(this.#offset + this.size) }, "›");
    this.append(el("div", { class: "strip-head" }, el("h3", {}, title), extra, this.count, el("span", { class: "turns" }, this.back, this.on)), this.list);
  }

  /** Show the page that begins at `offset`. */
  async show(offset = 0) {
    const { total, items } = await this.ask(offset);
    this.#offset = offset;
    this.size = Math.max(items.length, this.size ?? 1);
    this.count.textContent = total > items.length ? `${offset + 1} to ${offset + items.length} of ${total.toLocaleString("en")}` : `${total}`;
    this.back.hidden = offset === 0;
    this.on.hidden = offset + items.length >= total;
    this.list.replaceChildren(...items.map(({ number, name, address }) => el("button", {
      type: "button", class: "pick", "data-number": number, title: name, "aria-label": name, onclick: () => this.choose(number),
    }, el("img", { src: address, alt: "", loading: "lazy" }))));
    this.list.scrollLeft = 0;
    this.mark(this.chosen);
  }

  /** Show which one is chosen, if it is on this page. */
  mark(number) {
    this.chosen = number;
    for (const each of this.list.children) {
      const chosen = Number(each.dataset.number) === number;
      each.setAttribute("aria-pressed", String(chosen));
      const [left, right] = [each.offsetLeft - this.list.offsetLeft, each.offsetLeft - this.list.offsetLeft + each.offsetWidth];
      if (chosen && (left < this.list.scrollLeft || right > this.list.scrollLeft + this.list.clientWidth)) this.list.scrollLeft = left - this.list.clientWidth / 2;
    }
  }
}
