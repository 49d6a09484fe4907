"""The ledger of a scan against its rows, entry by entry, in plain Python."""

import json

import pytest
from scan_toys import random_run

from misdetect.studies.ledger import ledger


@pytest.fixture(scope="module", params=[{}, {"fail": (1, 6)}, {"adaptive": True}], ids=["full", "failed", "adaptive"])
def run(request, tmp_path_factory):
    return random_run(tmp_path_factory.mktemp("made") / "run", 5, **request.param)


@pytest.mark.sampled(1)
def test_the_ledger_has_every_original_and_every_extra(run):
    rows = run.table().to_pylist()
    at = {(row["pair"], row["x"], row["y"]): row for row in rows if row["condition"] == "control"}
    expected = []
    for row in rows:
        control = at.get((row["pair"], row["x"], row["y"]))
        common = {"case": row["case"], "image": row["background"], "control": row["condition"] == "control"}
        common |= {"condition": "transplant", "weight": row["weight"]}
        for i, o in enumerate(row["objects"]):
            changed = o["outcome"] != "kept"
            attributable = None
            if not common["control"]:
                attributable = False
                if changed and not o["flicker"]:
                    attributable = None if control is None else control["objects"][i]["outcome"] == "kept"
            expected.append(
                common
                | {key: o[key] for key in ("object", "label", "x0", "y1", "iou", "flicker", "mechanism")}
                | {"outcome": {"kept": "found", "lost": "missed"}.get(o["outcome"], o["outcome"])}
                | {"harm": o["harm"] if changed else "harmless", "reason": o["fate"], "score_before": o["score"]}
                | {"became": o["new_label"] if o["outcome"] == "renamed" else None, "attributable": attributable}
                | {"score": o["score_left"] if o["outcome"] == "lost" else o["new_score"]}
                | {"evidence": {"x": row["x"], "y": row["y"]} | {k: o[k] for k in ("coverage", "distance", "chain")}}
            )
        for n in row["new"]:
            if n["own"] or n["renamed"]:
                continue
            attributable = None
            if not common["control"]:
                attributable = False
                if not n["flicker"]:
                    others = None if control is None else [m["label"] for m in control["new"] if not m["own"]]
                    attributable = None if others is None else n["label"] not in others
            expected.append(
                common
                | {key: n[key] for key in ("object", "label", "x0", "y1", "flicker", "score", "harm")}
                | dict.fromkeys(("iou", "mechanism", "reason", "score_before", "became"))
                | {"outcome": "extra", "attributable": attributable}
                | {"evidence": {"x": row["x"], "y": row["y"], "on_parts": n["on_parts"]}}
            )
    found = ledger([run]).to_pylist()
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        one["evidence"] = json.loads(one["evidence"])
        assert {key: one[key] for key in other} == other
    assert {row["attributable"] for row in found} == {True, False, None}


def test_without_a_control_nothing_can_be_attributed(tmp_path):
    rows = ledger([random_run(tmp_path / "run", 5, control=False)]).to_pylist()
    firm = [row for row in rows if row["outcome"] != "found" and not row["flicker"]]
    assert firm
    assert {row["attributable"] for row in firm} == {None}
    assert not any(row["control"] for row in rows)
