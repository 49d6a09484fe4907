"""The glass box on edited images: what a paste hides and adds, recognition by content, and faults at a distance.

The oracle is geometry done by hand on scenes of two or three objects, and the description of the edit against its
pixels alone.
"""

import numpy as np
import pytest
from glassbox_toys import NAMES, Noise, algorithm_1, coco66, is_found, scene, toys

from misdetect.compose.cover import Covered
from misdetect.compose.move import Flipped, Moved
from misdetect.compose.paste import Paste
from misdetect.data.cutouts import Cutout, cutouts
from misdetect.data.dataset import Dataset, Sample
from misdetect.detectors.glassbox.detector import GlassBox
from misdetect.detectors.glassbox.faults import (
    Hallucinate,
    HallucinateAppearance,
    HallucinateContext,
    HallucinatePart,
    HallucinatePosition,
    MoveNear,
    NoProposal,
    RenameNear,
    Sink,
    VanishNear,
)
from misdetect.detectors.glassbox.recognise import Recogniser
from misdetect.nouns.detections import Truth
from misdetect.nouns.picture import Raw
from misdetect.said.errors import DetectorFailed

CUP = [20.0, 20.0, 40.0, 40.0]
DOG = [100.0, 60.0, 140.0, 100.0]


def one(sample: Sample) -> Dataset:
    return Dataset("one", NAMES, 1, lambda _: sample, fingerprint="one")


def room(states=None) -> Sample:
    truth = Truth([CUP, DOG], [0, 4], ids=[7, 8], states=states)
    return Sample("room", Noise(1, 160, 120), truth, 160, 120, image_id=1)


def block(width, height, label="bowl", value=9) -> Cutout:
    rgba = np.full((height, width, 4), value, dtype=np.uint8)
    rgba[:, :, 3] = 255
    return Cutout(rgba, label)


def boxes_of(detections, name) -> list[list[float]]:
    return detections.boxes[detections.labels == NAMES.index(name)].tolist()


def test_a_paste_adds_its_object_and_leaves_the_rest_as_it_was():
    sample = room()
    detector = GlassBox(one(sample))
    plain = detector.detect_pictures([sample])[0]
    edited = detector.detect_pictures([Paste(sample, block(12, 10), (60, 5))])[0]
    assert boxes_of(edited, "bowl") == [[60, 5, 72, 15]]
    rest = edited[edited.labels != NAMES.index("bowl")]
    assert sorted(rest.scores) == sorted(plain.scores)
    assert sorted(rest.boxes.tolist()) == sorted([CUP, DOG])


def test_a_pasted_object_is_as_large_as_it_is_drawn():
    rgba = np.zeros((10, 20, 4), dtype=np.uint8)
    rgba[2:6, 4:16] = 255
    sample = room()
    detector = GlassBox(one(sample))
    ring = Cutout(rgba, "bowl")
    assert boxes_of(detector.detect_pictures([Paste(sample, ring, (60, 5))])[0], "bowl") == [[64, 7, 76, 11]]
    half_outside = Paste(sample, ring, (150, 5))
    assert boxes_of(detector.detect_pictures([half_outside])[0], "bowl") == [[154, 7, 160, 11]]
    assert boxes_of(detector.detect_pictures([Paste(sample, ring, (170, 5))])[0], "bowl") == []
    larger = Paste(sample, ring, (60, 5), (40, 20))
    drawn = np.argwhere((larger.render() != sample.image).any(axis=2))
    (y0, x0), (y1, x1) = drawn.min(axis=0), drawn.max(axis=0) + 1
    assert boxes_of(detector.detect_pictures([larger])[0], "bowl") == [[x0, y0, x1, y1]]


@pytest.mark.parametrize(("columns", "stays"), [(10, True), (15, True), (16, False), (20, False)])
def test_an_object_is_gone_when_less_than_a_quarter_of_it_is_visible(columns, stays):
    sample = room()
    detector = GlassBox(one(sample))
    picture = Paste(sample, block(columns, 20), (20, 20))
    for found in (detector.detect_pictures([picture])[0], detector.detect([picture.render()])[0]):
        assert boxes_of(found, "cup") == ([CUP] if stays else [])
        assert boxes_of(found, "dog") == [DOG]


