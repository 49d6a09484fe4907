"""What a scan's rows say of each detection and about the truth, against a second look without the library."""

import numpy as np
import pytest
from scan_toys import TileDetector, annotated_rooms, naive_iou, scan_of, scanned
from toys import taken

from misdetect.metrics.harm import EFFECTS, HARMS
from misdetect.studies.scan.pairs import candidates, choose_pairs


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    data = annotated_rooms()
    study = scan_of(data, choose_pairs(data, 4, candidates(data, 0)), step=6)
    return study, scanned(study, TileDetector(), tmp_path_factory.mktemp("truth") / "run").run.table().to_pylist()


def share_inside(a, b):
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(width, 0) * max(height, 0) / ((a[2] - a[0]) * (a[3] - a[1]))


class Naive:
    """The standing of detections (box, score, class name) against the annotations of a background."""

    def __init__(self, sample, names):
        truth = sample.truth
        self.things = [
            (truth.boxes[i], names[truth.labels[i]].lower(), int(truth.ids[i]), bool(truth.crowd[i]), truth.states[i])
            for i in range(len(truth))
        ]

    def judge(self, found, may_take=lambda i, id: True, judged=lambda i: True):
        """For each of ``found`` the id of its object or None, and True, False or None: right, wrong, cannot be told."""
        answers, taken = {}, set()
        for i, (box, _, name) in sorted(enumerate(found), key=lambda item: -item[1][1]):
            if not judged(i):
                answers[i] = (None, None)
                continue
            same = [thing for thing in self.things if thing[1] == name]
            able = [
                (naive_iou(box, other), id)
                for other, _, id, crowd, state in same
                if not crowd and state != "absent" and id not in taken and may_take(i, id)
            ]
            best = max(able, default=(0, None))
            if best[0] >= 0.5:
                taken.add(best[1])
                answers[i] = (best[1], True)
            else:
                excused = any(
                    share_inside(box, other) >= 0.5 if crowd else state == "absent" and naive_iou(box, other) >= 0.5
                    for other, _, _, crowd, state in same
                )
                answers[i] = (None, None if excused else False)
        return [answers[i] for i in range(len(found))]


def strong(picture):
    found = taken(TileDetector().detect([picture])[0])
    return [
        (found.boxes[i].tolist(), float(found.scores[i]), TileDetector.names[found.labels[i]])
        for i in range(len(found))
        if found.scores[i] >= 0.5
    ]


def box_of(thing):
    return [thing[side] for side in ("x0", "y0", "x1", "y1")]


def naive_meaning(change, was, now, covered):
    """Effect and harm in words, as docs/definitions/scan.md has them."""
    looked_at = {"lost": (was,), "new": (now,)}.get(change, (was, now))
    if change == "renamed" and None in looked_at and any(looked_at):
        change, was = ("lost", was) if was else ("new", None)  # the other name is one that the data lacks
    elif None in looked_at:
        return None, "unknown"
    if change == "new":
        return ("found missed", "improvement") if now else ("new hallucination", "harmful")
    if change == "lost" or (change == "moved" and was and not now):
        lost = ("lost right", "harmless" if covered > 0.5 else "harmful")
        return lost if was else ("lost wrong", "improvement")
    if change == "moved":
        return ("found missed", "improvement") if now and not was else ("moved", "harmless")
    effect = "renamed to right" if now else "renamed to wrong"
    return effect, "improvement" if now and not was else "harmful" if was and not now else "harmless"


@pytest.mark.heavy
def test_originals_are_matched_with_the_annotations_once(scan):
    study, rows = scan
    for row in rows:
        naive = Naive(study.open_pair(row["pair"]).background, study.data.names)
        found = [(box_of(o), o["score"], o["label"]) for o in row["objects"]]
        assert [(o["object"], o["right"]) for o in row["objects"]] == naive.judge(found)
    assert {o["right"] for row in rows for o in row["objects"]} == {True, False, None}


