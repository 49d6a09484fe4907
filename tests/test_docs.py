"""What is written for people holds: pages are short, links lead somewhere, commands are ones that misdetect takes, and
the pages for newcomers can be followed."""

import os
import posixpath
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from cyclopts import CycloptsError, MissingArgumentError
from newcomer import newcomer, there

from misdetect.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HOW = sorted((DOCS / "how").glob("*.md"))
FOLLOWED = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((DOCS / "start").glob("*.md")), *HOW]
"""Whose commands are run, as they stand there."""
PAGES = sorted({*FOLLOWED, *ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md")})
GENERATED = ("papers", "licences.md", "verbs.md", "words.md")
"""Pages in docs/ that are written by a program, or folders of them."""
WRITTEN = [page for page in DOCS.rglob("*.md") if not page.relative_to(DOCS).as_posix().startswith(GENERATED)]

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\n?(<!-- needs: .+? -->)?", re.DOTALL | re.MULTILINE)
_MADE = re.compile(r"<!-- (\w+) -->\n.*?<!-- /\1 -->", re.DOTALL)
_NAMED = re.compile(r'<a (?:id|name)="([^"]+)">')
_INLINE = re.compile(r"`(misdetect [^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_ELSEWHERE = ("brightness",)
"""Verbs of the example plugin, which is not installed."""
_PLACEHOLDERS = re.compile(r"…|\bVERB\b|\[-")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def named(pages: list[Path]) -> dict:
    return {"argvalues": pages, "ids": [page.relative_to(ROOT).as_posix() for page in pages]}


def commands(page: Path, *, runnable: bool = False) -> list[list[str]]:
    """The words of every misdetect command in the shell blocks of ``page``; with ``runnable`` not of blocks that need
    something that not everybody has."""
    found = []
    for language, block, needs in _FENCE.findall(text_of(page)):
        if language not in ("sh", "console") or (runnable and needs):
            continue
        for line in block.replace("\\\n", " ").splitlines():
            said = line.removeprefix("$ ") if language == "console" else line
            if said.startswith("misdetect ") and (language == "sh" or said != line):
                found.append(words(said))
    return found


def words(line: str) -> list[str]:
    """Those of the first command in ``line``, without its name."""
    reader = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    reader.whitespace_split = True
    found = []
    for word in reader:
        if set(word) <= set("|&;<>"):
            break
        found.append(word)
    return found[1:]


def anchors(text: str) -> set[str]:
    """Of the headings, as GitHub makes them."""
    found: set[str] = set(_NAMED.findall(text))
    for heading in re.findall(r"^#+ (.+?)\s*$", _FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found


def test_the_readme_is_a_door():
    assert len(text_of(ROOT / "README.md")) <= 9_000
    assert (DOCS / "images" / "report.png").stat().st_size <= 200_000


@pytest.mark.parametrize("page", **named(WRITTEN))
def test_a_page_is_no_book(page):
    assert len(text_of(page).encode()) <= (6_000 if page in HOW else 15_000)


def test_an_agent_reads_little():
    assert len(text_of(ROOT / "AGENTS.md").encode()) <= 6_000


def test_all_pages_together_can_be_read():
    """What people wrote: lists that a program made, and examples, are not counted."""
    prose = {page: _FENCE.sub("", _MADE.sub("", text_of(page))) for page in WRITTEN}
    assert sum(len(text.encode()) for text in prose.values()) <= 250_000


@pytest.mark.parametrize("page", **named(PAGES))
def test_links_lead_somewhere(page):
    home = page.parent.relative_to(ROOT).as_posix()
    broken = []
    for link in _LINK.findall(_FENCE.sub("", text_of(page))):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = ROOT / posixpath.normpath(posixpath.join(home, path)) if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(text_of(target))):
            broken.append(link)
    assert broken == []


def test_the_anchors_of_headings_are_those_of_github():
    page = "# A `--json` document\n## The document (`--json`)\n## [Two](x.md) *words*\n```\n# none\n```\n## Two words\n"
    assert anchors(page) == {"a---json-document", "the-document---json", "two-words", "two-words-1"}


@pytest.fixture
def any_file(monkeypatch):
    """Data files need not be there for a command to be one."""
    monkeypatch.setattr("misdetect.data.recognise.recognised", lambda text: (text, None))


@pytest.mark.usefixtures("any_file")
@pytest.mark.parametrize("page", **named(PAGES))
def test_every_command_is_one_that_misdetect_takes(page):
    refused = []
    for command in commands(page):
        if command[0] in _ELSEWHERE:
            continue
        try:
            app.parse_args(command, exit_on_error=False, print_error=False)
        except CycloptsError as error:
            refused.append((shlex.join(command), str(error)))
    for line in _INLINE.findall(text_of(page)):
        if _PLACEHOLDERS.search(line) or line.split()[1] in _ELSEWHERE:
            continue
        try:
            app.parse_args(words(line), exit_on_error=False, print_error=False)
        except MissingArgumentError:  # half a command, named in a sentence
            continue
        except (CycloptsError, ValueError) as error:
            refused.append((line, str(error)))
    assert refused == []


@pytest.mark.usefixtures("any_file")
def test_a_command_that_is_none_is_told():
    with pytest.raises(CycloptsError, match="outt"):
        app.parse_args(words("misdetect explain a b --outt c"), exit_on_error=False, print_error=False)
    assert words("misdetect show run --json | head -3  # all") == ["show", "run", "--json"]
    assert words('misdetect show run --fail-if "a > 1"') == ["show", "run", "--fail-if", "a > 1"]


def test_the_navigation_of_the_site_has_every_page():
    text = re.sub(r"!!python\S+", "", text_of(ROOT / "mkdocs.yml"))
    listed = re.findall(r"[\w/-]+\.md", yaml.dump(yaml.safe_load(text)["nav"]))
    assert sorted(listed) == sorted({page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")})


@pytest.mark.heavy
@pytest.mark.skipif(not there(), reason="the photos and models beside the project are not on this machine")
@pytest.mark.parametrize("page", **named(FOLLOWED))
def test_a_newcomer_can_follow_the_page(page, made_once, tmp_path):
    """Every command in its order, in the folder of somebody who trained a YOLO yesterday."""
    folder = tmp_path / "own"
    shutil.copytree(made_once("newcomer", lambda path: newcomer(path, photos=12)), folder)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
    asked = commands(page, runnable=True)
    assert asked
    for command in asked:
        done = subprocess.run(
            [sys.executable, "-m", "misdetect", *command],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            env=environment,
        )
        assert done.returncode == 0, f"misdetect {shlex.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
