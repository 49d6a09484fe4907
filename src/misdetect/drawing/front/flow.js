// A flow between two columns (a Sankey): bands as wide as their counts.
import { svg, pickable } from "./dom.js";
import { Chart, label } from "./chart.js";

export class Flow extends Chart {
  draw(width) {
    const { links } = this.spec;
    const total = links.reduce((sum, link) => sum + link.value, 0) || 1;
    const sides = [columnOf(links, "left"), columnOf(links, "right")];
    const gap = 16;
    const height = 250 + gap * Math.max(sides[0].length, sides[1].length);
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart" });
    const names = Math.min(130, width * 0.3);
    const [x0, x1] = [names, width - names];
    const scale = 240 / total;
    const tops = sides.map((nodes) => {
      let y = 6;
      return new Map(nodes.map(([name, count]) => { const at = y; y += count * scale + gap; return [name, at]; }));
    });
    const used = tops.map((column) => new Map(column));
    for (const link of links) {
      const wide = Math.max(link.value * scale, 1);
      const [a, b] = [used[0].get(link.left), used[1].get(link.right)];
      used[0].set(link.left, a + link.value * scale);
      used[1].set(link.right, b + link.value * scale);
      const middle = (x0 + x1) / 2;
      const d = `M${x0} ${a}C${middle} ${a} ${middle} ${b} ${x1} ${b}V${b + wide}C${middle} ${b + wide} ${middle} ${a + wide} ${x0} ${a + wide}Z`;
      const band = svg("path", { d, class: `band tone-${link.right}` });
      drawing.append(pickable(band, `${link.left} → ${link.right}: ${link.value}`, () => this.show(link.filter, band)));
    }
    sides.forEach((nodes, side) => {
      for (const [name, count] of nodes) {
        const y = tops[side].get(name);
        const x = side ? x1 : x0;
        drawing.append(svg("rect", { x: side ? x : x - 5, y, width: 5, height: Math.max(count * scale, 1), class: side ? `node tone-${name}` : "node" }));
        drawing.append(label(side ? x + 10 : x - 10, y + Math.max(count * scale, 12) / 2, `${name} ${count}`, side ? "start" : "end"));
      }
    });
    return drawing;
  }
}

function columnOf(links, side) {
  const found = new Map();
  for (const link of links) found.set(link[side], (found.get(link[side]) ?? 0) + link.value);
  return [...found];
}
