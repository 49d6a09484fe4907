"""Hardening of detectors that are not of the zoo: by their specs, whose weights come back with ``weights=FILE``."""

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from hf_models import build  # noqa: E402
from training_toys import NAMES, squares, tiny  # noqa: E402

import misdetect as md  # noqa: E402
from misdetect.data.export import export_coco  # noqa: E402
from misdetect.data.memory import from_pairs  # noqa: E402
from misdetect.nouns.detections import Truth  # noqa: E402
from misdetect.said.errors import BadWeights  # noqa: E402

SMALL = {
    "steps": 2, "batch": 2, "checks": 1, "images": 4, "attacked": 1, "attack_steps": 1, "queries": 8, "watched": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Squares as a COCO file, without masks: nothing can be cut out of it."""
    images = squares(60)
    pairs = [(np.asarray(images.pixels[i]), Truth(*images.truth(i))) for i in range(len(images))]
    folder = tmp_path_factory.mktemp("photos") / "coco"
    export_coco(from_pairs(pairs, NAMES), folder)
    return f"coco:{folder / 'instances.json'}"


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("models")
    tiny().save(folder / "yolox.safetensors")
    (folder / "names.txt").write_text("\n".join(NAMES))
    module = build("deformable-refine")
    module.config.id2label = dict(enumerate([*NAMES, "elk", "fox", "gnu"]))
    module.save_pretrained(folder / "hf")
    return {
        "yolox": f"yolox:{folder / 'yolox.safetensors'},names={folder / 'names.txt'},size=64",
        "hf": f"hf:{folder / 'hf'}",
    }


@pytest.mark.heavy
@pytest.mark.parametrize("family", ["yolox", pytest.param("hf", marks=pytest.mark.heavy)])
def test_a_detector_is_hardened_and_loads_again_by_its_spec(family: str, specs, photos: str, tmp_path: Path) -> None:
    """These know nothing, so that nothing is better than nothing: what counts is that all of it runs."""
    found = md.harden(specs[family], photos, with_="adversarial", out=tmp_path / "out", **SMALL).document
    assert found["hardened"] == f"{specs[family]},weights={tmp_path / 'out' / 'weights.safetensors'}"
    skipped = {each["study"] for each in found["skipped"]}
    assert {"fuzz before", "fuzz after"} <= skipped  # no masks
    assert skipped <= {"fuzz before", "fuzz after", "attack before", "attack after"}  # nothing found, nothing to lose
    assert len(found["frontier"]) == 2
    again, own = md.load_detector(found["hardened"]), md.load_detector(specs[family])
    assert (again.fingerprint == own.fingerprint) == (found["guard"]["best_step"] == 0)


@pytest.mark.parametrize("family", ["yolox", "hf"])
def test_other_weights_come_with_the_spec(family: str, specs, tmp_path: Path) -> None:
    detector = md.load_detector(specs[family])
    plain = detector.fingerprint
    with torch.no_grad():
        detector.parameters()[0].add_(0.25)
    detector.save(tmp_path / "other.safetensors")
    again = md.load_detector(f"{specs[family]},weights={tmp_path / 'other.safetensors'}")
    assert again.fingerprint == detector.fingerprint != plain
    with pytest.raises(BadWeights, match="nowhere"):
        md.load_detector(f"{specs[family]},weights={tmp_path / 'nowhere.safetensors'}")


def test_an_object_is_hardened_in_place(photos: str, tmp_path: Path) -> None:
    """Without a spec there is none to load it by; the object holds the weights, and the file has them."""
    detector = tiny()
    del detector.spec
    found = md.harden(detector, photos, with_="adversarial:cwat", out=tmp_path / "out", **SMALL)
    assert found.document["hardened"] is None
    other = tiny(seed=3)
    other.load(found.weights)
    assert other.fingerprint == detector.fingerprint
