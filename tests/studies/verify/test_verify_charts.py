"""The charts of a verification: causes, and its parts."""

import numpy as np
import pytest
import verify_toys
from charted import charts, filters, row, values

import misdetect as md
from misdetect.report.embedded import counted
from misdetect.report.views import charts_of

NOTHING = {"by_part": {}, "prior": {"by_part": {}}, "missing": 0, "with_localisation": {"f_vv": None},
           "best_threshold": {"with_localisation": {"score": None}}}  # fmt: skip


def test_parts_are_counted_as_present_lost_and_hallucinated():
    how = {"score": 0.3, "present_iou": 0.5, "missing_iou": 0.25}
    causes = {"context": {"count": 2, "share": 1.0, "interval": [0.5, 1.0]},
              "position": {"count": 0, "share": 0.0, "interval": None}}  # fmt: skip
    document = NOTHING | {"settings": how, "causes": causes}
    rows = [
        *[row("verify", "found", label="bell")] * 3, row("verify", "missed", label="bell"),
        *[row("verify", "extra", label="lock", mechanism="context")] * 2,
    ]  # fmt: skip
    bars, table = charts("verify", document, rows)
    assert [(mark["name"], mark["value"], mark["filter"]) for mark in bars["marks"]] == [
        ("context", 2, {"study": ["verify"], "outcome": ["extra"], "mechanism": ["context"]})
    ]
    assert values(table) == [["bell", 4, 1, 0.25, 0], ["lock", 0, 0, None, 2]]
    assert bars["marks"][0]["text"] == "100 % (50 to 100)"
    bell = {"study": ["verify"], "label": ["bell"]}
    both, lost = bell | {"outcome": ["found", "missed"]}, bell | {"outcome": ["missed"]}
    assert filters(table)[0] == [bell, both, lost, lost, bell | {"outcome": ["extra"]}]
    assert table["about"].endswith("score ≥ 0.3, IoU ≥ 0.5 (present), 0.25 (missing)")
    assert len(charts("verify", document, rows[:4])) == 1


def test_figures_of_the_paper_are_the_documents_numbers(tmp_path):
    half, far = [16.0, 32, 48, 64], [50.0, 50, 60, 60]
    answers = [([verify_toys.BOXES[0], half, far], [0.9, 0.8, 0.7], [0, 1, 1]), ([verify_toys.BOXES[1]], [0.6], [1]),
               ([], [], []), ([], [], [])]  # fmt: skip
    run = md.verify(verify_toys.Told(answers), verify_toys.data(), cache=False, score=0.5, out=tmp_path / "run")
    document = run.document
    made = charts_of("verify", run.directory, document, counted([], "verify"), None)
    found = {chart["title"]: chart for chart in made}
    states = found["States of parts"]
    assert states["names"] == ["intact", "damaged", "absent", "occluded"]
    shares = {line["name"]: dict(zip(states["names"], line["parts"], strict=True)) for line in states["rows"]}
    every = np.array([verify_toys.STATES[i][part] for i in range(4) for part in range(3)])
    assert shares["all"] == {name: pytest.approx((every == name).mean()) for name in states["names"]}
    assert shares["lock"] == {"intact": 0.25, "damaged": 0, "absent": 0.75, "occluded": 0}
    likely, seen = found["Where parts are, and where they are hallucinated"]["panels"]
    assert [name for name, *_ in likely["ellipses"]] == list(verify_toys.NAMES)
    assert likely["ellipses"][0][1:] == pytest.approx(verify_toys.BOXES[0] / verify_toys.SIZE, abs=1e-4)
    assert seen["boxes"] == [["lock", *np.round(np.array(box) / verify_toys.SIZE, 4).tolist()]
                             for box in (half, verify_toys.BOXES[1])]  # fmt: skip
    aps = [(mark["name"], mark["value"]) for mark in found["AP of each part that is present"]["marks"]]
    assert dict(aps) == {name: part["AP"] for name, part in document["by_part"].items() if part["AP"] is not None}
    assert [value for _, value in aps] == sorted((value for _, value in aps), reverse=True)
    (recall,) = found["Missing parts that are reported, by IoU"]["series"]
    assert recall["points"] == document["missing_recall_curve"]
    curves = {each["name"]: each["points"] for each in found["F_vv over the score threshold"]["series"]}
    assert curves["F_vv"] == [point for point in document["f_vv_curve"] if point[1] is not None]
    assert curves["chosen: 0.5"] == [[0.5, document["with_localisation"]["f_vv"]]]
    present = [[score, p] for score, p, _ in document["recall_curves"]["with_localisation"] if p is not None]
    assert curves["recall, present"] == present
