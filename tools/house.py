"""Draw the house into CONTRIBUTING.md: every package with its floor, what it is, and the rooms of the studies.

A package stands on the floor above all that it imports, so the picture is made from the imports alone.
``python tools/house.py`` writes it; a test holds that it is what the imports say.
"""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE, PAGE = ROOT / "src" / "misdetect", ROOT / "CONTRIBUTING.md"
_BLOCK = re.compile(r"(<!-- house -->\n```\n).*?(```\n<!-- /house -->)", re.DOTALL)
_WIDE = 118


def packages() -> dict[str, set[str]]:
    """Every package, and the packages that it imports."""
    names = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    found: dict[str, set[str]] = {}
    for name in names:
        tops = (top for path in (SOURCE / name).rglob("*.py") for top in _imported(path))
        found[name] = (set(tops) & names) - {name}
    return found


def _imported(path: Path) -> set[str]:
    """The second words of all ``misdetect.…`` that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "misdetect":
            inside = node.module.partition(".")[2]
            found |= {inside.partition(".")[0]} if inside else {alias.name for alias in node.names}
    return found


def floors() -> list[list[str]]:
    """The packages by floor, the ground floor first."""
    below = packages()

    @cache
    def height(name: str) -> int:
        return 1 + max((height(other) for other in below[name]), default=-1)

    found: list[list[str]] = [[] for _ in range(1 + max(map(height, below)))]
    for name in sorted(below):
        found[height(name)].append(name)
    return found


def about(name: str) -> str:
    """What a package is: the first sentence of its docstring."""
    text = ast.get_docstring(ast.parse((SOURCE / name / "__init__.py").read_text(encoding="utf-8"))) or ""
    return " ".join(text.split()).partition(". ")[0].rstrip(".").replace("``", "")


def picture() -> str:
    """The house, the roof first."""
    lines = []
    for floor in reversed(floors()):
        for name in floor:
            words, line = about(name).split(), f"{name + '/':<12}"
            for word in words:
                if len(line) + len(word) >= _WIDE:
                    lines.append(line.rstrip())
                    line = " " * 12
                line += f"{word} "
            lines.append(line.rstrip())
            if name == "studies":
                rooms = sorted(path.parent.name for path in (SOURCE / name).glob("*/__init__.py"))
                lines.append(f"{'':<12}rooms: {', '.join(rooms)}")
        lines.append("─" * 20)
    return "\n".join(lines[:-1]) + "\n"


def drawn(page: str) -> str:
    """``page`` with the picture in it."""
    return _BLOCK.sub(lambda found: found[1] + picture() + found[2], page)


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
