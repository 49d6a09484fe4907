"""The papers' own tables, with our numbers in them: as rows, the first of them the head, and as Markdown. They read the
result files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from papers.catalogue import Catalogue, Paper
from papers.verdicts import Results

_ROWS = {"affected": "affected", "class_agnostic": "class-agnostic", "occlusion_20": "Occ-20", "no_occlusion": "No-Occ"}


def tables(number: int, catalogue: Catalogue, results: Results) -> Iterator[str]:
    """The tables of paper ``number``."""
    paper = catalogue.papers[number - 1]
    made = {1: _transplanting, 2: _parts, 3: _mechanisms, 4: _insertion, 5: _attacks}[number]
    yield from made(paper, catalogue, results)


Known = Iterator[tuple[str, str, Mapping[str, Any]]]
Rows = list[list[Any]]


def known(paper: Paper, run: str, catalogue: Catalogue, results: Results) -> Known:
    """The subjects of a run that have a result: name, how they are called, document."""
    for name in paper.runs[run]["subjects"]:
        if (found := results.of(run, name)) is not None:
            yield name, catalogue.subjects[name].called, found["document"]


def _transplanting(paper: Paper, catalogue: Catalogue, results: Results) -> Iterator[str]:
    taus = paper.printed["tau"]
    rows = [["% of positions", "", *(f"τ = {tau}" for tau in taus)]]
    for key, name in _ROWS.items():
        rows.append([f"**{name}**", "paper", *(f"{value}" for value in paper.printed[key])])
        for _, called, document in known(paper, "scan", catalogue, results):
            control = document["control"]
            values = [f"{_percent(document[key][tau])} / {_percent(control[key][tau])}" for tau in taus]
            rows.append(["", called, *values])
    yield f"**Table I**, object / control.\n\n{markdown_table(rows)}"


def _parts(paper: Paper, catalogue: Catalogue, results: Results) -> Iterator[str]:
    yield f"**Table 1** (the paper's YOLO is YOLOv3).\n\n{markdown_table(verification(paper, catalogue, results))}"


def verification(paper: Paper, catalogue: Catalogue, results: Results) -> Rows:
    """Table 1 of paper 2."""
    rows: Rows = [["R_P / R_M / F_vv", "", "paper", "score ≥ .05", "score ≥ .5"]]
    for kind, title in (("with_localisation", "with localisation"), ("without_localisation", "without localisation")):
        for name, printed in paper.printed.items():
            if kind in printed:
                first = "whole-image" if name == "mcml-bikes" else "parts"
                measured = [results.of(run, name) for run in (first, "careful")]
                cells = ["–" if found is None else _three(found["document"][kind]) for found in measured]
                called = catalogue.subjects[name].called
                rows.append([title, called, " / ".join(f"{v:.2f}" for v in printed[kind]), *cells])
    return rows


def _three(said: Mapping[str, Any]) -> str:
    return " / ".join(
        "–" if said[name] is None else f"{said[name]:.3f}" for name in ("present_recall", "missing_recall", "f_vv")
    )


def _mechanisms(paper: Paper, catalogue: Catalogue, results: Results) -> Iterator[str]:
    names = [*paper.printed["faster-rcnn"], "unknown"]
    rows = [["% of the misses", "objects", "missed", *names, "TIDE: Miss, Cls, Loc, Both"]]
    for name, printed in paper.printed.items():
        rows.append(
            [f"paper, {catalogue.subjects[name].called}", "–", "–", *(_percent(printed.get(n)) for n in names), "–"]
        )
    for _, called, document in known(paper, "explain", catalogue, results):
        missed, found = max(document["missed"], 1), document["mechanisms"]
        shares = [_percent(100 * found.get(name, 0) / missed) for name in names]
        types = ", ".join(f"{100 * document['tide'][name] / missed:.1f}" for name in ("Miss", "Cls", "Loc", "Both"))
        rows.append([called, document["objects"], document["missed"], *shares, types])
    yield f"**Fig. 3 as a table.**\n\n{markdown_table(rows)}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _insertion(paper: Paper, catalogue: Catalogue, results: Results) -> Iterator[str]:
    yield from map(markdown_table, failures(paper, catalogue, results))
    if rows := retraining(paper, results):
        yield markdown_table(rows)


def failures(paper: Paper, catalogue: Catalogue, results: Results) -> tuple[Rows, Rows]:
    """Table 1 of paper 4, and its Tables 3 and 4 side by side."""
    printed = paper.printed["all eight"]
    counted = ("synthetic images", "detected objects", "images causing failures")
    first: Rows = [["Table 1", *counted, "only flicker", "distinct, attributable", "of these harmful"]]
    third: Rows = [["Tables 3 and 4", "inserted, failing", "relocated", "unique", "HOG % inserted", "relocated"]]
    names = ("inserted", "relocated", "unique", "natural", "natural_relocated")
    first.append(["paper, all eight", printed["images"], printed["objects"], printed["failing"], "–", "–", "–"])
    third.append(["paper, all eight", *(printed[name] for name in names)])
    for _, called, document in known(paper, "guided", catalogue, results):
        one, three, four = (document["tables"][number] for number in ("1", "3", "4"))
        ours = [one[name] for name in ("synthetic_images", "detected_objects", "images_causing_failures")]
        first.append([called, *ours, document["flicker"], document["attributable"], document["harm"]["harmful"]])
        natural = [_percent(four[name]) for name in ("inserted", "relocated")]
        third.append([called, three["inserted"], three["relocated"], three["relocated_unique"], *natural])
    return first, third


def retraining(paper: Paper, results: Results) -> Rows:
    """The table of section 6.4 of paper 4; nothing where nothing was retrained."""
    retrained = results.of("retraining", "ssd")
    if retrained is None:
        return []
    rows: Rows = [["Retraining", "paper, mAP", "AP", "AP50 with inserted objects"]]
    for name, mean in paper.printed["retraining"].items():
        test = retrained["document"]["configurations"][name]["test"]
        rows.append([name, mean, *(f"{test[key]['mean']:.3f}" for key in ("AP", "edited_AP50"))])
    return rows


def _attacks(paper: Paper, catalogue: Catalogue, results: Results) -> Iterator[str]:
    rows = [["AP50", "clean", "noise", "cls", "loc", "R_all, cls", "R_all, loc", "ladder"]]
    for _, called, document in known(paper, "attack", catalogue, results):
        attacks, ablated = document["attacks"], document["clsaval"]
        values = [document["clean"], attacks["noise"], attacks["cls"], attacks["loc"]]
        values += [ablated[loss]["r_all"] for loss in ("cls", "loc")]
        ladder = document["ladder"] or {}
        rows.append([called, *(f"{value['AP50']:.3f}" for value in values), ladder.get("verdict") or "not climbed"])
    yield f"**Figs. 2 and 6 as a table.**\n\n{markdown_table(rows)}"


def markdown_table(rows: Sequence[Sequence[object]]) -> str:
    """``rows``, the first of them the head."""
    lines = [f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