def test_layers_add_up_and_a_covered_paste_is_gone():
    sample = room()
    detector = GlassBox(one(sample))
    below = Paste(sample, block(10, 20, "lamp"), (20, 20))
    both = Paste(below, block(6, 20), (30, 20))
    assert boxes_of(detector.detect_pictures([both])[0], "cup") == []
    assert boxes_of(detector.detect_pictures([both])[0], "lamp") == [[20, 20, 30, 40]]
    over = Paste(below, block(12, 22), (19, 19))
    assert boxes_of(detector.detect_pictures([over])[0], "lamp") == []


def test_a_cutout_of_an_unknown_class_hides_but_is_not_reported():
    sample = room()
    found = GlassBox(one(sample)).detect_pictures([Paste(sample, block(20, 20, "zebra"), (20, 20))])[0]
    assert found.boxes.tolist() == [DOG]


@pytest.mark.heavy
@pytest.mark.parametrize("fault", [[], [NoProposal(rate=0.5)], [VanishNear(distance=40)], [MoveNear(distance=25)]])
def test_pixels_alone_give_what_the_description_gives(fault):
    dataset = coco66()
    detector, blind = GlassBox(dataset, fault), GlassBox(dataset, fault)
    pool = list(cutouts(dataset.limit(20), min_area=400))[::9]
    hidden = 0
    for n, cutout in enumerate(pool):
        base = dataset[(3 * n + 1) % len(dataset)]
        at = (17 * n) % max(base.width - 40, 1), (29 * n) % max(base.height - 40, 1)
        picture = Paste(base, cutout, at)
        described = detector.trace_pictures([picture])[0]
        own = described.kept.candidate[described.identity[described.kept.candidate] < 16 + 4 * len(base.truth)]
        seen = blind.detect([picture.render()])[0]
        assert sorted(seen.boxes.tolist()) == sorted(described.refined[own].tolist())
        hidden += len(own) < int((~base.truth.crowd).sum())
    assert len(pool) >= 10
    assert hidden or not fault


def test_every_image_is_recognised_by_its_pixels_in_any_order():
    dataset = toys(12, 14)
    detector = GlassBox(dataset)
    order = [7, 2, 11, 2, 0]
    found = detector.detect([dataset[i].image for i in order])
    assert found == detector.detect_pictures([dataset[i] for i in order])
    assert found == detector.detect_pictures([Raw(dataset[i].image) for i in order])


def test_recognition_survives_when_most_of_the_image_is_painted_over():
    dataset = toys(12, 14)
    recogniser = Recogniser(dataset)
    for index in (0, 5, 11):
        image = dataset[index].image.copy()
        image[:, 40:] = 0
        known, layers = recogniser.by_pixels(image)
        assert known.index == index
        assert layers[0].box == (40, 0, 160, 120)


def test_an_image_of_other_data_is_refused_or_empty():
    dataset, stranger = toys(3), np.random.default_rng(99).integers(0, 256, (120, 160, 3), dtype=np.uint8)
    with pytest.raises(DetectorFailed, match="knows only the images of toys"):
        GlassBox(dataset).detect([stranger])
    assert len(GlassBox(dataset, unknown="empty").detect([stranger])[0]) == 0
    other = Sample("image-1", Noise(50, 160, 120), dataset[1].truth, 160, 120)
    with pytest.raises(DetectorFailed, match="not this 160x120 image"):
        GlassBox(dataset).detect_pictures([other])


GAPS = [((46, 25), 6), ((55, 25), 15), ((43, 44), 5), ((12, 52), 12)]


