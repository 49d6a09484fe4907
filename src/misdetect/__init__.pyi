from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec

from misdetect.api.asserts import assert_no_hallucination as assert_no_hallucination
from misdetect.api.asserts import assert_score as assert_score
from misdetect.api.asserts import assert_stable as assert_stable
from misdetect.api.check import check as check
from misdetect.api.compare import compare as compare
from misdetect.api.export import export as export
from misdetect.api.ledger import make_ledger as ledger
from misdetect.api.pool import pool as pool
from misdetect.api.run import Run as Run
from misdetect.api.studies import DataLike, DetectorLike
from misdetect.app.serving import serve as serve
from misdetect.data import load_data as load_data
from misdetect.detectors import load_detector as load_detector
from misdetect.nouns.detections import Detections as Detections
from misdetect.nouns.detections import Truth as Truth
from misdetect.nouns.open_names import OpenNames as OpenNames
from misdetect.said.errors import MisdetectError as MisdetectError
from misdetect.studies.attack.settings import AttackSettings
from misdetect.studies.confusion.settings import ConfusionSettings
from misdetect.studies.detect.study import DetectSettings
from misdetect.studies.doctor.settings import DoctorSettings
from misdetect.studies.explain.settings import ExplainSettings
from misdetect.studies.fuzz.settings import FuzzSettings
from misdetect.studies.running import Running
from misdetect.studies.scan.settings import ScanSettings
from misdetect.studies.score.settings import ScoreSettings
from misdetect.studies.verify.settings import VerifySettings
from misdetect.suites.checkup import checkup as checkup
from misdetect.suites.checkup import open_any as open
from misdetect.suites.harden import harden as harden

__all__ = [
    "Detections",
    "MisdetectError",
    "OpenNames",
    "Run",
    "Truth",
    "assert_no_hallucination",
    "assert_score",
    "assert_stable",
    "attack",
    "check",
    "checkup",
    "compare",
    "confusion",
    "detect",
    "doctor",
    "explain",
    "export",
    "fuzz",
    "harden",
    "ledger",
    "load_data",
    "load_detector",
    "open",
    "pool",
    "scan",
    "score",
    "serve",
    "verify",
]

P = ParamSpec("P")

def _asked(settings: Callable[P, Running]) -> Callable[Concatenate[DetectorLike, DataLike, P], Run]: ...
def _scored(settings: Callable[P, ScoreSettings]) -> Callable[Concatenate[str | Path | Run, DataLike, P], Run]: ...

attack = _asked(AttackSettings)
confusion = _asked(ConfusionSettings)
detect = _asked(DetectSettings)
doctor = _asked(DoctorSettings)
explain = _asked(ExplainSettings)
fuzz = _asked(FuzzSettings)
scan = _asked(ScanSettings)
score = _scored(ScoreSettings)
verify = _asked(VerifySettings)
