"""Checkups side by side: study by study what ``comparison`` says of their runs, and which findings are fixed, new and
common.

Nothing is silently dropped: a study that only some have, or that cannot be compared, is said to be so in a sentence.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from misdetect.engine.store import RUN_JSON
from misdetect.kept.mirror import address_of, local_path
from misdetect.report import comparison
from misdetect.report.checkups import is_checkup, read_checkup
from misdetect.report.comparison import Compared, CompareSettings
from misdetect.said.errors import BadData, MisdetectError
from misdetect.studies.contract import Document

STUDY = "checkup"


def compare(paths: Sequence[Path], how: CompareSettings) -> Document:
    """The JSON-able document of the checkups, or of the runs of one study, at ``paths``."""
    folders = [path for path in paths if is_checkup(path)]
    if not folders:
        return comparison.compare(paths, how)
    if len(folders) < len(paths):
        other = next(path for path in paths if path not in folders)
        raise BadData(
            f"{folders[0]} is the folder of a checkup, which holds several runs, and {other} is not; compare it with "
            f"another checkup, or one of its runs, as {folders[0] / 'explain'}."
        )
    return _compare_checkups(paths, how)


def _compare_checkups(paths: Sequence[Path], how: CompareSettings) -> Document:
    resolved = comparison.distinct_places(paths)
    documents = [read_checkup(path) for path in paths]
    names = _called(documents, resolved)
    found = dict(zip(names, documents, strict=True))
    common, differing = comparison.settings_of(
        [Compared(name, path, STUDY, _settings(each), each, None) for (name, each), path in zip(found.items(), paths,
                                                                                                strict=True)]
    )  # fmt: skip
    studies, skipped = _studies(found, how)
    notes = [f"{study}: {note}" for study, each in studies.items() for note in each["notes"]]
    paired = {study: each for study, each in studies.items() if "differences" in each}  # others are only set beside
    why_not = [f"{study}: {why}" for study, each in paired.items() for why in each["why_not_paired"]]
    findings, unknown = _findings(found)
    return {
        "study": STUDY,
        "runs": [_entry(name, path, each) for (name, each), path in zip(found.items(), paths, strict=True)],
        "settings": common,
        "differing_settings": differing,
        "resampling": {"confidence": how.confidence, "seed": how.seed},
        **findings,
        "studies": studies,
        "skipped": skipped,
        "paired": not why_not,
        "why_not_paired": why_not,
        "notes": [*unknown, *notes],
    }


def _called(documents: Sequence[Document], places: Sequence[Path]) -> list[str]:
    """The checkups by their detectors, and where two are of the same one, by the ends of their paths too."""
    specs = [str(each["detector"]["spec"] or "a detector") for each in documents]
    if len(set(specs)) == len(specs):
        return specs
    return [f"{spec} ({end})" for spec, end in zip(specs, comparison.endings(places), strict=True)]


def _settings(document: Document) -> dict[str, Any]:
    detector = document["detector"]
    known = {"spec": detector["spec"], "level": detector["level"]}
    parts = {"settings": document["settings"], "data": document["data"], "detector": known}
    return comparison.flat({**parts, "detector_settings": detector["settings"]})


def _entry(name: str, path: Path, document: Document) -> Document:
    return {
        "name": name,
        "path": address_of(path),
        "detector": document["detector"]["spec"],
        "data": document["data"]["spec"],
        "images": document["data"]["images"],
        "studies": list(document["studies"]),
        "findings": len(document["findings"]),
    }


def _studies(checkups: Mapping[str, Document], how: CompareSettings) -> tuple[dict[str, Document], list[Document]]:
    """The comparison of each study that two checkups have or more, and why others are not compared."""
    studies: dict[str, Document] = {}
    skipped: list[Document] = []
    for study in _named(checkups.values()):
        runs = {name: local_path(each["out"]) / study for name, each in checkups.items() if study in each["studies"]}
        skipped += [{"study": study, "why": _lacks(name, study, each)} for name, each in checkups.items()
                    if name not in runs]  # fmt: skip
        for name in [name for name, path in runs.items() if not (path / RUN_JSON).exists()]:
            skipped.append(
                {"study": study, "why": f"{name}: its run is missing, {runs.pop(name)} is no run directory."}
            )
        if len(runs) < 2:
            continue
        try:
            found = comparison.compare(list(runs.values()), how, names=list(runs))
        except MisdetectError as error:
            skipped.append({"study": study, "why": str(error)})
            continue
        found["notes"] = found["notes"] or _other_images(found)
        studies[study] = found
    return studies, skipped


def _named(checkups: Collection[Document]) -> list[str]:
    """Every study that a checkup has, then those that it says it lacks."""
    known = [study for each in checkups for study in each["studies"]]
    return list(dict.fromkeys([*known, *(str(lacking["study"]) for each in checkups for lacking in each["skipped"])]))


def _lacks(name: str, study: str, document: Document) -> str:
    why = next((str(each["why"]) for each in document["skipped"] if each["study"] == study), "it was not run.")
    return f"{name} has no {study}: {why}"


def _other_images(found: Document) -> list[str]:
    """That runs saw different numbers of images, where the study has no more to say of it."""
    images = {run["name"]: run["images"] for run in found["runs"]}
    if len(set(images.values())) == 1:
        return []
    return [f"not the same images: {', '.join(f'{name} saw {count}' for name, count in images.items())}."]


def _findings(checkups: Mapping[str, Document]) -> tuple[dict[str, list[Document]], list[str]]:
    """``fixed_findings``, ``new_findings`` and ``common_findings`` of each checkup but the first, against that one;
    and a sentence for those of a study that one of the two lacks."""
    (first, base), *others = checkups.items()
    lists: dict[str, list[Document]] = {"fixed_findings": [], "new_findings": [], "common_findings": []}
    notes = []
    for name, other in others:
        was, now = ({(f["study"], f["kind"]): f for f in each["findings"]} for each in (base, other))
        for key in dict.fromkeys([*was, *now]):
            lacking = [who for who, each in ((first, base), (name, other)) if key[0] not in each["studies"]]
            told = (now.get(key) or was[key])["sentence"]
            if lacking:
                notes.append(f"whether this is fixed or new is not known, {lacking[0]} has no {key[0]}: {told}")
                continue
            word = "common" if key in was and key in now else "fixed" if key in was else "new"
            entry = {"study": key[0], "kind": key[1], "run": name, "first": was.get(key), "second": now.get(key)}
            lists[f"{word}_findings"].append(entry)
    return lists, notes
