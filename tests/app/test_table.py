"""An object laid on a photo: what it looks like and what is said of it, against fuzz, scan and planted faults."""

import numpy as np
import pytest

from misdetect.app.table import QUESTIONS, Table, one_at_a_time
from misdetect.data import load_data
from misdetect.data.memory import from_pairs
from misdetect.data.opened import Opened
from misdetect.detectors import load_detector
from misdetect.nouns.boxes import iou
from misdetect.pools.pool import build_pool, load_pool, mirrored, write_pool
from misdetect.said.errors import BadArray, BadData, LevelTooLow
from misdetect.studies.fuzz.adaptive import Adaptive
from misdetect.studies.fuzz.near import around
from misdetect.studies.fuzz.rows import Insertion
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.fuzz.study import FuzzStudy
from misdetect.studies.scan.pairs import Pair, transplants
from misdetect.studies.scan.settings import ScanSettings
from misdetect.studies.scan.study import ScanStudy

DATA = "rooms:val,count=12"
DISTANCE = 10
SHY = f"glassbox:vanish-near/distance={DISTANCE},data={DATA}"


@pytest.fixture(scope="module")
def table():
    made = Table(load_detector(SHY), DATA)
    yield made
    made.close()


def edit(table, **more):
    """A legal edit: object 0 at its own size in the corner of photo 0."""
    width, height = table.pool[more.get("object", 0)].size
    return {"photo": 0, "object": 0, "x": 0, "y": 0, "width": width, "height": height, **more}


def naive(photo, rgba, x, y, opacity=1.0):
    """Pixel by pixel: the object where its alpha is at least a half, else the photo."""
    drawn = photo.astype(np.float64).copy()
    for j, i in np.argwhere(rgba[:, :, 3] >= 128).tolist():
        drawn[y + j, x + i] = opacity * rgba[j, i, :3] + (1 - opacity) * photo[y + j, x + i]
    return np.rint(drawn).astype(np.uint8)


@pytest.mark.parametrize(("flip", "opacity"), [(False, 1.0), (True, 1.0), (False, 0.3), (True, 0.65)])
def test_an_edit_is_a_plain_paste(table, flip, opacity):
    drawn = table.bench.picture(table.insertion(edit(table, x=21, y=9, flip=flip, opacity=opacity))).render()
    rgba = table.pool[0].rgba[:, ::-1] if flip else table.pool[0].rgba
    photo = table.data[0].image
    assert np.array_equal(drawn, naive(photo, rgba, 21, 9, opacity))
    assert not np.array_equal(drawn, photo)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("factor", [1.0, 0.6, 1.3])
def test_edit_and_control_are_those_of_a_campaign(table, factor):
    width, height = (round(factor * side) for side in table.pool[4].size)
    given = table.insertion(edit(table, photo=3, object=4, x=30, y=12, width=width, height=height))
    study = FuzzStudy(Opened(DATA), build_pool(load_data(DATA)), table.detector.names, FuzzSettings())
    same = Insertion(3, 4, (30, 12), (width, height))
    assert table.bench.picture(given).key == study.bench.picture(same).key
    assert np.array_equal(table.bench.picture(given).render(), study.bench.picture(same).render())
    assert np.array_equal(table.bench.control(given).render(), next(study.bench.controls(same)).render())


def test_an_edit_is_what_a_scan_shows(table):
    cutout = table.pool[2]
    data = load_data(DATA)
    source = next(i for i, sample in enumerate(data) if sample.id == cutout.sample)
    row = np.asarray(data[source].truth.ids).tolist().index(cutout.truth)
    background = 0 if source else 1
    pair = Pair(background, source, row)
    study = ScanStudy(Opened(DATA), transplants(data, [pair], 10), table.detector.names, ScanSettings())
    shown = study.open_pair(0).picture("object", 20, 30, 0)
    mine = table.bench.picture(table.insertion(edit(table, photo=background, object=2, x=20, y=30)))
    assert mine.key == shown.key
    assert np.array_equal(mine.render(), shown.render())


