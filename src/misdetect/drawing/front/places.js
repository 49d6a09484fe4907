// Boxes and ellipses of parts in the frame of an image, as shares of it.
import { el, svg } from "./dom.js";
import { Chart, SERIES } from "./chart.js";

const SIDE = 300;

export class Places extends Chart {
  draw() {
    const { panels, names } = this.spec;
    const tone = (name) => `series-${names.indexOf(name) % SERIES}`;
    const drawn = panels.map(({ title, ellipses, boxes }) => {
      const drawing = svg("svg", { viewBox: `-1 -1 ${SIDE + 2} ${SIDE + 2}`, class: "places", role: "img", "aria-label": `${title}: ${ellipses.map(([name]) => name).join(", ")}` },
        svg("rect", { width: SIDE, height: SIDE, class: "grid" }));
      for (const [name, x0, y0, x1, y1] of boxes) drawing.append(svg("rect", { x: x0 * SIDE, y: y0 * SIDE, width: (x1 - x0) * SIDE, height: (y1 - y0) * SIDE, class: `frame thin ${tone(name)}` }, svg("title", {}, name)));
      for (const [name, x0, y0, x1, y1] of ellipses) {
        const [cx, cy] = [((x0 + x1) / 2) * SIDE, ((y0 + y1) / 2) * SIDE];
        drawing.append(svg("ellipse", { cx, cy, rx: ((x1 - x0) / 2) * SIDE, ry: ((y1 - y0) / 2) * SIDE, class: `frame ${tone(name)}` }, svg("title", {}, name)));
      }
      return el("figure", {}, drawing, el("figcaption", {}, title));
    });
    return [el("div", { class: "maps" }, drawn), el("p", { class: "names small" }, names.map((name) => el("span", { class: `named ${tone(name)}` }, name)))];
  }
}
