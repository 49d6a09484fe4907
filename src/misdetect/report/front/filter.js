// Which rows of the ledger are looked at: columns with the values that a row may have there. `wrong_at` is a score: at
// that threshold a row is an error if it is a detection of that score which finds nothing, or an object that no such
// detection finds. The same is in Python (report/embedded.py), and can be a WHERE on a server.

/** What is shown before anything is chosen: failures, each once. */
export const FAILURES = { failure: [true], again: [false] };

const NAMES = {
  study: "study", label: "class", outcome: "outcome", tide: "TIDE type", mechanism: "mechanism", size: "size",
  by: "by", harm: "harm", became: "became", reason: "reason", scene: "picture", image: "image", object: "object",
  flicker: "flicker", attributable: "attributable", control: "null control", failure: "failures only",
  again: "told again", wrong_at: "errors at score",
};

/** Whether an object with score `score` (null: never found) or an extra detection is an error at threshold `at`. */
export function wrongAt(outcome, score, at) {
  return outcome === "extra" ? score !== null && score >= at : score === null || score < at;
}

/** A filter in words, one entry for each of its columns. */
export function told(filter) {
  return Object.entries(filter).map(([name, values]) => {
    if (name === "failure") return { name, text: "failures only" };
    if (name === "again") return { name, text: "each once" };
    if (name === "wrong_at") return { name, text: `errors at score ≥ ${values}` };
    const words = values.map((value) => (value === null ? "none" : String(value)));
    return { name, text: `${NAMES[name] ?? name}: ${words.join(", ")}` };
  });
}

/** The filter in the address, so that a view can be sent on; null where there is none. */
export function fromHash(hash) {
  if (!hash.startsWith("#rows=")) return null;
  try {
    const found = JSON.parse(decodeURIComponent(hash.slice(6)));
    const sound = ([name, values]) => name in NAMES && (name === "wrong_at" ? Number.isFinite(values) : Array.isArray(values));
    return found !== null && typeof found === "object" && Object.entries(found).every(sound) ? found : null;
  } catch {
    return null;
  }
}

/** The address of a filter. */
export function toHash(filter) {
  return "#rows=" + encodeURIComponent(JSON.stringify(filter));
}
