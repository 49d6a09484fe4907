// The page of a server: its rows come over HTTP, and it says when runs have grown or the server is gone.
import { startPage } from "./app.js";
import { el } from "./dom.js";
import { HttpSource, ask } from "./http.js";

const EVERY = 2000;

/** A line on top that is empty while all is well. */
class State extends HTMLElement {
  start(version) {
    this.setAttribute("role", "status");
    const look = async () => {
      if (!document.hidden) await this.#look(version);
      setTimeout(look, EVERY);
    };
    setTimeout(look, EVERY);
  }

  async #look(version) {
    try {
      const state = await ask("/api/state");
      if (state.version === version) this.replaceChildren();
      else if (!this.querySelector("button")) {
        this.replaceChildren(el("p", {}, "The runs have grown since this page was opened. ",
          el("button", { type: "button", class: "behind", onclick: () => location.reload() }, `show all ${state.rows.toLocaleString("en")} rows`)));
      }
    } catch (error) {
      this.replaceChildren(el("p", { class: "problem" }, `${error.message} Trying again …`));
    }
  }
}

customElements.define("md-state", State);
const source = new HttpSource();
const line = document.querySelector("md-state");
try {
  const meta = await source.meta();
  await startPage(source, meta);
  line.start(meta.version);
} catch (error) {
  line.replaceChildren(el("p", { class: "problem" }, error.message));
}
