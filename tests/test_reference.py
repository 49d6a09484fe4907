"""The lists of options in docs/ are those of the settings; each study with a verb has a page that has one."""

import pytest
import reference

from misdetect.studies.kinds import kinds


@pytest.mark.parametrize(("path", "text"), list(reference.written()), ids=lambda value: getattr(value, "stem", ""))
def test_a_page_lists_the_options_that_there_are(path, text):
    assert path.read_text(encoding="utf-8") == text, "python tools/reference.py writes it"


def test_every_study_with_a_verb_has_a_page():
    paged = {path.stem for path in reference.DOCS.glob("*.md")}
    assert {kind.name for kind in kinds() if kind.example is not None and kind.registered.own} <= paged
    assert len(reference.pages()) >= 8
