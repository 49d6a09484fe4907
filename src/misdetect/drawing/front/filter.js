// Which rows of the ledger are looked at: columns with the values that a row may have there. Some entries are no columns:
// `wrong_at` is a score: at that threshold a row is an error if it is a detection of that score which finds nothing, or an
// object that no such detection finds. `scores`: the least and the most; `search`: words that a row must have somewhere;
// `sort`: the order. The same is in Python (report/embedded.py), and a WHERE on a server (app/wanted.py).

/** What is shown before anything is chosen: failures, each once. */
export const FAILURES = { failure: [true], again: [false] };

const NAMES = {
  study: "study", label: "class", outcome: "outcome", tide: "TIDE type", mechanism: "mechanism", size: "size",
  by: "by", harm: "harm", became: "became", reason: "reason", scene: "picture", image: "image", object: "object",
  flicker: "flicker", attributable: "attributable", control: "control", failure: "failures only",
  again: "told again", wrong_at: "errors at score", detector: "detector", run: "run", others: "other detectors", tag: "tag",
  key: "failure", scores: "score", search: "search", sort: "order",
};

/** Orders in which rows can be shown; a row's place is its worth as a failure. */
export const ORDERS = {
  worst: "the worst first", surest: "highest score first", faintest: "lowest score first", largest: "largest first", smallest: "smallest first",
};

/** What entries that are no list of values have to be. */
const KINDS = {
  wrong_at: Number.isFinite,
  scores: (value) => Array.isArray(value) && value.length === 2 && value.every(Number.isFinite),
  search: (value) => typeof value === "string",
  sort: (value) => value in ORDERS,
};
const SEARCHED = ["image", "label", "became", "mechanism", "reason", "by", "study", "detector", "tide", "outcome"];

/** Whether every word of `text` is part of something that `valueOf(column)` says. */
export function hasWords(text, valueOf) {
  const said = SEARCHED.map((name) => String(valueOf(name) ?? "").toLowerCase());
  return text.toLowerCase().split(/\s+/).filter(Boolean).every((word) => said.some((each) => each.includes(word)));
}

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
    if (name === "scores") return { name, text: `score ${values[0]} to ${values[1]}` };
    if (name === "search") return { name, text: `“${values}”` };
    if (name === "sort") return { name, text: ORDERS[values] };
    const words = values.map((value) => (value === null ? "none" : String(value)));
    return { name, text: `${NAMES[name] ?? name}: ${words.join(", ")}` };
  });
}

/** The filter in the address, so that a view can be sent on; null where there is none. */
export function fromHash(hash) {
  if (!hash.startsWith("#rows=")) return null;
  try {
    const found = JSON.parse(decodeURIComponent(hash.slice(6)));
    const sound = ([name, values]) => name in NAMES && (KINDS[name] ?? Array.isArray)(values);
    return found !== null && typeof found === "object" && Object.entries(found).every(sound) ? found : null;
  } catch {
    return null;
  }
}

/** The address of a filter. */
export function toHash(filter) {
  return "#rows=" + encodeURIComponent(JSON.stringify(filter));
}
