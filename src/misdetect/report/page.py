"""The report of runs as one self-contained HTML page: its numbers, what is wrong, a line per study, the failures one by
one, then each study with its charts. It works from ``file://`` and loads nothing.

The page is a view of the ledger: the front end (``front/``) asks a source for rows and pictures, and here that source
is inside the page. Names of classes, files and detectors only ever become text.
"""

import base64
import html
import json
import shlex
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.drawing.inline import json_block, packed_block, whole_page
from misdetect.drawing.scenes import Row
from misdetect.drawing.values import Chart, called
from misdetect.engine.store import Run
from misdetect.kept.files import write_atomically
from misdetect.report.album import Album, webp
from misdetect.report.embedded import as_columns, counted, page_rows
from misdetect.report.lead import behind_findings, beside, facts_of, headed, telling, top_findings
from misdetect.report.markup import paragraphs, section, settings_table, text, words_block
from misdetect.report.scenes import detections, draw_scenes, image_records, stages, take_photos
from misdetect.report.views import charts_of
from misdetect.said.errors import MisdetectError
from misdetect.said.glossary import WORDS
from misdetect.said.printable import without_folders
from misdetect.studies.contract import Document, Fact
from misdetect.studies.kinds import kind_of, reported_by, words

LARGEST = 5_000_000
"""Bytes of a page. Rows come first, then figures and boxes; pictures take what is left."""
FIGURES, _BOXES = 1_000_000, 600_000
"""Bytes of figures, and what is set aside for boxes, packed."""
_WIDEST, _HALF = 1240, 1000
"""Pixels of a figure's width; larger ones are made smaller, and those beyond the second take the whole width."""
_WIDE = {"matrix": 18, "table": 6, "heat": -1}
"""Columns beyond which a chart of that kind takes the whole width of the page."""


class Shown(Protocol):
    """What the page wants of a run."""

    @property
    def directory(self) -> Run: ...
    @property
    def document(self) -> Document: ...
    @property
    def data(self) -> Dataset: ...
    @property
    def sentences(self) -> list[str]: ...
    def figures(self, most: int) -> Sequence[Path]: ...


def report_page(
    path: Path,
    title: str,
    runs: Mapping[str, Shown],
    *,
    findings: Sequence[Mapping[str, Any]] | None = None,
    skipped: Sequence[Mapping[str, str]] = (),
    facts: Sequence[Fact] = (),
    footer: Mapping[str, Any] | None = None,
    most: int = 4,
) -> Path:
    """Write the page of ``runs`` by study to ``path``. Where there are ``findings`` (even none) they come first, below
    the numbers of the studies and ``facts``; ``footer`` is told at the end; with ``most`` 0 there are no pictures, else
    at most so many of each kind among the figures."""
    rows, left_out = page_rows({study: run.directory for study, run in runs.items()}, _reported(runs))
    _as_sent(rows, runs, path)
    data, lacking = _opened(runs)
    charts = {
        study: charts_of(study, run.directory, run.document, counted(rows, study), data.get(study))
        for study, run in runs.items()
    }
    behinds = behind_findings(findings or (), {study: run.document for study, run in runs.items()})
    parts = _parts(runs, charts, data, most)
    top = "" if findings is None else top_findings(findings, behinds)
    numbers = facts_of({study: (run.directory, run.document) for study, run in runs.items()}, _reported(runs))
    head = f'<header><p class="kicker">misdetect report</p><h1>{text(title)}</h1>{headed([*numbers, *facts])}</header>'
    body = [head, _navigation(runs, findings is not None), "<main>", top, _overview(runs, skipped),
            _gallery(rows, left_out, lacking), *parts]  # fmt: skip
    body += [words_block(" ".join([*body, json.dumps(charts)])), "</main>", _footer(footer)]
    kept, written = packed_block("report-rows", as_columns(rows)), "".join(body)
    album = Album(LARGEST - _BOXES - len(kept) - len(written) - len(whole_page("", "", " ")) if most else 0)
    first = [row for each in behinds for row in telling(each, rows)]
    meta = _meta(runs, [*first, *rows], data, album, _mapped(charts))
    meta["charts"] = {name: chart for study, own in charts.items() for name, chart in named_charts(study, own).items()}
    meta["findings"] = [beside(each) for each in behinds]
    meta["where"] = "in the folder of this page"
    blocks = packed_block("report-data", meta) + kept + json_block("report-pictures", album.pictures)
    write_atomically(path, whole_page(without_folders(title), written, blocks).encode())
    return path


