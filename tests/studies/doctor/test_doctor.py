"""``doctor`` names planted mistakes first, and nothing where there is none."""

import json

import numpy as np
import pytest
from doctor_graphs import channels, finished, pictures, shares, xywh
from doctor_mistakes import COCO66, FASTESTDET, FIXTURES, ONNX, SQUARE, WIDE, YOLOX, Remembering, Wrong, oblong
from hypothesis import given
from hypothesis import strategies as st

import misdetect as md
from misdetect.compose.resend import EDITS, come_back, resent, sent_size
from misdetect.nouns.detections import Detections, Said, Truth
from misdetect.nouns.picture import Raw
from misdetect.studies.doctor import DOCTOR
from misdetect.studies.doctor.bench import rewired
from misdetect.studies.doctor.readings import BOX_READINGS, assigned, label_readings

needs_fixtures = pytest.mark.skipif(not FIXTURES.exists(), reason="needs the detectors of ../shared/fixtures")
IMAGES = 15
OFTEN = (
    "xywh for xyxy",
    "normalised cxcywh",
    "labels from 1",
    "sigmoid missing",
    "threshold of one half",
    "rows for columns",
)
"""The mistakes that every run of the tests plants; the heavy ones plant them all."""
KEYS = {"change", "kind", "before", "after", "interval", "fix"}


@pytest.fixture(scope="module")
def right():
    """A detector that is wired right, and asked once about each picture by all tests together."""
    return Remembering(md.load_detector("zoo:yolox"))


@pytest.fixture(scope="module")
def rooms():
    return md.load_data("rooms:val,count=40")


def first(detector, data, images=IMAGES, **more):
    """The document, and its first finding."""
    document = md.doctor(detector, data, images=images, cache=False, **more).document
    return document, (document["findings"] or [None])[0]


def check(found, kind, word):
    document, finding = found
    assert finding is not None, document["tried"][:3]
    assert finding["kind"] == kind
    assert word in finding["change"]
    assert set(finding) >= KEYS
    assert finding["fix"]
    if finding["after"] is not None:
        low, high = finding["interval"]
        assert low > 0
        assert low <= finding["after"] - finding["before"] <= high


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", OFTEN)
def test_a_planted_mistake_is_named_first(right, rooms, name):
    kind, word, how = SQUARE[name]
    check(first(Wrong(right, **how), rooms), kind, word)


@pytest.mark.heavy
@pytest.mark.parametrize("name", SQUARE)
def test_each_planted_mistake_is_named_first(right, name):
    kind, word, how = SQUARE[name]
    check(first(Wrong(right, **how), md.load_data("rooms:val,count=200"), 36), kind, word)


@pytest.mark.heavy
@pytest.mark.parametrize("name", WIDE)
def test_each_mistake_that_oblong_pictures_show_is_named_first(right, name):
    kind, word, how = WIDE[name]
    check(first(Wrong(right, **how), oblong(md.load_data("rooms:val,count=80")), 36), kind, word)


@needs_fixtures
@pytest.mark.heavy
@pytest.mark.parametrize("name", ONNX)
def test_each_wrong_option_of_a_real_detector_is_named_first(name):
    spec, kind = ONNX[name]
    check(first(spec, COCO66, 66), kind, "")


