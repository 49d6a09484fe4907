"""The document of a doctor run: findings, what was tried, and what the reference shows, out of its rows."""

from collections.abc import Sequence
from typing import Any

from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import resamples
from misdetect.metrics.paired import difference
from misdetect.nouns.boxes import SIDES
from misdetect.studies.contract import Document, Headline
from misdetect.studies.doctor.against import comparison, damage, pair
from misdetect.studies.doctor.answers import AS_IS, GIVEN, Evidence
from misdetect.studies.doctor.changes import Change
from misdetect.studies.doctor.observe import Finding, observe, observed
from misdetect.studies.doctor.readings import BOX_READINGS, SCORE_READINGS, SUPPRESSION
from misdetect.studies.doctor.rows import REFERENCE, answers_in, evidence_of
from misdetect.studies.doctor.search import QUERY, Diagnosis, Trial, Wiring, atoms, diagnose, split
from misdetect.studies.doctor.settings import DoctorSettings

DRAWS = 500
"""Resamples of the confirming images."""
_TUNING = 3.0
"""A change by which also a detector that is wired right may gain must gain so many times the margin."""


def document(run: Run) -> Document:
    """The JSON-able document of ``run``."""
    rows = run.query(
        f"SELECT kind, image, place, query, width, height, label, number, {', '.join(SIDES)}, score, crowd "
        "FROM rows ORDER BY case_index, row"
    ).to_pylist()
    how = DoctorSettings.of(run.chosen)
    identity = run.about["identity"]
    ids = {row["place"]: row["image"] for row in rows}
    images = max(ids, default=-1) + 1
    changes = {each["name"]: Change.of(each) for each in run.settings["changes"]}
    names, reference = identity["detector"]["names"], run.settings["reference_names"]
    space = identity["data"]["names"] if reference is None else reference
    evidence = evidence_of(rows, images, names, space, changes, how.score)
    places = {image: place for place, image in ids.items()}
    failed = {(e["case"][: -len(e["image"]) - 1], places.get(e["image"], -1)) for e in run.errors().to_pylist()}
    found = diagnose(evidence, images, failed) if images else None
    _, confirm = split(images)
    before = evidence.precision(AS_IS, GIVEN, confirm, pooled=True, strict=True).ap if found is not None else 0.0
    findings = [] if found is None else confirmed(evidence, found, confirm, how)
    if found is not None and not findings:
        findings = observe(evidence, range(images), before) if evidence.answers.get(AS_IS) else [_fails(run, before)]
    compared = None
    if reference is not None and evidence.answers.get(AS_IS):
        pairs = pair(answers_in(rows).get(REFERENCE, {}), evidence.answers[AS_IS], evidence.to_space, how.score)
        compared = comparison(pairs, space, [ids.get(i, "") for i in range(images)])
        if not findings:
            findings = damage(pairs, before)
    return {
        "findings": findings,
        "tried": [] if found is None else tried(evidence, found),
        "images": images,
        "objects": int((~evidence.objects.crowd).sum()),
        "before": before,
        "reference": compared,
        "settings": {"changes": list(changes), "choosing_images": len(split(images)[0]), "draws": DRAWS},
    }


def _fails(run: Run, before: float) -> Finding:
    """Of a detector that has not answered once."""
    first = run.errors().to_pylist()[0]["error"]
    return observed("fails", f"the detector fails on every image: {first}", "see that it answers at all", before)


def confirmed(evidence: Evidence, found: Diagnosis, confirm: Sequence[int], how: DoctorSettings) -> list[Finding]:
    """The changes that gain more than the margin on images that had no part in choosing them, the largest gain
    first."""
    if not found.asked:
        return []
    draws = resamples(len(confirm), DRAWS, how.seed)
    after = evidence.precision(found.chosen.query, found.chosen.reading, confirm, pooled=True, strict=False)
    after_ap = evidence.precision(found.chosen.query, found.chosen.reading, confirm, pooled=False, strict=False).ap
    findings: list[tuple[float, Finding]] = []
    for name, other in atoms(found.chosen):
        before = evidence.precision(other.query, other.reading, confirm, pooled=True, strict=True)
        gain, (low, high) = difference(after, before, draws, how.confidence)
        change = evidence.changes[name.removeprefix(QUERY)] if name.startswith(QUERY) else None
        tunes = _TUNING if name == "nms" or (change is not None and change.tunes) else 1.0
        if low <= how.margin * tunes:
            continue
        kind, text, fix = told(evidence, found.chosen, name, change)
        finding: Finding = {
            "change": text,
            "kind": kind,
            "before": before.ap,
            "after": after.ap,
            "interval": [low, high],
            "fix": fix,
            "ap_before": evidence.precision(other.query, other.reading, confirm, pooled=False, strict=True).ap,
            "ap_after": after_ap,
        }
        findings.append((gain, finding))
    return [finding for _, finding in sorted(findings, key=lambda each: -each[0])]


def told(evidence: Evidence, wiring: Wiring, name: str, change: Change | None) -> tuple[str, str, str]:
    """Kind, sentence and fix of one of the changes of ``wiring``."""
    if change is not None:
        return change.kind, change.change, change.fix
    reading = wiring.reading
    if name == "boxes":
        box = BOX_READINGS[reading.boxes]
        return "boxes", box.change, box.code
    if name == "labels":
        label = evidence.label_readings[reading.labels]
        return "labels", label.change, label.code
    if name == "scores":
        score = SCORE_READINGS[reading.scores]
        return "scores", score.change, score.code
    text = "non-maximum suppression is missing: objects are reported several times"
    return "suppression", text, f"keep = nms(boxes, scores, iou_threshold={SUPPRESSION})  # within each class"


def tried(evidence: Evidence, found: Diagnosis) -> list[dict[str, Any]]:
    """Every way of asking, with the best reading of its answers, and its fit on the choosing images; best first."""

    def entry(trial: Trial) -> dict[str, Any]:
        parts = evidence.parts(trial.wiring.query)
        readings = [
            told(evidence, trial.wiring, name, None)[1] for name, _ in atoms(trial.wiring) if not name.startswith(QUERY)
        ]
        changes = [change.change for change in parts] + readings
        return {
            "change": "; ".join(changes) or "as it is",
            "kind": parts[-1].kind if parts else "reading" if readings else "none",
            "before": found.plain.ap,
            "after": trial.fit.ap,
        }

    ranked = sorted(found.tried, key=lambda trial: -trial.fit.total)
    return [entry(trial) for trial in ranked]


def sentences(document: Document) -> list[str]:
    """What was found, the most important first."""
    images = document["images"]
    if not document["finished"]:
        return [f"Not finished: {document['done']} cases are done."]
    if not document["findings"]:
        return [
            f"No mistake of wiring was found on {images} images; {len(document['tried'])} ways of asking were tried."
        ]
    return [finding_sentence(each) for each in document["findings"]]


def finding_sentence(finding: Finding) -> str:
    """A finding in words: what is wrong, what it costs, what to do."""
    text = finding["change"][:1].upper() + finding["change"][1:].rstrip(".")
    if finding["after"] is not None:
        low, high = finding["interval"]
        text += f": AP {finding['before']:.3f} -> {finding['after']:.3f} ({low:+.3f} to {high:+.3f})"
    return f"{text}. Fix: {finding['fix']}"


def numbers(document: Document) -> dict[str, Headline]:
    """For comparing runs."""
    return {
        "findings": Headline(len(document["findings"])),
        "before": Headline(document["before"]),
        "images": Headline(document["images"]),
    }
