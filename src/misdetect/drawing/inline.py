"""The front end as one file: modules and style of ``front/`` put into a page, with a policy that allows nothing else.

The modules are plain ES modules that a server can also send as they are; here they are joined in the order in which
they import each other. Data goes into the page as JSON that no parser of HTML can mistake for markup.
"""

import base64
import gzip
import hashlib
import html
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

_START = "app.js"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const|class|function|async)", re.MULTILINE)


def _read(name: str) -> str:
    return (files("misdetect.drawing") / "front" / name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """All modules, each after those that it imports."""
    order: dict[str, str] = {}

    def visit(name: str) -> None:
        if name not in order:
            text = _read(name)
            for other in _IMPORT.findall(text):
                visit(other)
            order[name] = _EXPORT.sub("", _IMPORT.sub("", text))

    visit(_START)
    return "\n".join(order.values())


@cache
def style() -> str:
    """The style of every page."""
    return _read("style.css")


def policy() -> str:
    """A content-security policy: this script, this style, pictures that are in the page; no network, no form."""
    allowed = {"script-src": _hash(script()), "style-src": _hash(style()), "img-src": "data:"}
    parts = ["default-src 'none'", "base-uri 'none'", "form-action 'none'"]
    return "; ".join([*parts, *(f"{name} {value}" for name, value in allowed.items())])


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def json_block(name: str, value: Any) -> str:
    """``value`` as JSON in the page, for the script to find as ``name``."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    safe = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f'<script type="application/json" id="{name}">{safe}</script>'


def packed_block(name: str, value: Any) -> str:
    """``value`` as JSON in the page, made small (gzip, as base64), for the script to find as ``name``. Tables of rows
    become a fifth of what they are."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    packed = base64.b64encode(gzip.compress(text, 6, mtime=0)).decode()
    return f'<script type="application/gzip" id="{name}">{packed}</script>'


def whole_page(title: str, body: str, blocks: str) -> str:
    """A page of ``body`` and ``blocks``, which are HTML, under ``title``, which is not; without blocks of data there is
    no script either."""
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy())}">'
        f"<title>{html.escape(title)}</title><style>{style()}</style>"
    )
    start = f'<script type="module">{script()}</script>' if blocks else ""
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}{blocks}{start}</body></html>'
