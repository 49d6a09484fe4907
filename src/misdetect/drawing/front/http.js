// Rows and pictures from a server (`misdetect serve`); the same interface as that of the page itself (source.js).

/** What a server answers; an error is one sentence. */
export async function ask(address, options = {}) {
  let answer;
  try {
    answer = await fetch(address, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is `misdetect serve` still running?");
  }
  const said = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(said?.error ?? `The server answers ${answer.status}.`);
  return said;
}

export class HttpSource {
  endless = true;
  #images = {};
  #scenes = {};
  #facets = null;

  async meta() {
    const found = await ask("/api/meta");
    Object.assign(this.#images, found.images);
    return found;
  }

  async rows(filter, offset = 0, limit = 60) {
    const found = await ask(`/api/rows?filter=${encodeURIComponent(JSON.stringify(filter))}&offset=${offset}&limit=${limit}`);
    Object.assign(this.#images, found.images);
    Object.assign(this.#scenes, found.scenes);
    return found;
  }

  /** All columns in one request; one that is not needed any more is given up. */
  async facets(filter) {
    this.#facets?.abort();
    this.#facets = new AbortController();
    const { facets } = await ask(`/api/facets?filter=${encodeURIComponent(JSON.stringify(filter))}`, { signal: this.#facets.signal });
    return facets;
  }

  record(row) {
    const scene = row.stage ? this.#scenes[row.stage] : undefined;
    return { image: this.#images[row.record], scene };
  }

  async image(key) {
    return key.startsWith("/picture/") ? key : null;
  }

  /** Keep tags and a note of the failure of `row`. */
  async note(row, tags, note) {
    const body = JSON.stringify({ run: row.run, key: row.key, tags, note });
    return Object.assign(row, await ask("/api/note", { method: "POST", headers: { "content-type": "application/json" }, body }));
  }
}
