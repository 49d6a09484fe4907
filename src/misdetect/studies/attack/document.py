"""What an attack run says: AP and success of every attack, the ladder, confusion, ablations, mechanisms, a verdict.

All of it is computed from the rows. ``success`` is always over objects that were found before. Where the ladder breaks,
the verdict says at which rung, and never that the detector withstood the attack.
"""

from collections import Counter

import numpy as np

from misdetect.engine.store import RUN_JSON, Run
from misdetect.metrics.confusion import Confusion, confusion
from misdetect.metrics.mechanisms import MECHANISMS
from misdetect.nouns.boxes import Ints
from misdetect.studies.attack.ladder import STRONG, UNCHECKED, ladder, rungs_of
from misdetect.studies.attack.plan import CLEAN, FGSM, NOISE, TRANSFER, from_afar, main_attacks, rungs
from misdetect.studies.attack.results import Results
from misdetect.studies.attack.rows import REPORTED
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.attack.verdict import verdict
from misdetect.studies.conditions import VANILLA
from misdetect.studies.conditions_read import Boxes, Objects
from misdetect.studies.contract import Document, Headline


def settings_of(run: Run) -> AttackSettings:
    """How ``run`` was made and is shown."""
    known = run.chosen
    return AttackSettings.of({**known, TRANSFER: known.get(TRANSFER) or "none"})


def document(run: Run) -> Document:
    """The JSON-able document of ``run``."""
    how = settings_of(run)
    results = Results(run, how)
    losses = [attack.name for attack in main_attacks(how)[2:]]
    objects = results.objects(CLEAN)
    some, inside = bool(results.images), bool(results.images) and run.settings["inside"]
    before = results.scores(results.boxes(CLEAN)) if some else {"AP": None, "AP50": None, "intervals": {}}
    found: Document = {
        "images": len(results.images),
        "objects": len(objects.right),
        "right": int(objects.right.sum()),
        "clean": before | {"success": 0.0, "missed": int((~objects.found).sum())},
        "attacks": {name: _attack(results, name) for name in results.conditions if some},
        "ladder": _ladder(run, results, how),
        "distance": _distance(results, how),
        "dcm": {name: _matrix(results, results.boxes(name).above(how.score)) for name in (CLEAN, *losses) if some},
        "clsaval": {name: _ablations(results, name) for name in losses if inside},
        "mechanisms": _mechanisms(results, [CLEAN, *results.conditions]) if inside else {},
        "transfer": how.surrogate is not None,
    }
    found["verdict"] = verdict(found, losses)
    found["notes"] = _notes(run, results, how)
    return found


def _attack(results: Results, name: str) -> Document:
    objects = results.objects(name)
    success, ends = results.success(objects)
    scores = results.scores(results.boxes(name), attacked=True)
    scores["intervals"] = scores["intervals"] | {"success": ends}
    lost = objects.lost
    about = [row for row in results.about if row["condition"] == name and row["image"] in set(results.images)]
    climbs = [row["losses"] for row in about if row["losses"] and len(row["losses"]) > 1]
    return scores | {
        "success": success,
        "lost": int(lost.sum()),
        "renamed": int((lost & (objects.became != "")).sum()),
        "found_anew": int((~objects.right & objects.found).sum()),
        "change": max((row["change"] for row in about), default=None),
        "loss_rises": None if not climbs else float(np.mean([each[-1] > each[0] for each in climbs])),
        **({} if name != "mtd" else {"chosen": dict(sorted(Counter(results.chosen.values()).items()))}),
    }


def _ladder(run: Run, results: Results, how: AttackSettings) -> Document | None:
    """The rungs, on the images that all of them are done with."""
    if not how.ladder:
        return None
    few, many, starts, far = (rung.name for rung in rungs(how))
    main = main_attacks(how)[2].name
    names = [NOISE, FGSM, few, main, many, starts, far]
    borrowed = _transfer_run(run)
    sources = dict.fromkeys(names, results) | ({TRANSFER: Results(borrowed, how)} if borrowed else {})
    done = {name: _images_of(source.run, name) for name, source in sources.items()}
    if TRANSFER in done and not done[TRANSFER]:
        del sources[TRANSFER]
    wanted = set(results.images).intersection(*(done[name] for name in sources))
    lost = {name: _lost(source.run, name, wanted, results) for name, source in sources.items()} if wanted else {}
    steps = [row for row in results.about if row["condition"] == main and row["image"] in wanted and row["losses"]]
    flat = sum(row["flat"] for row in steps) / max(sum(len(row["losses"]) for row in steps), 1)
    ordered = rungs_of(NOISE, FGSM, few, main, many, starts, far, TRANSFER)
    found = ladder(ordered, lost, flat, confidence=how.confidence, seed=how.seed)
    return {"loss": main, "images": len(wanted), "transfer": run.settings.get(TRANSFER), **found}


def _transfer_run(run: Run) -> Run | None:
    path = run.path / TRANSFER
    return Run.open(path) if (path / RUN_JSON).is_file() else None


def _images_of(run: Run, condition: str) -> set[str]:
    rows = run.query("SELECT DISTINCT image FROM rows WHERE condition = ?", [condition]).to_pylist()
    return {row["image"] for row in rows}


