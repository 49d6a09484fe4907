"""Everything a scan says, as one document: what is harmed, Table I, its control, the scene, effects, pairs.

A function of the run directory alone: neither detector nor data is needed, and what has been done of an unfinished run
is described as far as it goes.
"""

from misdetect.drawing.words import number, within
from misdetect.engine.store import Run
from misdetect.metrics.bootstrap import REPEATS
from misdetect.nouns.labels import known_classes
from misdetect.nouns.open_names import names_in
from misdetect.studies.contract import Document, Headline
from misdetect.studies.scan import interference, phenomena
from misdetect.studies.scan.adaptive import uncertainty
from misdetect.studies.scan.settings import ScanSettings, settings_of
from misdetect.studies.scan.table import SCENE, table_one


def document(run: Run) -> Document:
    """The JSON-able document of ``run``."""
    how = settings_of(run)
    asked = run.query("SELECT count(*) AS rows, count(DISTINCT background) AS images FROM rows").to_pylist()[0]
    pairs, apart = phenomena.per_pair(run, how.tau), interference.taken_apart(run)
    found = {
        **table_one(run, how),
        **phenomena.effects(run),
        "positions": run.settings["positions"],
        "queries": asked["rows"] + asked["images"],
        "stability": phenomena.stability(run, how.step),
        "outcomes": phenomena.outcomes(run),
        "distance": phenomena.over_distance(run),
        "suppression": phenomena.losses(run, "fate"),
        "mechanisms": phenomena.losses(run, "mechanism"),
        "adaptive": uncertainty(run, how.average),
        "interference": None if apart is None else interference.verdicts(apart),
        "pairs": pairs,
        "without_detections": [pair["background"] for pair in pairs if pair["detections"] == 0],
        "settings": {"resamples": REPEATS},
    }
    if not common_classes(run):  # then no change is harmful, but none is harmless either
        found["harm"] = None
    notes = _notes(found, how, common_classes(run))
    if phenomena.hides_faint(run, how.faint[0]):
        notes.append(
            f"What was lost never left a score of {how.faint[0]:g} or less behind: the detector may hide such scores, "
            "and then flicker cannot be told from loss; have it report them, or put --score above its own threshold."
        )
    return {**found, "notes": notes}


def common_classes(run: Run) -> bool:
    """Whether the detector has any class of the data."""
    detector, data = run.about["identity"]["detector"], run.about["identity"]["data"]["names"]
    return bool(known_classes(names_in(detector), data).any())


def _notes(found: Document, how: ScanSettings, common: bool) -> list[str]:
    notes, pairs = [], found["pairs"]
    if len(pairs) < how.wanted:
        notes.append(f"Only {len(pairs)} of {how.wanted} pairs could be drawn.")
    if pairs and len(found["without_detections"]) == len(pairs):
        notes.append("No detections on any of the clean images at this score, so nothing can be affected.")
    if not common:
        notes.append("The detector and the data have no class in common: what harms cannot be told.")
    if found["interference"] == []:
        notes.append("No wrong detection lies on an object of a class that the detector knows.")
    return notes


def sentences(document: Document) -> list[str]:
    """What was found, the most important first."""
    found = _harm_sentence(document)
    tau = list(document["affected"])[len(document["affected"]) // 2]
    every, clear = (document[row][tau] for row in ("affected", "no_occlusion"))
    if every is not None:
        there = "" if clear is None else f", and at {clear:.1f} % of those where it covers nothing"
        found.append(f"The scene is affected (S < {tau}) at {every:.1f} % of positions{there}.")
    scene = document[SCENE][tau]
    if scene is not None:
        found.append(f"Without what is detected on the object's own parts: {scene:.1f} %.")
    return [*found, *document["notes"]]


def _harm_sentence(document: Document) -> list[str]:
    harm = document["harm"]
    if harm is None or harm["object"] is None:
        return []

    def told(name: str, unit: str = " %") -> str:
        return number(harm[name], 1) + unit + within(harm["intervals"][name], 0)

    sentence = f"The object does harm at {told('object')} of positions"
    if harm["control"] is None:
        return [f"{sentence}."]
    return [f"{sentence}, its control at {told('control')}: a difference of {told('difference', ' points')}."]


def numbers(document: Document) -> dict[str, Headline]:
    """For comparing runs: what harms, Table I's first and last row and the scene, in percent of the positions, and the
    same less the control, by τ."""
    found, harm, intervals = {}, document["harm"], document["intervals"]
    parts = [("", document, intervals)]
    if document["difference"] is not None:
        parts.append(("difference.", document["difference"], intervals["difference"]))
    for prefix, rates, ranges in parts:
        key = "difference" if prefix else "object"
        if harm is not None:
            found[f"{prefix}harm"] = Headline(harm[key], harm["intervals"][key])
        for row in ("affected", "no_occlusion", SCENE):
            for tau, value in rates[row].items():
                found[f"{prefix}{row}.{tau}"] = Headline(value, ranges[row][tau])
    return found
