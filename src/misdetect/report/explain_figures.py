"""Figures of an explain run: the evidence for one miss, the three panels of paper 3's Fig. 3, and Fig. 5's bars.

Pictures are pixels drawn with OpenCV; the Sankey is also a page of its own (plotly) that needs no network. Colours are
fixed: truth green, proposal orange, refined blue, suppressor red. Nothing here reads a run.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from misdetect.boxes import SIDES
from misdetect.files import write_atomically
from misdetect.picture import Pixels
from misdetect.report.figures import colour, enlarged, stacked, titled, with_boxes

CODE = {"truth": 2, "proposal": 3, "refined": 1, "suppressor": 0}
"""What is drawn in which of ``figures.colour``: green, orange, blue, red."""
SHADES = {
    "proposal": (230, 140, 20),
    "regressor": (40, 120, 220),
    "interclass": (150, 60, 190),
    "background": (110, 110, 110),
    "calibration": (230, 60, 60),
    "unknown": (190, 190, 190),
    "Miss": (90, 90, 90),
    "Cls": (150, 60, 190),
    "Loc": (40, 120, 220),
    "Both": (0, 150, 160),
}
RUNS = ((0, 115, 125), (165, 85, 25), (205, 60, 135), (105, 125, 0), (25, 45, 120), (90, 190, 230))
"""What runs are drawn in, in their order: none of the mechanisms' shades."""
_FONT, _BLACK = cv2.FONT_HERSHEY_SIMPLEX, (20, 20, 20)
_AROUND = 0.35


def evidence(image: Pixels, row: Mapping[str, Any]) -> Pixels:
    """The crop of ``image`` around a missed object (a row of the run) with truth, proposal, refined and suppressor."""
    boxes = {"truth": _box(row, "")}
    boxes |= {name: _box(row, f"{name}_") for name in ("proposal", "refined", "suppressor")}
    shown = {name: box for name, box in boxes.items() if box is not None}
    x0, y0, x1, y1 = _window(list(shown.values()), image.shape[1], image.shape[0])
    big, factor = enlarged(np.ascontiguousarray(image[y0:y1, x0:x1]), 260)
    for name in ("proposal", "refined", "suppressor", "truth"):  # the truth on top
        if name in shown:
            box = (np.array(shown[name]) - [x0, y0, x0, y0]) * factor
            edge = np.clip(box, 0, [big.shape[1] - 1, big.shape[0] - 1] * 2)
            big = with_boxes(big, edge[None], [""], [CODE[name]])
    scores = zip(row.get("top_labels") or (), row.get("top_scores") or (), strict=True)
    words = (
        f"{row['label']}: {row['mechanism']} / {row['reason']}",
        "scores  " + ", ".join(f"{name} {score:.2f}" for name, score in scores),
        "IoU  " + ", ".join(f"{n} {row[f'{n}_iou']:.2f}" for n in CODE if row.get(f"{n}_iou") is not None),
    )
    wide = max(250, *(7 * len(text) + 10 for text in words))  # so that no line is cut
    picture = titled(stacked([big, np.full((1, wide, 3), 255, dtype=np.uint8)], gap=0), words[0])
    return _footed(_footed(picture, words[1]), words[2])


def _box(row: Mapping[str, Any], prefix: str) -> tuple[float, ...] | None:
    values = [row.get(prefix + name) for name in SIDES]
    return None if any(value is None for value in values) else tuple(float(value) for value in values)  # type: ignore[arg-type]


def _window(boxes: Sequence[tuple[float, ...]], width: int, height: int) -> tuple[int, int, int, int]:
    """A window around the first box that also holds what lies within twice its size of the others."""
    truth, every = np.array(boxes[0]), np.array(boxes)
    side = np.maximum(truth[2:] - truth[:2], 16)
    low = np.maximum(every[:, :2].min(axis=0), truth[:2] - side) - _AROUND * side
    high = np.minimum(every[:, 2:].max(axis=0), truth[2:] + side) + _AROUND * side
    x0, y0 = np.clip(np.floor(low), 0, [width - 1, height - 1]).astype(int).tolist()
    x1, y1 = np.clip(np.ceil(high), 1, [width, height]).astype(int).tolist()
    return x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)


def _footed(image: Pixels, text: str) -> Pixels:
    bar = np.full((20, image.shape[1], 3), 255, dtype=np.uint8)
    cv2.putText(bar, text, (4, 14), _FONT, 0.42, _BLACK, 1, cv2.LINE_AA)
    return np.concatenate([image, bar])


