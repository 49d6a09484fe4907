// Making elements. Text only ever becomes text: nothing here, or anywhere in the front end, parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** An HTML element; attributes that start with "on" are listeners, children are elements or text. */
export function el(name, attributes = {}, ...children) {
  return made(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return made(document.createElementNS(SVG, name), attributes, children);
}

/** Make a mark of a chart pickable by mouse and keyboard; `label` is what it is called, also for those who listen. */
export function pickable(node, label, pick) {
  node.setAttribute("tabindex", "0");
  node.setAttribute("role", "button");
  node.dataset.mark = label;  // its title is its name for those who listen
  node.classList.add("mark");
  node.append(svg("title", {}, label));
  node.addEventListener("click", pick);
  node.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      pick();
    }
  });
  return node;
}

/** A number for people: counts as they are, shares with three digits. */
export function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(3);
}

/** Of many marks only one is reached by Tab; arrows go from it to the nearest in their direction. */
export function roving(container) {
  const marks = [...container.querySelectorAll(".mark")];
  marks.forEach((mark, i) => mark.setAttribute("tabindex", i ? "-1" : "0"));
  const centre = (mark) => { const box = mark.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; };
  container.addEventListener("keydown", (event) => {
    const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    const from = event.target.closest(".mark");
    if (!way || !from) return;
    event.preventDefault();
    const [x, y] = centre(from);
    let [best, nearest] = [null, Infinity];
    for (const mark of marks) {
      const [dx, dy] = centre(mark).map((value, i) => value - [x, y][i]);
      const along = dx * way[0] + dy * way[1];
      const away = along + 3 * Math.abs(dx * way[1] + dy * way[0]);
      if (along > 1 && away < nearest) [best, nearest] = [mark, away];
    }
    if (!best) return;
    from.setAttribute("tabindex", "-1");
    best.setAttribute("tabindex", "0");
    best.focus();
  });
  return container;
}