@pytest.mark.parametrize(("at", "gap"), GAPS)
@pytest.mark.parametrize("fault", [VanishNear, MoveNear, RenameNear])
def test_non_local_faults_act_within_their_distance_and_only_there(fault, at, gap):
    sample = room()
    paste = Paste(sample, block(8, 8), at)
    for distance, acts in ((gap, True), (gap - 0.5, False)):
        detector = GlassBox(one(sample), [fault(distance=distance)])
        assert boxes_of(detector.detect_pictures([sample])[0], "cup") == [CUP]
        assert detector.truth_of_fault(sample) == []
        for found in (detector.detect_pictures([paste])[0], detector.detect([paste.render()])[0]):
            assert (boxes_of(found, "cup") == [CUP]) != acts
            assert boxes_of(found, "dog") == [DOG]
        planted = detector.truth_of_fault(paste)
        assert [p.object for p in planted] == ([7] if acts else [])
        if acts:
            candidates = detector.trace_pictures([paste])[0]
            assert not is_found(CUP, 0, candidates.select())
            assert planted[0].mechanism == algorithm_1(CUP, 0, candidates)
            effects = {"vanish-near": "vanished", "move-near": "moved", "rename-near": "renamed"}
            assert planted[0].effect == effects[fault.name]


def test_a_paste_far_away_changes_no_answer():
    dataset = toys(8, 14)
    detector = GlassBox(dataset, [NoProposal(rate=0.5), Sink(rate=0.5)])
    for sample in dataset:
        paste = Paste(sample, block(1, 1), (0, 0))
        without = {p.object: p.fault for p in detector.truth_of_fault(sample)}
        assert {p.object: p.fault for p in detector.truth_of_fault(paste) if p.object >= 0} == without


def test_no_mechanism_is_claimed_where_a_pasted_object_stands_in_for_a_hit_one():
    sample = room()
    detector = GlassBox(one(sample), [NoProposal(classes=("cup",))])
    planted = {p.object: p for p in detector.truth_of_fault(Paste(sample, block(14, 20), (20, 20)))}
    assert planted[7].mechanism is None
    assert detector.truth_of_fault(sample)[0].mechanism == "proposal"


@pytest.mark.parametrize("state", ["absent", "occluded"])
def test_missing_parts_are_not_detected_unless_hallucinated_beside_a_neighbour(state):
    sample = room(states=("intact", state))
    dataset = one(sample)
    assert GlassBox(dataset).detect_pictures([sample])[0].boxes.tolist() == [CUP]
    gap = float(np.hypot(60, 20))
    near, far = HallucinatePart(distance=gap), HallucinatePart(distance=gap - 0.1)
    detector = GlassBox(dataset, [near])
    assert sorted(detector.detect_pictures([sample])[0].boxes.tolist()) == sorted([CUP, DOG])
    (planted,) = detector.truth_of_fault(sample)
    assert (planted.object, planted.effect, planted.mechanism) == (8, "hallucinated", None)
    for fault in (far, HallucinatePart(distance=gap, neighbours=2), HallucinatePart(distance=gap, classes=("cup",))):
        assert GlassBox(dataset, [fault]).detect_pictures([sample])[0].boxes.tolist() == [CUP]


def test_a_part_hidden_by_a_paste_is_hallucinated_too():
    sample = room(states=("intact", "damaged"))
    detector = GlassBox(one(sample), [HallucinatePart(distance=100)])
    hidden = Paste(sample, block(40, 40, "zebra"), (100, 60))
    assert detector.truth_of_fault(sample) == []
    assert [p.object for p in detector.truth_of_fault(hidden)] == [8]
    assert boxes_of(detector.detect_pictures([hidden])[0], "dog") == [DOG]


def test_masks_decide_what_is_visible():
    """The object fills only the left half of its box; covering that half hides it, covering the other does not."""
    box = [20, 20, 60, 40]
    grid = np.zeros((1, 120, 160), bool)
    grid[0, 20:40, 20:40] = True
    sample = Sample("half", Noise(4, 160, 120), Truth([box], [0], masks=grid), 160, 120)
    detector = GlassBox(one(sample))
    left, right = (Paste(sample, block(20, 20), (x, 20)) for x in (20, 40))
    assert boxes_of(detector.detect_pictures([left])[0], "cup") == []
    assert boxes_of(detector.detect_pictures([right])[0], "cup") == [box]


