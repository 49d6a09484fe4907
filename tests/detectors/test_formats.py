"""Detectors in files, whatever runs them: one network gives the same detections in every format, and every family of
detectors keeps the same laws. Files that cannot be used are in ``test_formats_files.py``, what needs TensorFlow in
``test_formats_tensorflow.py``."""

import shutil

import cv2
import exported_models as models
import numpy as np
import pytest
from format_tables import (
    ALL,
    CASES,
    ELSEWHERE,
    FORMATS,
    GRID,
    QUERIES,
    assert_same,
    by_hand,
    make_models,
    make_tensorflow,
)
from loopback import running_server

from misdetect.detectors import load_detector
from misdetect.nouns.detections import Detections
from misdetect.registry import DETECTORS, registered
from misdetect.said.errors import MisdetectError


@pytest.fixture(scope="module")
def here(made_once):
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("openvino")
    return made_once("formats", make_models)


@pytest.fixture(scope="module")
def address():
    """That of a server that finds as much as the image is bright, and as much as it is dark."""

    def answer(handler, n, body):
        image = cv2.imdecode(np.frombuffer(body, np.uint8), cv2.IMREAD_COLOR)
        (height, width), bright = image.shape[:2], image.mean() / 255
        found = [([0, 0, width / 2, height], bright, "chair"), ([width / 4, 0, width, height], 1 - bright, "rug")]
        best_first = sorted(found, key=lambda each: -each[1])  # the order of a server's answer is kept
        handler.reply({"detections": [{"box": b, "score": s, "label": name} for b, s, name in best_first]})

    with running_server() as server:
        server.script = answer
        yield server.url


@pytest.fixture(scope="module")
def loaded(here, address, made_once):
    """``loaded(spec, options)``: the detector of a spec of ``format_tables``, made once."""
    made = {}
    places = {"here": here, "kept": models.KEPT, "wired": f"names={here}/names.txt,{models.WIRED}", "address": address}

    def detector(spec, options="", fresh=False):
        if "{tensorflow}" in spec:
            pytest.importorskip("tensorflow")
            places["tensorflow"] = made_once("tensorflow", make_tensorflow)
        text = spec.format(**places) + options
        if fresh:
            return load_detector(text)
        if text not in made:
            made[text] = load_detector(text)
        return made[text]

    yield detector
    for each in made.values():
        getattr(each, "close", lambda: None)()


@pytest.fixture(scope="module")
def rooms():
    """Rooms of several sizes and shapes."""
    whole = models.photos(3)
    return [*whole, whole[0][:, :70], whole[1][40:90], cv2.resize(whole[2], (333, 77)), whole[0][:1, :1]]


def as_found(detector, images):
    """What ``detector`` says of ``images``; a ``python:`` detector's tuples as ``Detections``."""
    return [f if isinstance(f, Detections) else Detections(*f) for f in detector.detect(images)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FORMATS)
def test_one_network_says_the_same_in_every_format(name, loaded, rooms):
    for photo, found in zip(rooms, loaded(FORMATS[name]).detect(rooms), strict=True):
        assert_same(found, by_hand(photo, multilabel=False))


@pytest.mark.parametrize("name", ["onnx", "openvino", "torchscript"])
def test_outputs_apart_say_the_same(name, loaded, rooms):
    for photo, found in zip(rooms, loaded(QUERIES[name]).detect(rooms), strict=True):
        assert_same(found, by_hand(photo, multilabel=True))


def test_eight_bits_are_close_to_what_they_stand_for(loaded, rooms):
    """Every pair of a query and a class, none suppressed: its score and box are those of the floats, but for a step."""
    every = QUERIES["tflite-int8"].replace("nms=0.6", "nms=1")
    for photo, found in zip(rooms[:3], loaded(every, ",score=0,max=72").detect(rooms[:3]), strict=True):
        _, scores = models.by_hand(models.shrunk(photo))
        assert len(found) == scores.size
        assert 10 < len(np.unique(found.scores)) <= 256
        np.testing.assert_allclose(found.scores, -np.sort(-scores.ravel()), atol=0.03)
        exact = loaded(QUERIES["onnx"].replace("nms=0.6", "nms=1"), ",score=0,max=72").detect([photo])[0]
        for box, label in zip(found.boxes, found.labels, strict=True):
            assert np.abs(exact.boxes[exact.labels == label] - box).max(axis=1).min() < 0.02 * max(photo.shape)


SHARES = {name: FORMATS[name].replace("raw.", "shares.") for name in ("onnx", "openvino", "torchscript")}


