"""What the site does beyond MkDocs: links out of docs/ lead to a copy of the file, and programs get a list of pages.

Pages are written to be read in the repository too, where ``../examples/own_module.py`` is a link like any other. Here
the files that they name are added to the site under ``repository/``; those in Markdown become pages.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS, OUTSIDE = "docs/", "repository/"
IN_NO_NAV = InclusionLevel.NOT_IN_NAV
_LINK = re.compile(r"(\]\()([^)\s#]+)([^)]*\))")
_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)
_nav: list[Navigation] = []


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add every file outside docs/ that a page leads to, and those that these lead to."""
    waiting = [(DOCS + file.src_uri, file.content_string) for file in files.documentation_pages()]
    while waiting:
        home, text = waiting.pop()
        for target in _targets(home, text):
            if target.startswith(DOCS) or files.get_file_from_path(OUTSIDE + target):
                continue
            content = _content(ROOT / target)
            files.append(File.generated(config, OUTSIDE + target, content=content, inclusion=IN_NO_NAV))
            if target.endswith(".md"):
                waiting.append((target, content.decode()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Point every link to where its file is on the site."""
    home = _home(page.file.src_uri)

    def turned(link: re.Match[str]) -> str:
        target = _target(home, link[2])
        if target is None:
            return link[0]
        there = target.removeprefix(DOCS) if target.startswith(DOCS) else OUTSIDE + target
        return link[1] + posixpath.relpath(there, posixpath.dirname(page.file.src_uri) or ".") + link[3]

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(turned, part) for part in parts)


def on_nav(nav: Navigation, **_: object) -> Navigation:
    """Keep the navigation for the list of pages."""
    _nav[:] = [nav]
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt, and every page as the Markdown that it is made of."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    lines += ["How a program drives it: [AGENTS.md](AGENTS.md). The pages, as Markdown:", ""]
    for page in _nav[0].pages:
        source = page.file.src_uri
        copy = site / source
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(page.file.content_string, encoding="utf-8")
        where = [each.title for each in reversed(page.ancestors)]
        lines.append(f"- [{': '.join([*where, str(page.title)])}]({source})")
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    agents = (ROOT / "AGENTS.md").read_text(encoding="utf-8").replace(f"]({DOCS}", "](")
    (site / "AGENTS.md").write_text(re.sub(r"\]\(([A-Z]+)\.md\)", rf"]({OUTSIDE}\1/)", agents), encoding="utf-8")


def _home(source: str) -> str:
    """Where in the repository the file of the site ``source`` is."""
    return source.removeprefix(OUTSIDE) if source.startswith(OUTSIDE) else DOCS + source


def _content(path: Path) -> bytes:
    """Of a file; of a folder without a page of its own, the names of what is in it."""
    if path.exists():
        return path.read_bytes()
    names = sorted(each.name for each in path.parent.iterdir() if not each.name.startswith((".", "__")))
    return "\n".join([f"# {path.parent.name}", "", *(f"- `{name}`" for name in names), ""]).encode()


def _targets(home: str, text: str) -> list[str]:
    prose = _FENCE.sub("", text)
    found = [_target(home, link[2]) for link in _LINK.finditer(prose)]
    return [each for each in dict.fromkeys(found) if each is not None]


def _target(home: str, link: str) -> str | None:
    """The file in the repository that ``link`` on the page ``home`` leads to, if it leads to one; of a folder its page,
    which may have to be made."""
    if re.match(r"[a-z]+:|/", link):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(home), link))
    if (ROOT / path).is_dir():
        return f"{path}/README.md"
    return path if (ROOT / path).is_file() else None