def _lost(run: Run, condition: str, images: set[str], results: Results) -> Objects:
    """The objects of ``images`` under ``condition`` of ``run``, in one order for all conditions."""
    rows = run.query(
        "SELECT image, id, \"right\", found FROM rows WHERE kind = 'object' AND condition = ?", [condition]
    ).to_pylist()
    place = {image: i for i, image in enumerate(results.images)}
    rows = sorted((r for r in rows if r["image"] in images), key=lambda r: (place[r["image"]], r["id"]))
    nothing = np.full(len(rows), "", dtype=object)
    image = np.array([place[row["image"]] for row in rows], dtype=np.int64)
    right, found = (np.array([row[name] for row in rows], dtype=np.bool_) for name in ("right", "found"))
    return Objects(image, right, found, nothing, nothing)


def _distance(results: Results, how: AttackSettings) -> list[Document]:
    """Success against the distance that is kept from all objects; images without pixels so far away are left out."""
    if how.where != "outside":
        return []
    found = []
    main = main_attacks(how)[2].name
    for distance, name in [(0, main), *((attack.where.distance, attack.name) for attack in from_afar(how))]:
        about = [row for row in results.about if row["condition"] == name and row["pixels"]]
        reached = {row["image"] for row in about} & set(results.images)
        if reached:
            success, ends = results.success(results.objects(name, reached))
            pixels = float(np.mean([row["pixels"] for row in about]))
            entry = {"distance": distance, "images": len(reached), "success": success, "interval": ends}
            found.append(entry | {"pixels": pixels})
    return found


def _matrix(results: Results, boxes: Boxes) -> Document:
    """The Detection Confusion Matrix of ``boxes``, in the paper's policy; without background scores as reported."""
    mode = "hard" if boxes.shows_background else "reported"
    found = confusion(
        results.truth,
        boxes.columns,
        iou_threshold=results.how.loc,
        mode=mode,  # type: ignore[arg-type]
        background=boxes.background if mode == "hard" else None,
        best=boxes.best if mode == "hard" else None,
    )
    return {
        "labels": list(found.labels),
        "counts": found.counts.astype(int).tolist(),
        "confidence": np.round(found.confidence, 4).tolist(),
        "became": _became(results, found).tolist(),
        "mode": mode,
        **_where_objects_went(found),
    }


def _became(results: Results, found: Confusion) -> Ints:
    """Objects ``[C, C + 2]`` by class and what they were taken for: a class, background, or nothing at all."""
    truth, classes = results.truth, len(results.names)
    real = ~truth.crowd
    column = np.where(found.became < 0, classes + 1, found.became)
    cells = np.bincount(truth.label[real] * (classes + 2) + column[real], minlength=classes * (classes + 2))
    return cells.reshape(classes, classes + 2).astype(np.int64)


def _where_objects_went(found: Confusion) -> Document:
    """Of all classes together: objects, by what became of them; and detections on objects, by what they say."""
    foreground = found.counts[:-1]
    own = float(np.trace(foreground[:, :-1]))
    sunk = float(foreground[:, -1].sum())
    return {
        "objects": {
            name: int(getattr(found, name).sum()) for name in ("objects", "right", "confused", "sunk", "missed")
        },
        "on_objects": {"right": own, "background": sunk, "other": float(foreground.sum()) - own - sunk},
        "on_background": float(found.counts[-1].sum()),
    }


def _ablations(results: Results, condition: str) -> Document:
    """AP of each ablation, and the confusion of what the clean run reports."""
    names = results.variants(condition)
    found: Document = {}
    for name in names:
        if name.endswith(REPORTED):
            continue
        found[name] = results.scores(results.boxes(condition, name))
        if name + REPORTED in names:
            found[name]["dcm"] = _matrix(results, results.boxes(condition, name + REPORTED))
    return found if VANILLA in found else {}


def _mechanisms(results: Results, conditions: list[str]) -> Document:
    """By condition, the mechanisms of all objects that are not found."""
    found = {}
    for name in conditions:
        objects = results.objects(name)
        counted = Counter(objects.mechanism[~objects.found].tolist())
        found[name] = {mechanism: counted[mechanism] for mechanism in MECHANISMS}
    return found


def _notes(run: Run, results: Results, how: AttackSettings) -> list[str]:
    found = []
    if how.surrogate is not None:
        found.append(f"A transfer attack: gradients are those of {how.surrogate}. What it finds is a lower bound.")
    if 0 < how.eps < 1:
        found.append("An eps below 1 changes nothing: images are saved in whole colours.")
    empty = {r["image"] for r in results.about if r["pixels"] == 0 and r["condition"] == main_attacks(how)[2].name}
    if empty:
        found.append(f"{len(empty)} images have no pixels --where {how.where}, and stay as they are.")
    ignored = run.query(
        "SELECT count(*) AS n FROM rows WHERE kind = 'ignored' AND reason = 'unknown-class' AND condition = 'clean'"
    ).to_pylist()[0]["n"]
    if ignored:
        found.append(f"{ignored} objects are of classes that the detector does not have; they are not counted.")
    return found


def sentences(document: Document) -> list[str]:
    """What was found, the most important first: that the attack means nothing, or else what it did."""
    strength, *effects = document["verdict"]["says"]
    if effects and document["verdict"]["attack"] == STRONG:
        effects = [*effects, strength]
    elif effects and document["verdict"]["attack"] == UNCHECKED:  # a number that may be too good is not told alone
        effects = [f"{effects[0]} {strength}", *effects[1:]]
    else:
        effects = [strength, *effects]
    return [*effects, *document["notes"]]


def numbers(document: Document) -> dict[str, Headline]:
    """For comparing runs."""
    found = {}
    for name, entry in {"clean": document["clean"], **document["attacks"]}.items():
        for key in ("AP50", *(("success",) if name != "clean" else ())):
            found[f"{name}.{key}"] = Headline(entry[key], entry["intervals"].get(key))
    return found
