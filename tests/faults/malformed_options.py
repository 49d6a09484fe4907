"""Options, specs and streams: values out of range, not numbers, far too many; specs that are none; nowhere to print to.

Options that have limits or a type are read from the settings of each study, so a new one is tried too.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from malformed_case import Case
from malformed_world import (
    bikes_document,
    bikes_spec,
    coco,
    coco_document,
    mine,
    photo,
    photos,
    results_document,
    score_command,
)

from misdetect.nouns.settings import Setting, settings_of


def _settings() -> dict[str, Any]:
    from misdetect.pools.settings import PoolSettings
    from misdetect.studies.attack.settings import AttackSettings
    from misdetect.studies.confusion.settings import ConfusionSettings
    from misdetect.studies.detect.study import DetectSettings
    from misdetect.studies.doctor.settings import DoctorSettings
    from misdetect.studies.explain.settings import ExplainSettings
    from misdetect.studies.fuzz.settings import FuzzSettings
    from misdetect.studies.scan.settings import ScanSettings
    from misdetect.studies.score.settings import ScoreSettings
    from misdetect.studies.verify.settings import VerifySettings
    from misdetect.suites.checkup.settings import CheckupSettings

    return {
        "checkup": CheckupSettings,
        "pool": PoolSettings,
        "confusion": ConfusionSettings,
        "detect": DetectSettings,
        "explain": ExplainSettings,
        "fuzz": FuzzSettings,
        "scan": ScanSettings,
        "score": ScoreSettings,
        "attack": AttackSettings,
        "doctor": DoctorSettings,
        "verify": VerifySettings,
    }


def _command(verb: str, folder: Path) -> list[str]:
    """``verb`` with what it needs, ready for one more option."""
    data = coco(folder, coco_document())
    if verb == "score":
        return score_command(folder, results_document())
    out = ["--out", str(folder / "out")]
    if verb == "pool":
        return ["pool", "--data", data, *out]
    if verb == "doctor":
        data = coco(folder, _six_images(folder))
    detector = mine(folder)
    if verb == "attack":
        (folder / "mine.py").write_text((folder / "mine.py").read_text() + GRADIENT)
        out += ["--transfer", "none"]  # no other detector is loaded
    if verb == "verify":
        data = bikes_spec(folder, bikes_document())
        (folder / "mine.py").write_text(
            (folder / "mine.py").read_text().replace("dog", "bell").replace("cat", "saddle")
        )
    return [verb, "--detector", detector, "--data", data, *out]


GRADIENT = """
    def gradient(self, images, truths, loss):
        return [0.0] * len(images), [image * 0.0 for image in images]
