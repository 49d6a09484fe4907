"""One question of a doctor run asked again. It is found by its rows, since what is asked was planned as it went."""

from misdetect.data.dataset import Dataset
from misdetect.engine.requests import Case
from misdetect.engine.store import Run
from misdetect.nouns.protocols import Detector
from misdetect.said.errors import BadData
from misdetect.studies.contract import Document
from misdetect.studies.doctor.study import asked, rebuild
from misdetect.studies.replay import replay_case

_WHICH = """SELECT case_index, "case", query, place, image FROM rows WHERE kind IN ('answer', 'image') AND ("case" = $1
OR CAST(case_index AS VARCHAR) = $1) LIMIT 1"""


def replay(run: Run, data: Dataset, case: str, detector: Detector) -> Document:
    """Ask ``detector`` again about ``case`` (its name, or its number) of ``run``."""
    found = run.query(_WHICH, [case]).to_pylist()
    if not found:
        raise BadData(f"{run.address} has no case {case!r}; `misdetect ledger {run.address}` lists them.")
    row, study = found[0], rebuild(run, data)
    image = study.chosen()[row["place"]]
    question = Case(row["case_index"], row["case"], (row["query"], row["place"], image))
    return replay_case(run, study, question, asked(detector, study.how))