OPTIONS = {
    "BGR for RGB": (channels, {}, ",colour=bgr", "channels", "colour=rgb"),
    "sigmoid missing": (channels, {"logits": True}, ",activation=none", "activation", "activation=sigmoid"),
    "0..255 for 0..1": (channels, {}, ",scale=1", "normalisation", "scale=1/255"),
    "ImageNet's mean": (channels, {}, ",mean=0.485,0.456,0.406,std=0.229,0.224,0.225", "normalisation", "mean=0,std=1"),
    "a threshold that cuts": (channels, {}, ",score=0.8", "threshold", "score=0.01"),
    "a cap that cuts": (channels, {}, ",max=1", "cap", "max=100"),
    "x y w h": (finished, {"boxes": xywh()}, "", "boxes", "boxes=xywh"),
    "shares": (finished, {"boxes": shares()}, ",units=pixels", "boxes", "units=shares"),
    "labels from 1": (finished, {"labels_from": 1}, "", "labels", "labels-from=1"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", [n if i % 2 == 0 else pytest.param(n, marks=pytest.mark.heavy) for i, n in enumerate(OPTIONS)]
)
def test_a_wrong_option_is_named_first_with_the_spec_that_is_right(tmp_path, name):
    graph, how, wrong, kind, fix = OPTIONS[name]
    data, spec = pictures(), graph(tmp_path / "cells.onnx", **how)
    document, finding = first(spec + wrong, data)
    assert finding is not None, document["tried"][:3]
    assert finding["kind"] == kind, document["findings"]
    assert fix in finding["fix"]
    assert finding["before"] < finding["after"]
    repaired = md.score(md.detect(finding["fix"], data, cache=False), data).document["ap"]["AP"]
    assert repaired > 0.9


@pytest.mark.heavy
def test_a_wrong_option_of_another_runtime_is_named_too(tmp_path):
    openvino = pytest.importorskip("openvino")
    spec = channels(tmp_path / "cells.onnx").replace("onnx:", "openvino:").replace("cells.onnx", "cells.xml")
    openvino.save_model(openvino.Core().read_model(tmp_path / "cells.onnx"), tmp_path / "cells.xml")
    document, finding = first(f"{spec},colour=bgr", pictures())
    assert finding is not None, document["tried"][:3]
    assert finding["kind"] == "channels"
    assert finding["fix"] == f"{spec},colour=rgb"


@pytest.mark.parametrize("graph", [channels, finished])
def test_a_graph_with_the_right_options_gives_no_finding(tmp_path, graph):
    document, _ = first(graph(tmp_path / "cells.onnx"), pictures())
    assert document["findings"] == []
    assert document["failed"] == 0, "an output that cannot be read in some way is no failure of the detector"


@pytest.mark.heavy
def test_two_mistakes_at_once_are_both_named(right, rooms):
    def wrong(b, s, n, w, h):
        return np.c_[b[:, :2], b[:, 2:] - b[:, :2]], s, n + 1

    document, _ = first(Wrong(right, say=wrong), rooms)
    assert {finding["kind"] for finding in document["findings"]} == {"boxes", "labels"}
    assert all(finding["before"] < 0.05 < 0.3 < finding["after"] for finding in document["findings"])


def test_right_wiring_gives_no_finding(right, rooms):
    document, finding = first(right, rooms)
    assert finding is None
    assert document["images"] == IMAGES
    assert len(document["tried"]) > 10
    assert document["settings"]["images"] == IMAGES


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "data"),
    [(name, "rooms:val") for name in ("ssd", "faster-rcnn", "retinanet", "yolox", "deformable-detr")]
    + [(name, "bikes:val") for name in ("faster-rcnn-bikes", "retinanet-bikes", "yolox-bikes")],
)
def test_no_detector_of_the_zoo_gives_a_false_alarm_on_twenty_subsets(name, data):
    model, whole = Remembering(md.load_detector(f"zoo:{name}")), md.load_data(f"{data},count=300")
    for seed in range(20):
        assert first(model, whole, 24, seed=seed)[0]["findings"] == []


@needs_fixtures
@pytest.mark.heavy
@pytest.mark.parametrize("spec", [YOLOX, FASTESTDET], ids=["yolox", "fastestdet"])
def test_no_real_detector_gives_a_false_alarm_on_twenty_subsets(spec):
    for seed in range(20):
        assert md.doctor(spec, COCO66, images=40, seed=seed).document["findings"] == []


class Silent:
    names = ("cat", "ball")

    def detect(self, images):
        return [Detections.empty() for _ in images]


