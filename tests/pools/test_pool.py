"""The pool: each criterion drops what it should and no more, nothing is lost in counting, and storing is exact."""

import json
import pickle
import shutil
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage
from scipy.spatial import ConvexHull

from misdetect.data import load_data
from misdetect.data.cutouts import Cutout, cutouts
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.faults import BadRecord, ExportRefused, Malformed
from misdetect.data.images import ImageCorrupt, ImageMissing, ImageOutside
from misdetect.nouns.detections import Detections, Truth
from misdetect.nouns.masks import Masks
from misdetect.nouns.picture import digest
from misdetect.pools import files as pool_files
from misdetect.pools import pool as pool_module
from misdetect.pools.pool import Pool, build_pool, load_pool, write_pool
from misdetect.pools.refine import Outline, Refinement, second_piece, solidity
from misdetect.pools.settings import PoolSettings
from misdetect.pools.sheet import sheet
from misdetect.said.errors import BadData, BadImage, BadSpec, DetectorFailed, LevelTooLow
from misdetect.studies.segment import segmented_pool

COCO66 = Path(__file__).parents[2] / "../shared/fixtures/coco66/instances.json"
needs_photos = pytest.mark.skipif(not COCO66.exists(), reason="needs the photos of ../shared/fixtures/coco66")
NAMES = ("cat", "dog", "dining table")
WIDTH, HEIGHT = 100, 80


class Drawn:
    """A source that counts how often it is read."""

    def __init__(self, seed):
        self.pixels = np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        self.reads = 0

    def read(self):
        self.reads += 1
        return self.pixels

    def key(self):
        return digest(self.pixels)


def mask_of(*boxes):
    mask = np.zeros((HEIGHT, WIDTH), dtype=bool)
    for x0, y0, x1, y1 in boxes:
        mask[y0:y1, x0:x1] = True
    return mask


def data_of(*images, crowd=()):
    """Data of one image for each list of (mask, label)."""
    samples = []
    for number, objects in enumerate(images):
        masks = [mask for mask, _ in objects]
        truth = Truth(
            np.tile([0, 0, WIDTH, HEIGHT], (len(objects), 1)) if objects else np.zeros((0, 4)),
            np.array([label for _, label in objects], dtype=int),
            ids=np.arange(len(objects)) + 10 * number,
            crowd=[(number, row) in crowd for row in range(len(objects))] if objects else None,
            masks=Masks(masks, HEIGHT, WIDTH),
        )
        samples.append(Sample(f"image {number}", Drawn(number), truth, WIDTH, HEIGHT))
    return Dataset("here:", NAMES, len(samples), samples.__getitem__, fingerprint="f")


# Refinement.

EVERYTHING = Refinement(keep=1, few=0, component=1, border=0, solidity=0, max_side=1, min_side=0)

masks = hnp.arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12))).filter(np.any)


@given(masks)
def test_solidity_is_the_share_in_the_hull_of_all_pixel_corners(mask):
    y, x = np.nonzero(mask)
    corners = np.concatenate([np.stack([x + dx, y + dy], axis=1) for dx in (0, 1) for dy in (0, 1)])
    assert solidity(mask) == pytest.approx(mask.sum() / ConvexHull(corners).volume, rel=1e-5)


@given(masks)
def test_the_second_piece_is_that_of_an_independent_labelling(mask):
    labelled, _ = ndimage.label(mask, structure=np.ones((3, 3)))
    areas = sorted(np.bincount(labelled.ravel())[1:], reverse=True)
    assert second_piece(mask) == pytest.approx((areas[1] if len(areas) > 1 else 0) / mask.sum())


GOOD = mask_of((30, 30, 60, 50))
THIN_CROSS = mask_of((30, 39, 60, 41), (44, 25, 46, 55))
FAULTY = {
    "min_side": mask_of((30, 30, 60, 45)),
    "max_side": mask_of((5, 30, 90, 60)),
    "border": mask_of((2, 30, 40, 60)),
    "component": mask_of((30, 30, 60, 50), (30, 51, 60, 53)),
    "solidity": THIN_CROSS,
}


