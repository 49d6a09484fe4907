"""What an attack's ladder and verdict say of planted numbers: each threshold from both sides."""

import numpy as np
import pytest

from misdetect.studies.attack.ladder import MASKED, STRONG, UNCHECKED, WEAK, ladder, rungs_of
from misdetect.studies.attack.verdict import verdict
from misdetect.studies.conditions_read import Objects

SOUND = {"noise": 0, "fgsm": 4, "few": 8, "main": 16, "many": 17, "starts": 17, "far": 20, "transfer": 16}


def climb(flat=0.0, images=8, of=20, **lost_of):
    """The ladder of attacks that lose so many of ``of`` objects on each of ``images``, all of which were found."""
    image = np.repeat(np.arange(images), of)
    nothing = np.full(len(image), "", dtype=object)
    given = {
        name: Objects(image, np.ones(len(image), bool), np.tile(np.arange(of) >= n, images), nothing, nothing)
        for name, n in lost_of.items()
    }
    rungs = rungs_of(*SOUND)
    return ladder(rungs, given, flat, confidence=0.9, seed=0)


@pytest.mark.parametrize(
    ("change", "rung", "means"),
    [
        ({}, None, STRONG),
        ({"noise": 5}, "fgsm", MASKED),
        ({"fgsm": 9}, "few", MASKED),
        ({"few": 17}, "main", WEAK),
        ({"many": 15}, "many", WEAK),
        ({"many": 16}, None, STRONG),
        ({"many": 18}, "many", WEAK),
        ({"starts": 15}, "starts", WEAK),
        ({"starts": 18}, "starts", WEAK),
        ({"far": 18}, "far", MASKED),
        ({"far": 19}, None, STRONG),
        ({"transfer": 0}, None, STRONG),
        ({"transfer": 17}, "transfer", MASKED),
        ({"few": 17, "far": 18}, "far", MASKED),
        ({"flat": 0.5}, "slope", MASKED),
        ({"flat": 0.49}, None, STRONG),
        ({"images": 5}, None, STRONG),
        ({"images": 4}, None, UNCHECKED),
        ({"images": 4, "many": 18}, "many", WEAK),
    ],
)
def test_each_rung_that_breaks_is_named_with_what_it_means(change, rung, means):
    """A stronger attack may lose 1 of 20 objects more, a borrowed gradient none; a huge change must leave 1 of 20."""
    found = climb(**SOUND | change)
    assert (found["rung"], found["verdict"]) == (rung, means)
    assert (rung is None) == (not found["broken"])
    assert rung is None or rung in found["broken"]
    if rung == "many":
        assert found["says"] == f"many loses {100 * change['many'] / 20:.0f} % of the objects, main 80 %"
    if rung == "slope":
        assert found["says"] == "50 % of the steps found no slope at all"


def told(**more):
    """A document as far as the verdict reads it; ``r_all`` and ``r_idx`` are AP50 of the ablations of "cls"."""
    parts = {name: {"AP50": more.get(name, 0.3)} for name in ("r_all", "r_idx")}
    parts["r_idx"]["dcm"] = {"on_objects": more.get("went", {"right": 5.0, "background": 3.0, "other": 2.0})}
    entry = {"AP50": 0.125, "intervals": {"AP50": [0.1, 0.15]}, "lost": 30, "renamed": 12, "success": 0.75}
    return {
        "ladder": more.get("ladder", {"images": 8, "verdict": STRONG, "rung": None, "says": "all hold"}),
        "attacks": {"noise": {"success": 0.1}, "cls": entry}, "right": more.get("right", 40),
        "clean": {"AP50": more.get("clean", 0.5)}, "transfer": False,
        "clsaval": {"cls": parts} if more.get("inside", True) else {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ap50", "clean", "word"),
    [(0.5, 0.5, "holds"), (0.4, 0.5, "holds"), (0.39, 0.5, "weakens"), (0.25, 0.5, "weakens"), (0.24, 0.5, "falls"),
     (None, 0.5, "unknown"), (0.3, 0.0, "unknown"), (0.3, None, "unknown")],
)  # fmt: skip
def test_a_part_holds_weakens_or_falls_by_its_share_of_the_clean_ap50(ap50, clean, word):
    found = verdict(told(r_all=ap50, r_idx=0.1, clean=clean), ["cls"])
    assert found["localisation"]["cls"]["verdict"] == word
    share = ap50 / clean if ap50 and clean else None
    assert found["localisation"]["cls"]["share"] == share
    assert found["classification"]["cls"]["verdict"] == ("falls" if clean else "unknown")
    number = "–" if ap50 is None else f"{ap50:.3f}"
    says = f"cls: localisation {word} (R_all AP50 {number}), classification "
    assert any(each.startswith(says) and each.endswith("(R_idx AP50 0.100).") for each in found["says"])


def test_the_effect_is_told_with_its_numbers():
    found = verdict(told(), ["cls"])
    assert found["says"][0].startswith("On 8 images no step of the ladder is broken: all hold.")
    assert "under the white-box attack" in found["says"][0]
    assert "under the transfer attack" in verdict(told() | {"transfer": True}, ["cls"])["says"][0]
    assert found["says"][1] == (
        "cls: AP50 falls from 0.500 to 0.125 (0.100 to 0.150); 30 of 40 objects that were found are lost (75 %), by "
        "noise of the same size 10 %."
    )
    assert found["foreground"]["cls"] == {"right": 5.0, "background": 3.0, "other": 2.0}
    outside = verdict(told(inside=False), ["cls"])["says"][2]
    assert outside.startswith("cls: of 30 lost objects 12 are reported as another class")
    assert verdict(told(right=0), ["cls"])["says"] == ["No image is done under every attack yet."]


@pytest.mark.parametrize(
    ("right", "background", "other", "says"),
    [
        (5, 3, 2, "foreground is lost to the background: of 10 boxes that were reported and still lie on an object, "
                  "30 % are now called background, 20 % another class, 50 % are right."),
        (5, 2, 3, "foreground is lost to other classes: of 10 boxes"),
        (4, 3, 3, "foreground is lost to both background and other classes: of 10 boxes"),
        (4, 0, 0, "no foreground is lost: of 4 boxes"),
        (0, 0, 0, "no box that was reported on an object stays on it."),
    ],
)  # fmt: skip
def test_where_the_foreground_goes(right, background, other, says):
    found = verdict(told(went={"right": right, "background": background, "other": other}), ["cls"])
    assert found["says"][-1].startswith(f"cls: {says}")


@pytest.mark.parametrize(
    ("ladder", "attack", "says"),
    [
        (None, UNCHECKED, "was checked not at all (--ladder 5 or more)"),
        ({"images": 0, "verdict": STRONG, "rung": None, "says": ""}, UNCHECKED, "was checked on 0 images only"),
        ({"images": 4, "verdict": UNCHECKED, "rung": None, "says": ""}, UNCHECKED, "was checked on 4 images only"),
        ({"images": 9, "verdict": WEAK, "rung": "few", "says": "so"}, WEAK, "Attack too weak, at the step 'few': so."),
    ],
)
def test_strength_is_what_the_ladder_says(ladder, attack, says):
    found = verdict(told(ladder=ladder), ["cls"])
    assert found["attack"] == attack
    assert says in found["says"][0]
    assert found["rung"] == (ladder and ladder["rung"])
