// Maps over the positions of an object that was put in: the photo under squares, each of which leads to what happened there.
import { el, svg, pickable, roving } from "./dom.js";
import { Chart } from "./chart.js";

const SCALE = ["#fde725", "#a0da39", "#4ac16d", "#1fa187", "#277f8e", "#365c8d", "#46327e", "#440154"];

/** The colour of S: yellow where nothing stays as it was, violet where all does. */
export function heatColour(value) {
  return SCALE[Math.min(SCALE.length - 1, Math.max(0, Math.floor(value * SCALE.length)))];
}

export class Heat extends Chart {
  draw() {
    const maps = this.spec.maps.flatMap((map) => map.layers.map((layer) => this.#map(map, layer)));
    const scale = el("p", { class: "scale small" }, "S: 0 ", ...SCALE.map((colour) => {
      const step = el("span", { class: "step" });
      step.style.background = colour;
      return step;
    }), " 1");
    return [el("div", { class: "maps" }, maps), scale];
  }

  #map(map, layer) {
    const image = this.meta.images[map.image];
    const { step } = this.spec;
    const drawing = svg("svg", { viewBox: `0 0 ${image?.width ?? 100} ${image?.height ?? 100}`, class: "map" });
    if (image?.picture) this.source.image(image.picture).then((href) => { if (href) drawing.prepend(svg("image", { href, width: image.width, height: image.height })); });
    for (const [x, y, value, scene] of layer.cells) {
      const square = svg("rect", { x: x + map.cut[0] / 2 - step / 2, y: y + map.cut[1] / 2 - step / 2, width: step, height: step, fill: heatColour(value), "fill-opacity": (0.2 + 0.6 * Math.min(1, 2.5 * (1 - value))).toFixed(2), "data-scene": scene });
      drawing.append(pickable(square, `${map.title}, ${layer.name} at ${x}, ${y}: S ${value}`, () => this.show({ ...this.spec.behind, scene: [scene] }, square)));
    }
    return el("figure", {}, roving(drawing), el("figcaption", {}, `${map.title}: ${layer.name}`));
  }
}
