"""Write what the code says itself into docs/: the lists of options in the pages that have one, out of the settings of
the studies, verbs.md, out of the command line, and words.md, out of the glossary.

A page ``docs/NAME.md`` of a study or a suite has its list between ``<!-- options -->`` and ``<!-- /options -->``.
``python tools/reference.py`` writes them; a test holds that they are what the settings say.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from misdetect.cli import VERBS
from misdetect.nouns.settings import Setting, Settings, settings_of
from misdetect.said.glossary import COLUMNS, KEYS, SETTINGS, SINCE, VALUES, WORDS
from misdetect.studies.contract import GROUPS
from misdetect.studies.kinds import kinds
from misdetect.suites.checkup.settings import CheckupSettings
from misdetect.suites.harden.settings import HardenSettings

DOCS = Path(__file__).parents[1] / "docs"
_BLOCK = re.compile(r"(<!-- options -->\n).*?(<!-- /options -->)", re.DOTALL)
_EVERYWHERE = "Running"


def pages() -> dict[Path, type[Settings]]:
    """The pages with a list, and the settings that it lists."""
    named: dict[str, type[Settings]] = {kind.name: kind.settings for kind in kinds() if kind.example is not None}
    named |= {"checkup": CheckupSettings, "harden": HardenSettings}
    found = {DOCS / f"{name}.md": each for name, each in named.items()}
    return {path: each for path, each in found.items() if path.exists() and _BLOCK.search(path.read_text("utf-8"))}


def listed(settings: type[Settings]) -> str:
    """The options of ``settings`` as a table; those that all studies have stand in its last row."""
    own = [each for each in settings_of(settings) if each.decides != "python"]
    plain = [each for each in own if each.heading == _EVERYWHERE]
    lines = ["| option | what it does | default |", "|---|---|---|"]
    lines += [f"| {_option(each)} | {_cell(each.help)} | {_default(each)} |" for each in own if each not in plain]
    if plain:
        lines.append(f"| {', '.join(f'`{each.option}`' for each in plain)} | as everywhere | |")
    return "\n".join(lines) + "\n"


def _option(setting: Setting) -> str:
    values = "\\|".join(map(str, setting.choices))
    return f"`{setting.option}{' ' + values if values else ''}`"


def _default(setting: Setting) -> str:
    value = setting.default
    if setting.required:
        return "has to be given"
    if value is None or value is False or value == ():
        return "–"
    if value is True:
        return f"yes; `--no-{setting.option.removeprefix('--')}`"
    return f"`{','.join(map(str, value)) if isinstance(value, tuple) else value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def verbs() -> str:
    """The page of all verbs, by the question that they answer, as ``misdetect`` alone prints them."""
    lines = ["# Every verb", "", "Made from the command line itself; `misdetect VERB --help` says more.", ""]
    for group, title in GROUPS.items():
        lines += [f"## {title}", "", "| verb | what it does | for example |", "|---|---|---|"]
        for verb in VERBS.values():
            if verb.group == group:
                name = f"[{verb.name}]({verb.name}.md)" if (DOCS / f"{verb.name}.md").exists() else verb.name
                example = f"`misdetect {verb.name} {verb.example}`".strip() if verb.example else ""
                lines.append(f"| {name} | {_cell(verb.help)} | {_cell(example)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def written() -> Iterator[tuple[Path, str]]:
    """Every page, and what should stand in it."""
    yield DOCS / "verbs.md", verbs()
    for path, settings in pages().items():
        yield path, _BLOCK.sub(lambda found, own=settings: found[1] + listed(own) + found[2], path.read_text("utf-8"))
    yield DOCS / "words.md", words()


def words() -> str:
    """The page of the glossary."""
    lines = ["# Words", "What the words of misdetect mean. Pages and the app explain them where they stand.", ""]
    lines += ["| word | what it means |", "|---|---|"]
    lines += [f"| {word} | {_cell(gloss)} |" for word, gloss in WORDS.items()]
    lines += ["", f"## Words that have changed in {SINCE}", ""]
    lines += ["A run directory of an earlier version is read in the words of today.", ""]
    lines += ["| where | it was | it is |", "|---|---|---|"]
    lines += [f"| {where} | `{old}` | `{new}` |" for where, old, new in _renamed()]
    return "\n".join(lines) + "\n"


def _renamed() -> Iterator[tuple[str, str, str]]:
    yield from (("option", f"--{old}", f"--{new}") for old, new in SETTINGS.items())
    yield from (("keyword in Python", old, new) for old, new in SETTINGS.items())
    yield from (("key of a document", old, new) for old, new in KEYS.items())
    yield from (("column of rows", old, new) for old, new in COLUMNS.items())
    for column, renamed in VALUES.items():
        yield from ((f"value of {column}", old, new) for old, new in renamed.items())


if __name__ == "__main__":
    for _path, _text in written():
        _path.write_text(_text, encoding="utf-8")
