"""One self-contained HTML page of one run: what was found, its figures, its settings. No script, no network."""

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path

from misdetect.engine.store import Run
from misdetect.files import write_atomically
from misdetect.studies.contract import Document

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}img{max-width:100%}figure{margin:1.5rem 0}figcaption{color:#555}"
    "td{padding:.1rem 1.5rem .1rem 0;vertical-align:top;overflow-wrap:anywhere}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}figcaption{color:#aaa}}"
)


def run_page(run: Run, document: Document, sentences: Sequence[str], figures: Sequence[Path], path: Path) -> Path:
    """Write the page of ``run`` to ``path``; ``figures`` that are PNG files are embedded."""
    title = f"{run.study}: {document['detector'] or 'a detector'} on {document['data']}"
    parts = [f"<h1>{html.escape(title)}</h1>", *(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)]
    for figure in figures:
        if figure.suffix == ".png":
            data = base64.b64encode(figure.read_bytes()).decode()
            name = html.escape(figure.stem)
            image = f'<img alt="{name}" src="data:image/png;base64,{data}">'
            parts.append(f"<figure>{image}<figcaption>{name}</figcaption></figure>")
    settings = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(json.dumps(value))}</td></tr>"
        for name, value in sorted(document["settings"].items())
    )
    parts.append(f"<h2>Settings</h2><table>{settings}</table>")
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    )
    page = (
        f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{"".join(parts)}</body></html>'
    )
    write_atomically(path, page.encode())
    return path
