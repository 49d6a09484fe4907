"""``make quick``: the tests that a change touches, within a minute.

Touched are the test files that have changed, those that import a changed module by name, and, of a module that no test
names, the tests of its room. What has not begun after ``SECONDS`` is skipped, and counted as such: it is left for
``make test``. Also the pytest plugin that does so.
"""

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECONDS = 40.0
"""From the start of the session; set-up and lint take the rest of a minute."""
_ALWAYS = ("tests/test_architecture.py",)
_began = time.monotonic()


def changed(base: str | None = None) -> list[str]:
    """The Python files that differ from ``base`` (by default from where this branch left ``main``, or from HEAD on
    ``main`` itself), those that git does not know yet among them."""
    base = base or _git("merge-base", "HEAD", "main").strip() or "HEAD"
    found = _git("diff", "--name-only", base).split() + _git("ls-files", "--others", "--exclude-standard").split()
    return sorted({name for name in found if name.endswith(".py") and (ROOT / name).exists()})


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout


def touched(names: list[str]) -> list[str]:
    """The test files that changes in the files ``names`` touch, the closest first."""
    own = [name for name in names if name.startswith("tests/") and Path(name).name.startswith("test_")]
    modules = {_module(name): name for name in names if name.startswith("src/")}
    imports = {path: _imports(ROOT / path) for path in _tests()}
    by_name = [path for path, known in imports.items() if known & modules.keys()]
    unnamed = [name for module, name in modules.items() if not any(module in known for known in imports.values())]
    rooms = [path for name in unnamed for path in _room(name)]
    return list(dict.fromkeys([*own, *by_name, *rooms, *_ALWAYS]))


def _tests() -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


def _module(name: str) -> str:
    return ".".join(Path(name).relative_to("src").with_suffix("").parts).removesuffix(".__init__")


def _imports(path: Path) -> set[str]:
    """The modules that a file imports, also those that it imports a name of."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _room(name: str) -> list[str]:
    """The tests of the nearest folder of ``tests`` that mirrors where ``name`` is."""
    folder = Path(name).relative_to("src/misdetect").parent
    while folder.parts and not (ROOT / "tests" / folder).is_dir():
        folder = folder.parent
    return [path for path in _tests() if folder.parts and Path(path).is_relative_to(Path("tests") / folder)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Nothing begins when the time is over."""
    if time.monotonic() - _began > SECONDS:
        pytest.skip("left for make test")


if __name__ == "__main__":
    print(*(changed() if "--changed" in sys.argv else touched(changed())))