@pytest.mark.parametrize("name", SHARES)
def test_boxes_that_are_shares_are_recognised(name, loaded, rooms):
    """Ultralytics divides the boxes in its TensorFlow Lite files by the size of the image."""
    detector = loaded(SHARES[name])
    assert detector.settings["units"] == "shares"
    for photo, found in zip(rooms[:3], detector.detect(rooms[:3]), strict=True):
        assert_same(found, by_hand(photo, multilabel=False))


def test_a_file_of_ultralytics_needs_no_option(loaded, rooms):
    """Its metadata is in it, its input and output are bytes, its boxes shares: within a step of what the floats say."""
    detector = loaded("{kept}/shares_uint8.tflite")
    assert detector.names == models.NAMES
    assert (detector.settings["decoder"], detector.settings["units"]) == ("yolov8", "shares")
    every = ",nms=1,score=0,multilabel=yes,max=72"
    for photo in rooms[:3]:
        (found,) = loaded("{kept}/shares_uint8.tflite", every).detect([photo])
        (floats,) = loaded(FORMATS["onnx"], every).detect([photo])
        assert len(found) == len(floats) == 72
        assert 10 < len(np.unique(found.scores)) <= 256
        np.testing.assert_allclose(found.scores, floats.scores, atol=0.03)
        for box, label in zip(found.boxes, found.labels, strict=True):
            assert np.abs(floats.boxes[floats.labels == label] - box).max(axis=1).min() < 0.02 * max(photo.shape)


def test_bytes_into_a_graph_that_suppresses_are_pixels(loaded, rooms):
    """Such a file has labels inside and takes pixels, stretched and RGB: nothing is left to be stated."""
    detector = loaded("{kept}/suppressed_uint8.tflite")
    assert detector.names == models.NAMES
    tile = np.ascontiguousarray(rooms[0][8 : 8 + models.HEIGHT, 16 : 16 + models.WIDTH])
    network = detector.network
    tensor, _ = detector.prepare([tile])
    np.testing.assert_array_equal(network.affine.quantise(tensor, network.stores)[0], tile)
    (found,) = detector.detect([tile])
    (floats,) = loaded(FORMATS["tflite-suppressed"]).detect([tile])
    assert len(found) > 0
    np.testing.assert_allclose(found.scores[:5], floats.scores[:5], atol=0.03)
    assert loaded("{kept}/suppressed_uint8.tflite", ",resize=letterbox,pad=0").preprocess.resize == "letterbox"


def test_a_torchscript_module_that_takes_images_as_they_are(here, tmp_path):
    """``size=image``: boxes are pixels of the image, or shares of it, however large that is."""
    sizes = [np.full((height, width, 3), 40, np.uint8) for height, width in ((120, 160), (50, 70), (77, 333))]
    for image in sizes:
        image[31, 47] = 250, 240, 230
    for units in ("pixels", "shares"):
        path = tmp_path / f"{units}.torchscript"
        models.write_brightest(path, units)
        spec = f"torchscript:{path},trust=yes,names={here}/names.txt,colour=rgb,scale=1/255,size=image,units={units}"
        detector = load_detector(spec)
        assert detector.batch_size == 1
        for image, found in zip(sizes, detector.detect(sizes), strict=True):
            assert_same(found, models.brightest(image))
    unsaid = load_detector(spec.replace(",units=shares", ""))
    with pytest.raises(MisdetectError, match="give units=shares"):
        unsaid.detect(sizes)


def test_an_openvino_graph_of_eight_bits_is_close_to_its_floats(loaded, here, rooms, tmp_path):
    models.write_openvino_int8(tmp_path / "eight.xml", here / "raw.onnx")
    assert "FakeQuantize" in (tmp_path / "eight.xml").read_text()
    every = ",nms=1,score=0,multilabel=yes,max=72"
    eight = loaded(FORMATS["openvino"].replace("{here}/raw.xml", f"{tmp_path}/eight.xml"), every).detect(rooms[:3])
    for found, exact in zip(eight, loaded(FORMATS["openvino"], every).detect(rooms[:3]), strict=True):
        assert len(found) == len(exact) == 72
        assert np.abs(found.scores - exact.scores).max() > 1e-5
        np.testing.assert_allclose(found.scores, exact.scores, atol=0.03)