def test_a_control_is_as_opaque_as_its_object(table):
    given = edit(table, x=40, y=40)
    solid, faint = (table.bench.control(table.insertion({**given, "opacity": share})).render() for share in (1.0, 0.5))
    photo = table.data[0].image.astype(np.float64)
    assert np.abs(faint - (solid + photo) / 2).max() <= 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"photo": 12},
        {"photo": -1},
        {"photo": 1.0},
        {"photo": "0"},
        {"photo": True},
        {"photo": None},
        {"object": 10**6},
        {"object": -1},
        {"x": -1},
        {"y": 128},
        {"width": 500},
        {"width": 1},
        {"height": 0},
        {"opacity": 1.5},
        {"opacity": float("nan")},
        {"opacity": "1"},
        {"opacity": True},
        {"flip": 1},
        {"flip": "yes"},
    ],
)
def test_what_is_no_edit_is_refused(table, wrong):
    with pytest.raises(BadArray):
        table.insertion({**edit(table), **wrong})


def test_mirror_images_are_no_objects_of_their_own(table):
    assert len(table.pool) == 2 * table.objects
    with pytest.raises(BadArray):
        table.insertion(edit(table, object=table.objects))


def test_what_is_lost_is_what_was_planted(table):
    seen = table.seen("me", 0)
    lost = 0
    for x in range(0, 95, 9):
        insertion = table.insertion(edit(table, x=x, y=40))
        planted = {answer.object for answer in table.detector.truth_of_fault(table.bench.picture(insertion))}
        answer = table.answer("me", insertion)
        things = {change["thing"] for change in answer["changes"] if change["type"] == "missed"}
        gone = {seen.background.objects[thing] for thing in things}
        hidden = {seen.background.objects[c["thing"]] for c in answer["changes"] if c["covered"] > 0.5}
        assert planted <= gone <= planted | hidden
        states = [box[6] for box in answer["boxes"]]
        assert states.count("lost") == len(things)
        assert states.count("kept") == len(seen.background.firm) - len(things)
        lost += len(planted)
    assert lost > 0


def test_a_search_finds_what_is_planted_near_the_spot_and_stays_there(table):
    photo = next(i for i in range(12) if len(table.seen("me", i).background.firm) > 2)
    small = table.insertion(edit(table, photo=photo, x=50, y=50, width=12, height=12))
    *tried, last = table.search("me", small)
    assert last["end"] == "found"
    within = around(table.seen("me", photo).background, small, 1.0, 0.12, (1.0,)).within
    for place in (*tried, last):
        assert within[0] <= place["x"] <= within[2] - place["width"]
        assert within[1] <= place["y"] <= within[3] - place["height"]
    found = Insertion(photo, 0, (last["x"], last["y"]), (last["width"], last["height"]))
    planted = {answer.object for answer in table.detector.truth_of_fault(table.bench.picture(found))}
    assert {change["object"] for change in last["row"]["changes"] if change["cleared"]} & planted
    assert last["row"]["queries"] > 1, "controls were asked"


def test_a_search_without_a_failure_ends_with_its_budget():
    sound = Table(load_detector(f"glassbox:none,data={DATA}"), DATA)
    *tried, last = sound.search("me", sound.insertion(edit(sound, x=50, y=50, width=12, height=12)), most=10)
    sound.close()
    assert (last["end"], last["asked"], last["shared"], len(tried)) == ("spent", 10, 0, 10)
    assert QUESTIONS > 10