def legend() -> Pixels:
    """The colour code in one line."""
    bar = np.full((24, 400, 3), 255, dtype=np.uint8)
    for i, (name, number) in enumerate(CODE.items()):
        cv2.rectangle(bar, (8 + 98 * i, 6), (20 + 98 * i, 18), colour(number), -1)
        cv2.putText(bar, name, (25 + 98 * i, 17), _FONT, 0.42, _BLACK, 1, cv2.LINE_AA)
    return bar


def bars(shares: Mapping[str, float], title: str, *, size: tuple[int, int] = (300, 320)) -> Pixels:
    """A bar for each name with its percentage; ``shares`` in 0..1."""
    width, height = size
    canvas = np.full((height, width, 3), 255, dtype=np.uint8)
    step = (height - 50) // max(len(shares), 1)
    most = max([*shares.values(), 1e-9])
    for i, (name, share) in enumerate(shares.items()):
        top = 30 + i * step
        cv2.putText(canvas, name, (6, top + 12), _FONT, 0.42, _BLACK, 1, cv2.LINE_AA)
        end = 8 + round((width - 80) * share / most)
        cv2.rectangle(canvas, (8, top + 17), (end, top + min(step - 6, 34)), SHADES.get(name, _BLACK), -1)
        cv2.putText(canvas, f"{100 * share:.1f} %", (end + 5, top + 29), _FONT, 0.4, _BLACK, 1, cv2.LINE_AA)
    cv2.putText(canvas, title, (6, 18), _FONT, 0.45, _BLACK, 1, cv2.LINE_AA)
    return canvas


def flow(links: Sequence[Sequence[Any]], title: str, *, size: tuple[int, int] = (420, 320)) -> Pixels:
    """The Sankey of ``[left, right, count]`` links as a still picture."""
    width, height = size
    canvas = np.full((height, width, 3), 255, dtype=np.uint8)
    cv2.putText(canvas, title, (6, 18), _FONT, 0.45, _BLACK, 1, cv2.LINE_AA)
    total = sum(link[2] for link in links)
    if not total:
        return canvas
    left, right = 78, width - 96
    starts, ends = (_stack(links, side, height - 50, total) for side in (0, 1))
    scale = (height - 50 - 8 * max(len(starts), len(ends))) / total
    used = {**{(0, k): v[0] for k, v in starts.items()}, **{(1, k): v[0] for k, v in ends.items()}}
    steps = np.linspace(0, 1, 40)
    ease = steps * steps * (3 - 2 * steps)
    layer = canvas.copy()
    for a, b, count in links:
        thick = count * scale
        y, z = used[0, a], used[1, b]
        used[0, a], used[1, b] = y + thick, z + thick
        across = left + 10 + steps * (right - left - 10)
        upper = y + ease * (z - y)
        shape = np.concatenate([np.stack([across, upper], 1), np.stack([across, upper + thick], 1)[::-1]])
        cv2.fillPoly(layer, [np.round(shape).astype(np.int32)], SHADES.get(b, _BLACK))
    drawn: Pixels = np.asarray(cv2.addWeighted(layer, 0.55, canvas, 0.45, 0))
    for x, nodes, words in ((left, starts, 6), (right, ends, right + 14)):
        for name, (top, bottom) in nodes.items():
            cv2.rectangle(drawn, (x, round(top)), (x + 10, round(bottom)), SHADES.get(name, _BLACK), -1)
            cv2.putText(drawn, name, (words, round((top + bottom) / 2) + 4), _FONT, 0.4, _BLACK, 1, cv2.LINE_AA)
    return drawn


def _stack(links: Sequence[Sequence[Any]], side: int, room: int, total: int) -> dict[str, tuple[float, float]]:
    """Top and bottom of each node on one side, in the order in which the links name them."""
    columns = [list(dict.fromkeys(link[i] for link in links)) for i in (0, 1)]
    scale = (room - 8 * max(map(len, columns))) / total
    y, found = 34.0, {}
    for name in columns[side]:
        high = scale * sum(link[2] for link in links if link[side] == name)
        found[name] = (y, y + high)
        y += high + 8
    return found