@pytest.mark.parametrize("criterion", FAULTY)
def test_each_fault_is_dropped_for_its_reason_and_only_where_asked(criterion):
    data = data_of([(FAULTY[criterion], 0), (GOOD, 1)])
    pool = build_pool(data)
    assert [cutout.label for cutout in pool] == ["dog"]
    assert pool.dropped == {name: int(name == criterion) for name in (*FAULTY, "keep")}
    assert list(pool.dropped) == [*FAULTY, "keep"]
    allowed = {"min_side": 15, "max_side": 0.86, "border": 2, "component": 0.1, "solidity": 0.2}[criterion]
    assert len(build_pool(data, refinement=Refinement(**{criterion: allowed}))) == 2


def test_an_object_counts_for_the_first_criterion_it_fails():
    everything_wrong = mask_of((0, 0, 99, 2), (0, 70, 2, 72))
    pool = build_pool(data_of([(everything_wrong, 0), (GOOD, 1)]), refinement=Refinement(min_side=0))
    assert pool.dropped["max_side"] == sum(pool.dropped.values()) == 1


@given(
    sizes=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 6)), max_size=60),
    keep=st.floats(0, 1),
    few=st.integers(0, 9),
)
def test_the_largest_share_of_each_class_stays(sizes, keep, few):
    """The paper's rule, and that it keeps the order and prefers the earlier of equals."""
    outlines = [Outline(i, 0, label, (0, 0, size, 1)) for i, (label, size) in enumerate(sizes)]
    kept = Refinement(keep=keep, few=few).largest(outlines)
    assert [outline.image for outline in kept] == sorted(outline.image for outline in kept)
    for label in "abc":
        all_of, kept_of = ([o for o in some if o.label == label] for some in (outlines, kept))
        expected = len(all_of) if len(all_of) < few else max(bool(all_of), -int(-(keep * len(all_of) - 1e-9) // 1))
        assert len(kept_of) == expected
        left_out = [o for o in all_of if o not in kept_of]
        for out in left_out:
            assert all((-o.size, o.image) < (-out.size, out.image) for o in kept_of)


def test_the_papers_numbers_as_defaults():
    """90 % of a class go, unless it has fewer than 6 objects."""
    row = [(mask_of((30, 30, 50 + i, 50 + i)), 0) for i in range(20)]
    assert sorted(c.size for c in build_pool(data_of(row))) == [(38, 38), (39, 39)]
    assert len(build_pool(data_of(row[:5]))) == 5
    assert [c.size for c in build_pool(data_of(row[:6]))] == [(25, 25)]


@pytest.mark.parametrize("wrong", [{"keep": 1.5}, {"few": -1}, {"border": 0.5}, {"max_side": float("nan")}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(BadSpec, match=next(iter(wrong))):
        Refinement(**wrong)


# Building.


@pytest.mark.sampled(1)
@pytest.mark.parametrize("spec", [pytest.param(f"coco:{COCO66}", marks=needs_photos), "rooms:val,count=12"])
def test_without_refinement_it_is_every_cutout_and_with_it_none_is_lost_in_counting(spec):
    data = load_data(spec)
    every = [cutout.key for cutout in cutouts(data)]
    whole = build_pool(data, refinement=EVERYTHING)
    assert [cutout.key for cutout in whole] == every
    assert whole.extracted == len(every)
    assert not any(whole.dropped.values())
    refined = build_pool(data)
    assert len(refined) + sum(refined.dropped.values()) == refined.extracted == len(every)
    assert {c.key for c in refined} < set(every)
    found = Counter(c.label for c in whole)
    assert all(len(places) <= max(5, -(-found[label] // 10)) for label, places in refined.by_label.items())


def test_photos_are_read_only_where_something_is_kept_and_once():
    data = data_of([(GOOD, 0), (GOOD, 1)], [(FAULTY["border"], 0)], [], [(GOOD, 2)], crowd={(3, 0)})
    pool = build_pool(data)
    assert [(c.label, c.sample, c.truth, c.at) for c in pool] == [
        ("cat", "image 0", 0, (30, 30)),
        ("dog", "image 0", 1, (30, 30)),
    ]
    assert [sample.source.reads for sample in data] == [1, 0, 0, 0]
    assert pool.extracted == 3  # a crowd is no object
    assert pool.sources == (data[0].key,) * 2


def test_classes_are_indexed_by_name_and_joined_by_plain_name():
    pool = build_pool(data_of([(GOOD, 2), (GOOD, 0)], [(GOOD, 2)]))
    assert pool.labels == ("cat", "dining table")
    assert pool.by_label == {"cat": (1,), "dining table": (0, 2)}
    assert pool.of("Dining_Table") == (0, 2)
    assert pool.of("bird") == ()


def test_its_own_photo_is_known_by_id_or_content():
    data = data_of([(GOOD, 0)], [(GOOD, 0)])
    pool = build_pool(data)
    assert pool.own(data[0]).tolist() == [True, False]
    copied = Sample("elsewhere", data[1].source, Truth.empty(), WIDTH, HEIGHT)
    assert pool.own(copied).tolist() == [False, True]


def test_the_fingerprint_is_that_of_objects_order_and_origin():
    def fingerprint(*things, sources=None):
        return Pool(things, sources).fingerprint

    a = Cutout(np.full((4, 4, 4), 255, dtype=np.uint8), "cat", sample="s")
    b = Cutout(np.full((4, 5, 4), 255, dtype=np.uint8), "cat", sample="s")
    assert fingerprint(a, b) == fingerprint(a, b)
    others = [fingerprint(b, a), fingerprint(a), fingerprint(a, b, sources="xy"), fingerprint()]
    relabelled = Cutout(a.rgba, "dog", sample="s")
    assert len({fingerprint(a, b), fingerprint(relabelled, b), *others}) == 6


def test_without_masks_or_with_everything_refined_away_it_says_so():
    boxes_only = Truth(np.array([[1, 2, 30, 40]]), np.array([0]))
    data = Dataset("plain:", NAMES, 1, lambda _: Sample("s", Drawn(0), boxes_only, WIDTH, HEIGHT), fingerprint="")
    with pytest.raises(BadData, match=r"no object of plain: has a mask.*--segmenter"):
        build_pool(data)
    with pytest.raises(BadData, match=r"none of the 2 objects .*\(min-side 1, border 1\)"):
        build_pool(data_of([(FAULTY["border"], 0), (FAULTY["min_side"], 0)]))


def test_a_pool_too_large_for_the_memory_is_refused_before_it_is_cut(monkeypatch):
    monkeypatch.setattr(pool_module, "MAX_PIXELS", 1000)
    data = data_of([(GOOD, 0), (GOOD, 1)])
    with pytest.raises(BadData, match="1200 pixels, more than the 1000"):
        build_pool(data)
    assert data[0].source.reads == 0


# Segmenters.


class Segmenter:
    """Answers with the truth of ``data``, found again by its pixels; ``scores`` per row."""

    names = ("Dog", "cat")

    def __init__(self, data, scores=(0.9, 0.9), masks=True, fails=()):
        self.known = {sample.key: sample for sample in data}
        self.scores, self.masks, self.fails, self.asked = scores, masks, fails, 0

    def detect(self, images):
        return [self._one(self.known[digest(image)]) for image in images]

    def _one(self, sample):
        self.asked += 1
        if sample.id in self.fails:
            raise RuntimeError("out of luck")
        truth = sample.truth
        masks = truth.masks.to_array() if self.masks else None
        labels = 1 - truth.labels  # its own numbering
        return Detections(truth.boxes, np.array(self.scores[: len(truth)]), labels, masks)


def segmentable():
    return data_of([(GOOD, 0), (mask_of((20, 20, 50, 70)), 1)], [], [(FAULTY["border"], 1)], [(GOOD, 1)])


def test_a_segmenters_masks_cut_what_the_datas_masks_would():
    data = segmentable()
    truth = {(c.sample, c.at): c.rgba for c in build_pool(data)}
    pool = segmented_pool(data, Segmenter(data), PoolSettings(score=0.5))
    assert {(c.sample, c.at) for c in pool} == set(truth)
    assert all(np.array_equal(c.rgba, truth[c.sample, c.at]) for c in pool)
    assert [c.label for c in pool] == ["cat", "Dog", "Dog"]
    assert pool.dropped["border"] == 1
    assert pool.own(data[0]).tolist() == [True, True, False]
    assert pool.settings["segmenter"] == "Segmenter"
    assert pool.settings["score"] == 0.5


def test_objects_below_the_score_are_not_cut():
    data = segmentable()
    pool = segmented_pool(data, Segmenter(data, scores=(0.9, 0.29)), PoolSettings(score=0.3))
    assert [(c.sample, c.label) for c in pool] == [("image 0", "cat"), ("image 3", "Dog")]
    assert len(segmented_pool(data, Segmenter(data, scores=(0.9, 0.3)), PoolSettings(score=0.3))) == 3
    with pytest.raises(BadData, match=r"Segmenter finds nothing with a score of 0.95"):
        segmented_pool(data, Segmenter(data), PoolSettings(score=0.95))


def test_a_detector_without_masks_gets_a_sentence_and_is_not_asked_on():
    data = data_of(*[[(GOOD, 0)]] * 40)
    segmenter = Segmenter(data, masks=False)
    segmenter.batch_size = 1
    with pytest.raises(LevelTooLow, match=r"Segmenter returns boxes only: use an instance-segmentation detector"):
        segmented_pool(data, segmenter, PoolSettings())
    assert segmenter.asked < 10


def test_images_that_fail_are_left_out_and_told():
    data = segmentable()
    pool = segmented_pool(data, Segmenter(data, fails=("image 0",)), PoolSettings())
    assert [c.sample for c in pool] == ["image 3"]
    (note,) = pool.notes
    assert "1 images could not be segmented" in note
    assert "out of luck" in note
    with pytest.raises(DetectorFailed, match="out of luck"):
        segmented_pool(data, Segmenter(data, fails=[sample.id for sample in data]), PoolSettings())


def test_unreadable_photos_are_bad_input_not_the_segmenters_fault(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"torn")
    with pytest.raises(BadImage, match=r"a.jpg"):
        segmented_pool(load_data(f"folder:{tmp_path}"), Segmenter([]), PoolSettings())


def test_torchvisions_mask_rcnn_is_a_segmenter():
    """With random weights it finds nothing of use, but answers with masks: what they cover is cut out."""
    torch = pytest.importorskip("torch")
    from misdetect.detectors.torchvision import ops as torchvision_ops
    from misdetect.detectors.torchvision.load import wrap

    torchvision_ops.load()
    from torchvision.models.detection import MaskRCNN
    from torchvision.models.detection.anchor_utils import AnchorGenerator
    from torchvision.ops import MultiScaleRoIAlign

    torch.manual_seed(0)
    backbone = torch.nn.Conv2d(3, 8, 3, stride=8)
    backbone.out_channels = 8
    module = MaskRCNN(
        backbone, 3, min_size=64, max_size=96, rpn_anchor_generator=AnchorGenerator(((16, 32),), ((1.0,),)),
        box_roi_pool=MultiScaleRoIAlign(["0"], 5, 2), mask_roi_pool=MultiScaleRoIAlign(["0"], 4, 2),
    ).eval()  # fmt: skip
    data = data_of([], [])
    segmenter = wrap(module, ["cat", "dog"], score=0.0, max=4)
    pool = segmented_pool(data, segmenter, PoolSettings(score=0, **EVERYTHING.document()))
    found = segmenter.detect([sample.image for sample in data])
    cut_out = {(cutout.sample, cutout.truth): cutout for cutout in pool}
    covered = 0
    for sample, detections in zip(data, found, strict=True):
        for row, mask in enumerate(detections.masks):
            if mask.any():
                cutout = cut_out[sample.id, row]
                np.testing.assert_array_equal(cutout.rgba[:, :, :3][cutout.mask], sample.image[mask])
                assert cutout.label == ("cat", "dog")[detections.labels[row]]
                covered += 1
    assert covered == len(pool) > 0


# Storing.


@pytest.fixture
def stored(tmp_path):
    pool = build_pool(data_of([(GOOD, 0), (mask_of((20, 20, 50, 70), (50, 30, 60, 40)), 1)], [(GOOD, 2)]))
    write_pool(pool, tmp_path / "pool")
    return pool, tmp_path / "pool"


def same(a, b):
    names = ("key", "label", "data", "sample", "truth", "at")
    return [[getattr(c, n) for n in names] for c in a] == [[getattr(c, n) for n in names] for c in b]


def test_what_is_read_is_what_was_written(stored):
    pool, folder = stored
    again = load_pool(str(folder))
    assert same(again, pool)
    assert all(np.array_equal(a.rgba, b.rgba) for a, b in zip(again, pool, strict=True))
    assert again.found_at == str(folder)
    for name in ("sources", "spec", "extracted", "dropped", "settings", "notes", "fingerprint"):
        assert getattr(again, name) == getattr(pool, name)
    write_pool(again, folder.with_name("copy"))
    for file in folder.rglob("*.*"):
        assert file.read_bytes() == (folder.with_name("copy") / file.relative_to(folder)).read_bytes()


def test_pools_travel_to_other_processes(stored):
    pool, _ = stored
    sent = pickle.loads(pickle.dumps(pool))  # noqa: S301
    assert same(sent, pool)
    assert sent.fingerprint == pool.fingerprint


def test_a_pool_may_be_named_by_folder_by_data_or_be_there_already(stored):
    pool, folder = stored
    assert load_pool(pool) is pool
    assert load_pool(folder).fingerprint == pool.fingerprint
    rooms = "rooms:val,count=6"
    assert load_pool(rooms).fingerprint == build_pool(load_data(rooms)).fingerprint
    with pytest.raises(BadSpec, match="neither the folder"):
        load_pool("absent")
    with pytest.raises(Malformed, match=r"pool.json does not exist"):
        load_pool(folder.parent)


def edit(folder, change):
    document = json.loads((folder / "pool.json").read_text())
    change(document)
    (folder / "pool.json").write_text(json.dumps(document))


def first_image(folder):
    return folder / "objects" / f"{json.loads((folder / 'pool.json').read_text())['objects'][0]['key']}.png"


def png(pixels):
    return bytes(cv2.imencode(".png", pixels)[1])


def widened(path, size):
    """The same file with another size in its header: a few bytes that claim to be a huge image."""
    data = bytearray(path.read_bytes())
    data[16:24] = b"".join(v.to_bytes(4, "big") for v in size)
    path.write_bytes(data)


BROKEN = {
    "not JSON": (lambda f: (f / "pool.json").write_text("{"), Malformed, "not valid JSON"),
    "a list": (lambda f: (f / "pool.json").write_text("[]"), Malformed, "a list 'objects'"),
    "nested": (lambda f: (f / "pool.json").write_text("[" * 100_000), Malformed, "nested too deeply"),
    "version": (lambda f: edit(f, lambda d: d.update(version=2)), Malformed, "version 2"),
    "no counts": (lambda f: edit(f, lambda d: d.pop("dropped")), BadRecord, "'dropped' to be dict"),
    "no label": (lambda f: edit(f, lambda d: d["objects"][0].pop("label")), BadRecord, "object 0: expected 'label'"),
    "no object": (lambda f: edit(f, lambda d: d["objects"].append(5)), BadRecord, "object 3: expected a JSON object"),
    "climbing": (lambda f: edit(f, lambda d: d["objects"][0].update(key="../../secret")), BadRecord, "hexadecimal"),
    "place": (lambda f: edit(f, lambda d: d["objects"][0].update(at=[1, True])), BadRecord, "'at'"),
    "empty": (lambda f: edit(f, lambda d: d["objects"].clear()), BadData, "no objects"),
    "huge": (lambda f: edit(f, lambda d: d["objects"][1].update(size=[10**6, 10**6])), BadRecord, "above the limit"),
    "relabelled": (lambda f: edit(f, lambda d: d["objects"][0].update(label="dog")), ImageCorrupt, "class 'dog'"),
    "gone": (lambda f: first_image(f).unlink(), ImageMissing, "does not exist"),
    "cut off": (lambda f: first_image(f).write_bytes(first_image(f).read_bytes()[:-40]), ImageCorrupt, "damaged"),
    "no image": (lambda f: first_image(f).write_bytes(b"GIF89a"), ImageCorrupt, "30x20 image"),
    "bomb": (lambda f: widened(first_image(f), (60_000, 60_000)), ImageCorrupt, "30x20 image"),
    "grey": (lambda f: first_image(f).write_bytes(png(np.zeros((20, 30), np.uint8))), ImageCorrupt, "30x20 image"),
    "deep": (lambda f: first_image(f).write_bytes(png(np.zeros((20, 30, 4), np.uint16))), ImageCorrupt, "30x20 image"),
    "padded": (lambda f: first_image(f).open("ab").write(b"x" * 200_000), ImageCorrupt, "30x20 image"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_pool_is_one_sentence(stored, kind):
    _, folder = stored
    damage, error, says = BROKEN[kind]
    damage(folder)
    with pytest.raises(error, match=says) as raised:
        load_pool(folder)
    assert str(folder) in str(raised.value)


@pytest.mark.unix
def test_a_link_out_of_the_folder_is_not_followed(stored, tmp_path):
    _, folder = stored
    outside = tmp_path / "outside.png"
    shutil.move(first_image(folder), outside)
    first_image(folder).symlink_to(outside)
    with pytest.raises(ImageOutside):
        load_pool(folder)


def test_many_large_objects_are_refused_before_any_is_read(stored, monkeypatch):
    _, folder = stored
    monkeypatch.setattr(pool_files, "MAX_PIXELS", 2000)
    shutil.rmtree(folder / "objects")
    with pytest.raises(Malformed, match="more than the 2000"):
        load_pool(folder)


def test_a_folder_that_is_taken_stays_as_it_is_and_a_failure_leaves_nothing(stored, tmp_path, monkeypatch):
    pool, folder = stored
    before = {file: file.read_bytes() for file in folder.rglob("*.*")}
    with pytest.raises(ExportRefused, match="not empty"):
        write_pool(pool, folder)
    assert {file: file.read_bytes() for file in folder.rglob("*.*")} == before

    def full(cutouts):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pool_files, "sheet", full)
    with pytest.raises(ExportRefused, match="No space"):
        write_pool(pool, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pool"]


# The contact sheet.


def flat(colour, label):
    return Cutout(np.tile(np.array([*colour, 255], dtype=np.uint8), (10, 30, 1)), label)


def test_the_sheet_shows_every_object_and_of_a_large_pool_every_class():
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    drawn = sheet([flat(colour, str(i)) for i, colour in enumerate(colours)])
    for colour in colours:
        assert (drawn == colour).all(axis=2).sum() > 1000
    crowded = [flat(colours[0], "a")] * 50 + [flat(colours[1], "b"), flat(colours[2], "c")]
    few = sheet(crowded, shown=4, columns=2)
    assert few.shape[:2] == (220, 192)
    assert all((few == colour).all(axis=2).any() for colour in colours)