def test_a_search_says_where_nothing_can_be_lost_and_where_nothing_fits(table):
    blind = Table(load_detector(lambda images: [([], [], [])] * len(images), names=["cup"]), DATA)
    (last,) = blind.search("me", blind.insertion(edit(blind)))
    blind.close()
    assert last["end"] == "nothing"
    whole = table.insertion(edit(table, width=128, height=128))
    everywhere = Table(
        load_detector(lambda images: [([[0, 0, 128, 128]], [0.9], [0])] * len(images), names=["cup"]), DATA
    )
    (last,) = everywhere.search("me", whole)
    everywhere.close()
    assert last["end"] == "nowhere"


def test_the_strategy_keeps_to_its_part_of_the_photo(table):
    spot = table.insertion(edit(table, x=60, y=30, width=10, height=14))
    background = around(table.seen("me", 0).background, spot, 1.5, 0.1, (1.0, 0.5))
    strategy = Adaptive(3, table.how.rules, 0)
    strategy.add([background])
    x0, y0, x1, y1 = background.within
    plan = [place for _ in range(5) for place in strategy.plan(3)]
    assert len(plan) > 5
    assert {place.cutout for place in plan} == {0}
    for left, top, right, bottom in (place.box for place in plan):
        assert x0 <= left < right <= x1
        assert y0 <= top < bottom <= y1


def test_who_suppressed_whom():
    table = Table(load_detector("zoo:yolox"), DATA)
    inside = table.inside("me", table.insertion(edit(table, x=30, y=60)))
    boxes = [each["box"] for each in inside["candidates"]]
    suppressed = [each for each in inside["candidates"] if each["by"] is not None]
    assert suppressed
    for each in suppressed:
        by = inside["candidates"][each["by"]]
        assert (by["fate"], each["fate"], by["label"]) == ("kept", "suppressed", each["label"])
        assert by["score"] >= each["score"]
        assert each["overlap"] == pytest.approx(float(iou([each["box"]], [boxes[each["by"]]])[0, 0]), abs=1e-6)
        assert each["overlap"] > table.detector.settings["nms"] - 1e-3
    table.close()


def test_the_inside_says_what_became_of_the_lost(table):
    insertion = next(
        insertion
        for insertion in (table.insertion(edit(table, x=x, y=40)) for x in range(0, 95, 9))
        if table.detector.truth_of_fault(table.bench.picture(insertion))
    )
    planted = table.detector.truth_of_fault(table.bench.picture(insertion))
    losses = table.inside("me", insertion)["losses"]
    assert {answer.mechanism for answer in planted} <= {loss["mechanism"] for loss in losses}


def test_a_closed_detector_has_no_inside():
    closed = Table(load_detector(lambda images: [([], [], [])] * len(images), names=["cup"]), DATA)
    with pytest.raises(LevelTooLow):
        closed.inside("me", closed.insertion(edit(closed)))
    closed.close()


def test_one_image_at_a_time():
    assert one_at_a_time(load_detector("zoo:yolox")).batch_size == 1
    own = load_detector(SHY)
    assert one_at_a_time(own) is own, "its spec knows no batches"


def test_data_without_masks_needs_a_pool():
    bare = from_pairs([(np.zeros((32, 32, 3), np.uint8), {"boxes": [[4, 4, 20, 20]], "labels": [0]})], ["cup"])
    detector = load_detector(lambda images: [([], [], [])] * len(images), names=["cup"])
    with pytest.raises(BadData, match="has a mask"):
        Table(detector, bare)
    Table(detector, bare, DATA).close()


def test_a_mirrored_pool_is_found_again(tmp_path):
    own = build_pool(load_data(DATA))
    write_pool(own, tmp_path / "pool")
    for spec in (DATA, str(tmp_path / "pool")):
        both = mirrored(load_pool(spec))
        again = load_pool(both.found_at)
        assert again.fingerprint == both.fingerprint != own.fingerprint
        assert len(again) == 2 * len(own)
        for i, cutout in enumerate(own):
            turned = again[len(own) + i]
            assert np.array_equal(turned.rgba, np.flip(cutout.rgba, axis=1))
            assert (turned.label, turned.sample) == (cutout.label, cutout.sample)