def three_panels(document: Mapping[str, Any]) -> Pixels:
    """Fig. 3 of paper 3: shares of mechanisms, shares of TIDE types, and the flow from one to the other."""
    missed = max(document["missed"], 1)
    mechanisms = {name: count / missed for name, count in document["mechanisms"].items()}
    types = {name: count / missed for name, count in document["tide"].items()}
    return stacked(
        [
            bars(mechanisms, f"(a) mechanisms of {document['missed']} misses"),
            bars(types, "(b) TIDE types"),
            flow(document["sankey"], "(c) from type to mechanism"),
        ],
        sideways=True,
    )


def distributions(rows: Sequence[Mapping[str, Any]], *, width: int = 860) -> Pixels:
    """Fig. 5: a bar per run (``side_by_side``), divided by mechanism, with its miss rate before it."""
    names = list(dict.fromkeys(name for row in rows for name in row["shares"]))
    words = [f"{row['run']} ({100 * (row['miss_rate'] or 0):.1f} % missed)" for row in rows]
    left = _room(words, width)
    canvas = np.full((46 + 34 * len(rows), width, 3), 255, dtype=np.uint8)
    _keys(canvas, {name: SHADES.get(name, _BLACK) for name in names}, left)
    for i, (row, text) in enumerate(zip(rows, words, strict=True)):
        top, x = 38 + 34 * i, float(left)
        _put(canvas, text, (6, top + 16))
        for name in names:
            share = row["shares"].get(name, 0.0)
            wide = share * (width - left - 16)
            cv2.rectangle(canvas, (round(x), top), (round(x + wide), top + 24), SHADES.get(name, _BLACK), -1)
            if wide > 34:
                _put(canvas, f"{100 * share:.0f}", (round(x + wide / 2) - 7, top + 16), (255, 255, 255))
            x += wide
    return canvas


def whiskers(mechanisms: Mapping[str, Sequence[Mapping[str, Any]]], *, width: int = 860) -> Pixels:
    """For each mechanism a line per run: misses by it per 100 objects, and the interval; as ``compare`` has them."""
    runs = [entry["run"] for entry in next(iter(mechanisms.values()))]
    left, line = _room([*mechanisms, *runs], width), 18
    block = line * len(runs) + 12
    canvas = np.full((64 + block * len(mechanisms), width, 3), 255, dtype=np.uint8)
    _keys(canvas, {name: RUNS[i % len(RUNS)] for i, name in enumerate(runs)}, 6)
    ends = [
        end for entries in mechanisms.values() for e in entries for end in (e["rate_interval"] or (e["rate"] or 0,))
    ]
    scale = (width - left - 60) / max([*ends, 1e-9])
    for number, (name, entries) in enumerate(mechanisms.items()):
        top = 36 + block * number
        cv2.line(canvas, (6, top - 6), (width - 6, top - 6), (225, 225, 225), 1)
        _put(canvas, name, (6, top + 12))
        for i, entry in enumerate(entries):
            if entry["rate"] is None:
                continue
            y, at = top + 8 + line * i, left + round(scale * entry["rate"])
            low, high = (left + round(scale * end) for end in entry["rate_interval"] or (entry["rate"],) * 2)
            cv2.line(canvas, (low, y), (high, y), RUNS[i % len(RUNS)], 2)
            cv2.circle(canvas, (at, y), 4, RUNS[i % len(RUNS)], -1, cv2.LINE_AA)
            _put(canvas, f"{100 * entry['rate']:.1f}", (max(high, at) + 8, y + 4))
    _put(canvas, "misses per 100 objects, with intervals", (left, canvas.shape[0] - 8))
    return canvas


def _put(canvas: Pixels, text: str, at: tuple[int, int], paint: tuple[int, int, int] = _BLACK) -> None:
    cv2.putText(canvas, text, at, _FONT, 0.42, paint, 1, cv2.LINE_AA)


