"""``labels=FILE`` says what the data's classes are called elsewhere; files that cannot mean that are refused."""

import pytest

import misdetect as md
from misdetect.said.errors import MisdetectError

FORMS = {
    "map.json": '{"TV": "screen", "cup": "mug"}',
    "map.yaml": "tv: screen\ncup: mug\n",
    "map.txt": "# ours = theirs\ntv = screen\n\ncup=mug\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_classes_are_renamed_and_nothing_else_changes(tmp_path, name):
    (tmp_path / name).write_text(FORMS[name])
    plain, renamed = md.load_data("rooms:val,count=4"), md.load_data(f"rooms:val,count=4,labels={tmp_path / name}")
    expected = [{"tv": "screen", "cup": "mug"}.get(each, each) for each in plain.names]
    assert list(renamed.names) == expected != list(plain.names)
    assert renamed.fingerprint != plain.fingerprint
    assert renamed.category_ids == plain.category_ids
    assert [s.truth.labels.tolist() for s in renamed] == [s.truth.labels.tolist() for s in plain]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", '["tv"]', "object of names"),
        ("a.json", '{"tv": 3}', "object of names"),
        ("a.json", '{"tv": ""}', "object of names"),
        ("a.json", "{", "not valid JSON"),
        ("a.txt", "tv screen", "lines such as"),
        ("a.txt", "zeppelin = airship", "'zeppelin' is no class of the data"),
        ("a.yaml", "a: &x [1]\nb: *x\n", "aliases"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(MisdetectError, match=said):
        md.load_data(f"rooms:val,count=4,labels={tmp_path / name}")


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(MisdetectError, match=r"nowhere\.txt does not exist"):
        md.load_data("rooms:val,count=4,labels=nowhere.txt")