def test_every_family_is_in_the_table():
    there = {"http" if "{address}" in spec else spec.partition(":")[0] for spec in ALL.values()}
    assert there.isdisjoint(ELSEWHERE)
    assert there | {*ELSEWHERE} == {scheme for scheme, each in registered(DETECTORS).items() if each.own}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_what_is_found_is_well_formed(name, loaded, rooms):
    detector = loaded(ALL[name])
    assert len(detector.names) > 0
    assert all(isinstance(label, str) for label in detector.names)
    found = as_found(detector, rooms)
    assert len(found) == len(rooms)
    assert sum(map(len, found)) > 0
    for each, photo in zip(found, rooms, strict=True):
        height, width = photo.shape[:2]
        assert each.boxes.shape == (len(each), 4)
        assert each.boxes.dtype.kind == each.scores.dtype.kind == "f"
        assert each.labels.dtype.kind == "i"
        assert ((each.labels >= 0) & (each.labels < len(detector.names))).all()
        assert ((each.scores >= 0) & (each.scores <= 1)).all()
        assert (np.diff(each.scores) <= GRID).all()  # scores are ranked on a grid
        assert (each.boxes >= 0).all()
        assert (each.boxes <= [width, height, width, height]).all()
        assert (each.boxes[:, :2] <= each.boxes[:, 2:]).all()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_one_image_or_many(name, loaded, rooms):
    detector = loaded(ALL[name])
    assert list(detector.detect([])) == []
    together = as_found(detector, rooms)
    for photo, many in zip(rooms, together, strict=True):
        (alone,) = as_found(detector, [photo])
        assert len(alone) == len(many)
        np.testing.assert_allclose(alone.scores, many.scores, atol=1e-4)
        np.testing.assert_allclose(alone.boxes, many.boxes, atol=max(photo.shape) * 1e-3)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [case for case in CASES if case != "http"])  # whose server has the threshold
def test_a_threshold_takes_away_and_changes_nothing_else(name, loaded, rooms):
    """What a low threshold reports is left by one in its midst if it scores higher, and nothing by one above all."""
    every = as_found(loaded(ALL[name], ",score=0.02"), rooms[:3])
    middle = round(float(np.median(np.concatenate([each.scores for each in every]))), 3)
    for found, all_of_it in zip(as_found(loaded(ALL[name], f",score={middle}"), rooms[:3]), every, strict=True):
        assert (found.scores >= middle).all()
        # a cap is filled up by what a threshold lets through
        assert len(found) >= (all_of_it.scores > middle + 1e-3).sum()
        np.testing.assert_allclose(found.scores[: len(all_of_it)], all_of_it.scores[: len(found)], atol=1e-4)
    above = (1 + max(each.scores.max() for each in every)) / 2
    for nothing in as_found(loaded(ALL[name], f",score={above}"), rooms[:3]):
        assert nothing.boxes.shape == (0, 4)
        assert nothing.scores.shape == nothing.labels.shape == (0,)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", [case for case in CASES if case != "python"])
def test_a_fingerprint_is_of_the_file_and_the_settings(name, loaded):
    own = loaded(ALL[name]).fingerprint
    assert own
    assert loaded(ALL[name], fresh=True).fingerprint == own
    assert loaded(ALL[name], ",encode=jpeg" if name == "http" else ",score=0.5").fingerprint != own


OTHER_FILE = {name: spec for name, spec in FORMATS.items() if name != "torchscript-found"}


@pytest.mark.parametrize("name", OTHER_FILE)
def test_another_file_is_another_detector(name, loaded, here, tmp_path):
    """The same bytes elsewhere are the same detector; one more byte where no runtime looks makes another."""
    spec = OTHER_FILE[name]
    own = loaded(spec).fingerprint
    path = spec.partition(":")[2].partition(",")[0].format(here=here, kept=models.KEPT)
    copy = tmp_path / path.rpartition("/")[2]
    shutil.copy(path, copy)
    moved = spec.replace(path, str(copy)).replace(spec.partition(":")[2].partition(",")[0], str(copy))
    if name == "openvino":
        shutil.copy(here / "raw.bin", tmp_path / "raw.bin")
        assert loaded(moved).fingerprint == own
        copy.write_text(copy.read_text() + "\n")
    else:
        assert loaded(moved).fingerprint == own
        if name == "torchscript":
            models.write_torchscript(copy, about="{}")
        elif name == "onnx":
            import onnx

            changed = onnx.load(copy)
            changed.doc_string = "another"
            onnx.save(changed, copy)
        else:
            copy.write_bytes(copy.read_bytes() + b"\0")
    assert loaded(moved, fresh=True).fingerprint != own


def test_loading_says_nothing(here, loaded, capfd):
    """LiteRT and OpenVINO greet the world on stderr, where a user reads messages."""
    for name in ("tflite", "openvino", "torchscript"):
        loaded(FORMATS[name], fresh=True).detect(models.photos(1))
    assert capfd.readouterr() == ("", "")
