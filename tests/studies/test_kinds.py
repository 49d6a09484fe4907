"""Every study keeps the contract: its parts are where they should be, and take what is given to them."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import misdetect as md
from misdetect.nouns.settings import Settings
from misdetect.studies.contract import GROUPS, Evidence, Figures, InCheckup, Kind, known_parts
from misdetect.studies.kinds import in_checkup, kind_of, kinds, looked_at, names

TAKES = {
    "prepare": 4, "rebuild": 2, "ledger": 1, "document": 1, "sentences": 1, "numbers": 1, "show": 2, "findings": 2,
    "charts": 4, "tables": 1, "images": 5, "compare": 3, "show_compared": 2, "replay": 4, "after": 5, "asked": 2,
    "stored": 3, "run": 4, "results": 3, "head": 3, "behind": 2,
}  # fmt: skip
IS = {"figures": Figures, "evidence": Evidence, "checkup": InCheckup}


@pytest.mark.parametrize("name", names())
def test_every_part_of_a_study_is_there_and_takes_what_it_is_given(name):
    kind = kind_of(name)
    assert not kind.missing
    assert kind.group in GROUPS
    assert issubclass(kind.settings, Settings)
    for part in known_parts():
        found = kind.part(part)
        if found is not None and part in TAKES:
            required = [each for each in inspect.signature(found).parameters.values() if each.default is each.empty]
            assert len(required) <= TAKES[part] <= len(inspect.signature(found).parameters), part
        elif found is not None and part in IS:
            assert isinstance(found, IS[part])


def test_what_has_a_file_for_a_part_has_the_part():
    """A file of that name with nothing in it for the contract would be shown as a part that is there, and is not."""
    for kind in kinds():
        for name in known_parts():
            if kind.has(name) and name != "show_compared":  # which shares its file
                assert kind.part(name) is not None, f"{kind.name}: {name}"


def test_a_part_that_no_kind_has_is_refused():
    with pytest.raises(TypeError, match="no part colour"):
        Kind("x", room="x", help="x", group="look", title="x", colour="red")


def test_a_kind_of_one_file_gives_its_parts_themselves():
    kind = Kind("x", room="misdetect.studies", help="x", group="look", title="x", document=len, ledger="ledger:literal")
    assert kind.document([1]) == 1
    assert kind.ledger("a") == "'a'"
    assert kind.missing == ["settings", "prepare", "rebuild", "sentences", "numbers"]


def test_studies_of_images_as_they_are_come_before_those_of_edited_ones():
    edited = [each.edited for each in looked_at().values()]
    assert edited == sorted(edited)
    assert [kind.name for kind in in_checkup()] == [
        "doctor", "detect", "score", "explain", "confusion", "scan", "fuzz", "verify", "attack"
    ]  # fmt: skip


def test_looking_at_what_there_is_imports_no_study():
    """But for the small file that says what it is."""
    code = (
        "import sys\nfrom misdetect.studies.kinds import kinds\n"
        "assert len([kind.help for kind in kinds()]) > 8\nprint(*sorted(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    own = [name for name in loaded if name.startswith("misdetect.studies.") and name.count(".") > 2]
    assert own == []
    assert not {"numpy", "pyarrow", "duckdb", "cv2", "torch"} & set(loaded)


def test_what_editors_are_told_is_what_there_is():
    """The stub names each study, so that its settings are known to type checkers; others' studies are not in it."""
    stub = ast.parse(Path(md.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    told = next(ast.literal_eval(node.value) for node in stub.body
                if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")  # fmt: skip
    others = {kind.name for kind in kinds() if not kind.registered.own}
    assert told == [name for name in md.__all__ if name not in others]
    assert all(callable(getattr(md, name)) for name in told)
