"""``score``: AP, AR and TIDE of predictions that are there already. No detector is asked.

AP and TIDE themselves are in ``metrics``. ``predictions`` is what can be scored, ``study`` finds the TIDE type of every
object and detection, ``rows`` are the columns of a run and the way back from them, ``document`` is what a run says,
``compare`` how AP differs between runs.
"""

from misdetect.studies.contract import Kind
from misdetect.studies.score.compare import compare
from misdetect.studies.score.document import document, ledger, numbers, sentences
from misdetect.studies.score.settings import ScoreSettings
from misdetect.studies.score.study import ScoreStudy, prepare, rebuild

SCORE = Kind("score", ScoreSettings, prepare, document, ledger, sentences, numbers, rebuild, compare, by_document=True)

__all__ = ["SCORE", "ScoreSettings", "ScoreStudy"]
