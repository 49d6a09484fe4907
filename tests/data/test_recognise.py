"""A file or folder alone is enough to say which data is meant, and how it was taken is said."""

import shutil

import pytest
import written

from misdetect.data import load_data
from misdetect.data.export import export_coco
from misdetect.data.recognise import readings, recognised
from misdetect.said.errors import BadSpec

DATA = load_data("rooms:val,count=3")


def yolo(folder):
    """The data as YOLO's labels, with a data.yaml."""
    (folder / "images" / "val").mkdir(parents=True)
    (folder / "labels" / "val").mkdir(parents=True)
    for sample in DATA:
        (folder / "images" / "val" / f"{sample.id}.png").write_bytes(written.png(sample.image))
        lines = []
        for label, (x0, y0, x1, y1) in zip(sample.truth.labels, sample.truth.boxes, strict=True):
            place = ((x0 + x1) / 2 / sample.width, (y0 + y1) / 2 / sample.height)
            lines.append(f"{label} {place[0]} {place[1]} {(x1 - x0) / sample.width} {(y1 - y0) / sample.height}")
        (folder / "labels" / "val" / f"{sample.id}.txt").write_text("\n".join(lines))
    names = "\n".join(f"  {i}: {name}" for i, name in enumerate(DATA.names))
    (folder / "data.yaml").write_text(f"path: .\nval: images/val\nnames:\n{names}\n")
    return folder


def voc(folder):
    (folder / "Annotations").mkdir(parents=True)
    (folder / "JPEGImages").mkdir()
    for sample in DATA:
        (folder / "JPEGImages" / f"{sample.id}.png").write_bytes(written.png(sample.image))
        boxes = "".join(
            f"<object><name>{DATA.names[label]}</name><bndbox>"
            + "".join(f"<{k}>{v}</{k}>" for k, v in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
            + "</bndbox></object>"
            for label, box in zip(sample.truth.labels, sample.truth.boxes, strict=True)
        )
        size = f"<size><width>{sample.width}</width><height>{sample.height}</height></size>"
        (folder / "Annotations" / f"{sample.id}.xml").write_text(
            f"<annotation><filename>{sample.id}.png</filename>{size}{boxes}</annotation>"
        )
    return folder


def coco(folder):
    export_coco(DATA, folder)
    return folder


def annotations(make):
    def made(folder):
        spec = make(DATA, folder)
        return spec.partition(":")[2].partition(",")[0]

    return made


FORMATS = {
    "coco": (coco, "instances.json"),
    "yolo": (yolo, "data.yaml"),
    "voc": (voc, ""),
    "labelme": (annotations(written.labelme), ""),
    "cvat": (annotations(written.cvat), ""),
    "openimages": (annotations(written.open_images), ""),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_seen_and_opened(name, tmp_path):
    make, file = FORMATS[name]
    made = make(tmp_path / "a b")
    path = f"{made}/{file}" if file else str(made)
    spec, how = recognised(path)
    assert spec.startswith(f"{name}:")
    assert spec in how
    assert sum(len(sample.truth) for sample in load_data(path)) == sum(len(sample.truth) for sample in DATA)


@pytest.mark.parametrize("name", ["coco", "yolo", "voc"])
def test_their_folder_is_enough(name, tmp_path):
    spec, _ = recognised(str(FORMATS[name][0](tmp_path / "data")))
    assert spec.startswith(f"{name}:")
    assert len(load_data(spec)) == len(DATA)


def test_a_folder_of_images_is_without_annotations_and_taken_for_that_only_where_nothing_else_is(tmp_path):
    folder = yolo(tmp_path / "data")
    assert recognised(str(folder / "images"))[0] == f"folder:{folder / 'images'}"
    assert [spec.partition(":")[0] for spec, _ in readings(folder)] == ["yolo"]


def test_a_labelling_tools_folder_with_classes_is_yolo(tmp_path):
    folder = yolo(tmp_path / "data")
    (folder / "data.yaml").unlink()
    (folder / "classes.txt").write_text("\n".join(DATA.names))
    for each in ("images", "labels"):
        for file in (folder / each / "val").iterdir():
            file.rename(folder / each / file.name)
    assert len(load_data(str(folder))[0].truth) == len(DATA[0].truth)


def test_the_split_that_there_is_is_taken_unless_another_is_said(tmp_path):
    folder = yolo(tmp_path / "data")
    text = (folder / "data.yaml").read_text()
    (folder / "data.yaml").write_text(text.replace("val: ", "test: "))
    assert recognised(f"{folder / 'data.yaml'}")[0].endswith(",split=test")
    assert recognised(f"{folder / 'data.yaml'},split=train")[0].endswith("data.yaml,split=train")


def test_two_readings_are_said(tmp_path):
    folder = voc(yolo(tmp_path / "data"))
    spec, how = recognised(str(folder))
    others = {"yolo", "voc"} - {spec.partition(":")[0]}
    assert f"it could be read as {others.pop()}:" in how


def test_specs_and_addresses_are_left_as_they_are():
    for text in ("rooms:val", "coco:x.json,images=y", "s3://bucket/x.json", "hfdata:a/b"):
        assert recognised(text) == (text, None)


@pytest.mark.parametrize("name", ["nowhere.json", "notes.txt", "empty", "list.json", "broken.json", "binary.yaml"])
def test_what_is_no_data_is_told_in_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "broken.json").write_text('{"images": [')
    (tmp_path / "binary.yaml").write_bytes(bytes(range(256)))
    with pytest.raises(BadSpec, match="no such file" if name == "nowhere.json" else "no data that is known"):
        recognised(name)


def test_a_copy_elsewhere_is_the_same_data(tmp_path):
    first = yolo(tmp_path / "one")
    shutil.copytree(first, tmp_path / "two")
    assert load_data(str(first)).fingerprint == load_data(str(tmp_path / "two")).fingerprint