def test_every_change_has_the_effect_that_a_second_look_gives_it(scan):
    study, rows = scan
    effects, harms = set(), set()
    for row in rows:
        pair = study.open_pair(row["pair"])
        after = strong(pair.picture(row["condition"], row["x"], row["y"], 0).render())
        place = {(box[0], box[1]): i for i, (box, _, _) in enumerate(after)}
        new = {place[n["x0"], n["y0"]]: n for n in row["new"]}
        partner = {}
        for i, o in enumerate(row["objects"]):
            if o["outcome"] != "lost":
                fits = [
                    j for j, (_, score, name) in enumerate(after) if (name, score) == (o["new_label"], o["new_score"])
                ]
                (partner[i],) = [j for j in fits if naive_iou(after[j][0], box_of(o)) == pytest.approx(o["iou"])]
        finder = {o["object"]: i for i, o in enumerate(row["objects"]) if o["object"] is not None}
        on_parts = {j for j, n in new.items() if n["on_parts"]}
        answers = Naive(pair.background, study.data.names).judge(
            after,
            lambda j, id, finder=finder, partner=partner: id not in finder or partner.get(finder[id]) == j,
            lambda j, on_parts=on_parts: j not in on_parts,
        )
        for i, o in enumerate(row["objects"]):
            if o["outcome"] == "kept":
                assert (o["effect"], o["harm"]) == (None, None)
                continue
            now = answers[partner[i]][1] if i in partner else None
            expected = naive_meaning(o["outcome"], o["right"], now, o["coverage"])
            assert (o["effect"], o["harm"]) == expected
            effects.add(o["effect"])
            harms.add(o["harm"])
        for j, n in new.items():
            assert n["renamed"] == (j in partner.values())
            if n["own"] or n["renamed"]:
                assert (n["effect"], n["harm"], n["object"]) == (None, None, None)
                continue
            assert (n["effect"], n["harm"]) == naive_meaning("new", None, answers[j][1], 0)
            assert n["object"] == answers[j][0]
            effects.add(n["effect"])
            harms.add(n["harm"])
    assert effects >= set(EFFECTS) - {"moved"} | {None}
    assert harms == set(HARMS)


def test_new_ones_that_only_flicker_are_marked(scan):
    """A new detection flickers if its score is near the threshold, or the clean image has a faint one of its class in
    its place whose score is."""
    study, rows = scan
    told = set()
    for row in rows:
        clean = taken(TileDetector().detect([study.open_pair(row["pair"]).background.image])[0])
        for n in row["new"]:
            faint = [
                clean.scores[i]
                for i in range(len(clean))
                if clean.scores[i] < 0.5
                and TileDetector.names[clean.labels[i]] == n["label"]
                and naive_iou(clean.boxes[i], box_of(n)) >= 0.5
            ]
            assert n["flicker"] == (not n["own"] and (n["score"] < 0.55 or max(faint, default=0) > 0.45))
            told.add(n["flicker"])
    assert told == {True, False}


def test_the_object_is_known_by_the_detectors_name(scan):
    study, rows = scan
    known = {None}
    for row in rows:
        transplant = study.transplants[row["pair"]]
        name = transplant.label.lower()
        assert row["t_class"] == (name if name in TileDetector.names else None)
        known.add(row["t_class"])
    assert len(known) > 1


def gap(a, b):
    """Pixels between the nearest points of two boxes."""
    return np.hypot(*(max(0, a[k] - b[k + 2], b[k] - a[k + 2]) for k in (0, 1)))


def test_columns_say_where_what_and_how_far(scan):
    study, rows = scan
    for row in rows:
        pair, transplant = study.open_pair(row["pair"]), study.transplants[row["pair"]]
        t = (row["x"], row["y"], row["x"] + transplant.t_width, row["y"] + transplant.t_height)
        clean, after = strong(pair.background.image), strong(pair.picture(row["condition"], *t[:2], 0).render())
        assert (row["before"], row["after"]) == (len(clean), len(after))
        assert [(box_of(o), o["score"], o["label"]) for o in row["objects"]] == clean
        assert (row["background"], row["source"]) == (transplant.background, transplant.source)
        assert (row["width"], row["height"], row["annotation"]) == (64, 64, transplant.annotation)
        for o in row["objects"]:
            assert o["coverage"] == pytest.approx(share_inside(box_of(o), t))
            assert o["distance"] == pytest.approx(gap(box_of(o), t))
            assert (o["outcome"] == "lost") == (o["new_label"] is None) == (o["new_score"] is None)
        own = [n for n in row["new"] if n["own"]]
        assert all(n["on_parts"] for n in own)
        best = max(own, key=lambda n: n["score"], default={"label": None, "score": None})
        assert (row["t_detected"], row["t_label"], row["t_score"]) == (bool(own), best["label"], best["score"])
    assert {row["t_detected"] for row in rows} == {True, False}
    assert {n["on_parts"] for row in rows for n in row["new"] if not n["own"]} == {True, False}


def test_score_left_is_the_best_faint_score_in_its_place(scan):
    study, rows = scan
    found = set()
    for row in rows[::5]:
        picture = study.open_pair(row["pair"]).picture(row["condition"], row["x"], row["y"], 0).render()
        after = taken(TileDetector().detect([picture])[0])
        for o in row["objects"]:
            faint = [
                float(after.scores[i])
                for i in range(len(after))
                if after.scores[i] < 0.5
                and TileDetector.names[after.labels[i]] == o["label"]
                and naive_iou(after.boxes[i], box_of(o)) >= 0.5
            ]
            assert o["score_left"] == max(faint, default=0.0)
            gone = o["outcome"] in ("lost", "renamed")
            assert o["flicker"] == (gone and (o["score"] < 0.55 or o["score_left"] > 0.45))
            found.add((o["flicker"], o["score_left"] > 0))
    assert len(found) == 4