"""


def _six_images(folder: Path) -> dict[str, Any]:
    """Three times the usual ones: doctor wants six."""
    document = coco_document()
    for i in range(3, 7):
        photo(folder / "images" / f"{i}.png")
        document["images"].append(document["images"][0] | {"id": i, "file_name": f"{i}.png"})
        document["annotations"].append(document["annotations"][0] | {"id": 20 + i, "image_id": i})
    return document


def _kinds(setting: Setting) -> set[Any]:
    """The types of the setting; ``tuple`` and that of its values for one that takes several."""
    parts = get_args(setting.type) if get_origin(setting.type) is not tuple else ()
    found = set(parts or (setting.type,))
    return found | {kind for part in found if get_origin(part) is tuple for kind in (tuple, *get_args(part))}


def _bad_values(setting: Setting) -> Iterator[str]:
    """Values that no option of this type and range may take."""
    kinds = _kinds(setting)
    if setting.choices:
        yield from ("", "nothing-like-it", "\x1b[31m", setting.choices[0].upper())
    elif kinds & {int, float}:
        yield from ("", "seven", "nan", "inf", "-inf", "1e999", "0x10", "\x1b[2J", "9" * 5_000)
        yield "1,nan" if tuple in kinds else "1,2"
        if float not in kinds:
            yield from ("1.5", "1e3")
        if setting.range is not None:
            if setting.range.low is not None:
                yield f"{setting.range.low - 1:g}"
            if setting.range.high is not None:
                yield from (f"{setting.range.high + 1:g}", "1e308" if float in kinds else "99999999999999999999")
    elif bool in kinds:
        yield "maybe"


def setting_cases() -> Iterator[Case]:
    for verb, settings in _settings().items():
        for setting in settings_of(settings):
            if setting.decides == "python" or setting.name == "out":
                continue
            for value in _bad_values(setting):

                def make(folder: Path, verb: str = verb, option: str = setting.option, value: str = value) -> list[str]:
                    return [*_command(verb, folder), f"{option}={value}"]

                yield Case("options", f"{verb} {setting.option}={value[:30]!r}", make)


_ALL = 10**20
HUGE: dict[str, tuple[str, str, int]] = {
    "detect --limit": ("detect", f"--limit={_ALL}", 0),
    "detect --batch": ("detect", f"--batch={_ALL}", 0),
    "detect --queries": ("detect", f"--queries={_ALL}", 0),
    "detect --timeout": ("detect", "--timeout=1e300", 0),
    "attack --limit": ("attack", f"--limit={_ALL}", 0),
    "attack --ladder": ("attack", f"--ladder={10**12}", 0),
    "attack --pictures": ("attack", f"--pictures={10**12}", 0),
    "attack --seed": ("attack", f"--seed={_ALL}", 0),
    "doctor --limit": ("doctor", f"--limit={_ALL}", 0),
    "doctor --seed": ("doctor", f"--seed={_ALL}", 0),
    "verify --limit": ("verify", f"--limit={_ALL}", 0),
    "verify --pictures": ("verify", f"--pictures={10**12}", 0),
    "verify --seed": ("verify", f"--seed={_ALL}", 0),
    "confusion --listed": ("confusion", f"--listed={10**12}", 0),
    "confusion --pictures": ("confusion", f"--pictures={10**12}", 0),
    "explain --limit": ("explain", f"--limit={_ALL}", 0),
    "explain --regions": ("explain", f"--regions={10**12}", 0),
    "explain --pictures": ("explain", f"--pictures={10**12}", 0),
    "explain --seed": ("explain", f"--seed={_ALL}", 0),
    "score --limit": ("score", f"--limit={_ALL}", 0),
    "score --max-detections": ("score", f"--max-detections={_ALL}", 0),
    "score --tide-cap": ("score", f"--tide-cap={_ALL}", 0),
    "pool --few": ("pool", f"--few={_ALL}", 0),
    "pool --min-side": ("pool", f"--min-side={_ALL}", 2),
    "scan --pairs": ("scan", f"--pairs={10**12}", 0),
    "scan --step": ("scan", f"--step={10**12}", 0),
    "scan --seed": ("scan", f"--seed={_ALL}", 0),
    "scan --object": ("scan", f"--object={_ALL}", 2),
    "fuzz --queries": ("fuzz", f"--queries={10**12}", 0),
    "fuzz --per-object": ("fuzz", f"--per-object={10**12}", 0),
    "fuzz --backgrounds": ("fuzz", f"--backgrounds={10**12}", 0),
    "fuzz --seed": ("fuzz", f"--seed={_ALL}", 0),
    "fuzz --corner": ("fuzz", "--corner=1e308", 0),
    "fuzz --usd": ("fuzz", "--usd=1e308", 0),
    "fuzz --minutes": ("fuzz", "--minutes=1e308", 0),
}


def huge_cases() -> Iterator[Case]:
    for name, (verb, option, code) in HUGE.items():

        def make(folder: Path, verb: str = verb, option: str = option) -> list[str]:
            return [*_command(verb, folder), option]

        # far more than there is of it is all of it; what cannot mean anything is refused
        yield Case("huge", name, make, (code, 2), ("out",))
    for spec in ("rooms:val", "bikes:val"):
        for option in ("count", "size", "seed"):
            for value in (10**12, 10**30, 2**63, "9" * 5_000):
                make = lambda f, s=f"{spec},{option}={value}": ["data", s, "--limit", "1"]  # noqa: E731
                yield Case("huge", f"{spec},{option}={str(value)[:20]}", make, (0, 2) if option == "seed" else (2,))
    yield Case("huge", "rooms:val,count=10**12, all", lambda f: ["data", f"rooms:val,count={10**12}"])
    yield Case(
        "huge", "a box of 1e308 from a detector", lambda f: _answers(f, "[[0, 0, 1e308, 1e308]]"), (0, 3), ("out",)
    )
    for name, boxes in {
        "nan": "[[0, 0, float('nan'), 5]]",
        "infinity": "[[0, 0, float('inf'), 5]]",
        "-1e308": "[[-1e308, -1e308, 1e308, 1e308]]",
        "10**400": "[[0, 0, 10**400, 5]]",
        "words": "[['a', 'b', 'c', 'd']]",
        "three": "[[1, 2, 3]]",
        "a generator": "(x for x in range(4))",
        "text": "'boxes'",
        "nothing": "None",
    }.items():
        codes = (0,) if name == "-1e308" else (3,)
        yield Case("huge", f"a box of {name} from a detector", lambda f, b=boxes: _answers(f, b), codes, ("out",))


def _answers(folder: Path, boxes: str) -> list[str]:
    spec = mine(folder)
    path = folder / "mine.py"
    path.write_text(path.read_text().replace("[[4, 6, 24, 30]]", boxes))
    data = coco(folder, coco_document())
    return ["explain", "--detector", spec, "--data", data, "--out", str(folder / "out"), "--no-cache"]


# Specs
SPECS: dict[str, str] = {
    "": "Expected a spec",
    ":": "Expected a spec",
    "::": "",
    " ": "",
    "onxx:m.onnx": "onnx",
    "zooo:yolox": "zoo",
    "m.onnx": "onnx:",
    "m.pth": "",
    "detector.py": "python:",
    "C:\\models\\m.onnx": "",
    "zoo": "zoo:",
    "zoo:": "",
    "zoo:yolo": "yolox",
    "zoo:yolox,": "",
    "zoo:yolox,scor=0.5": "scor.*score",
    "zoo:yolox,score=": "",
    "zoo:yolox,score=nan": "",
    "zoo:yolox,score=inf": "",
    "zoo:yolox,score=2": "",
    "zoo:yolox,score=0.5,score=0.6": "twice",
    "zoo:yolox,weights=": "",
    "zoo:yolox,weights=none.safetensors": "none.safetensors",
    "zoo:yolox,=1": "",
    "torchvision:": "",
    "torchvision:nothing": "",
    "torchvision:ssd300_vgg16,wieghts=hub": "wieghts.*weights",
    "torchvision:fasterrcnn_resnet50_fpn": "weights",
    "torchvision:fasterrcnn_resnet50_fpn,weights=none.pth": "none.pth",
    "torchvision:fasterrcnn_resnet50_fpn,weights=random,classes=99999999999": "",
    "torchvision:fasterrcnn_resnet50_fpn,weights=random,names=coco,batch=0": "batch",
    "torchvision:fasterrcnn_resnet50_fpn,weights=random,names=coco,device=mars": "mars",
    "hf:": "",
    "hf:none/../..": "",
    "hf:/nowhere": "nowhere",
    "hf:none,scoer=1": "scoer.*score",
    "yolox:": "",
    "yolox:none.pth": "none.pth",
    "yolox:none.pth,sieze=4": "none.pth",
    "onnx:": "",
    "onnx:none.onnx": "none.onnx",
    "onnx:none.onnx,decodr=yolox": "none.onnx",
    "onnx:none.onnx,decoder=yolox,decoder=yolov8": "twice",
    "http:": "",
    "http://": "",
    "http:///x": "",
    "http://[": "",
    "http://127.0.0.1:99999/": "",
    "http://127.0.0.1:9/,formt=x": "formt.*format",
    "http://127.0.0.1:9/,format=nothing": "nothing",
    "http://user:secret@127.0.0.1:9/": "",
    "http://127.0.0.1:9/,concurrency=0": "concurrency",
    "http://127.0.0.1:9/,timeout=nan": "timeout",
    "http://127.0.0.1:9/,retries=99999999999999999999": "retries",
    "http://127.0.0.1:9/,max_requests=-1": "max_requests",
    "rekognition:,regoin=x": "regoin",
    "azure-vision:": "",
    "max:": "",
    "python:": "",
    "python::": "",
    "python:os": "",
    "python:none:Mine": "none",
    "python:os:nothing": "nothing",
    "python:none.py:Mine": "none.py",
    "predictions:": "",
    "predictions:none.json": "",
    "glassbox:": "",
    "glassbox:none": "data=",
    "glassbox:nothing,data=rooms:val": "nothing",
    "glassbox:none,data=": "",
    "glassbox:none,data=nothing:x": "nothing",
    "rooms:val": "",
}
DATA_SPECS: dict[str, str] = {
    "": "Expected a spec",
    ":": "Expected a spec",
    "cocoa:x.json": "coco",
    "instances.json": "coco:",
    "data.yaml": "yolo:",
    "photos": "",
    "coco": "",
    "coco:": "",
    "coco:.": "",
    "coco:none.json": "none.json",
    "coco:none.json,image=x": "image.*images",
    "coco:none.json,images=x,images=y": "twice",
    "coco:none.json,images": "",
    "voc:": "",
    "voc:none": "none",
    "voc:.,splt=x": "splt.*split",
    "voc:.,split=../x": "",
    "voc:.,origin=2": "origin",
    "yolo:": "",
    "yolo:none.yaml,split=dev": "split",
    "yolo:none.yaml,spilt=val": "spilt.*split",
    "delftbikes:none.json,part=any": "part.*parts",
    "folder:": "",
    "folder:none": "none",
    "folder:none,limit=1": "limit",
    "rooms:nothing": "nothing",
    "rooms:val,cuont=3": "cuont.*count",
    "rooms:val,count=": "count",
    "rooms:val,count=nan": "count",
    "rooms:val,count=0": "count",
    "rooms:val,count=-1": "count",
    "rooms:val,count=1.5": "count",
    "rooms:val,count=1_0": "count",
    "rooms:val,count=٣": "count",
    "rooms:val,size=1": "size",
    "rooms:val,seed=-1": "seed",
    "bikes:val,count=3,count=4": "twice",
    "zoo:yolox": "",
    "http://example.org/data.json": "",
    "memory:": "",
}


def spec_cases() -> Iterator[Case]:
    long = {"zoo:" + "x" * 100_000: "", "x" * 100_000: "", "zoo:yolox" + ",a=1" * 20_000: "", "a:" * 50_000: ""}
    for spec, says in {**SPECS, **long}.items():

        def detector(folder: Path, spec: str = spec) -> list[str]:
            out = ["--out", str(folder / "out.json"), "--no-cache"]
            return ["detect", f"--detector={spec}", "--data", photos(folder), *out]

        yield Case("specs", f"detector {spec[:60]!r} ({len(spec)})", detector, (2,), says=says)
    for spec, says in {**DATA_SPECS, **long}.items():
        yield Case("specs", f"data {spec[:60]!r} ({len(spec)})", lambda f, s=spec: ["data", "--", s], (2,), says=says)
        yield Case("specs", f"--truth {spec[:60]!r} ({len(spec)})", lambda f, s=spec: _scored(f, s), (2,), says=says)


def _scored(folder: Path, truth: str) -> list[str]:
    arguments = score_command(folder, results_document())
    arguments[2] = truth
    return [arguments[0], f"--truth={truth}", *arguments[3:]]


LINES: dict[str, list[str]] = {
    "an option twice": ["data", "rooms:val,count=2", "--limit", "1", "--limit", "2"],
    "json twice": ["data", "none:x", "--json", "--json"],
    "an option without a value": ["data", "rooms:val,count=2", "--limit"],
    "an unknown option": ["data", "rooms:val,count=2", "--limti", "1"],
    "an unknown verb": ["detcet"],
    "a second argument": ["data", "rooms:val,count=2", "rooms:val"],
    "no argument": ["data"],
    "no run": ["show"],
    "no case": ["replay", "none"],
    "one run to compare": ["compare", "none"],
    "limit of nothing": ["data", "rooms:val,count=2", "--limit="],
    "limit 0": ["data", "rooms:val,count=2", "--limit", "0"],
    "limit below 0": ["data", "rooms:val,count=2", "--limit=-1"],
    "limit half": ["data", "rooms:val,count=2", "--limit", "0.5"],
    "limit nan": ["data", "rooms:val,count=2", "--limit", "nan"],
    "seed below 0": ["zoo", "train", "yolox", "--seed=-1", "--steps", "1"],
    "seed huge": ["zoo", "train", "yolox", f"--seed={10**30}", "--steps", "1"],
    "steps 0": ["zoo", "train", "yolox", "--steps", "0"],
    "unknown training": ["zoo", "train", "nothing"],
    "unknown sub-verb": ["zoo", "trian"],
    "out in nowhere": ["data", "rooms:val,count=1", "--out", ["none/none", "x"][0] + "/a" * 3_000],
    "out without a name": ["data", "rooms:val,count=1", "--out="],
    "out is /": ["data", "rooms:val,count=1", "--out=/"],
    "out is .": ["data", "rooms:val,count=1", "--out=."],
    "out is ..": ["data", "rooms:val,count=1", "--out=.."],
    "out is /dev/null": ["data", "rooms:val,count=1", "--out=/dev/null"],
    "out below a file": ["data", "rooms:val,count=1", "--out=/dev/null/x"],
    "ledger of nothing": ["ledger", "none"],
    "ledger, sql that reads": ["ledger", "--sql", "SELECT * FROM read_csv('/etc/passwd')"],
    "ledger, sql that writes": ["ledger", "--sql", "COPY (SELECT 1) TO 'owned.csv'"],
    "ledger, sql that installs": ["ledger", "--sql", "INSTALL httpfs; LOAD httpfs"],
    "ledger, sql that attaches": ["ledger", "--sql", "ATTACH 'owned.db'"],
    "ledger, sql that allows": ["ledger", "--sql", "SET enable_external_access = true"],
    "ledger, sql without end": ["ledger", "--sql", "SELECT " + "(" * 20_000],
    "ledger, no query": ["ledger", "--sql", ""],
    "ledger, comment": ["ledger", "--sql", "-- nothing"],
    "ledger, out of another kind": ["ledger", "--out", "x.xlsx"],
    "ledger, out without ending": ["ledger", "--out", "x"],
    "ledger, out in nowhere": ["ledger", "--out", "none/x.csv"],
}


def line_cases() -> Iterator[Case]:
    for name, arguments in LINES.items():
        codes = (0, 2) if name in ("an option twice",) else (2,)
        yield Case("lines", name, lambda f, a=arguments: list(a), codes)
    text = os.fsdecode(b"\xff\xfe")
    for name, line in {
        "data": ["data", f"coco:{text}"],
        "--out": ["data", "rooms:val,count=1", "--out", text],
        "--detector": ["detect", "--detector", text, "--data", "rooms:val", "--out", "x"],
    }.items():
        yield Case("lines", f"not utf-8: {name}", lambda f, a=line: list(a), (2,))


# Streams
def stream_cases() -> Iterator[Case]:
    lines = {
        "data": (["data", "rooms:val,count=2"], 0, ()),
        "data --json": (["data", "rooms:val,count=2", "--json"], 0, ()),
        "an error": (["data", "none:x"], 2, ()),
        "an error --json": (["data", "none:x", "--json"], 2, ()),
        "no such verb": (["detcet"], 2, ()),
        "--help": (["--help"], 0, ()),
        "--version": (["--version"], 0, ()),
        "detectors": (["detectors"], 0, ()),
        "data --out": (["data", "rooms:val,count=2", "--out", "made"], 0, ("made",)),
    }
    for name, (arguments, code, writes) in lines.items():
        printed = code == 0 or "--json" in arguments

        def make(folder: Path, arguments: list[str] = arguments) -> list[str]:
            return list(arguments)

        full = (2,) if printed else (code,)
        yield Case("streams", f"full stdout: {name}", make, full, writes, streams=">/dev/full")
        yield Case("streams", f"closed stdout: {name}", make, full, writes, streams=">&-")
        yield Case("streams", f"full stderr: {name}", make, (code,), writes, streams="2>/dev/full")
        yield Case("streams", f"closed stderr: {name}", make, (code,), writes, streams="2>&-")
        yield Case("streams", f"both closed: {name}", make, full, writes, streams=">&- 2>&-")
        yield Case("streams", f"all closed: {name}", make, full, writes, streams="<&- >&- 2>&-")
        yield Case("streams", f"nobody reads: {name}", make, (code,), writes, streams="| true; exit ${PIPESTATUS[0]}")
        yield Case("streams", f"ascii: {name}", make, (code,), writes, streams="; exit $?")


def option_cases() -> Iterator[Case]:
    yield from setting_cases()
    yield from huge_cases()
    yield from spec_cases()
    yield from line_cases()
    yield from stream_cases()
