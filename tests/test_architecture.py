"""The order in which packages may import each other: nothing imports to the right, so there is no cycle."""

import ast
import itertools
from pathlib import Path

import house
import pytest

import misdetect

ROOT = Path(misdetect.__file__).parent
DOORS = ("__init__.py", "__main__.py", "pytest_plugin.py")
ORDER = (
    "said",
    "registry",
    "kept",
    "nouns",
    "data",
    "compose",
    "metrics",
    "pools",
    "detectors",
    "engine",
    "training",
    "drawing",
    "studies",
    "report",
    "api",
    "suites",
    "app",
    "cli",
)
FLOORS = ("studies", "suites")
"""Packages whose folders are rooms of one floor."""


def package(module: str) -> str:
    """The part of the house that ``module`` (dotted, without the leading "misdetect.") is in."""
    first = module.partition(".")[0]
    return first if first in ORDER else ORDER[0]  # the doors themselves


def imports(path: Path) -> set[str]:
    """Everything of misdetect that a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            prefix = f"{node.module}."
            found |= {prefix + alias.name for alias in node.names} if node.module == "misdetect" else {node.module}
    return {name.removeprefix("misdetect.") for name in found if name.startswith("misdetect.")}


FILES = sorted(path for path in ROOT.rglob("*.py") if path.parent != ROOT or path.name not in DOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_imports_to_the_right(path):
    own = ORDER.index(package(".".join(path.relative_to(ROOT).with_suffix("").parts)))
    wrong = {name for name in imports(path) if ORDER.index(package(name)) > own}
    assert not wrong, f"{path.relative_to(ROOT)} is in {ORDER[own]} and imports {', '.join(sorted(wrong))}"


def room(module: str) -> tuple[str, str] | None:
    """The room that ``module`` is in: a floor, and a folder on it."""
    floor, _, rest = module.partition(".")
    first = rest.partition(".")[0]
    return (floor, first) if floor in FLOORS and (ROOT / floor / first).is_dir() and first else None


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.relative_to(ROOT).parts[0] in FLOORS],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_rooms_of_one_floor_do_not_import_each_other(path):
    """What two of them share has a place and a name."""
    own = room(".".join(path.relative_to(ROOT).with_suffix("").parts))
    others = {
        name
        for name in imports(path)
        if (other := room(name)) is not None and other[0] == path.relative_to(ROOT).parts[0]
    }
    wrong = {name for name in others if room(name) != own}
    assert not wrong, f"{path.relative_to(ROOT)} imports {', '.join(sorted(wrong))}"


def test_the_picture_of_the_house_is_what_the_imports_say():
    assert house.drawn(house.PAGE.read_text(encoding="utf-8")) == house.PAGE.read_text(encoding="utf-8")
    assert set(itertools.chain(*house.floors())) == set(ORDER) - {"registry"}


NAMED = 2
"""Files outside its room in which a study may be named: the one that imports it, and a sentence."""


def named(path: Path) -> set[str]:
    """Every word that a file says as an identifier, as a text, or as part of an import."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value, *node.value.replace(":", ".").split(".")}
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            found |= {*(node.module or "").split("."), *(alias.name for alias in node.names)}
    return found


def test_few_files_outside_its_room_name_a_study():
    """``score`` and ``detect`` are words of every day, and ``training`` is a package too: of these it is imports."""
    rooms = sorted(path.parent.name for path in (ROOT / "studies").glob("*/__init__.py"))
    known = {path: named(path) for path in FILES}
    for study in set(rooms) - {"score", "detect", "training"}:
        outside = [str(path.relative_to(ROOT)) for path, words in known.items()
                   if study in words and ROOT / "studies" / study not in path.parents]  # fmt: skip
        assert len(outside) <= NAMED, f"{study} is named in {', '.join(outside)}"
    for study in ("score", "detect", "training"):
        outside = [path for path in FILES if any(name.startswith(f"studies.{study}") for name in imports(path))
                   and ROOT / "studies" / study not in path.parents]  # fmt: skip
        assert not outside


def test_every_package_has_its_place():
    assert {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"} == {
        name for name in ORDER if name != "registry"
    }
