"""The pictures of an explain run, drawn into its ``images`` folder: the panels, evidence per miss; and of several runs
side by side."""

from functools import partial
from pathlib import Path

from misdetect.data.dataset import Dataset
from misdetect.drawing import charts
from misdetect.drawing.figures import save_png, stacked, titled
from misdetect.drawing.scenes import places
from misdetect.engine.store import Run
from misdetect.said.errors import BadImage
from misdetect.studies.contract import Document, Figures
from misdetect.studies.documents import read_document
from misdetect.studies.explain.plots import comparison_page, distributions, evidence, legend, rates, three_panels


def draw(run: Run, data: Dataset, each: int = 4) -> list[Path]:
    """Draw Fig. 3 and, for every mechanism, ``each`` misses (of different images where there are enough, the largest
    objects first, since they can be seen). Returns the files; none where ``each`` is 0 or nothing was missed."""
    document = read_document(run)
    if not each or not document["missed"]:
        return []
    folder = run.path / "images"
    made = charts.draw(folder, {"mechanisms.png": partial(three_panels, document)})
    place = places(data)
    for name, count in document["mechanisms"].items():
        if not count:
            continue
        rows = run.query(
            "SELECT *, row_number() OVER (PARTITION BY image ORDER BY area DESC, id) AS turn FROM rows "
            "WHERE kind = 'object' AND mechanism = ? ORDER BY turn, area DESC, image, id LIMIT ?",
            [name, each],
        ).to_pylist()
        crops = []
        for row in rows:
            try:
                crops.append(titled(evidence(data[place[row["image"]]].image, row), f"{row['image']} #{row['id']}"))
            except BadImage:
                continue
        if crops:
            sheet = stacked([legend(), stacked(crops, sideways=True)])
            made.append(save_png(folder / f"{name}.png", titled(sheet, f"{name}: {count} misses")))
    return made


def draw_comparison(document: Document, folder: Path) -> list[Path]:
    """Fig. 5, as ``shares.png``, ``rates.png`` and ``compare.html``; nothing where no run missed anything."""
    if not any(run["missed"] for run in document["runs"]):
        return []
    made = charts.draw(folder, {"shares.png": partial(distributions, document), "rates.png": partial(rates, document)})
    return [*made, comparison_page(document, folder / "compare.html")] if made else []


FIGURES = Figures(draw, draw_comparison, live=("*",))
