// Lying bars, each with its number and interval, below the names of their groups.
import { svg } from "./dom.js";
import { Chart, fitted, label, marked, within, written } from "./chart.js";

const [ROW, SMALL] = [30, 21];

export class Bars extends Chart {
  draw(width) {
    const { marks, across, most, form } = this.spec;
    const names = Math.min(12 + 6.8 * Math.max(...marks.map((mark) => mark.name.length)), width * 0.4);
    const texts = marks.map((mark) => written(mark.value, form));
    const more = (mark) => `${form ? within(mark.ends, form) : ""}${mark.text ? ` · ${mark.text}` : ""}`;
    const shown = texts.map((text, i) => (width > 460 ? text + more(marks[i]) : text));
    const room = Math.max(width - names - 14 - 6.6 * Math.max(...shown.map((text) => text.length)), 40);
    const top = most ?? Math.max(form ? 1e-9 : 1, ...marks.map((mark) => Math.max(mark.value ?? 0, mark.ends?.[1] ?? 0)));
    const lines = linesOf(marks);
    const row = this.spec.small ? SMALL : ROW;
    const height = lines.length * row + 34;
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart bars" });
    lines.forEach(({ group, i }, line) => {
      const y = (line + 0.5) * row;
      if (group !== undefined) {
        drawing.append(label(0, y + 4, fitted(group, width), "start", { class: "group" }));
        return;
      }
      const mark = marks[i];
      const long = Math.min((mark.value ?? 0) / top, 1) * room;
      const end = Math.max(long, Math.min((mark.ends?.[1] ?? 0) / top, 1) * room);
      const node = svg("g", mark.chosen ? { class: "chosen" } : {},
        svg("rect", { x: 0, y: y - row / 2, width, height: row, class: "back" }),
        label(names - 8, y, fitted(mark.name, names - 12), "end"), " ",
        svg("rect", { x: names, y: y - 0.3 * row, width: Math.max(long, 1), height: 0.6 * row, class: `bar tone-${mark.tone ?? "plain"}` }),
        mark.ends ? svg("path", { d: whisker(names, mark.ends, top, room, y), class: "whisker" }) : null,
        label(names + end + 8, y, shown[i], "start", { class: "value" }));
      drawing.append(marked(node, `${mark.name}: ${texts[i]}${more(mark)}`, mark.filter, this.show));
    });
    drawing.append(label(names, height - 14, fitted(across, width - names), "start", { class: "axis" }));
    return drawing;
  }
}

/** What stands in each line: a mark, or the name of the group that begins there. */
function linesOf(marks) {
  return marks.flatMap((mark, i) => (mark.group !== undefined && mark.group !== marks[i - 1]?.group ? [{ group: mark.group }, { i }] : [{ i }]));
}

function whisker(left, [low, high], top, room, y) {
  const [a, b] = [low, high].map((end) => left + Math.min(end / top, 1) * room);
  return `M${a} ${y - 4}V${y + 4}M${a} ${y}H${b}M${b} ${y - 4}V${y + 4}`;
}
