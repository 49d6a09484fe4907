"""What a page begins with: numbers as they are written, findings with their ways, and which pictures stand beside."""

import re

import pytest

from misdetect.report.lead import behind_findings, headed, telling, top_findings
from misdetect.studies.contract import Behind, Fact


def finding(study, **more):
    return {"sentence": f"{study} is wrong", "advice": "mend it", "study": study, "kind": "x", "interval": None} | more


@pytest.mark.parametrize(
    ("fact", "shown"),
    [(Fact("AP", 0.12345), "0.123"), (Fact("recall", 0.5, share=True), "50.0 %"), (Fact("images", 1234), "1,234"),
     (Fact("took", "3 min"), "3 min"), (Fact("AP", None), "–")],
)  # fmt: skip
def test_numbers_are_written_as_what_they_are(fact, shown):
    assert f"<dd>{shown}<small>" in headed([fact])


def test_no_numbers_are_no_strip_and_what_they_are_of_is_text():
    assert headed([]) == ""
    assert "<small>&lt;b&gt; of file.json</small>" in headed([Fact("x", 1, told="<b> of /home/me/file.json")])


def test_a_finding_says_how_sure_it_is_what_to_do_and_what_that_brings():
    behind = Behind({"study": ["scan"]}, sure="3 of 4 <i>", gain="75.0 % of it")
    shown = top_findings([finding("scan", advice="`a <b>` & so", interval=[0.1, 0.2])], [behind])
    assert '<a href="#scan" data-behind="0">scan is wrong</a>' in shown
    assert "<code>a &lt;b&gt;</code> &amp; so" in shown
    assert "certain at 90 %, over images; 3 of 4 &lt;i&gt;." in shown
    assert "75.0 % of it." in shown
    assert '<button type="button" data-behind="0">' in shown
    suspected = top_findings([finding("doctor")], [Behind({})])
    assert "suspected, not measured." in suspected
    assert "data-behind" not in suspected, "there are no pictures of it"
    assert '<a href="#doctor">' in suspected
    assert "To gain" not in suspected


def test_findings_beyond_the_first_five_are_folded():
    shown = top_findings([finding("scan", sentence=f"<{i}>") for i in range(7)], [Behind({})] * 5)
    assert re.findall(r"&lt;(\d)&gt;", shown) == list("0123456")
    assert "<summary>2 more, of less weight</summary>" in shown
    assert "Nothing is wrong" in top_findings([], [])


def test_a_study_that_says_nothing_of_it_shows_its_failures():
    (told,) = behind_findings([finding("confusion")], {"confusion": {}})
    assert told == Behind({"failure": [True], "study": ["confusion"]})


def test_pictures_beside_a_finding_are_of_different_images_where_there_are_such():
    rows = [{"study": "scan", "image": image, "n": n} for n, image in enumerate("aabacd")] + [{"study": "fuzz"}]
    own = Behind({"study": ["scan"]})
    assert [row["n"] for row in telling(own, rows)] == [0, 2, 4]
    assert [row["n"] for row in telling(own, rows[:4])] == [0, 2, 1]
    assert telling(Behind({}), rows) == []
