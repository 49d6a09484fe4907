"""Pieces of a page as HTML, of text that is anybody's: nothing in it is taken for markup, and no folder of somebody's
machine is told."""

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from misdetect.said.glossary import used
from misdetect.said.printable import without_folders


def text(value: str) -> str:
    """``value`` as HTML, without anybody's folders: the page is sent on."""
    return html.escape(without_folders(value))


def words_block(said: str) -> str:
    """What the words that are ``said`` mean, folded; nothing where none is explained."""
    found = used(said)
    told = "".join(f"<dt>{html.escape(word)}</dt><dd>{html.escape(gloss)}</dd>" for word, gloss in found.items())
    return f'<details class="words"><summary>What the words mean</summary><dl>{told}</dl></details>' if told else ""


def section(name: str, title: str, content: str) -> str:
    """A part of a page, as HTML."""
    return f'<section class="part" id="{name}"><h2>{title}</h2>{content}</section>'


def paragraphs(sentences: Sequence[str]) -> str:
    """``sentences`` as HTML."""
    return "".join(f"<p>{text(sentence)}</p>" for sentence in sentences)


def settings_table(settings: Mapping[str, Any]) -> str:
    """``settings`` as HTML, folded."""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{text(json.dumps(value))}</td></tr>"
        for name, value in sorted(settings.items())
    )
    return f"<details><summary>Settings</summary><table>{rows}</table></details>"
