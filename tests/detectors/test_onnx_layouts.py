"""One law for all layouts: the same objects leave every graph, whatever exporter wrote it."""

import numpy as np
import pytest
from onnx_graphs import BOXES, HEIGHT, LABELS, LAYOUTS, NAMES, SCORES, WIDTH, save

from misdetect.detectors import load_detector
from misdetect.detectors.catalogue import parse_spec
from misdetect.detectors.onnx.detector import look_into

IMAGE = np.full((2 * HEIGHT, 2 * WIDTH, 3), 90, np.uint8)  # twice the network's size


@pytest.fixture
def exported(tmp_path):
    """Writes a layout to a file; the spec of it with class names, where the file has none."""

    def write(name):
        export = LAYOUTS[name]()
        path = tmp_path / "m.onnx"
        save(
            path,
            export.outputs,
            inputs=export.shape,
            dtype=export.dtype,
            metadata=export.metadata,
            extra=export.beside,
        )
        (tmp_path / "names.txt").write_text("\n".join(NAMES))
        return export, f"onnx:{path}" + ("" if export.metadata else f",names={tmp_path / 'names.txt'}")

    return write


def same_objects(found):
    order = np.argsort(-SCORES)
    assert found.labels.tolist() == LABELS[order].tolist()
    np.testing.assert_allclose(found.scores, SCORES[order], atol=2e-3)
    np.testing.assert_allclose(found.boxes, 2 * BOXES[order], atol=0.05)


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_advised_spec_finds_the_same_objects_in_every_layout(exported, name):
    _, spec = exported(name)
    look = look_into(parse_spec(spec))
    detector = load_detector(look.spec(parse_spec(spec)))
    assert detector.names == NAMES
    for images in ([IMAGE], [IMAGE] * 3):
        found = detector.detect(images)
        assert len(found) == len(images)
        for each in found:
            same_objects(each)
    assert detector.detect([]) == []


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_file_alone_runs_and_says_what_it_assumed(exported, name):
    export, spec = exported(name)
    file = spec.removeprefix("onnx:")
    detector = load_detector(file)
    same_objects(detector.detect([IMAGE])[0])
    if export.sure:
        assert (detector.spec, detector.guess) == (f"onnx:{file}", None)
        return
    whole = look_into(parse_spec(file)).spec(parse_spec(file))
    assert detector.spec == whole
    assert detector.assumed.endswith(f"The whole spec: {whole}")
    again = load_detector(whole)
    assert (again.fingerprint, again.names) == (detector.fingerprint, detector.names)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", LAYOUTS)
def test_thresholds_and_caps_hold_in_every_layout(exported, name):
    _, spec = exported(name)
    advised = look_into(parse_spec(spec)).spec(parse_spec(spec))
    for options, labels in (("score=0.7", [1, 0]), ("score=0.95", []), ("score=0.5,max=1", [1])):
        found = load_detector(f"{advised},{options}").detect([IMAGE])[0]
        assert found.labels.tolist() == labels
        assert found.boxes.shape == (len(labels), 4)
    prints = {load_detector(f"{advised},score={score}").fingerprint for score in (0.5, 0.5, 0.6)}
    assert len(prints) == 2


def test_both_ends_of_the_law_are_there():
    assert 8 <= sum(layout().sure for layout in LAYOUTS.values()) <= len(LAYOUTS) - 8


# --- what only some exports show ------------------------------------------------------------------------------------


@pytest.mark.parametrize("turned", [False, True])
def test_coco_s_classes_with_objectness_are_seen_either_way_up(tmp_path, turned):
    cells = sum(-(-HEIGHT // s) * -(-WIDTH // s) for s in (8, 16, 32))
    table = np.random.default_rng(0).random((1, cells, 85)).astype(np.float32)
    save(tmp_path / "m.onnx", {"y": table.swapaxes(1, 2) if turned else table}, inputs=(1, 3, HEIGHT, WIDTH))
    look = look_into(parse_spec(f"{tmp_path}/m.onnx"))
    assert (look.decoder, look.classes) == ("yolox", 80)


@pytest.mark.parametrize("first", [0, 1])
def test_where_labels_start_is_guessed_unless_one_of_them_is_0(tmp_path, first):
    outputs = {"boxes": BOXES[None], "labels": LABELS[None] + first, "scores": SCORES[None]}
    save(
        tmp_path / "m.onnx",
        outputs,
        inputs=(1, 3, HEIGHT, WIDTH),
        metadata={"names": str({i: str(i) for i in range(4)})},
    )
    found = {f.option: f for f in look_into(parse_spec(f"{tmp_path}/m.onnx")).findings}
    assert ("labels_from" in found) == bool(first)
    assert not first or (found["labels_from"].value, found["labels_from"].sure) == ("0", False)
    spec = f"onnx:{tmp_path}/m.onnx,preset=ultralytics"
    if not first:
        assert load_detector(spec).detect([IMAGE])[0].labels.tolist() == [1, 0, 2]
        return
    assert load_detector(spec).assumed.startswith("assumed labels-from=0, as is usual")
    assert load_detector(f"{spec},labels-from=1").detect([IMAGE])[0].labels.tolist() == [1, 0, 2]


def test_picodet_is_told_from_nanodet_by_the_names_of_paddle(tmp_path):
    heads = LAYOUTS["picodet"]().outputs
    for name, preset in (("{}", "nanodet"), ("transpose_{}.tmp_0", "detr")):
        outputs = {name.format(i if name != "{}" else each): value for i, (each, value) in enumerate(heads.items())}
        save(tmp_path / "m.onnx", outputs, inputs=(1, 3, HEIGHT, WIDTH))
        found = {f.option: f for f in look_into(parse_spec(f"{tmp_path}/m.onnx")).findings}
        assert (found["preset"].value, found["preset"].sure) == (preset, False)
