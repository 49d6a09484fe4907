// Curves of values over another, with bands; a series of one point marks a place on them.
import { el, svg } from "./dom.js";
import { Chart, SERIES, grid } from "./chart.js";
import { EDGE, SHARES } from "./curves.js";

export class Lines extends Chart {
  draw(width) {
    const { series, across, up } = this.spec;
    const height = Math.min(340, Math.max(230, width * 0.5));
    const most = Math.max(1, ...series.flatMap((each) => each.points.map(([x]) => x)));
    const x = (value) => EDGE.left + (value / most) * (width - EDGE.left - EDGE.right);
    const y = (value) => EDGE.top + (1 - value) * (height - EDGE.top - EDGE.bottom);
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "chart lines", role: "img", "aria-label": spelt(this.spec) });
    grid(drawing, { x, y, xs: SHARES.map((share) => share * most), ys: SHARES, across, up, height });
    series.forEach((each, i) => {
      const tone = `series-${i % SERIES}`;
      if (each.band?.length) drawing.append(svg("path", { d: bandOf(each.band, x, y), class: `${tone} area` }));
      if (each.points.length === 1) drawing.append(svg("circle", { cx: x(each.points[0][0]), cy: y(each.points[0][1]), r: 6, class: `${tone} dot` }));
      else drawing.append(svg("path", { d: each.points.map(([a, b], k) => `${k ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join(""), class: `${tone} line chosen`, "data-series": each.name }));
    });
    const names = series.map((each, i) => el("span", { class: `named series-${i % SERIES}` }, each.name));
    return [drawing, series.length > 1 ? el("p", { class: "names small" }, names) : ""];
  }
}

function bandOf(band, x, y) {
  const there = band.map(([at, low], i) => `${i ? "L" : "M"}${x(at).toFixed(1)} ${y(low).toFixed(1)}`);
  const back = [...band].reverse().map(([at, , high]) => `L${x(at).toFixed(1)} ${y(high).toFixed(1)}`);
  return `${there.join("")}${back.join("")}Z`;
}

/** A series in words, for those who listen: where it begins, where it ends, and its highest point. */
function spelt({ series, across, up }) {
  const told = series.filter((each) => each.points.length).map(({ name, points }) => {
    const pair = ([a, b]) => `${b.toFixed(3)} at ${Number(a.toFixed(2))}`;
    if (points.length === 1) return `${name}: ${pair(points[0])}`;
    const top = points.reduce((best, point) => (point[1] > best[1] ? point : best));
    return `${name}: ${pair(points[0])}, ${pair(points.at(-1))}, highest ${pair(top)}`;
  });
  return `${up} over ${across}. ${told.join(". ")}`;
}