def run_page(run: Shown, path: Path, most: int) -> Path:
    """Write the page of one run to ``path``."""
    document = run.document
    title = f"{document['study']}: {called(document)}"
    return report_page(path, title, {document["study"]: run}, footer=identity(run.directory), most=most)


def _as_sent(rows: Sequence[Row], runs: Mapping[str, Shown], path: Path) -> None:
    """Commands that ask again as they are given in the folder of the page: a run there by its name. Of one that is
    elsewhere only its folder is named; an address in a store is the same for everybody."""
    page = path.resolve().parent
    names = {}
    for run in runs.values():
        own, address = run.directory.path.resolve(), run.directory.address
        if "://" in address:
            continue
        near = own.relative_to(page).as_posix() if own.is_relative_to(page) else own.name
        names[f"misdetect replay {shlex.quote(address)} "] = f"misdetect replay {shlex.quote(near)} "
    for row in rows:
        for whole, short in names.items():
            if row["replay"] and row["replay"].startswith(whole):
                row["replay"] = short + row["replay"][len(whole) :]
                break


def _parts(
    runs: Mapping[str, Shown], charts: Mapping[str, Sequence[Chart]], data: Mapping[str, Dataset], most: int
) -> list[str]:
    """What each study found, with its charts and those figures that are no charts, as HTML."""
    parts, seen, room = [], set[bytes](), [FIGURES]
    for study, run in runs.items():
        drawn = _figures(run, most) if run.document["finished"] and study in data and most else []
        shown = chart_places(named_charts(study, charts[study])) + figures(drawn, seen, room, captions_of(study))
        found = paragraphs(run.sentences) + (f'<div class="charts">{shown}</div>' if shown else "")
        parts.append(section(study, kind_of(study).title, found + settings_table(run.document["settings"])))
    return parts


def _reported(runs: Mapping[str, Shown]) -> float:
    """From which score on a detection is reported."""
    return reported_by({study: run.document["settings"].get("score") for study, run in runs.items()})


def _opened(runs: Mapping[str, Shown]) -> tuple[dict[str, Dataset], str]:
    """The data of each run that can be opened, and why one cannot: a run can be shown without its photos."""
    found, why = dict[str, Dataset](), ""
    for study, run in runs.items():
        try:
            found[study] = run.data
        except MisdetectError as error:
            why = str(error)
    return found, why


def named_charts(study: str, charts: Sequence[Chart]) -> dict[str, Chart]:
    """Charts by the names of their places."""
    return {f"{study}-{i}": chart for i, chart in enumerate(charts)}


def _mapped(charts: Mapping[str, Sequence[Chart]]) -> list[str]:
    """The images that maps are drawn on."""
    return [each["image"] for own in charts.values() for chart in own for each in chart.get("maps", ())]


def _meta(
    runs: Mapping[str, Shown], rows: Sequence[Row], data: Mapping[str, Dataset], album: Album, mapped: Sequence[str]
) -> dict[str, Any]:
    """Images and scenes, with their pictures in ``album``; the photos of those that are ``mapped`` first."""
    meta: dict[str, Any] = {"images": {}, "scenes": {}, "reported": _reported(runs), "words": words()}
    meta["glossary"] = dict(WORDS)
    if data:
        directories = {study: run.directory for study, run in runs.items()}
        largest = max(data.values(), key=len)
        wanted = dict.fromkeys([*mapped, *(row["image"] for row in rows)])
        meta["images"] = image_records(detections(directories), largest, wanted)
        take_photos(mapped, meta["images"], largest, album)
        meta["scenes"] = draw_scenes(rows, meta["images"], largest, stages(directories, data), album)
    return meta


def _navigation(runs: Mapping[str, Shown], found: bool) -> str:
    links = {"wrong": "What is wrong"} if found else {}
    links |= {"studies": "Study by study", "failures": "Failures"} | {study: study for study in runs}
    shown = "".join(f'<a href="#{to}">{name}</a>' for to, name in links.items())
    return f'<nav aria-label="parts of the page"><div>{shown}</div></nav>'


def _overview(runs: Mapping[str, Shown], skipped: Sequence[Mapping[str, str]]) -> str:
    lines = [(f'<a href="#{study}">{study}</a>', "", (run.sentences or ["–"])[0]) for study, run in runs.items()]
    lines += [(html.escape(each["study"]), ' class="skipped"', f"not run: {each['why']}") for each in skipped]
    table = "".join(f"<tr{kind}><td>{study}</td><td>{text(said)}</td></tr>" for study, kind, said in lines)
    return section("studies", "Study by study", f'<table class="overview">{table}</table>')


