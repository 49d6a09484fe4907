// Lying bars, each with its number and interval.
import { shown, svg, pickable } from "./dom.js";
import { Chart, fitted, label } from "./chart.js";

const ROW = 30;

export class Bars extends Chart {
  draw(width) {
    const { marks, across, most } = this.spec;
    const names = Math.min(12 + 6.8 * Math.max(...marks.map((mark) => mark.name.length)), width * 0.4);
    const texts = marks.map((mark) => `${shown(mark.value)}${mark.text && width > 460 ? ` · ${mark.text}` : ""}`);
    const room = Math.max(width - names - 14 - 6.6 * Math.max(...texts.map((text) => text.length)), 40);
    const top = most ?? Math.max(1, ...marks.map((mark) => Math.max(mark.value ?? 0, mark.ends?.[1] ?? 0)));
    const height = marks.length * ROW + 34;
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart" });
    marks.forEach((mark, i) => {
      const y = i * ROW + ROW / 2;
      const long = ((mark.value ?? 0) / top) * room;
      const text = texts[i];
      const end = Math.max(long, ((mark.ends?.[1] ?? 0) / top) * room);
      const group = svg("g", {},
        svg("rect", { x: 0, y: y - ROW / 2, width, height: ROW, class: "back" }),
        label(names - 8, y, fitted(mark.name, names - 12), "end"),
        svg("rect", { x: names, y: y - 9, width: Math.max(long, 1), height: 18, class: `bar tone-${mark.tone ?? "plain"}` }),
        mark.ends ? svg("path", { d: whisker(names, mark.ends, top, room, y), class: "whisker" }) : null,
        label(names + end + 8, y, text, "start", { class: "value" }));
      drawing.append(pickable(group, `${mark.name}: ${text}`, () => this.show(mark.filter, group)));
    });
    drawing.append(label(names, height - 14, fitted(across, width - names), "start", { class: "axis" }));
    return drawing;
  }
}

function whisker(left, [low, high], top, room, y) {
  const [a, b] = [low, high].map((end) => left + (end / top) * room);
  return `M${a} ${y - 4}V${y + 4}M${a} ${y}H${b}M${b} ${y - 4}V${y + 4}`;
}
