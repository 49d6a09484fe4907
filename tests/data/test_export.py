"""Export: reading it back gives the same truth, and the folder appears whole or not at all."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from pycocotools.coco import COCO

from misdetect.data import load_data
from misdetect.data.dataset import Dataset, Sample
from misdetect.data.export import export_coco, whole_folder
from misdetect.data.faults import ExportRefused
from misdetect.data.images import ImageMissing
from misdetect.data.procedural.bikes.parts import PARTS
from misdetect.nouns.detections import STATES, Truth
from misdetect.nouns.masks import Masks
from misdetect.nouns.picture import Pixels, digest

COCO66 = Path(__file__).parents[2] / "../shared/fixtures/coco66/instances.json"
WIDTH, HEIGHT = 24, 16


class Drawn:
    """Procedural pixels."""

    def __init__(self, seed: int) -> None:
        self.pixels: Pixels = np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)

    def read(self) -> Pixels:
        return self.pixels

    def key(self) -> str:
        return digest(self.pixels)


def close(one: Truth, two: Truth) -> None:
    np.testing.assert_allclose(one.boxes, two.boxes, rtol=0, atol=1e-9)  # x + (x1 - x) may differ in the last bit
    np.testing.assert_array_equal(one.labels, two.labels)
    np.testing.assert_array_equal(one.crowd, two.crowd)
    np.testing.assert_array_equal(one.areas, two.areas)
    assert one.states == two.states
    for i in range(len(one)):
        has = one.masks is not None and one.masks.has(i)
        assert has == (two.masks is not None and two.masks.has(i))
        if has:
            np.testing.assert_array_equal(one.masks[i], two.masks[i])


@st.composite
def truths(draw: st.DrawFn, count: int, masks: bool, states: bool) -> Truth:
    low = st.tuples(st.floats(2, 11), st.floats(2, 7))
    boxes = [
        (x, y, x + draw(st.floats(1, 12)), y + draw(st.floats(1, 8)))
        for x, y in draw(st.lists(low, min_size=count, max_size=count))
    ]
    seed = draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    return Truth(
        np.array(boxes).reshape(-1, 4),
        rng.permutation(22)[:count],
        ids=draw(st.sampled_from([np.arange(count), 100 * (seed + 1) + np.arange(count)])),
        crowd=rng.random(count) < 0.2,
        areas=rng.uniform(1, 90, count),
        states=tuple(rng.choice(STATES, count).tolist()) if states else None,
        masks=Masks.from_array(rng.random((count, HEIGHT, WIDTH)) < 0.3) if masks and count else None,
    )


@st.composite
def datasets(draw: st.DrawFn) -> Dataset:
    masks, states = draw(st.booleans()), draw(st.booleans())
    numbers: list[int | str] = draw(st.sampled_from([[5, 3, 9], ["a", "b", "c"], ["", "", ""]]))
    found = [draw(truths(draw(st.integers(1, 4)), masks, states)) for _ in numbers]
    samples = [Sample(f"s{i}", Drawn(i), truth, WIDTH, HEIGHT, numbers[i]) for i, truth in enumerate(found)]
    return Dataset("made:", PARTS, len(samples), samples.__getitem__, fingerprint="made")


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(dataset=datasets())
def test_reading_an_export_gives_the_same_truth(tmp_path_factory: pytest.TempPathFactory, dataset: Dataset) -> None:
    out = tmp_path_factory.mktemp("export") / "new"
    written = export_coco(dataset, out)
    again = load_data(f"coco:{out / 'instances.json'}")
    assert again.names == dataset.names
    assert again.category_ids == dataset.category_ids
    assert written["annotations"] == sum(len(sample.truth) for sample in again)
    for one, two in zip(dataset, again, strict=True):
        close(one.truth, two.truth)
        np.testing.assert_array_equal(one.image, two.image)
    ids = [i for sample in again for i in sample.truth.ids.tolist()]
    assert len(set(ids)) == len(ids)
    assert all(isinstance(sample.image_id, int) for sample in again)
    if dataset[0].truth.states is not None:
        bikes = load_data(f"delftbikes:{out / 'delftbikes.json'}")
        for one, two in zip(dataset, bikes, strict=True):
            order = np.argsort(one.truth.labels)  # the format keys parts by name, so their order is lost
            np.testing.assert_allclose(one.truth.boxes[order], two.truth.boxes, atol=1e-9)
            assert one.truth[order].states == two.truth.states


@pytest.mark.skipif(not COCO66.exists(), reason="needs ../shared/fixtures/coco66")
def test_pycocotools_reads_the_export_of_real_data_as_the_original(tmp_path: Path) -> None:
    dataset = load_data(f"coco:{COCO66}").limit(12)
    export_coco(dataset, tmp_path / "out")
    with contextlib.redirect_stdout(io.StringIO()):
        before, after = COCO(str(COCO66)), COCO(str(tmp_path / "out" / "instances.json"))
    assert len(after.anns) == sum(len(sample.truth) for sample in dataset)
    for number, record in after.anns.items():
        original = before.anns[number]
        np.testing.assert_allclose(record["bbox"], original["bbox"], atol=1e-9)
        for field in ("area", "iscrowd", "image_id", "category_id"):
            assert record[field] == original[field]
        np.testing.assert_array_equal(after.annToMask(record), before.annToMask(original))
    name = after.imgs[dataset[3].image_id]["file_name"]
    assert (tmp_path / "out" / "images" / name).read_bytes() == (COCO66.parent / "images" / name).read_bytes()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    sample = Sample("s", Drawn(0), Truth.empty(), WIDTH, HEIGHT)
    dataset = Dataset("made:", PARTS, 1, lambda _: sample, fingerprint="")
    with pytest.raises(ExportRefused, match="not empty"):
        export_coco(dataset, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_every_system_can_have_the_names_of_an_export(tmp_path: Path) -> None:
    names = ["nul.png", 'what? "it" is|.png', "a/CON./b.png", "x\\y.png", "one.png", "ONE.png", "plain é.png"]
    samples = [Sample(name, Drawn(i), Truth.empty(), WIDTH, HEIGHT, i, name) for i, name in enumerate(names)]
    export_coco(Dataset("made:", PARTS, len(names), samples.__getitem__, fingerprint="made"), tmp_path / "out")
    images = tmp_path / "out" / "images"
    written = [path.relative_to(images).as_posix() for path in images.rglob("*.png")]
    wanted = {"_nul.png", "what_ _it_ is_.png", "a/CON_/b.png", "x_y.png", "one.png", "ONE-6.png", "plain é.png"}
    assert set(written) == wanted
    after = load_data(f"coco:{tmp_path / 'out' / 'instances.json'}")
    for sample, drawn in zip(after, samples, strict=True):
        np.testing.assert_array_equal(sample.image, drawn.source.read())


def test_two_exports_into_one_folder_are_not_mixed(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "out") as partial:
        (partial / "mine").touch()
        with pytest.raises(ExportRefused, match="by another process"), whole_folder(tmp_path / "out"):
            pass
        assert [path.name for path in partial.iterdir()] == ["mine"]
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "mine"]


def test_a_failing_export_leaves_nothing_behind(tmp_path: Path) -> None:
    images = [{"id": i, "file_name": f"{i}.png", "width": 4, "height": 4} for i in (1, 2)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(json.dumps({"images": images, "categories": []}))
    Image.new("RGB", (4, 4)).save(tmp_path / "in" / "1.png")
    with pytest.raises(ImageMissing, match=r"2\.png"):
        export_coco(load_data(f"coco:{tmp_path / 'in' / 'a.json'}"), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
