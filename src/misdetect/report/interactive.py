"""Maps over positions as one self-contained HTML file that can be zoomed and pointed at.

A menu chooses the map; pointing at a square tells what happened there. Plotly's script is inside the file, so it opens
without a network.
"""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from misdetect.boxes import SIDES, Floats, Ints
from misdetect.errors import MisdetectError, MissingExtra
from misdetect.files import write_atomically
from misdetect.picture import Pixels


@dataclass(frozen=True, eq=False)
class Layer:
    """One map: ``values`` ``[P]`` in 0..1, a note for each position, and the ``box`` it is about, if any (pixels)."""

    title: str
    values: Floats
    notes: Sequence[str]
    box: tuple[float, float, float, float] | None = None


@dataclass(frozen=True, eq=False)
class MapPage:
    """Maps over the same picture: ``places`` ``[P, 2]`` (x, y of the squares' centres) ``step`` pixels apart."""

    title: str
    image: Pixels
    places: Ints
    step: int
    layers: tuple[Layer, ...]


def write_maps(path: Path, pages: Sequence[MapPage]) -> Path:
    """Write all maps of ``pages`` into ``path``, one HTML file."""
    try:
        plot: Any = import_module("plotly.graph_objects")
    except ImportError:
        raise MissingExtra("an interactive map needs plotly: pip install plotly.") from None
    figure: Any = plot.Figure()
    choices: list[dict[str, Any]] = []
    total = sum(len(page.layers) for page in pages)
    if not total:
        raise MisdetectError("there is no map to write.")
    for page in pages:
        for layer in page.layers:
            figure.add_trace(_heatmap(plot, page, layer, visible=not choices))
            title = html.escape(f"{page.title} — {layer.title}")
            shown = [i == len(choices) for i in range(total)]
            choices.append(
                {
                    "label": title,
                    "method": "update",
                    "args": [{"visible": shown}, {"title.text": title, **_layout(page, layer)}],
                }
            )
    figure.update_layout(
        title={"text": choices[0]["label"]},
        updatemenus=[{"buttons": choices, "x": 1, "xanchor": "right", "y": 1.12, "yanchor": "top"}],
        template="plotly_white",
        **_layout(pages[0], pages[0].layers[0]),
    )
    page_html = figure.to_html(include_plotlyjs=True, full_html=True, div_id="maps")
    write_atomically(path, page_html.encode())
    return path


def _heatmap(plot: Any, page: MapPage, layer: Layer, visible: bool) -> Any:
    """Positions as a matrix; where an adaptive scan did not ask there is a hole."""
    xs, columns = np.unique(page.places[:, 0], return_inverse=True)
    ys, rows = np.unique(page.places[:, 1], return_inverse=True)
    values = np.full((len(ys), len(xs)), np.nan)
    notes = np.full((len(ys), len(xs)), "", dtype=object)
    values[rows.reshape(-1), columns.reshape(-1)] = layer.values
    for row, column, note in zip(rows.reshape(-1), columns.reshape(-1), layer.notes, strict=True):
        notes[row, column] = "<br>".join(html.escape(line) for line in note.split("<br>"))
    return plot.Heatmap(
        x=xs.tolist(),
        y=ys.tolist(),
        z=[[None if np.isnan(v) else round(float(v), 4) for v in line] for line in values],
        text=notes.tolist(),
        zmin=0,
        zmax=1,
        opacity=0.65,
        colorscale="Viridis",
        visible=visible,
        hovertemplate="x %{x}, y %{y}<br>%{z:.3f}<br>%{text}<extra></extra>",
    )


def _layout(page: MapPage, layer: Layer) -> dict[str, Any]:
    height, width = page.image.shape[:2]
    done, data = cv2.imencode(".png", np.ascontiguousarray(page.image[:, :, ::-1]))
    assert done
    picture = {
        "source": "data:image/png;base64," + base64.b64encode(data.tobytes()).decode(),
        "xref": "x",
        "yref": "y",
        "x": 0,
        "y": 0,
        "sizex": width,
        "sizey": height,
        "sizing": "stretch",
        "layer": "below",
    }
    corners = dict(zip(SIDES, layer.box or (), strict=False))
    return {
        "images": [picture],
        "shapes": [{"type": "rect", "line": {"color": "red", "width": 2}, **corners}] if corners else [],
        "xaxis": {"range": [0, width], "constrain": "domain"},
        "yaxis": {"range": [height, 0], "scaleanchor": "x"},
    }