class Constant(Silent):
    def detect(self, images):
        return [([[5, 5, 60, 60], [20, 20, 90, 70]], [0.9, 0.4], [0, 1]) for _ in images]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("detector", "kind", "word"), [(Silent(), "silent", "nothing"), (Constant(), "constant", "same")]
)
def test_silence_and_one_answer_for_all_are_said_in_one_sentence(rooms, detector, kind, word):
    run = md.doctor(detector, rooms, images=12, cache=False)
    assert [finding["kind"] for finding in run.document["findings"]] == [kind]
    assert len(run.sentences) == 1
    assert word in run.sentences[0]
    for other in (
        md.explain(detector, rooms, limit=8, cache=False, cls=0.1),
        md.score(md.detect(detector, rooms, limit=8), rooms, limit=8),
    ):
        assert other.document["degenerate"] == kind
        assert word in other.sentences[0]
        assert "TIDE" not in " ".join(other.sentences)


def test_the_document_is_a_function_of_the_run_directory_and_work_is_not_repeated(right, rooms, tmp_path):
    detector = Wrong(right, **SQUARE["labels from 1"][2])
    run = md.doctor(detector, rooms, images=12, out=tmp_path / "run")
    again = md.open(tmp_path / "run")
    (tmp_path / "run" / "document.json").unlink()
    assert json.dumps(md.open(tmp_path / "run").document, sort_keys=True) == json.dumps(run.document, sort_keys=True)
    assert again.sentences == run.sentences
    resumed = md.doctor(detector, rooms, images=12, out=tmp_path / "run")
    assert resumed.outcome.stats["queries"] == 0
    case = again.rows()["case"][0].as_py()
    assert again.replay(case, detector)["reproduced"]


@pytest.mark.heavy
def test_a_budget_ends_it_and_a_larger_one_goes_on(right, rooms, tmp_path):
    detector = Wrong(right, **SQUARE["y before x"][2])
    short = md.doctor(detector, rooms, images=12, out=tmp_path / "run", queries=20)
    assert not short.document["finished"]
    assert short.document["findings"] == []
    whole = md.doctor(detector, rooms, images=12, out=tmp_path / "run", queries=500)
    assert whole.document["finished"]
    assert "y before x" in whole.document["findings"][0]["change"]


