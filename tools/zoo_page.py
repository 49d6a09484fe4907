"""The part of docs/zoo.md that numbers decide: ``python tools/zoo_page.py`` writes it anew.

The table and the picture of the training curves come from the manifest alone, so the page cannot disagree with what is
shipped. The rest of the page is written by hand.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from misdetect.detectors.zoo.shipped import ZOO, manifest
from misdetect.kept.files import write_atomically

_COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e")
_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 360, 220, 46, 28, 70
_PER_ROW = 4
"""Names beside each other in the legend."""


def table(shipped: Mapping[str, Any]) -> str:
    """The Markdown table of what is shipped."""
    lines = [
        "| spec | parameters | size | AP | AP50 | AP75 | AR100 | steps | seed |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in ZOO:
        if name not in shipped:
            continue
        entry = shipped[name]
        numbers = " | ".join(f"{entry['scores'][key]:.3f}" for key in ("AP", "AP50", "AP75", "AR100"))
        lines.append(
            f"| `zoo:{name}` | {entry['parameters'] / 1e6:.2f} M | {entry['bytes'] / 1e6:.1f} MB | {numbers} | "
            f"{entry['recipe']['steps']} | {entry['recipe']['seed']} |"
        )
    return "\n".join(lines)


def curves(shipped: Mapping[str, Any]) -> str:
    """An SVG: AP50 on 200 validation images, and training loss relative to its first value, over training steps.
    Robust detectors are dashed, in the colours of their twins."""
    chosen = [name for name in ZOO if shipped.get(name, {}).get("curve")]
    plain = [name for name, entry in ZOO.items() if entry.twin is None]
    steps = max(point["step"] for name in chosen for point in shipped[name]["curve"])
    parts = [_frame(0, "AP50 (200 images)", steps), _frame(1, "training loss / first", steps)]
    for i, name in enumerate(chosen):
        points, twin = shipped[name]["curve"], ZOO[name].twin
        stroke = f'stroke="{_COLOURS[plain.index(twin or name) % len(_COLOURS)]}"'
        stroke += "" if twin is None else ' stroke-dasharray="5 3"'
        scored = [(p["step"], p["AP50"]) for p in points if "AP50" in p]
        parts.append(_line(0, scored, steps, stroke))
        parts.append(_line(1, [(p["step"], p["loss"] / points[0]["loss"]) for p in points], steps, stroke))
        x, y = _LEFT + 190 * (i % _PER_ROW), _TOP + _HEIGHT + 48 + 18 * (i // _PER_ROW)
        parts.append(f'<path d="M{x} {y - 4}h14" {stroke} stroke-width="3"/>')
        parts.append(f'<text x="{x + 19}" y="{y}">{name}</text>')
    rows = -(-len(chosen) // _PER_ROW)
    width, height = 2 * (_LEFT + _WIDTH) + _GAP, _TOP + _HEIGHT + 48 + 18 * rows
    style = 'font-family="sans-serif" font-size="12" fill="#444"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {style}>'
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="white"/>', *parts, "</svg>\n"])


def _frame(panel: int, title: str, steps: float) -> str:
    left, bottom = _LEFT + panel * (_LEFT + _WIDTH + _GAP / 2), _TOP + _HEIGHT
    parts = [f'<text x="{left}" y="{_TOP - 12}" font-weight="bold">{title}</text>']
    for i in range(6):
        y = bottom - _HEIGHT * i / 5
        parts.append(f'<path d="M{left} {y}h{_WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{i / 5:.1f}</text>')
    for i in range(5):
        x = left + _WIDTH * i / 4
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{steps * i / 4:.0f}</text>')
    return "\n".join(parts)


def _line(panel: int, points: Sequence[tuple[float, float]], steps: float, stroke: str) -> str:
    left, bottom = _LEFT + panel * (_LEFT + _WIDTH + _GAP / 2), _TOP + _HEIGHT
    places = " ".join(f"{left + _WIDTH * x / steps:.1f},{bottom - _HEIGHT * min(max(y, 0), 1):.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" {stroke} stroke-width="1.8"/>'


def write_page(docs: Path, shipped: Mapping[str, Any]) -> None:
    """Replace the marked part of ``docs/zoo.md`` and draw ``docs/images/zoo.svg``."""
    page = docs / "zoo.md"
    parts = [table(shipped)]
    if any(entry.get("curve") for entry in shipped.values()):
        write_atomically(docs / "images" / "zoo.svg", curves(shipped).encode())
        parts.append("![AP50 and training loss over training steps](images/zoo.svg)")
    fill(page, "scores", parts)


def fill(page: Path, mark: str, parts: Sequence[str]) -> None:
    """Replace what stands in ``page`` between ``<!-- mark -->`` and ``<!-- end of mark -->`` by the paragraphs
    ``parts``; everything else stays."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    filled = "\n\n".join([begin, *parts, end])
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    write_atomically(page, pattern.sub(lambda _: filled, page.read_text(encoding="utf-8")).encode())


if __name__ == "__main__":
    write_page(Path(__file__).parents[1] / "docs", manifest())
