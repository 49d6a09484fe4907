"""The report of runs as one self-contained HTML page: what is wrong, a line per study, the failures one by one, then
each study with its charts. It works from ``file://`` and loads nothing.

The page is a view of the ledger: the front end (``front/``) asks a source for rows and pictures, and here that source
is inside the page. Names of classes, files and detectors only ever become text.
"""

import base64
import html
import json
from collections.abc import Container, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np

from misdetect.data.dataset import Dataset
from misdetect.drawing.inline import json_block, whole_page
from misdetect.drawing.scenes import Row
from misdetect.drawing.values import Chart
from misdetect.engine.store import Run
from misdetect.kept.files import write_atomically
from misdetect.report.album import Album
from misdetect.report.embedded import as_columns, counted, page_rows
from misdetect.report.scenes import detections, draw_scenes, image_records, stages, take_photos
from misdetect.report.views import charts_of
from misdetect.said.errors import MisdetectError
from misdetect.said.glossary import WORDS, used
from misdetect.studies.contract import Document
from misdetect.studies.kinds import kind_of, reported_by, words

LARGEST = 24_000_000
"""Bytes of a page. Rows come first, then figures and boxes; pictures take what is left."""
PICTURES, FIGURES, _BOXES = 14_000_000, 4_000_000, 3_000_000
"""Bytes of photos and edits, of figures, and what is set aside for boxes, as text."""
_TOP = 5
_WIDEST, _HALF = 1400, 1000
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
    footer: Mapping[str, Any] | None = None,
    most: int = 4,
) -> Path:
    """Write the page of ``runs`` by study to ``path``. Where there are ``findings`` (even none) they come first;
    ``footer`` is told at the end; with ``most`` 0 there are no pictures, else at most so many of each kind among the
    figures."""
    finished = {study: run for study, run in runs.items() if run.document["finished"]}
    rows, left_out = page_rows({study: run.directory for study, run in runs.items()}, _reported(runs))
    data, lacking = _opened(runs)
    charts = {
        study: charts_of(study, run.directory, run.document, counted(rows, study), data.get(study))
        for study, run in runs.items()
    }
    kept = as_columns(rows)
    left = LARGEST - FIGURES - _BOXES - len(json.dumps(kept))
    album = Album(min(PICTURES, left) if most else 0)
    meta = _meta(runs, rows, data, album, _mapped(charts))
    meta["charts"] = {name: chart for study, own in charts.items() for name, chart in named_charts(study, own).items()}
    parts, seen, room = [], set[bytes](), [FIGURES]
    for study, run in runs.items():
        drawn = _figures(run, most) if study in finished and study in data and most else []
        shown = chart_places(named_charts(study, charts[study])) + figures(drawn, seen, room, captions_of(study))
        found = paragraphs(run.sentences) + (f'<div class="charts">{shown}</div>' if shown else "")
        found += settings_table(run.document["settings"])
        parts.append(section(study, kind_of(study).title, found))
    failing = {row["study"] for row in rows if row["failure"]}
    top = "" if findings is None else top_findings(findings, failing)
    body = [f'<header><p class="kicker">misdetect report</p><h1>{html.escape(title)}</h1></header>', _navigation(runs)]
    body += ["<main>", top, _overview(runs, skipped), _gallery(rows, left_out, lacking), *parts, "</main>"]
    body[-1:] = [words_block(" ".join([*body, json.dumps(charts)])), "</main>"]
    body.append(_footer(footer))
    blocks = json_block("report-data", {"meta": meta, "rows": kept})
    blocks += json_block("report-pictures", album.pictures)
    write_atomically(path, whole_page(title, "".join(body), blocks).encode())
    return path


def run_page(run: Shown, path: Path, most: int) -> Path:
    """Write the page of one run to ``path``."""
    document = run.document
    title = f"{document['study']}: {document['detector'] or 'a detector'} on {document['data']}"
    return report_page(path, title, {document["study"]: run}, footer=identity(run.directory), most=most)


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


def top_findings(findings: Sequence[Mapping[str, Any]], failing: Container[str] = ()) -> str:
    """The worst findings as HTML, each with what to do about it, and a way to its failures where its study is among
    those ``failing``; that there are none, where there are none."""
    if not findings:
        found = '<p class="fine">Nothing is wrong that these studies could find.</p>'
        return f'<section class="part" id="wrong"><h2>What is wrong</h2>{found}</section>'
    items = "".join(
        f'<li><div><p class="what"><a href="#{each["study"]}">{html.escape(each["sentence"])}</a></p>'
        f'<p class="do"><b>What to do:</b> {html.escape(each["advice"])}</p>{_way(each["study"], failing)}</div></li>'
        for each in findings[:_TOP]
    )
    return (
        f'<section class="part" id="wrong"><h2>What is wrong, the worst first</h2><ol class="findings">{items}</ol>'
        "</section>"
    )


def _way(study: str, failing: Container[str]) -> str:
    return f'<button type="button" data-failures="{study}">see the failures</button>' if study in failing else ""


def _navigation(runs: Mapping[str, Shown]) -> str:
    links = {"studies": "Study by study", "failures": "Failures"} | {study: study for study in runs}
    shown = "".join(f'<a href="#{to}">{name}</a>' for to, name in links.items())
    return f"<nav><div>{shown}</div></nav>"


def _overview(runs: Mapping[str, Shown], skipped: Sequence[Mapping[str, str]]) -> str:
    lines = [(f'<a href="#{study}">{study}</a>', "", (run.sentences or ["–"])[0]) for study, run in runs.items()]
    lines += [(html.escape(each["study"]), ' class="skipped"', f"not run: {each['why']}") for each in skipped]
    table = "".join(f"<tr{kind}><td>{study}</td><td>{html.escape(said)}</td></tr>" for study, kind, said in lines)
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
        said += f" Photos are lacking: {html.escape(lacking)}"
    warned = "<noscript><p>Charts and gallery need JavaScript, which is switched off here.</p></noscript>"
    return section("failures", "Failures, one by one", f"<p>{said}</p>{warned}<md-gallery></md-gallery>"
                    "<md-evidence></md-evidence>")  # fmt: skip


def words_block(text: str) -> str:
    """What the words in ``text`` mean, folded; nothing where none is explained."""
    found = used(text)
    told = "".join(f"<dt>{html.escape(word)}</dt><dd>{html.escape(gloss)}</dd>" for word, gloss in found.items())
    return f'<details class="words"><summary>What the words mean</summary><dl>{told}</dl></details>' if told else ""


def section(name: str, title: str, content: str) -> str:
    """A part of a page, as HTML."""
    return f'<section class="part" id="{name}"><h2>{title}</h2>{content}</section>'


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


def paragraphs(sentences: Sequence[str]) -> str:
    """``sentences`` as HTML."""
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


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
    """A PNG file as it is; smaller where it is wide, and as JPEG where that is much less: then it shows photos. Then
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
    done, photo = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 88])
    return ("jpeg", photo.tobytes(), wide) if done and len(photo) < 0.5 * len(data) else ("png", data, wide)


def settings_table(settings: Mapping[str, Any]) -> str:
    """``settings`` as HTML, folded."""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(json.dumps(value))}</td></tr>"
        for name, value in sorted(settings.items())
    )
    return f"<details><summary>Settings</summary><table>{rows}</table></details>"


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
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(value if isinstance(value, str) else json.dumps(value))}</dd>"
        for name, value in (told or {}).items()
    )
    return f"<footer><h2>Settings and hashes</h2><dl>{rows}</dl></footer>"