def _gallery(rows: Sequence[Row], left_out: int, lacking: str) -> str:
    if not rows:
        return section("failures", "Failures, one by one", "<p>There is nothing to look at one by one.</p>")
    said = (
        "Every row of the ledger with its picture. A click, or Enter, opens the evidence and the command that asks "
        "again; a click on any mark of the charts below shows exactly the rows behind it here."
    )
    if left_out:
        said += f" {left_out:,} rows of the lowest scores are left out to keep the page small."
    if lacking:
        said += f" Photos are lacking: {text(lacking)}"
    warned = "<noscript><p>Charts and gallery need JavaScript, which is switched off here.</p></noscript>"
    return section("failures", "Failures, one by one", f"<p>{said}</p>{warned}<md-gallery></md-gallery>"
                    "<md-evidence></md-evidence>")  # fmt: skip


def chart_places(charts: Mapping[str, Chart]) -> str:
    """Where the front end puts the charts."""
    return "".join(
        f'<div data-chart="{name}" class="{"wide" if _is_wide(chart) else "half"}"></div>'
        for name, chart in charts.items()
    )


def _is_wide(chart: Chart) -> bool:
    return chart["kind"] in _WIDE and len(chart.get("columns", ())) > _WIDE[chart["kind"]]


def _figures(run: Shown, most: int) -> list[Path]:
    """The figures of ``run`` that the page does not have as charts or gallery; where it has all, none is drawn."""
    figures = kind_of(run.document["study"]).figures
    if figures is None or "*" in figures.live or not figures.beyond(run.document):
        return []
    return [path for path in run.figures(most) if not any(fnmatch(path.stem, pattern) for pattern in figures.live)]


def captions_of(study: str) -> Mapping[str, str]:
    """What the figures of a study are called, by the names of their files."""
    figures = kind_of(study).figures
    return {} if figures is None else figures.captions


def figures(paths: Sequence[Path], seen: set[bytes], room: list[int], captions: Mapping[str, str] | None = None) -> str:
    """The PNG files among ``paths``, embedded, smaller where they are wide, but for those ``seen`` already and those
    for which no ``room`` (bytes, counted down) is left."""
    found = []
    for path in paths:
        if path.suffix == ".png" and (data := path.read_bytes()) not in seen:
            seen.add(data)
            kind, small, wide = _smaller(data)
            source = base64.b64encode(small).decode()
            room[0] -= len(source)
            if room[0] < 0:
                break
            name = html.escape((captions or {}).get(path.stem, path.stem))
            image = f'<img alt="{name}" src="data:image/{kind};base64,{source}">'
            place = "wide" if wide else "half"
            figure = f'<figure class="figure">{image}<figcaption>{name}</figcaption></figure>'
            found.append(f'<div class="{place}">{figure}</div>')
    return "".join(found)


def _smaller(data: bytes) -> tuple[str, bytes, bool]:
    """A PNG file as it is; smaller where it is wide, and as WebP where that is much less: then it shows photos. Then
    its media type, and whether it needs the whole width."""
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        return "png", data, False
    wide = image.shape[1] > _HALF
    if image.shape[1] > _WIDEST:
        scale = _WIDEST / image.shape[1]
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        done, smaller = cv2.imencode(".png", image)
        data = smaller.tobytes() if done else data
    photo = webp(np.asarray(image[:, :, ::-1]), 80)
    return ("webp", photo, wide) if len(photo) < 0.5 * len(data) else ("png", data, wide)


def identity(run: Run) -> dict[str, Any]:
    """What a run was made of, by names and hashes."""
    detector, data = run.about["identity"]["detector"], run.about["identity"]["data"]
    return {
        "detector": detector["spec"],
        "detector fingerprint": detector["fingerprint"],
        "detector settings": run.about["detector_settings"],
        "data": data["spec"],
        "data fingerprint": data["fingerprint"],
        "images": data["images"],
        "run": run.about["id"],
    }


def _footer(told: Mapping[str, Any] | None) -> str:
    rows = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{text(value if isinstance(value, str) else json.dumps(value))}</dd>"
        for name, value in (told or {}).items()
    )
    return f"<footer><h2>Settings and hashes</h2><dl>{rows}</dl></footer>"
