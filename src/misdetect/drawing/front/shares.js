// Full bars, each divided into its parts.
import { el, svg } from "./dom.js";
import { Chart, fitted, label, marked, written } from "./chart.js";

const LINE = 26;

export class Shares extends Chart {
  draw(width) {
    const { rows, names, tones, across } = this.spec;
    const left = Math.min(12 + 6.8 * Math.max(...rows.map((row) => row.name.length)), width * 0.35);
    const room = width - left - 4;
    const height = rows.length * LINE + 30;
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart shares" });
    const toneOf = (i) => `tone-${tones?.[i] ?? `part-${i % 4}`}`;
    rows.forEach((row, line) => {
      const y = line * LINE;
      drawing.append(label(left - 8, y + LINE / 2, fitted(row.name, left - 12), "end"));
      let x = left;
      row.parts.forEach((share, i) => {
        const wide = share * room;
        const part = svg("g", { "data-share": share }, svg("rect", { x, y: y + 3, width: wide, height: LINE - 6, class: `bar ${toneOf(i)}` }));
        if (wide > 34) part.append(label(x + wide / 2, y + LINE / 2, `${(100 * share).toFixed(0)}`, "middle", { class: "inside" }));
        drawing.append(marked(part, `${row.name}: ${names[i]} ${written(share, "percent")}`, null));
        x += wide;
      });
    });
    drawing.append(label(left, height - 12, fitted(`${across}, %`, room), "start", { class: "axis" }));
    return [drawing, el("p", { class: "names small" }, names.map((name, i) => el("span", { class: `named ${toneOf(i)}` }, name)))];
  }
}