REFERENCE = """
import numpy as np
import misdetect as md
MODEL = md.load_detector("zoo:yolox")
class Changed:
    names = tuple(MODEL.names)
    fingerprint = ""
    def __init__(self, how="none"):
        self.how = how
    def detect(self, images):
        rng = np.random.default_rng(0)
        answers = []
        for found in MODEL.detect(images):
            b, s, n = found.boxes.copy(), found.scores, found.labels
            size = np.tile(b[:, 2:] - b[:, :2], 2)
            if self.how == "shifted":
                b += 0.08 * size * [1, 0, 1, 0]
            if self.how == "resized":
                b += 0.06 * size * [-1, -1, 1, 1]
            if self.how == "quantised":
                b += rng.normal(0, 0.06, b.shape) * size
                s = np.round(s * 20) / 20
            if self.how == "renamed":
                n = np.where(n % 2 == 0, (n + 2) % len(self.names), n)
            if self.how == "xywh":
                b = np.c_[b[:, :2], b[:, 2:] - b[:, :2]]
            b[:, 2:] = np.maximum(b[:, 2:], b[:, :2]) if self.how != "xywh" else b[:, 2:]
            answers.append((b, s, n))
        return answers
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("how", "kinds"),
    [
        ("none", []),
        pytest.param("shifted", ["shifted"], marks=pytest.mark.heavy),
        pytest.param("resized", ["resized"], marks=pytest.mark.heavy),
        ("quantised", ["quantised"]),
        ("renamed", ["labels", "renamed"]),
        ("xywh", ["boxes"]),
    ],
)
def test_beside_a_reference_no_truth_is_needed_and_the_damage_is_named(rooms, tmp_path, how, kinds):
    (tmp_path / "changed.py").write_text(REFERENCE)
    spec = f"python:{tmp_path / 'changed.py'}:Changed,how={how}"
    bare = md.load_data([(sample.image, Truth.empty()) for sample in list(rooms)[:18]], rooms.names)
    document, finding = first(spec, bare, 18, reference="zoo:yolox")
    if not kinds:
        assert finding is None
        assert document["reference"]["found"] == document["reference"]["same_class"] == document["reference"]["objects"]
        return
    assert finding["kind"] in kinds
    assert document["reference"]["differ_most"]
    assert document["reference"]["objects"] > 20


@needs_fixtures
@pytest.mark.heavy
def test_an_int8_yolox_is_called_quantised_beside_the_float_one(tmp_path):
    from onnxruntime import InferenceSession
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    right, photos = md.load_detector(YOLOX), md.load_data(COCO66)
    name = InferenceSession(FIXTURES / "models" / "yolox_nano.onnx").get_inputs()[0].name

    class Photos(CalibrationDataReader):
        rest = iter([right.prepare([photos[i].image])[0].copy() for i in range(8)])

        def get_next(self):
            tensor = next(self.rest, None)
            return None if tensor is None else {name: tensor}

    quantize_static(FIXTURES / "models" / "yolox_nano.onnx", tmp_path / "int8.onnx", Photos())
    spec = YOLOX.replace(str(FIXTURES / "models" / "yolox_nano.onnx"), str(tmp_path / "int8.onnx"))
    document, finding = first(spec, COCO66, 24, reference=YOLOX)
    assert finding["kind"] == "quantised"
    assert document["reference"]["found"] < document["reference"]["objects"]


@given(st.sampled_from(sorted(EDITS)), st.integers(2, 40), st.integers(2, 40), st.data())
def test_boxes_come_back_to_the_pixels_they_were_around(name, width, height, data):
    """Of a picture with one bright pixel: a box around it on what is sent comes back around it."""
    if name in ("planar", "half") or name.startswith(("grey", "sharpen")):
        return
    x, y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[y, x] = 255
    seen = resent(Raw(pixels), [name]).render()
    assert seen.shape[1::-1] == tuple(int(side) for side in sent_size([name], width, height))
    at = np.argwhere((seen.sum(axis=2) > 600) if name != "pad" else (seen == 255).all(axis=2))
    if not len(at):
        return  # blurred away by the resize
    (y0, x0), (y1, x1) = at.min(axis=0), at.max(axis=0) + 1
    back = come_back(np.array([[x0, y0, x1, y1]], float), [name], width, height)[0]
    slack = 0 if EDITS[name].turns or name in ("swap", "pad") else 1
    assert np.abs(back - [x, y, x + 1, y + 1]).max() <= slack + 1e-9


def test_planes_that_are_reshaped_come_out_right():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    sent = resent(Raw(pixels), ["planar"]).render()
    assert np.array_equal(sent.reshape(3, 5, 7).transpose(1, 2, 0), pixels)


@pytest.mark.parametrize(("name", "wrong"), [
    ("xywh pixels", lambda b, w, h: np.c_[b[:, :2], b[:, 2:] - b[:, :2]]),
    ("yxyx shares", lambda b, w, h: (b / [w, h, w, h])[:, [1, 0, 3, 2]]),
    ("xyxy network-416-corner", lambda b, w, h: b * 416 / max(w, h)),
    ("xyxy network-416-centre", lambda b, w, h: (b + [(max(w, h) - w) / 2, (max(w, h) - h) / 2] * 2) * 416 / max(w, h)),
    ("xyxy width-for-height", lambda b, w, h: b / [w, h, w, h] * [h, w, h, w]),
    ("mirrored y", lambda b, w, h: np.c_[b[:, 0], h - b[:, 3], b[:, 2], h - b[:, 1]]),
])  # fmt: skip
def test_readings_undo_what_was_done(name, wrong):
    boxes = np.array([[3.0, 5, 30, 50], [10, 2, 90, 40]])
    assert BOX_READINGS[name].read(wrong(boxes, 100, 60), 100, 60) == pytest.approx(boxes)
    many = BOX_READINGS[name].read(wrong(boxes, 100, 60), np.array([100, 100]), np.array([60, 60]))
    assert many == pytest.approx(boxes)


def test_labels_read_by_name_or_by_vote():
    readings = label_readings(["cat", "ant", "bee"], ["ant", "bee", "cat"])
    assert readings["sorted"].read(np.array([0, 1, 2, 3])).tolist() == [1, 2, 0, -1]
    assert readings["data"].read(np.array([0, 1, 2])).tolist() == [1, 2, 0]
    assert readings["from-1"].read(np.array([0, 1, 3])).tolist() == [-1, 0, 2]
    assert assigned(["a", "b"], np.diag([9.0, 9])) is None
    assert assigned(["a", "b"], np.array([[0, 9.0], [9, 1]])).map.tolist() == [1, 0]
    assert assigned(["a", "b"], np.array([[2, 2.0], [2, 2]])) is None


def test_a_spec_is_rewired():
    spec = "onnx:a,b.onnx,decoder=yolox,labels-from=1,mean=1,2,3"
    assert (
        rewired(spec, (("mean", "0"), ("labels_from", ""), ("colour", "rgb")))
        == "onnx:a,b.onnx,decoder=yolox,mean=0,colour=rgb"
    )


def test_what_is_said_is_taken_down_as_it_is():
    said = Said.of(([[9.0, 9, 1, 1]], [-3.0], [77]))
    assert said.boxes.tolist() == [[9, 9, 1, 1]]
    assert (said.scores[0], said.labels[0]) == (-3, 77)


@pytest.mark.heavy
def test_the_gate(run, tmp_path):
    (tmp_path / "wrong.py").write_text(
        "import misdetect as md, numpy as np\nMODEL = md.load_detector('zoo:yolox')\n"
        "class Wrong:\n    names = tuple(MODEL.names)\n    def detect(self, images):\n"
        "        return [(f.boxes[:, [1, 0, 3, 2]], f.scores, f.labels) for f in MODEL.detect(images)]\n"
    )
    common = ["--data", "rooms:val,count=12", "--images", "12", "--json"]
    wrong = ["doctor", "--detector", f"python:{tmp_path / 'wrong.py'}:Wrong", *common]
    code, out, _ = run(*wrong, "--fail-if", "any")
    assert code == 1
    assert json.loads(out)["findings"][0]["fix"].startswith("boxes = boxes[:, [1, 0, 3, 2]]")
    assert run(*wrong)[0] == 0
    assert run("doctor", "--detector", "zoo:yolox", *common, "--fail-if", "any")[0] == 0


def test_a_finding_is_told_with_what_it_costs_and_what_to_do():
    found = {
        "change": "colours are BGR.",
        "before": 0.25,
        "after": 0.5,
        "interval": [0.125, 0.375],
        "fix": "colour=bgr",
    }
    gained = "Colours are BGR: AP 0.250 -> 0.500 (+0.125 to +0.375). Fix: colour=bgr"
    suspicious = found | {"after": None, "interval": None}
    document = {
        "finished": True,
        "done": 9,
        "images": 20,
        "before": 0.25,
        "findings": [found, suspicious],
        "tried": [1] * 7,
    }
    assert DOCTOR.sentences(document) == [gained, "Colours are BGR. Fix: colour=bgr"]
    (nothing,) = DOCTOR.sentences(document | {"findings": []})
    assert nothing == "No mistake of wiring was found on 20 images; 7 ways of asking were tried."
    assert DOCTOR.sentences(document | {"finished": False}) == ["Not finished: 9 cases are done."]
    numbers = {name: each.value for name, each in DOCTOR.numbers(document).items()}
    assert numbers == {"findings": 2, "before": 0.25, "images": 20}


def test_too_little_data_is_bad_input_and_leaves_nothing(run, tmp_path):
    code, _, err = run("doctor", "--detector", "zoo:yolox", "--data", "rooms:val,count=3", "--out", tmp_path / "run")
    assert code == 2
    assert "at least 6" in err
    assert list(tmp_path.iterdir()) == []
