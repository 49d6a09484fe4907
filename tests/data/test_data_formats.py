"""Data formats are what installed packages register: the project's own, and a stranger's, sound or broken."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import invalidate_caches
from pathlib import Path
from pkgutil import resolve_name

import pytest

from misdetect.data import load_data, unseen
from misdetect.data.dataset import Dataset
from misdetect.data.formats import Format, examples
from misdetect.nouns.spec import Spec
from misdetect.registry import DATA, registered
from misdetect.said.errors import BadPlugin, BadSpec, MissingExtra

ROOT = Path(__file__).parents[2]
HEAVY = {"pyarrow", "cv2", "datasets", "fiftyone", "PIL", "scipy", "torch"}
FORMATS = {name: each.load(Format) for name, each in registered(DATA).items() if each.own}
READER = """
from misdetect.data import load_data
from misdetect.data.formats import Format

TWO = Format("two rooms", "two:SPLIT", "stranger:load", beyond=lambda target: "a shop" if target == "far" else None)
LOST = Format("nothing", "lost:FILE", "nowhere_at_all:load")
ODD = Format("no data", "odd:FILE", "stranger:odd")
NOTHING = {}

def load(spec):
    count = spec.take("count", 2)
    spec.finish()
    return load_data(f"rooms:{spec.target},count={count}")

def odd(spec):
    return []
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Install a package of that name, whose formats are these lines of its ``entry_points.txt``."""
    (tmp_path / "stranger.py").write_text(READER)
    monkeypatch.syspath_prepend(tmp_path)

    def made(package: str, lines: str) -> None:
        folder = tmp_path / f"{package}-1.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (folder / "entry_points.txt").write_text(f"[{DATA}]\n{lines}\n")
        invalidate_caches()
        registered.cache_clear()

    yield made
    sys.modules.pop("stranger", None)
    monkeypatch.undo()
    registered.cache_clear()


def test_a_format_of_another_package_is_one_of_them(install: Callable[[str, str], None]) -> None:
    install("stranger", "two = stranger:TWO")
    data = load_data("two:val")
    assert (len(data), data[0].key) == (2, load_data("rooms:val")[0].key)
    assert len(load_data("two:val,count=3")) == 3
    assert examples().startswith("bikes:SPLIT, rooms:SPLIT, coco:FILE")
    assert "two:SPLIT, voc:DIR" in examples()
    assert (unseen("two:far"), unseen("two:val")) == ("a shop", None)
    with pytest.raises(BadSpec, match=r"unknown option 'cuont'.*Did you mean 'count'"):
        load_data("two:val,cuont=3")
    with pytest.raises(BadSpec, match="Did you mean 'two'"):
        load_data("twoo:val")


BROKEN = {
    "not there": ("broken = nowhere_at_all:X", "stranger 1.2 cannot be used: it cannot be imported.*nowhere_at_all"),
    "no such name": ("broken = stranger:X", "stranger 1.2 cannot be used: it cannot be imported.*'X'"),
    "no format": ("broken = stranger:NOTHING", "stranger:NOTHING is no Format but a dict"),
    "no reader": ("broken = stranger:LOST", "stranger 1.2 cannot be used.*nowhere_at_all"),
    "no data": ("broken = stranger:ODD", "stranger:odd returned no Dataset but a list"),
    "the project's own": ("coco = stranger:TWO", "'coco' is claimed by two packages, misdetect .* and stranger 1.2"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_one_is_a_sentence_and_hinders_no_other(install: Callable[[str, str], None], how: str) -> None:
    line, sentence = BROKEN[how]
    install("stranger", line)
    with pytest.raises(BadPlugin, match=sentence) as caught:
        load_data(f"{line.partition(' ')[0]}:val")
    assert "\n" not in str(caught.value)
    assert len(load_data("rooms:val,count=1")) == 1
    assert "folder:DIR" in examples()


def test_a_name_that_two_claim(install: Callable[[str, str], None]) -> None:
    install("stranger", "two = stranger:TWO")
    install("another", "two = stranger:ODD")
    with pytest.raises(BadPlugin, match=r"'two' is claimed by two packages, another 1\.2 and stranger 1\.2"):
        load_data("two:val")
    assert "two:" not in examples()


@pytest.mark.parametrize("name", FORMATS)
def test_the_project_s_own_are_complete(name: str) -> None:
    said = FORMATS[name]
    assert said.example.startswith(f"{name}:")
    assert resolve_name(said.loader).__annotations__ == {"spec": Spec, "return": Dataset}
    table = (ROOT / "docs" / "data.md").read_text()
    head = re.escape(said.example.partition("[")[0])
    assert re.search(rf"^\| `{head}.*\| .*{re.escape(said.what)}", table, re.MULTILINE), said


def test_declarations_import_no_reader() -> None:
    code = "import misdetect.data.formats as f, sys; f.examples(); print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert not HEAVY & set(done.stdout.split())


def test_an_absent_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in FORMATS.items():
        if said.extra is not None:
            monkeypatch.setitem(sys.modules, {"hfdata": "datasets"}.get(name, name), None)
            with pytest.raises(MissingExtra, match=rf"^{name}: needs the '{said.extra}' extra: pip install"):
                load_data(f"{name}:anything")


def test_a_data_set_is_data() -> None:
    data = load_data("rooms:val,count=1")
    assert isinstance(data, Dataset)
    assert load_data(data) is data