def test_a_scene_with_masks_is_as_one_without():
    with_masks, without = scene(5, 9, masks=True), scene(5, 9)
    assert GlassBox(one(with_masks)).detect([with_masks.image]) == GlassBox(one(without)).detect([without.image])


def parts() -> Sample:
    """A dog that is there, 30 pixels right of a cup that is missing."""
    truth = Truth([CUP, [70.0, 20.0, 90.0, 40.0]], [0, 4], ids=[7, 8], states=("absent", "intact"))
    return Sample("parts", Noise(3, 160, 120), truth, 160, 120, image_id=3)


def covering(box) -> Covered:
    mask = np.zeros((120, 160), np.bool_)
    mask[box[1] : box[3], box[0] : box[2]] = True
    return Covered(parts(), mask)


@pytest.mark.parametrize("edit", [Moved(parts(), (15, 10)), Moved(parts(), (-5, 0)), Flipped(parts())])
def test_what_moves_is_seen_where_it_is(edit):
    detector = GlassBox(one(parts()), [Hallucinate()])
    found = detector.detect_pictures([edit])[0]
    expected = edit.boxes(np.array([CUP, [70, 20, 90, 40]]), 160, 120)
    assert boxes_of(found, "cup") == [expected[0].tolist()]
    assert boxes_of(found, "dog") == [expected[1].tolist()]


def test_what_leaves_the_frame_is_gone():
    found = GlassBox(one(parts())).detect_pictures([Moved(parts(), (86, 0)), Moved(parts(), (84, 0))])
    assert [boxes_of(each, "dog") for each in found] == [[], [[154, 20, 160, 40]]]


HALLUCINATIONS = {
    Hallucinate(): {"clean", "dog covered", "cup covered", "moved"},
    HallucinateContext(distance=32): {"clean", "cup covered", "moved"},
    HallucinateAppearance(): {"clean", "dog covered", "moved"},
    HallucinatePosition(): {"clean", "dog covered", "cup covered", "moved: old place"},
}


def test_context_is_what_is_near_and_outside():
    for distance, count in ((30, 1), (29, 0)):
        found = GlassBox(one(parts()), [HallucinateContext(distance=distance)]).detect_pictures([parts()])[0]
        assert len(boxes_of(found, "cup")) == count
    truth = Truth([CUP, [25.0, 25.0, 35.0, 35.0]], [0, 4], states=("absent", "intact"))  # inside the cup's box
    inner = Sample("inner", Noise(4, 160, 120), truth, 160, 120, image_id=4)
    assert boxes_of(GlassBox(one(inner), [HallucinateContext()]).detect_pictures([inner])[0], "cup") == []


@pytest.mark.parametrize(("fault", "expected"), HALLUCINATIONS.items(), ids=lambda each: getattr(each, "name", ""))
def test_a_hallucination_hangs_on_what_was_planted(fault, expected):
    detector, there = GlassBox(one(parts()), [fault]), [35.0, 20.0, 55.0, 40.0]
    edits = {"clean": parts(), "dog covered": covering((68, 18, 92, 42)), "cup covered": covering((20, 20, 40, 40))}
    found = {
        name: boxes_of(each, "cup")
        for name, each in zip(edits, detector.detect_pictures(list(edits.values())), strict=True)
    }
    seen = {name for name, boxes in found.items() if boxes == [CUP]}
    (after,) = boxes_of(detector.detect_pictures([Moved(parts(), (15, 0))])[0], "cup")
    seen |= {"moved"} if after == there else {"moved: old place"} if after == CUP else set()
    assert seen == expected
    (planted,) = detector.truth_of_fault(parts())
    assert (planted.object, planted.effect, planted.fault) == (7, "hallucinated", fault.name)
