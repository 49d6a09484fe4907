"""Self-contained HTML pages: of one run, and the pieces that every page is made of. No script, no network."""

import base64
import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from misdetect.engine.store import Run
from misdetect.files import write_atomically
from misdetect.studies.contract import Document

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}img{max-width:100%;height:auto}figure{margin:1.5rem 0;overflow-x:auto}"
    "figcaption,footer{color:#555}"
    "td{padding:.1rem 1.5rem .1rem 0;vertical-align:top;overflow-wrap:anywhere}td:first-child{white-space:nowrap}"
    "li{margin:.6rem 0}i{color:#555}"
    "a{color:#0b5cad}@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}a{color:#7ab8f5}"
    "figcaption,footer,i{color:#aaa}img{background:#fff}}"
)
_WIDEST = 1400
"""Pixels of a picture's width; larger ones are made smaller."""


def write_page(path: Path, title: str, parts: Sequence[str]) -> Path:
    """Write a page of ``parts``, which are HTML, under ``title``, which is not."""
    title = html.escape(title)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    body = f"<h1>{title}</h1>{''.join(parts)}"
    page = f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{body}</body></html>'
    write_atomically(path, page.encode())
    return path


def paragraphs(sentences: Sequence[str]) -> str:
    """``sentences`` as HTML."""
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


def pictures(paths: Sequence[Path], seen: set[bytes]) -> str:
    """The PNG files among ``paths``, embedded, smaller where they are wide, but for those ``seen`` already."""
    found = []
    for path in paths:
        if path.suffix == ".png" and (data := path.read_bytes()) not in seen:
            seen.add(data)
            name, source = html.escape(path.stem), base64.b64encode(_smaller(data)).decode()
            image = f'<img alt="{name}" src="data:image/png;base64,{source}">'
            found.append(f"<figure>{image}<figcaption>{name}</figcaption></figure>")
    return "".join(found)


def _smaller(data: bytes) -> bytes:
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if image is None or image.shape[1] <= _WIDEST:
        return data
    scale = _WIDEST / image.shape[1]
    done, smaller = cv2.imencode(".png", cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))
    return smaller.tobytes() if done else data


def settings_table(settings: Mapping[str, Any]) -> str:
    """``settings`` as HTML, folded."""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(json.dumps(value))}</td></tr>"
        for name, value in sorted(settings.items())
    )
    return f"<details><summary>Settings</summary><table>{rows}</table></details>"


def run_page(run: Run, document: Document, sentences: Sequence[str], figures: Sequence[Path], path: Path) -> Path:
    """Write the page of ``run`` to ``path``; ``figures`` that are PNG files are embedded."""
    title = f"{run.study}: {document['detector'] or 'a detector'} on {document['data']}"
    parts = [paragraphs(sentences), pictures(figures, set()), settings_table(document["settings"])]
    return write_page(path, title, parts)