def _room(words: Sequence[str], width: int) -> int:
    """Where the drawing begins so that ``words`` fit before it, at most half of ``width``."""
    return min(24 + max(int(cv2.getTextSize(text, _FONT, 0.42, 1)[0][0]) for text in words), width // 2)


def _keys(canvas: Pixels, paints: Mapping[str, tuple[int, int, int]], x: int) -> None:
    """The colour code in the first line, from ``x``."""
    for name, paint in paints.items():
        cv2.rectangle(canvas, (x, 10), (x + 12, 22), paint, -1)
        _put(canvas, name, (x + 16, 21))
        x += 34 + int(cv2.getTextSize(name, _FONT, 0.42, 1)[0][0])


def comparison_page(document: Mapping[str, Any], path: Path) -> Path:
    """Write ``compare``'s document of explain runs as one interactive, self-contained HTML file: shares of the misses,
    misses per 100 objects with intervals, and miss rate by class."""
    go = import_module("plotly.graph_objects")
    titles = ("share of the misses, %", "misses per 100 objects, by mechanism", "misses per 100 objects, by class")
    figure = import_module("plotly.subplots").make_subplots(rows=3, cols=1, subplot_titles=titles, vertical_spacing=0.1)
    runs = [run["name"] for run in document["runs"]]
    so_far = [0.0] * len(runs)
    for name, entries in document["mechanisms"].items():
        wide = [100 * (entry["share"] or 0) for entry in entries]
        look: dict[str, Any] = {"marker_color": _css(name, 1), "name": name, "offsetgroup": "all", "orientation": "h"}
        look |= {"legendgroup": "mechanism", "legendgrouptitle": {"text": "mechanism"}}
        told = {"customdata": wide, "hovertemplate": "%{y}: %{customdata:.1f} %"}
        figure.add_trace(go.Bar(y=runs, x=wide, base=list(so_far), **look, **told), row=1, col=1)
        so_far = [a + b for a, b in zip(so_far, wide, strict=True)]
    for i, run in enumerate(runs):
        look = {"marker_color": "rgb({},{},{})".format(*RUNS[i % len(RUNS)]), "name": run, "offsetgroup": run}
        look |= {"legendgroup": "run", "legendgrouptitle": {"text": "run"}}
        names, values, error = _rates(document["mechanisms"], i)
        figure.add_trace(go.Bar(x=names, y=values, error_y=error, **look), row=2, col=1)
        rates = {name: each["miss_rate"][i] for name, each in document["by_class"].items()}
        shown = {name: 100 * rate for name, rate in rates.items() if rate is not None}
        figure.add_trace(go.Bar(x=list(shown), y=list(shown.values()), showlegend=False, **look), row=3, col=1)
    figure.update_yaxes(autorange="reversed", row=1, col=1)
    figure.update_layout(barmode="group", template="plotly_white", height=1100, title="Misses, side by side")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, figure.to_html(include_plotlyjs=True, full_html=True, div_id="comparison").encode())
    return path


def _rates(mechanisms: Mapping[str, Any], run: int) -> tuple[list[str], list[float], dict[str, Any]]:
    """Names, misses per 100 objects and plotly's error bars of one run."""
    known = {name: each[run] for name, each in mechanisms.items() if each[run]["rate"] is not None}
    values = [100 * entry["rate"] for entry in known.values()]
    ends = [[100 * end for end in entry["rate_interval"] or (entry["rate"],) * 2] for entry in known.values()]
    above = [end[1] - value for end, value in zip(ends, values, strict=True)]
    below = [value - end[0] for end, value in zip(ends, values, strict=True)]
    return list(known), values, {"array": above, "arrayminus": below, "symmetric": False}


def sankey_page(document: Mapping[str, Any], path: Path) -> Path:
    """Write the Sankey from TIDE type to mechanism as one interactive, self-contained HTML file."""
    go = import_module("plotly.graph_objects")  # takes longer to import than the rest of a run takes to draw
    links = document["sankey"]
    left, right = (list(dict.fromkeys(link[i] for link in links)) for i in (0, 1))
    place = {(0, name): i for i, name in enumerate(left)} | {(1, n): len(left) + i for i, n in enumerate(right)}
    figure = go.Figure(
        go.Sankey(
            node={"label": [*left, *right], "color": [_css(name, 1) for name in (*left, *right)], "pad": 18},
            link={
                "source": [place[0, a] for a, _, _ in links],
                "target": [place[1, b] for _, b, _ in links],
                "value": [count for _, _, count in links],
                "color": [_css(b, 0.45) for _, b, _ in links],
            },
        )
    )
    figure.update_layout(title=f"TIDE type (left) and mechanism (right) of {document['missed']} missed objects")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, figure.to_html(include_plotlyjs=True, full_html=True, div_id="sankey").encode())
    return path


def _css(name: str, alpha: float) -> str:
    red, green, blue = SHADES.get(name, _BLACK)
    return f"rgba({red},{green},{blue},{alpha})"
