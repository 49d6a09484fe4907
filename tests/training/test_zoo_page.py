"""The page of the zoo is made of the manifest's numbers, and only its marked part is replaced."""

from pathlib import Path
from xml.etree import ElementTree

from zoo_page import curves, table, write_page

from misdetect.detectors.zoo.shipped import ZOO


def entry(ap50: float) -> dict:
    points = [{"step": s, "loss": 4.0 - s / 1000, "AP": 0.1, "AP50": ap50 * s / 2000} for s in (1000, 2000)]
    scores = {"AP": 0.5, "AP50": ap50, "AP75": 0.4, "AR100": 0.6}
    recipe = {"steps": 2000, "seed": 3}
    return {"scores": scores, "parameters": 1_230_000, "bytes": 2_500_000, "recipe": recipe, "curve": points}


def test_page_and_curves(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "zoo.md").write_text("before\n<!-- scores -->\nold\n<!-- end of scores -->\nafter\n")
    for _ in range(2):  # writing twice changes nothing more
        write_page(tmp_path, {"yolox": entry(0.9), "ssd": entry(0.6)})
    text = (tmp_path / "zoo.md").read_text()
    assert text.startswith("before\n<!-- scores -->")
    assert text.endswith("<!-- end of scores -->\nafter\n")
    assert "old" not in text
    assert "| `zoo:yolox` | 1.23 M | 2.5 MB | 0.500 | 0.900 | 0.400 | 0.600 | 2000 | 3 |" in text

    picture = ElementTree.parse(tmp_path / "images" / "zoo.svg").getroot()  # noqa: S314 - just written
    lines = [e.get("points") for e in picture.iter() if e.tag.endswith("polyline")]
    ends = [float(line.split()[-1].split(",")[1]) for line in lines]
    ssd, ssd_loss, yolox, yolox_loss = ends  # in the order of the zoo, AP50 and loss of each
    assert yolox < ssd  # a better score is higher up
    assert ssd_loss == yolox_loss


def test_a_robust_twin_is_dashed_in_the_colour_of_its_twin() -> None:
    shipped = {"yolox": entry(0.9), "yolox-robust": entry(0.8), "ssd": entry(0.7)}
    assert "`zoo:yolox-robust`" in table(shipped)
    picture = ElementTree.fromstring(curves(shipped))  # noqa: S314 - just made
    lines = [e for e in picture.iter() if e.tag.endswith("polyline")]
    ssd, yolox, robust = ((e.get("stroke"), e.get("stroke-dasharray")) for e in lines[::2])
    assert robust[0] == yolox[0] != ssd[0]
    assert ssd[1] is yolox[1] is None
    assert robust[1]


def test_the_legend_of_the_whole_zoo_fits() -> None:
    picture = ElementTree.fromstring(curves({name: entry(0.5) for name in ZOO}))  # noqa: S314 - just made
    texts = {e.text: float(e.get("y")) for e in picture.iter() if e.tag.endswith("text")}
    assert texts.keys() >= set(ZOO)
    assert max(texts.values()) < float(picture.get("viewBox").split()[3])
